// Stores that lie in a heap, through the public headers: transactions of both, snapshots, copies, crashes in between.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/store_in_heap.hpp>

#include "api/manager_test_configurations.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

struct account {
    std::int64_t balance = 0;
};

/// What a store has, as one text.
std::string content(const store& of) {
    std::string text;
    const store_view view = of.read();
    for (const auto& [key, value] : view.all()) {
        text += std::string(key) + "=" + std::string(value.substr(0, 8)) + " ";
    }
    return text;
}

void set(manager& heap, const std::string& name, std::string_view key, std::string_view value) {
    heap_store of(heap, name);
    store_transaction in = of.write();
    in.put(key, value);
    in.commit();
}

class heap_store_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    [[nodiscard]] open_options options() const {
        open_options wanted = options_of(GetParam());
        wanted.check_transactions = true;
        return wanted;
    }
    [[nodiscard]] std::size_t store_files() const {
        std::size_t found = 0;
        for (const auto& each : std::filesystem::directory_iterator(path())) {
            found += each.path().filename().string().starts_with("store.") ? 1U : 0U;
        }
        return found;
    }
    [[nodiscard]] bool in_memory() const { return GetParam().first == durability::commit; }
    void expect_both(const manager& heap, const store& shop, std::int64_t balance, const std::string& expected) const {
        EXPECT_EQ(heap.find<account>("account").first->balance, balance);
        EXPECT_EQ(content(shop), expected);
        EXPECT_NO_THROW(static_cast<void>(shop.check()));
    }
};

TEST_P(heap_store_test, a_transaction_counts_in_both_or_in_neither) {
    manager heap(create_only, path(), options());
    auto* const mine = heap.construct<account>("account")();
    heap_store shop(heap, "shop");
    heap.transact([&](transaction& tx) {
        tx.open(*mine).balance = 1;
        shop.write(tx).put("a", "1");
        shop.write(tx).put("b", "1");
        EXPECT_EQ(content(shop), "");
    });
    expect_both(heap, shop, 1, "a=1 b=1 ");
    EXPECT_THROW(heap.transact([&](transaction& tx) {
        tx.open(*mine).balance = 2;
        shop.write(tx).put("a", "2");
        throw 1;
    }),
                 int);
    expect_both(heap, shop, 1, "a=1 b=1 ");
    // The heap refuses it behind the store's half.
    EXPECT_EQ(reason_of([&] {
                  heap.transact([&](transaction& tx) {
                      shop.write(tx).put("a", std::string(std::size_t{3} << 20U, '2'));
                      tx.free(mine);
                      tx.free(mine);
                  });
              }),
              errc::bad_address);
    expect_both(heap, shop, 1, "a=1 b=1 ");
    auto alone = shop.write();
    alone.put("c", "3");
    alone.commit();
    expect_both(heap, shop, 1, "a=1 b=1 c=3 ");
    heap.close();
    EXPECT_THROW(static_cast<void>(shop.write()), store_error);

    const manager again(open_only, path(), options());
    EXPECT_THAT(stores_of(again), testing::ElementsAre("shop"));
}

/// Of transactions over everything, which are there in `commit` alone.
TEST_P(heap_store_test, a_transaction_over_everything_reads_it_and_changes_it_by_its_own_part) {
    if (!in_memory()) {
        return;
    }
    manager heap(create_only, path(), options());
    auto* const mine = heap.construct<account>("account")();
    heap_store shop(heap, "shop");
    set(heap, "shop", "a", "1");
    const auto reads_and_tries = [&] {
        EXPECT_EQ(content(shop), "a=1 ");
        mine->balance = 2;
        store_transaction other = shop.write();
        other.put("b", "2");
        EXPECT_THROW(other.commit(), store_error);
        EXPECT_EQ(reason_of([&] { const heap_store unknown(heap, "unknown"); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(remove_store(heap, "shop")); }), errc::invalid_argument);
    };
    EXPECT_THROW(heap.transact([&] {
        reads_and_tries();
        throw std::runtime_error("given up");
    }),
                 std::runtime_error);
    expect_both(heap, shop, 0, "a=1 ");
    heap.transact([&](transaction& tx) {
        reads_and_tries();
        shop.write(tx).put("c", "3");
    });
    expect_both(heap, shop, 2, "a=1 c=3 ");
    set(heap, "shop", "d", "4");
    expect_both(heap, shop, 2, "a=1 c=3 d=4 ");
}

TEST_P(heap_store_test, is_there_when_the_heap_is_opened_again) {
    for (int times = 0; times < 3; ++times) {
        manager heap(open_or_create, path(), options());
        auto* const mine = heap.find_or_construct<account>("account")();
        heap_store shop(heap, "shop");
        expect_both(heap, shop, times, times == 0 ? "" : "n=" + std::to_string(times) + " ");
        heap.transact([&](transaction& tx) {
            tx.open(*mine).balance += 1;
            shop.write(tx).put("n", std::to_string(times + 1));
        });
    }
    manager heap(open_read_only, path(), options());
    const heap_store shop(heap, "shop");
    expect_both(heap, shop, 3, "n=3 ");
    EXPECT_THROW(heap_store(heap, "other"), store_error);
}

TEST_P(heap_store_test, two_stores_are_one_transaction) {
    manager heap(create_only, path(), options());
    heap_store first(heap, "first");
    heap_store second(heap, "second");
    heap_store first_again(heap, "first");
    heap.transact([&](transaction& tx) {
        first.write(tx).put("a", "1");
        first_again.write(tx).put("b", "1");
        second.write(tx).put("c", "1");
    });
    EXPECT_EQ(content(first), "a=1 b=1 ");
    EXPECT_EQ(content(second), "c=1 ");
}

TEST_P(heap_store_test, threads_share_it) {
    constexpr int threads = 4;
    constexpr int each = 40;
    manager heap(create_only, path(), options());
    heap_store shop(heap, "shop");
    std::vector<account*> accounts;
    for (int i = 0; i < threads; ++i) {
        accounts.push_back(heap.construct<account>(("account" + std::to_string(i)).c_str())());
    }
    const auto number = [](const store_view& in) {
        const auto text = in.get("n");
        return text ? std::stoi(std::string(*text)) : 0;
    };
    std::vector<std::thread> all;
    for (account* const mine : accounts) {
        all.emplace_back([&, mine] {
            for (int i = 0; i < each; ++i) {
                heap.transact([&](transaction& tx) {
                    tx.open(*mine).balance += 1;
                    store_changes& change = shop.write(tx);
                    change.put("n", std::to_string(number(change) + 1));
                });
                const int seen = number(shop.read());
                EXPECT_GE(seen, i + 1);
                EXPECT_LE(seen, threads * each);
            }
        });
    }
    for (std::thread& one : all) {
        one.join();
    }
    EXPECT_EQ(number(shop.read()), threads * each);
    for (const account* const mine : accounts) {
        EXPECT_EQ(mine->balance, each);
    }
}

TEST_P(heap_store_test, a_crash_leaves_what_the_heap_promises) {
    const base::process_end end =
        base::child_process([&] {
            manager heap(create_only, path(), options());
            auto* const mine = heap.construct<account>("account")();
            heap_store shop(heap, "shop");
            for (int i = 1; i <= 30; ++i) {
                transaction tx(heap);  // alone: in `commit` the heap's commit makes it durable
                tx.open(*mine).balance = i;
                shop.write(tx).put("k", std::to_string(i) + "       " + std::string(i % 7 == 0 ? 400'000 : 9, 'k'));
                tx.commit();
                if (i == 12) {
                    heap.commit();
                }
            }
            static_cast<void>(::raise(SIGKILL));
        }).wait();
    ASSERT_EQ(end.signal(), SIGKILL);
    const int expected = in_memory() ? 12 : 30;
    manager heap(open_only, path(), options());
    heap_store shop(heap, "shop");
    expect_both(heap, shop, expected, "k=" + std::to_string(expected) + "       ");
}

TEST_P(heap_store_test, snapshots_and_copies_have_it) {
    {
        manager heap(create_only, path(), options());
        auto* const mine = heap.construct<account>("account")();
        heap_store shop(heap, "shop");
        const auto change = [&](int number) {
            heap.transact([&](transaction& tx) {
                tx.open(*mine).balance = number;
                shop.write(tx).put("n", std::to_string(number));
            });
        };
        change(1);
        heap.snapshot(path("snapshot"));
        change(2);
    }
    manager::copy(path(), path("copy"));
    for (const auto& [name, number] : {std::pair{"snapshot", 1}, std::pair{"copy", 2}}) {
        manager heap(open_only, path(name), options());
        heap_store shop(heap, "shop");
        expect_both(heap, shop, number, "n=" + std::to_string(number) + " ");
        auto alone = shop.write();
        alone.put("n", "x");
        alone.commit();
    }
    manager::remove(path());
    EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_P(heap_store_test, refuses_what_it_must) {
    {
        manager heap(create_only, path(), options());
        heap_store shop(heap, "shop");
        manager other(create_only, path("other"), options());
        transaction outer(heap);
        EXPECT_THROW(static_cast<void>(shop.write(*std::make_unique<transaction>(other))), store_error);
        {
            transaction inner(outer);
            EXPECT_EQ(reason_of([&] { static_cast<void>(shop.write(inner)); }), errc::invalid_argument);
        }
        shop.write(outer).put("a", "1");
        outer.commit();
    }
    // Without the heap nobody may open the file; without the file, or with an older one, the heap does not open it.
    const std::string file = path() + "/store.000000";
    EXPECT_THROW(store(file, {}), store_error);
    EXPECT_FALSE(std::filesystem::exists(file + "-lock"));
    std::filesystem::rename(file, path("kept"));
    {
        manager heap(open_only, path(), options());
        EXPECT_EQ(reason_of([&] { heap_store(heap, "shop"); }), errc::missing);
    }
    std::filesystem::copy_file(path("other") + "/objects", file);
    {
        manager heap(open_only, path(), options());
        EXPECT_THROW(heap_store(heap, "shop"), store_error);
    }
    std::filesystem::rename(path("kept"), file);
    manager heap(open_only, path(), options());
    EXPECT_EQ(content(heap_store(heap, "shop")), "a=1 ");
}

TEST_P(heap_store_test, a_removed_store_is_gone_when_the_heap_says_so) {
    const std::string file = path() + "/store.000000";
    {
        manager heap(create_only, path(), options());
        set(heap, "shop", "a", "1");
        set(heap, "stays", "b", "2");
        heap.commit();
        {
            const heap_store in_use(heap, "shop");
            EXPECT_THROW(remove_store(heap, "shop"), store_error);
            const store alone = in_use;
            EXPECT_EQ(content(alone), "a=1 ");
        }
        EXPECT_TRUE(remove_store(heap, "shop"));
        EXPECT_FALSE(remove_store(heap, "shop"));
        EXPECT_THAT(stores_of(heap), testing::ElementsAre("stays"));
        EXPECT_EQ(std::filesystem::exists(file), in_memory()) << "the last commit has it";
        EXPECT_EQ(content(heap_store(heap, "shop")), "") << "a new one of this name";
        heap.close(false);
    }
    {
        // A heap in memory is back at its last commit, and a file that was made since is no longer named.
        manager heap(open_only, path(), options());
        EXPECT_EQ(content(heap_store(heap, "shop")), in_memory() ? "a=1 " : "");
        EXPECT_TRUE(remove_store(heap, "shop"));
        heap.close(true);
    }
    manager heap(open_only, path(), options());
    EXPECT_THAT(stores_of(heap), testing::ElementsAre("stays"));
    EXPECT_EQ(content(heap_store(heap, "stays")), "b=2 ");
    EXPECT_EQ(store_files(), 1U);
}

TEST_P(heap_store_test, a_lost_or_unnamed_file_is_removed_with_a_store) {
    {
        manager heap(create_only, path(), options());
        set(heap, "shop", "a", "1");
    }
    std::filesystem::rename(path() + "/store.000000", path() + "/store.000007");
    {
        const manager heap(open_read_only, path(), options());
        EXPECT_THROW(remove_store(const_cast<manager&>(heap), "shop"), error);
    }
    manager heap(open_only, path(), options());
    EXPECT_TRUE(remove_store(heap, "shop"));
    heap.commit();
    EXPECT_EQ(store_files(), 0U);
}

/// Was: of 40 heaps one lost all that the store had: a commit of the heap had taken the word of a later commit of the
/// store, and the checkpoint that the heap's state needed went.
TEST_P(heap_store_test, commits_beside_a_thread_that_writes_keep_what_was_committed) {
    manager heap(create_only, path(), options());
    heap.construct<account>("account")();
    heap_store shop(heap, "shop");
    {
        store_transaction in = shop.write();
        for (int i = 0; i < 300; ++i) {
            in.put("kept" + std::to_string(i), "1");
        }
        in.commit();
    }
    heap.commit();
    std::atomic<int> written{0};
    const std::jthread other([&](const std::stop_token& stop) {
        for (int i = 0; !stop.stop_requested(); ++i, ++written) {
            store_transaction in = shop.write();
            in.put("key" + std::to_string(i * 7919 % 3000), std::string(static_cast<std::size_t>(i % 3000), 'y'));
            in.commit();
        }
    });
    for (int nth = 0; nth < 30; ++nth) {
        const int before = written.load();
        ASSERT_NO_THROW(heap.commit()) << "commit " << nth;
        while (written.load() == before) {
            std::this_thread::yield();
        }
        if (in_memory() && nth % 5 == 4) {  // what a crash right now would leave
            const std::string copy = path("copy" + std::to_string(nth));
            std::filesystem::copy(path(), copy, std::filesystem::copy_options::recursive);
            manager left(open_read_only, copy, options());
            const heap_store found(left, "shop");
            EXPECT_NO_THROW(static_cast<void>(found.check())) << "commit " << nth;
            const store_view view = found.read();
            for (int i = 0; i < 300; ++i) {
                ASSERT_EQ(view.get("kept" + std::to_string(i)), "1") << "commit " << nth;
            }
        }
    }
}

/// Was: the heap's state had the word of a commit of the store that nobody had synced.
TEST_P(heap_store_test, an_open_write_transaction_of_another_thread_is_named_in_memory_alone) {
    manager heap(create_only, path(), options());
    heap.construct<account>("account")();
    heap_store shop(heap, "shop");
    heap.commit();
    std::promise<void> began;
    std::promise<void> ends;
    std::thread other([&] {
        store_transaction in = shop.write();
        in.put("key", "1");
        began.set_value();
        ends.get_future().wait();
        in.commit();
    });
    began.get_future().wait();
    if (in_memory()) {
        try {
            heap.commit();
            ADD_FAILURE() << "committed";
        } catch (const error& what) {
            EXPECT_EQ(what.reason(), errc::concurrent_modification);
            EXPECT_THAT(what.what(), testing::HasSubstr("store"));
        }
    } else {
        EXPECT_NO_THROW(heap.commit());
    }
    ends.set_value();
    other.join();
    store_transaction own = shop.write();
    own.put("other", "2");
    EXPECT_NO_THROW(heap.commit()) << "a transaction of this thread stands still";
    own.commit();
    EXPECT_EQ(content(shop), "key=1 other=2 ");
    EXPECT_NO_THROW(heap.commit());
}

INSTANTIATE_TEST_SUITE_P(durabilities, heap_store_test, all_test_configurations(), name_of_configuration);

TEST_P(heap_store_test, a_child_of_fork_is_told_that_the_heap_is_its_parents) {
    manager heap(create_only, path(), options());
    heap_store shop(heap, "shop");
    heap.transact([&](transaction& tx) { shop.write(tx).put("n", "1"); });
    const base::process_end end = base::child_process([&] {
                                      EXPECT_EQ(reason_of([&] { heap.commit(); }), errc::wrong_process);
                                      EXPECT_EQ(reason_of([&] { remove_store(heap, "other"); }), errc::wrong_process);
                                      EXPECT_EQ(reason_of([&] { heap_store(heap, "another"); }), errc::wrong_process);
                                      ::_exit(testing::Test::HasFailure() ? 1 : 0);
                                  }).wait();
    EXPECT_TRUE(end.succeeded()) << end;
    EXPECT_EQ(content(shop), "n=1 ");
    EXPECT_EQ(store_files(), 1U);
}

/// A file to which an object of an unknown type may lead is not one that a crash left.
TEST_P(heap_store_test, files_stay_where_an_object_of_their_kind_is_unknown) {
    manager heap(create_only, path(), options());
    heap.construct<account>("holdfast.store.of_somebody")();
    std::ofstream(path() + "/store.000005") << "content";
    const heap_store shop(heap, "shop");
    EXPECT_EQ(store_files(), 2U);
}

/// Another thread of the parent opens a store at the moment of the fork: its lock stays locked in the child.
TEST_P(heap_store_test, a_child_of_fork_waits_for_no_lock_of_its_parent) {
    auto heap = std::make_unique<manager>(create_only, path(), options());
    std::promise<void> begun;
    std::promise<void> may_end;
    std::thread opening([&] {
        const auto make = [&](detail::manager_core&) -> std::shared_ptr<detail::heap_participant> {
            begun.set_value();
            may_end.get_future().wait();
            throw store_error(ENOENT);
        };
        EXPECT_THROW(static_cast<void>(detail::participant_access::find_or_make(*heap, "participant", make)),
                     store_error);
    });
    begun.get_future().wait();
    const base::process_end end = base::child_process([&] {
                                      ::alarm(20);
                                      EXPECT_EQ(reason_of([&] { heap->commit(); }), errc::wrong_process);
                                      heap.reset();
                                      ::_exit(testing::Test::HasFailure() ? 1 : 0);
                                  }).wait();
    may_end.set_value();
    opening.join();
    EXPECT_TRUE(end.succeeded()) << end;
}

/// In durability `commit`, changes of which each is a checkpoint of the store, and a crash. shrink() commits where
/// there is something to shrink, whatever comes of it afterwards.
void expect_behind_shrink(const std::string& path, const shrink_options& how, const std::string& expected) {
    const base::process_end end =
        base::child_process([&] {
            manager heap(create_only, path, small_options());
            heap_store shop(heap, "shop");
            const auto put = [&](int number) {
                try {
                    transaction tx(heap);  // one that stands alone is durable with a commit of the heap
                    shop.write(tx).put("n", std::to_string(number) + "       " + std::string(3'000'000, 'n'));
                    tx.commit();
                } catch (const store_error&) {  // it may be that it must keep too many states
                }
            };
            put(1);
            heap.commit();
            put(2);
            put(3);
            try {
                static_cast<void>(heap.shrink(how));
            } catch (int) {
            }
            for (int number = 4; number < 8; ++number) {
                put(number);
            }
            static_cast<void>(::raise(SIGKILL));
        }).wait();
    ASSERT_EQ(end.signal(), SIGKILL);
    manager heap(open_only, path, small_options());
    const heap_store shop(heap, "shop");
    EXPECT_EQ(content(shop), expected);
    EXPECT_NO_THROW(static_cast<void>(shop.check()));
}

TEST(heap_store, a_shrink_that_did_not_commit) {
    const segment::test_directory directory;
    expect_behind_shrink(directory.path("heap"), {.target = std::uint64_t{1} << 40U, .progress = {}}, "n=1        ");
}

TEST(heap_store, a_shrink_whose_caller_throws_behind_the_commit) {
    const segment::test_directory directory;
    int calls = 0;
    const auto throws = [&calls](const shrink_report&) {
        if (++calls == 2) {
            throw 1;
        }
    };
    expect_behind_shrink(directory.path("heap"), {.target = 0, .progress = throws}, "n=3        ");
}

/// On the disk every commit is synced.
TEST(heap_store, on_disk) {
    const segment::test_directory directory;
    open_options options = small_options();
    options.durability = durability::atomic;
    options.domain = open_options::domain_choice::disk;
    manager heap(create_only, directory.path("heap"), options);
    heap_store shop(heap, "shop");
    for (int i = 0; i < 20; ++i) {
        heap.transact([&](transaction& tx) { shop.write(tx).put("n", std::to_string(i)); });
    }
    EXPECT_EQ(content(shop), "n=19 ");
}

}  // namespace
}  // namespace holdfast
