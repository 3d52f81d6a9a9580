// What a commit costs: of a large resident heap with dirty pages at random places, against the same bytes written twice
// with plain pwrite and fdatasync, in turn.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <numeric>
#include <string>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "command_line/command_line.hpp"
#include "commit/page_heap.hpp"
#include "commit/plain_files.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;
constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr double scan_ms_a_gib = 8.0;  // the goals
constexpr double factor_of_plain = 1.5;

struct options {
    bench::common_options common;
    std::uint64_t heap_bytes = 4 * gib;
    std::uint64_t segment_bytes = 256 * mib;
    std::vector<std::size_t> dirty{1'000, 100'000};
};

struct measurements {
    bench::samples commit;
    bench::samples scan;
    bench::samples write;
    bench::samples sync;
    bench::samples plain;
    bench::samples without_scan;
    std::uint64_t dirty_pages = 0;  // as the last commit counted: those of the heap's own metadata too
};
using all_measurements = std::map<std::size_t, measurements>;

double milliseconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

/// `count` different pages of `pages`, ascending.
std::vector<std::size_t> choose(std::size_t count, std::size_t pages, bench::random_source& random) {
    if (count >= pages) {
        std::vector<std::size_t> all(pages);
        std::iota(all.begin(), all.end(), std::size_t{0});
        return all;
    }
    std::unordered_set<std::size_t> chosen;
    while (chosen.size() < count) {
        chosen.insert(random.below(pages));
    }
    std::vector<std::size_t> sorted(chosen.begin(), chosen.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

void measure_once(bench::page_heap& heap, const bench::plain_files& plain, std::size_t count,
                  bench::random_source& random, measurements* found) {
    const auto pages = choose(count, heap.page_count(), random);
    heap.dirty(pages, random.next());
    heap.make_resident();
    std::vector<std::uint64_t> offsets;
    std::vector<std::byte> content(pages.size() * bench::page_bytes);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        offsets.push_back(heap.offset(pages[i]));
        std::memcpy(content.data() + i * bench::page_bytes, heap.address(pages[i]), bench::page_bytes);
    }
    const bench::stopwatch committing;
    const holdfast::commit_report done = heap.commit();
    const double commit_ms = committing.milliseconds();
    const bench::stopwatch writing;
    plain.write_twice(offsets, content);
    const double plain_ms = writing.milliseconds();
    if (found == nullptr) {
        return;
    }
    found->commit.add(commit_ms);
    found->scan.add(milliseconds(done.scan_ns));
    found->write.add(milliseconds(done.write_ns));
    found->sync.add(milliseconds(done.sync_ns));
    found->without_scan.add(commit_ms - milliseconds(done.scan_ns));
    found->plain.add(plain_ms);
    found->dirty_pages = done.dirty_pages;
}

all_measurements measure(const options& chosen, bench::page_heap& heap, const bench::plain_files& plain) {
    bench::random_source random(chosen.common.seed);
    all_measurements all;
    all[1];  // one page: what a commit costs whatever is dirty
    for (const std::size_t count : chosen.dirty) {
        all[count];
    }
    for (auto& [count, found] : all) {
        measure_once(heap, plain, count, random, nullptr);  // files reach their sizes
    }
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        for (auto& [count, found] : all) {
            measure_once(heap, plain, count, random, &found);
        }
    }
    return all;
}

void print(bench::report& out, const options& chosen, const all_measurements& all) {
    const double resident_gib = static_cast<double>(chosen.heap_bytes) / static_cast<double>(gib);
    const double syncs = all.at(1).without_scan.median();
    const double constant = syncs + scan_ms_a_gib * resident_gib;
    const auto limit = [&](const measurements& found) { return constant + factor_of_plain * found.plain.median(); };
    std::vector<bench::row> rows;
    for (const auto& [count, found] : all) {
        rows.push_back({bench::count("stored_pages", count), bench::count("dirty_pages", found.dirty_pages),
                        bench::times("commit_ms", found.commit), bench::times("plain_twice_ms", found.plain),
                        bench::number("ratio", found.commit.median() / found.plain.median()),
                        bench::times("scan_ms", found.scan), bench::number("write_ms", found.write.median()),
                        bench::number("sync_ms", found.sync.median()), bench::number("limit_ms", limit(found))});
    }
    out.table(fmt::format("commit of {:.2f} GiB resident; limit = constant + {} x plain_twice", resident_gib,
                          factor_of_plain),
              rows);
    out.table("constant part", {{bench::number("one_page_without_scan_ms", syncs),
                                 bench::number("scan_allowed_ms", scan_ms_a_gib * resident_gib),
                                 bench::number("constant_ms", constant)}});
    for (const auto& [count, found] : all) {
        if (count != 1) {
            out.goal_at_most(fmt::format("commit of {} dirty pages", count), found.commit.median(), limit(found), "ms");
        } else {
            out.goal_at_most("scan of clean pages", found.scan.median(), scan_ms_a_gib * resident_gib, "ms");
        }
    }
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.heap_bytes = 64 * mib;
        chosen.segment_bytes = 16 * mib;
        chosen.dirty = {10, 1'000};
        chosen.common.rounds = 1;
    }
    bench::report out("commit_bench", chosen.common);
    out.begin({{"heap_bytes", chosen.heap_bytes}, {"segment_bytes", chosen.segment_bytes}, {"dirty", chosen.dirty}});
    const bench::workplace place(chosen.common.directory);
    bench::page_heap heap((place.path() / "commit.hf").string(), chosen.heap_bytes, chosen.segment_bytes);
    const std::size_t most = std::max<std::size_t>(1, *std::max_element(chosen.dirty.begin(), chosen.dirty.end()));
    const bench::plain_files plain(place.path(), heap.size(), chosen.segment_bytes, most * bench::page_bytes);
    print(out, chosen, measure(chosen, heap, plain));
    out.checksum(heap.verify_reopened());
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("Time of commit() by the number of dirty pages, against plain writing of the same bytes twice");
    chosen.common.declare(app);
    app.add_option("--heap-size", chosen.heap_bytes, "Bytes of the heap, a multiple of 16 MiB")
        .show_default()
        .size(kilobyte::of_1024);
    app.add_option("--segment-size", chosen.segment_bytes, "Bytes of a segment file")
        .show_default()
        .size(kilobyte::of_1024);
    app.add_option("--dirty", chosen.dirty, "Numbers of dirty pages").show_default().positive();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "commit_bench: {}\n", failure.what());
        return 1;
    }
}
