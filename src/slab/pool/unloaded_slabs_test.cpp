// Slabs that are not loaded since the open, on a full disk: their bitmaps may have no space. They are usable when there
// is space again.
#include <cerrno>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using base::failure_code;
using base::granule;
using testing::IsEmpty;

/// Bitmaps, all or some, have no space while the disk is full.
class full_disk final : public segment::bitmap_verifier {
public:
    base::result<void> admit(granule /*position*/) override { return {}; }
    base::result<void> back(granule position, slab_is /*use*/) override {
        ++asked_;
        if (!full_ || backed_.contains(position.value)) {
            return {};
        }
        base::failure what;
        what.code = failure_code::no_space;
        what.field = "bitmap";
        what.os_error = ENOSPC;
        return what;
    }
    bool has_bitmap(granule /*position*/) override { return true; }

    void fill() noexcept { full_ = true; }
    void empty() noexcept { full_ = false; }
    void keep(granule position) { backed_.insert(position.value); }
    [[nodiscard]] std::uint64_t asked() const noexcept { return asked_; }

private:
    bool full_ = false;
    std::set<std::uint64_t> backed_;
    std::uint64_t asked_ = 0;
};

/// The parameter is the type number, 0 for none.
class unloaded_slabs_test : public testing::TestWithParam<std::uint32_t> {
protected:
    static constexpr std::size_t bytes = 8192;
    static constexpr std::size_t slabs = 5;

    unloaded_slabs_test() { heap_.verify_with(disk_); }

    [[nodiscard]] void* allocate() {
        return GetParam() == 0 ? heap_.blocks().allocate(bytes, 16)
                               : heap_.blocks().allocate_typed(bytes, 16, GetParam());
    }
    /// Makes full slabs, frees `freed` blocks in each, and opens the heap again on a full disk.
    void make_slabs(std::size_t freed) {
        const std::size_t a_slab = size_classes[class_for(bytes, 16)].block_count;
        std::vector<void*> all(slabs * a_slab);
        for (void*& block : all) {
            block = allocate();
            ASSERT_NE(block, nullptr);
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (i % a_slab < freed) {
                ASSERT_TRUE(heap_.blocks().try_free(all[i]));
            } else {
                blocks_.push_back(all[i]);
            }
        }
        ASSERT_TRUE(heap_.reopen().ok());
        heap_.space().set_capacity(base::to_bytes(heap_.space().frontier()));
        disk_.fill();
    }
    [[nodiscard]] std::uint64_t allocated() { return heap_.blocks().inspect().statistics().allocated_blocks; }
    static failure_code reason() { return block_allocator::last_failure().code; }

    full_disk disk_;
    test_heap heap_;
    std::vector<void*> blocks_;
};

INSTANTIATE_TEST_SUITE_P(of_type, unloaded_slabs_test, testing::Values(0U, 7U));

TEST_P(unloaded_slabs_test, a_free_names_the_lack_of_space_and_succeeds_when_there_is_some) {
    make_slabs(0);
    const std::uint64_t before = allocated();
    for (int round = 0; round < 3; ++round) {
        EXPECT_FALSE(heap_.blocks().try_free(blocks_[0]));
        EXPECT_EQ(reason(), failure_code::no_space) << block_allocator::last_failure().message();
        EXPECT_EQ(block_allocator::last_failure().os_error, ENOSPC);
    }
    EXPECT_EQ(allocated(), before);
    EXPECT_EQ(heap_.blocks().inspect().statistics().quarantined_slabs, 0U);
    EXPECT_EQ(*heap_.blocks().inspect().usable_size(blocks_[0]), bytes);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    disk_.empty();
    for (void* const block : blocks_) {
        EXPECT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message();
    }
    EXPECT_EQ(allocated(), 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_P(unloaded_slabs_test, a_free_in_two_steps_names_it_too) {
    make_slabs(0);
    held_block found;
    EXPECT_FALSE(heap_.blocks().find_allocated(blocks_[0], found));
    EXPECT_EQ(reason(), failure_code::no_space) << block_allocator::last_failure().message();
    disk_.empty();
    EXPECT_TRUE(heap_.blocks().find_allocated(blocks_[0], found));
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_P(unloaded_slabs_test, an_allocation_fails_without_space_and_finds_the_free_blocks_when_there_is_some) {
    make_slabs(1);
    const std::uint64_t before = allocated();
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(allocate(), nullptr);
        EXPECT_EQ(reason(), failure_code::no_space) << block_allocator::last_failure().message();
    }
    EXPECT_EQ(allocated(), before);
    EXPECT_EQ(heap_.blocks().inspect().statistics().quarantined_slabs, 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    disk_.empty();
    for (std::size_t slab = 0; slab < slabs; ++slab) {
        EXPECT_NE(allocate(), nullptr) << slab << ": " << block_allocator::last_failure().message();
    }
    EXPECT_EQ(allocated(), before + slabs);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_P(unloaded_slabs_test, an_allocation_passes_by_those_without_space) {
    make_slabs(1);
    for (const std::size_t kept : {slabs / 2, slabs - 1}) {
        disk_.keep(heap_.granule_of(blocks_[kept * (blocks_.size() / slabs)]));
        EXPECT_NE(allocate(), nullptr) << kept << ": " << block_allocator::last_failure().message();
    }
    EXPECT_EQ(allocate(), nullptr);
    disk_.empty();
    for (std::size_t slab = 2; slab < slabs; ++slab) {
        EXPECT_NE(allocate(), nullptr) << slab << ": " << block_allocator::last_failure().message();
    }
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, slabs) << "no new one was needed";
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_P(unloaded_slabs_test, a_free_loads_what_an_allocation_passed_by) {
    make_slabs(1);
    EXPECT_EQ(allocate(), nullptr);
    disk_.empty();
    for (void* const block : blocks_) {
        EXPECT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message();
    }
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
    for (void*& block : blocks_) {
        block = allocate();
        EXPECT_NE(block, nullptr) << block_allocator::last_failure().message();
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_P(unloaded_slabs_test, to_give_everything_back_asks_once_for_each) {
    make_slabs(1);
    const std::uint64_t before = disk_.asked();
    heap_.blocks().small().release_unused();
    EXPECT_EQ(disk_.asked(), before + slabs);
    disk_.empty();
    heap_.blocks().small().release_unused();
    EXPECT_EQ(disk_.asked(), before + 2 * slabs);
    heap_.blocks().small().release_unused();
    EXPECT_EQ(disk_.asked(), before + 2 * slabs) << "all are loaded";
}

}  // namespace
}  // namespace holdfast::slab
