// No live block is ever in a hole, and sparse slabs are found again.
#include <algorithm>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/pool/slab_check.hpp"
#include "slab/supply/sparse_slabs_test_support.hpp"

namespace holdfast::slab {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(sparse_slabs_test, pages_without_a_live_block_become_holes) {
    // Blocks of 112 bytes: block 0 lies in page 0, block 36 (4,032 to 4,144) in pages 0 and 1, block 584 in page 15.
    const std::vector<std::byte*> kept = sparse_slab(112, {0, 36, 584});
    const base::granule slab = heap_.granule_of(kept[0]);
    const sparse_pages going = commit();
    ASSERT_EQ(going.holes.size(), 1U);
    EXPECT_EQ(going.holes[0].first, base::first_page(slab) + base::pages{2});
    EXPECT_EQ(going.holes[0].second.value, 13U);
    EXPECT_EQ(going.free, going.holes);
    EXPECT_TRUE(may_have_holes(slab));
    EXPECT_EQ(backed_pages(slab), 3U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    expect_filled(kept[0], 112, 0);
    expect_filled(kept[1], 112, 36);
    expect_filled(kept[2], 112, 584);

    const sparse_pages again = commit();
    EXPECT_EQ(again.free, going.free);
    EXPECT_THAT(again.holes, IsEmpty());
}

TEST_F(sparse_slabs_test, of_blocks_larger_than_a_page_every_page_counts) {
    const std::vector<std::byte*> kept = sparse_slab(10'240, {1});  // 10,240 to 20,480: pages 2, 3 and 4
    const base::granule slab = heap_.granule_of(kept[0]);
    EXPECT_EQ(pages_in(commit().holes), all_pages - 3);
    EXPECT_EQ(backed_pages(slab), 3U);
    EXPECT_TRUE(is_backed(kept[0], 10'240));
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, a_slab_of_the_smallest_blocks_becomes_sparse_too) {
    const std::vector<std::byte*> kept = sparse_slab(8, {511, 512, 8191});
    EXPECT_EQ(pages_in(commit().holes), all_pages - 3);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    for (std::byte* const block : kept) {
        free(block);
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, frees_make_more_holes_at_the_next_commit) {
    const std::vector<std::byte*> kept = sparse_slab(1024, {0, 20, 40});
    const base::granule slab = heap_.granule_of(kept[0]);
    EXPECT_EQ(pages_in(commit().holes), all_pages - 3);
    free(kept[1]);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    const sparse_pages more = commit();
    ASSERT_EQ(more.holes.size(), 1U);
    EXPECT_EQ(more.holes[0].first, base::first_page(slab) + base::pages{5});
    EXPECT_EQ(pages_in(more.free), all_pages - 2);
    EXPECT_EQ(backed_pages(slab), 2U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, a_commit_that_fails_leaves_its_holes_to_the_next) {
    const std::vector<std::byte*> kept = sparse_slab(1024, {0, 40});
    const base::granule slab = heap_.granule_of(kept[0]);
    const sparse_pages going = heap_.blocks().slabs().make_sparse(true);
    heap_.blocks().slabs().write_bitmaps();
    EXPECT_EQ(pages_in(going.holes), all_pages - 2);
    EXPECT_EQ(backed_pages(slab), all_pages);  // it failed
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(commit().holes, going.holes);
    EXPECT_EQ(backed_pages(slab), 2U);
    EXPECT_THAT(commit().holes, IsEmpty());
}

TEST_F(sparse_slabs_test, with_its_last_block_the_granule_is_free_and_gets_space_before_it_is_used) {
    const std::vector<std::byte*> kept = sparse_slab(2048, {3, 17});
    const base::granule slab = heap_.granule_of(kept[0]);
    commit();
    free(kept[0]);
    free(kept[1]);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
    EXPECT_LT(backed_pages(slab), all_pages);
    std::byte* const block = allocate(32 * base::kibibyte);  // expects space itself
    EXPECT_EQ(heap_.granule_of(block), slab);
    std::byte* const small = allocate(2048);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free(block);
    free(small);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, on_a_full_disk_a_granule_without_space_is_not_handed_out) {
    const std::vector<std::byte*> kept = sparse_slab(2048, {3});
    const base::granule slab = heap_.granule_of(kept[0]);
    fill_the_heap();
    commit();
    heap_.space().set_disk(heap_.space().on_disk());
    free(kept[0]);
    EXPECT_EQ(try_allocate(50'000), nullptr);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    heap_.space().set_disk(~std::uint64_t{0});
    EXPECT_EQ(heap_.granule_of(allocate(50'000)), slab);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, is_repopulated_for_its_own_class_before_a_slab_is_made) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7, 300});
    const base::granule slab = heap_.granule_of(kept[0]);
    commit();
    std::byte* const block = allocate(112);
    EXPECT_EQ(heap_.granule_of(block), slab);
    EXPECT_EQ(backed_pages(slab), all_pages);
    EXPECT_FALSE(may_have_holes(slab));
    EXPECT_THAT(heap_.problems(), IsEmpty());
    expect_filled(kept[0], 112, 7);
    expect_filled(kept[1], 112, 300);
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 1U);
}

TEST_F(sparse_slabs_test, is_repopulated_for_a_thread_without_a_cache_and_where_space_is_short) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7});
    commit();
    held_block held;
    ASSERT_TRUE(heap_.blocks().hold(nullptr, 112, 1, held));
    EXPECT_EQ(base::granule_of(base::heap_offset{held.offset}), heap_.granule_of(kept[0]));
    EXPECT_EQ(backed_pages(heap_.granule_of(kept[0])), all_pages);
    heap_.blocks().release(nullptr, held);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, is_repopulated_to_be_morphed) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7, 300});
    const base::granule slab = heap_.granule_of(kept[0]);
    commit();
    ASSERT_TRUE(heap_.blocks().morph(slab, class_for(1024, 1), 50));
    EXPECT_EQ(backed_pages(slab), all_pages);
    EXPECT_FALSE(may_have_holes(slab));
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(heap_.granule_of(allocate(1024)), slab);
    expect_filled(kept[1], 112, 300);

    heap_.blocks().small().flush_this_thread();
    const sparse_pages going = commit();
    EXPECT_GE(pages_in(going.holes), all_pages - 4);
    EXPECT_TRUE(may_have_holes(slab));
    expect_filled(kept[0], 112, 7);
    expect_filled(kept[1], 112, 300);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free(kept[0]);
    free(kept[1]);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(pages_in(commit().free), all_pages - 1);
}

TEST_F(sparse_slabs_test, on_a_full_disk_it_stays_sparse) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7, 300});
    const base::granule slab = heap_.granule_of(kept[0]);
    fill_the_heap();
    commit();
    heap_.space().set_disk(heap_.space().on_disk());
    EXPECT_EQ(try_allocate(112), nullptr);
    EXPECT_EQ(try_allocate(1024), nullptr);
    EXPECT_FALSE(heap_.blocks().morph(slab, class_for(1024, 1), 50));
    EXPECT_TRUE(may_have_holes(slab));
    EXPECT_EQ(backed_pages(slab), 2U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    expect_filled(kept[0], 112, 7);
    expect_filled(kept[1], 112, 300);
    heap_.space().set_disk(~std::uint64_t{0});
    EXPECT_EQ(heap_.granule_of(allocate(112)), slab);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, where_there_is_no_other_space_what_fits_on_the_disk_is_repopulated) {
    const std::vector<std::byte*> first = sparse_slab(4096, {0});
    std::vector<std::byte*> filler(31);  // fills it, and a second slab of the class
    std::generate(filler.begin(), filler.end(), [&] { return allocate(4096); });
    ASSERT_NE(heap_.granule_of(filler.back()), heap_.granule_of(first[0]));
    std::for_each(filler.begin(), filler.end() - 1, [&](std::byte* block) { free(block); });
    heap_.blocks().small().flush_this_thread();
    fill_the_heap();
    commit();
    heap_.space().set_disk(heap_.space().on_disk() + 20);  // enough for one of the two
    for (int i = 0; i < 15; ++i) {
        EXPECT_NE(try_allocate(4096), nullptr);
    }
    EXPECT_EQ(try_allocate(4096), nullptr);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, slabs_that_are_in_use_empty_dense_or_typed_do_not_become_sparse) {
    std::byte* const in_use = allocate(112);
    EXPECT_THAT(commit().free, IsEmpty()) << "this thread has a part of it";
    free(in_use);
    heap_.blocks().small().flush_this_thread();
    EXPECT_THAT(commit().free, IsEmpty()) << "it is the spare";
    std::set<std::uint32_t> most;
    for (std::uint32_t i = 0; i < 13; ++i) {
        most.insert(i * 4);
    }
    const std::vector<std::byte*> dense = sparse_slab(1024, most);
    EXPECT_THAT(commit().free, IsEmpty()) << "three pages are empty";
    EXPECT_NE(heap_.blocks().allocate_typed(112, 1, 7), nullptr);
    EXPECT_THAT(commit().free, IsEmpty()) << "its blocks have a type";
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free(dense[5]);
    EXPECT_EQ(pages_in(commit().free), 4U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, only_what_nobody_has_asked_for_lately) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7, 300});
    EXPECT_THAT(commit(false).free, IsEmpty());
    for (std::uint64_t i = 0; i < idle_after * 8192; ++i) {
        static_cast<void>(allocate(8));  // dense slabs of another class, which cannot be morphed
    }
    EXPECT_EQ(pages_in(commit(false).free), all_pages - 2);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, only_durability_commit_makes_holes) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7});
    ASSERT_TRUE(heap_.reopen().ok());
    heap_.blocks().slabs().set_traced(true);
    static_cast<void>(heap_.blocks().inspect().usable_size(kept[0]));
    heap_.blocks().small().release_unused();
    EXPECT_THAT(commit().free, IsEmpty());
    EXPECT_EQ(backed_pages(heap_.granule_of(kept[0])), all_pages);
}

TEST_F(sparse_slabs_test, after_an_open_it_is_sparse_still) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7, 200, 300});
    const base::granule slab = heap_.granule_of(kept[0]);
    commit();
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free(kept[1]);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(backed_pages(slab), 3U);
    EXPECT_EQ(heap_.granule_of(allocate(112)), slab);
    EXPECT_EQ(backed_pages(slab), all_pages);
    EXPECT_FALSE(may_have_holes(slab));
    expect_filled(kept[0], 112, 7);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, other_durabilities_keep_the_flag) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7, 300});
    const base::granule slab = heap_.granule_of(kept[0]);
    commit();
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(heap_.reopen().ok());
        heap_.blocks().slabs().set_traced(true);
        EXPECT_EQ(heap_.granule_of(allocate(112)), slab);
        EXPECT_EQ(backed_pages(slab), all_pages);
        EXPECT_TRUE(may_have_holes(slab));
        EXPECT_THAT(heap_.problems(), IsEmpty());
        heap_.blocks().small().flush_this_thread();
    }
    // A full slab with the flag in its header has no free block.
    std::vector<std::byte*> more;
    for (int i = 0; i < 585 - 4; ++i) {
        more.push_back(allocate(112));
        EXPECT_EQ(heap_.granule_of(more.back()), slab);
    }
    heap_.blocks().small().flush_this_thread();
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_NE(heap_.granule_of(allocate(112)), slab);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, an_empty_slab_with_the_flag_is_freed_when_it_is_loaded) {
    const std::vector<std::byte*> kept = sparse_slab(112, {7});
    const base::granule slab = heap_.granule_of(kept[0]);
    commit();
    heap_.space().view().live_bitmap(slab)[0] = 0;
    ASSERT_TRUE(heap_.open_again().ok());
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    static_cast<void>(allocate(50'000));
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(sparse_slabs_test, a_flag_of_a_slab_that_is_not_sparse_is_found) {
    std::byte* const block = allocate(112);
    heap_.space().view().slab_header(heap_.granule_of(block)).flags = segment::slab_flag_may_have_holes;
    EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-17")));
    heap_.space().view().slab_header(heap_.granule_of(block)).flags = 0;
    const std::vector<std::byte*> kept = sparse_slab(208, {7});
    commit();
    heap_.space().view().slab_header(heap_.granule_of(kept[0])).flags = 0;
    EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-17")));
}

}  // namespace
}  // namespace holdfast::slab
