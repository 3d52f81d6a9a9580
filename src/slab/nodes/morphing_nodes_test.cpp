// Morphed slabs in heaps with several nodes: blocks of both classes are freed on any node.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/nodes/node_heap_test_support.hpp"
#include "slab/pool/slab_check.hpp"

namespace holdfast::slab {
namespace {

using persist::made_up_topology;
using testing::IsEmpty;

class morphing_nodes_test : public testing::Test {
protected:
    [[nodiscard]] std::byte* allocate(std::size_t bytes) {
        auto* const block = static_cast<std::byte*>(heap_.blocks().allocate(bytes, 1));
        EXPECT_NE(block, nullptr) << block_allocator::last_failure().message();
        return block;
    }
    void free(void* block) { ASSERT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message(); }
    void expect_not_live(void* block) {
        EXPECT_FALSE(heap_.blocks().try_free(block));
        EXPECT_FALSE(heap_.blocks().inspect().usable_size(block).ok());
    }
    [[nodiscard]] base::granule granule_of(const void* block) const {
        return base::granule_of(heap_.space().view().offset(block));
    }
    /// The slab is of node 1; node 0 has freed all but the 3 blocks that are returned.
    [[nodiscard]] std::vector<std::byte*> sparse_slab() {
        std::vector<std::byte*> blocks(base::granule_size / 112);
        std::vector<std::byte*> kept;
        on_node(1, [&] {
            std::ranges::generate(blocks, [&] { return allocate(112); });
            std::ranges::sort(blocks);
            on_node(0, [&] {
                for (std::size_t i = 0; i < blocks.size(); ++i) {
                    if (i == 0 || i == 101 || i == 584) {
                        kept.push_back(blocks[i]);
                    } else {
                        free(blocks[i]);
                    }
                }
            });
        });
        EXPECT_EQ(granule_of(kept.front()), granule_of(kept.back()));
        return kept;
    }
    [[nodiscard]] bool morph(base::granule slab, std::size_t bytes) {
        return heap_.blocks().morph(slab, class_for(bytes, 1), 100);
    }
    [[nodiscard]] std::uint64_t morphed_slabs() {
        std::uint64_t found = 0;
        heap_.extents().for_each([&](const extent::extent& each) {
            found += each.kind == segment::extent_kind::slab &&
                             is_morphed(heap_.space().view().slab_header(base::granule_of(each.start)))
                         ? 1U
                         : 0U;
        });
        return found;
    }

    mutable node_heap heap_{2};
};

TEST_F(morphing_nodes_test, blocks_of_both_classes_are_freed_on_both_nodes) {
    const std::vector<std::byte*> old = sparse_slab();
    const base::granule slab = granule_of(old[0]);
    on_node(0, [&] { EXPECT_FALSE(morph(slab, 160)) << "for another node"; });
    EXPECT_THAT(heap_.problems(), IsEmpty());  // merges
    std::vector<std::byte*> fresh;
    on_node(1, [&] {
        ASSERT_TRUE(morph(slab, 160));
        std::byte* block = allocate(160);
        for (; granule_of(block) == slab; block = allocate(160)) {
            std::memset(block, 0x11, 160);
            fresh.push_back(block);
        }
        free(block);
    });
    EXPECT_EQ(fresh.size(), 409U - 1 - 2 - 1);  // as in morphing_test
    EXPECT_THAT(heap_.problems(), IsEmpty());

    const auto free_on = [&](unsigned node, std::byte* block) {
        on_node(node, [&] {
            free(block);
            expect_not_live(block);
        });
        on_node(1 - node, [&] { expect_not_live(block); });
    };
    free_on(0, old[1]);
    free_on(0, fresh[7]);
    free_on(1, fresh[8]);
    EXPECT_EQ(heap_.blocks().inspect().statistics().small_blocks, 2 + fresh.size() - 2);
    heap_.reopen();  // the bitmap knows shadows of both
    EXPECT_EQ(heap_.blocks().inspect().statistics().small_blocks, 2 + fresh.size() - 2);
    free_on(0, old[0]);
    free_on(1, old[2]);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
        if (i != 7 && i != 8) {
            on_node(static_cast<unsigned>(i % 2), [&] { free(fresh[i]); });
        }
    }
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(morphing_nodes_test, what_was_behind_a_block_that_another_node_freed_is_free_after_the_merge) {
    const std::vector<std::byte*> old = sparse_slab();
    const base::granule slab = granule_of(old[0]);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    on_node(1, [&] {
        ASSERT_TRUE(morph(slab, 160));
        std::size_t before = 0;
        for (; granule_of(allocate(160)) == slab; ++before) {
        }
        on_node(0, [&] { std::ranges::for_each(old, [&](std::byte* block) { free(block); }); });
        std::size_t again = 0;
        for (int i = 0; i < 1000; ++i) {
            if (i % 200 == 0) {
                heap_.blocks().small().release_unused();  // merges, and lists slabs with however few free blocks
            }
            again += granule_of(allocate(160)) == slab ? 1U : 0U;
        }
        EXPECT_EQ(before + again, 409U);
    });
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(morphing_nodes_test, while_threads_of_both_nodes_free_what_lives) {
    constexpr std::size_t places = 4096;
    std::vector<std::atomic<std::byte*>> live(places);
    const auto put = [&](std::size_t place, std::byte* block, std::size_t bytes) {
        if (block != nullptr) {
            block[0] = block[bytes - 1] = static_cast<std::byte>(bytes);
        }
        std::byte* const out = live[place].exchange(block);
        if (out != nullptr) {
            const std::size_t out_bytes = static_cast<std::size_t>(out[0]);
            ASSERT_EQ(out[out_bytes - 1], out[0]);
            free(out);
        }
    };
    std::uint64_t morphed = 0;
    for (const std::size_t bytes :
         {std::size_t{112}, std::size_t{160}, std::size_t{240}, std::size_t{96}, std::size_t{192}, std::size_t{128}}) {
        std::vector<std::thread> threads;
        for (unsigned thread = 0; thread < 4; ++thread) {
            threads.emplace_back([&, thread] {
                made_up_topology::move_this_thread_to(thread % 2);
                std::uint64_t random = thread + bytes;
                const auto next = [&] {
                    random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
                    return static_cast<std::size_t>(random >> 40U);
                };
                for (int step = 0; step < 8000; ++step) {
                    put(next() % places, allocate(bytes), bytes);
                }
                for (int step = 0; step < 4000; ++step) {  // nine of ten go
                    const std::size_t place = next() % places;
                    if (place % 10 != 0) {
                        put(place, nullptr, 0);
                    }
                }
            });
        }
        for (std::thread& one : threads) {
            one.join();
        }
        morphed = std::max(morphed, morphed_slabs());
        EXPECT_THAT(heap_.problems(), IsEmpty()) << bytes;
    }
    EXPECT_GT(morphed, 0U);
    std::uint64_t left = 0;
    for (const auto& place : live) {
        left += place.load() != nullptr ? 1U : 0U;
    }
    EXPECT_EQ(heap_.blocks().inspect().statistics().allocated_blocks, left);
    heap_.reopen();
    EXPECT_EQ(heap_.blocks().inspect().statistics().allocated_blocks, left);
    for (std::size_t place = 0; place < places; ++place) {
        on_node(static_cast<unsigned>(place % 2), [&] { put(place, nullptr, 0); });
    }
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
