// Blocks freed on another node than their own: what a crash leaves, and which memory is written.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"
#include "slab/nodes/node_heap_test_support.hpp"
#include "slab/nodes/remote_touches_test_support.hpp"
#include "slab/pool/slab_check.hpp"

namespace holdfast::heap {
namespace {

namespace fs = std::filesystem;
using persist::access_mode;
using persist::made_up_topology;
using segment::must;
using slab::on_node;
using slab::touch_cause;
using testing::IsEmpty;

struct remote_way {
    durability_kind durability;
    bool emulated;  ///< media that need flushes
};

class heap_remote_frees : public testing::TestWithParam<remote_way> {
protected:
    engine_options options(std::uint64_t segment_size) {
        engine_options wanted;
        wanted.durability = GetParam().durability;
        wanted.accept_process_crash_only = true;
        if (GetParam().emulated) {
            wanted.domain = persist::domain_kind::emulated;
        }
        // Neither a checkpoint nor a step ahead of one comes by itself, nor by what the clock gives back.
        wanted.lane_slots = lane::maximum_slots;
        wanted.decay_ns = extent::decay_curve::never;
        wanted.files.segment_size = segment_size;
        wanted.files.mapping.topology = &machine_;
        for (const char* const place : {"place0", "place1"}) {
            wanted.files.node_places.push_back(directory_.path(place));
            fs::create_directories(wanted.files.node_places.back());
        }
        return wanted;
    }
    [[nodiscard]] static bool is_atomic() { return GetParam().durability == durability_kind::atomic; }
    [[nodiscard]] std::string path() const { return directory_.path("heap"); }
    static void expect_sound(engine& heap) {
        EXPECT_THAT(heap.check(GetParam().durability == durability_kind::commit), IsEmpty());
    }

    made_up_topology machine_{2, 2};
    segment::test_directory directory_;
};

TEST_P(heap_remote_frees, WhatWasFreedElsewhereIsFreeAfterACloseAndACrash) {
    const engine_options wanted = options(segment::minimum_segment_size * 8);
    std::vector<std::uint64_t> offsets;
    constexpr std::size_t count = 2000;
    {
        const auto heap = must(engine::create(path(), wanted));
        on_node(1, [&] {
            for (std::size_t i = 0; i < count; ++i) {
                void* const block = heap->allocate(100, 8);
                ASSERT_NE(block, nullptr);
                offsets.push_back(heap->files().view().offset(block).value);
            }
        });
        must(heap->close(true));
    }
    const auto address = [&](engine& heap, std::size_t i) { return heap.files().view().address({offsets[i]}); };
    const auto expect_free = [&](engine& heap, std::size_t freed) {
        EXPECT_EQ(must(heap.statistics()).allocated_blocks, count - freed);
        for (std::size_t i = 0; i < count; i += 50) {
            EXPECT_EQ(heap.blocks().inspect().usable_size(address(heap, i)).ok(), i >= freed) << i;
        }
        expect_sound(heap);
    };
    const auto free_on_0 = [&](engine& heap, std::size_t from, std::size_t to) {
        on_node(0, [&] {
            for (std::size_t i = from; i < to; ++i) {
                ASSERT_TRUE(heap.try_deallocate(address(heap, i)));
                ASSERT_FALSE(heap.try_deallocate(address(heap, i)));
            }
        });
        on_node(1, [&] { EXPECT_FALSE(heap.try_deallocate(address(heap, from))); });
    };
    {
        const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
        EXPECT_EQ(heap->blocks().slabs().remote().merged().blocks, 0U);
        free_on_0(*heap, 0, 500);
        must(heap->commit());
        // A remote free stays in the freeing node's shadow bitmap until it is merged.
        EXPECT_GT(heap->blocks().slabs().remote().merged().blocks, 0U);
        free_on_0(*heap, 500, 800);
        if (heap->atomic() != nullptr) {
            heap->atomic()->checkpoint();  // takes shadows into account
        }
        free_on_0(*heap, 800, 900);
        expect_free(*heap, 900);
        must(heap->close(true));
    }
    {
        const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
        expect_free(*heap, 900);
        free_on_0(*heap, 900, 1200);
        must(heap->commit());
        free_on_0(*heap, 1200, 1500);
        if (heap->atomic() != nullptr) {
            heap->atomic()->checkpoint();
            free_on_0(*heap, 1500, 1700);
        }
    }                                                         // without close()
    if (GetParam().durability != durability_kind::collect) {  // in `collect` no block was reachable
        const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
        expect_free(*heap, is_atomic() ? 1700 : 1200);
        must(heap->close(true));
    }
}

/// What a crash leaves of frees of blocks of whole pages that no merge has seen, and of some that one has.
TEST_P(heap_remote_frees, WhatWasFreedElsewhereOfWholePagesIsFreeAfterACloseAndACrash) {
    const engine_options wanted = options(segment::minimum_segment_size * 8);
    constexpr std::size_t count = 60;
    std::vector<std::uint64_t> offsets;
    const auto address = [&](engine& heap, std::size_t i) { return heap.files().view().address({offsets[i]}); };
    const auto expect_free = [&](engine& heap, std::size_t freed) {
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(heap.blocks().inspect().usable_size(address(heap, i)).ok(), i >= freed) << i;
        }
        EXPECT_EQ(must(heap.statistics()).allocated_blocks, count - freed);
        expect_sound(heap);
    };
    const auto free_on_0 = [&](engine& heap, std::size_t from, std::size_t to) {
        on_node(0, [&] {
            for (std::size_t i = from; i < to; ++i) {
                ASSERT_TRUE(heap.try_deallocate(address(heap, i)));
                ASSERT_FALSE(heap.try_deallocate(address(heap, i)));
            }
        });
        on_node(1, [&] { EXPECT_FALSE(heap.try_deallocate(address(heap, from))); });
    };
    const auto checkpoint = [](engine& heap) {
        if (heap.atomic() != nullptr) {
            heap.atomic()->checkpoint();
        }
    };
    {
        const auto heap = must(engine::create(path(), wanted));
        on_node(1, [&] {
            for (std::size_t i = 0; i < count; ++i) {
                void* const block = heap->allocate(i % 3 == 0 ? 20'000 : i % 3 == 1 ? 70'000 : 2'000'000, 8);
                ASSERT_NE(block, nullptr);
                offsets.push_back(heap->files().view().offset(block).value);
            }
        });
        free_on_0(*heap, 0, 5);
        must(heap->close(true));
    }
    {
        const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
        expect_free(*heap, 5);
        free_on_0(*heap, 5, 10);
        must(heap->commit());
        free_on_0(*heap, 10, 15);
        checkpoint(*heap);  // withdraws the entries that wait for a merge
        free_on_0(*heap, 15, 20);
        expect_free(*heap, 20);
        free_on_0(*heap, 20, 25);
        must(heap->commit());
        free_on_0(*heap, 25, 30);
        if (is_atomic()) {
            checkpoint(*heap);
            free_on_0(*heap, 30, 35);
            // Merged, and a part of it used anew, so that records of both are replayed.
            on_node(1, [&] {
                void* const anew = heap->allocate(20'000, 8);
                EXPECT_TRUE(heap->try_deallocate(anew));
            });
        }
    }                                                         // without close()
    if (GetParam().durability != durability_kind::collect) {  // in `collect` no block was reachable
        const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
        expect_free(*heap, is_atomic() ? 35 : 25);
        must(heap->close(true));
    }
}

/// Each block is handed to a thread of the other node, and freed there: any mix of sizes, both ways at once.
TEST_P(heap_remote_frees, ManyThreadsOfTwoNodesAndWholePages) {
    const auto heap = must(engine::create(path(), options(segment::minimum_segment_size * 8)));
    constexpr unsigned threads = 4;
    constexpr std::size_t places = 64;
    std::vector<std::atomic<void*>> passed(places);
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; ++thread) {
        running.emplace_back([&, thread] {
            made_up_topology::move_this_thread_to(thread % 2);
            std::uint64_t random = thread + 1;
            for (int step = 0; step < 1500; ++step) {
                random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
                void* const made = heap->allocate(12'000 + (random >> 33U) % 300'000, 8);
                ASSERT_NE(made, nullptr);
                if (void* const old = passed[(random >> 20U) % places].exchange(made)) {
                    ASSERT_TRUE(heap->try_deallocate(old));
                }
            }
        });
    }
    for (std::thread& one : running) {
        one.join();
    }
    expect_sound(*heap);
    for (auto& place : passed) {
        EXPECT_TRUE(place.load() == nullptr || heap->try_deallocate(place.load()));
    }
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    if (!is_atomic() || GetParam().emulated) {
        EXPECT_GT(extent::remote_of(heap->extents()).merged(), 0U);
    }
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_remote_frees, OfSeveralNodesThatFreeWholePagesAtOnceOneSucceeds) {
    const auto heap = must(engine::create(path(), options(segment::minimum_segment_size * 8)));
    std::vector<void*> blocks(300);
    on_node(1, [&] { std::ranges::generate(blocks, [&] { return heap->allocate(20'000, 8); }); });
    const std::vector<unsigned> nodes{0, 1, 1};
    EXPECT_EQ(slab::free_at_once(blocks, nodes, [&](void* block) { return heap->try_deallocate(block); }),
              blocks.size());
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_remote_frees, MorphedSlabsAreWhatTheyWereAfterACrash) {
    const engine_options wanted = options(segment::minimum_segment_size * 8);
    std::vector<std::uint64_t> offsets;  // blocks of both classes
    std::vector<bool> freed;
    const auto free_every_other = [&](engine& heap, std::size_t from, unsigned node) {
        on_node(node, [&] {
            for (std::size_t i = from; i < offsets.size(); i += 4) {
                ASSERT_TRUE(heap.try_deallocate(heap.files().view().address({offsets[i]})));
                freed[i] = true;
            }
        });
    };
    {
        const auto heap = must(engine::create(path(), wanted));
        const segment::space_view& view = heap->files().view();
        on_node(1, [&] {
            std::vector<void*> first(4000);
            std::ranges::generate(first, [&] { return heap->allocate(112, 8); });
            on_node(0, [&] {
                for (std::size_t i = 0; i < first.size(); ++i) {
                    if (i % 100 == 0) {
                        offsets.push_back(view.offset(first[i]).value);
                    } else {
                        ASSERT_TRUE(heap->try_deallocate(first[i]));
                    }
                }
            });
            for (int i = 0; i < 2000; ++i) {
                offsets.push_back(view.offset(heap->allocate(160, 8)).value);
            }
        });
        EXPECT_TRUE(std::ranges::any_of(offsets, [&](std::uint64_t offset) {
            return slab::is_morphed(view.slab_header(base::granule_of(base::heap_offset{offset})));
        }));
        freed.resize(offsets.size());
        free_every_other(*heap, 0, 0);
        free_every_other(*heap, 1, 1);
        expect_sound(*heap);
        must(heap->commit());
        if (is_atomic()) {
            free_every_other(*heap, 2, 0);
            heap->atomic()->checkpoint();
            free_every_other(*heap, 3, 0);
        }
    }                                                         // without close()
    if (GetParam().durability != durability_kind::collect) {  // in `collect` no block was reachable
        const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
        for (std::size_t i = 0; i < offsets.size(); ++i) {
            EXPECT_EQ(heap->blocks().inspect().usable_size(heap->files().view().address({offsets[i]})).ok(), !freed[i])
                << i;
        }
        EXPECT_EQ(must(heap->statistics()).allocated_blocks,
                  static_cast<std::uint64_t>(std::ranges::count(freed, false)));
        expect_sound(*heap);
        must(heap->close(true));
    }
}

TEST_P(heap_remote_frees, ManyThreadsOfTwoNodes) {
    const auto heap = must(engine::create(path(), options(segment::minimum_segment_size * 8)));
    constexpr unsigned threads = 4;
    constexpr std::size_t places = 256;
    std::vector<std::atomic<void*>> passed(places);
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; ++thread) {
        running.emplace_back([&, thread] {
            made_up_topology::move_this_thread_to(thread % 2);
            std::uint64_t random = thread + 1;
            for (int step = 0; step < 20'000; ++step) {
                random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
                void* const made = heap->allocate(8 + (random >> 33U) % 500, 8);
                ASSERT_NE(made, nullptr);
                if (void* const old = passed[(random >> 20U) % places].exchange(made)) {
                    ASSERT_TRUE(heap->try_deallocate(old));
                }
            }
        });
    }
    for (std::thread& one : running) {
        one.join();
    }
    std::uint64_t left = 0;
    for (auto& place : passed) {
        left += place.load() != nullptr ? 1U : 0U;
    }
    EXPECT_EQ(must(heap->statistics()).allocated_blocks, left);
    expect_sound(*heap);
    for (auto& place : passed) {
        EXPECT_TRUE(place.load() == nullptr || heap->try_deallocate(place.load()));
    }
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    EXPECT_GT(heap->blocks().slabs().remote().merged().blocks, 0U);
    must(heap->close(true));
}

/// On each node a producer; the consumer on the other node frees its blocks.
TEST_P(heap_remote_frees, ProducersAndConsumersWriteToTheirOwnNode) {
    const auto heap = must(engine::create(path(), options(slab::touches_segment)));
    slab::remote_touches touches(heap->blocks(), heap->files().view(), 2);
    std::vector<std::unique_ptr<slab::node_thread>> threads;
    std::vector<std::vector<void*>> passed(2);
    std::vector<void*> at_borders;
    const auto turn = [&](unsigned node, const std::function<void()>& f) {
        touches.turn(
            node, [&](const auto& task) { threads[node]->run(task); }, f);
    };
    for (unsigned node = 0; node < 2; ++node) {
        threads.push_back(std::make_unique<slab::node_thread>(node));
        turn(node, [&] { at_borders.push_back(heap->allocate(64, 8)); });  // grows the heap on this node
    }
    touches.forget();
    for (int round = 0; round < 5; ++round) {
        for (unsigned node = 0; node < 2; ++node) {
            turn(node, [&] {
                slab::remote_touches::because(touch_cause::free);
                for (void* const block : passed[1 - node]) {
                    ASSERT_TRUE(heap->try_deallocate(block));
                }
                passed[1 - node].clear();
                slab::remote_touches::because(touch_cause::allocation);
                for (int i = 0; i < 1500; ++i) {
                    passed[node].push_back(heap->allocate(64, 8));
                }
                slab::remote_touches::because(touch_cause::other);
            });
        }
    }
    EXPECT_GT(heap->blocks().slabs().remote().merged().blocks, 5000U);
    EXPECT_THAT(touches.touched(touch_cause::allocation), IsEmpty());
    auto by_frees = touches.touched(touch_cause::free);
    if (is_atomic() && !GetParam().emulated) {
        // With in-flight records, the bitmap on media is what makes a free durable.
        EXPECT_GT(by_frees["bitmaps"], 0U);
        by_frees.erase("bitmaps");
    }
    EXPECT_THAT(by_frees, IsEmpty());
    threads.clear();
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_remote_frees, OfSeveralNodesThatFreeABlockOfAHardenedHeapOneSucceeds) {
    engine_options wanted = options(segment::minimum_segment_size * 8);
    wanted.hardened = true;
    const auto heap = must(engine::create(path(), wanted));
    std::vector<void*> blocks(3000);
    on_node(1, [&] { std::ranges::generate(blocks, [&] { return heap->allocate(48, 8); }); });
    const std::vector<unsigned> nodes{0, 1, 1};
    EXPECT_EQ(slab::free_at_once(blocks, nodes, [&](void* block) { return heap->try_deallocate(block); }),
              blocks.size());
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_remote_frees, WhatIsFreedElsewhereOfAHardenedHeapIsInQuarantine) {
    engine_options wanted = options(segment::minimum_segment_size * 8);
    wanted.hardened = true;
    auto heap = must(engine::create(path(), wanted));
    constexpr std::size_t count = 900;  // less than a quarantine holds
    std::vector<void*> blocks(count);
    on_node(1, [&] { std::ranges::generate(blocks, [&] { return heap->allocate(100, 8); }); });
    slab::node_thread frees(0);
    frees.run([&] {
        for (void* const block : blocks) {
            ASSERT_TRUE(heap->try_deallocate(block));
            ASSERT_FALSE(heap->try_deallocate(block));
        }
    });
    const std::set<void*> freed(blocks.begin(), blocks.end());
    on_node(1, [&] {
        std::vector<void*> others(5000);
        for (void*& block : others) {
            block = heap->allocate(100, 8);
            ASSERT_FALSE(freed.contains(block));
        }
        EXPECT_FALSE(heap->try_deallocate(blocks.front()));
        for (void* const block : others) {
            ASSERT_TRUE(heap->try_deallocate(block));
        }
    });
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    expect_sound(*heap);
    must(heap->commit());
    heap.reset();  // without close()
    heap = must(engine::open(path(), access_mode::read_write, wanted));
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_remote_frees, AThreadFollowsItsProcessor) {
    auto heap = must(engine::create(path(), options(segment::minimum_segment_size * 8)));
    const auto node_of = [&](const void* block) {
        return heap->files().view().offset(block).value / (segment::minimum_segment_size * 8) % 2;
    };
    on_node(1, [&] {
        EXPECT_EQ(node_of(heap->allocate(300, 8)), 1U);
        EXPECT_FALSE(heap->blocks().small().follow_this_thread());
        made_up_topology::move_this_thread_to(0);
        EXPECT_TRUE(heap->blocks().small().follow_this_thread());
        EXPECT_EQ(node_of(heap->allocate(300, 8)), 0U);
    });
    expect_sound(*heap);
    must(heap->close(true));
    heap.reset();
    const auto reader = must(engine::open(path(), access_mode::read_only, options(segment::minimum_segment_size * 8)));
    EXPECT_FALSE(reader->blocks().small().follow_this_thread());
}

INSTANTIATE_TEST_SUITE_P(ways, heap_remote_frees,
                         testing::Values(remote_way{durability_kind::commit, false},
                                         remote_way{durability_kind::collect, false},
                                         remote_way{durability_kind::collect, true},
                                         remote_way{durability_kind::atomic, false},
                                         remote_way{durability_kind::atomic, true}),
                         [](const auto& instance) {
                             const std::string name = instance.param.durability == durability_kind::commit ? "commit"
                                                      : instance.param.durability == durability_kind::collect
                                                          ? "collect"
                                                          : "atomic";
                             return name + (instance.param.emulated ? "_emulated" : "");
                         });

}  // namespace
}  // namespace holdfast::heap
