// Blocks of a heap that separates cache lines, and what check() says of other slabs in it.
#include <set>

#include <gmock/gmock.h>

#include "slab/pool/slab_check.hpp"
#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class cache_lines_test : public testing::Test {
protected:
    cache_lines_test() { heap_.blocks().separate_cache_lines(); }

    /// Expects the block to begin at a line and to share none.
    void take(const void* block) {
        ASSERT_NE(block, nullptr);
        const std::uint64_t begin = heap_.space().view().offset(block).value;
        const auto size = heap_.blocks().inspect().usable_size(block);
        ASSERT_TRUE(size.ok());
        EXPECT_EQ(begin % base::cache_line_size, 0U);
        EXPECT_EQ(size.value() % base::cache_line_size, 0U);
        for (std::uint64_t line = begin; line < begin + size.value(); line += base::cache_line_size) {
            EXPECT_TRUE(lines_.insert(line).second) << "line " << line << " of a block of " << size.value();
        }
    }
    void* hold_and_keep(std::size_t bytes, std::uint32_t type) {
        block_allocator& blocks = heap_.blocks();
        held_block held;
        if (!(type == 0 ? blocks.hold(blocks.this_cache(), bytes, 8, held) : blocks.hold_typed(bytes, 8, type, held))) {
            return nullptr;
        }
        std::atomic_ref(*held.state).store(block_state::live);
        return heap_.space().view().address({held.offset});
    }

    test_heap heap_;
    std::set<std::uint64_t> lines_;
};

TEST_F(cache_lines_test, no_two_blocks_share_a_line_whichever_way_they_come) {
    for (std::size_t bytes = 1; bytes <= 700; bytes += bytes < 200 ? 3 : 50) {
        for (int i = 0; i < 3; ++i) {
            take(heap_.blocks().allocate(bytes, bytes < 16 ? 8 : 16));
            if (void* const cached = heap_.blocks().fast_path().allocate(bytes)) {
                take(cached);
            }
            take(heap_.blocks().allocate_typed(bytes, 1, 7));
            take(hold_and_keep(bytes, 0));
            take(hold_and_keep(bytes, 7));
        }
    }
    take(heap_.blocks().allocate(maximum_small_size, 8));
    take(heap_.blocks().allocate(maximum_small_size + 1, 8));
    take(heap_.blocks().allocate(1, 4096));
    EXPECT_EQ(heap_.blocks().allocate(0, 8), nullptr);
    EXPECT_EQ(heap_.blocks().allocate(8, 3), nullptr) << "a wrong alignment stays wrong";
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(cache_lines_test, what_is_freed_comes_again_as_whole_lines) {
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
        lines_.clear();
        for (std::size_t bytes = 1; bytes <= 300; ++bytes) {
            blocks.push_back(heap_.blocks().allocate(bytes, 8));
            take(blocks.back());
        }
        for (void* const block : blocks) {
            ASSERT_TRUE(heap_.blocks().fast_path().free(block));
        }
        blocks.clear();
        EXPECT_TRUE(heap_.blocks().inspect().all_free());
        EXPECT_THAT(heap_.problems(), IsEmpty());
    }
}

TEST(cache_lines_check_test, names_slabs_of_parts_of_lines) {
    test_heap heap;
    ASSERT_NE(heap.blocks().allocate(64, 8), nullptr);
    ASSERT_TRUE(heap.reopen().ok());
    heap.blocks().separate_cache_lines();
    EXPECT_THAT(heap.problems(), IsEmpty());
    ASSERT_TRUE(heap.reopen().ok());
    ASSERT_NE(heap.blocks().allocate(48, 8), nullptr);
    EXPECT_THAT(heap.problems(), IsEmpty()) << "without the option it is a block as any other";
    ASSERT_TRUE(heap.reopen().ok());
    heap.blocks().separate_cache_lines();
    EXPECT_THAT(heap.problems(), Contains(HasSubstr("SLAB-15")));
}

TEST(cache_lines_check_test, knows_the_blocks_from_before_a_slab_was_morphed) {
    const auto header = [](std::uint32_t size, std::uint16_t old_size) {
        return segment::slab_header_on_media{
            size, 65536 / size, segment::encode(segment::slab_flags{true, old_size}), 0, {}};
    };
    EXPECT_TRUE(has_whole_lines(header(128, 0)));
    EXPECT_TRUE(has_whole_lines(header(128, 192)));
    EXPECT_FALSE(has_whole_lines(header(128, 160)));
    EXPECT_FALSE(has_whole_lines(header(160, 128)));
}

}  // namespace
}  // namespace holdfast::slab
