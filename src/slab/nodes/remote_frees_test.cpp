// Small blocks that are freed on other nodes: every query sees them free at once, and a merge makes them reusable.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/nodes/node_heap_test_support.hpp"

namespace holdfast::slab {
namespace {

using persist::made_up_topology;
using testing::IsEmpty;

std::vector<void*> allocate(node_heap& heap, std::size_t bytes, int count) {
    std::vector<void*> blocks;
    for (int i = 0; i < count; ++i) {
        blocks.push_back(heap.blocks().allocate(bytes, 8));
        EXPECT_NE(blocks.back(), nullptr);
    }
    return blocks;
}

void free_all(node_heap& heap, const std::vector<void*>& blocks) {
    for (void* const block : blocks) {
        EXPECT_TRUE(heap.blocks().try_free(block)) << block_allocator::last_failure().message();
    }
}

TEST(remote_frees, HeapsOfOneNodeHaveNone) {
    node_heap heap(1);
    EXPECT_FALSE(heap.blocks().slabs().remote().active());
    EXPECT_FALSE(heap.blocks().small().follow_this_thread());
    heap.blocks().slabs().write_bitmaps();
    EXPECT_EQ(heap.blocks().slabs().remote().merged().merges, 0U);
}

TEST(remote_frees, WhatAnotherNodeFreedIsHandedOutBeforeANewSlabIsMade) {
    node_heap heap(2);
    on_node(1, [&] {
        const std::vector<void*> blocks = allocate(heap, 512, 1280);  // ten slabs
        const std::uint64_t slabs = heap.blocks().inspect().statistics().slabs;
        on_node(0, [&] { free_all(heap, blocks); });
        EXPECT_EQ(heap.blocks().inspect().statistics().allocated_blocks, 0U);
        EXPECT_EQ(heap.blocks().slabs().remote().merged().merges, 0U);
        const std::vector<void*> again = allocate(heap, 512, 1280);
        EXPECT_EQ(heap.blocks().inspect().statistics().slabs, slabs);
        EXPECT_GT(heap.blocks().slabs().remote().merged().blocks, 1000U);
        EXPECT_EQ(std::set<void*>(again.begin(), again.end()).size(), 1280U);
        for (void* const block : again) {
            EXPECT_EQ(heap.node_of(block), 1U);
        }
        free_all(heap, again);
    });
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_frees, AFreedBlockIsFreeForAllBeforeAndAfterTheMerge) {
    node_heap heap(3);
    std::vector<void*> blocks;
    on_node(0, [&] { blocks = allocate(heap, 100, 50); });
    void* const freed = blocks[20];
    on_node(1, [&] { EXPECT_TRUE(heap.blocks().try_free(freed)); });
    const auto expect_free = [&] {
        for (const unsigned node : {1U, 2U, 0U, 1U}) {
            on_node(node, [&] {
                EXPECT_FALSE(heap.blocks().try_free(freed)) << node;
                EXPECT_EQ(block_allocator::last_failure().code, base::failure_code::bad_address);
                EXPECT_THAT(block_allocator::last_failure().found, testing::HasSubstr("freed already"));
                EXPECT_FALSE(heap.blocks().inspect().usable_size(freed).ok());
                held_block found;
                EXPECT_FALSE(heap.blocks().find_allocated(freed, found));
            });
        }
        EXPECT_EQ(heap.blocks().inspect().statistics().allocated_blocks, 49U);
        std::size_t seen = 0;
        heap.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t, std::uint32_t) {
            ++seen;
            EXPECT_NE(heap.space().view().address(offset), freed);
        });
        EXPECT_EQ(seen, 49U);
    };
    expect_free();
    EXPECT_THAT(heap.problems(), IsEmpty());  // merges
    EXPECT_EQ(heap.blocks().slabs().remote().merged().blocks, 1U);
    expect_free();
    on_node(2, [&] {
        EXPECT_FALSE(heap.blocks().try_free(static_cast<std::byte*>(blocks[21]) + 8));
        EXPECT_FALSE(heap.blocks().fast_path().free(blocks[21]));
        EXPECT_TRUE(heap.blocks().try_free(blocks[21]));
    });
}

TEST(remote_frees, ACommitKnowsThem) {
    node_heap heap(2);
    std::vector<void*> blocks;
    on_node(0, [&] { blocks = allocate(heap, 64, 3000); });
    heap.blocks().slabs().write_bitmaps();  // the slabs are clean from here on
    on_node(1, [&] { free_all(heap, {blocks.begin(), blocks.begin() + 1500}); });
    EXPECT_THAT(heap.problems(), IsEmpty());
    heap.reopen();
    EXPECT_EQ(heap.blocks().inspect().statistics().allocated_blocks, 1500U);
    on_node(1, [&] {  // of slabs that nobody has loaded
        for (int i = 0; i < 1500; ++i) {
            EXPECT_FALSE(heap.blocks().try_free(blocks[static_cast<std::size_t>(i)]));
        }
        free_all(heap, {blocks.begin() + 1500, blocks.end()});
    });
    heap.reopen();
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_frees, BlocksWithATypeAreReusedToo) {
    node_heap heap(2);
    std::vector<void*> blocks;
    const auto fill = [&] {
        blocks.clear();
        for (int i = 0; i < 500; ++i) {
            blocks.push_back(heap.blocks().allocate_typed(256, 8, 7));
            ASSERT_NE(blocks.back(), nullptr);
        }
    };
    on_node(1, fill);
    const std::uint64_t slabs = heap.blocks().inspect().statistics().slabs;
    for (const unsigned node : {0U, 1U}) {
        on_node(node, [&] { free_all(heap, blocks); });
        on_node(1, fill);
        EXPECT_EQ(heap.blocks().inspect().statistics().slabs, slabs);
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_frees, AnEpochIsMergedByTheHomeOrLateByWhoFrees) {
    node_heap heap(2);
    std::vector<void*> blocks;
    const int a_slab = 8;  // of 8 KiB
    const int slabs = static_cast<int>(remote_frees::late_epoch) + 1;
    on_node(0, [&] {
        blocks = allocate(heap, 8192, a_slab * slabs);
        on_node(1, [&] { free_all(heap, {blocks.begin(), blocks.begin() + a_slab * 100}); });
        EXPECT_EQ(heap.blocks().slabs().remote().merged().merges, 0U);
        const std::vector<void*> others = allocate(heap, 48, 16 * 256 * 2);  // refills of another class
        EXPECT_GT(heap.blocks().slabs().remote().merged().blocks, 700U);
        free_all(heap, others);
    });
    const std::uint64_t before = heap.blocks().slabs().remote().merged().merges;
    on_node(1, [&] { free_all(heap, {blocks.begin() + a_slab * 100, blocks.end()}); });
    EXPECT_EQ(heap.blocks().slabs().remote().merged().merges, before);
    on_node(0, [&] { blocks = allocate(heap, 8192, a_slab * slabs); });
    const std::uint64_t merges = heap.blocks().slabs().remote().merged().merges;
    on_node(1, [&] { free_all(heap, blocks); });
    EXPECT_GT(heap.blocks().slabs().remote().merged().merges, merges);
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_frees, WhenSpaceRunsOutTheyAreTakenOnAnyNode) {
    node_heap heap(2, 4 * base::mebibyte, 16 * base::mebibyte);
    std::vector<void*> blocks;
    on_node(1, [&] {
        while (void* const block = heap.blocks().allocate(1024, 8)) {
            blocks.push_back(block);
        }
    });
    on_node(0, [&] {
        EXPECT_EQ(heap.blocks().allocate(1024, 8), nullptr);
        free_all(heap, blocks);
        const std::size_t before = blocks.size();
        for (void*& block : blocks) {
            block = heap.blocks().allocate(64, 8);
            ASSERT_NE(block, nullptr) << before;
        }
        free_all(heap, blocks);
    });
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_frees, ABlockThatIsWithdrawnStaysHeld) {
    node_heap heap(2);
    std::vector<void*> blocks;
    on_node(0, [&] { blocks = allocate(heap, 200, 4); });
    for (const unsigned node : {0U, 1U}) {
        on_node(node, [&] {
            held_block found;
            ASSERT_TRUE(heap.blocks().find_allocated(blocks[node], found));
            ASSERT_TRUE(found.is_by_node());
            ASSERT_TRUE(heap.blocks().nodes().claim(found));
            EXPECT_FALSE(heap.blocks().nodes().claim(found));
            EXPECT_TRUE(heap.blocks().inspect().usable_size(blocks[node]).ok());
            heap.blocks().nodes().clear(found);
            EXPECT_FALSE(heap.blocks().inspect().usable_size(blocks[node]).ok());
            heap.blocks().nodes().hold(found);
            EXPECT_FALSE(heap.blocks().try_free(blocks[node]));
            std::vector<std::string> problems;
            heap.blocks().inspect().check(problems, std::vector<std::uint64_t>{found.offset});
            EXPECT_THAT(problems, IsEmpty());
            heap.blocks().release(heap.blocks().this_cache(), found);
        });
    }
    EXPECT_EQ(heap.blocks().inspect().statistics().allocated_blocks, 2U);
    EXPECT_THAT(heap.problems(), IsEmpty());
}

/// Thread i is on node i mod nodes.
template <class Function>
void run_threads(const node_heap& heap, unsigned threads, Function f) {
    std::barrier start(static_cast<std::ptrdiff_t>(threads));
    std::vector<std::thread> running;
    for (unsigned i = 0; i < threads; ++i) {
        running.emplace_back([&, i] {
            made_up_topology::move_this_thread_to(i % heap.nodes());
            start.arrive_and_wait();
            f(i);
        });
    }
    for (std::thread& one : running) {
        one.join();
    }
}

TEST(remote_frees_threads, OfAllWhoClaimABlockAtOnceOneGetsIt) {
    constexpr int rounds = 30;
    constexpr int count = 500;
    node_heap heap(4);
    for (int round = 0; round < rounds; ++round) {
        std::vector<void*> blocks;
        on_node(0, [&] { blocks = allocate(heap, 64, count); });
        std::atomic<int> got{0};
        run_threads(heap, 8, [&](unsigned /*thread*/) {  // of the home, too
            block_allocator& on = heap.blocks();
            for (void* const block : blocks) {
                held_block found;
                if (on.find_allocated(block, found) && on.nodes().claim(found)) {
                    on.nodes().clear(found);
                    got.fetch_add(1);
                    on.release(on.this_cache(), found);
                }
            }
        });
        ASSERT_EQ(got.load(), count);
        ASSERT_TRUE(heap.blocks().inspect().all_free());
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_frees_threads, OfOtherNodesOneGetsItWithoutSteps) {
    node_heap heap(4);
    for (int round = 0; round < 30; ++round) {
        std::vector<void*> blocks;
        on_node(3, [&] { blocks = allocate(heap, 24, 500); });
        std::atomic<int> got{0};
        run_threads(heap, 7, [&](unsigned thread) {
            if (thread % 4 != 3) {
                for (void* const block : blocks) {
                    got.fetch_add(heap.blocks().try_free(block) ? 1 : 0);
                }
            }
        });
        ASSERT_EQ(got.load(), 500);
        ASSERT_TRUE(heap.blocks().inspect().all_free());
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

class exchange {
public:
    void put(void* block) {
        const std::scoped_lock lock(mutex_);
        blocks_.push_back(block);
    }
    void* take(std::uint64_t random) {
        const std::scoped_lock lock(mutex_);
        if (blocks_.empty()) {
            return nullptr;
        }
        std::swap(blocks_[random % blocks_.size()], blocks_.back());
        void* const taken = blocks_.back();
        blocks_.pop_back();
        return taken;
    }

private:
    std::mutex mutex_;
    std::vector<void*> blocks_;
};

struct stamped {
    std::uint64_t number;
};

class remote_frees_model : public testing::TestWithParam<unsigned> {};

TEST_P(remote_frees_model, EveryBlockIsFreedOnceByWhoeverHasIt) {
    constexpr unsigned threads = 8;
    constexpr std::uint64_t steps = 12'000;
    node_heap heap(GetParam());
    exchange passed;
    std::vector<std::atomic<std::uint8_t>> out(threads * steps);
    std::atomic<std::uint64_t> live{0};
    for (int round = 0; round < 3; ++round) {
        run_threads(heap, threads, [&](unsigned thread) {
            std::mt19937_64 random(thread + 100 * static_cast<unsigned>(round));
            for (std::uint64_t step = 0; step < steps; ++step) {
                if (random() % 100 < 52) {
                    const std::size_t bytes = 8 + random() % (random() % 8 == 0 ? 8000 : 200);
                    auto* const made = static_cast<stamped*>(heap.blocks().allocate(bytes, 8));
                    ASSERT_NE(made, nullptr);
                    made->number = thread * steps + step;
                    ASSERT_EQ(out[made->number].exchange(1), 0);
                    live.fetch_add(1);
                    passed.put(made);
                } else if (auto* const taken = static_cast<stamped*>(passed.take(random()))) {
                    ASSERT_EQ(out[taken->number].exchange(0), 1);  // its memory was not given out twice
                    live.fetch_sub(1);
                    ASSERT_TRUE(heap.blocks().try_free(taken)) << block_allocator::last_failure().message();
                }
                if (step % 3000 == 2999) {
                    heap.blocks().flush_extents();  // merges
                }
            }
        });
        ASSERT_EQ(heap.blocks().inspect().statistics().allocated_blocks, live.load());
        ASSERT_THAT(heap.problems(), IsEmpty());
        on_node(1, [&] {
            for (int i = 0; i < 200; ++i) {
                void* const taken = passed.take(0);
                ASSERT_TRUE(taken == nullptr || heap.blocks().try_free(taken));
                ASSERT_FALSE(taken != nullptr && heap.blocks().try_free(taken));
            }
        });
        for (auto& one : out) {
            one.store(0);
        }
        while (auto* const taken = static_cast<stamped*>(passed.take(0))) {
            ASSERT_TRUE(heap.blocks().try_free(taken));
        }
        live.store(0);
        ASSERT_TRUE(heap.blocks().inspect().all_free());
        if (round == 1) {
            heap.reopen();
        }
    }
    EXPECT_GT(heap.blocks().slabs().remote().merged().blocks, 0U);
}

INSTANTIATE_TEST_SUITE_P(nodes, remote_frees_model, testing::Values(2U, 3U, 4U));

TEST(remote_frees_threads, AThreadThatMigratedAllocatesFromItsNewNode) {
    node_heap heap(2);
    on_node(0, [&] {
        const void* const first = heap.blocks().allocate(64, 8);
        EXPECT_EQ(heap.node_of(first), 0U);
        made_up_topology::move_this_thread_to(1);
        EXPECT_EQ(heap.node_of(heap.blocks().allocate(64, 8)), 0U);  // it has not looked yet
        EXPECT_TRUE(heap.blocks().small().follow_this_thread());
        EXPECT_FALSE(heap.blocks().small().follow_this_thread());
        EXPECT_EQ(heap.node_of(heap.blocks().allocate(64, 8)), 1U);
        made_up_topology::move_this_thread_to(0);
        int until = 0;  // the thread moves by itself after some refills
        while (heap.node_of(heap.blocks().allocate(1024, 8)) == 1U) {
            ++until;
        }
        EXPECT_LE(until, 64 * 64);
        EXPECT_EQ(heap.node_of(heap.blocks().allocate(64, 8)), 0U);
    });
    EXPECT_THAT(heap.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
