// Blocks with a type number: the slabs that they lie in, the queries about them, and damaged type numbers on media.
#include <map>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using base::failure_code;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint32_t last_type = segment::type_limit - 1;

class typed_slabs_test : public testing::Test {
protected:
    void* allocate(std::size_t bytes, std::uint32_t type) {
        void* const block =
            type == 0 ? heap_.blocks().allocate(bytes, 8) : heap_.blocks().allocate_typed(bytes, 8, type);
        EXPECT_NE(block, nullptr) << block_allocator::last_failure().message();
        return block;
    }
    void free(void* block) { EXPECT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message(); }
    std::uint32_t type_of(const void* block) {
        const auto found = heap_.blocks().inspect().type_of(block);
        EXPECT_TRUE(found.ok());
        return found ? *found : ~0U;
    }
    std::map<std::uint64_t, std::uint32_t> types() {
        std::map<std::uint64_t, std::uint32_t> found;
        heap_.blocks().inspect().for_each_block(
            [&](base::heap_offset offset, std::uint64_t, std::uint32_t type) { found.emplace(offset.value, type); });
        return found;
    }
    std::uint64_t slabs() { return heap_.blocks().inspect().statistics().slabs; }
    segment::slab_header_on_media& header_of(const void* block) {
        return heap_.space().view().slab_header(heap_.granule_of(block));
    }

    test_heap heap_;
};

TEST_F(typed_slabs_test, a_slab_holds_one_class_and_one_type) {
    std::map<std::uint64_t, std::set<std::pair<std::uint32_t, std::size_t>>> in_granule;
    for (int round = 0; round < 50; ++round) {
        for (const std::uint32_t type : {0U, 1U, 2U, last_type}) {
            for (const std::size_t bytes : {16U, 64U, 14336U}) {
                void* const block = allocate(bytes, type);
                in_granule[heap_.granule_of(block).value].insert({type, bytes});
                EXPECT_EQ(type_of(block), type);
                EXPECT_EQ(*heap_.blocks().inspect().usable_size(block), bytes);
                EXPECT_EQ(header_of(block).type, type);
            }
        }
    }
    for (const auto& [granule, kinds] : in_granule) {
        EXPECT_EQ(kinds.size(), 1U) << granule;
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(typed_slabs_test, blocks_of_whole_pages_have_types_too) {
    void* const block = heap_.blocks().allocate_typed(100'000, 1 << 16, last_type);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(type_of(block), last_type);
    EXPECT_EQ(type_of(allocate(100'000, 0)), 0U);
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_EQ(type_of(block), last_type);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free(block);
    EXPECT_FALSE(heap_.blocks().inspect().type_of(block).ok());
    EXPECT_EQ(type_of(allocate(100'000, 0)), 0U) << "in the same pages";
}

TEST_F(typed_slabs_test, types_survive_a_reopening_and_old_slabs_are_filled_first) {
    std::map<std::uint64_t, std::uint32_t> expected;
    std::vector<void*> freed;
    for (std::uint32_t i = 0; i < 6000; ++i) {
        const std::uint32_t type = i % 4;
        void* const block = allocate(i % 3 == 0 ? 64 : 2048, type);
        if (i / 4 % 2 == 0) {
            freed.push_back(block);
        } else {
            expected.emplace(heap_.space().view().offset(block).value, type);
        }
    }
    for (void* const block : freed) {
        free(block);
    }
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_EQ(types(), expected) << "of slabs that nobody has loaded";
    EXPECT_THAT(heap_.problems(), IsEmpty());
    const std::uint64_t before = slabs();
    for (std::uint32_t i = 0; i < 6000; ++i) {
        if (i / 4 % 2 == 0) {
            allocate(i % 3 == 0 ? 64 : 2048, i % 4);
        }
    }
    EXPECT_LE(slabs(), before + 2) << "what a thread caches, of both classes without a type";
    EXPECT_THAT(heap_.problems(), IsEmpty());
    for (const auto& [offset, type] : expected) {
        void* const block = heap_.space().view().address({offset});
        EXPECT_EQ(type_of(block), type);
        free(block);
        EXPECT_FALSE(heap_.blocks().try_free(block));
        EXPECT_EQ(block_allocator::last_failure().code, failure_code::bad_address);
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(typed_slabs_test, a_free_loads_the_slab_of_its_block) {
    void* const block = allocate(64, 5);
    void* const other = allocate(64, 5);
    ASSERT_TRUE(heap_.reopen().ok());
    free(block);
    EXPECT_EQ(allocate(64, 5), block);
    EXPECT_EQ(type_of(other), 5U);
    EXPECT_NE(heap_.granule_of(allocate(64, 6)), heap_.granule_of(other));
    EXPECT_NE(heap_.granule_of(allocate(64, 0)), heap_.granule_of(other));
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(typed_slabs_test, empty_slabs_go_back_and_are_slabs_of_other_types) {
    for (std::uint32_t type = 1; type <= 20; ++type) {
        std::vector<void*> blocks;
        for (int i = 0; i < 200; ++i) {
            blocks.push_back(allocate(4096, type));
        }
        for (void* const block : blocks) {
            free(block);
        }
        EXPECT_LE(slabs(), type) << "a spare for each type";
        EXPECT_THAT(heap_.problems(), IsEmpty());
    }
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
}

TEST(typed_slabs_full_test, spare_slabs_of_all_types_are_used_when_space_runs_out) {
    constexpr std::uint64_t capacity = std::uint64_t{8} << 20;
    test_heap heap(2 * capacity, capacity, segment::region_size, segment::minimum_segment_size);
    for (std::uint32_t type = 1; type <= 100; ++type) {
        void* const block = heap.blocks().allocate_typed(64, 8, type);
        ASSERT_NE(block, nullptr) << type;
        ASSERT_TRUE(heap.blocks().try_free(block));
    }
    EXPECT_EQ(heap.blocks().inspect().statistics().slabs, 100U);
    std::vector<void*> blocks;
    while (void* const block = heap.blocks().allocate(base::granule_size, 8)) {
        blocks.push_back(block);
    }
    EXPECT_EQ(block_allocator::last_failure().code, failure_code::no_space);
    EXPECT_EQ(heap.blocks().inspect().statistics().slabs, 0U);
    EXPECT_EQ(blocks.size(), capacity / base::granule_size - 1);
    EXPECT_EQ(heap.blocks().allocate_typed(64, 8, 1), nullptr);
    EXPECT_EQ(block_allocator::last_failure().code, failure_code::no_space);
    ASSERT_TRUE(heap.blocks().try_free(blocks.back()));
    EXPECT_NE(heap.blocks().allocate_typed(64, 8, 1), nullptr);
    std::vector<std::string> problems;
    heap.blocks().inspect().check(problems);
    EXPECT_THAT(problems, IsEmpty());
}

TEST(typed_slabs_full_test, all_unloaded_slabs_are_searched_when_space_has_run_out) {
    constexpr std::uint64_t capacity = std::uint64_t{8} << 20;
    test_heap heap(capacity, capacity, segment::region_size, segment::minimum_segment_size);
    std::vector<void*> blocks;
    while (void* const block = heap.blocks().allocate_typed(14336, 8, 9)) {
        blocks.push_back(block);
    }
    for (void* const freed : {blocks.front(), blocks[blocks.size() / 2], blocks.back()}) {
        ASSERT_TRUE(heap.reopen().ok());
        ASSERT_TRUE(heap.blocks().try_free(freed));
        ASSERT_TRUE(heap.reopen().ok());
        EXPECT_EQ(heap.blocks().allocate_typed(14336, 8, 8), nullptr) << "of another type";
        EXPECT_EQ(heap.blocks().allocate_typed(14336, 8, 9), freed);
        EXPECT_EQ(heap.blocks().allocate_typed(14336, 8, 9), nullptr);
    }
}

TEST_F(typed_slabs_test, a_type_beyond_the_limit_is_refused) {
    for (const std::uint32_t type : {segment::type_limit, ~0U}) {
        for (const std::size_t bytes : {64U, 100'000U}) {
            EXPECT_EQ(heap_.blocks().allocate_typed(bytes, 8, type), nullptr);
            EXPECT_EQ(block_allocator::last_failure().code, failure_code::invalid_argument);
            EXPECT_EQ(block_allocator::last_failure().field, "type");
            held_block held;
            EXPECT_FALSE(heap_.blocks().hold_typed(bytes, 8, type, held));
            EXPECT_EQ(block_allocator::last_failure().code, failure_code::invalid_argument);
        }
    }
    EXPECT_EQ(heap_.blocks().allocate_typed(0, 8, 1), nullptr);
    EXPECT_EQ(block_allocator::last_failure().code, failure_code::invalid_argument);
    EXPECT_EQ(slabs(), 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(typed_slabs_test, wrong_addresses_have_no_type) {
    auto* const block = static_cast<std::byte*>(allocate(64, 3));
    for (const void* const wrong : {static_cast<const void*>(block + 8), static_cast<const void*>(block + 64),
                                    static_cast<const void*>(heap_.space().view().base()),
                                    static_cast<const void*>(nullptr), static_cast<const void*>(&heap_)}) {
        const auto found = heap_.blocks().inspect().type_of(wrong);
        ASSERT_FALSE(found.ok());
        EXPECT_EQ(found.error().code, failure_code::bad_address);
        EXPECT_FALSE(heap_.blocks().try_free(const_cast<void*>(wrong)));
    }
}

TEST_F(typed_slabs_test, a_type_on_media_beyond_the_limit_quarantines_the_slab) {
    void* const block = allocate(64, last_type);
    for (const std::uint64_t type :
         {std::uint64_t{segment::type_limit}, std::uint64_t{1} << 32U | 5, ~std::uint64_t{0}}) {
        header_of(block).type = type;
        ASSERT_TRUE(heap_.reopen().ok());
        EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-11")));
        EXPECT_FALSE(heap_.blocks().try_free(block));
        EXPECT_EQ(block_allocator::last_failure().code, failure_code::corrupt);
        EXPECT_EQ(heap_.blocks().inspect().type_of(block).error().code, failure_code::corrupt);
        EXPECT_EQ(heap_.blocks().inspect().statistics().quarantined_slabs, 1U);
        EXPECT_NE(heap_.granule_of(allocate(64, 5)), heap_.granule_of(block));
    }
    header_of(block).type = last_type;
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_EQ(type_of(block), last_type);
}

TEST_F(typed_slabs_test, live_bits_beyond_the_blocks_are_found_when_the_slab_is_loaded) {
    void* const block = allocate(48, 4);
    heap_.space().view().live_bitmap(heap_.granule_of(block))[127] = 1;
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_NE(heap_.granule_of(allocate(48, 4)), heap_.granule_of(block));
    EXPECT_FALSE(heap_.blocks().try_free(block));
    EXPECT_EQ(block_allocator::last_failure().code, failure_code::corrupt);
}

TEST_F(typed_slabs_test, check_compares_the_type_on_media_with_the_one_in_memory) {
    void* const typed = allocate(64, 4);
    void* const plain = allocate(64, 0);
    for (const bool reopened : {false, true}) {
        for (const auto& [block, type, wrong] :
             {std::tuple{typed, 4U, 5U}, std::tuple{typed, 4U, 0U}, std::tuple{plain, 0U, 4U}}) {
            header_of(block).type = wrong;
            EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-7")));
            header_of(block).type = type;
            EXPECT_THAT(heap_.problems(), IsEmpty());
        }
        if (!reopened) {
            ASSERT_TRUE(heap_.reopen().ok());
        }
    }
    std::uint64_t* const bitmap = heap_.space().view().live_bitmap(heap_.granule_of(typed));
    allocate(64, 4);
    heap_.blocks().slabs().write_bitmaps();
    EXPECT_THAT(heap_.problems(), IsEmpty());
    bitmap[0] ^= 2;
    EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-5")));
}

TEST_F(typed_slabs_test, a_type_in_the_entry_of_anything_but_a_used_block_is_corrupt) {
    void* const slab = allocate(64, 4);
    void* const big = allocate(100'000, 4);
    const auto entry_of = [this](const void* block) -> std::uint64_t& {
        return heap_.space().view().page_entry_word(base::page_of(heap_.space().view().offset(block)));
    };
    constexpr std::uint64_t one_type = std::uint64_t{1} << segment::page_entry_type_shift;
    std::uint64_t& free_entry = heap_.space().view().page_entry_word(
        base::page_of({heap_.space().view().offset(big).value + 25 * base::page_size}));
    ASSERT_EQ(segment::decode_page_entry(free_entry).kind, segment::extent_kind::free);
    for (std::uint64_t* const entry : {&entry_of(slab), &free_entry}) {
        *entry += one_type;
        const auto opened = heap_.reopen();
        ASSERT_FALSE(opened.ok());
        EXPECT_EQ(opened.error().code, failure_code::corrupt);
        EXPECT_THAT(opened.error().expected, HasSubstr("EXT-2"));
        *entry -= one_type;
    }
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_EQ(type_of(big), 4U);
}

}  // namespace
}  // namespace holdfast::slab
