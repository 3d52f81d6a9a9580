// Which blocks a thread hands out next, and what becomes of its cache.
#include "slab/calls/thread_cache.hpp"

#include <pthread.h>

#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

/// glibc frees no entry for a thread-local object that is made when the others have been destroyed.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier,cert-dcl37-c)
    return "leak:__cxa_thread_atexit_impl";
}

namespace holdfast::slab {
namespace {

using testing::ElementsAreArray;
using testing::SizeIs;

class cached_blocks_test : public testing::Test {
protected:
    void draw(unsigned percent) {
        constexpr std::array<std::uint8_t, 4> not_free{block_state::live, block_state::freeing, block_state::held,
                                                       block_state::overlapped};
        for (std::uint8_t& state : block_states_) {
            state = random_() % 100 < percent ? block_state::free : not_free.at(random_() % not_free.size());
        }
    }
    [[nodiscard]] std::vector<std::uint32_t> free_blocks(std::uint32_t first, std::uint32_t end) const {
        std::vector<std::uint32_t> found;
        for (std::uint32_t index = first; index < end; ++index) {
            if (block_states_.at(index) == block_state::free) {
                found.push_back(index);
            }
        }
        return found;
    }
    using way_to_fill = std::uint32_t (cached_blocks::*)(std::uint32_t);
    [[nodiscard]] static std::vector<way_to_fill> ways_to_fill() {
        std::vector<way_to_fill> ways{&cached_blocks::fill, &cached_blocks::fill_by_bytes};
        if (cached_blocks::compresses()) {
            ways.push_back(&cached_blocks::fill_by_compressing);
        }
        return ways;
    }
    [[nodiscard]] std::vector<std::uint32_t> fill_all(way_to_fill fill, std::uint32_t first, std::uint32_t end) {
        std::vector<std::uint32_t> found;
        cached_blocks blocks;
        blocks.states = block_states_.data();
        blocks.cursor = static_cast<std::uint16_t>(first);
        while (const std::uint32_t filled = (blocks.*fill)(end)) {
            EXPECT_LE(filled, cached_blocks::capacity);
            EXPECT_EQ(blocks.filled, filled);
            for (std::uint32_t i = 0; i < filled; ++i) {
                EXPECT_FALSE(blocks.is_empty());
                found.push_back(blocks.try_pop());
            }
            EXPECT_TRUE(blocks.is_empty());
            if (testing::Test::HasFailure()) {
                break;
            }
        }
        return found;
    }

    alignas(base::cache_line_size) std::array<std::uint8_t, base::granule_size / 8> block_states_{};
    std::mt19937_64 random_{20231016};
};

TEST_F(cached_blocks_test, are_all_free_blocks_of_a_part_in_order) {
    for (const unsigned percent : {0U, 1U, 6U, 30U, 90U, 100U}) {
        draw(percent);
        for (const size_class& size : size_classes) {
            for (unsigned part = 0; part < parts_of(size); ++part) {
                const std::uint32_t first = first_of_part(size, part);
                const std::uint32_t end = first_of_part(size, part + 1);
                for (const way_to_fill way : ways_to_fill()) {
                    ASSERT_THAT(fill_all(way, first, end), ElementsAreArray(free_blocks(first, end)))
                        << percent << " %, blocks of " << size.block_size << ", part " << part;
                }
            }
        }
    }
}

TEST_F(cached_blocks_test, are_those_of_any_range) {
    for (int turn = 0; turn < 3000; ++turn) {
        draw(static_cast<unsigned>(random_() % 101));
        const auto first = static_cast<std::uint32_t>(random_() % block_states_.size());
        const auto end =
            first + static_cast<std::uint32_t>(random_() % std::min<std::size_t>(block_states_.size() - first, 700));
        for (const way_to_fill way : ways_to_fill()) {
            ASSERT_THAT(fill_all(way, first, end), ElementsAreArray(free_blocks(first, end))) << first << " to " << end;
        }
    }
}

TEST(parts_test, of_each_class_cover_a_slab) {
    for (const size_class& size : size_classes) {
        EXPECT_EQ(first_of_part(size, 0), 0U);
        EXPECT_EQ(first_of_part(size, parts_of(size)), size.block_count);
        for (unsigned part = 0; part < parts_of(size); ++part) {
            EXPECT_LT(first_of_part(size, part), first_of_part(size, part + 1)) << size.block_size;
        }
    }
}

/// Thread-local objects that the destructor of a key makes are not destroyed.
TEST(thread_end_test, gives_back_a_cache_that_the_destructor_of_a_key_made) {
    test_heap heap;
    static constexpr auto use = [](void* blocks) {
        auto* const of = static_cast<block_allocator*>(blocks);
        EXPECT_TRUE(of->try_free(of->allocate(64, 8)));
    };
    pthread_key_t key{};
    ASSERT_EQ(::pthread_key_create(&key, use), 0);
    const unsigned arenas = heap.blocks().slabs().bins().arenas();  // each keeps an empty slab
    for (unsigned i = 0; i < arenas + 8; ++i) {
        std::jthread([&] { ::pthread_setspecific(key, &heap.blocks()); }).join();
    }
    ::pthread_key_delete(key);
    EXPECT_LE(heap.blocks().inspect().statistics().slabs, arenas);
    EXPECT_THAT(heap.problems(), testing::IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
