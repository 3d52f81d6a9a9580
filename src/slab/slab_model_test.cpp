// Random operations against a model that knows the allocated blocks and their content.
#include <barrier>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using testing::IsEmpty;

/// Its content follows from its seed.
struct held {
    void* block = nullptr;
    std::size_t bytes = 0;
    std::uint64_t seed = 0;
    std::uint32_t type = 0;
};

std::uint64_t pattern(std::uint64_t seed, std::size_t position) { return (seed + position) * 0x9e37'79b9'7f4a'7c15ULL; }

/// Overlapping blocks share one of these: the first and last bytes, and one in each page.
template <class Do>
void for_each_sample(std::size_t bytes, Do act) {
    for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 64); ++i) {
        act(i);
        act(bytes - 1 - i);
    }
    for (std::size_t i = 64; i < bytes; i += 4096) {
        act(i);
    }
}

void fill(const held& of) {
    for_each_sample(of.bytes, [&](std::size_t i) {
        static_cast<std::uint8_t*>(of.block)[i] = static_cast<std::uint8_t>(pattern(of.seed, i) >> 56);
    });
}

bool is_filled(const held& of) {
    bool same = true;
    for_each_sample(of.bytes, [&](std::size_t i) {
        same = same && static_cast<std::uint8_t*>(of.block)[i] == static_cast<std::uint8_t>(pattern(of.seed, i) >> 56);
    });
    return same;
}

class chooser {
public:
    explicit chooser(std::uint64_t seed) : random_(seed) {}
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    std::size_t bytes() {
        const std::uint64_t magnitude = below(40);
        if (mostly_big_ && magnitude < 30) {
            return 8192 + below(std::uint64_t{1} << (13 + below(7)));
        }
        const unsigned shift = magnitude < 30   ? static_cast<unsigned>(below(11))
                               : magnitude < 38 ? static_cast<unsigned>(below(16))
                                                : static_cast<unsigned>(below(23));
        return 1 + below(std::uint64_t{1} << shift);
    }
    std::size_t alignment() {
        const std::uint64_t magnitude = below(20);
        return std::size_t{1} << (magnitude < 17 ? below(5) : magnitude < 19 ? below(13) : below(22));
    }
    void mostly_big() noexcept { mostly_big_ = true; }
    std::uint32_t type() {
        constexpr std::uint32_t types[] = {0, 0, 0, 1, 2, segment::type_limit - 1};
        return types[below(std::size(types))];
    }

private:
    std::mt19937_64 random_;
    bool mostly_big_ = false;
};

class player {
public:
    player(block_allocator& blocks, std::uint64_t seed) : blocks_(&blocks), choose_(seed), seed_(seed << 32) {}

    void continue_on(block_allocator& blocks) { blocks_ = &blocks; }

    void play(int steps) {
        for (int step = 0; step < steps; ++step) {
            if (held_.size() < 2000 && (held_.empty() || choose_.below(100) < 52)) {
                allocate();
            } else {
                free(take_any());
            }
        }
    }

    void allocate() {
        held made{nullptr, choose_.bytes(), ++seed_, choose_.type()};
        const std::size_t alignment = choose_.alignment();
        made.block = made.type == 0 ? blocks_->allocate(made.bytes, alignment)
                                    : blocks_->allocate_typed(made.bytes, alignment, made.type);
        if (made.block == nullptr) {
            ASSERT_EQ(block_allocator::last_failure().code, base::failure_code::no_space);
            return;
        }
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(made.block) % alignment, 0U);
        ASSERT_GE(*blocks_->inspect().usable_size(made.block), made.bytes);
        ASSERT_EQ(*blocks_->inspect().type_of(made.block), made.type);
        fill(made);
        held_.push_back(made);
    }

    void free(const held& given) {
        ASSERT_TRUE(is_filled(given)) << given.bytes;
        ASSERT_EQ(*blocks_->inspect().type_of(given.block), given.type);
        ASSERT_TRUE(blocks_->try_free(given.block)) << block_allocator::last_failure().message();
    }

    held take_any() {
        std::swap(held_[choose_.below(held_.size())], held_.back());
        const held taken = held_.back();
        held_.pop_back();
        return taken;
    }

    [[nodiscard]] std::vector<held>& blocks() { return held_; }
    [[nodiscard]] chooser& choose() { return choose_; }

private:
    block_allocator* blocks_;
    chooser choose_;
    std::uint64_t seed_;
    std::vector<held> held_;
};

/// Expects exactly the blocks of the players, and every invariant to hold.
void compare(test_heap& heap, const std::vector<player*>& players) {
    ASSERT_THAT(heap.problems(), IsEmpty());
    std::map<std::uint64_t, held> expected;
    for (player* const one : players) {
        for (const held& block : one->blocks()) {
            ASSERT_TRUE(is_filled(block));
            ASSERT_TRUE(expected.emplace(heap.space().view().offset(block.block).value, block).second);
        }
    }
    std::size_t seen = 0;
    heap.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t size, std::uint32_t type) {
        const auto found = expected.find(offset.value);
        ASSERT_NE(found, expected.end());
        ASSERT_GE(size, found->second.bytes);
        ASSERT_EQ(type, found->second.type);
        ++seen;
    });
    ASSERT_EQ(seen, expected.size());
}

void expect_one_free_extent(test_heap& heap) {
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    heap.blocks().small().release_unused();
    EXPECT_EQ(heap.extents().count(segment::extent_kind::reserved), 0U);
    EXPECT_EQ(heap.extents().count(segment::extent_kind::free), 1U);
    EXPECT_THAT(heap.problems(), IsEmpty());
}

enum class keeping : std::uint8_t { nothing, extents, extents_and_slabs };

std::uint64_t hasty_clock() noexcept {
    static std::atomic<std::uint64_t> now{0};
    return now += extent::decay_curve::step_ns / 64;
}

void start_keeping(test_heap& heap, keeping what) {
    if (what != keeping::nothing) {
        heap.keep_extents(what == keeping::extents ? nullptr : hasty_clock);
    }
}

void play_alone(keeping what) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        test_heap heap(std::uint64_t{1} << 30, std::uint64_t{128} << 20);
        player one(heap.blocks(), seed);
        start_keeping(heap, what);
        if (what == keeping::extents) {
            one.choose().mostly_big();
        }
        for (int phase = 0; phase < 25; ++phase) {
            one.play(static_cast<int>(one.choose().below(3000)));
            compare(heap, {&one});
            if (one.choose().below(2) == 0) {
                ASSERT_TRUE(heap.reopen().ok());
                one.continue_on(heap.blocks());
                if (one.choose().below(2) == 0) {
                    compare(heap, {&one});
                }
            }
        }
        while (!one.blocks().empty()) {
            one.free(one.take_any());
        }
        compare(heap, {&one});
        expect_one_free_extent(heap);
    }
}

TEST(slab_model_test, one_thread_with_reopening) { play_alone(keeping::nothing); }
TEST(slab_model_test, one_thread_with_caches_of_extents) { play_alone(keeping::extents); }
TEST(slab_model_test, one_thread_with_empty_slabs_that_are_kept) { play_alone(keeping::extents_and_slabs); }

class exchange_of_held {
public:
    void put(const held& given) {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(given);
    }
    bool get(held& taken) {
        const std::lock_guard lock(mutex_);
        if (waiting_.empty()) {
            return false;
        }
        taken = waiting_.back();
        waiting_.pop_back();
        return true;
    }

private:
    std::mutex mutex_;
    std::vector<held> waiting_;
};

void play_together(keeping what) {
    test_heap heap;
    start_keeping(heap, what);
    constexpr std::size_t thread_count = 4;
    std::vector<std::unique_ptr<player>> players;
    std::vector<player*> all;
    for (std::size_t i = 0; i < thread_count; ++i) {
        players.push_back(std::make_unique<player>(heap.blocks(), 100 + i));
        if (what == keeping::extents) {
            players.back()->choose().mostly_big();
        }
        all.push_back(players.back().get());
    }
    for (int phase = 0; phase < 12; ++phase) {
        exchange_of_held market;
        std::vector<std::thread> threads;
        threads.reserve(all.size());
        for (player* const one : all) {
            threads.emplace_back([one, &market] {
                for (int step = 0; step < 150; ++step) {
                    one->play(10);
                    for (int i = 0; i < 4 && !one->blocks().empty(); ++i) {
                        market.put(one->take_any());
                    }
                    held foreign;
                    for (int i = 0; i < 4 && market.get(foreign); ++i) {
                        one->free(foreign);
                    }
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        held left;
        while (market.get(left)) {
            all[0]->free(left);
        }
        compare(heap, all);
        if (phase % 3 == 2) {
            ASSERT_TRUE(heap.reopen().ok());
            for (player* const one : all) {
                one->continue_on(heap.blocks());
            }
        }
    }
    for (player* const one : all) {
        while (!one->blocks().empty()) {
            one->free(one->take_any());
        }
    }
    expect_one_free_extent(heap);
}

TEST(slab_model_test, threads_free_what_others_allocated) { play_together(keeping::nothing); }
TEST(slab_model_test, threads_with_caches_of_extents_free_what_others_allocated) { play_together(keeping::extents); }
TEST(slab_model_test, threads_with_empty_slabs_that_are_kept_free_what_others_allocated) {
    play_together(keeping::extents_and_slabs);
}

void free_each_in_four_threads(keeping what) {
    test_heap heap;
    start_keeping(heap, what);
    constexpr int blocks = 2000;
    std::vector<void*> held(blocks);
    for (std::size_t i = 0; i < held.size(); ++i) {
        const std::size_t bytes = i % 20 == 0 ? 20'000 : 64;
        held[i] = i % 3 == 0 ? heap.blocks().allocate_typed(bytes, 8, 7) : heap.blocks().allocate(bytes, 8);
    }
    std::atomic<int> freed{0};
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int id = 0; id < 4; ++id) {
        threads.emplace_back([&] {
            for (void* const block : held) {
                freed += heap.blocks().try_free(block) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_GE(freed, blocks) << "each block by somebody; of two in the same moment both may be told so";
    EXPECT_THAT(heap.problems(), IsEmpty());
    expect_one_free_extent(heap);
}

TEST(slab_thread_test, many_frees_of_one_block_free_it_once) { free_each_in_four_threads(keeping::nothing); }
TEST(slab_thread_test, many_frees_of_one_block_free_it_once_with_caches) {
    free_each_in_four_threads(keeping::extents_and_slabs);
}

template <class Act>
void in_threads(std::size_t count, Act act) {
    std::barrier start(static_cast<std::ptrdiff_t>(count));
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (std::size_t id = 0; id < count; ++id) {
        threads.emplace_back([&, id] {
            start.arrive_and_wait();
            act(id);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

void load_one_slab_at_once(std::uint32_t type) {
    for (const std::size_t bytes : {16UL, 14336UL}) {
        test_heap heap;
        std::vector<void*> held(8000);
        for (void*& block : held) {
            block = type == 0 ? heap.blocks().allocate(bytes, 8) : heap.blocks().allocate_typed(bytes, 8, type);
        }
        ASSERT_TRUE(heap.reopen().ok());
        std::atomic<std::size_t> arrived{0};
        in_threads(4, [&](std::size_t id) {
            for (std::size_t i = id; i < held.size(); i += 4) {
                ++arrived;
                while (arrived < i - id + 4) {  // all four free blocks of one slab in the same moment
                    std::this_thread::yield();
                }
                EXPECT_TRUE(heap.blocks().try_free(held[i])) << block_allocator::last_failure().message();
            }
        });
        EXPECT_THAT(heap.problems(), IsEmpty());
        EXPECT_TRUE(heap.blocks().inspect().all_free());
    }
}

TEST(slab_thread_test, threads_load_one_slab_of_a_reopened_heap_at_once) { load_one_slab_at_once(0); }
TEST(slab_thread_test, threads_load_one_slab_with_a_type_at_once) { load_one_slab_at_once(3); }

TEST(slab_thread_test, threads_allocate_from_a_reopened_heap_at_once) {
    test_heap heap;
    std::vector<void*> held(20'000);
    const auto allocate = [&heap](std::size_t i) {
        const std::size_t bytes = std::size_t{16} << (i % 6);
        const auto type = static_cast<std::uint32_t>(i % 5);
        return type == 0 ? heap.blocks().allocate(bytes, 8) : heap.blocks().allocate_typed(bytes, 8, type);
    };
    for (std::size_t i = 0; i < held.size(); ++i) {
        held[i] = allocate(i);
    }
    ASSERT_TRUE(heap.reopen().ok());
    in_threads(4, [&](std::size_t id) {
        for (std::size_t i = id; i < held.size(); i += 4) {
            ASSERT_TRUE(heap.blocks().try_free(held[i]));
            void* const block = allocate(i);
            ASSERT_NE(block, nullptr);
            ASSERT_EQ(*heap.blocks().inspect().type_of(block), i % 5);
            ASSERT_TRUE(heap.blocks().try_free(block));
        }
    });
    EXPECT_THAT(heap.problems(), IsEmpty());
    EXPECT_TRUE(heap.blocks().inspect().all_free());
}

TEST(slab_thread_test, full_slabs_return_to_their_owner_whoever_frees_their_blocks) {
    test_heap heap;
    constexpr std::size_t count = 4;
    std::array<std::vector<void*>, count> made;
    for (int round = 0; round < 5; ++round) {
        in_threads(count, [&](std::size_t id) {
            made.at(id).reserve(3000);
            for (std::size_t i = 0; i < 3000; ++i) {
                made.at(id).push_back(heap.blocks().allocate(64, 8));
            }
        });
        in_threads(count, [&](std::size_t id) {  // each frees of every thread's blocks, in turns
            for (std::size_t i = id; i < 3000; i += count) {
                for (const auto& blocks : made) {
                    ASSERT_TRUE(heap.blocks().try_free(blocks[i]));
                }
            }
        });
        EXPECT_THAT(heap.problems(), IsEmpty());
        for (auto& blocks : made) {
            blocks.clear();
        }
    }
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    // Frees at once may not have been counted; a call that makes slabs finds the empty ones.
    const std::uint64_t before = heap.extents().frontier().value;
    std::vector<void*> others;
    for (int i = 0; i < 400; ++i) {
        others.push_back(heap.blocks().allocate(16384, 8));
    }
    EXPECT_LE(heap.blocks().inspect().statistics().slabs, 100 + std::size_t{2} * std::thread::hardware_concurrency());
    EXPECT_LE(heap.extents().frontier().value, before + 1600);
    for (void* const block : others) {
        ASSERT_TRUE(heap.blocks().try_free(block));
    }
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(slab_thread_test, heaps_are_closed_while_other_threads_end) {
    for (int round = 0; round < 100; ++round) {
        auto heap = std::make_unique<test_heap>(std::uint64_t{64} << 20);
        std::atomic<int> done{0};
        std::vector<std::thread> threads;
        threads.reserve(3);
        for (int id = 0; id < 3; ++id) {
            threads.emplace_back([&] {
                void* const block = heap->blocks().allocate(64, 8);
                EXPECT_TRUE(heap->blocks().try_free(block));
                ++done;
            });  // and ends, while the heap is closed
        }
        while (done != 3) {
            std::this_thread::yield();
        }
        heap->blocks().close();
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
}

}  // namespace
}  // namespace holdfast::slab
