// Transactions through the public face, in every durability.
#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "manager_test_support.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct account {
    std::int64_t balance = 0;
    std::uint32_t changes = 0;
    char name[20] = {};
};

struct node {
    ptr<node> next;
    ptr<node> other;
    std::uint64_t value = 0;
    std::uint32_t tail = 0;  // so that the last word is not filled
};

struct block_of_bytes {
    std::uint64_t words[300];  // more than one lane's piece, and more than 512 bytes
};

struct configuration {
    const char* name;
    enum durability durability;
    open_options::domain_choice domain = open_options::domain_choice::detect;
    bool checks = false;
};

class transaction_test : public testing::TestWithParam<configuration> {
protected:
    [[nodiscard]] static open_options options() {
        open_options wanted = small_options();
        wanted.durability = GetParam().durability;
        wanted.accept_process_crash_only = true;
        wanted.domain = GetParam().domain;
        wanted.check_transactions = GetParam().checks;
        return wanted;
    }
    [[nodiscard]] manager create() const { return {create_only, path_, options()}; }
    [[nodiscard]] manager open() const { return {open_only, path_, options()}; }

    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_P(transaction_test, changes_several_objects_or_none) {
    manager heap = create();
    auto& from = *heap.construct<account>("from")(account{100, 0, "from"});
    auto& to = *heap.construct<account>("to")(account{0, 0, "to"});
    heap.transact([&](transaction& tx) {
        account& source = tx.open(from);
        account& target = tx.open(to);
        source.balance -= 30;
        ++source.changes;
        target.balance += 30;
        EXPECT_EQ(from.balance, 100) << "nothing is stored in place before the commit";
        EXPECT_EQ(&tx.open(from), &source);
    });
    EXPECT_EQ(from.balance, 70);
    EXPECT_EQ(from.changes, 1U);
    EXPECT_STREQ(from.name, "from");
    EXPECT_EQ(to.balance, 30);
    EXPECT_THROW(heap.transact([&](transaction& tx) {
        tx.open(from).balance = 0;
        throw std::runtime_error("no");
    }),
                 std::runtime_error);
    heap.transact([&](transaction& tx) {
        tx.open(from).balance = 0;
        tx.abort();
    });
    EXPECT_EQ(from.balance, 70);
    EXPECT_EQ(heap.transact([&](transaction& tx) { return tx.open(to).balance; }), 30);
    heap.close();
    const manager again = open();
    EXPECT_EQ(again.find<account>("from").first->balance, 70);
    EXPECT_EQ(again.find<account>("to").first->balance, 30);
    EXPECT_THAT(again.check(true), IsEmpty());
}

TEST_P(transaction_test, shows_stored_words_in_objects_that_are_opened_later) {
    manager heap = create();
    auto& list = *heap.construct<node>("list")();
    auto& one = *heap.construct<account>("one")(account{1, 0, "one"});
    heap.transact([&](transaction& tx) {
        auto* const made = tx.make<node>();
        tx.store(list.next, made);
        tx.store(one.balance, 5);
        transaction inner(tx);
        EXPECT_EQ(inner.open(one).balance++, 5);
        inner.abort();
        EXPECT_EQ(tx.load(one.balance), 5);
        EXPECT_EQ(tx.open(list).next.get(), made);
        tx.open(one).balance *= 2;
        EXPECT_EQ(tx.load(one.balance), 10);
    });
    EXPECT_EQ(one.balance, 10);
    EXPECT_NE(list.next, nullptr);
}

TEST_P(transaction_test, makes_links_and_frees_blocks) {
    manager heap = create();
    auto& list = *heap.construct<node>("list")();
    const auto push = [&](std::uint64_t value) {
        heap.transact([&](transaction& tx) {
            node& head = tx.open(list);
            auto* const made = tx.make<node>();
            made->value = value;
            made->next = head.next;
            if (head.next != nullptr) {
                tx.open(head.next).other = made;
            }
            head.next = made;
            ++head.value;
        });
    };
    for (std::uint64_t i = 1; i <= 100; ++i) {
        push(i);
    }
    const auto expect_list = [](const node& head, std::uint64_t length) {
        EXPECT_EQ(head.value, length);
        const node* before = nullptr;
        std::uint64_t count = 0;
        for (const node* each = head.next.get(); each != nullptr; each = each->next.get()) {
            EXPECT_EQ(each->value, length - count++);
            EXPECT_EQ(each->other.get(), before);
            before = each;
        }
        EXPECT_EQ(count, length);
    };
    expect_list(list, 100);
    heap.transact([&](transaction& tx) {
        node& head = tx.open(list);
        node* const gone = head.next.get();
        head.next = gone->next;
        tx.open(head.next).other = nullptr;
        tx.destroy(gone);
        --head.value;
    });
    expect_list(list, 99);
    EXPECT_EQ(heap.statistics().allocated_blocks, 100U);
    heap.close();
    const manager again = open();
    expect_list(*again.find<node>("list").first, 99);
    EXPECT_EQ(again.statistics().allocated_blocks, 100U);
    EXPECT_THAT(again.check(true), IsEmpty());
}

TEST_P(transaction_test, that_is_aborted_leaves_no_trace) {
    manager heap = create();
    auto& list = *heap.construct<node>("list")();
    const usage before = usage_of(heap);
    for (int i = 0; i < 3; ++i) {
        transaction tx(heap);
        node& head = tx.open(list);
        head.next = tx.make<node>();
        static_cast<void>(tx.allocate(100'000));
        tx.store(heap.root(3), static_cast<void*>(head.next.get()));
        if (i == 1) {
            tx.abort();
            EXPECT_EQ(reason_of([&] { tx.commit(); }), errc::invalid_argument);
        }
    }
    EXPECT_EQ(list.next, nullptr);
    EXPECT_EQ(heap.root(3), nullptr);
    EXPECT_EQ(usage_of(heap), before);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(transaction_test, stores_words_and_roots) {
    manager heap = create();
    auto& numbers = *heap.construct<std::uint64_t[8]>("numbers")();
    heap.transact([&](transaction& tx) {
        tx.store(numbers[0], 1);
        tx.store(numbers[7], 8);
        tx.store(numbers[0], 2);
        auto* const made = tx.make<node>();
        made->value = 5;
        tx.store(heap.root(0), static_cast<void*>(made));
        EXPECT_EQ(numbers[0], 0U);
    });
    EXPECT_EQ(numbers[0], 2U);
    EXPECT_EQ(numbers[7], 8U);
    EXPECT_EQ(static_cast<node*>(heap.root(0).get())->value, 5U);
    heap.transact([&](transaction& tx) {
        tx.free(heap.root(0).get());
        tx.store(heap.root(0), nullptr);
    });
    EXPECT_EQ(heap.root(0), nullptr);
    EXPECT_EQ(heap.statistics().allocated_blocks, 1U);
}

TEST_P(transaction_test, keeps_the_stamps_of_pointers_that_were_destinations) {
    manager heap = create();
    auto& list = *heap.construct<node>("list")();
    for (int i = 0; i < 5; ++i) {
        heap.allocate_to(list.next, sizeof(node));
        heap.free_from(list.next);
    }
    heap.allocate_to(list.next, sizeof(node));
    node* const first = list.next.get();
    heap.transact([&](transaction& tx) { tx.open(list).next = nullptr; });
    EXPECT_EQ(list.next, nullptr);
    heap.transact([&](transaction& tx) { tx.open(list).next = first; });
    EXPECT_EQ(list.next.get(), first);
    EXPECT_TRUE(heap.free_from(list.next));
    heap.close();
    EXPECT_EQ(open().find<node>("list").first->next, nullptr);
}

TEST_P(transaction_test, of_any_size) {
    manager heap = create();
    constexpr std::size_t count = 20'000;
    auto& numbers = *heap.construct<vector<std::uint64_t>>("numbers")();
    numbers.resize(count);
    heap.transact([&](transaction& tx) {
        for (std::size_t i = 0; i < count; i += 8) {
            tx.store(numbers[i], i + 1);
        }
        for (int i = 0; i < 40; ++i) {
            auto* const made = tx.make<block_of_bytes>();
            std::fill(std::begin(made->words), std::end(made->words), i + 1);
            tx.store(heap.root(static_cast<std::size_t>(i)), static_cast<void*>(made));
        }
    });
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(numbers[i], i % 8 == 0 ? i + 1 : 0);
    }
    heap.transact([&](transaction& tx) {
        for (std::size_t i = 0; i < 40; ++i) {
            tx.free(heap.root(i).get());
            tx.store(heap.root(i), nullptr);
        }
    });
    EXPECT_EQ(heap.statistics().allocated_blocks, 2U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(transaction_test, within_another_drops_its_part_alone) {
    manager heap = create();
    auto& list = *heap.construct<node>("list")();
    auto& other = *heap.construct<node>("other")();
    heap.transact([&](transaction& tx) {
        node& head = tx.open(list);
        head.value = 1;
        head.next = tx.make<node>();
        {
            transaction inner(tx);
            inner.open(list).value = 2;
            inner.open(list).next = inner.make<node>();
            inner.open(other).value = 3;
            tx.store(heap.root(1), static_cast<void*>(&list));
        }
        EXPECT_EQ(head.value, 1U);
        head.next->value = 6;
        {
            transaction inner(tx);
            inner.open(head.next).value = 7;
            inner.destroy(head.next.get());
        }
        EXPECT_EQ(head.next->value, 6U);
        {
            transaction inner(tx);
            inner.open(list).tail = 9;
            inner.open(other).value = 4;
            inner.commit();
        }
    });
    EXPECT_EQ(list.value, 1U);
    EXPECT_EQ(list.tail, 9U);
    ASSERT_NE(list.next, nullptr);
    EXPECT_EQ(other.value, 4U);
    EXPECT_EQ(heap.root(1), nullptr);
    EXPECT_EQ(heap.statistics().allocated_blocks, 3U);
}

TEST_P(transaction_test, of_many_objects_and_blocks) {
    manager heap = create();
    constexpr std::size_t count = 3000;
    auto& all = *heap.construct<node[count]>("all")();
    const auto expect_all = [&](std::uint64_t value) {
        for (const node& each : all) {
            ASSERT_EQ(each.value, value);
            ASSERT_EQ(each.next->value, value);
        }
    };
    for (std::uint64_t round = 1; round <= 2; ++round) {
        heap.transact([&](transaction& tx) {
            for (node& each : all) {
                node& changed = tx.open(each);
                changed.value = round;
                if (changed.next != nullptr) {
                    tx.destroy(changed.next.get());
                }
                changed.next = tx.make<node>();
                tx.open(changed.next).value = round;
                ASSERT_EQ(&tx.open(each), &changed);
            }
        });
        expect_all(round);
        EXPECT_EQ(heap.statistics().allocated_blocks, count + 1);
    }
    heap.transact([&](transaction& tx) {
        transaction inner(tx);
        for (node& each : all) {
            inner.open(each).value = 3;
            inner.open(each).next = inner.make<node>();
        }
    });
    expect_all(2);
    EXPECT_EQ(heap.statistics().allocated_blocks, count + 1);
}

TEST_P(transaction_test, that_is_refused_changes_nothing) {
    manager heap = create();
    auto& list = *heap.construct<node>("list")();
    auto& text = *heap.construct<std::pair<std::uint64_t, ptr<node>>>("pair")(std::uint64_t{1}, nullptr);
    node outside;
    EXPECT_EQ(reason_of([&] { heap.transact([&](transaction& tx) { tx.open(outside).value = 1; }); }),
              errc::bad_address);
    EXPECT_EQ(reason_of([&] {
                  heap.transact([&](transaction& tx) {
                      tx.open(list).value = 1;
                      tx.free(reinterpret_cast<std::byte*>(&list) + 8);
                  });
              }),
              errc::bad_address);
    EXPECT_EQ(reason_of([&] {
                  heap.transact([&](transaction& tx) {
                      tx.open(list).value = 1;
                      tx.store(list.value, 2);
                  });
              }),
              errc::invalid_argument);
    EXPECT_EQ(list.value, 0U);
    heap.transact([&](transaction& tx) { tx.open(text).second = &list; });
    EXPECT_EQ(text.second.get(), &list);
    heap.close();
    const manager reader(open_read_only, path_);
    EXPECT_EQ(reason_of([&] { transaction tx(const_cast<manager&>(reader)); }), errc::read_only);
}

TEST_P(transaction_test, stores_runs_of_words_together) {
    manager heap = create();
    auto& all = *heap.construct<block_of_bytes>("all")();
    const std::vector<std::uint64_t> long_run{1, 2, 3, 4, 5, 6};
    const std::vector<std::uint64_t> short_run{7};
    const std::vector<word_run> runs{{&all.words[10], long_run}, {&all.words[2], short_run}};
    const protocol_counters before = heap.counters();
    heap.store_words(runs);
    if (GetParam().domain == open_options::domain_choice::emulated) {
        EXPECT_EQ(heap.counters().durable_records - before.durable_records, 3U);
        EXPECT_EQ(heap.counters().fences - before.fences, 1U);
    }
    const std::vector<word_run> overlap{{&all.words[10], long_run}, {&all.words[15], short_run}};
    EXPECT_EQ(reason_of([&] { heap.store_words(overlap); }), errc::invalid_argument);
    std::uint64_t outside = 0;
    const word_run stray{&outside, short_run};
    EXPECT_EQ(reason_of([&] { heap.store_words({&stray, 1}); }), errc::bad_address);
    const word_run crooked{reinterpret_cast<std::byte*>(&all) + 4, short_run};
    EXPECT_EQ(reason_of([&] { heap.store_words({&crooked, 1}); }), errc::bad_address);
    heap.store_words({});
    heap.close();
    manager again = open();
    const auto& found = *again.find<block_of_bytes>("all").first;
    EXPECT_TRUE(std::equal(long_run.begin(), long_run.end(), &found.words[10]));
    EXPECT_EQ(found.words[2], 7U);
}

TEST_P(transaction_test, of_several_threads_with_locks) {
    manager heap = create();
    constexpr std::size_t accounts = 16;
    constexpr int turns = 500;
    auto& all = *heap.construct<account[accounts]>("accounts")();
    std::array<std::mutex, accounts> locks;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            std::uint64_t random = thread + 1;
            for (int i = 0; i < turns; ++i) {
                random = random * 6364136223846793005U + 1442695040888963407U;
                const std::size_t a = (random >> 33U) % accounts;
                const std::size_t b = (a + 1 + (random >> 40U) % (accounts - 1)) % accounts;
                section moved(heap, locks[a], locks[b]);
                --moved->open(all[a]).balance;
                ++moved->open(all[b]).balance;
                moved->commit();
            }
        });
    }
    for (std::thread& each : threads) {
        each.join();
    }
    EXPECT_EQ(std::accumulate(std::begin(all), std::end(all), std::int64_t{0},
                              [](std::int64_t sum, const account& each) { return sum + each.balance; }),
              0);
    heap.close();
    EXPECT_THAT(open().check(true), IsEmpty());
}

TEST_P(transaction_test, that_is_synced_later_is_seen_by_its_thread) {
    manager heap = create();
    const bool waits = heap.domain() == "disk";
    auto& first = *heap.construct<account>("first")();
    auto& linked = *heap.construct<node>("linked")();
    auto& words = *heap.construct<std::uint64_t[2]>("words")();
    ticket last;
    for (std::uint64_t i = 1; i <= 3; ++i) {
        last = heap.transact_later([&](transaction& tx) {
            account& changed = tx.open(first);
            EXPECT_EQ(changed.balance, static_cast<std::int64_t>(i - 1));
            ++changed.balance;
            ++changed.changes;
            EXPECT_EQ(tx.load(words[0]), i - 1);
            tx.store(words[0], i);
            EXPECT_EQ(tx.load(words[0]), i);
        });
        EXPECT_EQ(first.balance, waits ? 0 : static_cast<std::int64_t>(i));
        EXPECT_EQ(words[0], waits ? 0 : i);
    }
    heap.sync(last);
    EXPECT_EQ(first.balance, 3);
    EXPECT_EQ(first.changes, 3U);
    EXPECT_EQ(words[0], 3U);
    heap.sync(last);

    // Objects with pointers: open() syncs what waits in them.
    static_cast<void>(heap.transact_later([&](transaction& tx) { tx.open(linked).next = &linked; }));
    EXPECT_EQ(linked.next == nullptr, waits);
    static_cast<void>(heap.transact_later([&](transaction& tx) {
        EXPECT_EQ(tx.load(linked.next), &linked);
        EXPECT_EQ(tx.open(linked).next, &linked);
        tx.open(linked).value = 7;
        EXPECT_EQ(tx.load(linked.next), &linked);
        EXPECT_EQ(tx.load(linked.value), 7U);
    }));
    EXPECT_EQ(linked.next, &linked);
    EXPECT_EQ(linked.value, waits ? 0U : 7U);

    // A commit of the same thread makes the earlier ones durable; so does a close.
    heap.transact([&](transaction& tx) { tx.store(words[1], tx.load(linked.value) + 1); });
    EXPECT_EQ(linked.value, 7U);
    EXPECT_EQ(words[1], 8U);
    static_cast<void>(heap.transact_later([&](transaction& tx) { tx.open(first).balance = 100; }));
    heap.close();
    manager again = open();
    EXPECT_EQ(again.find<account>("first").first->balance, 100);
    EXPECT_THAT(again.check(true), IsEmpty());
    EXPECT_EQ(again.find<node>("linked").first->next, again.find<node>("linked").first);
}

TEST_P(transaction_test, that_is_synced_later_is_part_of_a_commit_a_snapshot_and_a_collection) {
    manager heap = create();
    auto& word = *heap.construct<std::uint64_t>("word")();
    auto& root = *heap.construct<ptr<account>>("root")();
    const auto store = [&](std::uint64_t value) {
        static_cast<void>(heap.transact_later([&](transaction& tx) { tx.store(word, value); }));
    };
    store(1);
    heap.commit();
    EXPECT_EQ(word, 1U);
    store(2);
    heap.snapshot(directory_.path("copy"));
    EXPECT_EQ(word, 2U);
    const manager copy(open_read_only, directory_.path("copy"));
    EXPECT_EQ(*copy.find<std::uint64_t>("word").first, 2U);
    static_cast<void>(heap.transact_later([&](transaction& tx) {
        tx.store(root, tx.make<account>(account{3, 0, ""}));
    }));
    EXPECT_EQ(heap.collect().blocks_freed, 0U);
    ASSERT_NE(root, nullptr);
    EXPECT_EQ(root->balance, 3);
}

TEST_P(transaction_test, that_is_synced_later_makes_and_frees_blocks) {
    manager heap = create();
    auto& root = *heap.construct<ptr<account>>("root")();
    auto& large = *heap.construct<ptr<block_of_bytes>>("large")();
    const std::uint64_t before = heap.statistics().allocated_blocks;
    static_cast<void>(heap.transact_later([&](transaction& tx) {
        auto* const made = tx.make<account>(account{1, 0, "first"});
        tx.store(root, made);
        tx.store(large, tx.make<block_of_bytes>());
        tx.load(large)->words[299] = 1;
    }));
    static_cast<void>(heap.transact_later([&](transaction& tx) { tx.open(*tx.load(root)).balance = 2; }));
    static_cast<void>(heap.transact_later([&](transaction& tx) {  // one that a waiting transaction has made
        account* const old = tx.load(root);
        EXPECT_EQ(tx.open(*old).balance, 2);
        tx.store(root, tx.make<account>(account{3, 0, "second"}));
        tx.free(old);
    }));
    heap.sync();
    ASSERT_NE(root, nullptr);
    EXPECT_EQ(root->balance, 3);
    EXPECT_EQ(large->words[299], 1U);
    EXPECT_EQ(heap.statistics().allocated_blocks, before + 2);
    static_cast<void>(heap.transact_later([&](transaction& tx) {
        tx.free(root.get());
        tx.store(root, nullptr);
    }));
    EXPECT_THROW(static_cast<void>(heap.transact_later([&](transaction& tx) {
                     tx.free(root == nullptr ? static_cast<void*>(&root) : root.get());  // freed already, or no block
                     tx.store(large, nullptr);
                 })),
                 error);
    EXPECT_NE(large, nullptr);
    heap.sync();
    EXPECT_EQ(root, nullptr);
    EXPECT_NE(large, nullptr) << "of a transaction that was refused";
    EXPECT_EQ(heap.statistics().allocated_blocks, before + 1);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    durabilities, transaction_test,
    testing::Values(configuration{"commit", durability::commit}, configuration{"collect", durability::collect},
                    configuration{"atomic", durability::atomic},
                    configuration{"emulated", durability::atomic, open_options::domain_choice::emulated},
                    configuration{"disk", durability::atomic, open_options::domain_choice::disk},
                    configuration{"checked_commit", durability::commit, open_options::domain_choice::detect, true},
                    configuration{"checked_atomic", durability::atomic, open_options::domain_choice::detect, true}),
    [](const auto& named) { return std::string(named.param.name); });

TEST(transactions_on_disk, that_wait_may_be_synced_by_another_thread) {
    const segment::test_directory directory;
    open_options options = small_options();
    options.durability = durability::atomic;
    options.domain = open_options::domain_choice::disk;
    manager heap(create_only, directory.path("heap"), options);
    auto& one = *heap.construct<account>("account")();
    auto& word = *heap.construct<std::uint64_t>("word")();
    constexpr std::uint64_t turns = 2000;
    std::atomic<bool> ends = false;
    std::thread other([&] {
        while (!ends) {
            heap.sync();
        }
    });
    for (std::uint64_t i = 0; i < turns; ++i) {
        static_cast<void>(heap.transact_later([&](transaction& tx) {
            ++tx.open(one).balance;
            tx.store(word, tx.load(word) + 1);
        }));
    }
    ends = true;
    other.join();
    heap.sync();
    EXPECT_EQ(one.balance, static_cast<std::int64_t>(turns));
    EXPECT_EQ(word, turns);
}

TEST(transactions_on_disk, that_wait_are_dropped_by_a_close_without_commit) {
    const segment::test_directory directory;
    open_options options = small_options();
    options.durability = durability::atomic;
    options.domain = open_options::domain_choice::disk;
    manager heap(create_only, directory.path("heap"), options);
    auto& root = *heap.construct<ptr<account>>("root")();
    const auto push = [&](transaction& tx) { tx.store(root, tx.make<account>(account{1, 0, "first"})); };
    const ticket waits = heap.transact_later(push);
    EXPECT_THAT(heap.check(true), IsEmpty()) << "a block that waits is known";
    manager other(create_only, directory.path("other"), options);
    EXPECT_THROW(other.sync(waits), error);
    transaction outer(heap);
    transaction inner(outer);
    EXPECT_THROW(static_cast<void>(inner.commit_later()), error);
    EXPECT_THROW(static_cast<void>(outer.commit_later()), error);
    outer.abort();
    heap.close(false);
    EXPECT_THROW(heap.sync(waits), error);
    const manager again(open_only, directory.path("heap"), options);
    EXPECT_EQ(*again.find<ptr<account>>("root").first, nullptr);
    EXPECT_THAT(again.check(true), IsEmpty());
}

}  // namespace
}  // namespace holdfast
