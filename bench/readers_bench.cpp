// What readers beside a writer cost (manager::refresh(), durability `commit`): a refresh by the pages that changed, the
// writer's rate beside readers that stay and that follow, and the memory of many readers of one map.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "command_line/command_line.hpp"
#include "support/report.hpp"

namespace {

using namespace holdfast;
using words = vector<std::uint64_t>;
using table = map<std::uint64_t, std::uint64_t>;

struct options {
    bench::common_options common;
    std::uint64_t heap_bytes = std::uint64_t{512} << 20U;
    std::uint64_t commits = 2000;
    std::uint64_t entries = 2'000'000;
    unsigned readers = 8;
    unsigned lookers = 16;
    // Of a reading process, which another one has started.
    std::string reader;
    unsigned work = 0;
    unsigned ready = 0;
    unsigned end = 0;
};

constexpr std::uint64_t words_a_page = 512;

enum class reader_work : std::uint8_t { stay = 1, follow, look };

/// What a reading process does, with a pipe to tell that it reads, and one that ends when it shall.
int read_until_told(const std::string& path, reader_work work, int ready, int end) {
    manager heap(open_read_only, path);
    std::uint64_t sum = 0;
    if (work == reader_work::look) {
        for (const auto& each : *heap.find<table>("table").first) {
            sum += each.second;
        }
    }
    if (::write(ready, &sum, sizeof sum) != sizeof sum) {
        return 1;
    }
    pollfd ends{end, 0, 0};
    while (::poll(&ends, 1, work == reader_work::follow ? 1 : -1) == 0) {
        heap.refresh();
    }
    return 0;
}

/// Processes of their own, not children that share the writer's memory, which read until this object ends.
class readers {
public:
    readers(const std::string& heap, unsigned count, reader_work work) {
        if (::pipe(ready_.data()) != 0 || ::pipe(end_.data()) != 0) {
            throw std::system_error(errno, std::generic_category(), "pipe");
        }
        const std::string number = std::to_string(static_cast<unsigned>(work));
        const std::string ready = std::to_string(ready_[1]);
        const std::string end = std::to_string(end_[0]);
        const std::array<const char*, 10> arguments{"readers_bench", "--reader", heap.c_str(),  "--work",
                                                    number.c_str(),  "--ready",  ready.c_str(), "--end",
                                                    end.c_str(),     nullptr};
        for (unsigned i = 0; i < count; ++i) {
            const pid_t child = ::fork();
            if (child == 0) {
                ::close(end_[1]);
                ::execv("/proc/self/exe", const_cast<char* const*>(arguments.data()));
                ::_exit(1);
            }
            children_.push_back(child);
        }
        ::close(ready_[1]);
        ::close(end_[0]);
        for (unsigned i = 0; i < count; ++i) {
            std::uint64_t sum = 0;
            if (::read(ready_[0], &sum, sizeof sum) != sizeof sum) {
                throw std::runtime_error("a reader failed");
            }
        }
    }
    readers(const readers&) = delete;
    readers& operator=(const readers&) = delete;
    ~readers() {
        ::close(end_[1]);
        for (const pid_t child : children_) {
            ::waitpid(child, nullptr, 0);
        }
        ::close(ready_[0]);
    }
    /// Proportional memory of all, in KiB.
    [[nodiscard]] std::uint64_t memory() const {
        std::uint64_t all = 0;
        for (const pid_t child : children_) {
            std::ifstream lines(fmt::format("/proc/{}/smaps_rollup", child));
            for (std::string word; lines >> word;) {
                if (word == "Pss:") {
                    std::uint64_t found = 0;
                    lines >> found;
                    all += found;
                }
            }
        }
        return all;
    }

private:
    std::array<int, 2> ready_{};
    std::array<int, 2> end_{};
    std::vector<pid_t> children_;
};

struct measurement {
    std::map<std::uint64_t, bench::samples> refresh;  ///< microseconds, by pages
    std::map<std::string, bench::samples> rate;       ///< transactions a second
    std::map<unsigned, bench::samples> memory;        ///< MiB of all, by processes
};

double microseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void measure_refreshes(manager& writer, words& all, const std::string& path, measurement& to) {
    manager reader(open_read_only, path);
    const std::uint64_t pages = all.size() / words_a_page;
    for (const std::uint64_t changed : {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{100'000}}) {
        if (changed > pages) {
            continue;
        }
        for (int i = 0; i < 20; ++i) {
            for (std::uint64_t k = 0; k < changed; ++k) {
                ++all[k * (pages / changed) * words_a_page + static_cast<std::uint64_t>(i)];
            }
            writer.commit();
            const auto start = std::chrono::steady_clock::now();
            reader.refresh();
            to.refresh[changed].add(microseconds_since(start));
            if (changed == 100'000 && i == 2) {
                break;
            }
        }
    }
}

double rate_of(manager& writer, words& all, std::uint64_t count) {
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t place = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        place = (place + 0x9e37'79b9'7f4a'7c15U) % all.size();
        writer.transact([&] { ++all[place]; });
    }
    return static_cast<double>(count) / microseconds_since(start) * 1e6;
}

void measure_rates(manager& writer, words& all, const std::string& path, const options& chosen, measurement& to) {
    rate_of(writer, all, chosen.commits);  // the pages come into memory
    to.rate["no reader"].add(rate_of(writer, all, chosen.commits));
    {
        const readers idle(path, chosen.readers, reader_work::stay);
        to.rate["readers that stay"].add(rate_of(writer, all, chosen.commits));
    }
    writer.commit();
    const readers following(path, chosen.readers, reader_work::follow);
    to.rate["readers that follow each millisecond"].add(rate_of(writer, all, chosen.commits));
}

void measure_memory(manager& writer, const std::string& path, const options& chosen, measurement& to) {
    writer.commit();
    for (const unsigned count : {1U, chosen.lookers}) {
        const readers all(path, count, reader_work::look);
        to.memory[count].add(static_cast<double>(all.memory()) / 1024);
    }
}

void show(bench::report& out, measurement& measured, const options& chosen) {
    std::vector<bench::row> rows;
    for (const auto& [pages, times] : measured.refresh) {
        rows.push_back({bench::count("pages", pages), bench::number("refresh_us", times.median()),
                        bench::number("least_us", times.least()), bench::number("greatest_us", times.greatest())});
    }
    out.table("refresh(), by the pages that one commit has changed; microseconds", rows);
    rows.clear();
    for (const auto& [beside, rates] : measured.rate) {
        rows.push_back({bench::label("beside", beside), bench::number("transactions_per_s", rates.median()),
                        bench::number("least", rates.least()), bench::number("greatest", rates.greatest())});
    }
    out.table(fmt::format("transactions of one word; {} readers", chosen.readers), rows);
    rows.clear();
    for (const auto& [count, sizes] : measured.memory) {
        rows.push_back({bench::count("processes", count), bench::number("pss_mib", sizes.median())});
    }
    out.table("memory of processes that have read a map, all together (PSS)", rows);
    const std::map<std::uint64_t, double> most{{1, 20}, {1000, 3000}, {100'000, 300'000}};
    for (const auto& [pages, limit] : most) {
        if (measured.refresh.contains(pages)) {
            out.goal_at_most(fmt::format("refresh after {} pages", pages), measured.refresh[pages].median(), limit,
                             "us");
        }
    }
    const double alone = measured.rate["no reader"].median();
    out.goal_at_least("the writer's rate beside readers that stay", measured.rate["readers that stay"].median() / alone,
                      0.97, "times");
    out.goal_at_least("the writer's rate beside readers that follow",
                      measured.rate["readers that follow each millisecond"].median() / alone, 0.9, "times");
    out.goal_at_most("memory of many readers, against one",
                     measured.memory[chosen.lookers].median() / measured.memory[1].median(), 1.05, "times");
}

int run(const options& chosen) {
    bench::report out("readers_bench", chosen.common);
    out.begin({{"heap_bytes", chosen.heap_bytes},
               {"commits", chosen.commits},
               {"entries", chosen.entries},
               {"readers", chosen.readers},
               {"lookers", chosen.lookers}});
    const std::string path = chosen.common.directory / "readers_bench.hf";
    std::filesystem::create_directories(chosen.common.directory);
    manager::remove(path);
    measurement measured;
    std::uint64_t sum = 0;
    {
        manager writer(create_only, path);
        words& all = *writer.construct<words>("words")(writer.get_allocator<std::uint64_t>());
        all.assign(chosen.heap_bytes / sizeof(std::uint64_t), 1);
        table& entries = *writer.construct<table>("table")(writer.get_allocator<>());
        for (std::uint64_t i = 0; i < chosen.entries; ++i) {
            entries.emplace(i, i);
        }
        writer.commit();
        for (unsigned round = 0; round < chosen.common.rounds; ++round) {
            measure_refreshes(writer, all, path, measured);
            measure_rates(writer, all, path, chosen, measured);
            measure_memory(writer, path, chosen, measured);
        }
        for (const std::uint64_t each : all) {
            sum += each;
        }
    }
    manager::remove(path);
    show(out, measured, chosen);
    out.checksum(sum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    holdfast_programs::command_line app("Cost of readers beside a writer");
    chosen.common.declare(app);
    app.add_option("--heap-bytes", chosen.heap_bytes, "Bytes of words in the heap").show_default();
    app.add_option("--commits", chosen.commits, "Transactions of a round").show_default();
    app.add_option("--entries", chosen.entries, "Entries of the map").show_default();
    app.add_option("--reader", chosen.reader, "The heap to read: used by this program alone");
    app.add_option("--work", chosen.work, "Used by this program alone");
    app.add_option("--ready", chosen.ready, "Used by this program alone");
    app.add_option("--end", chosen.end, "Used by this program alone");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (chosen.common.smoke) {
        chosen.heap_bytes = std::uint64_t{16} << 20U;
        chosen.commits = 50;
        chosen.entries = 5000;
        chosen.readers = 2;
        chosen.lookers = 2;
    }
    try {
        return chosen.reader.empty() ? run(chosen)
                                     : read_until_told(chosen.reader, static_cast<reader_work>(chosen.work),
                                                       static_cast<int>(chosen.ready), static_cast<int>(chosen.end));
    } catch (const std::exception& failure) {
        fmt::print(stderr, "readers_bench: {}\n", failure.what());
        return 1;
    }
}
