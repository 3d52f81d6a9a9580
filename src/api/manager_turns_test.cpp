// Processes that change a heap by turns. Two managers of one process are as two processes: each has its own files open.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

using texts = map<int, string>;

class manager_turns_test : public manager_test {
protected:
    void make_shared_heap() const {
        manager heap = create();
        heap.construct<texts>("texts")();
        heap.construct<int>("number")(0);
    }
    static int& number_of(const manager& heap) { return *heap.find<int>("number").first; }
    static texts& texts_of(const manager& heap) { return *heap.find<texts>("texts").first; }
    static void add(manager& heap, int key) {
        heap.transact([&] {
            texts_of(heap).emplace(key, string(std::to_string(key).c_str(), heap.get_allocator<char>()));
            ++number_of(heap);
        });
    }
    static void expect_texts(const manager& heap, int count) {
        ASSERT_EQ(number_of(heap), count);
        ASSERT_EQ(texts_of(heap).size(), static_cast<std::size_t>(count));
        for (const auto& [key, text] : texts_of(heap)) {
            EXPECT_EQ(text, std::to_string(key).c_str());
        }
    }
};

TEST_F(manager_turns_test, each_turn_begins_with_what_the_others_have_left) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    const int* const there = &number_of(one);
    for (int i = 0; i < 200; ++i) {
        add(i % 2 == 0 ? one : other, i);
        expect_texts(i % 2 == 0 ? one : other, i + 1);
        expect_texts(i % 2 == 0 ? other : one, i);  // it rests
    }
    EXPECT_EQ(&number_of(one), there);
    one.refresh();
    expect_texts(one, 200);
    EXPECT_TRUE(one.check(true).empty());
    EXPECT_TRUE(other.check(true).empty());
}

TEST_F(manager_turns_test, a_process_that_has_all_turns_reads_nothing_anew) {
    make_shared_heap();
    manager one = share();
    const manager other = share();
    add(one, 0);
    add(one, 1);
    const std::uint64_t version = one.version();
    for (int i = 2; i < 50; ++i) {
        add(one, i);
    }
    EXPECT_EQ(one.version(), version + 48);
    expect_texts(one, 50);
    expect_texts(other, 0);
}

TEST_F(manager_turns_test, refresh_and_wait_follow_the_others) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    EXPECT_FALSE(other.wait_for_change(std::chrono::milliseconds(1)));
    add(one, 1);
    EXPECT_TRUE(other.wait_for_change(std::chrono::seconds(10)));
    const refresh_report done = other.refresh();
    EXPECT_EQ(done.version, one.version());
    EXPECT_EQ(done.commits, 1U);
    expect_texts(other, 1);
    EXPECT_EQ(other.refresh().commits, 0U);
    EXPECT_FALSE(other.wait_for_change(std::chrono::milliseconds(1)));
}

// A thread keeps the memory of its last transaction, with what it knows of the heap's parts.
TEST_F(manager_turns_test, transactions_of_copies_know_that_the_heap_was_opened_anew) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    for (int i = 0; i < 40; ++i) {
        one.transact([&](transaction& tx) {
            if (void* const before = std::as_const(one).root(0).get()) {
                tx.free(before);
            }
            tx.store(one.root(0), tx.allocate(1000));
            ++tx.open(number_of(one));
        });
        other.transact([&] { other.root(1) = other.allocate(100); });
    }
    one.refresh();
    EXPECT_EQ(number_of(one), 40);
    EXPECT_TRUE(one.check(true).empty());
    EXPECT_TRUE(other.check(true).empty());
}

TEST_F(manager_turns_test, a_transaction_of_copies_outside_of_a_turn_is_refused) {
    make_shared_heap();
    manager one = share();
    EXPECT_EQ(reason_of([&] { transaction tx(one); }), errc::read_only);
    one.transact([&](transaction& tx) { tx.open(number_of(one)) = 1; });
    EXPECT_EQ(reason_of([&] { transaction tx(one); }), errc::read_only);
    EXPECT_EQ(number_of(one), 1);
}

TEST_F(manager_turns_test, an_abort_leaves_nothing) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    for (int i = 0; i < 20; ++i) {
        add(i % 2 == 0 ? one : other, i);
        EXPECT_THROW(one.transact([&] {
            texts_of(one).clear();
            static_cast<void>(one.allocate(3'000'000));  // the heap grows
            one.construct<int>("gone")(1);
            throw std::runtime_error("no");
        }),
                     std::runtime_error);
        other.transact([&] { EXPECT_EQ(other.find<int>("gone").first, nullptr); });
        expect_texts(other, i + 1);
    }
    EXPECT_TRUE(other.check(true).empty());
}

TEST_F(manager_turns_test, changes_outside_of_a_transaction_are_refused) {
    make_shared_heap();
    manager one = share();
    EXPECT_TRUE(one.read_only());
    EXPECT_EQ(reason_of([&] { static_cast<void>(one.allocate(8)); }), errc::read_only);
    EXPECT_EQ(one.allocate(8, std::nothrow), nullptr);
    EXPECT_EQ(reason_of([&] { one.construct<int>("new")(1); }), errc::read_only);
    EXPECT_EQ(reason_of([&] { one.destroy<int>("number"); }), errc::read_only);
    EXPECT_EQ(reason_of([&] { one.set_description("text"); }), errc::read_only);
    EXPECT_EQ(reason_of([&] { texts_of(one).emplace(1, string("x", one.get_allocator<char>())); }), errc::not_found);
    try {
        one.construct<int>("new")(1);
        ADD_FAILURE();
    } catch (const error& refused) {
        EXPECT_THAT(refused.what(), testing::HasSubstr("transact()"));
    }
    one.transact([&] { one.construct<int>("new")(1); });
    EXPECT_EQ(*one.find<int>("new").first, 1);
}

TEST_F(manager_turns_test, stores_outside_of_a_transaction_are_taken_back) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    add(one, 1);
    number_of(one) = 77;  // nobody had the turn since
    one.transact([&] { EXPECT_EQ(number_of(one), 1); });
    add(other, 2);
    number_of(one) = 78;  // its page comes from another process, too
    one.transact([&] { EXPECT_EQ(number_of(one), 2); });
    number_of(one) = 79;
    add(one, 3);
    other.refresh();
    expect_texts(other, 3);
    EXPECT_TRUE(one.check(true).empty());
}

TEST_F(manager_turns_test, no_call_commits_stores_outside_of_a_transaction) {
    make_shared_heap();
    std::optional<manager> one(share());
    const auto expect_none = [&](int number) {
        manager other = share();
        other.refresh();
        EXPECT_EQ(number_of(other), number);
    };
    add(*one, 1);
    number_of(*one) = 77;
    one->commit();
    expect_none(1);
    number_of(*one) = 78;
    one->shrink();
    expect_none(1);
    number_of(*one) = 79;
    one->snapshot(path("copy"));
    EXPECT_EQ(number_of(manager(open_read_only, path("copy"))), 1);
    number_of(*one) = 80;
    EXPECT_TRUE(one->check(true).empty());
    one->refresh();
    EXPECT_EQ(number_of(*one), 1);
    number_of(*one) = 81;
    one.reset();  // it is the last one
    EXPECT_EQ(number_of(open()), 1);
}

TEST_F(manager_turns_test, commit_and_later_take_the_turn) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    const ticket done = one.transact_later([&] { ++number_of(one); });
    other.refresh();
    EXPECT_EQ(number_of(other), 1);
    one.sync(done);
    other.commit();
    one.commit();
    const std::string copy = path("copy");
    one.snapshot(copy);
    const manager there(open_read_only, copy);
    EXPECT_EQ(number_of(there), 1);
}

TEST_F(manager_turns_test, the_last_one_closes_the_heap) {
    make_shared_heap();
    {
        std::optional<manager> one(share());
        manager other = share();
        add(*one, 0);
        add(other, 1);
        one.reset();
        add(other, 2);
        expect_texts(other, 3);
        EXPECT_EQ(reason_of([&] { open(); }), errc::locked);
    }
    const manager heap = open();
    EXPECT_FALSE(heap.statistics().recovered);
    EXPECT_EQ(heap.statistics().recoveries, 0U);
    expect_texts(heap, 3);
}

// Who closes the heap without a record of its own says on media where the log of the others ends. Else files of it that
// a death has left there would count as records of the next session.
TEST_F(manager_turns_test, the_last_one_that_dies_before_it_removes_the_log_leaves_a_heap_that_opens) {
    make_shared_heap();
    using block = std::array<char, 200'000>;
    open().construct<block>("block")()->fill('.');
    const std::string kept = path("kept");
    {
        std::optional<manager> one(share());
        manager other = share();
        for (char i = 'a'; i < 'z'; ++i) {  // beyond a file of the log
            one->transact([&] { one->find<block>("block").first->fill(i); });
        }
        one->transact([&] { ++number_of(*one); });
        one.reset();
        std::filesystem::create_directory(kept);
        for (const auto& entry : std::filesystem::directory_iterator(path())) {
            if (entry.path().filename().string().starts_with("log.")) {
                std::filesystem::copy(entry.path(), kept + "/" + entry.path().filename().string());
            }
        }
        other.close(false);
    }
    std::filesystem::copy(kept, path(), std::filesystem::copy_options::recursive);
    manager heap = open();
    ++number_of(heap);
    heap.commit();
    EXPECT_EQ(number_of(heap), 2);
    EXPECT_TRUE(heap.check(true).empty());
}

TEST_F(manager_turns_test, who_shares_and_who_does_not_refuse_one_another) {
    make_shared_heap();
    {
        const manager alone = open();
        EXPECT_EQ(reason_of([&] { static_cast<void>(share()); }), errc::locked);
    }
    const manager one = share();
    try {
        open();
        ADD_FAILURE();
    } catch (const error& refused) {
        EXPECT_EQ(refused.reason(), errc::locked);
        EXPECT_THAT(refused.what(), testing::HasSubstr("share"));
    }
    EXPECT_EQ(reason_of([&] { manager::remove(path()); }), errc::locked);
    open_options atomic;
    atomic.durability = durability::atomic;
    atomic.accept_process_crash_only = true;
    EXPECT_EQ(reason_of([&] { manager(open_only, path(), atomic); }), errc::locked);
    atomic.shared = true;
    EXPECT_EQ(reason_of([&] { manager(open_only, path(), atomic); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { manager(open_read_only, path(), shared_options()); }), errc::invalid_argument);
}

TEST_F(manager_turns_test, who_opens_or_creates_is_refused_at_once_beside_one_that_does_not_share) {
    make_shared_heap();
    const manager alone = open();
    const auto begin = std::chrono::steady_clock::now();
    try {
        const manager shared(open_or_create, path(), shared_options());
        ADD_FAILURE();
    } catch (const error& refused) {
        EXPECT_EQ(refused.reason(), errc::locked);
        EXPECT_THAT(refused.what(), testing::HasSubstr("share"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(manager_turns_test, readers_go_beside) {
    make_shared_heap();
    manager one = share();
    manager reader(open_read_only, path());
    manager other = share();
    for (int i = 0; i < 20; ++i) {
        add(i % 3 == 0 ? other : one, i);
        expect_texts(reader, i);
        EXPECT_EQ(reader.refresh().commits, 1U);
        expect_texts(reader, i + 1);
        const manager late(open_read_only, path());
        expect_texts(late, i + 1);
    }
}

TEST_F(manager_turns_test, several_create_it_at_once) {
    constexpr int each = 50;
    const auto work = [this] {
        manager heap(open_or_create, path(), shared_options());
        for (int i = 0; i < each; ++i) {
            heap.transact([&] { ++*heap.find_or_construct<int>("number")(0); });
        }
    };
    {
        base::child_process a(work);
        base::child_process b(work);
        base::child_process c(work);
        EXPECT_TRUE(a.wait().succeeded());
        EXPECT_TRUE(b.wait().succeeded());
        EXPECT_TRUE(c.wait().succeeded());
    }
    EXPECT_EQ(number_of(open()), 3 * each);
}

TEST_F(manager_turns_test, a_process_that_dies_with_the_turn_leaves_it_to_the_next) {
    make_shared_heap();
    manager one = share();
    for (int i = 0; i < 5; ++i) {
        const base::process_end died = base::run_in_child([&] {
            manager heap = share();
            add(heap, 2 * i);
            heap.transact([&] {
                texts_of(heap).clear();
                for (int more = 0; more < 1000; ++more) {
                    static_cast<void>(heap.allocate(10'000));
                }
                ::raise(SIGKILL);
            });
        });
        EXPECT_TRUE(died.was_killed()) << died;
        add(one, 2 * i + 1);
        expect_texts(one, 2 * i + 2);
    }
    EXPECT_TRUE(one.check(true).empty());
}

// Another thread waits for changes of a heap that cannot be opened anew.
TEST_F(manager_turns_test, a_heap_that_is_gone_ends_the_wait_of_other_threads) {
    make_shared_heap();
    manager one = share();
    std::atomic<bool> waits{false};
    std::atomic<bool> has_ended{false};
    std::thread waiting([&] {
        EXPECT_EQ(reason_of([&] {
                      while (!has_ended) {
                          static_cast<void>(one.wait_for_change(std::chrono::microseconds(100)));
                          waits = true;
                      }
                  }),
                  errc::invalid_argument);
    });
    while (!waits) {
        std::this_thread::yield();
    }
    EXPECT_TRUE(base::run_in_child([&] {
                    manager heap = share();
                    heap.transact([] { ::raise(SIGKILL); });
                }).was_killed());
    const std::string objects = path() + "/objects";
    ASSERT_EQ(::rename(objects.c_str(), (objects + ".away").c_str()), 0);
    EXPECT_EQ(reason_of([&] { one.transact([] {}); }), errc::missing);
    EXPECT_FALSE(one.is_open());
    EXPECT_EQ(reason_of([&] { one.transact([] {}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { one.refresh(); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { one.read([] { ADD_FAILURE() << "there is nothing to read"; }); }),
              errc::invalid_argument);
    waiting.join();
    has_ended = true;
    ASSERT_EQ(::rename((objects + ".away").c_str(), objects.c_str()), 0);
    EXPECT_EQ(number_of(open()), 0);
}

TEST_F(manager_turns_test, threads_of_processes_take_turns) {
    constexpr int each = 40;
    constexpr int threads = 3;
    make_shared_heap();
    const auto work = [this] {
        manager heap = share();
        std::vector<std::thread> all;
        all.reserve(threads);
        for (int i = 0; i < threads; ++i) {
            all.emplace_back([&] {
                for (int n = 0; n < each; ++n) {
                    heap.transact([&] { add(heap, number_of(heap)); });
                    heap.read([&] { EXPECT_EQ(texts_of(heap).size(), static_cast<std::size_t>(number_of(heap))); });
                }
            });
        }
        for (std::thread& one : all) {
            one.join();
        }
    };
    {
        base::child_process a(work);
        base::child_process b(work);
        EXPECT_TRUE(a.wait().succeeded());
        EXPECT_TRUE(b.wait().succeeded());
    }
    expect_texts(open(), 2 * threads * each);
}

TEST_F(manager_turns_test, growth_of_one_shows_in_the_others) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    std::vector<void*> blocks;
    for (int i = 0; i < 12; ++i) {
        manager& grows = i % 2 == 0 ? one : other;
        grows.transact([&] {
            auto* const block = static_cast<char*>(grows.allocate(1'500'000));
            std::fill_n(block, 1'500'000, static_cast<char>(i));
            number_of(grows) = i;
            grows.root(static_cast<std::size_t>(i)) = block;
        });
    }
    one.refresh();
    for (int i = 0; i < 12; ++i) {
        const auto* const block = static_cast<const char*>(std::as_const(one).root(static_cast<std::size_t>(i)).get());
        EXPECT_EQ(std::count(block, block + 1'500'000, static_cast<char>(i)), 1'500'000);
    }
    EXPECT_TRUE(one.check(true).empty());
    EXPECT_TRUE(other.check(true).empty());
}

TEST_F(manager_turns_test, a_large_transaction_comes_through_the_log_of_another) {
    make_shared_heap();
    manager one = share();
    manager other = share();
    one.transact([&] {
        for (int i = 0; i < 20'000; ++i) {
            texts_of(one).emplace(i, string(std::to_string(i).c_str(), one.get_allocator<char>()));
        }
        number_of(one) = 20'000;
    });
    other.refresh();
    expect_texts(other, 20'000);
    other.transact([&] {
        texts_of(other).clear();
        number_of(other) = 0;
    });
    add(one, 7);
    expect_texts(one, 1);
    EXPECT_TRUE(one.check(true).empty());
}

TEST_F(manager_turns_test, a_heap_of_one_process_that_shares_it_is_as_any_other) {
    manager heap(create_only, path(), shared_options());
    heap.transact([&] {
        heap.construct<texts>("texts")();
        heap.construct<int>("number")(0);
    });
    for (int i = 0; i < 100; ++i) {
        add(heap, i);
    }
    heap.close();
    expect_texts(open(), 100);
}

}  // namespace
}  // namespace holdfast
