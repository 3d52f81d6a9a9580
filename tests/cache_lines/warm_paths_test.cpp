// On many cores, a line that each call of a thread writes and another thread has touched costs more than all the rest
// of the call. Here two threads do what they do side by side on memory of their own; what they share is ours.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/holdfast.h>
#include <holdfast/manager.hpp>
#include <holdfast/ordered_index.hpp>
#include <holdfast/transaction.h>
#include <holdfast/transaction.hpp>

#include "api/manager_test_configurations.hpp"
#include "cache_lines/line_trace.hpp"

namespace holdfast {
namespace {

using cache_lines::trace;
using cache_lines::trace_plan;
using cache_lines::traced_calls;

class warm_paths_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    static std::uint64_t next(std::uint64_t& seed) noexcept {
        seed ^= seed << 13U;
        seed ^= seed >> 7U;
        seed ^= seed << 17U;
        return seed;
    }
    static bool is_atomic() { return GetParam().first == durability::atomic; }
    /// `locked`: instructions of a call that may wait for other cores.
    static void expect_nothing_shared(const traced_calls& found, double locked) {
        EXPECT_TRUE(found.all_noted);
        EXPECT_GT(found.writes, found.calls) << "nothing was traced";
        EXPECT_EQ(found.transfers, 0U) << found.describe();
        EXPECT_LE(static_cast<double>(found.locked) / static_cast<double>(found.calls), locked) << found.describe();
    }
    static constexpr trace_plan few{.warm_calls = 300, .calls = 20};

    manager heap_{create_only, path(), options_of(GetParam())};
};

TEST_P(warm_paths_test, a_block_and_its_free) {
    const traced_calls found = trace(few, [&](unsigned) { return [&] { heap_.deallocate(heap_.allocate(64)); }; });
    expect_nothing_shared(found, is_atomic() ? 1 : 0);
}

TEST_P(warm_paths_test, a_block_for_a_destination_and_its_free) {
    const traced_calls found = trace(few, [&](unsigned) {
        auto* const place = static_cast<ptr<std::byte>*>(heap_.allocate(64));
        new (place) ptr<std::byte>();
        return [&, place] {
            heap_.allocate_to(*place, 64);
            heap_.free_from(*place);
        };
    });
    expect_nothing_shared(found, is_atomic() ? 1 : 0);
}

TEST_P(warm_paths_test, blocks_by_the_thousand) {
    // A thread's list of free blocks ends now and then, and a slab's part.
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{1000}}) {
        const trace_plan plan{.warm_calls = 8000, .calls = is_atomic() ? 200U : 400U, .at_a_time = 50};
        const traced_calls found = trace(plan, [&](unsigned) {
            return [&heap = heap_, bytes, blocks = std::make_shared<std::vector<void*>>(500), at = 0U]() mutable {
                void*& each = (*blocks)[at++ % blocks->size()];
                if (each == nullptr) {
                    each = heap.allocate(bytes);
                } else {
                    heap.deallocate(std::exchange(each, nullptr));
                }
            };
        });
        // In `atomic` a checkpoint falls in between, which one thread makes for all.
        EXPECT_LE(found.transfers_a_call(), is_atomic() ? 0.05 : 0.02) << found.describe();
    }
}

TEST_P(warm_paths_test, blocks_of_mixed_sizes) {
    const trace_plan plan{.warm_calls = 20'000, .calls = is_atomic() ? 200U : 400U, .at_a_time = 50};
    const traced_calls found = trace(plan, [&](unsigned thread) {
        return [&heap = heap_, blocks = std::make_shared<std::vector<void*>>(4000),
                seed = std::uint64_t{thread} + 77]() mutable {
            void*& each = (*blocks)[next(seed) % blocks->size()];
            if (each != nullptr) {
                heap.deallocate(each);
            }
            each = heap.allocate(16 + next(seed) % (16U << next(seed) % 8));
        };
    });
    EXPECT_LE(found.transfers_a_call(), 0.25) << found.describe();
}

TEST_P(warm_paths_test, an_entry_of_an_index_that_changes) {
    ordered_index<std::uint64_t, std::uint64_t> keys(heap_, "keys");
    static constexpr std::uint64_t of_thread = 4000;
    for (std::uint64_t i = 0; i < 3 * of_thread; ++i) {
        keys.insert(i, i);
    }
    const traced_calls found = trace(few, [&](unsigned thread) {
        return [&keys, first = 2 * thread * of_thread, seed = std::uint64_t{thread} + 1]() mutable {
            keys.update(first + next(seed) % of_thread, seed);
        };
    });
    expect_nothing_shared(found, 2.5);  // those of the leaf's lock
}

TEST_P(warm_paths_test, a_transaction_of_the_c_interface) {
    hf_options wanted = HF_OPTIONS_INIT;
    wanted.durability = static_cast<std::uint32_t>(GetParam().first);
    wanted.domain = static_cast<std::uint32_t>(GetParam().second);
    wanted.accept_process_crash_only = 1;
    wanted.reservation = std::uint64_t{1} << 30U;
    wanted.segment_size = std::uint64_t{2} << 20U;
    hf_heap* heap = nullptr;
    ASSERT_EQ(hf_create(path("c").c_str(), &wanted, &heap), HF_OK) << hf_errormsg();
    ASSERT_EQ(hf_durability(heap), wanted.durability);
    const traced_calls found = trace(few, [&](unsigned thread) {
        auto* const words = static_cast<std::uint64_t*>(hf_allocate(heap, 8192));
        return [heap, words, seed = std::uint64_t{thread} + 1]() mutable {
            hf_transaction* tx = nullptr;
            hf_begin(heap, &tx);
            hf_store_in(tx, &words[next(seed) % 1000], seed);
            hf_commit_transaction(tx);
        };
    });
    hf_close(heap);
    expect_nothing_shared(found, 0);
}

INSTANTIATE_TEST_SUITE_P(durabilities, warm_paths_test,
                         testing::Values(test_configuration{durability::commit, open_options::domain_choice::detect},
                                         test_configuration{durability::atomic, open_options::domain_choice::emulated}),
                         name_of_configuration);

struct object {
    std::uint64_t words[8];
};

class warm_transactions_test : public manager_test {
protected:
    manager heap_{create_only, path(), options_of({durability::atomic, open_options::domain_choice::emulated})};
};

TEST_F(warm_transactions_test, change_a_word_or_an_object) {
    for (const bool opens : {false, true}) {
        const traced_calls found = trace({.warm_calls = 300, .calls = 20}, [&](unsigned) {
            auto* const objects = static_cast<object*>(heap_.allocate(64 * 1000));
            return [&heap = heap_, objects, opens, at = 0U]() mutable {
                object& one = objects[at = (at + 617) % 1000];
                heap.transact([&](transaction& tx) {
                    if (opens) {
                        tx.open(one).words[5] = at;
                    } else {
                        tx.store(one.words[0], std::uint64_t{at});
                    }
                });
            };
        });
        EXPECT_GT(found.writes, found.calls);
        EXPECT_EQ(found.transfers, 0U) << found.describe();
    }
}

TEST(line_trace, finds_a_line_that_two_threads_write_and_none_where_each_has_its_own) {
    struct alignas(128) counter {
        std::uint64_t value = 0;
    };
    const auto counters = std::make_unique<std::array<counter, 2>>();
    const auto count = [&](bool shared) {
        return trace({.warm_calls = 1, .calls = 10}, [&, shared](unsigned thread) {
            return
                [&mine = counters->at(shared ? 0 : thread)] { __atomic_fetch_add(&mine.value, 1, __ATOMIC_RELAXED); };
        });
    };
    const traced_calls alone = count(false);
    EXPECT_EQ(alone.transfers, 0U) << alone.describe();
    EXPECT_EQ(alone.locked, 20U);
    const traced_calls shared = count(true);
    EXPECT_EQ(shared.transfers, 19U) << shared.describe();
}

}  // namespace
}  // namespace holdfast
