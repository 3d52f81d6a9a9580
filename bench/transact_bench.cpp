// What transactions over everything cost (manager::transact(), durability `commit`): inserts into a map of strings and
// vectors in a heap that is resident, beside a synced write of 4 KiB, plain commits, LMDB, SQLite and RocksDB, and an
// insert into a tree of libpmemobj (examples/maps). And what it costs that a store of the heap takes part.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/store_in_heap.hpp>
#include <holdfast/transaction.hpp>

#include "allocators/allocation_run.hpp"
#include "command_line/command_line.hpp"
#include "disk/store.hpp"
#include "support/report.hpp"
#include "support/timing.hpp"
#include "transactions/backend.hpp"

namespace {

using namespace holdfast;
using bench::time_of;

struct options {
    bench::common_options common;
    std::uint64_t count = 2000;
    std::uint64_t heap_bytes = std::uint64_t{64} << 20U;
    std::uint64_t seconds = 5;
    bool only_beside = false;
};

constexpr unsigned writers = 16;
constexpr std::uint64_t words_a_page = 512;
constexpr std::uint64_t of_a_part = 10;
constexpr std::uint64_t together = 1000;  ///< inserts of a transaction without a sync

struct given_up : std::exception {};

/// As many bytes as asked for, all of them stored to and committed, and a map.
class subject {
public:
    subject(const std::filesystem::path& path, std::uint64_t bytes)
        : heap_(create_only, path.string()),
          all_(*heap_.construct<table>("all")(heap_.get_allocator<>())),
          within_(heap_, "within"),
          beside_((path.parent_path() / "beside").string()) {
        words_ = bytes / sizeof(std::uint64_t);
        content_ = static_cast<std::uint64_t*>(heap_.allocate(bytes));
        std::fill_n(content_, words_, 1);
        heap_.commit();
    }
    [[nodiscard]] manager& heap() noexcept { return heap_; }
    void insert() {
        const std::string key = fmt::format("customer {:016}", next_++ * 0x9e37'79b9'7f4a'7c15U);
        all_[string(key.data(), key.size(), heap_.get_allocator<char>())].push_back(1);
    }
    void insert(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            insert();
        }
    }
    [[nodiscard]] heap_store& within() noexcept { return within_; }
    [[nodiscard]] store& beside() noexcept { return beside_; }
    /// 100 bytes.
    void put(store_changes& to) {
        to.put(fmt::format("{:016x}", next_++ * 0x9e37'79b9'7f4a'7c15U), std::string(84, '.'));
    }
    void change_a_page() { ++content_[next_++ * 0x9e37'79b9'7f4a'7c15U % words_]; }
    /// Of 200 that lie together.
    void change_a_page_again() { ++content_[next_++ * 0x9e37'79b9'7f4a'7c15U % std::min(words_, 200 * words_a_page)]; }
    void change_a_part() {
        for (std::uint64_t i = 0; i < words_ / words_a_page / 100; ++i) {
            change_a_page();
        }
    }
    /// Of 1 % of the pages, of which each thread has its own share and each round others.
    void change_share(unsigned thread, unsigned threads, std::uint64_t nth, std::uint64_t round) {
        const std::uint64_t pages = words_ / words_a_page;
        const std::uint64_t share = std::max<std::uint64_t>(pages / 100 / threads, 1);
        const std::uint64_t page = (nth % share * 100 * threads + thread * 100 + round % 100) % pages;
        ++content_[page * words_a_page + nth % words_a_page];
    }
    [[nodiscard]] std::uint64_t size() const { return all_.size(); }

private:
    using table = map<string, vector<int>>;

    manager heap_;
    table& all_;
    heap_store within_;
    store beside_;  ///< in a file of its own
    std::uint64_t* content_ = nullptr;
    std::uint64_t words_ = 0;
    std::uint64_t next_ = 0;
};

enum class work : std::uint8_t {
    write,
    page,
    page_again,
    insert,
    insert_of_writers,
    insert_and_commit,
    insert_and_put,
    insert_beside_put,
    insert_put_and_commit,
    commit_of_some,
    abort_of_some,
    many_in_one,
    many_later,
    many_and_commit,
    stop_of_commit,
    stop_of_commit_later,
};
constexpr std::array names{
    "write of 4 KiB, O_DSYNC",
    "transact: a word anywhere",
    "transact: a word in one of 200 pages",
    "transact: an insert",
    "transact: an insert, 16 threads",
    "an insert, then commit()",
    "transact: an insert, and a put into a store of the heap",
    "transact: an insert; a put into a store beside",
    "an insert; a put into a store of the heap; commit()",
    "transact: 10 inserts",
    "transact: 10 inserts, thrown away",
    "of one transaction: an insert",
    "of transactions of 1,000, later: an insert",
    "plain inserts, one commit(): an insert",
    "1 % of the pages changed: commit()",
    "1 % of the pages changed: commit_later(), without sync()",
};

/// Microseconds of each.
struct measurement {
    std::map<work, bench::samples> own;
    std::map<std::string, std::map<unsigned, bench::samples>> puts;  ///< by store and threads
};

/// Of the heap, and beside it.
void measure_with_stores(subject& in, std::uint64_t count, measurement& to) {
    const auto add = [&](work what, const std::function<void()>& call) {
        to.own[what].add(time_of(1, count, [&](unsigned, std::uint64_t) { call(); }));
    };
    add(work::insert_and_put, [&] {
        in.heap().transact([&](transaction& tx) {
            in.insert();
            in.put(in.within().write(tx));
        });
    });
    add(work::insert_beside_put, [&] {
        in.heap().transact([&] { in.insert(); });
        store_transaction put = in.beside().write();
        in.put(put);
        put.commit();
    });
    add(work::insert_put_and_commit, [&] {
        in.insert();
        store_transaction put = in.within().write();
        in.put(put);
        put.commit();
        in.heap().commit();
    });
}

void measure(subject& in, const options& chosen, unsigned round, measurement& to) {
    manager& heap = in.heap();
    const std::uint64_t some = std::max<std::uint64_t>(chosen.count / of_a_part, 5);
    const std::uint64_t many = chosen.count * 50;
    to.own[work::write].add(bench::time_of_a_write(chosen.common.directory / "transact_bench", chosen.count));
    const auto add = [&](work what, std::uint64_t count, const std::function<void()>& call, unsigned threads = 1) {
        to.own[what].add(time_of(threads, count, [&](unsigned, std::uint64_t) { call(); }));
    };
    add(work::page, chosen.count, [&] { heap.transact([&] { in.change_a_page(); }); });
    add(work::page_again, chosen.count, [&] { heap.transact([&] { in.change_a_page_again(); }); });
    add(work::insert, chosen.count, [&] { heap.transact([&] { in.insert(); }); });
    add(
        work::insert_of_writers, std::max<std::uint64_t>(chosen.count / writers, 5),
        [&] { heap.transact([&] { in.insert(); }); }, writers);
    add(work::insert_and_commit, chosen.count, [&] {
        in.insert();
        heap.commit();
    });
    measure_with_stores(in, chosen.count, to);
    add(work::commit_of_some, some, [&] { heap.transact([&] { in.insert(of_a_part); }); });
    add(work::abort_of_some, some, [&] {
        try {
            heap.transact([&] {
                in.insert(of_a_part);
                throw given_up();
            });
        } catch (const given_up&) {  // as planned
        }
    });
    for (int i = 0; i < 3; ++i) {
        in.change_a_part();
        add(work::stop_of_commit, 1, [&] { heap.commit(); });
        in.change_a_part();
        ticket taken;
        add(work::stop_of_commit_later, 1, [&] { taken = heap.commit_later(); });
        heap.sync(taken);
    }
    // The map grows: each comes first in turn.
    std::array<std::pair<work, std::function<void()>>, 3> of_many{
        {{work::many_and_commit,
          [&] {
              in.insert(many);
              heap.commit();
          }},
         {work::many_in_one, [&] { heap.transact([&] { in.insert(many); }); }},
         {work::many_later, [&] {
              ticket last;
              for (std::uint64_t done = 0; done < many; done += together) {
                  last = heap.transact_later([&] { in.insert(std::min(together, many - done)); });
              }
              heap.sync(last);
          }}}};
    std::ranges::rotate(of_many, of_many.begin() + round % of_many.size());
    for (const auto& [what, call] : of_many) {
        to.own[what].add(time_of(1, 1, [&](unsigned, std::uint64_t) { call(); }) / static_cast<double>(many));
    }
}

/// Four threads that store, for a while, and stand still once a second while a commit takes what they have changed.
class storing_threads {
public:
    explicit storing_threads(subject& in) : in_(in) {}

    struct result {
        double stores_a_second = 0;
        bench::samples stops;    ///< milliseconds
        bench::samples commits;  ///< until it was durable
    };
    result run(std::uint64_t seconds, bool commits) {
        using namespace std::chrono_literals;
        result found;
        std::atomic<std::uint64_t> stores{0};
        std::atomic<bool> ends{false};
        const auto begin = std::chrono::steady_clock::now();
        {
            std::vector<std::jthread> running;
            for (unsigned t = 0; t < threads; ++t) {
                running.emplace_back([&, t] { stores += store_until(t, ends); });
            }
            for (std::uint64_t second = 1; second <= seconds; ++second) {
                std::this_thread::sleep_until(begin + second * 1s);
                if (commits) {
                    commit(found);
                }
                ++round_;
            }
            ends = true;
        }
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        found.stores_a_second = static_cast<double>(stores) / taken.count();
        return found;
    }

private:
    static constexpr unsigned threads = 4;

    /// A shared lock is what the program has that stops its threads.
    std::uint64_t store_until(unsigned thread, const std::atomic<bool>& ends) {
        constexpr std::uint64_t at_once = 1000;
        std::uint64_t done = 0;
        while (!ends) {
            is_paused_.wait(true);
            const std::shared_lock section(may_store_);
            for (std::uint64_t i = 0; i < at_once; ++i) {
                in_.change_share(thread, threads, done++, round_);
            }
        }
        return done;
    }
    void commit(result& found) {
        ticket taken;
        const bench::stopwatch until_durable;
        is_paused_ = true;  // the lock alone would let those pass that store
        {
            const std::lock_guard others_wait(may_store_);
            const bench::stopwatch stop;
            taken = in_.heap().commit_later();
            found.stops.add(stop.milliseconds());
        }
        is_paused_ = false;
        is_paused_.notify_all();
        in_.heap().sync(taken);
        found.commits.add(until_durable.milliseconds());
    }

    subject& in_;
    std::shared_mutex may_store_;
    std::atomic<bool> is_paused_{false};
    std::atomic<std::uint64_t> round_{0};
};

void measure_beside(bench::report& out, subject& in, const options& chosen) {
    storing_threads threads(in);
    bench::samples ratios;
    bench::samples alone;
    storing_threads::result last;
    static_cast<void>(threads.run(1, true));
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        const double without = threads.run(chosen.seconds, false).stores_a_second;
        last = threads.run(chosen.seconds, true);
        alone.add(without / 1e6);
        ratios.add(last.stores_a_second / without);
    }
    out.table("4 threads that store to 1 % of the pages a second, with and without commit_later() each second",
              {{bench::number("million_stores_without", alone.median()), bench::number("ratio_with", ratios.median()),
                bench::times("stop_ms", last.stops), bench::times("until_durable_ms", last.commits)}});
    out.goal_at_least("throughput beside a commit each second", ratios.median(), 0.95, "times");
    out.goal_at_most("longest stop of other threads", last.stops.greatest(), 3, "ms");
}

void show(bench::report& out, measurement& measured) {
    std::vector<bench::row> rows;
    const auto add = [&](const std::string& what, const bench::samples& times) {
        rows.push_back({bench::label("work", what), bench::number("us", times.median()),
                        bench::number("least_us", times.least()), bench::number("greatest_us", times.greatest())});
    };
    for (const auto& [what, times] : measured.own) {
        add(names.at(static_cast<std::size_t>(what)), times);
    }
    for (const auto& [store, times] : measured.puts) {
        for (const auto& [threads, each] : times) {
            const bool is_tree = store == "libpmemobj";
            add(fmt::format("{}: {}, threads: {}", store, is_tree ? "two numbers, in a tree" : "a record of 100 bytes",
                            threads),
                each);
        }
    }
    out.table("transactions over everything; time of one, all threads together, medians", rows);
    const auto median = [&](work what) { return measured.own[what].median(); };
    const double insert = median(work::insert);
    out.goal_at_most("an insert, against a write of 4 KiB", insert / median(work::write), 1.3, "times");
    out.goal_at_least("16 threads, against one", insert / median(work::insert_of_writers), 5, "times");
    out.goal_at_most("10 inserts thrown away, against committed",
                     median(work::abort_of_some) / median(work::commit_of_some), 2, "times");
    out.goal_at_most("many in one, against plain inserts and commit()",
                     median(work::many_in_one) / median(work::many_and_commit), 1, "times");
    out.goal_at_most("transactions of 1,000, against plain inserts and commit()",
                     median(work::many_later) / median(work::many_and_commit), 1.5, "times");
    const std::map<std::string, double> goals{{"LMDB", 2}, {"SQLite", 1.5}};
    for (const auto& [peer, factor] : goals) {
        if (measured.puts.contains(peer)) {
            out.goal_at_least("an insert, against " + peer, measured.puts[peer][1].median() / insert, factor, "times");
        }
    }
}

/// Null where there is none.
std::unique_ptr<transactions::backend> make_libpmemobj(const std::filesystem::path& directory, bench::report& out) {
    try {
        return transactions::make_libpmemobj(directory, transactions::media::disk);
    } catch (const bench::backend_unavailable& missing) {
        out.note(missing.what());
        return nullptr;
    }
}

int run(const options& chosen) {
    bench::report out("transact_bench", chosen.common);
    out.begin({{"count", chosen.count}, {"heap_bytes", chosen.heap_bytes}, {"durability", "commit"}});
    const std::filesystem::path directory = chosen.common.directory / "transact_bench";
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    std::vector<std::unique_ptr<disk::store>> stores;
    for (const auto& make : std::vector<std::function<std::unique_ptr<disk::store>()>>{
             [&] { return disk::make_lmdb(directory); }, [&] { return disk::make_sqlite(directory, writers); },
             [&] { return disk::make_rocksdb(directory); }}) {
        try {
            stores.push_back(make());
        } catch (const bench::backend_unavailable& missing) {
            out.note(missing.what());
        }
    }
    const auto libpmemobj = make_libpmemobj(directory, out);
    std::mutex of_libpmemobj;  // its transactions lock nothing
    measurement measured;
    std::uint64_t size = 0;
    for (unsigned round = 0; round < chosen.common.rounds; ++round) {
        const std::string path = directory / "heap.hf";
        {
            subject in(path, chosen.heap_bytes);
            if (chosen.only_beside) {
                measure_beside(out, in, chosen);
                break;
            }
            measure(in, chosen, round, measured);
            size = in.size();
            in.heap().close();
        }
        manager::remove(path);
        std::filesystem::remove(directory / "beside");
        std::filesystem::remove(directory / "beside-lock");
        for (const unsigned threads : {1U, writers}) {
            for (const auto& each : stores) {
                const std::uint64_t count = std::max<std::uint64_t>(chosen.count / threads / 2, 20);
                measured.puts[each->name()][threads].add(time_of(threads, count, [&](unsigned t, std::uint64_t i) {
                    each->put(t, (std::uint64_t{t} << 32U) + round * chosen.count + i, disk::record{});
                }));
            }
            if (libpmemobj != nullptr) {
                const std::uint64_t count = std::max<std::uint64_t>(chosen.count / threads / 2, 20);
                maps::map& tree = libpmemobj->map("rbtree");
                measured.puts[libpmemobj->name()][threads].add(
                    time_of(threads, count, [&](unsigned t, std::uint64_t i) {
                        const std::lock_guard lock(of_libpmemobj);
                        tree.insert((std::uint64_t{t} << 32U) + round * chosen.count + i, 1);
                    }));
            }
        }
    }
    if (!chosen.only_beside) {
        show(out, measured);
    }
    out.checksum(size);
    stores.clear();
    std::filesystem::remove_all(directory);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    holdfast_programs::command_line app("Cost of transactions over everything");
    chosen.common.declare(app);
    app.add_option("--count", chosen.count, "Transactions of a round").show_default();
    app.add_option("--heap-bytes", chosen.heap_bytes, "Bytes of the heap that are stored to before").show_default();
    app.add_flag("--beside", chosen.only_beside, "Only threads that store beside commit_later()");
    app.add_option("--seconds", chosen.seconds, "Of each measurement beside").show_default();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (chosen.common.smoke) {
        chosen.count = 50;
        chosen.heap_bytes = std::uint64_t{4} << 20U;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "transact_bench: {}\n", failure.what());
        return 1;
    }
}
