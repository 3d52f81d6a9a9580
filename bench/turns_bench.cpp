// What a turn costs where processes change one heap by turns (open_options::shared): a transaction that changes one
// element of a map, in one process and in two, which both want the turn all the time, or each behind the other.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "command_line/command_line.hpp"
#include "support/report.hpp"

namespace {

using namespace holdfast;
using table = map<std::uint64_t, std::uint64_t>;
using clock = std::chrono::steady_clock;

struct options {
    bench::common_options common;
    std::uint64_t entries = 100'000;
    std::uint64_t count = 2000;
    bool only_alternating = false;
    bool allocates = false;
};

class pipe_of_bytes {
public:
    pipe_of_bytes() {
        if (::pipe(ends_.data()) != 0) {
            throw std::system_error(errno, std::generic_category(), "pipe");
        }
    }
    pipe_of_bytes(const pipe_of_bytes&) = delete;
    pipe_of_bytes& operator=(const pipe_of_bytes&) = delete;
    ~pipe_of_bytes() {
        ::close(ends_[0]);
        ::close(ends_[1]);
    }
    void put() const {
        const char byte = 1;
        if (::write(ends_[1], &byte, 1) != 1) {
            throw std::runtime_error("the other process is gone");
        }
    }
    void take() const {
        char byte = 0;
        if (::read(ends_[0], &byte, 1) != 1) {
            throw std::runtime_error("the other process is gone");
        }
    }

private:
    std::array<int, 2> ends_{};
};

manager open_heap(const std::string& path, bool shared) {
    open_options wanted;
    wanted.shared = shared;
    return {open_only, path, wanted};
}

/// Transactions, before each of which `before` is called, and behind each `behind`.
template <class Before, class Behind>
void change(manager& heap, const options& chosen, std::uint64_t seed, Before before, Behind behind) {
    std::mt19937_64 random(seed);
    for (std::uint64_t i = 0; i < chosen.count; ++i) {
        before();
        heap.transact([&] {
            table& entries = *heap.find<table>("table").first;
            const std::uint64_t key = random() % chosen.entries;
            if (chosen.allocates) {
                const std::uint64_t value = entries.at(key) + 1;
                entries.erase(key);
                entries.emplace(key, value);
            } else {
                ++entries[key];
            }
        });
        behind();
    }
}

double microseconds_a_transaction(clock::time_point start, std::uint64_t transactions) {
    return std::chrono::duration<double, std::micro>(clock::now() - start).count() / static_cast<double>(transactions);
}

double alone(const std::string& path, const options& chosen, bool shared) {
    manager heap = open_heap(path, shared);
    heap.transact([] {});
    const auto start = clock::now();
    change(
        heap, chosen, 1, [] {}, [] {});
    return microseconds_a_transaction(start, chosen.count);
}

/// Of one process, which share syncs.
double two_threads(const std::string& path, const options& chosen) {
    manager heap = open_heap(path, false);
    heap.transact([] {});
    const auto start = clock::now();
    std::thread other([&] {
        change(
            heap, chosen, 2, [] {}, [] {});
    });
    change(
        heap, chosen, 3, [] {}, [] {});
    other.join();
    return microseconds_a_transaction(start, 2 * chosen.count);
}

enum class order { free, alternating };

double together(const std::string& path, const options& chosen, order how) {
    const pipe_of_bytes to_child;
    const pipe_of_bytes to_parent;
    const bool alternates = how == order::alternating;
    const auto take_of = [alternates](const pipe_of_bytes& from) {
        return [&from, alternates] { alternates ? from.take() : void(); };
    };
    const auto put_of = [alternates](const pipe_of_bytes& to) {
        return [&to, alternates] { alternates ? to.put() : void(); };
    };
    const pid_t child = ::fork();
    if (child == 0) {
        try {
            manager heap = open_heap(path, true);
            heap.transact([] {});
            to_parent.put();
            to_child.take();
            change(heap, chosen, 2, take_of(to_child), put_of(to_parent));
            to_parent.put();
            heap.close();
            ::_exit(0);
        } catch (const std::exception& failure) {
            fmt::print(stderr, "turns_bench: {}\n", failure.what());
            ::_exit(1);
        }
    }
    manager heap = open_heap(path, true);
    heap.transact([] {});
    to_parent.take();
    const auto start = clock::now();
    to_child.put();
    change(
        heap, chosen, 3, [] {},
        [&] {
            put_of(to_child)();
            take_of(to_parent)();
        });
    to_parent.take();
    const double time = microseconds_a_transaction(start, 2 * chosen.count);
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) {
        throw std::runtime_error("the other process failed");
    }
    return time;
}

int run(const options& chosen) {
    bench::report out("turns_bench", chosen.common);
    out.begin({{"entries", chosen.entries}, {"count", chosen.count}});
    const std::string path = chosen.common.directory / "turns_bench.hf";
    std::filesystem::create_directories(chosen.common.directory);
    manager::remove(path);
    {
        manager made(create_only, path);
        table& entries = *made.construct<table>("table")(made.get_allocator<>());
        for (std::uint64_t i = 0; i < chosen.entries; ++i) {
            entries.emplace(i, 0);
        }
    }
    std::map<std::string, bench::samples> times;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        if (!chosen.only_alternating) {
            times["1 process"].add(alone(path, chosen, false));
            times["1 process that shares it"].add(alone(path, chosen, true));
            times["2 threads of a process"].add(two_threads(path, chosen));
            times["2 processes"].add(together(path, chosen, order::free));
        }
        times["2 processes, one behind the other"].add(together(path, chosen, order::alternating));
    }
    std::uint64_t sum = 0;
    {
        const manager heap = open_heap(path, false);
        for (const auto& each : *heap.find<table>("table").first) {
            sum += each.second;
        }
    }
    manager::remove(path);
    std::vector<bench::row> rows;
    for (auto& [who, found] : times) {
        rows.push_back({bench::label("who", who), bench::number("us", found.median()),
                        bench::number("least_us", found.least()), bench::number("greatest_us", found.greatest())});
    }
    out.table("transactions of one element; microseconds each, of all processes together", rows);
    out.goal_at_least("transactions of two processes that alternate, on tmpfs",
                      1e6 / times["2 processes, one behind the other"].median(), 50'000, "per s");
    out.checksum(sum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    holdfast_programs::command_line app("Cost of turns of processes that share a heap");
    chosen.common.declare(app);
    app.add_option("--entries", chosen.entries, "Elements of the map").show_default();
    app.add_option("--count", chosen.count, "Transactions of a process, a round").show_default();
    app.add_flag("--alternating", chosen.only_alternating, "Two processes that alternate, and nothing else");
    app.add_flag("--allocate", chosen.allocates, "Each transaction replaces an element, and changes no value in place");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (chosen.common.smoke) {
        chosen.entries = 1000;
        chosen.count = 50;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "turns_bench: {}\n", failure.what());
        return 1;
    }
}
