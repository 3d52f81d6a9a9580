// How much of a file system a heap can use after its space was broken into pieces: PAllocator's fragmentation stress on
// a tmpfs of 2 GiB, Holdfast beside libpmemobj.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "allocators/allocation_run.hpp"
#include "command_line/command_line.hpp"
#include "fragmentation/small_file_system.hpp"
#include "fragmentation/space_backend.hpp"
#include "fragmentation/stress.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(stress_step, object_bytes, freed_bytes, allocated, filled_again, live_bytes,
                                   reached_bytes, reached_objects, charged_bytes, refused_commits, milliseconds)

}  // namespace bench

namespace {

using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr double goal_share = 0.95;
/// Up to here an object is less than 1 % of 2 GiB; of larger ones the last that does not fit is allowed for.
constexpr std::uint64_t greatest_strict_object = 16U << 20U;

struct options {
    bench::common_options common;
    std::uint64_t capacity = std::uint64_t{2} << 30U;
    double fill = 0.7;
    std::uint64_t first_object = 64U << 10U;
    std::vector<std::string> backends = bench::space_backend_names();
};

/// One backend on a file system of its own, in a process of its own. {"steps", "reopened"} or {"unavailable"}.
nlohmann::json run_backend(const options& chosen, const std::string& name, const std::filesystem::path& directory,
                           std::string& why_not_mounted) {
    std::filesystem::create_directories(directory);
    const bench::small_file_system mounted(directory, chosen.capacity);
    why_not_mounted = mounted.why_not();
    const bench::stress_plan plan{chosen.capacity,
                                  static_cast<std::uint64_t>(static_cast<double>(chosen.capacity) * chosen.fill),
                                  chosen.first_object};
    const bench::space_request request{directory, chosen.capacity, mounted.mounted(), bench::stress_objects(plan)};
    auto told = bench::run_child(bench::ending::exits, [&](const bench::child_process& self) {
        try {
            const auto backend = bench::open_space_backend(name, request);
            const auto steps = bench::run_stress(*backend, plan, [&] { return bench::charged_bytes(directory); });
            const bool reopened = backend->reopen();
            backend->check();
            self.hand_back({{"steps", steps}, {"reopened", reopened}});
        } catch (const bench::backend_unavailable& missing) {
            self.hand_back({{"unavailable", missing.what()}});
        }
    });
    if (!mounted.mounted()) {
        std::filesystem::remove_all(directory);
    }
    return told;
}

double share(std::uint64_t bytes, const options& chosen) {
    return static_cast<double>(bytes) / static_cast<double>(chosen.capacity);
}

bench::row row_of(const bench::stress_step& step, const options& chosen) {
    constexpr double mebibyte = 1U << 20U;
    return {bench::number("object_kib", static_cast<double>(step.object_bytes) / 1024),
            bench::number("freed_mib", static_cast<double>(step.freed_bytes) / mebibyte),
            bench::count("allocations", step.allocated),
            bench::label("filled_again", step.filled_again ? "yes" : "NO"),
            bench::number("live_mib", static_cast<double>(step.live_bytes) / mebibyte),
            bench::number("calls_ms", step.milliseconds),
            bench::number("reached_percent", 100 * share(step.reached_bytes, chosen)),
            bench::count("reached_with", step.reached_objects),
            bench::number("charged_mib", static_cast<double>(step.charged_bytes) / mebibyte),
            bench::count("refused_commits", step.refused_commits)};
}

/// The step that came least far, held against what it had to reach.
void judge(bench::report& out, const std::string& name, const std::vector<bench::stress_step>& steps,
           const options& chosen) {
    const auto limit_of = [&](const bench::stress_step& step) {
        return goal_share - (step.object_bytes > greatest_strict_object ? share(step.object_bytes, chosen) : 0);
    };
    const auto worst = std::min_element(steps.begin(), steps.end(), [&](const auto& a, const auto& b) {
        return share(a.reached_bytes, chosen) - limit_of(a) < share(b.reached_bytes, chosen) - limit_of(b);
    });
    out.goal_at_least(
        fmt::format("{}: share of the capacity in the worst step, objects of {} KiB", name, worst->object_bytes >> 10U),
        100 * share(worst->reached_bytes, chosen), 100 * limit_of(*worst), "%");
    const auto failed = std::find_if(steps.begin(), steps.end(), [](const auto& one) { return !one.filled_again; });
    if (failed != steps.end()) {
        out.note(fmt::format("{}: objects of {} KiB did not fit where as many bytes had been freed", name,
                             failed->object_bytes >> 10U));
    }
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.capacity = std::uint64_t{96} << 20U;
    }
    bench::report out("fragmentation_bench", chosen.common);
    out.begin({{"capacity", chosen.capacity}, {"fill", chosen.fill}, {"first_object", chosen.first_object}});
    const bench::workplace place(chosen.common.directory);
    std::uint64_t checksum = 0;
    bool told_why_not = false;
    for (const std::string& name : chosen.backends) {
        std::string why_not;
        const auto found = run_backend(chosen, name, place.path() / "space", why_not);
        if (!why_not.empty() && !told_why_not) {
            out.note(
                fmt::format("no file system of {} bytes could be mounted ({}): limits of capacity instead, which "
                            "count the space of user blocks, not what the file system charges",
                            chosen.capacity, why_not));
            told_why_not = true;
        }
        if (found.contains("unavailable")) {
            out.note(fmt::format("{}: not measured: {}", name, found.at("unavailable").get<std::string>()));
            continue;
        }
        const auto steps = found.at("steps").get<std::vector<bench::stress_step>>();
        std::vector<bench::row> rows;
        for (const bench::stress_step& step : steps) {
            rows.push_back(row_of(step, chosen));
            checksum = bench::mix(checksum + step.object_bytes);
        }
        out.table(name, rows);
        if (!found.at("reopened").get<bool>()) {
            out.note(name + ": could not be closed and opened again at the end, for lack of space");
        }
        if (name.starts_with("holdfast")) {
            judge(out, name, steps, chosen);
        }
    }
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("Space that can be used after it was broken into pieces: PAllocator's fragmentation stress");
    chosen.common.declare(app);
    app.add_option("--capacity", chosen.capacity, "Bytes of the tmpfs that is mounted (powers of 1024: 2Gi)")
        .show_default()
        .size(kilobyte::of_1024)
        .range(std::uint64_t{64} << 20U, std::uint64_t{1} << 40U);
    app.add_option("--fill", chosen.fill, "Share of it that is live after each step").show_default().range(0.1, 0.9);
    app.add_option("--first-object", chosen.first_object, "Bytes of the objects of the filling")
        .show_default()
        .size(kilobyte::of_1024)
        .range(std::uint64_t{4096}, std::uint64_t{1} << 30U);
    app.add_option("--backend", chosen.backends, "What allocates; several")
        .delimiter(',')
        .one_of(bench::space_backend_names());
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "fragmentation_bench: {}\n", failure.what());
        return 1;
    }
}
