// The arena: blocks that do not overlap, found by address, used again.
#include "malloc/internal_arena.hpp"

#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"

namespace holdfast::drop_in {
namespace {

class internal_arena_test : public testing::Test {
protected:
    std::unique_ptr<internal_arena> arena_ = std::make_unique<internal_arena>();
};

TEST_F(internal_arena_test, gives_blocks_of_any_size_and_alignment) {
    std::vector<std::pair<std::byte*, std::size_t>> blocks;
    for (const std::size_t bytes : {0U, 1U, 16U, 17U, 100U, 4096U, 5000U, 65536U, 65537U, 200000U, 3U << 20U}) {
        for (std::size_t alignment = 16; alignment <= 2 * base::mebibyte; alignment *= 2) {
            auto* const block = static_cast<std::byte*>(arena_->allocate(bytes, alignment));
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
            EXPECT_TRUE(arena_->contains(block));
            EXPECT_GE(arena_->usable_size(block), bytes);
            blocks.emplace_back(block, bytes);
            std::memset(block, static_cast<int>(blocks.size()), bytes);
        }
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto [block, bytes] = blocks[i];
        for (std::size_t at = 0; at < bytes; at += 97) {
            ASSERT_EQ(block[at], static_cast<std::byte>(i + 1)) << "blocks overlap";
        }
        EXPECT_TRUE(arena_->free(block));
    }
}

TEST_F(internal_arena_test, serves_a_process_that_may_have_few_addresses) {
    base::child_process child([&] {
        std::uint64_t pages_in_use = 0;
        std::ifstream("/proc/self/statm") >> pages_in_use;
        const std::uint64_t most = pages_in_use * base::page_size + 4 * base::gibibyte;
        const rlimit limit{most, most};
        ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
        void* const block = arena_->allocate(base::mebibyte, 16);
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(arena_->contains(block));
        std::memset(block, 1, base::mebibyte);
        ASSERT_EQ(arena_->allocate(2 * base::gibibyte, 16), nullptr);
    });
    EXPECT_TRUE(child.wait().succeeded());
}

TEST_F(internal_arena_test, gives_freed_memory_out_again) {
    std::set<void*> seen;
    for (int i = 0; i < 1000; ++i) {
        void* const block = arena_->allocate(40000, 16);
        seen.insert(block);
        EXPECT_TRUE(arena_->free(block));
    }
    EXPECT_EQ(seen.size(), 1U);
}

TEST_F(internal_arena_test, knows_what_is_no_block_of_its_own) {
    int here = 0;
    EXPECT_FALSE(arena_->contains(&here));
    EXPECT_FALSE(arena_->contains(nullptr));
    auto* const block = static_cast<std::byte*>(arena_->allocate(64, 16));
    EXPECT_FALSE(arena_->contains(&here));
    EXPECT_FALSE(arena_->contains(nullptr));
    EXPECT_FALSE(arena_->free(block + 16));
    EXPECT_EQ(arena_->usable_size(block + 8), 0U);
    EXPECT_FALSE(arena_->free(block + base::mebibyte)) << "never given out";
}

TEST_F(internal_arena_test, refuses_a_second_free) {
    for (const std::size_t bytes : {16U, 100U, 70'000U}) {
        void* const block = arena_->allocate(bytes, 16);
        void* const other = arena_->allocate(bytes, 16);
        ASSERT_TRUE(arena_->free(block));
        ASSERT_TRUE(arena_->free(other));
        EXPECT_FALSE(arena_->free(block)) << bytes;
        EXPECT_FALSE(arena_->free(other)) << bytes;
        const std::set<void*> again{arena_->allocate(bytes, 16), arena_->allocate(bytes, 16),
                                    arena_->allocate(bytes, 16)};
        EXPECT_EQ(again.size(), 3U) << "one block for two";
        EXPECT_TRUE(arena_->free(block)) << "it is in use again";
    }
}

TEST_F(internal_arena_test, refuses_what_it_cannot_have) {
    EXPECT_EQ(arena_->allocate(SIZE_MAX, 16), nullptr);
    EXPECT_EQ(arena_->allocate(std::size_t{1} << 40U, 16), nullptr);
    EXPECT_EQ(arena_->allocate(16, std::size_t{1} << 30U), nullptr);
    EXPECT_NE(arena_->allocate(16, 16), nullptr);
}

TEST_F(internal_arena_test, serves_threads_at_once) {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([this, t] {
            std::mt19937 random(t);
            std::vector<std::pair<unsigned char*, std::size_t>> mine;
            for (int i = 0; i < 5000; ++i) {
                if (mine.size() < 30) {
                    const std::size_t bytes = 1 + random() % 3000;
                    mine.emplace_back(static_cast<unsigned char*>(arena_->allocate(bytes, 16)), bytes);
                    std::memset(mine.back().first, static_cast<int>(t), bytes);
                } else {
                    std::swap(mine[random() % mine.size()], mine.back());
                    const auto [block, bytes] = mine.back();
                    EXPECT_EQ(block[0], t);
                    EXPECT_EQ(block[bytes - 1], t);
                    EXPECT_TRUE(arena_->free(block));
                    mine.pop_back();
                }
            }
        });
    }
}

}  // namespace
}  // namespace holdfast::drop_in
