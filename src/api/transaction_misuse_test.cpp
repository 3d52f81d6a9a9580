// Transactions that are used against their rules, in every durability: an error that names the mistake, and nothing in
// the heap changes; never a crash.
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/transaction.hpp>

#include "api/manager_test_configurations.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct linked {
    ptr<linked> next;
    std::uint64_t value = 0;
};

class transaction_misuse_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    [[nodiscard]] manager create_heap() const { return {create_only, path(), options_of(GetParam())}; }

    /// The call throws this error, whose message has this part.
    template <class Call>
    static void expect_error(errc reason, const char* part, Call&& call) {
        try {
            std::forward<Call>(call)();
            ADD_FAILURE() << "no error; expected one with: " << part;
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.reason(), reason) << thrown.what();
            EXPECT_THAT(thrown.what(), HasSubstr(part));
        }
    }
};

class changes_at_exit {
public:
    explicit changes_at_exit(manager heap) : heap_(std::move(heap)) {}
    changes_at_exit(const changes_at_exit&) = delete;
    changes_at_exit& operator=(const changes_at_exit&) = delete;
    ~changes_at_exit() { set_roots(manager::root_count); }
    void set_roots(std::size_t count) {
        heap_.transact([&](transaction& tx) {
            void* const block = tx.allocate(64);
            for (std::size_t i = 0; i < count; ++i) {
                tx.store(heap_.root(i), block);
            }
        });
    }

private:
    manager heap_;
};
std::unique_ptr<changes_at_exit> changed_at_exit;

/// Was: a use of what the thread had kept for its next transaction and had freed at its end. It ended the process
/// before the heap was closed, so in `commit` all changes were lost.
TEST_P(transaction_misuse_test, the_destructor_of_a_static_object_used_freed_memory) {
    const auto end = holdfast::base::run_in_child([&] {
        changed_at_exit = std::make_unique<changes_at_exit>(create_heap());
        changed_at_exit->set_roots(1);
        std::exit(0);
    });
    EXPECT_TRUE(end.succeeded()) << end;
    manager heap(open_only, path(), options_of(GetParam()));
    EXPECT_NE(heap.root(manager::root_count - 1).get(), nullptr);
}

/// Was: accepted. In durability `atomic`, two allocations got the same pages then.
TEST_P(transaction_misuse_test, a_block_that_was_freed_twice_was_given_out_twice) {
    manager heap = create_heap();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100'000}, std::size_t{3} << 20U}) {
        void* const block = heap.allocate(bytes);
        expect_error(errc::bad_address, "freed already", [&] {
            heap.transact([&](transaction& tx) {
                tx.free(block);
                tx.free(heap.allocate(32));
                tx.free(block);
            });
        });
        EXPECT_GE(heap.usable_size(block), bytes) << "nothing is freed";
        heap.transact([&](transaction& tx) { tx.free(block); });
        EXPECT_NE(heap.allocate(bytes), heap.allocate(bytes));
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Was: in `commit` and `collect` both committed. (In `atomic` that is so with blocks of whole pages: docs/limits.md.)
TEST_P(transaction_misuse_test, two_transactions_at_once_both_freed_a_block) {
    manager heap = create_heap();
    constexpr int rounds = 1000;
    std::vector<std::size_t> sizes{64};
    if (GetParam().first != durability::atomic) {
        sizes.push_back(100'000);
    }
    for (const std::size_t bytes : sizes) {
        std::atomic<void*> block{nullptr};
        std::atomic<int> freed{0};
        std::barrier both(2);
        const auto free_all = [&](unsigned thread) {
            for (int round = 0; round < rounds; ++round) {
                if (thread == 0) {
                    block = heap.allocate(bytes);
                }
                both.arrive_and_wait();
                try {
                    heap.transact([&](transaction& tx) { tx.free(block); });
                    ++freed;
                } catch (const error& thrown) {
                    EXPECT_EQ(thrown.reason(), errc::bad_address) << thrown.what();
                }
                both.arrive_and_wait();
            }
        };
        std::thread other(free_all, 1);
        free_all(0);
        other.join();
        EXPECT_EQ(freed, rounds);
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Was: error(bad_address), where deallocate() and C ignore null.
TEST_P(transaction_misuse_test, freeing_null_failed) {
    manager heap = create_heap();
    heap.transact([](transaction& tx) {
        tx.free(nullptr);
        tx.destroy(static_cast<linked*>(nullptr));
    });
    EXPECT_TRUE(heap.all_memory_deallocated());
}

/// Was: the block became allocated, and nothing led to it.
TEST_P(transaction_misuse_test, a_constructor_that_threw_left_its_block_behind) {
    struct thrower {
        thrower() { throw std::runtime_error("no"); }
        std::uint64_t value[4];
    };
    manager heap = create_heap();
    heap.transact([](transaction& tx) { EXPECT_THROW(static_cast<void>(tx.make<thrower>()), std::runtime_error); });
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Was: refused as two places that overlap, in blocks of up to 512 bytes.
TEST_P(transaction_misuse_test, a_store_to_a_new_block_was_refused) {
    manager heap = create_heap();
    heap.transact([&](transaction& tx) {
        auto* const small = tx.make<linked>();
        tx.store(small->value, 5);
        tx.store(small->next, small);
        auto* const large = static_cast<std::uint64_t*>(tx.allocate(4096));
        tx.store(large[100], 6);
        EXPECT_EQ(small->value, 5U) << "a new block is its own copy";
        tx.store(heap.root(0), static_cast<void*>(small));
        tx.store(heap.root(1), static_cast<void*>(large));
        transaction inner(tx);
        inner.store(small->value, 7);
    });
    const auto* const small = static_cast<const linked*>(heap.root(0).get());
    EXPECT_EQ(small->value, 5U);
    EXPECT_EQ(small->next.get(), small);
    EXPECT_EQ(static_cast<const std::uint64_t*>(heap.root(1).get())[100], 6U);
}

/// Was: the heap got a pointer to the copy, which is gone when the transaction is.
TEST_P(transaction_misuse_test, the_address_of_a_copy_became_a_pointer_in_the_heap) {
    manager heap = create_heap();
    auto& a = *heap.construct<linked>("a")();
    auto& b = *heap.construct<linked>("b")();
    expect_error(errc::invalid_argument, "copy of an opened object", [&] {
        heap.transact([&](transaction& tx) {
            tx.open(a).value = 1;
            tx.open(a).next = &tx.open(b);
        });
    });
    expect_error(errc::invalid_argument, "copy of an opened object", [&] {
        heap.transact([&](transaction& tx) { tx.store(heap.root(0), static_cast<void*>(&tx.open(b))); });
    });
    linked outside;
    expect_error(errc::invalid_argument, "outside the heap",
                 [&] { heap.transact([&](transaction& tx) { tx.open(a).next = &outside; }); });
    EXPECT_EQ(a.next, nullptr);
    EXPECT_EQ(a.value, 0U);
    EXPECT_EQ(heap.root(0), nullptr);
    heap.transact([&](transaction& tx) { tx.open(a).next = &b; });
    EXPECT_EQ(a.next.get(), &b);
}

/// Was: the end of the inner transaction wrote to memory that was unmapped, or called what was gone.
TEST_P(transaction_misuse_test, a_heap_that_was_closed_under_a_transaction_crashed_it) {
    for (const bool destroys : {false, true}) {
        auto heap = std::make_unique<manager>(open_or_create, path(), options_of(GetParam()));
        auto* const object = heap->find_or_construct<linked>("a")();
        {
            transaction tx(*heap);
            tx.open(*object).value = 1;
            static_cast<void>(tx.make<linked>());
            static_cast<void>(tx.allocate(100'000));
            transaction inner(tx);
            tx.open(*object).value = 2;
            static_cast<void>(inner.make<linked>());
            if (destroys) {
                heap.reset();
            } else {
                heap->close();
            }
            expect_error(errc::invalid_argument, "closed heap", [&] { static_cast<void>(inner.make<linked>()); });
            expect_error(errc::invalid_argument, "closed heap", [&] { transaction third(inner); });
            inner.commit();
            expect_error(errc::invalid_argument, "closed heap", [&] { tx.commit(); });
        }
        const manager again(open_read_only, path());
        EXPECT_EQ(again.find<linked>("a").first->value, 0U);
        EXPECT_EQ(again.statistics().allocated_blocks, 1U);
        EXPECT_THAT(again.check(true), IsEmpty());
    }
}

/// Was: the inner transaction went on with what the outer one had given back, and crashed or changed another one.
TEST_P(transaction_misuse_test, an_inner_transaction_outlived_the_outer_one) {
    manager heap = create_heap();
    auto& object = *heap.construct<linked>("a")();
    {
        transaction tx(heap);
        transaction inner(tx);
        transaction innermost(inner);
        innermost.open(object).value = 1;
        static_cast<void>(innermost.make<linked>());
        expect_error(errc::invalid_argument, "open transaction within it", [&] { transaction second(tx); });
        tx.abort();
        EXPECT_FALSE(inner.is_open());
        EXPECT_FALSE(innermost.is_open());
        transaction other(heap);
        other.open(object).value = 3;
        expect_error(errc::invalid_argument, "committed or aborted", [&] { innermost.commit(); });
        other.commit();
    }
    for (const bool middle : {false, true}) {
        transaction tx(heap);
        transaction inner(tx);
        transaction innermost(inner);
        innermost.open(object).value = 2;
        expect_error(errc::invalid_argument, "open transaction within it", [&] { (middle ? inner : tx).commit(); });
        EXPECT_FALSE(innermost.is_open());
        EXPECT_EQ(tx.is_open(), middle);
    }
    EXPECT_EQ(object.value, 3U);
    EXPECT_EQ(heap.statistics().allocated_blocks, 1U);
}

/// Was: "limit:" and the path, and nothing else.
TEST_P(transaction_misuse_test, more_blocks_than_a_ring_holds_were_refused_without_a_reason) {
    manager heap = create_heap();
    const auto make_many = [&] {
        heap.transact([&](transaction& tx) {
            for (int i = 0; i < 5000; ++i) {
                static_cast<void>(tx.make<linked>());
            }
        });
    };
    if (GetParam() == test_configuration{durability::atomic, open_options::domain_choice::emulated}) {
        expect_error(errc::limit, "5000 blocks made and 0 freed, expected at most 4095", make_many);
        EXPECT_TRUE(heap.all_memory_deallocated());
    } else {
        make_many();
        EXPECT_EQ(heap.statistics().allocated_blocks, 5000U);
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// A block that another one has freed meanwhile is refused with what is there, and all of the rest is dropped.
TEST_P(transaction_misuse_test, a_block_that_is_gone_at_the_commit_is_named) {
    manager heap = create_heap();
    auto& object = *heap.construct<linked>("a")();
    void* const block = heap.allocate(64);
    expect_error(errc::bad_address, "free block of 64 bytes", [&] {
        heap.transact([&](transaction& tx) {
            tx.open(object).value = 1;
            tx.free(block);
            heap.deallocate(block);
        });
    });
    expect_error(errc::bad_address, "constructed object",
                 [&] { heap.transact([&](transaction& tx) { tx.destroy(&object); }); });
    EXPECT_EQ(object.value, 0U);
}

INSTANTIATE_TEST_SUITE_P(durabilities, transaction_misuse_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
