// Builds the adjacency list of an R-MAT graph with four backends, each in a process of its own, in turn, with one
// thread and with two: Holdfast, Boost.Interprocess, the standard containers, and Boost's containers with the default
// allocator.
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "adjacency/adjacency.hpp"
#include "command_line/command_line.hpp"
#include "support/environment.hpp"
#include "support/process.hpp"
#include "support/report.hpp"

namespace {

using bench::adjacency_outcome;
using bench::adjacency_workload;
using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

struct backend {
    const char* name;
    adjacency_outcome (*run)(const adjacency_workload&);
};
constexpr backend backends[] = {
    {"holdfast", bench::run_holdfast},
    {"interprocess", bench::run_interprocess},
    {"std", bench::run_std},
    {"boost_volatile", bench::run_boost_volatile},
};

struct options {
    bench::common_options common;
    adjacency_workload workload;
    std::vector<unsigned> threads{1, 2};
    std::string worker;  // the backend that this process is to run
};

/// What was measured of one backend with one number of threads.
struct measurements {
    bench::samples create;
    bench::samples build;
    bench::samples cpu;
    bench::samples durable;
    bench::samples both;
    std::uint64_t charged_bytes = 0;
};
using all_measurements = std::map<std::pair<unsigned, std::string>, measurements>;

int run_worker(const options& chosen) {
    for (const backend& one : backends) {
        if (chosen.worker == one.name) {
            const adjacency_outcome outcome = one.run(chosen.workload);
            const nlohmann::json fields{{"create_ms", outcome.create_ms}, {"build_ms", outcome.build_ms},
                                        {"cpu_ms", outcome.cpu_ms},       {"durable_ms", outcome.durable_ms},
                                        {"vertices", outcome.vertices},   {"edges", outcome.edges},
                                        {"checksum", outcome.checksum},   {"charged_bytes", outcome.charged_bytes}};
            fmt::print("{}\n", fields.dump());
            return 0;
        }
    }
    throw std::invalid_argument("no such backend: " + chosen.worker);
}

nlohmann::json run_in_process(const options& chosen, const char* name, unsigned threads) {
    const bench::workplace place(chosen.common.directory);
    const adjacency_workload& workload = chosen.workload;
    return nlohmann::json::parse(bench::run_self({"--worker", name,                                            //
                                                  "--worker-threads", std::to_string(threads),                 //
                                                  "--directory", place.path().string(),                        //
                                                  "--scale", std::to_string(workload.graph.scale),             //
                                                  "--edges", std::to_string(workload.graph.edges_per_vertex),  //
                                                  "--banks", std::to_string(workload.banks),                   //
                                                  "--file-size", std::to_string(workload.file_bytes),          //
                                                  "--seed", std::to_string(chosen.common.seed)}));
}

/// The result of every run must be the same graph.
class result_check {
public:
    void compare(const std::string& who, const nlohmann::json& outcome) {
        const auto sum = outcome.at("checksum").get<std::uint64_t>();
        const auto edges = outcome.at("edges").get<std::uint64_t>();
        if (first_.empty()) {
            first_ = who;
            checksum_ = sum;
            edges_ = edges;
        } else if (sum != checksum_ || edges != edges_) {
            throw std::runtime_error(
                fmt::format("{} built another graph ({} edges, checksum {:016x}) than {} ({}, {:016x})", who, edges,
                            sum, first_, edges_, checksum_));
        }
    }
    [[nodiscard]] std::uint64_t checksum() const noexcept { return checksum_; }

private:
    std::string first_;
    std::uint64_t checksum_ = 0;
    std::uint64_t edges_ = 0;
};

all_measurements measure(const options& chosen, result_check& check) {
    all_measurements all;
    for (const unsigned threads : chosen.threads) {
        for (unsigned round = 0; round < chosen.common.rounds; ++round) {
            for (const backend& one : backends) {
                const nlohmann::json outcome = run_in_process(chosen, one.name, threads);
                check.compare(one.name, outcome);
                measurements& found = all[{threads, one.name}];
                const auto build = outcome.at("build_ms").get<double>();
                const auto durable = outcome.at("durable_ms").get<double>();
                found.create.add(outcome.at("create_ms").get<double>());
                found.build.add(build);
                found.cpu.add(outcome.at("cpu_ms").get<double>());
                found.durable.add(durable);
                found.both.add(build + durable);
                found.charged_bytes = outcome.at("charged_bytes").get<std::uint64_t>();
            }
        }
    }
    return all;
}

void print(bench::report& out, const options& chosen, const all_measurements& all) {
    for (const unsigned threads : chosen.threads) {
        const double ours = all.at({threads, "holdfast"}).build.median();
        std::vector<bench::row> rows;
        for (const backend& one : backends) {
            const measurements& found = all.at({threads, one.name});
            rows.push_back(
                {bench::label("backend", one.name), bench::count("threads", threads),
                 bench::times("build_ms", found.build), bench::number("build_by_holdfast", found.build.median() / ours),
                 bench::times("build_cpu_ms", found.cpu), bench::times("build_and_durable_ms", found.both),
                 bench::number("durable_ms", found.durable.median()), bench::number("create_ms", found.create.median()),
                 bench::number("charged_mib", static_cast<double>(found.charged_bytes) / (1U << 20U))});
        }
        out.table(fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"), rows);
    }
    for (const unsigned threads : chosen.threads) {
        const measurements& ours = all.at({threads, "holdfast"});
        const auto times_faster = [&](const char* name) {
            return all.at({threads, name}).build.median() / ours.build.median();
        };
        out.goal_at_least(fmt::format("build with {} thread(s), times as fast as Boost.Interprocess", threads),
                          times_faster("interprocess"), 3.0, "x");
        out.goal_at_least(fmt::format("build with {} thread(s), times as fast as std", threads), times_faster("std"),
                          0.8, "x");
    }
}

void declare(command_line& app, options& chosen) {
    chosen.common.declare(app);
    app.add_option("--scale", chosen.workload.graph.scale, "2^scale vertices").show_default().range(4U, 30U);
    app.add_option("--edges", chosen.workload.graph.edges_per_vertex, "Edges a vertex")
        .show_default()
        .range(1U, 1'024U);
    app.add_option("--threads", chosen.threads, "Numbers of threads").show_default().range(1U, 256U);
    app.add_option("--banks", chosen.workload.banks, "Maps, each with a lock, where there are several threads")
        .show_default()
        .range(1U, 1U << 20U);
    app.add_option("--file-size", chosen.workload.file_bytes,
                   "Of Boost.Interprocess' sparse file (default: 256 bytes an edge, and 64 MiB)")
        .size(kilobyte::of_1024);
    app.add_option("--worker", chosen.worker, "Run this backend once, in this process").internal();
    app.add_option("--worker-threads", chosen.workload.threads, "Of the worker").internal();
}

int run(options chosen) {
    adjacency_workload& workload = chosen.workload;
    if (chosen.common.smoke) {
        workload.graph.scale = 10;
        chosen.common.rounds = 1;
    }
    workload.graph.seed = chosen.common.seed;
    workload.directory = chosen.common.directory;
    if (workload.file_bytes == 0) {
        const std::uint64_t edges = (std::uint64_t{1} << workload.graph.scale) * workload.graph.edges_per_vertex;
        workload.file_bytes = edges * 256 + (std::uint64_t{64} << 20U);
    }
    if (!chosen.worker.empty()) {
        return run_worker(chosen);
    }
    bench::report out("adjacency_bench", chosen.common);
    out.begin({{"generator", "R-MAT a=0.57 b=0.19 c=0.19 d=0.05, vertices scrambled"},
               {"scale", workload.graph.scale},
               {"edges_a_vertex", workload.graph.edges_per_vertex},
               {"threads", chosen.threads},
               {"banks", workload.banks},
               {"file_size", workload.file_bytes}});
    result_check check;
    print(out, chosen, measure(chosen, check));
    out.checksum(check.checksum());
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.rounds = 7;
    command_line app(
        "Adjacency-list construction: Holdfast, Boost.Interprocess, std, Boost with the default allocator");
    declare(app, chosen);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "adjacency_bench: {}\n", failure.what());
        return 1;
    }
}
