// Bins and the lists of their slabs, and the granules of nodes.
#include "slab/pool/slab_bins.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extent/fake_space.hpp"
#include "slab/calls/gates.hpp"
#include "slab/nodes/node_heap_test_support.hpp"
#include "slab/pool/pool_state.hpp"

namespace holdfast::slab {
namespace {

using base::granule;
using testing::Each;
using testing::ElementsAre;

class slab_lists_test : public testing::Test {
protected:
    slab_lists_test() {
        segment::must(table_.reset(space_.view()));
        for (std::uint64_t i = 1; i <= 3; ++i) {
            lists_.adopt(bin_, {i});
        }
    }
    [[nodiscard]] std::vector<std::uint64_t> slabs(std::uint32_t head) const {
        std::vector<std::uint64_t> found;
        for (std::uint32_t link = head; link != 0; link = table_.descriptor(linked(link)).next) {
            found.push_back(linked(link).value);
        }
        return found;
    }

    extent::fake_space space_;
    slab_table table_;
    slab_lists lists_{table_};
    slab_bin bin_;
};

TEST_F(slab_lists_test, a_slab_leaves_its_list_wherever_it_is_in_it) {
    for (const std::uint64_t leaves : {1U, 2U, 3U}) {
        const base::scoped_lock lock(bin_.mutex);
        for (std::uint64_t i = 1; i <= 3; ++i) {
            lists_.link(bin_, {i}, false);
        }
        ASSERT_THAT(slabs(bin_.head), ElementsAre(3, 2, 1));
        lists_.unlink(bin_, {leaves});
        EXPECT_THAT(slabs(bin_.head), testing::SizeIs(2));
        EXPECT_THAT(slabs(bin_.head), Each(testing::Ne(leaves)));
        EXPECT_FALSE(table_.descriptor({leaves}).listed());
        while (bin_.head != 0) {
            lists_.unlink(bin_, linked(bin_.head));
        }
    }
}

TEST_F(slab_lists_test, the_oldest_empty_slab_and_their_number_are_known) {
    const base::scoped_lock lock(bin_.mutex);
    for (std::uint64_t i = 1; i <= 3; ++i) {
        lists_.link(bin_, {i}, true);
    }
    bin_.idle = 3;
    EXPECT_EQ(linked(bin_.oldest_empty).value, 1U);
    lists_.unlink(bin_, {1});
    EXPECT_EQ(linked(bin_.oldest_empty).value, 2U);
    lists_.unlink(bin_, {3});
    EXPECT_EQ(linked(bin_.oldest_empty).value, 2U);
    EXPECT_EQ(bin_.empties, 1U);
    EXPECT_EQ(bin_.idle, 1U);
}

TEST_F(slab_lists_test, an_empty_slab_comes_after_all_others) {
    const base::scoped_lock lock(bin_.mutex);
    EXPECT_FALSE(slab_lists::has_listed(bin_));
    lists_.link(bin_, {1}, false);
    lists_.link(bin_, {2}, true);
    EXPECT_EQ(slab_lists::first_listed(bin_).value, 1U);
    lists_.unlink(bin_, {1});
    EXPECT_EQ(slab_lists::first_listed(bin_).value, 2U);
}

TEST_F(slab_lists_test, a_sparse_slab_is_not_listed) {
    const base::scoped_lock lock(bin_.mutex);
    lists_.link_sparse(bin_, {2});
    EXPECT_TRUE(table_.descriptor({2}).is_sparse());
    EXPECT_FALSE(slab_lists::has_listed(bin_));
    EXPECT_THAT(slabs(bin_.sparse), ElementsAre(2));
    lists_.unlink_sparse(bin_, {2});
    EXPECT_FALSE(table_.descriptor({2}).is_sparse());
    EXPECT_EQ(bin_.sparse, 0U);
}

TEST(slab_bins_test, a_thread_gets_an_arena_of_its_node) {
    for (const unsigned nodes : {1U, 2U, 3U}) {
        slab_bins bins;
        bins.reset(nodes);
        EXPECT_EQ(bins.arenas() % nodes, 0U);
        for (unsigned node = 0; node < nodes; ++node) {
            for (unsigned turn = 0; turn < 2 * bins.arenas(); ++turn) {
                EXPECT_EQ(bins.arena_of_thread(node, nodes, turn) % nodes, node);
                EXPECT_LT(bins.arena_of_thread(node, nodes, turn), bins.arenas());
            }
        }
    }
}

TEST(slab_bins_test, a_bin_with_a_type_is_made_once) {
    slab_bins bins;
    bins.reset(1);
    EXPECT_EQ(bins.find_typed(3, 7), nullptr);
    typed_bin& made = bins.typed(3, 7);
    EXPECT_EQ(&bins.typed(3, 7), &made);
    EXPECT_EQ(bins.find_typed(3, 7), &made);
    EXPECT_EQ(bins.find_typed(7, 3), nullptr);
    EXPECT_EQ(made.class_index, 3U);
    EXPECT_EQ(made.type, 7U);
    unsigned seen = 0;
    bins.for_each([&](const slab_bin&) { ++seen; });
    EXPECT_EQ(seen, bins.count() + 1);
}

TEST(pool_state_test, each_granule_is_one_of_its_node) {
    for (const unsigned nodes : {1U, 2U, 3U}) {
        node_heap heap(nodes, 16 * base::mebibyte, base::gibibyte);
        while (heap.extents().frontier() < base::pages{5 * 16 * base::mebibyte / base::page_size}) {
            ASSERT_NE(heap.blocks().allocate(base::mebibyte, 1), nullptr);
        }
        cache_group caches;
        commit_gate gate(caches);
        const pool_state state(heap.space().view(), heap.extents(), gate);
        std::vector<unsigned> found(state.end().value);
        for (unsigned node = 0; node < nodes; ++node) {
            for (std::uint64_t i = 0; i < state.granules_of_node(node); ++i) {
                const granule at = state.nth_of_node(node, i);
                EXPECT_EQ(state.node_of(at), node);
                ++found.at(at.value);
            }
        }
        EXPECT_THAT(found, Each(1U));
    }
}

}  // namespace
}  // namespace holdfast::slab
