// What opening a heap of durability `atomic` costs where it lies, after SIGKILL: a list of small objects (PMAlloc, TOCS
// 2024, table 3), whose last records are pending; with --uniform-bytes a large heap of blocks of 64 B to 128 KiB (the
// 61 GB of PAllocator, VLDB 2017, figure 14). The same heap is also opened after a clean close, which walks its tables
// as recovery does, both with the kernel's caches dropped, where that is permitted, and the list as a copy. This
// program also maps the files, as every open must: the goals count what lies beyond that, warm.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command_line/command_line.hpp"
#include "recovery/list_heap.hpp"
#include "recovery/uniform_heap.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr std::uint64_t million = 1'000'000;
constexpr double limit_ms = 10.0;  // the goal, for 10 million objects, beyond mapping the files

constexpr double uniform_limit_ms = 45.0;  // for 61 GB, beyond mapping the files
constexpr double uniform_limit_bytes = 61e9;
constexpr double uniform_terabyte_ms = 750.0;

struct options {
    bench::common_options common;
    std::vector<std::uint64_t> objects{10 * million};
    std::vector<std::uint64_t> uniform_bytes;  // none: the lists
    std::vector<std::string> domains{"page-cache", "emulated"};
    std::uint64_t replacements = 2'000;
    bool cold = false;  // whether the page cache can be emptied, and makes a difference
};

/// Smoke runs leave the machine's caches alone.
bool can_be_cold(const bench::common_options& common) {
    std::filesystem::create_directories(common.directory);
    return !common.smoke && bench::describe_environment(common.directory).at("file_system") != "tmpfs" &&
           bench::drop_caches();
}

bench::ways_to_open ways_of(const options& chosen, const std::string& domain) {
    return {.domain = domain,
            .rounds = chosen.common.rounds,
            .seed = chosen.common.seed,
            .cold = chosen.cold,
            .copies = chosen.uniform_bytes.empty() || chosen.common.smoke};
}

void add_openings(bench::row& to, const bench::ways_to_open& ways, const bench::openings& found) {
    to.push_back(bench::count("pending_records", found.pending));
    to.push_back(bench::times("open_after_kill_ms", found.killed));
    to.push_back(bench::times("of_it_replay_ms", found.replay));
    to.push_back(bench::times("open_clean_ms", found.clean));
    to.push_back(bench::times("map_files_ms", found.mapping));
    if (ways.cold) {
        to.push_back(bench::times("after_kill_cold_ms", found.killed_cold));
        to.push_back(bench::times("clean_cold_ms", found.clean_cold));
    }
    if (ways.copies) {
        to.push_back(bench::times("copy_after_kill_ms", found.copy));
    }
}

void run_lists(bench::report& out, const options& chosen) {
    std::vector<bench::row> rows;
    std::uint64_t checksum = 0;
    const bench::ways_to_open ways = ways_of(chosen, "emulated");
    for (const std::uint64_t objects : chosen.objects) {
        const bench::workplace place(chosen.common.directory);
        const bench::list_heap heap(place.path() / "list.hf", objects, chosen.common.seed, chosen.replacements);
        const bench::openings found = heap.open_in_turn(ways);
        checksum = bench::mix(checksum + objects);
        rows.push_back({bench::count("objects", objects)});
        add_openings(rows.back(), ways, found);
        out.goal_at_most(fmt::format("recovery of {} objects beyond mapping the files", objects),
                         found.killed.median() - found.mapping.median(),
                         limit_ms * static_cast<double>(std::max(objects, 10 * million)) / (10.0 * million), "ms");
    }
    out.table("open after SIGKILL, domain emulated", rows);
    out.checksum(checksum);
}

/// The straight line through what was measured, at `bytes`; least squares.
class line_of_growth {
public:
    void add(double bytes, double milliseconds) {
        ++count_;
        x_ += bytes;
        y_ += milliseconds;
        xx_ += bytes * bytes;
        xy_ += bytes * milliseconds;
    }
    [[nodiscard]] bool is_line() const noexcept { return count_ > 1; }
    [[nodiscard]] double slope() const noexcept { return (count_ * xy_ - x_ * y_) / (count_ * xx_ - x_ * x_); }
    [[nodiscard]] double at(double bytes) const noexcept { return (y_ - slope() * x_) / count_ + slope() * bytes; }

private:
    double count_ = 0;
    double x_ = 0;
    double y_ = 0;
    double xx_ = 0;
    double xy_ = 0;
};

void judge_growth(bench::report& out, const std::string& domain, const line_of_growth& growth) {
    if (!growth.is_line()) {
        out.note("growth: one size alone was measured");
        return;
    }
    out.note(fmt::format("{}: grows by {:.3f} ms a GB", domain, growth.slope() * 1e9));
    out.goal_at_most(fmt::format("{}: recovery of 1 TB beyond mapping the files, on the line through these", domain),
                     growth.at(1e12), uniform_terabyte_ms, "ms");
}

bool fits(bench::report& out, const std::filesystem::path& directory, std::uint64_t bytes) {
    std::filesystem::create_directories(directory);
    const std::uint64_t there = std::filesystem::space(directory).available;
    const std::uint64_t needed = bench::uniform_heap::demand(bytes);
    if (there < needed) {
        out.note(fmt::format("{:.1f} GB: not measured, it takes {:.1f} GB of disk and {:.1f} are free",
                             static_cast<double>(bytes) / 1e9, static_cast<double>(needed) / 1e9,
                             static_cast<double>(there) / 1e9));
    }
    return there >= needed;
}

void run_uniform(bench::report& out, const options& chosen) {
    std::vector<bench::row> rows;
    std::vector<line_of_growth> growth(chosen.domains.size());
    std::uint64_t checksum = 0;
    for (const std::uint64_t bytes : chosen.uniform_bytes) {
        if (!fits(out, chosen.common.directory, bytes)) {
            continue;
        }
        const bench::workplace place(chosen.common.directory);
        const auto path = place.path() / "uniform.hf";
        const bench::uniform_heap heap(path, bytes, chosen.common.seed, chosen.replacements);
        for (std::size_t i = 0; i < chosen.domains.size(); ++i) {
            const std::string& domain = chosen.domains[i];
            const bench::ways_to_open ways = ways_of(chosen, domain);
            const bench::openings found = heap.open_in_turn(ways);
            const double beyond = found.killed.median() - found.mapping.median();
            growth[i].add(static_cast<double>(bytes), beyond);
            rows.push_back({bench::number("gigabytes", static_cast<double>(bytes) / 1e9),
                            bench::count("blocks", heap.blocks()), bench::label("domain", domain),
                            bench::number("charged_gb", static_cast<double>(bench::charged_bytes(path)) / 1e9)});
            add_openings(rows.back(), ways, found);
            out.goal_at_most(fmt::format("{}: recovery of {:.1f} GB beyond mapping the files", domain,
                                         static_cast<double>(bytes) / 1e9),
                             beyond, uniform_limit_ms * std::max(1.0, static_cast<double>(bytes) / uniform_limit_bytes),
                             "ms");
        }
        checksum = bench::mix(checksum + heap.blocks());
    }
    out.table("open after SIGKILL, blocks of 64 B to 128 KiB", rows);
    for (std::size_t i = 0; i < chosen.domains.size(); ++i) {
        judge_growth(out, chosen.domains[i], growth[i]);
    }
    out.checksum(checksum);
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.objects = {20'000};
        chosen.common.rounds = 1;
    }
    bench::report out("recovery_bench", chosen.common);
    const bool lists = chosen.uniform_bytes.empty();
    if (chosen.common.smoke) {
        chosen.uniform_bytes = {50 * million, 100 * million};
        chosen.replacements = 100;
    }
    out.begin({{"objects", chosen.objects},
               {"object_bytes", "64 to 128"},
               {"uniform_bytes", chosen.uniform_bytes},
               {"replacements", chosen.replacements}});
    chosen.cold = can_be_cold(chosen.common);
    if (!chosen.cold && !chosen.common.smoke) {
        out.note("cold: not measured, for the files are memory or dropping the kernel's caches is not permitted here");
    }
    if (lists) {
        run_lists(out, chosen);
    }
    if (!chosen.uniform_bytes.empty()) {
        run_uniform(out, chosen);
    }
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.directory = "/dev/shm";
    command_line app("Time of opening a heap of durability atomic after SIGKILL");
    chosen.common.declare(app);
    app.add_option("--objects", chosen.objects, "Objects in the list; several: one run each")
        .delimiter(',')
        .show_default();
    app.add_option("--uniform-bytes", chosen.uniform_bytes,
                   "Instead of lists: so many bytes of blocks of 64 B to 128 KiB, not written, in --directory; several "
                   "(8G,61G: powers of 1000)")
        .delimiter(',')
        .size(kilobyte::of_1000);
    app.add_option("--domains", chosen.domains, "Of --uniform-bytes")
        .delimiter(',')
        .show_default()
        .one_of({"page-cache", "emulated"});
    app.add_option("--replacements", chosen.replacements, "Blocks allocated and freed by each process that is killed")
        .show_default();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "recovery_bench: {}\n", failure.what());
        return 1;
    }
}
