#include "slab/slab.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.hpp"
#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

using base::failure_code;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::uint64_t address_of(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }
std::byte* inside(void* block, std::uint64_t by) { return static_cast<std::byte*>(block) + by; }

class slab_test : public testing::Test {
protected:
    void* allocate(std::size_t bytes, std::size_t alignment = 8) {
        void* const block = heap_.blocks().allocate(bytes, alignment);
        EXPECT_NE(block, nullptr) << block_allocator::last_failure().message();
        return block;
    }
    void free(void* block) { EXPECT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message(); }
    void expect_refused(const void* block, const char* why, failure_code code = failure_code::bad_address) {
        const auto refused = heap_.blocks().free(const_cast<void*>(block));
        ASSERT_FALSE(refused.ok()) << why;
        EXPECT_EQ(refused.error().code, code) << refused.error().message();
        EXPECT_THAT(refused.error().found, HasSubstr(why));
        EXPECT_THAT(refused.error().field, HasSubstr(fmt::format("{:#x}", address_of(block))));
        EXPECT_EQ(heap_.blocks().inspect().usable_size(block).error().code, code);
    }

    void free_one_of_each_class() {
        for (const size_class& size : size_classes) {
            free(allocate(size.block_size));
        }
    }

    test_heap heap_;
};

TEST_F(slab_test, blocks_are_writable_and_distinct) {
    std::set<void*> blocks;
    for (std::size_t bytes = 1; bytes < 40'000; bytes += bytes / 8 + 1) {
        for (int i = 0; i < 20; ++i) {
            void* const block = allocate(bytes);
            std::memset(block, i, bytes);
            EXPECT_TRUE(blocks.insert(block).second);
            EXPECT_GE(*heap_.blocks().inspect().usable_size(block), bytes);
        }
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(heap_.blocks().inspect().statistics().allocated_blocks, blocks.size());
    for (void* const block : blocks) {
        free(block);
    }
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, every_alignment_up_to_two_mebibytes_is_kept) {
    std::vector<void*> blocks;
    for (std::size_t alignment = 1; alignment <= maximum_alignment; alignment *= 2) {
        for (const std::size_t bytes : {std::size_t{1}, std::size_t{24}, alignment, alignment + 1, 3 * alignment}) {
            blocks.push_back(allocate(bytes, alignment));
            EXPECT_EQ(address_of(blocks.back()) % alignment, 0U);
            EXPECT_GE(*heap_.blocks().inspect().usable_size(blocks.back()), bytes);
        }
    }
    for (void* const block : blocks) {
        free(block);
    }
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
}

TEST_F(slab_test, absurd_requests_are_refused_with_a_reason) {
    const std::pair<std::size_t, std::size_t> absurd[] = {
        {0, 8}, {8, 0}, {8, 24}, {8, 2 * maximum_alignment}, {0, 0}, {~std::size_t{0}, 3}};
    for (const auto& [bytes, alignment] : absurd) {
        EXPECT_EQ(heap_.blocks().allocate(bytes, alignment), nullptr);
        EXPECT_EQ(block_allocator::last_failure().code, failure_code::invalid_argument);
    }
    for (const std::size_t bytes :
         {~std::size_t{0}, std::size_t{1} << 63, std::size_t{1} << 47, std::size_t{5} << 30}) {
        EXPECT_EQ(heap_.blocks().allocate(bytes, maximum_alignment), nullptr);
        EXPECT_EQ(block_allocator::last_failure().code, failure_code::limit);
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, wrong_frees_are_named_and_change_nothing) {
    void* const small = allocate(48);
    void* const big = allocate(100'000);
    void* const once = allocate(48);
    free(once);
    std::byte* const base = heap_.space().view().base();
    const auto before = heap_.blocks().inspect().statistics();
    expect_refused(nullptr, "outside");
    expect_refused(&before, "outside");
    expect_refused(base - 8, "outside");
    expect_refused(base + base::to_bytes(heap_.extents().frontier()), "outside");
    expect_refused(base, "roots");
    expect_refused(base + 4096, "inside an extent");
    expect_refused(base + 64, "roots");
    expect_refused(inside(small, 8), "inside a block of 48 bytes");
    expect_refused(inside(big, 8), "inside a block of whole pages");
    expect_refused(inside(big, 4096), "inside an extent");
    expect_refused(once, "freed already");
    void* const slab = base + base::align_down(address_of(small) - address_of(base), base::granule_size);
    expect_refused(inside(slab, 48 * 1365), "unused end");
    EXPECT_EQ(heap_.blocks().inspect().statistics().allocated_bytes, before.allocated_bytes);
    free(small);
    free(big);
    expect_refused(big, "free memory");
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, memory_is_reused_and_united) {
    for (int round = 0; round < 5; ++round) {
        std::vector<void*> blocks;
        blocks.reserve(20'000);
        for (int i = 0; i < 20'000; ++i) {
            blocks.push_back(allocate(static_cast<std::size_t>(16 + 16 * (i % 40))));
        }
        for (void* const block : blocks) {
            free(block);
        }
    }
    EXPECT_LE(heap_.extents().frontier().value, 4096U);
    heap_.blocks().small().flush_this_thread();
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_LE(heap_.blocks().inspect().statistics().slabs, class_count);  // the one spare of each bin in use
}

std::vector<void*> exhaust(block_allocator& blocks, std::size_t bytes) {
    std::vector<void*> all;
    while (void* const block = blocks.allocate(bytes, 8)) {
        all.push_back(block);
    }
    EXPECT_EQ(block_allocator::last_failure().code, failure_code::no_space);
    return all;
}

TEST_F(slab_test, when_space_runs_out_all_that_is_kept_back_is_used) {
    constexpr std::uint64_t capacity = 4 * base::mebibyte;
    heap_.space().set_capacity(capacity);
    for (int round = 0; round < 2; ++round) {
        for (const std::size_t bytes : {8UL, 64UL, 640UL, 4096UL, 14336UL, 65536UL, 1048576UL}) {
            test_heap fresh(extent::fake_space::default_reservation, capacity);
            const std::vector<void*> blocks = exhaust(heap_.blocks(), bytes);
            EXPECT_EQ(blocks.size(), exhaust(fresh.blocks(), bytes).size()) << bytes;
            ASSERT_THAT(heap_.problems(), IsEmpty());
            for (void* const block : blocks) {
                free(block);
            }
        }
    }
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
}

TEST_F(slab_test, free_blocks_of_other_arenas_are_found_when_space_runs_out) {
    heap_.space().set_capacity(4 * base::mebibyte);
    std::vector<void*> blocks = exhaust(heap_.blocks(), 64);
    for (unsigned arena = 0; arena < 2 * std::thread::hardware_concurrency(); ++arena) {
        for (std::size_t i = 0; i < 100; ++i) {
            free(blocks[i * 7]);
        }
        heap_.blocks().small().flush_this_thread();
        std::thread([&] {
            for (std::size_t i = 0; i < 100; ++i) {
                blocks[i * 7] = allocate(64);
            }
        }).join();
    }
    EXPECT_EQ(heap_.blocks().allocate(64, 8), nullptr);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, where_space_is_short_free_blocks_cost_no_attempts_to_grow) {
    heap_.space().set_capacity(4 * base::mebibyte);
    std::vector<void*> blocks = exhaust(heap_.blocks(), 64);
    const auto swap_some = [&] {
        for (std::size_t i = 0; i < 1000; ++i) {
            void*& block = blocks[i * 7919 % blocks.size()];
            free(block);
            block = heap_.blocks().allocate(64, 8);
            ASSERT_NE(block, nullptr) << i;
        }
    };
    const std::uint64_t before = heap_.space().refused();
    ASSERT_GT(before, 0U);
    swap_some();
    heap_.blocks().small().flush_this_thread();
    std::thread(swap_some).join();  // of another arena
    EXPECT_EQ(heap_.space().refused(), before);

    heap_.space().set_capacity(8 * base::mebibyte);
    const std::vector<void*> more = exhaust(heap_.blocks(), 64);
    EXPECT_GT(more.size(), blocks.size() * 9 / 10);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, where_space_is_short_a_thread_without_a_cache_finds_blocks_of_other_arenas) {
    heap_.space().set_capacity(4 * base::mebibyte);
    free(allocate(64));  // this thread has the first arena, which such threads ask
    heap_.blocks().small().flush_this_thread();
    std::vector<void*> blocks;
    std::thread([&] { blocks = exhaust(heap_.blocks(), 64); }).join();
    const std::uint64_t before = heap_.space().refused();
    std::vector<held_block> held(100);
    for (std::size_t i = 0; i < held.size(); ++i) {
        free(blocks[i * 7]);
        ASSERT_TRUE(heap_.blocks().hold(nullptr, 64, 8, held[i])) << i;
    }
    EXPECT_EQ(heap_.space().refused(), before);
    for (const held_block& each : held) {
        heap_.blocks().release(nullptr, each);
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, a_walk_sees_every_block_and_may_free_it) {
    std::set<std::uint64_t> expected;
    for (std::size_t i = 1; i < 3000; ++i) {
        expected.insert(heap_.space().view().offset(allocate(i * 11)).value);
    }
    std::set<std::uint64_t> seen;
    std::uint64_t bytes = 0;
    heap_.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t size, std::uint32_t) {
        EXPECT_TRUE(seen.insert(offset.value).second);
        bytes += size;
    });
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(heap_.blocks().inspect().statistics().allocated_bytes, bytes);
    heap_.blocks().inspect().for_each_block(
        [&](base::heap_offset offset, std::uint64_t, std::uint32_t) { free(heap_.space().view().address(offset)); });
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, a_reopened_heap_knows_what_is_allocated) {
    std::vector<void*> kept;
    for (std::size_t i = 0; i < 20'000; ++i) {
        void* const block = allocate(8 + i % 500);
        if (i % 3 == 0) {
            kept.push_back(block);
        } else {
            free(block);
        }
    }
    kept.push_back(allocate(1'000'000));
    const auto before = heap_.blocks().inspect().statistics();
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(heap_.blocks().inspect().statistics().allocated_bytes, before.allocated_bytes);
    for (void* const block : kept) {
        EXPECT_TRUE(heap_.blocks().inspect().usable_size(block).ok());
    }
    const std::set<void*> old(kept.begin(), kept.end());
    std::set<void*> fresh;
    for (std::size_t i = 0; i < 10'000; ++i) {
        void* const block = allocate(8 + i % 500);
        EXPECT_TRUE(fresh.insert(block).second);
        EXPECT_FALSE(old.contains(block));
    }
    EXPECT_THAT(heap_.problems(), IsEmpty());
    for (void* const block : kept) {
        free(block);
        EXPECT_FALSE(heap_.blocks().try_free(block));
    }
    for (void* const block : fresh) {
        free(block);
    }
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, a_reopened_heap_fills_its_slabs_before_it_grows) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < 100'000; ++i) {
        blocks.push_back(allocate(64));
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        free(blocks[i]);
    }
    const auto slabs = heap_.blocks().inspect().statistics().slabs;
    ASSERT_TRUE(heap_.reopen().ok());
    for (std::size_t i = 0; i < blocks.size() / 2; ++i) {
        allocate(64);
    }
    EXPECT_LE(heap_.blocks().inspect().statistics().slabs, slabs + 1);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, opening_writes_nothing) {
    for (std::size_t i = 0; i < 1000; ++i) {
        allocate(100);
    }
    const auto& view = heap_.space().view();
    const std::uint64_t size = view.shape().metadata_size();
    heap_.blocks().slabs().write_bitmaps();
    const std::vector<std::byte> before(view.metadata_of(0), view.metadata_of(0) + size);
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_THAT(heap_.problems(), IsEmpty());
    EXPECT_EQ(std::memcmp(before.data(), view.metadata_of(0), size), 0);
}

TEST_F(slab_test, threads_that_end_give_their_blocks_back) {
    for (int i = 0; i < 50; ++i) {
        std::thread([&] {
            std::vector<void*> blocks;
            blocks.reserve(500);
            for (int k = 0; k < 500; ++k) {
                blocks.push_back(allocate(256));
            }
            for (void* const block : blocks) {
                free(block);
            }
        }).join();
        ASSERT_THAT(heap_.problems(), IsEmpty());
    }
    EXPECT_LE(heap_.blocks().inspect().statistics().slabs, std::size_t{std::thread::hardware_concurrency()} + 1);
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
}

/// Uses the heap while the thread's objects are destroyed, after its caches.
struct late_user {
    block_allocator* blocks = nullptr;
    void* kept = nullptr;
    ~late_user() {
        if (blocks != nullptr) {
            EXPECT_TRUE(blocks->try_free(kept));
            void* const block = blocks->allocate(64, 8);
            EXPECT_NE(block, nullptr);
            EXPECT_TRUE(blocks->try_free(block));
            EXPECT_FALSE(blocks->try_free(block));
        }
    }
};

TEST_F(slab_test, a_thread_may_use_the_heap_after_its_caches_are_gone) {
    std::thread([&] {
        static thread_local late_user user;  // constructed before the caches, so destroyed after them
        user.blocks = &heap_.blocks();
        user.kept = allocate(64);
    }).join();
    EXPECT_TRUE(heap_.blocks().inspect().all_free());
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST(slab_heaps_test, many_heaps_live_in_one_process) {
    std::vector<std::unique_ptr<test_heap>> heaps;
    heaps.reserve(20);
    std::vector<void*> blocks;
    for (int i = 0; i < 20; ++i) {
        heaps.push_back(std::make_unique<test_heap>(64 * base::mebibyte));
    }
    for (int round = 0; round < 100; ++round) {
        for (const auto& heap : heaps) {
            blocks.push_back(heap->blocks().allocate(64, 8));
            const auto offset = heap->space().view().offset(blocks.back());
            ASSERT_LT(offset.value, heap->space().view().reservation());
        }
    }
    ASSERT_FALSE(heaps[0]->blocks().try_free(blocks[1]));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        ASSERT_TRUE(heaps[i % heaps.size()]->blocks().try_free(blocks[i]));
    }
    for (const auto& heap : heaps) {
        EXPECT_TRUE(heap->blocks().inspect().all_free());
        EXPECT_THAT(heap->problems(), IsEmpty());
    }
}

TEST(slab_heaps_test, heaps_come_and_go_while_threads_live_on) {
    for (int round = 0; round < 50; ++round) {
        test_heap first(64 * base::mebibyte);
        test_heap second(64 * base::mebibyte);
        void* const a = first.blocks().allocate(100, 8);
        void* const b = second.blocks().allocate(100, 8);
        ASSERT_TRUE(second.blocks().try_free(b));
        ASSERT_TRUE(first.reopen().ok());
        ASSERT_TRUE(first.blocks().try_free(a));
        EXPECT_THAT(first.problems(), IsEmpty());
        first.blocks().close();
        first.blocks().close();
    }
}

TEST_F(slab_test, a_damaged_slab_is_quarantined) {
    void* const block = allocate(64);
    void* const other = allocate(32);
    const auto damage = [&](auto change, const char* expected) {
        auto& header = heap_.space().view().slab_header(heap_.granule_of(block));
        const auto good = header;
        change(header);
        ASSERT_TRUE(heap_.reopen().ok());
        EXPECT_THAT(heap_.problems(), Contains(HasSubstr(expected)));
        expect_refused(block, "damaged", failure_code::corrupt);
        EXPECT_NE(heap_.granule_of(allocate(64)), heap_.granule_of(block));
        EXPECT_EQ(heap_.blocks().inspect().statistics().quarantined_slabs, 1U);
        EXPECT_TRUE(heap_.blocks().inspect().usable_size(other).ok());
        heap_.space().view().slab_header(heap_.granule_of(block)) = good;
    };
    damage([](auto& header) { header.block_size = 20; }, "SLAB-1");
    damage([](auto& header) { header.block_size = 0; }, "SLAB-1");
    damage([](auto& header) { header.block_size = ~0U; }, "SLAB-1");
    damage([](auto& header) { header.block_count = 1023; }, "SLAB-2");
    damage([](auto& header) { header.flags = 4; }, "SLAB-3");
    damage([](auto& header) { header.flags = 0x8000; }, "SLAB-3");
    damage([](auto& header) { header.flags = segment::encode(segment::slab_flags{true, 20}); }, "SLAB-3");
    damage([](auto& header) { header.flags = segment::encode(segment::slab_flags{true, 8}); }, "SLAB-3");
    damage([](auto& header) { header.flags = segment::encode(segment::slab_flags{true, 0}); }, "SLAB-4");
    damage(
        [](auto& header) {
            header.flags = segment::encode(segment::slab_flags{false, 0, true});
            header.type = 5;
        },
        "SLAB-3");
    damage([](auto& header) { header.reserved[4] = 1; }, "SLAB-3");
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_THAT(heap_.problems(), IsEmpty());
    free(block);
}

TEST_F(slab_test, live_bits_beyond_the_blocks_are_found_when_the_slab_is_loaded) {
    void* const block = allocate(48);
    std::uint64_t* const bitmap = heap_.space().view().live_bitmap(heap_.granule_of(block));
    heap_.blocks().slabs().write_bitmaps();
    for (const std::size_t word : {21U, 22U, 127U}) {
        bitmap[word] ^= std::uint64_t{1} << 63;
        ASSERT_TRUE(heap_.open_again().ok());
        EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-4")));
        EXPECT_FALSE(heap_.blocks().try_free(block));
        EXPECT_EQ(block_allocator::last_failure().code, failure_code::corrupt);
        bitmap[word] ^= std::uint64_t{1} << 63;
    }
    ASSERT_TRUE(heap_.open_again().ok());
    free(block);
}

TEST_F(slab_test, live_bits_of_a_granule_that_several_extents_share_are_found) {
    const base::granule shared = heap_.granule_of(allocate(20'000));
    allocate(20'000);
    std::uint64_t* const bitmap = heap_.space().view().live_bitmap(shared);
    bitmap[3] = 1;
    ASSERT_TRUE(heap_.reopen().ok());
    EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-4")));
    bitmap[3] = 0;
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, check_compares_media_with_what_is_known_of_it) {
    void* const block = allocate(64);
    const base::granule slab = heap_.granule_of(block);
    heap_.blocks().small().flush_this_thread();
    heap_.blocks().slabs().write_bitmaps();
    std::uint64_t* const bitmap = heap_.space().view().live_bitmap(slab);
    EXPECT_EQ(bitmap[0], 1U);
    for (const std::size_t word : {0U, 15U}) {
        bitmap[word] ^= 2;
        EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-5")));
        bitmap[word] ^= 2;
    }
    heap_.space().view().slab_header(slab).block_size = 32;
    heap_.space().view().slab_header(slab).block_count = 2048;
    EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-7")));
    heap_.space().view().slab_header(slab).block_size = 64;
    heap_.space().view().slab_header(slab).block_count = 1024;
    heap_.space().view().live_bitmap({20})[3] = 1;
    EXPECT_THAT(heap_.problems(), Contains(HasSubstr("SLAB-4")));
    heap_.space().view().live_bitmap({20})[3] = 0;
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

TEST_F(slab_test, bitmaps_follow_when_they_are_written) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < 3000; ++i) {
        blocks.push_back(allocate(8 + i % 90));
    }
    const auto live_on_media = [&] {
        std::size_t bits = 0;
        for (base::granule slab{0}; slab.value < heap_.extents().frontier().value / 16; ++slab.value) {
            for (std::size_t word = 0; word < bitmap_words; ++word) {
                bits += static_cast<std::size_t>(std::popcount(heap_.space().view().live_bitmap(slab)[word]));
            }
        }
        return bits;
    };
    for (std::size_t left = blocks.size(); left > 100; left /= 2) {
        heap_.blocks().slabs().write_bitmaps();
        EXPECT_EQ(live_on_media(), blocks.size());
        EXPECT_THAT(heap_.problems(), IsEmpty());
        for (; blocks.size() > left / 2; blocks.pop_back()) {
            free(blocks.back());
        }
        EXPECT_THAT(heap_.problems(), IsEmpty());
        blocks.push_back(allocate(40));
    }
    for (void* const block : blocks) {
        free(block);
        EXPECT_FALSE(heap_.blocks().try_free(block));
    }
    heap_.blocks().small().release_unused();
    EXPECT_EQ(live_on_media(), 0U) << "of slabs that are gone";
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
}

TEST_F(slab_test, a_thread_keeps_slabs_and_gives_them_back_when_it_ends) {
    free_one_of_each_class();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, class_count);
    EXPECT_THAT(heap_.problems(), IsEmpty());
    for (int turn = 0; turn < 3; ++turn) {
        for (unsigned arena = 0; arena < std::thread::hardware_concurrency();
             ++arena) {  // one of them is this thread's
            std::thread([&] {
                free_one_of_each_class();
                EXPECT_THAT(heap_.problems(), IsEmpty());
            }).join();
        }
        EXPECT_LE(heap_.blocks().inspect().statistics().slabs,
                  class_count * (std::thread::hardware_concurrency() + 1UL));
    }
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
}

TEST_F(slab_test, where_many_threads_have_come_each_keeps_parts_and_others_take_the_rest) {
    const unsigned many = threads_an_arena * std::thread::hardware_concurrency();
    std::latch all_came(many + 1);
    std::latch end(1);
    std::vector<std::jthread> others;
    for (unsigned i = 0; i < many; ++i) {
        others.emplace_back([&] {
            free(allocate(segment::least_morphed_block));
            all_came.count_down();
            end.wait();
        });
    }
    all_came.arrive_and_wait();
    const std::uint64_t before = heap_.blocks().inspect().statistics().slabs;
    free_one_of_each_class();
    EXPECT_LE(heap_.blocks().inspect().statistics().slabs, before + class_count);
    for (unsigned arena = 0; arena < std::thread::hardware_concurrency(); ++arena) {
        std::thread([&] {
            free_one_of_each_class();
            EXPECT_THAT(heap_.problems(), IsEmpty());
        }).join();
    }
    const auto unshared =
        std::ranges::count_if(size_classes, [](const size_class& size) { return parts_of(size) == 1; });
    EXPECT_LE(
        heap_.blocks().inspect().statistics().slabs,
        before + class_count * std::size_t{std::thread::hardware_concurrency()} + static_cast<std::size_t>(unshared));
    end.count_down();
    others.clear();
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
}

TEST(slab_open_test, opening_a_heap_of_four_gibibytes_of_slabs_reads_no_bitmaps) {
    test_heap heap(8 * base::gibibyte, ~std::uint64_t{0}, 64 * base::mebibyte, 256 * base::mebibyte);
    constexpr int slabs = 65'536;
    for (int i = 0; i < slabs; ++i) {
        const auto page = heap.extents().allocate({16}, {16}, segment::extent_kind::slab);
        ASSERT_TRUE(page.ok());
        const base::granule slab = base::granule_of(*page);
        heap.space().view().slab_header(slab) = {64, 1024, 0, 0, {}};
        heap.space().view().live_bitmap(slab)[0] = 1;
    }
    auto best = std::chrono::nanoseconds::max();
    for (int round = 0; round < 5; ++round) {
        const auto start = std::chrono::steady_clock::now();
        ASSERT_TRUE(heap.reopen().ok());
        best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
    }
    RecordProperty("open_microseconds", static_cast<int>(best.count() / 1000));
    EXPECT_EQ(heap.blocks().inspect().statistics().small_blocks, static_cast<std::uint64_t>(slabs));
}

}  // namespace
}  // namespace holdfast::slab
