// open_options::check_transactions, in every durability: each broken rule is named with the type and the offset of its
// object, and what keeps the rules is not bothered (transaction_test.cpp runs with it, too).
#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/transaction.hpp>

#include "api/manager_test_configurations.hpp"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct watched {
    std::int64_t balance = 0;
    ptr<watched> next;
};
struct watched_pair {
    watched first;
    watched second;
};

class transaction_checks_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    transaction_checks_test()
        : before_(set_error_handler([this](const error& what) { told_.emplace_back(what.what()); })) {}
    ~transaction_checks_test() override { set_error_handler(before_); }

    [[nodiscard]] static open_options options() {
        open_options wanted = options_of(GetParam());
        wanted.check_transactions = true;
        return wanted;
    }
    [[nodiscard]] manager create_heap() const { return {create_only, path(), options()}; }

    /// The call throws this error, whose message has these parts.
    template <class Call>
    static void expect_error(errc reason, const std::vector<std::string>& parts, Call&& call) {
        try {
            std::forward<Call>(call)();
            ADD_FAILURE() << "no error; expected one with: " << parts.front();
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.reason(), reason) << thrown.what();
            for (const std::string& part : parts) {
                EXPECT_THAT(thrown.what(), HasSubstr(part));
            }
        }
    }

    std::vector<std::string> told_;  ///< to the error handler

private:
    error_handler before_;
};

TEST_P(transaction_checks_test, names_words_that_two_open_transactions_have) {
    manager heap = create_heap();
    auto& both = *heap.construct<watched_pair>("both")();
    auto& other = *heap.construct<std::uint64_t>("other")();
    transaction tx(heap);
    tx.open(both.first).balance = 1;
    tx.store(other, 1);
    std::thread([&] {
        const std::vector<std::string> parts{"watched at offset", "another transaction", "a lock that both hold"};
        transaction second(heap);
        expect_error(errc::concurrent_modification, parts, [&] { static_cast<void>(second.open(both.first)); });
        expect_error(errc::concurrent_modification, parts, [&] { static_cast<void>(second.open(both)); });
        expect_error(errc::concurrent_modification, {"a stored word"}, [&] { second.store(both.first.balance, 5); });
        expect_error(errc::concurrent_modification, {"a stored word"}, [&] { second.store(other, 5); });
        second.open(both.second).balance = 2;
        second.commit();
    }).join();
    // Within one thread, too: it is another transaction, whose changes this one would undo.
    expect_error(errc::concurrent_modification, {"another transaction"},
                 [&] { heap.transact([&](transaction& second) { second.open(both.first).balance = 3; }); });
    tx.commit();
    heap.transact([&](transaction& second) { ++second.open(both.first).balance; });
    EXPECT_EQ(both.first.balance, 2);
    EXPECT_EQ(both.second.balance, 2);
    EXPECT_EQ(other, 1U);
    EXPECT_THAT(told_, IsEmpty());
}

TEST_P(transaction_checks_test, names_opened_objects_that_overlap) {
    manager heap = create_heap();
    auto& both = *heap.construct<watched_pair>("both")();
    transaction tx(heap);
    tx.open(both.second).balance = 1;
    expect_error(errc::invalid_argument, {"watched_pair at offset", "overlaps", "watched at offset"},
                 [&] { static_cast<void>(tx.open(both)); });
    tx.commit();
    EXPECT_EQ(both.second.balance, 1);
}

TEST_P(transaction_checks_test, names_stores_to_an_opened_object_itself) {
    manager heap = create_heap();
    auto& object = *heap.construct<watched>("object")();
    expect_error(errc::concurrent_modification, {"watched at offset", "byte 0 ", "stored to"}, [&] {
        heap.transact([&](transaction& tx) {
            tx.open(object).next = &object;
            object.balance = 7;
        });
    });
    EXPECT_EQ(object.next, nullptr) << "the transaction changes nothing";
    EXPECT_THAT(told_, IsEmpty()) << "once is enough";
    {
        transaction tx(heap);
        static_cast<void>(tx.open(object));
        heap.allocate_to(object.next, sizeof(watched));
    }
    EXPECT_THAT(told_, ElementsAre(HasSubstr("byte 8 was stored to"))) << "also where it is aborted";
}

TEST_P(transaction_checks_test, names_objects_in_free_memory) {
    manager heap = create_heap();
    heap.allocate_to(heap.root(0), sizeof(watched), {.zeroed = true});
    heap.allocate_to(heap.root(1), 200'000, {.zeroed = true});
    auto& object = *static_cast<watched*>(heap.root(0).get());
    auto& words = *static_cast<std::array<std::uint64_t, 25'000>*>(heap.root(1).get());
    expect_error(errc::concurrent_modification, {"watched at offset", "block was freed"}, [&] {
        heap.transact([&](transaction& tx) {
            tx.open(object).balance = 1;
            heap.free_from(heap.root(0));
        });
    });
    if (GetParam().first == durability::commit) {  // transact() has taken that free back
        EXPECT_TRUE(heap.free_from(heap.root(0)));
    }
    heap.free_from(heap.root(1));
    for (const auto& call : std::vector<std::function<void(transaction&)>>{
             [&](transaction& tx) { static_cast<void>(tx.open(object)); },
             [&](transaction& tx) { tx.store(object.balance, 1); },
             [&](transaction& tx) { tx.store(words[24'999], 1); },
         }) {
        expect_error(errc::bad_address, {"in free memory", "an allocated block, or a root"},
                     [&] { heap.transact(call); });
    }
    heap.transact([&](transaction& tx) { tx.store(heap.root(5), &heap.root(6)); });
}

TEST_P(transaction_checks_test, names_copies_that_are_stored_to_after_the_end) {
    manager heap = create_heap();
    auto& object = *heap.construct<watched>("object")();
    for (const bool commits : {false, true}) {
        transaction tx(heap);
        watched& copy = tx.open(object);
        copy.balance = 1;
        commits ? tx.commit() : tx.abort();
        EXPECT_EQ(copy.balance, static_cast<std::int64_t>(0xdbdbdbdbdbdbdbdb)) << "a read is easily seen";
        copy.balance = 2;
        EXPECT_THAT(told_, IsEmpty());
        heap.transact([](transaction&) {});
        EXPECT_THAT(told_, ElementsAre(HasSubstr("watched at offset"))) << "once";
        EXPECT_THAT(told_.front(), HasSubstr("after its transaction had ended"));
        told_.clear();
    }
    std::thread([&] {
        transaction tx(heap);
        watched& copy = tx.open(object);
        {
            transaction inner(tx);
            watched& in_part = inner.open(*heap.construct<watched>(anonymous_instance)());
            inner.abort();
            in_part.balance = 1;
        }
        tx.commit();
        copy.balance = 2;
    }).join();
    EXPECT_EQ(told_.size(), 2U) << "of a thread that ends";
    EXPECT_EQ(object.balance, 1);
}

TEST_P(transaction_checks_test, names_pointers_to_copies_in_new_blocks) {
    manager heap = create_heap();
    auto& object = *heap.construct<watched>("object")();
    expect_error(errc::invalid_argument, {"copy of an opened object", "watched", "byte 8"}, [&] {
        heap.transact([&](transaction& tx) {
            auto* const made = tx.make<watched>();
            made->next = &tx.open(object);
        });
    });
    heap.transact([&](transaction& tx) {
        auto* const made = tx.make<watched>();
        made->next = &object;
        tx.open(object).next = made;
    });
    EXPECT_EQ(object.next->next.get(), &object);
}

TEST_P(transaction_checks_test, leaves_threads_with_locks_alone) {
    {
        manager heap = create_heap();
        heap.construct<std::array<watched, 8>>("all")();
    }
    manager heap(open_only, path(), options());
    auto& all = *heap.find<std::array<watched, 8>>("all").first;
    std::array<std::mutex, 8> locks;
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 3; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::size_t i = 0; i < 300; ++i) {
                const std::size_t a = (i * 5 + thread) % 8;
                const std::size_t b = (a + 1 + i % 7) % 8;
                section tx(heap, locks[a], locks[b]);
                --tx->open(all[a]).balance;
                ++tx->open(all[b]).balance;
                if (i % 3 != 0) {
                    tx->commit();
                }
            }
        });
    }
    for (std::thread& each : threads) {
        each.join();
    }
    EXPECT_THAT(told_, IsEmpty());
}

using transaction_checks_on_disk = manager_test;

/// Was: named as objects in free memory.
TEST_F(transaction_checks_on_disk, leave_new_blocks_that_wait_for_a_sync_alone) {
    open_options wanted = options_of({durability::atomic, open_options::domain_choice::disk});
    wanted.check_transactions = true;
    manager heap(create_only, path(), wanted);
    const auto made = [&](transaction& tx) { return static_cast<watched*>(tx.load(heap.root(0))); };
    ticket last = heap.transact_later([&](transaction& tx) { tx.store(heap.root(0), tx.make<watched>()); });
    last = heap.transact_later([&](transaction& tx) { tx.open(*made(tx)).balance = 1; });
    last = heap.transact_later([&](transaction& tx) { tx.store(made(tx)->balance, 2); });
    heap.sync(last);
    EXPECT_EQ(static_cast<watched*>(heap.root(0).get())->balance, 2);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(durabilities, transaction_checks_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
