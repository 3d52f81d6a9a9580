// Heaps in several directories, on made-up machines of several nodes.
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

namespace fs = std::filesystem;
using persist::access_mode;
using persist::made_up_topology;
using segment::must;
using ::testing::IsEmpty;

class heap_nodes : public testing::TestWithParam<durability_kind> {
protected:
    engine_options options(const persist::topology& machine, unsigned directories) {
        engine_options wanted;
        wanted.durability = GetParam();
        wanted.accept_process_crash_only = true;
        wanted.files.segment_size = segment::minimum_segment_size;
        wanted.files.mapping.topology = &machine;
        for (unsigned i = 0; i < directories; ++i) {
            wanted.files.node_places.push_back(directory_.path("place" + std::to_string(i)));
            fs::create_directories(wanted.files.node_places.back());
        }
        return wanted;
    }
    template <class Function>
    static void on_node(unsigned node, Function f) {
        std::thread([&] {
            made_up_topology::move_this_thread_to(node);
            f();
        }).join();
    }
    static unsigned node_of(engine& heap, const void* block) {
        const std::uint64_t offset = heap.files().view().offset(block).value;
        return static_cast<unsigned>(offset / segment::minimum_segment_size % heap.files().paths().nodes());
    }
    static void expect_sound(engine& heap) { EXPECT_THAT(heap.check(heap.atomic() == nullptr), IsEmpty()); }
    [[nodiscard]] std::string path() const { return directory_.path("heap"); }

    segment::test_directory directory_;
};

TEST_P(heap_nodes, GuardRangesAreOnTheNodeOfTheirSlabs) {
    const made_up_topology machine(2, 2);
    engine_options wanted = options(machine, 2);
    wanted.hardened = true;
    const auto heap = must(engine::create(path(), wanted));
    constexpr std::uint64_t slabs_a_node = 50;  // more than one segment holds
    for (const unsigned node : {1U, 0U}) {
        on_node(node, [&] {
            for (std::uint64_t i = 0; i < slabs_a_node * 4; ++i) {
                void* const block = heap->allocate(16'384, 16);
                ASSERT_NE(block, nullptr);
                EXPECT_EQ(node_of(*heap, block), node);
            }
        });
    }
    EXPECT_GE(heap->blocks().slabs().source().guards().count(), 2 * slabs_a_node);
    heap->blocks().slabs().source().guards().for_each([&](base::granule range) {
        const std::byte* const address = heap->files().view().address(base::offset_of(range));
        EXPECT_EQ(node_of(*heap, address), node_of(*heap, address - 1)) << range.value;
    });
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_nodes, ThreadsAllocateFromTheirOwnNode) {
    const made_up_topology machine(3, 2);
    const engine_options wanted = options(machine, 3);
    std::map<unsigned, std::vector<void*>> blocks;
    {
        const auto heap = must(engine::create(path(), wanted));
        for (const unsigned node : {2U, 0U, 1U, 2U}) {
            on_node(node, [&] {
                for (const std::uint64_t bytes : {16U, 900U, 9000U, 20'000U, 300'000U, 1'500'000U}) {
                    for (int i = 0; i < 5; ++i) {
                        void* const block = heap->allocate(bytes, 16);
                        ASSERT_NE(block, nullptr);
                        EXPECT_EQ(node_of(*heap, block), node) << bytes;
                        *static_cast<unsigned*>(block) = node;
                        blocks[node].push_back(block);
                    }
                }
            });
        }
        expect_sound(*heap);
        must(heap->close(true));
    }
    const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
    EXPECT_EQ(must(heap->statistics()).allocated_blocks, 120U);
    // Slabs from before the open belong to their nodes again.
    for (const unsigned node : {1U, 2U, 0U}) {
        on_node(node, [&] {
            for (int i = 0; i < 200; ++i) {
                EXPECT_EQ(node_of(*heap, heap->allocate(900, 16)), node);
            }
        });
    }
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_nodes, AHeapThatCrashedIsRecoveredFromAllDirectories) {
    const made_up_topology machine(2, 2);
    const engine_options wanted = options(machine, 2);
    std::uint64_t committed = 0;
    {
        const auto heap = must(engine::create(path(), wanted));
        const auto allocate = [&](unsigned node) {
            on_node(node, [&] {
                for (const std::uint64_t bytes : {100U, 9000U, 50'000U, 900'000U, 1'900'000U}) {
                    ASSERT_NE(heap->allocate(bytes, 16), nullptr);
                }
            });
        };
        allocate(0);
        allocate(1);
        must(heap->commit());
        committed = must(heap->statistics()).allocated_blocks;
        allocate(1);
        allocate(0);
    }  // without close()
    const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
    EXPECT_TRUE(heap->files().recovered());
    EXPECT_EQ(must(heap->statistics()).allocated_blocks, heap->atomic() != nullptr ? 2 * committed : committed);
    on_node(1, [&] { EXPECT_EQ(node_of(*heap, heap->allocate(700'000, 16)), 1U); });
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_nodes, WhatAnotherNodeFreesComesBackToItsOwn) {
    const made_up_topology machine(2, 2);
    const auto heap = must(engine::create(path(), options(machine, 2)));
    std::vector<void*> blocks;
    on_node(1, [&] {
        for (int i = 0; i < 20; ++i) {
            blocks.push_back(heap->allocate(50'000, 16));
        }
    });
    on_node(0, [&] {
        for (void* const block : blocks) {
            EXPECT_TRUE(heap->try_deallocate(block));
        }
        for (int i = 0; i < 40; ++i) {
            EXPECT_EQ(node_of(*heap, heap->allocate(50'000, 16)), 0U);
        }
    });
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_nodes, OnAMachineOfOneNodeAllDirectoriesAreUsed) {
    const made_up_topology machine(1);
    const auto heap = must(engine::create(path(), options(machine, 2)));
    std::map<unsigned, int> found;
    for (int i = 0; i < 40; ++i) {
        ++found[node_of(*heap, heap->allocate(300'000, 16))];
    }
    EXPECT_GT(found[0], 10);
    EXPECT_GT(found[1], 10);
    must(heap->close(true));
}

TEST_P(heap_nodes, MoreDirectoriesThanNodesAreShared) {
    const made_up_topology machine(2, 4);
    const auto heap = must(engine::create(path(), options(machine, 4)));
    std::map<unsigned, int> found;
    for (int thread = 0; thread < 4; ++thread) {
        on_node(1, [&] { ++found[node_of(*heap, heap->allocate(300'000, 16))]; });
    }
    EXPECT_EQ(found[1] + found[3], 4);
    EXPECT_GT(found[1], 0);
    EXPECT_GT(found[3], 0);
    must(heap->close(true));
}

TEST_P(heap_nodes, ShrinkingAndSnapshotsKnowAllDirectories) {
    const made_up_topology machine(2, 2);
    const auto heap = must(engine::create(path(), options(machine, 2)));
    std::vector<void*> blocks;
    on_node(1, [&] {
        for (int i = 0; i < 30; ++i) {
            blocks.push_back(heap->allocate(1'000'000, 16));
            *static_cast<int*>(blocks.back()) = i;
        }
        for (int i = 2; i < 30; ++i) {
            EXPECT_TRUE(heap->try_deallocate(blocks[static_cast<std::size_t>(i)]));
        }
    });
    must(heap->commit());
    const auto report = must(heap->shrink(0, [](const shrink_report&) {}));
    EXPECT_LT(report.charged_after, report.charged_before);
    EXPECT_LE(must(heap->statistics()).files.segments, 4U);
    must(heap->snapshot(directory_.path("snapshot")));
    EXPECT_EQ(*static_cast<int*>(blocks[1]), 1);
    const std::uint64_t offset = heap->files().view().offset(blocks[1]).value;
    expect_sound(*heap);
    must(heap->close(true));
    engine_options reader;
    const auto snapshot = must(engine::open(directory_.path("snapshot"), access_mode::read_only, reader));
    EXPECT_EQ(snapshot->files().paths().nodes(), 0U);
    EXPECT_EQ(*reinterpret_cast<int*>(snapshot->files().view().base() + offset), 1);
    EXPECT_THAT(snapshot->check(true), IsEmpty());
}

TEST_P(heap_nodes, ThreadsOfAllNodesAtOnce) {
    const made_up_topology machine(4);
    const auto heap = must(engine::create(path(), options(machine, 2)));
    std::vector<std::thread> threads;
    for (unsigned node = 0; node < 4; ++node) {
        threads.emplace_back([&, node] {
            made_up_topology::move_this_thread_to(node);
            std::vector<void*> mine;
            for (int i = 0; i < 3000; ++i) {
                mine.push_back(heap->allocate(8U + static_cast<unsigned>(i) % 40'000U, 16));
                if (mine.size() == 100) {
                    for (void* const block : mine) {
                        EXPECT_TRUE(heap->try_deallocate(block));
                    }
                    mine.clear();
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    expect_sound(*heap);
    must(heap->close(true));
}

class heap_nodes_atomic : public heap_nodes {};

TEST_P(heap_nodes_atomic, RecordsOfAThreadLieOnItsNode) {
    const made_up_topology machine(3, 2);
    const engine_options wanted = options(machine, 3);
    const auto lane_of_this_thread = [](engine& heap) { return heap.blocks().this_cache()->own_lane->index; };
    {
        const auto heap = must(engine::create(path(), wanted));
        for (const unsigned node : {2U, 0U, 1U, 2U}) {
            on_node(node, [&] {
                ASSERT_NE(heap->allocate(100, 16), nullptr);
                EXPECT_EQ(lane_of_this_thread(*heap) % 3, node);
            });
        }
        on_node(0, [&] {
            ASSERT_NE(heap->allocate(100, 16), nullptr);
            made_up_topology::move_this_thread_to(1);
            EXPECT_TRUE(heap->blocks().small().follow_this_thread());
            EXPECT_EQ(lane_of_this_thread(*heap) % 3, 1U);
            ASSERT_NE(heap->allocate(100, 16), nullptr);
        });
        EXPECT_EQ(heap->atomic()->lanes().statistics().lanes, 4U) << "lanes 0 to 3, and each thread found one";
        EXPECT_FALSE(fs::exists(path() + "/lanes"));
    }  // without close()
    {
        engine_options on_disk = wanted;
        on_disk.domain = persist::domain_kind::disk;
        const auto heap = must(engine::open(path(), access_mode::read_write, on_disk));
        EXPECT_EQ(must(heap->statistics()).allocated_blocks, 6U);
        ASSERT_NE(heap->allocate(100, 16), nullptr);
    }  // without close()
    const auto heap = must(engine::open(path(), access_mode::read_write, wanted));
    EXPECT_EQ(must(heap->statistics()).allocated_blocks, 7U);
    expect_sound(*heap);
    must(heap->close(true));
}

INSTANTIATE_TEST_SUITE_P(durabilities, heap_nodes, testing::Values(durability_kind::commit, durability_kind::atomic),
                         [](const auto& instance) {
                             return instance.param == durability_kind::commit ? "commit" : "atomic";
                         });

INSTANTIATE_TEST_SUITE_P(durabilities, heap_nodes_atomic, testing::Values(durability_kind::atomic));

}  // namespace
}  // namespace holdfast::heap
