// What pages of 2 MiB save: a heap of durability `atomic` on tmpfs allocates, fills and walks through big blocks, for
// each way to mount the file system and each open_options::huge_pages. Mounts need root, and go with the program's name
// space.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "command_line/command_line.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast::open_options;
using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;
constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr std::uint64_t block_bytes = 4 * mib;
constexpr std::uint64_t small_page = 4096;
constexpr std::uint64_t loads = 10'000'000;

struct options {
    bench::common_options common;
    std::uint64_t bytes = gib;
};

struct choice {
    const char* mount;  ///< tmpfs's huge=; null: the directory as it is
    open_options::page_choice pages;
    const char* name;
};

std::uint64_t page_faults() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_minflt);
}

/// KiB of this process that files in memory have mapped by pages of 2 MiB.
std::uint64_t mapped_by_huge_pages() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;) {
        std::uint64_t number = 0;
        if (word == "ShmemPmdMapped:" && file >> number) {
            return number;
        }
    }
    return 0;
}

struct measurements {
    bench::samples allocate;
    bench::samples touch;
    bench::samples walk;
    std::uint64_t faults = 0;
    std::uint64_t huge_mib = 0;
    std::uint64_t checksum = 0;
};

void measure(const std::string& path, const choice& how, const options& chosen, measurements& found) {
    open_options wanted;
    wanted.durability = holdfast::durability::atomic;
    wanted.accept_process_crash_only = true;
    wanted.huge_pages = how.pages;
    std::vector<char*> blocks;
    {
        holdfast::manager heap(holdfast::create_only, path, wanted);
        const std::uint64_t before = page_faults();
        const bench::stopwatch allocating;
        for (std::uint64_t done = 0; done < chosen.bytes; done += block_bytes) {
            blocks.push_back(static_cast<char*>(heap.allocate(block_bytes)));
        }
        found.allocate.add(allocating.milliseconds());
        const bench::stopwatch touching;
        for (char* const block : blocks) {
            for (std::uint64_t at = 0; at < block_bytes; at += small_page) {
                std::memcpy(block + at, &at, sizeof at);
            }
        }
        found.touch.add(touching.milliseconds());
        found.faults = page_faults() - before;
        found.huge_mib = mapped_by_huge_pages() / 1024;
        // Each load depends on the one before: its latency is measured, with the TLB's misses.
        bench::random_source random(chosen.common.seed);
        std::uint64_t sum = 0;
        const bench::stopwatch walking;
        for (std::uint64_t i = 0; i < loads; ++i) {
            const std::uint64_t where = random.next() + (sum & 1U);
            std::uint64_t word = 0;
            std::memcpy(&word, blocks[where % blocks.size()] + (where >> 32U) % (block_bytes / small_page) * small_page,
                        sizeof word);
            sum += word;
        }
        found.walk.add(walking.milliseconds());
        found.checksum = bench::mix(sum);
    }
    holdfast::manager::remove(path);
}

bool may_mount() {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

int run(options chosen) {
    using page_choice = open_options::page_choice;
    constexpr choice choices[] = {{"never", page_choice::none, "never, none"},
                                  {"never", page_choice::advise, "never, advise"},
                                  {"never", page_choice::at_once, "never, at_once"},
                                  {"within_size", page_choice::none, "within_size, none"},
                                  {"within_size", page_choice::advise, "within_size, advise"}};
    if (chosen.common.smoke) {
        chosen.bytes = 64 * mib;
        chosen.common.rounds = 1;
    }
    bench::report out("huge_pages_bench", chosen.common);
    out.begin({{"bytes", chosen.bytes}, {"loads", loads}});
    const bench::workplace place(chosen.common.directory);
    const bool mounts = may_mount();
    if (!mounts) {
        out.note("not root: the directory's own file system instead of tmpfs with huge=");
    }
    std::vector<bench::row> rows;
    std::uint64_t checksum = 0;
    for (const choice& how : choices) {
        measurements found;
        for (unsigned round = 0; round < chosen.common.rounds; ++round) {
            if (mounts &&
                ::mount("holdfast", place.path().c_str(), "tmpfs", 0, fmt::format("huge={}", how.mount).c_str()) != 0) {
                throw std::runtime_error(fmt::format("mount -o huge={}: {}", how.mount, std::strerror(errno)));
            }
            measure((place.path() / "huge.hf").string(), how, chosen, found);
            if (mounts) {
                ::umount(place.path().c_str());
            }
        }
        checksum = bench::mix(checksum + found.checksum);
        rows.push_back({bench::label("tmpfs_huge_and_choice", how.name), bench::times("allocate_ms", found.allocate),
                        bench::times("touch_ms", found.touch), bench::times("random_loads_ms", found.walk),
                        bench::count("page_faults", found.faults), bench::count("in_huge_pages_mib", found.huge_mib)});
    }
    out.table("blocks of 4 MiB", rows);
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("What huge pages save");
    chosen.common.declare(app);
    app.add_option("--bytes", chosen.bytes, "Bytes that are allocated in all").show_default().size(kilobyte::of_1024);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "huge_pages_bench: {}\n", failure.what());
        return 1;
    }
}
