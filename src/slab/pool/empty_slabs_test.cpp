// Empty slabs stay as long as they are needed, and other allocations can have their space.
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using extent::decay_curve;
using testing::IsEmpty;

std::uint64_t test_time = 0;
std::uint64_t test_clock() noexcept { return test_time; }

class empty_slabs_test : public testing::Test {
protected:
    static constexpr std::uint64_t many = 20;  ///< slabs

    empty_slabs_test() {
        test_time = 1000 * decay_curve::step_ns;
        heap_.keep_extents(test_clock);
    }

    std::vector<void*> allocate(std::size_t bytes, std::uint64_t slabs = many) {
        const std::uint64_t in_a_slab = size_classes[class_for(bytes, 8)].block_count;
        std::vector<void*> blocks;
        for (std::uint64_t i = 0; i < slabs * in_a_slab; ++i) {
            blocks.push_back(heap_.blocks().allocate(bytes, 8));
            EXPECT_NE(blocks.back(), nullptr);
        }
        return blocks;
    }
    void free(const std::vector<void*>& blocks) {
        for (void* const block : blocks) {
            ASSERT_TRUE(heap_.blocks().try_free(block));
        }
    }
    std::set<std::uint64_t> granules_of(const std::vector<void*>& blocks) {
        std::set<std::uint64_t> found;
        for (const void* const block : blocks) {
            found.insert(heap_.granule_of(block).value);
        }
        return found;
    }
    std::uint64_t slabs() { return heap_.blocks().inspect().statistics().slabs; }
    void let_periods_pass(int periods) {
        for (int period = 0; period < periods; ++period) {
            test_time += decay_curve::step_ns;
            for (int i = 0; i < 200; ++i) {  // a few bins with each
                free(allocate(8192, 1));
                heap_.blocks().small().flush_this_thread();
            }
        }
    }

    /// As a program does whose frees and allocations are answered by what its thread has: `blocks` are used in turn.
    void work_from_the_cache(std::vector<void*>& blocks, std::uint32_t type = 0) {
        for (void*& block : blocks) {
            ASSERT_TRUE(block == nullptr || heap_.blocks().try_free(block));
            block = type == 0 ? heap_.blocks().allocate(100, 8) : heap_.blocks().allocate_typed(100, 8, type);
            ASSERT_NE(block, nullptr);
        }
    }

    test_heap heap_{std::uint64_t{1} << 30, std::uint64_t{64} << 20};
};

TEST_F(empty_slabs_test, serve_the_same_program_again) {
    const auto first = allocate(64);
    ASSERT_EQ(granules_of(first).size(), many);
    free(first);
    EXPECT_GE(slabs(), many - 1) << "the thread has parts of one";
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
    const auto again = allocate(64);
    EXPECT_EQ(granules_of(again), granules_of(first));
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, come_after_those_with_blocks) {
    auto blocks = allocate(64, 2);
    heap_.blocks().small().flush_this_thread();
    std::vector<void*> of_one;
    std::vector<void*> of_other;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        (heap_.granule_of(blocks[i]) == heap_.granule_of(blocks[0]) ? of_one : of_other).push_back(blocks[i]);
    }
    ASSERT_EQ(of_one.size(), of_other.size());
    void* const left = of_other.back();
    of_other.pop_back();
    free(of_other);
    free(of_one);  // the last that became empty
    EXPECT_EQ(heap_.granule_of(heap_.blocks().allocate(64, 8)), heap_.granule_of(left));
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, become_free_space_before_the_heap_grows) {
    free(allocate(64));
    const std::uint64_t before = heap_.extents().frontier().value;
    // Small blocks of another class and big ones want what is there.
    const std::uint64_t kept = slabs();
    ASSERT_GE(kept, many - 1);
    std::uint64_t taken = 0;
    while (heap_.extents().frontier().value == before) {
        ASSERT_NE(heap_.blocks().allocate(base::granule_size, 8), nullptr);
        ++taken;
    }
    EXPECT_GE(taken, kept);
    EXPECT_LE(slabs(), 2U) << "what the thread has parts of";
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, of_a_thread_that_ended_serve_others_before_the_heap_grows) {
    std::thread([this] { free(allocate(64)); }).join();
    const std::uint64_t before = heap_.extents().frontier().value;
    static_cast<void>(allocate(5000, many - 1));
    EXPECT_EQ(heap_.extents().frontier().value, before);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, become_free_space_when_nobody_needs_them_for_a_period) {
    free(allocate(64));
    ASSERT_GE(slabs(), many - 1);
    let_periods_pass(1);
    EXPECT_GE(slabs(), many - 1) << "nobody has looked how many are needed";
    let_periods_pass(4);
    EXPECT_LE(slabs(), 3U) << "what the thread has parts of, and those that came and went";
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, go_back_while_a_thread_works_from_its_cache_alone) {
    for (const std::uint32_t type : {0U, 7U}) {
        std::vector<void*> cached;
        for (int i = 0; i < 20; ++i) {
            cached.push_back(heap_.blocks().allocate(100'000, 8));
        }
        free(allocate(64));
        free(cached);
        ASSERT_GE(slabs(), many - 1);
        ASSERT_GE(heap_.extents().count(segment::extent_kind::reserved), cached.size());
        std::vector<void*> few(1000);
        work_from_the_cache(few, type);
        constexpr int steps_of_decay = 20;
        for (int period = 0; period < 2 * steps_of_decay; ++period) {
            test_time += decay_curve::step_ns;
            work_from_the_cache(few, type);
        }
        EXPECT_LE(slabs(), 5U) << "of the thread, and of the blocks in use";
        EXPECT_EQ(heap_.extents().count(segment::extent_kind::reserved), 0U) << "in caches of extents";
        EXPECT_EQ(heap_.extents().space().backed_free_pages().value, 0U);
        free(few);
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, go_back_at_once_where_a_thread_comes_late) {
    constexpr std::uint64_t lots = 300;
    free(allocate(64, lots));
    std::vector<void*> few(1000);
    work_from_the_cache(few);
    ASSERT_GE(slabs(), lots - 1);
    constexpr std::uint64_t late = 40;
    for (int period = 0; period < 4; ++period) {
        test_time += late * decay_curve::step_ns;
        work_from_the_cache(few);
    }
    EXPECT_LE(slabs(), 6U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, stay_as_many_as_are_needed) {
    free(allocate(64));
    for (int period = 0; period < 6; ++period) {
        let_periods_pass(1);
        free(allocate(64, many / 2));
    }
    EXPECT_GE(slabs(), many / 2 - 1);
    EXPECT_LE(slabs(), many / 2 + 3);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, are_free_space_for_who_wants_to_know_all_of_it) {
    free(allocate(64));
    heap_.blocks().flush_extents();
    EXPECT_LE(slabs(), 2U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, parts_that_a_resting_thread_does_not_need_go_back) {
    constexpr std::size_t sizes[] = {64, 100, 200, 400, 1000, 3000, 16000};
    std::latch filled(2);
    std::latch flushed(1);
    void* kept = nullptr;
    std::thread other([&] {
        kept = heap_.blocks().allocate(64, 8);
        for (const std::size_t bytes : sizes) {
            free({heap_.blocks().allocate(bytes, 8), heap_.blocks().allocate(bytes, 8)});
        }
        filled.count_down();
        flushed.wait();
        for (const std::size_t bytes : sizes) {
            free({heap_.blocks().allocate(bytes, 8)});
        }
        free({kept});
    });
    filled.arrive_and_wait();
    EXPECT_EQ(slabs(), std::size(sizes));
    heap_.blocks().small().flush_idle_parts();
    EXPECT_THAT(heap_.problems(), IsEmpty());
    heap_.blocks().small().release_unused();
    EXPECT_EQ(slabs(), 1U) << "of the one that has a live block";
    // Blocks that went back may be allocated again, the others may not.
    std::set<void*> mine;
    for (std::uint64_t i = 0; i < size_classes[class_for(64, 8)].block_count; ++i) {
        mine.insert(heap_.blocks().allocate(64, 8));
    }
    EXPECT_FALSE(mine.contains(kept));
    flushed.count_down();
    other.join();
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free({mine.begin(), mine.end()});
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
}

TEST_F(empty_slabs_test, are_one_for_a_type) {
    std::vector<void*> blocks;
    for (std::uint64_t i = 0; i < many * size_classes[class_for(64, 8)].block_count; ++i) {
        blocks.push_back(heap_.blocks().allocate_typed(64, 8, 5));
    }
    free(blocks);
    EXPECT_EQ(slabs(), 1U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(empty_slabs_test, are_found_after_a_crash) {
    free(allocate(64));
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    heap_.blocks().small().release_unused();
    EXPECT_EQ(slabs(), 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
