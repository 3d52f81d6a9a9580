#include "allocators/comparison.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "allocators/allocation_run_json.hpp"
#include "indexes/workloads.hpp"
#include "support/environment.hpp"
#include "support/process.hpp"
#include "support/random.hpp"
#include "transactions/workloads.hpp"

namespace bench {

namespace {

struct backend_entry {
    const char* name;
    run_function run;  ///< null: it is a map, and allocates nothing for others
};
constexpr backend_entry backends[] = {
    {"holdfast", run_holdfast_allocations},
    {"libpmemobj", run_libpmemobj_allocations},
    {"jemalloc", run_jemalloc_allocations},
    {"mimalloc", run_mimalloc_allocations},
    {"glibc", run_glibc_allocations},
    {"memkind", run_memkind_allocations},
    {"interprocess", run_interprocess_allocations},
    {"raw", run_raw_allocations},
    {"none", run_no_allocations},
    {"holdfast-hash", nullptr},
    {"fptree-libpmemobj", nullptr},
    {"absl-btree", nullptr},
    {"std-map", nullptr},
};

/// Throws std::invalid_argument.
const backend_entry& backend_of(const std::string& name) {
    const auto* const known =
        std::find_if(std::begin(backends), std::end(backends), [&name](const auto& one) { return name == one.name; });
    if (known == std::end(backends)) {
        throw std::invalid_argument("no such backend: " + name);
    }
    return *known;
}

nlohmann::ordered_json run_here(const allocation_run& run) {
    if (const std::string reason = reason_against(run); !reason.empty()) {
        throw backend_unavailable(reason);
    }
    switch (workload_of(run.workload)) {
        case workload_kind::transactions: return transactions::run_workload(run);
        case workload_kind::index: return indexes::run_workload(run);
        default: return backend_of(run.backend).run(run);
    }
}

nlohmann::ordered_json run_in_process(allocation_run run, const common_options& options) {
    const workplace place(options.directory);
    run.directory = place.path().string();
    return nlohmann::ordered_json::parse(run_self({"--worker", nlohmann::json(run).dump()}));
}

/// All that run a workload must have the same checksum.
class checksum_check {
public:
    void compare(const allocation_run& run, const std::string& found) {
        const auto [place, is_first] =
            first_.try_emplace(fmt::format("{} with {} threads", title_of(run), run.threads), run.backend, found);
        if (!is_first && place->second.second != found) {
            throw std::runtime_error(fmt::format("{}: {} computed the checksum {}, {} {}", place->first, run.backend,
                                                 found, place->second.first, place->second.second));
        }
    }

private:
    std::map<std::string, std::pair<std::string, std::string>> first_;
};

cell figure(const std::string& key, const run_summary& found, const char* form) {
    if (!found.has(key)) {
        return {key, "-", nullptr};
    }
    const double value = found.median(key);
    return {key, fmt::format(fmt::runtime(form), value), value};
}

row row_of(const configuration& one, double first_mops) {
    const run_summary& found = one.found;
    const samples& mops = found.values("mops");
    return {
        label("backend", one.run.backend),
        label("durability", found.text("durability")),
        label("domain", found.text("domain")),
        {"mops", fmt::format("{:.2f} ({:.2f}-{:.2f})", mops.median(), mops.least(), mops.greatest()), mops.median()},
        number("ratio", mops.median() / first_mops),
        figure("call_ns", found, "{:.1f}"),
        figure("cpu_ns", found, "{:.1f}"),
        figure("p50_ns", found, "{:.0f}"),
        figure("p999_ns", found, "{:.0f}"),
        figure("p9999_ns", found, "{:.0f}"),
        figure("max_ns", found, "{:.0f}"),
        figure("charged_mib", found, "{:.1f}"),
        figure("peak_resident_mib", found, "{:.1f}"),
        figure("taken_mib", found, "{:.1f}"),
        figure("taken_ratio", found, "{:.2f}"),
        figure("entry_bytes", found, "{:.1f}"),
        figure("records_per_call", found, "{:.3f}"),
        figure("fences_per_call", found, "{:.3f}"),
        figure("reflush_ratio", found, "{:.4f}")};
}

}  // namespace

void run_summary::add(const nlohmann::ordered_json& outcome) {
    last_ = outcome;
    for (const auto& [key, value] : outcome.items()) {
        if (value.is_number()) {
            values_[key].add(value.get<double>());
        }
    }
    mops_.push_back(outcome.at("mops").get<double>());
    if (outcome.contains("max_ns")) {
        max_ns_.push_back(outcome.at("max_ns").get<double>());
    }
}

double run_summary::median(const std::string& key) const { return values(key).median(); }

const samples& run_summary::values(const std::string& key) const {
    static const samples none;
    const auto found = values_.find(key);
    return found == values_.end() ? none : found->second;
}

std::string run_summary::text(const std::string& key) const {
    return last_.contains(key) ? last_.at(key).get<std::string>() : std::string{};
}

std::uint64_t run_summary::checksum() const {
    return last_.contains("checksum") ? std::stoull(text("checksum"), nullptr, 16) : 0;
}

nlohmann::ordered_json run_summary::median_fields() const {
    nlohmann::ordered_json fields = last_;
    for (auto& [key, value] : fields.items()) {
        if (value.is_number_float()) {
            value = median(key);
        } else if (value.is_number()) {
            value = static_cast<std::uint64_t>(median(key));
        }
    }
    fields["mops_of_runs"] = mops_;
    fields["max_ns_of_runs"] = max_ns_;
    return fields;
}

std::vector<std::string> backend_names() {
    std::vector<std::string> names;
    for (const backend_entry& one : backends) {
        names.emplace_back(one.name);
    }
    return names;
}

std::string reason_against(const allocation_run& run) {
    const backend_entry& by = backend_of(run.backend);
    if (workload_of(run.workload) == workload_kind::index) {
        return indexes::reason_against(run);
    }
    return by.run != nullptr ? "" : "it is a map, for index-* and ycsb-* alone";
}

void prepare_environment_of_runs() {
    // Debian's jemalloc keeps 2.6 KiB of variables of threads in static room, more than a library loaded later gets.
    const char* const tunables = std::getenv("GLIBC_TUNABLES");
    const std::string more = "glibc.rtld.optional_static_tls=16384";
    ::setenv("GLIBC_TUNABLES", (tunables == nullptr ? more : tunables + (":" + more)).c_str(), 1);
}

int run_one(const std::string& words) {
    const auto run = nlohmann::json::parse(words).get<allocation_run>();
    nlohmann::ordered_json outcome;
    try {
        outcome = run_here(run);
    } catch (const backend_unavailable& missing) {
        outcome = {{"unavailable", missing.what()}};
    } catch (const std::exception& failure) {
        outcome = {{"error", failure.what()}};
    }
    fmt::print("{}\n", outcome.dump());
    return 0;
}

void measure_in_turn(std::vector<configuration>& all, const common_options& options) {
    checksum_check check;
    for (unsigned round = 0; round < options.rounds; ++round) {
        for (configuration& one : all) {
            if (!one.found.unavailable().empty()) {
                continue;
            }
            const nlohmann::ordered_json outcome = run_in_process(one.run, options);
            const auto what = fmt::format("{}, {}: ", one.run.backend, one.run.workload);
            if (outcome.contains("error")) {
                throw std::runtime_error(what + outcome.at("error").get<std::string>());
            }
            if (outcome.contains("unavailable")) {
                one.found.mark_unavailable(outcome.at("unavailable").get<std::string>());
                continue;
            }
            check.compare(one.run, outcome.at("checksum").get<std::string>());
            one.found.add(outcome);
        }
    }
}

namespace {

void print_as_json(const std::vector<configuration>& all, const common_options& options) {
    const nlohmann::ordered_json environment = describe_environment(options.directory);
    for (const configuration& one : all) {
        if (one.found.unavailable().empty()) {
            nlohmann::ordered_json fields = one.found.median_fields();
            fields["rounds"] = options.rounds;
            fields["smoke"] = options.smoke;
            fields["parameters"] = nlohmann::json(one.run);
            fields["environment"] = environment;
            fmt::print("{}\n", fields.dump());
        }
    }
    std::fflush(stdout);
}

void print_as_tables(report& out, const std::vector<configuration>& all) {
    std::map<std::string, std::size_t> places;
    std::vector<std::pair<std::string, std::vector<row>>> tables;
    std::map<std::string, double> first_mops;
    for (const configuration& one : all) {
        if (!one.found.unavailable().empty()) {
            continue;
        }
        const std::string title =
            fmt::format("{}, {} thread{}", title_of(one.run), one.run.threads, one.run.threads == 1 ? "" : "s");
        const auto [place, is_new] = places.try_emplace(title, tables.size());
        if (is_new) {
            tables.emplace_back(title, std::vector<row>{});
            first_mops[title] = one.found.median("mops");
        }
        tables[place->second].second.push_back(row_of(one, first_mops[title]));
    }
    for (const auto& [title, rows] : tables) {
        out.table(title, rows);
    }
}

}  // namespace

void print_configurations(report& out, const std::vector<configuration>& all, const common_options& options) {
    if (options.json) {
        print_as_json(all, options);
    } else {
        print_as_tables(out, all);
    }
    std::set<std::string> missing;
    for (const configuration& one : all) {
        if (!one.found.unavailable().empty()) {
            missing.insert(one.run.backend + ": not measured: " + one.found.unavailable());
        }
    }
    for (const std::string& text : missing) {
        out.note(text);
    }
}

std::uint64_t checksum_of(const std::vector<configuration>& all) {
    std::set<std::uint64_t> different;  // one for each workload and number of threads
    for (const configuration& one : all) {
        different.insert(one.found.checksum());
    }
    std::uint64_t sum = 0;
    for (const std::uint64_t one : different) {
        sum += mix(one);
    }
    return sum;
}

}  // namespace bench
