// Extents where segments belong to nodes by turns: local ones first, then a longer heap, then those of other nodes.
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/extent.hpp"
#include "extent/extent_cache.hpp"
#include "extent/fake_space.hpp"
#include "segment/test_support.hpp"

namespace holdfast::extent {
namespace {

using base::mebibyte;
using base::pages;
using segment::extent_kind;
using segment::must;
using ::testing::IsEmpty;

constexpr std::uint64_t segment_bytes = 4 * mebibyte;
constexpr pages segment_pages{segment_bytes / base::page_size};

class extent_nodes : public testing::Test {
protected:
    void format(std::uint32_t nodes, std::uint64_t capacity = 512 * mebibyte) {
        space_ = std::make_unique<fake_space>(512 * mebibyte, capacity, segment::region_size, segment_bytes);
        must(space_->grow({1}));
        extents_ = std::make_unique<extent_allocator>(space_->view(), *space_);
        extents_->set_nodes(nodes);
        must(extents_->format());
    }
    void TearDown() override { expect_sound(); }
    void expect_sound() const {
        std::vector<std::string> problems;
        extents_->check(problems);
        EXPECT_THAT(problems, IsEmpty());
    }
    pages allocate(pages length, std::uint32_t node, pages alignment = {1}) {
        return must(extents_->allocate(length, alignment, extent_kind::used, 0, node));
    }
    void expect_on(std::uint32_t node, pages start, pages length) const {
        EXPECT_EQ(extents_->node_of(start), node) << start.value;
        EXPECT_EQ(start.value / segment_pages.value, (start + length - pages{1}).value / segment_pages.value);
        for (pages page = start; page < start + length; ++page.value) {
            ASSERT_TRUE(space_->is_backed(page)) << page.value;
        }
    }

    std::unique_ptr<fake_space> space_;
    std::unique_ptr<extent_allocator> extents_;
};

TEST_F(extent_nodes, EachNodeAllocatesInItsSegments) {
    format(3);
    for (std::uint32_t node = 0; node < 3; ++node) {
        for (const pages length : {pages{1}, pages{100}, pages{600}}) {
            expect_on(node, allocate(length, node), length);
        }
    }
    EXPECT_EQ(extents_->frontier().value % 512, 0U);
    EXPECT_LE(extents_->frontier(), pages{3 * segment_pages.value});
}

TEST_F(extent_nodes, WhatIsSkippedTakesNoDiskAndIsUsedByItsNode) {
    format(4);
    const std::uint64_t before = space_->on_disk();
    const pages far = allocate({16}, 3);
    expect_on(3, far, {16});
    EXPECT_EQ(space_->on_disk() - before, 512U) << "a region, of segment 3";
    const pages middle = allocate({segment_pages.value}, 1);
    expect_on(1, middle, segment_pages);
    EXPECT_LT(middle, far);
    EXPECT_EQ(middle.value % segment_pages.value, 0U);
}

TEST_F(extent_nodes, ANodeGrowsRatherThanTakeFromAnother) {
    format(2);
    const pages block = allocate({800}, 1);
    must(extents_->free(block));
    allocate({900}, 0);
    expect_on(0, allocate({900}, 0), {900});
    expect_on(0, allocate({segment_pages.value}, 0), segment_pages);
    EXPECT_EQ(extents_->frontier().value, 5 * segment_pages.value) << "segments 0, 2 and 4 in use";
}

TEST_F(extent_nodes, WhereTheHeapCannotGrowOtherNodesGive) {
    format(2, 4 * segment_bytes);
    std::uint64_t taken = 0;
    while (extents_->allocate({256}, {1}, extent_kind::used, 0, 1)) {
        ++taken;
    }
    EXPECT_EQ(taken, 4 * segment_pages.value / 256 - 1) << "all but the extent with the roots";
}

TEST_F(extent_nodes, WhereTheDiskIsFullOtherNodesGive) {
    format(2);
    allocate(segment_pages - pages{base::pages_per_granule}, 0);
    const pages block = allocate({512}, 1);
    must(extents_->free(block));
    space_->set_disk(space_->on_disk());
    EXPECT_EQ(extents_->node_of(allocate({512}, 0)), 1U);
}

TEST_F(extent_nodes, AlignmentHoldsOnEveryNode) {
    format(3);
    for (int i = 0; i < 40; ++i) {
        const std::uint32_t node = static_cast<std::uint32_t>(i) % 3;
        allocate({3}, node);
        const pages aligned = allocate({100}, node, {512});
        expect_on(node, aligned, {100});
        EXPECT_EQ(aligned.value % 512, 0U);
    }
}

TEST_F(extent_nodes, WhatIsLongerThanASegmentIsOnSeveral) {
    format(2);
    const pages length{3 * segment_pages.value};
    const pages start = allocate(length, 1);
    must(extents_->free(start));
    EXPECT_EQ(allocate(length, 0), start);
}

TEST_F(extent_nodes, BatchesAreOnOneNode) {
    format(2);
    std::array<pages, 16> some{};
    for (const std::uint32_t node : {1U, 0U, 1U}) {
        const std::size_t got = extents_->allocate_some({100}, some, node);
        ASSERT_GE(got, 1U);
        for (std::size_t i = 0; i < got; ++i) {
            expect_on(node, some.at(i), {100});
        }
    }
}

TEST_F(extent_nodes, CachesKeepWhatIsFreedForItsNode) {
    format(2);
    extent_caches caches(*extents_);
    must(caches.start(4));
    const auto local = caches.take(2, {32});
    ASSERT_TRUE(local);
    EXPECT_EQ(extents_->node_of(local->start), 0U);
    caches.put(3, *local);  // freed by a thread of node 1
    for (int i = 0; i < 8; ++i) {
        const auto other = caches.take(3, {32});
        ASSERT_TRUE(other);
        EXPECT_EQ(extents_->node_of(other->start), 1U);
        caches.put(3, *other);
    }
    EXPECT_EQ(caches.take(2, {32})->start, local->start);
    caches.flush();
    std::array<extent, 1> last{*local};
    extents_->free_some(last);
    caches.stop();
}

TEST_F(extent_nodes, AHeapOpenedWithAnotherNumberOfNodesIsTheSame) {
    format(3);
    std::vector<pages> blocks;
    for (std::uint32_t node = 0; node < 3; ++node) {
        blocks.push_back(allocate({700}, node));
    }
    for (const std::uint32_t nodes : {1U, 2U, 7U}) {
        extents_ = std::make_unique<extent_allocator>(space_->view(), *space_);
        extents_->set_nodes(nodes);
        must(extents_->open(space_->frontier()));
        expect_sound();
        for (const pages block : blocks) {
            EXPECT_EQ(extents_->containing(block)->start, block);
        }
    }
}

TEST_F(extent_nodes, AnyOrderOfCallsKeepsTheIndex) {
    format(3, 64 * mebibyte);
    std::mt19937_64 random(1);
    std::vector<pages> blocks;
    std::uint64_t remote = 0;
    for (int i = 0; i < 20'000; ++i) {
        if (blocks.size() > 40 || (random() % 3 == 0 && !blocks.empty())) {
            const std::size_t which = random() % blocks.size();
            must(extents_->free(blocks[which]));
            blocks[which] = blocks.back();
            blocks.pop_back();
            continue;
        }
        const std::uint32_t node = static_cast<std::uint32_t>(random() % 4);
        const pages length{1 + random() % (random() % 8 == 0 ? 1500 : 100)};
        const pages alignment{std::uint64_t{1} << random() % 6};
        const auto got = extents_->allocate(length, alignment, extent_kind::used, 0, node == 3 ? any_node : node);
        if (got) {
            remote += node != 3 && length <= segment_pages && extents_->node_of(*got) != node ? 1U : 0U;
            blocks.push_back(*got);
        }
        if (i % 1000 == 0) {
            expect_sound();
        }
    }
    EXPECT_LT(remote, 2'000U);
}

}  // namespace
}  // namespace holdfast::extent
