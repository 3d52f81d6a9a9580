// The four benchmarks of PMAlloc by threads of several nodes: while the node has space, no allocation and no free
// writes to memory of another node, except in a merge.
#include <cstdio>
#include <memory>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/nodes/node_heap_test_support.hpp"
#include "slab/nodes/remote_touches_test_support.hpp"

namespace holdfast::slab {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Key;

class remote_touches_test : public testing::TestWithParam<unsigned> {
protected:
    static constexpr unsigned threads = 8;

    remote_touches_test()
        : heap_(GetParam(), touches_segment), touches_(heap_.blocks(), heap_.space().view(), GetParam()) {
        for (unsigned i = 0; i < threads; ++i) {
            threads_.push_back(std::make_unique<node_thread>(node_of(i)));
        }
        // A free extent across a border has its page entry on one node, so the test keeps the border in use.
        for (unsigned i = 0; i < GetParam(); ++i) {
            turn(i, [&] { at_borders_.push_back(allocate(64)); });
        }
        for (const auto& [kind, count] : touches_.touched(touch_cause::allocation)) {
            EXPECT_EQ(kind, "page entries");
            EXPECT_LT(count, 2 * GetParam());
        }
        touches_.forget();
    }
    void TearDown() override {
        const remote_frees::counters merged = heap_.blocks().slabs().remote().merged();
        std::printf("%u nodes: %lu merges of %lu slabs, %lu blocks; pages of other nodes:", GetParam(), merged.merges,
                    merged.slabs, merged.blocks);
        for (const auto& [kind, count] : touches_.touched(touch_cause::merge)) {
            std::printf(" %s %lu", kind.c_str(), count);
        }
        std::printf("\n");
        for (const auto cause : {touch_cause::allocation, touch_cause::free, touch_cause::other}) {
            EXPECT_THAT(touches_.touched(cause), IsEmpty()) << static_cast<unsigned>(cause);
        }
        threads_.clear();
        for (void* const block : at_borders_) {
            EXPECT_TRUE(heap_.blocks().try_free(block));
        }
        EXPECT_THAT(heap_.problems(), IsEmpty());
        EXPECT_TRUE(heap_.blocks().inspect().all_free());
    }

    [[nodiscard]] static unsigned node_of(unsigned thread) { return thread % GetParam(); }
    void turn(unsigned thread, const std::function<void()>& f) {
        touches_.turn(
            node_of(thread), [&](const auto& task) { threads_[thread]->run(task); }, f);
    }
    void* allocate(std::size_t bytes) {
        remote_touches::because(touch_cause::allocation);
        void* const made = heap_.blocks().allocate(bytes, 8);
        remote_touches::because(touch_cause::other);
        EXPECT_NE(made, nullptr);
        *static_cast<std::uint64_t*>(made) = bytes;  // the program's own touch is not remote either
        return made;
    }
    void free(void* block) {
        remote_touches::because(touch_cause::free);
        EXPECT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message();
        remote_touches::because(touch_cause::other);
    }
    [[nodiscard]] std::uint64_t slabs() { return heap_.blocks().inspect().statistics().slabs; }

    node_heap heap_;
    remote_touches touches_;
    std::vector<std::unique_ptr<node_thread>> threads_;
    std::vector<void*> at_borders_;
};

TEST_P(remote_touches_test, Threadtest) {
    for (int round = 0; round < 4; ++round) {
        for (unsigned thread = 0; thread < threads; ++thread) {
            turn(thread, [&] {
                std::vector<void*> blocks(3000);
                for (void*& block : blocks) {
                    block = allocate(64);
                }
                for (void* const block : blocks) {
                    free(block);
                }
            });
        }
    }
    EXPECT_EQ(heap_.blocks().slabs().remote().merged().blocks, 0U);
}

/// Each thread allocates what the next one, on another node, frees.
TEST_P(remote_touches_test, ProdCon) {
    std::vector<std::vector<void*>> passed(threads);
    std::uint64_t slabs_before = 0;
    for (int round = 0; round < 12; ++round) {
        for (unsigned thread = 0; thread < threads; ++thread) {
            turn(thread, [&] {
                for (void* const block : passed[(thread + threads - 1) % threads]) {
                    free(block);
                }
                passed[(thread + threads - 1) % threads].clear();
                for (int i = 0; i < 3000; ++i) {
                    passed[thread].push_back(allocate(64));
                }
            });
        }
        if (round == 3) {
            slabs_before = slabs();
        }
    }
    EXPECT_LE(slabs(), slabs_before + threads);  // what was freed is allocated again
    EXPECT_GT(heap_.blocks().slabs().remote().merged().blocks, 20'000U);
    EXPECT_THAT(touches_.touched(touch_cause::merge), Contains(Key("shadows")));
    for (unsigned thread = 0; thread < threads; ++thread) {
        turn((thread + 1) % threads, [&] {
            for (void* const block : passed[thread]) {
                free(block);
            }
        });
    }
}

/// Sizes from 64 to 1000 bytes, small ones more often and sooner freed.
TEST_P(remote_touches_test, Shbench) {
    for (unsigned thread = 0; thread < threads; ++thread) {
        turn(thread, [&] {
            std::mt19937_64 random(thread);
            std::vector<void*> blocks(600, nullptr);
            for (int step = 0; step < 12'000; ++step) {
                void*& place = blocks[random() % blocks.size()];
                if (place != nullptr) {
                    free(place);
                }
                const std::uint64_t range = random() % 4 == 0 ? 936 : 200;
                place = allocate(64 + random() % range);
            }
            for (void* const block : blocks) {
                if (block != nullptr) {
                    free(block);
                }
            }
        });
    }
}

/// Blocks of an array are replaced; then a thread on another node goes on with the array.
TEST_P(remote_touches_test, Larson) {
    std::vector<std::vector<void*>> arrays(threads, std::vector<void*>(1000, nullptr));
    std::mt19937_64 random(7);
    for (unsigned round = 0; round < 10; ++round) {
        for (unsigned thread = 0; thread < threads; ++thread) {
            std::vector<void*>& array = arrays[(thread + round) % threads];
            turn(thread, [&] {
                for (int step = 0; step < 3000; ++step) {
                    void*& place = array[random() % array.size()];
                    if (place != nullptr) {
                        free(place);
                    }
                    place = allocate(64 + random() % 193);
                }
            });
        }
    }
    EXPECT_GT(heap_.blocks().slabs().remote().merged().blocks, 1000U);
    for (unsigned thread = 0; thread < threads; ++thread) {
        turn((thread + 5) % threads, [&] {
            for (void* const block : arrays[thread]) {
                if (block != nullptr) {
                    free(block);
                }
            }
        });
    }
}

INSTANTIATE_TEST_SUITE_P(nodes, remote_touches_test, testing::Values(2U, 4U));

/// Page entries of blocks of whole pages are left to a merge, which the home's next allocation makes.
class remote_touches_of_big_blocks : public testing::TestWithParam<std::size_t> {
protected:
    [[nodiscard]] static std::size_t bytes() { return GetParam() << 10U; }
};

TEST_P(remote_touches_of_big_blocks, are_of_merges_alone) {
    constexpr std::size_t count = 100;
    node_heap heap(2, touches_segment);
    std::vector<void*> blocks(bytes() > base::mebibyte ? 3 : count);
    on_node(0, [&] { EXPECT_TRUE(heap.blocks().try_free(heap.blocks().allocate(64, 8))); });
    node_thread at_home(1);
    at_home.run([&] {
        for (void*& block : blocks) {
            block = heap.blocks().allocate(bytes(), 8);
        }
    });
    ASSERT_EQ(heap.node_of(blocks.back()), 1U);
    remote_touches touches(heap.blocks(), heap.space().view(), 2);
    touches.turn(
        0, [](const auto& task) { on_node(0, task); },
        [&] {
            remote_touches::because(touch_cause::free);
            for (void* const block : blocks) {
                EXPECT_TRUE(heap.blocks().try_free(block));
                EXPECT_FALSE(heap.blocks().try_free(block));
                EXPECT_FALSE(heap.blocks().inspect().usable_size(block).ok());
            }
        });
    EXPECT_THAT(touches.touched(touch_cause::free), IsEmpty());
    EXPECT_THAT(touches.touched(touch_cause::merge), IsEmpty());
    EXPECT_EQ(heap.blocks().inspect().statistics().big_blocks, 0U);
    EXPECT_THAT(heap.problems(), IsEmpty());
    EXPECT_EQ(remote_of(heap.extents()).merged(), 0U);
    void* again = nullptr;
    touches.turn(
        1, [&](const auto& task) { at_home.run(task); },
        [&] {
            remote_touches::because(touch_cause::allocation);
            again = heap.blocks().allocate(bytes(), 8);
        });
    EXPECT_THAT(touches.touched(touch_cause::allocation), IsEmpty());
    EXPECT_EQ(remote_of(heap.extents()).merged(), blocks.size());
    EXPECT_THAT(blocks, Contains(again));  // it serves again
    std::printf("%zu blocks of %zu KiB, freed on another node: 0 pages there; the merge wrote", blocks.size(),
                GetParam());
    for (const auto& [kind, written] : touches.touched(touch_cause::merge)) {
        std::printf(" %s %lu", kind.c_str(), written);
    }
    std::printf("\n");
    EXPECT_TRUE(heap.blocks().try_free(again));
    EXPECT_THAT(heap.problems(), IsEmpty());
    heap.blocks().flush_extents();
    EXPECT_TRUE(heap.blocks().inspect().all_free());
}

INSTANTIATE_TEST_SUITE_P(kibibytes, remote_touches_of_big_blocks, testing::Values(20U, 64U, 256U, 1024U, 20U * 1024U));

/// Where no thread at home allocates, what waits is bounded, and a period of the caches ends it.
TEST(remote_frees_of_big_blocks, are_merged_where_the_home_has_no_thread) {
    node_heap heap(2, touches_segment);
    constexpr std::size_t bytes = base::mebibyte;
    std::vector<void*> blocks(400);
    on_node(1, [&] {
        for (void*& block : blocks) {
            block = heap.blocks().allocate(bytes, 8);
        }
    });
    base::pages most{};
    on_node(0, [&] {
        for (void* const block : blocks) {
            EXPECT_TRUE(heap.blocks().try_free(block));
            most = std::max(most, remote_of(heap.extents()).waiting());
        }
    });
    EXPECT_LT(most, base::pages{extent::remote_extents::late_pages});
    EXPECT_GE(remote_of(heap.extents()).merged() * bytes, base::to_bytes({extent::remote_extents::late_pages}));
    EXPECT_EQ(heap.blocks().inspect().statistics().big_blocks, 0U);
    heap.blocks().flush_extents();
    EXPECT_EQ(remote_of(heap.extents()).waiting().value, 0U);
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_frees_of_big_blocks, of_threads_that_free_one_at_once_one_succeeds) {
    node_heap heap(3, 16 * base::mebibyte);
    std::vector<void*> blocks(200);
    on_node(1, [&] {
        for (void*& block : blocks) {
            block = heap.blocks().allocate(20'000, 8);
        }
    });
    const std::vector<unsigned> nodes{0, 1, 1, 2};
    EXPECT_EQ(free_at_once(blocks, nodes, [&](void* block) { return heap.blocks().try_free(block); }), blocks.size());
    EXPECT_THAT(heap.problems(), IsEmpty());
    heap.blocks().flush_extents();
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(remote_touches_instrument, SeesWhatIsWrittenElsewhere) {
    node_heap heap(2, touches_segment);
    void* block = nullptr;
    on_node(1, [&] { block = heap.blocks().allocate(64, 8); });
    heap.reopen();
    remote_touches touches(heap.blocks(), heap.space().view(), 2);
    node_thread elsewhere(0);
    touches.turn(
        0, [&](const auto& task) { elsewhere.run(task); },
        [&] {
            remote_touches::because(touch_cause::other);
            *static_cast<int*>(block) = 1;
            remote_touches::because(touch_cause::free);  // the slab is not loaded yet: its block states are made
            EXPECT_TRUE(heap.blocks().try_free(block));
        });
    EXPECT_THAT(touches.touched(touch_cause::other), Contains(Key("blocks")));
    EXPECT_THAT(touches.touched(touch_cause::free), Contains(Key("block states")));
    EXPECT_THAT(touches.touched(touch_cause::free), Contains(Key("states")));
    EXPECT_THAT(touches.touched(touch_cause::free), testing::Not(Contains(Key("shadows"))));
    heap.blocks().flush_extents();
    EXPECT_TRUE(heap.blocks().inspect().all_free());
}

}  // namespace
}  // namespace holdfast::slab
