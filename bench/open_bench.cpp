// What opening a clean heap costs: a large one of small blocks, and one of big extents; with its files in the page
// cache, and, where permitted, without.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "command_line/command_line.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;
constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr double open_limit_ms = 10.0;  // the goal

struct options {
    bench::common_options common;
    std::uint64_t heap_bytes = 4 * gib;
};

/// How a heap is filled: blocks of `least` to `greatest` bytes, uniformly.
struct filling {
    const char* name;
    std::uint64_t least;
    std::uint64_t greatest;
};

/// What a heap holds when it is closed, and must hold when it is open again.
struct content {
    std::uint64_t user_bytes = 0;
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    bool operator==(const content&) const = default;
};

content content_of(const holdfast::manager& heap) {
    const holdfast::heap_statistics found = heap.statistics();
    return {found.user_bytes, found.allocated_blocks, found.allocated_bytes};
}

/// Fills a heap until it has the wanted size; the first word of each block is written.
content fill(const std::string& path, const filling& how, const options& chosen) {
    holdfast::manager heap(holdfast::create_only, path);
    bench::random_source random(chosen.common.seed);
    const std::uint64_t commit_bytes =
        std::min<std::uint64_t>(chosen.heap_bytes, 256 * mib);  // bounds the private memory
    std::uint64_t filled = 0;
    std::uint64_t since_commit = 0;
    while (filled < chosen.heap_bytes) {
        const std::uint64_t bytes = random.between(how.least, how.greatest);
        const std::uint64_t word = random.next();
        std::memcpy(heap.allocate(bytes), &word, sizeof(word));
        filled += bytes;
        since_commit += bytes;
        if (since_commit >= commit_bytes) {
            heap.commit();
            since_commit = 0;
        }
    }
    heap.close();
    heap = holdfast::manager(holdfast::open_only, path);
    return content_of(heap);
}

struct measurements {
    bench::samples warm;
    bench::samples cold;
    bench::samples close;
};

void open_once(const std::string& path, bench::samples& opening, bench::samples& closing) {
    const bench::stopwatch opened;
    holdfast::manager heap(holdfast::open_only, path);
    opening.add(opened.milliseconds());
    const bench::stopwatch closed;
    heap.close();
    closing.add(closed.milliseconds());
}

measurements measure(const std::string& path, unsigned rounds, bool cold) {
    measurements found;
    bench::samples ignored;
    open_once(path, ignored, ignored);
    for (unsigned round = 0; round < rounds; ++round) {
        open_once(path, found.warm, found.close);
    }
    for (unsigned round = 0; cold && round < rounds && bench::drop_caches(); ++round) {
        open_once(path, found.cold, ignored);
    }
    return found;
}

int run(options chosen) {
    constexpr filling fillings[] = {{"small blocks, 64 B to 1 KiB", 64, 1024},
                                    {"extents, 64 KiB to 4 MiB", 64 << 10, 4 << 20}};
    if (chosen.common.smoke) {
        chosen.heap_bytes = 64 * mib;
        chosen.common.rounds = 1;
    }
    bench::report out("open_bench", chosen.common);
    out.begin({{"heap_bytes", chosen.heap_bytes}});
    std::vector<bench::row> rows;
    std::vector<double> medians;
    std::uint64_t checksum = 0;
    for (const filling& how : fillings) {
        const bench::workplace place(chosen.common.directory);
        const std::string path = (place.path() / "open.hf").string();
        const content before = fill(path, how, chosen);
        const measurements found = measure(path, chosen.common.rounds, !chosen.common.smoke);
        const content after = content_of(holdfast::manager(holdfast::open_read_only, path));
        if (before != after) {
            throw std::runtime_error(fmt::format("{}: {} blocks, {} bytes after the runs, {} and {} before", how.name,
                                                 after.blocks, after.bytes, before.blocks, before.bytes));
        }
        checksum = bench::mix(checksum + bench::mix(after.blocks) + after.bytes);
        medians.push_back(found.warm.median());
        rows.push_back({bench::label("filled_with", how.name), bench::count("user_mib", after.user_bytes / mib),
                        bench::count("blocks", after.blocks), bench::times("open_warm_ms", found.warm),
                        bench::times("open_cold_ms", found.cold), bench::times("close_ms", found.close)});
        if (found.cold.count() == 0 && !chosen.common.smoke) {
            out.note("cold: not measured, dropping the kernel's caches is not permitted here");
        }
    }
    out.table("open of a clean heap", rows);
    for (std::size_t i = 0; i < medians.size(); ++i) {
        out.goal_at_most(fmt::format("open, warm, {}", fillings[i].name), medians[i], open_limit_ms, "ms");
    }
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.rounds = 11;
    command_line app("Time of opening a clean heap");
    chosen.common.declare(app);
    app.add_option("--heap-size", chosen.heap_bytes, "Bytes of each heap").show_default().size(kilobyte::of_1024);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "open_bench: {}\n", failure.what());
        return 1;
    }
}
