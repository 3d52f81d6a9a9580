// A signal handler that allocates or frees, where its thread is in the allocator.
#include <cstdint>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using base::failure_code;
using base::page_size;
using testing::IsEmpty;

/// Acts as a signal handler: the allocator reads this clock while it holds its locks.
struct interruption {
    static inline block_allocator* blocks = nullptr;
    static inline void* kept = nullptr;
    static inline int refused = 0;
    static std::uint64_t clock() noexcept {
        if (block_allocator* const mine = std::exchange(blocks, nullptr)) {
            held_block held;
            refused += mine->allocate(20 * page_size, 1) == nullptr ? 1 : 0;
            refused += mine->allocate_typed(100, 1, 7) == nullptr ? 1 : 0;
            refused += mine->hold(mine->this_cache(), 20 * page_size, 1, held) ? 0 : 1;
            refused += mine->try_free(kept) ? 0 : 1;
            refused += block_allocator::last_failure().code == failure_code::unsupported ? 1 : 0;
        }
        return 1;
    }
};

/// Regression: the call waited for its own thread.
TEST(interruptions, of_the_allocator_are_refused) {
    test_heap heap;
    heap.keep_extents(interruption::clock);
    void* const freed = heap.blocks().allocate(600 * page_size, 1);
    interruption::kept = heap.blocks().allocate(20 * page_size, 1);
    interruption::refused = 0;
    interruption::blocks = &heap.blocks();
    EXPECT_TRUE(heap.blocks().try_free(freed));
    EXPECT_EQ(interruption::blocks, nullptr) << "nothing was interrupted";
    EXPECT_EQ(interruption::refused, 5);
    EXPECT_TRUE(heap.blocks().try_free(interruption::kept));
    EXPECT_THAT(heap.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
