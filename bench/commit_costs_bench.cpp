// What commits cost but for the pages themselves (bench/commit_bench.cpp has those): a commit of one page beside a
// synced write, also behind many small commits; a bulk load and what it writes; an open, clean and behind a kill;
// private memory while much is rewritten; a snapshot beside a copy. Only calls that older builds have, so that one
// source measures both.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "command_line/command_line.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"
#include "support/samples.hpp"
#include "support/timing.hpp"

namespace {

using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t block_bytes = 16 * mib;

struct options {
    bench::common_options common;
    std::vector<std::uint64_t> heap_bytes{64 * mib, 4096 * mib};
    std::uint64_t commits = 1000;
    std::uint64_t commits_before = 10'000;
    std::uint64_t load_bytes = 2048 * mib;
    std::uint64_t rewritten_bytes = 1024 * mib;
    std::uint64_t step_bytes = 64 * mib;
    std::vector<std::string> only;

    [[nodiscard]] bool has(const std::string& what) const {
        return only.empty() || std::ranges::find(only, what) != only.end();
    }
};

/// The number behind `name` in a file of /proc/self.
std::uint64_t number_of_this_process(const std::string& file, const std::string& name) {
    std::ifstream in("/proc/self/" + file);
    for (std::string word; in >> word;) {
        if (std::uint64_t value = 0; word == name && in >> value) {
            return value;
        }
    }
    throw std::runtime_error(fmt::format("/proc/self/{} has no {}", file, name));
}

double cpu_milliseconds_of_thread() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// Blocks that are stored to in each page.
class page_blocks {
public:
    void add(holdfast::manager& heap, std::uint64_t bytes) {
        for (std::uint64_t done = 0; done < bytes; done += block_bytes) {
            blocks_.push_back(static_cast<std::byte*>(heap.allocate_aligned(block_bytes, page_bytes)));
            rewrite(blocks_.size() - 1, block_bytes, 1);
        }
    }
    void rewrite(std::size_t block, std::uint64_t bytes, int value) { std::memset(blocks_[block], value, bytes); }
    [[nodiscard]] std::size_t count() const noexcept { return blocks_.size(); }
    void change_a_page(std::uint64_t chosen) {
        const std::uint64_t page = chosen % (blocks_.size() * (block_bytes / page_bytes));
        std::byte* const at =
            blocks_[page / (block_bytes / page_bytes)] + page % (block_bytes / page_bytes) * page_bytes;
        std::memcpy(at + chosen % 64 * 8, &chosen, sizeof chosen);
    }
    /// Into this process's page tables.
    [[nodiscard]] std::uint64_t read_all() const {
        std::uint64_t sum = 0;
        for (const std::byte* const block : blocks_) {
            for (std::uint64_t at = 0; at < block_bytes; at += page_bytes) {
                sum += static_cast<std::uint64_t>(static_cast<const volatile std::byte*>(block)[at]);
            }
        }
        return sum;
    }

private:
    std::vector<std::byte*> blocks_;
};

void fill(holdfast::manager& heap, page_blocks& blocks, std::uint64_t bytes) {
    constexpr std::uint64_t at_once = 256 * mib;  // bounds the private memory
    for (std::uint64_t done = 0; done < bytes; done += at_once) {
        blocks.add(heap, std::min(at_once, bytes - done));
        heap.commit();
    }
}

struct of_a_page {
    bench::samples commit;
    bench::samples write;
};

/// Microseconds. In turn with writes, some at a time.
of_a_page commit_pages(holdfast::manager& heap, page_blocks& blocks, const options& chosen,
                       bench::random_source& random) {
    constexpr std::uint64_t at_once = 50;
    of_a_page found;
    for (std::uint64_t done = 0; done < chosen.commits; done += at_once) {
        for (std::uint64_t i = 0; i < at_once; ++i) {
            blocks.change_a_page(random.next());
            const bench::stopwatch committing;
            heap.commit();
            found.commit.add(committing.milliseconds() * 1e3);
        }
        found.write.add(bench::time_of_a_write(chosen.common.directory, at_once));
    }
    return found;
}

void measure_pages(bench::report& out, const options& chosen) {
    constexpr double most_of_small = 1.3;
    constexpr double us_a_gib = 200;
    std::vector<bench::row> rows;
    for (const std::uint64_t bytes : chosen.heap_bytes) {
        const bench::workplace place(chosen.common.directory);
        bench::random_source random(chosen.common.seed);
        holdfast::manager heap(holdfast::create_only, (place.path() / "pages.hf").string());
        page_blocks blocks;
        fill(heap, blocks, bytes);
        static_cast<void>(blocks.read_all());
        for (const bool is_later : {false, true}) {
            for (std::uint64_t i = 0; is_later && i < chosen.commits_before; ++i) {
                blocks.change_a_page(random.next());
                heap.commit();
            }
            const of_a_page found = commit_pages(heap, blocks, chosen, random);
            const double commit = found.commit.median();
            const double write = found.write.median();
            rows.push_back({bench::count("heap_mib", bytes / mib),
                            bench::count("commits_before", is_later ? chosen.commits_before : 0),
                            bench::number("commit_us", commit), bench::number("least_us", found.commit.least()),
                            bench::number("write_us", write), bench::number("ratio", commit / write),
                            bench::number("more_us", commit - write)});
            const std::string what =
                fmt::format("one page of {} MiB, {} commits before", bytes / mib, is_later ? chosen.commits_before : 0);
            if (bytes <= 64 * mib) {
                out.goal_at_most(what + ", against a write", commit / write, most_of_small, "times");
            } else {
                out.goal_at_most(what + ", beyond a write", commit - write,
                                 us_a_gib * static_cast<double>(bytes) / (1024.0 * static_cast<double>(mib)), "us");
            }
        }
    }
    out.table("commit of one changed page, medians", rows);
}

void measure_load(bench::report& out, const options& chosen) {
    bench::samples load;
    bench::samples commit;
    bench::samples commit_cpu;
    double written = 0;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        const bench::workplace place(chosen.common.directory);
        holdfast::manager heap(holdfast::create_only, (place.path() / "load.hf").string());
        page_blocks blocks;
        const bench::stopwatch loading;
        blocks.add(heap, chosen.load_bytes);
        const std::uint64_t before = number_of_this_process("io", "write_bytes:");
        const double cpu_before = bench::cpu_milliseconds();
        const bench::stopwatch committing;
        heap.commit();
        commit.add(committing.milliseconds());
        commit_cpu.add(bench::cpu_milliseconds() - cpu_before);
        load.add(loading.milliseconds());
        written = static_cast<double>(number_of_this_process("io", "write_bytes:") - before) /
                  static_cast<double>(chosen.load_bytes);
        heap.close();
    }
    out.table("bulk load, one commit", {{bench::count("mib", chosen.load_bytes / mib), bench::times("load_ms", load),
                                         bench::times("commit_ms", commit), bench::times("cpu_ms", commit_cpu),
                                         bench::number("written_times", written)}});
}

void measure_open(bench::report& out, const options& chosen) {
    constexpr unsigned commits = 200;
    bench::samples clean;
    bench::samples killed;
    const bench::workplace place(chosen.common.directory);
    const std::string path = (place.path() / "open.hf").string();
    const std::uint64_t bytes = *std::ranges::max_element(chosen.heap_bytes);
    static_cast<void>(bench::run_child(bench::ending::exits, [&](const bench::child_process&) {
        holdfast::manager heap(holdfast::create_only, path);
        page_blocks blocks;
        fill(heap, blocks, bytes);
        heap.close();
    }));
    const auto open = [&](bench::samples& times) {
        const auto taken = bench::run_child(bench::ending::exits, [&](const bench::child_process& self) {
            const bench::stopwatch opening;
            holdfast::manager heap(holdfast::open_only, path);
            self.hand_back(opening.milliseconds());
            heap.close();
        });
        times.add(taken.get<double>());
    };
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        open(clean);
        static_cast<void>(bench::run_child(bench::ending::dies, [&](const bench::child_process&) {
            holdfast::manager heap(holdfast::open_only, path);
            auto* const base = static_cast<std::byte*>(heap.get_address());
            bench::random_source random(chosen.common.seed + round);
            for (unsigned i = 0; i < commits; ++i) {
                // Half of the user space is surely in blocks of whole pages behind the first slabs.
                const std::uint64_t at = bytes / 4 + random.below(bytes / 2) / page_bytes * page_bytes + 512;
                const std::uint64_t word = random.next();
                std::memcpy(base + at, &word, sizeof word);
                heap.commit();
            }
            bench::child_process::die();
        }));
        open(killed);
    }
    out.table("open",
              {{bench::count("mib", bytes / mib), bench::times("clean_ms", clean), bench::times("killed_ms", killed)}});
    out.goal_at_most("a clean open", clean.median(), 10, "ms");
    out.goal_at_most("an open behind a kill", killed.median(), 20, "ms");
}

void measure_memory(bench::report& out, const options& chosen) {
    constexpr double most_mib = 160;
    const bench::workplace place(chosen.common.directory);
    holdfast::manager heap(holdfast::create_only, (place.path() / "memory.hf").string());
    page_blocks blocks;
    fill(heap, blocks, chosen.rewritten_bytes);
    const std::uint64_t before = number_of_this_process("status", "RssAnon:");
    std::atomic<std::uint64_t> most{before};
    double cpu_of_watch = 0;
    const double cpu_before = bench::cpu_milliseconds();
    const bench::stopwatch rewriting;
    {
        const std::jthread watch([&](const std::stop_token& end) {
            while (!end.stop_requested()) {
                most = std::max(most.load(), number_of_this_process("status", "RssAnon:"));
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            cpu_of_watch = cpu_milliseconds_of_thread();
        });
        for (std::size_t block = 0; block < blocks.count(); ++block) {
            blocks.rewrite(block, block_bytes, 2);
            if ((block + 1) * block_bytes % chosen.step_bytes == 0) {
                heap.commit();
            }
        }
    }
    const double rewritten_ms = rewriting.milliseconds();
    const double cpu_ms = bench::cpu_milliseconds() - cpu_before - cpu_of_watch;
    const double more = static_cast<double>(most - before) / 1024;
    out.table(
        "memory beyond the files while all is rewritten",
        {{bench::count("mib", chosen.rewritten_bytes / mib), bench::count("step_mib", chosen.step_bytes / mib),
          bench::number("private_mib", more), bench::number("ms", rewritten_ms), bench::number("cpu_ms", cpu_ms)}});
    out.goal_at_most("private memory", more, most_mib, "MiB");
}

/// As a snapshot without shared blocks is made: what is no hole is read, written and synced.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to) {
    const std::string command =
        fmt::format("cp -r --sparse=always --reflink=never '{0}' '{1}' && sync '{1}'/*", from.string(), to.string());
    if (std::system(command.c_str()) != 0) {  // NOLINT(concurrency-mt-unsafe): one thread
        throw std::runtime_error("cp failed");
    }
}

/// What the heap has written before is neither the snapshot's nor the copy's.
void write_back(const std::filesystem::path& directory) {
    if (std::system(fmt::format("sync -f '{}'", directory.string()).c_str()) != 0) {  // NOLINT(concurrency-mt-unsafe)
        throw std::runtime_error("sync failed");
    }
}

void measure_snapshot(bench::report& out, const options& chosen) {
    bench::samples snapshot;
    bench::samples copy;
    const bench::workplace place(chosen.common.directory);
    const std::filesystem::path path = place.path() / "source.hf";
    const std::uint64_t bytes = *std::ranges::max_element(chosen.heap_bytes);
    holdfast::manager heap(holdfast::create_only, path.string());
    page_blocks blocks;
    fill(heap, blocks, bytes);
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        const std::filesystem::path ours = place.path() / "snapshot.hf";
        write_back(place.path());
        const bench::stopwatch taking;
        heap.snapshot(ours.string());
        snapshot.add(taking.milliseconds());
        std::filesystem::remove_all(ours);
        const std::filesystem::path theirs = place.path() / "copy.hf";
        write_back(place.path());
        const bench::stopwatch copying;
        copy_files(path, theirs);
        copy.add(copying.milliseconds());
        std::filesystem::remove_all(theirs);
    }
    out.table(
        "snapshot beside a copy of the files, in turn",
        {{bench::count("mib", bytes / mib), bench::times("snapshot_ms", snapshot), bench::times("copy_ms", copy)}});
    out.goal_at_most("a snapshot, against a copy", snapshot.median() / copy.median(), 1, "times");
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.heap_bytes = {16 * mib};
        chosen.commits = 50;
        chosen.commits_before = 100;
        chosen.load_bytes = 32 * mib;
        chosen.rewritten_bytes = 64 * mib;
        chosen.step_bytes = 16 * mib;
        chosen.common.rounds = 1;
    }
    bench::report out("commit_costs_bench", chosen.common);
    out.begin({{"heap_bytes", chosen.heap_bytes}, {"commits", chosen.commits}, {"load_bytes", chosen.load_bytes}});
    if (chosen.has("open")) {  // it must have no other threads
        measure_open(out, chosen);
    }
    if (chosen.has("pages")) {
        measure_pages(out, chosen);
    }
    if (chosen.has("load")) {
        measure_load(out, chosen);
    }
    if (chosen.has("memory")) {
        measure_memory(out, chosen);
    }
    if (chosen.has("snapshot")) {
        measure_snapshot(out, chosen);
    }
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("Cost of commits beyond their pages: one page, a bulk load, an open, private memory, a snapshot");
    chosen.common.declare(app);
    app.add_option("--heap-bytes", chosen.heap_bytes, "Bytes of the heaps, multiples of 16 MiB")
        .show_default()
        .size(kilobyte::of_1024);
    app.add_option("--commits", chosen.commits, "Commits of one page that are measured").show_default();
    app.add_option("--commits-before", chosen.commits_before, "Small commits before the second measurement")
        .show_default();
    app.add_option("--load-bytes", chosen.load_bytes, "Bytes of the bulk load").show_default().size(kilobyte::of_1024);
    app.add_option("--only", chosen.only, "Of pages, load, open, memory, snapshot: these");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "commit_costs_bench: {}\n", failure.what());
        return 1;
    }
}
