// Guard ranges behind slabs: where they are made, and that a slab never depends on one.
#include "slab/pool/guard_ranges.hpp"

#include <cstring>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/test_support.hpp"
#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using base::granule;
using base::mebibyte;
using segment::must;
using testing::IsEmpty;

constexpr std::size_t block_bytes = 4096;
constexpr std::size_t blocks_a_slab = base::granule_size / block_bytes;

class remembering_access final : public segment::page_access {
public:
    base::result<void> protect(base::pages start, base::pages length, rights left) override {
        ++protects;
        EXPECT_EQ(length.value, base::pages_per_granule);
        EXPECT_EQ(left, rights::none);
        if (protect_fails) {
            return out_of_mappings();
        }
        protected_granules.insert(base::granule_of(start).value);
        return {};
    }
    base::result<void> unprotect(base::pages start, base::pages /*length*/) override {
        if (unprotect_fails) {
            return out_of_mappings();
        }
        EXPECT_EQ(protected_granules.erase(base::granule_of(start).value), 1U);
        return {};
    }
    [[nodiscard]] std::uint64_t most_ranges() const override { return 1000; }

    std::set<std::uint64_t> protected_granules;
    unsigned protects = 0;
    bool protect_fails = false;
    bool unprotect_fails = false;

private:
    static base::failure out_of_mappings() {
        base::failure what;
        what.code = base::failure_code::limit;
        return what;
    }
};

class guard_ranges_test : public testing::Test {
protected:
    static constexpr std::uint64_t reservation = 256 * mebibyte;

    void start(test_heap& heap) {
        heap.blocks().harden();
        must(heap.blocks().slabs().source().start_guards(access_, segment::page_access::rights::none));
    }
    static std::vector<void*> fill(test_heap& heap, std::size_t slabs) {
        std::vector<void*> blocks;
        for (std::size_t i = 0; i < slabs * blocks_a_slab; ++i) {
            blocks.push_back(heap.blocks().allocate(block_bytes, 8));
            if (blocks.back() == nullptr) {
                blocks.pop_back();
                break;
            }
            std::memset(blocks.back(), 1, block_bytes);
        }
        return blocks;
    }
    static void free_all(test_heap& heap, const std::vector<void*>& blocks) {
        for (void* const block : blocks) {
            EXPECT_TRUE(heap.blocks().free_exactly(block));
        }
        heap.blocks().small().release_unused();
    }
    static std::set<std::uint64_t> slabs_of(const test_heap& heap, const std::vector<void*>& blocks) {
        std::set<std::uint64_t> slabs;
        for (const void* const block : blocks) {
            slabs.insert(heap.granule_of(block).value);
        }
        return slabs;
    }
    /// Expects each guard range to be behind one of these slabs and to be none of them.
    void expect_behind(test_heap& heap, const std::set<std::uint64_t>& slabs) const {
        std::set<std::uint64_t> guards;
        heap.blocks().slabs().source().guards().for_each([&](granule range) {
            guards.insert(range.value);
            EXPECT_TRUE(slabs.contains(range.value - 1)) << range.value;
            EXPECT_FALSE(slabs.contains(range.value)) << range.value;
            EXPECT_TRUE(heap.blocks().slabs().source().guards().contains(range));
        });
        EXPECT_EQ(guards, access_.protected_granules);
        EXPECT_EQ(heap.blocks().slabs().source().guards().count(), guards.size());
        EXPECT_EQ(heap.blocks().inspect().statistics().guard_ranges, guards.size());
        EXPECT_THAT(heap.problems(), IsEmpty());
    }

    remembering_access access_;
};

TEST_F(guard_ranges_test, each_slab_has_one_behind_it) {
    test_heap heap(reservation);
    start(heap);
    const auto blocks = fill(heap, 20);
    const auto slabs = slabs_of(heap, blocks);
    expect_behind(heap, slabs);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), slabs.size());
    EXPECT_EQ(heap.blocks().inspect().statistics().allocated_bytes, 20 * base::granule_size)
        << "guard ranges are nobody's blocks";
    EXPECT_NE(heap.blocks().allocate_typed(64, 8, 7), nullptr);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), slabs.size() + 1);
}

TEST_F(guard_ranges_test, one_goes_with_its_slab_and_all_can_be_used_again) {
    test_heap heap(reservation);
    start(heap);
    const base::pages free_at_first = heap.extents().free_pages();
    const auto blocks = fill(heap, 12);
    free_all(heap, blocks);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), 0U);
    EXPECT_THAT(access_.protected_granules, IsEmpty());
    EXPECT_EQ(heap.extents().free_pages(), free_at_first + (heap.extents().frontier() - base::pages{512}));
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 0U);
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST_F(guard_ranges_test, ordinary_heaps_have_none) {
    test_heap heap(reservation);
    heap.blocks().harden();
    static_cast<void>(fill(heap, 4));
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), 0U);
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 0U);
}

TEST_F(guard_ranges_test, at_the_limit_slabs_are_made_without_one) {
    test_heap heap(reservation);
    start(heap);
    heap.blocks().slabs().source().guards().set_limit(3);
    auto blocks = fill(heap, 10);
    EXPECT_EQ(blocks.size(), 10 * blocks_a_slab);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), 3U);
    expect_behind(heap, slabs_of(heap, blocks));
    free_all(heap, blocks);
    blocks = fill(heap, 10);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), 3U);
    expect_behind(heap, slabs_of(heap, blocks));
}

TEST_F(guard_ranges_test, all_heaps_of_a_process_share_the_limit) {
    test_heap heap(reservation);
    start(heap);
    heap.blocks().slabs().source().guards().set_limit(5);
    const auto blocks = fill(heap, 10);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), 5U);
    {
        remembering_access others;
        test_heap other(reservation);
        other.blocks().harden();
        must(other.blocks().slabs().source().start_guards(others, segment::page_access::rights::none));
        other.blocks().slabs().source().guards().set_limit(7);
        EXPECT_EQ(fill(other, 10).size(), 10 * blocks_a_slab);
        EXPECT_EQ(other.blocks().slabs().source().guards().count(), 2U);
    }
    // Guard ranges of a closed heap do not count.
    test_heap third(reservation);
    remembering_access others;
    third.blocks().harden();
    must(third.blocks().slabs().source().start_guards(others, segment::page_access::rights::none));
    third.blocks().slabs().source().guards().set_limit(7);
    static_cast<void>(fill(third, 10));
    EXPECT_EQ(third.blocks().slabs().source().guards().count(), 2U);
    free_all(heap, blocks);
}

TEST_F(guard_ranges_test, out_of_mappings_slabs_are_made_without_one) {
    test_heap heap(reservation);
    start(heap);
    const auto some = fill(heap, 4);
    const std::uint64_t made = heap.blocks().slabs().source().guards().count();
    EXPECT_EQ(made, 4U);
    const unsigned asked = access_.protects;
    access_.protect_fails = true;
    const auto more = fill(heap, 10);
    EXPECT_EQ(more.size(), 10 * blocks_a_slab);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), made);
    EXPECT_EQ(access_.protects, asked + 1) << "once is enough";
    auto all = slabs_of(heap, some);
    all.merge(slabs_of(heap, more));
    expect_behind(heap, all);
    free_all(heap, some);
    free_all(heap, more);
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 0U);
}

TEST_F(guard_ranges_test, one_that_cannot_be_touched_again_is_left_alone) {
    test_heap heap(reservation);
    start(heap);
    const auto blocks = fill(heap, 4);
    access_.unprotect_fails = true;
    free_all(heap, blocks);
    EXPECT_EQ(heap.blocks().inspect().statistics().slabs, 0U);
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), 4U);
    EXPECT_THAT(heap.problems(), IsEmpty());
    const auto again = fill(heap, 8);
    EXPECT_EQ(again.size(), 8 * blocks_a_slab);
    for (const std::uint64_t slab : slabs_of(heap, again)) {
        EXPECT_FALSE(access_.protected_granules.contains(slab));
    }
    access_.unprotect_fails = false;
    free_all(heap, again);
    heap.blocks().slabs().source().free_guards();
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 0U);
    EXPECT_THAT(access_.protected_granules, IsEmpty());
}

TEST_F(guard_ranges_test, a_full_heap_holds_as_much_as_an_ordinary_one) {
    constexpr std::uint64_t capacity = 6 * mebibyte;
    test_heap ordinary(reservation, capacity);
    test_heap hardened(reservation, capacity);
    start(hardened);
    const auto fit = fill(ordinary, 1000);
    auto blocks = fill(hardened, 1000);
    EXPECT_EQ(blocks.size(), fit.size());
    EXPECT_GT(blocks.size(), 90 * blocks_a_slab);
    EXPECT_EQ(hardened.blocks().slabs().source().guards().count(), 0U) << "the last of them became slabs";
    EXPECT_THAT(access_.protected_granules, IsEmpty());
    EXPECT_THAT(hardened.problems(), IsEmpty());
    free_all(hardened, blocks);
    blocks = fill(hardened, 10);
    expect_behind(hardened, slabs_of(hardened, blocks));
    EXPECT_EQ(hardened.blocks().slabs().source().guards().count(), 10U);
}

TEST_F(guard_ranges_test, after_a_crash_they_are_free) {
    test_heap heap(reservation);
    start(heap);
    const auto blocks = fill(heap, 6);
    const base::pages free_before = heap.extents().free_pages();
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 6U);
    must(heap.reopen());
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 0U);
    EXPECT_EQ(heap.extents().free_pages(), free_before + base::pages{6 * base::pages_per_granule});
    EXPECT_EQ(heap.blocks().inspect().statistics().allocated_blocks, blocks.size());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST_F(guard_ranges_test, pages_that_were_mapped_anew_are_protected_again) {
    test_heap heap(reservation);
    start(heap);
    const auto blocks = fill(heap, 6);
    const std::set<std::uint64_t> all = access_.protected_granules;
    const granule middle{*std::next(all.begin(), 3)};
    access_.protected_granules.clear();
    heap.blocks().slabs().source().renew_guards(base::first_page(middle), heap.extents().frontier());
    EXPECT_EQ(access_.protected_granules, std::set<std::uint64_t>(std::next(all.begin(), 3), all.end()));
    access_.protected_granules = all;
    // A granule that cannot be a guard range any more is free.
    access_.protect_fails = true;
    heap.blocks().slabs().source().renew_guards({}, base::first_page(middle));
    EXPECT_EQ(heap.blocks().slabs().source().guards().count(), 3U);
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 3U);
    EXPECT_FALSE(heap.blocks().slabs().source().guards().contains({*all.begin()}));
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST_F(guard_ranges_test, messages_and_checks_know_them) {
    test_heap heap(reservation);
    start(heap);
    const auto blocks = fill(heap, 2);
    const granule range{*access_.protected_granules.begin()};
    for (const std::uint64_t within : {0U, 8U, 40'000U}) {
        const auto refused = heap.blocks().free(heap.space().view().address(base::offset_of(range)) + within);
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().found, "a guard range behind a slab") << within;
    }
    // check() names a page entry that says something else.
    std::uint64_t& entry = heap.space().view().page_entry_word(base::first_page(range));
    const std::uint64_t right = entry;
    entry = segment::encode({segment::extent_kind::used, {base::pages_per_granule}, 0});
    EXPECT_THAT(heap.problems(), testing::Contains(testing::HasSubstr("SLAB-16")));
    entry = right;
    EXPECT_THAT(heap.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
