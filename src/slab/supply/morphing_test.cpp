// Morphed slabs: older live blocks keep their content, and blocks that overlap none of them are used.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/pool/slab_check.hpp"
#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class morphing_test : public ::testing::Test {
protected:
    [[nodiscard]] std::byte* allocate(std::size_t bytes) {
        auto* const block = static_cast<std::byte*>(heap_.blocks().allocate(bytes, 1));
        EXPECT_NE(block, nullptr) << block_allocator::last_failure().message();
        return block;
    }
    void free(void* block) { ASSERT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message(); }
    [[nodiscard]] bool morph(base::granule slab, std::size_t bytes, unsigned overlapped_at_most = 100) {
        return heap_.blocks().morph(slab, class_for(bytes, 1), overlapped_at_most);
    }
    /// Only the blocks at the indices are live, and no thread has a part.
    [[nodiscard]] std::vector<std::byte*> sparse_slab(std::size_t bytes, const std::set<std::uint32_t>& indices) {
        const std::vector<std::byte*> all = heap_.whole_slab(bytes);
        std::vector<std::byte*> kept;
        for (std::uint32_t i = 0; i < all.size(); ++i) {
            if (indices.contains(i)) {
                kept.push_back(all[i]);
            } else {
                free(all[i]);
            }
        }
        heap_.blocks().small().flush_this_thread();
        return kept;
    }
    [[nodiscard]] std::uint32_t block_size_in(base::granule slab) const {
        return heap_.space().view().slab_header(slab).block_size;
    }

    mutable test_heap heap_;
};

TEST_F(morphing_test, keeps_live_blocks_and_hands_out_what_lies_between) {
    const std::vector<std::byte*> old = sparse_slab(112, {0, 101, 584});
    const base::granule slab = heap_.granule_of(old[0]);
    ASSERT_TRUE(morph(slab, 160));
    EXPECT_EQ(block_size_in(slab), 160U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    for (std::byte* const block : old) {
        EXPECT_EQ(heap_.blocks().inspect().usable_size(block).value(), 112U);
    }

    // 409 blocks of 160 bytes: one lies behind block 0, two behind block 101 (11,312 to 11,424), the last behind 584.
    std::set<std::byte*> fresh;
    for (std::byte* block = allocate(160); heap_.granule_of(block) == slab; block = allocate(160)) {
        fresh.insert(block);
    }
    EXPECT_EQ(fresh.size(), 409U - 1 - 2 - 1);
    for (std::byte* const block : fresh) {
        for (std::byte* const other : old) {
            EXPECT_TRUE(block + 160 <= other || other + 112 <= block);
        }
        EXPECT_EQ(heap_.blocks().inspect().usable_size(block).value(), 160U);
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());

    for (std::byte* const block : old) {
        free(block);
        EXPECT_FALSE(heap_.blocks().try_free(block));
        EXPECT_THAT(block_allocator::last_failure().message(), HasSubstr("bytes"));
    }
    std::size_t again = 0;
    for (int i = 0; i < 1000; ++i) {
        if (i % 200 == 0) {
            heap_.blocks().small().release_unused();  // lists slabs with however few free blocks
        }
        again += heap_.granule_of(allocate(160)) == slab ? 1U : 0U;
    }
    EXPECT_EQ(again, 4U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(morphing_test, refuses_what_is_not_the_start_of_a_block) {
    const std::vector<std::byte*> old = sparse_slab(112, {9});
    ASSERT_TRUE(morph(heap_.granule_of(old[0]), 96));
    std::byte* const first = old[0] - std::size_t{9} * 112;
    for (std::uint64_t at = 0; at < base::granule_size; ++at) {
        if (first + at != old[0]) {
            EXPECT_FALSE(heap_.blocks().try_free(first + at)) << at;
        }
    }
    EXPECT_FALSE(heap_.blocks().inspect().usable_size(old[0] + 16).ok());
    EXPECT_FALSE(heap_.blocks().try_free(old[0] + 16));
    EXPECT_THAT(block_allocator::last_failure().message(), HasSubstr("inside a block of 112 bytes"));
    free(old[0]);
}

TEST_F(morphing_test, counts_and_lists_both_in_order_of_address) {
    const std::vector<std::byte*> old = sparse_slab(64, {3, 500, 1000});
    ASSERT_TRUE(morph(heap_.granule_of(old[0]), 256));
    for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(heap_.granule_of(allocate(256)), heap_.granule_of(old[0]));
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
    heap_.blocks().inspect().for_each_block(
        [&](base::heap_offset offset, std::uint64_t bytes, std::uint32_t) { seen.emplace_back(offset.value, bytes); });
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](auto& each) { return each.second == 64; }), 3);
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](auto& each) { return each.second == 256; }), 100);
    const block_statistics counted = heap_.blocks().inspect().statistics();
    EXPECT_EQ(counted.small_blocks, 103U);
    EXPECT_EQ(counted.small_bytes, 3U * 64 + 100U * 256);
    const slab_occupancy slab = heap_.blocks().inspect().occupancy(heap_.granule_of(old[0]));
    EXPECT_EQ(slab.old_block_size, 64U);
    EXPECT_EQ(slab.old_live_blocks, 3U);
    EXPECT_EQ(slab.live_blocks, 100U);
}

TEST_F(morphing_test, outlives_the_process) {
    std::vector<std::byte*> old = sparse_slab(112, {5, 6, 300});
    const base::granule slab = heap_.granule_of(old[0]);
    ASSERT_TRUE(morph(slab, 160));
    std::byte* const fresh = allocate(160);
    ASSERT_EQ(heap_.granule_of(fresh), slab);
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(heap_.reopen().ok());
        EXPECT_EQ(heap_.blocks().inspect().statistics().small_blocks, 4U);
        EXPECT_EQ(heap_.blocks().inspect().usable_size(fresh).value(), 160U);
        EXPECT_EQ(heap_.blocks().inspect().usable_size(old[2]).value(), 112U);
        EXPECT_THAT(heap_.problems(), IsEmpty());
    }
    free(old[0]);  // before anything has loaded the slab
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free(old[1]);
    free(old[2]);
    free(fresh);
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_EQ(heap_.blocks().inspect().statistics().small_blocks, 0U);
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(morphing_test, again_and_back) {
    std::vector<std::byte*> kept = sparse_slab(112, {50});
    const base::granule slab = heap_.granule_of(kept[0]);
    const std::size_t sizes[] = {160, 112, 1024, 16, 2048, 160};
    heap_.blocks().slabs().write_bitmaps();  // bits of the first class stay on media while the slab has two others
    for (const std::size_t size : sizes) {
        EXPECT_FALSE(morph(slab, block_size_in(slab)));  // of that class already
        ASSERT_TRUE(morph(slab, size)) << size;
        EXPECT_FALSE(morph(slab, size == 64 ? 80 : 64)) << "blocks of two classes are live";
        std::byte* const fresh = allocate(size);
        ASSERT_EQ(heap_.granule_of(fresh), slab);
        EXPECT_THAT(heap_.problems(), IsEmpty());
        free(kept[0]);
        kept[0] = fresh;
        heap_.blocks().small().flush_this_thread();
        heap_.blocks().small().release_unused();
        EXPECT_THAT(heap_.problems(), IsEmpty());
        if (size == 1024) {
            ASSERT_TRUE(heap_.reopen().ok());
            EXPECT_EQ(heap_.blocks().inspect().usable_size(fresh).value(), size);
            free(fresh);
            kept[0] = allocate(size);
            heap_.blocks().small().flush_this_thread();
        }
    }
}

TEST_F(morphing_test, leaves_slabs_alone_that_are_in_use_or_full_or_not_fit_for_it) {
    std::byte* const in_use = allocate(112);
    EXPECT_FALSE(morph(heap_.granule_of(in_use), 160)) << "this thread has a part of it";
    free(in_use);
    heap_.blocks().small().flush_this_thread();
    EXPECT_FALSE(morph(heap_.granule_of(in_use), 160)) << "it is empty: the bin's spare";
    const std::vector<std::byte*> small = sparse_slab(8, {1});
    EXPECT_FALSE(morph(heap_.granule_of(small[0]), 160)) << "a whole bitmap is in use";
    const std::vector<std::byte*> old = sparse_slab(1024, {1, 30});
    EXPECT_FALSE(morph(heap_.granule_of(old[0]), 8)) << "a whole bitmap would be";
    EXPECT_FALSE(morph(heap_.granule_of(old[0]), 16384, 40)) << "half of the four blocks would be overlapped";
    EXPECT_TRUE(morph(heap_.granule_of(old[0]), 16384, 50));
    EXPECT_FALSE(morph({0}, 160)) << "no slab";
    void* const typed = heap_.blocks().allocate_typed(112, 1, 7);
    EXPECT_FALSE(morph(heap_.granule_of(typed), 160)) << "its blocks have a type";
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(morphing_test, overlapping_blocks_on_media_are_found) {
    const std::vector<std::byte*> old = sparse_slab(112, {100});
    const base::granule slab = heap_.granule_of(old[0]);
    ASSERT_TRUE(morph(slab, 160));
    std::byte* const fresh = allocate(160);
    ASSERT_TRUE(heap_.reopen().ok());
    heap_.space().view().live_bitmap(slab)[segment::upper_bitmap_word + 1] |= std::uint64_t{1} << (70 - 64);  // 11,200
    EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-12")));
    EXPECT_FALSE(heap_.blocks().try_free(fresh));
    EXPECT_EQ(block_allocator::last_failure().code, base::failure_code::corrupt);
}

/// Blocks of the second size find room in slabs of the first.
TEST_F(morphing_test, saves_space_when_sizes_change) {
    std::mt19937_64 random(5);
    std::vector<std::byte*> live;
    for (int i = 0; i < 40'000; ++i) {
        live.push_back(allocate(100));
    }
    std::shuffle(live.begin(), live.end(), random);
    for (; live.size() > 4'000; live.pop_back()) {
        free(live.back());
    }
    const std::uint64_t before = heap_.blocks().inspect().statistics().slabs;
    for (int i = 0; i < 20'000; ++i) {
        live.push_back(allocate(130));
    }
    EXPECT_LE(heap_.blocks().inspect().statistics().slabs, before + 5);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    for (std::byte* const block : live) {
        free(block);
    }
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
}

/// Each block bears a pattern that no other one may touch.
TEST_F(morphing_test, agrees_with_a_model) {
    std::mt19937_64 random(11);
    struct model_block {
        std::size_t bytes;
        unsigned char pattern;
    };
    std::map<std::byte*, model_block> live;
    constexpr std::size_t sizes[] = {16, 48, 100, 130, 250, 1000, 3000, 9000};
    const auto remove = [&](auto at) {
        const auto [block, what] = *at;
        EXPECT_GE(heap_.blocks().inspect().usable_size(block).value(), what.bytes);
        for (std::size_t i = 0; i < what.bytes; i += 7) {
            ASSERT_EQ(static_cast<unsigned char>(block[i]), what.pattern);
        }
        free(block);
        live.erase(at);
    };
    std::uint64_t morphed = 0;
    for (int round = 0; round < 300; ++round) {
        const std::size_t size = sizes[random() % std::size(sizes)];
        for (int i = 0; i < 400; ++i) {
            std::byte* const block = allocate(size);
            const auto pattern = static_cast<unsigned char>(random());
            std::memset(block, pattern, size);
            ASSERT_TRUE(live.emplace(block, model_block{size, pattern}).second);
        }
        for (std::size_t i = live.size() * 4 / 5; i != 0; --i) {
            auto at = live.lower_bound(live.begin()->first + random() % (8 * base::mebibyte));
            remove(at == live.end() ? live.begin() : at);
        }
        if (random() % 4 == 0) {
            heap_.blocks().small().flush_this_thread();
        }
        for (base::granule slab{1}; slab.value < heap_.extents().frontier().value / base::pages_per_granule;
             ++slab.value) {
            morphed += random() % 8 == 0 && morph(slab, sizes[random() % std::size(sizes)]) ? 1U : 0U;
        }
        if (random() % 16 == 0) {
            ASSERT_TRUE(heap_.reopen().ok());
        }
        if (random() % 8 == 0) {
            heap_.blocks().slabs().write_bitmaps();
        }
        if (round % 10 == 0) {
            ASSERT_THAT(heap_.problems(), IsEmpty()) << round;
            std::size_t listed = 0;
            heap_.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t, std::uint32_t) {
                listed += live.contains(heap_.space().view().address(offset)) ? 1U : 0U;
            });
            ASSERT_EQ(listed, live.size());
        }
    }
    EXPECT_GT(morphed, 100U);
    while (!live.empty()) {
        remove(live.begin());
    }
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

/// Slabs move to bins of other arenas while threads that freed their blocks look at them. Which threads meet is chance.
TEST_F(morphing_test, by_threads_that_read_each_others_slabs) {
    constexpr unsigned threads = 4;
    constexpr std::size_t sizes[] = {112, 208, 448, 1024, 2048};
    constexpr int rounds = 400;
    constexpr std::size_t most = 3'000;  // some slabs of each size
    std::vector<std::thread> all;
    for (unsigned thread = 0; thread < threads; ++thread) {
        all.emplace_back([&, thread] {
            std::mt19937_64 random(thread);
            std::vector<void*> mine;
            for (int round = 0; round < rounds; ++round) {
                const std::size_t size = sizes[(static_cast<unsigned>(round) + thread) % std::size(sizes)];
                for (std::size_t i = 0; i < most * 112 / size; ++i) {
                    mine.push_back(heap_.blocks().allocate(size, 8));
                    EXPECT_NE(mine.back(), nullptr);
                }
                std::shuffle(mine.begin(), mine.end(), random);
                for (std::size_t left = mine.size() * 95 / 100; left > 0; --left) {
                    EXPECT_TRUE(heap_.blocks().try_free(mine.back()));
                    mine.pop_back();
                }
            }
            for (void* const block : mine) {
                EXPECT_TRUE(heap_.blocks().try_free(block));
            }
        });
    }
    for (std::thread& each : all) {
        each.join();
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
}

TEST_F(morphing_test, while_other_threads_free) {
    constexpr int threads = 3;
    constexpr int rounds = 60;
    constexpr std::size_t sizes[] = {48, 100, 130, 500};
    std::array<std::atomic<std::byte*>, 4096> exchange{};
    std::atomic<std::uint64_t> wrong{0};
    const auto work = [&](int number) {
        std::mt19937_64 random(static_cast<std::uint64_t>(number));
        for (int round = 0; round < rounds; ++round) {
            const std::size_t size = sizes[(static_cast<std::size_t>(round) / 8) % std::size(sizes)];
            for (int i = 0; i < 1500; ++i) {
                std::byte* const block = static_cast<std::byte*>(heap_.blocks().allocate(size, 1));
                if (block == nullptr || !heap_.swap_in(exchange[random() % exchange.size()], block, size)) {
                    ++wrong;
                    return;
                }
            }
            for (int i = 0; i < 8; ++i) {
                const base::granule slab{1 + random() % 60};
                static_cast<void>(heap_.blocks().morph(slab, class_for(sizes[random() % std::size(sizes)], 1), 95));
            }
            heap_.blocks().small().flush_this_thread();
        }
    };
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
        running.emplace_back(work, i);
    }
    for (std::thread& each : running) {
        each.join();
    }
    EXPECT_EQ(wrong, 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    for (auto& each : exchange) {
        if (each != nullptr) {
            free(each);
        }
    }
    heap_.blocks().small().release_unused();
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::slab
