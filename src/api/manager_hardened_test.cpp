// Hardened heaps in each durability: exact frees, quarantine, random order; and that on media they are as any other.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_configurations.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

class hardened_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    static open_options options(bool hardened = true) {
        open_options wanted = options_of(GetParam());
        wanted.hardened = hardened;
        return wanted;
    }
    manager create_hardened() const { return {create_only, path(), options()}; }
};

TEST_P(hardened_test, exactly_one_of_two_frees_at_once_succeeds) {
    manager heap = create_hardened();
    std::vector<void*> blocks(2000);
    for (void*& block : blocks) {
        block = heap.allocate(48);
    }
    std::atomic<std::size_t> arrived{0};
    std::atomic<std::size_t> succeeded{0};
    const auto frees = [&] {
        std::size_t meeting = 0;
        for (void* const block : blocks) {
            meeting += 2;
            ++arrived;
            for (unsigned spins = 0; arrived < meeting;) {  // a barrier wakes one thread long before the other
                if (++spins % 1024 == 0) {
                    std::this_thread::yield();
                }
            }
            succeeded += reason_of([&] { heap.deallocate(block); }) == errc::none ? 1U : 0U;
        }
    };
    std::thread other(frees);
    frees();
    other.join();
    EXPECT_EQ(succeeded, blocks.size());
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(hardened_test, a_freed_block_is_nobodys_until_many_others_are_freed) {
    manager heap = create_hardened();
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{64}, std::size_t{1000}, std::size_t{16384}}) {
        void* const freed = heap.allocate(bytes);
        heap.deallocate(freed);
        // The quarantine holds 1,024 blocks, or 256 KiB: less one, for the size of the class may be greater.
        const std::size_t others = std::min<std::size_t>(1023, (std::size_t{256} << 10) / (bytes + bytes / 4) - 1);
        for (std::size_t i = 0; i < others; ++i) {
            void* const block = heap.allocate(bytes);
            ASSERT_NE(block, freed) << bytes << " bytes, after " << i << " others";
            heap.deallocate(block);
            ASSERT_EQ(reason_of([&] { heap.deallocate(freed); }), errc::bad_address);
            ASSERT_EQ(reason_of([&] { static_cast<void>(heap.usable_size(freed)); }), errc::bad_address);
        }
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(hardened_test, blocks_come_in_random_order) {
    manager heap = create_hardened();
    // Of the differences between one address and the next, in order nearly all are one block.
    std::map<std::ptrdiff_t, int> steps;
    auto* previous = static_cast<char*>(heap.allocate(64));
    constexpr int blocks = 2000;
    for (int i = 0; i < blocks; ++i) {
        auto* const block = static_cast<char*>(heap.allocate(64));
        ++steps[block - previous];
        previous = block;
    }
    EXPECT_GT(steps.size(), 100U);
    EXPECT_LT(steps[64], blocks / 4);
}

TEST_P(hardened_test, keeps_what_the_program_holds_and_nothing_else) {
    std::map<std::uint64_t, std::pair<std::size_t, unsigned char>> held;  // by handle
    std::mt19937_64 random(7);
    {
        manager heap = create_hardened();
        const auto allocate = [&] {
            const std::size_t bytes = 1 + random() % (random() % 40 == 0 ? 60000 : 700);
            const auto fill = static_cast<unsigned char>(random());
            void* const block = heap.allocate(bytes);
            std::memset(block, fill, bytes);
            ASSERT_TRUE(held.emplace(heap.get_handle_from_address(block), std::pair{bytes, fill}).second);
        };
        const auto free_one = [&] {
            const auto chosen = std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
            const auto* const block = static_cast<unsigned char*>(
                heap.get_address_from_handle(static_cast<manager::handle_t>(chosen->first)));
            ASSERT_TRUE(std::all_of(block, block + chosen->second.first,
                                    [&](unsigned char byte) { return byte == chosen->second.second; }));
            heap.deallocate(const_cast<unsigned char*>(block));
            held.erase(chosen);
        };
        for (int step = 0; step < 6000; ++step) {
            held.size() < 300 || (held.size() < 500 && random() % 2 == 0) ? allocate() : free_one();
            if (step % 1500 == 1499) {
                if (GetParam().first == durability::commit) {
                    heap.commit();
                }
                EXPECT_THAT(heap.check(false), IsEmpty());
                EXPECT_EQ(heap.statistics().allocated_blocks, held.size());
            }
        }
        // One that tracing would not find: a root points to each that stays.
        while (held.size() > manager::root_count) {
            free_one();
        }
        std::size_t slot = 0;
        for (const auto& [handle, content] : held) {
            heap.root(slot++) = heap.get_address_from_handle(static_cast<manager::handle_t>(handle));
        }
    }
    manager plain(open_only, path(), options(false));
    EXPECT_EQ(plain.statistics().allocated_blocks, held.size());
    EXPECT_THAT(plain.check(true), IsEmpty());
    for (const auto& [handle, content] : held) {
        plain.deallocate(plain.get_address_from_handle(static_cast<manager::handle_t>(handle)));
    }
    EXPECT_TRUE(plain.all_memory_deallocated());
}

TEST_P(hardened_test, a_thread_that_ends_gives_its_quarantine_back) {
    manager heap = create_hardened();
    std::set<void*> freed;
    std::thread([&] {
        for (int i = 0; i < 100; ++i) {
            freed.insert(heap.allocate(4096));
        }
        for (void* const block : freed) {
            heap.deallocate(block);
        }
    }).join();
    EXPECT_THAT(heap.check(false), IsEmpty());
    // All of it can be had again: as many blocks lie in no more slabs, those aside that a thread has parts of.
    const auto before = heap.statistics().user_bytes;
    std::vector<void*> again;
    for (int i = 0; i < 100; ++i) {
        again.push_back(heap.allocate(4096));
    }
    EXPECT_EQ(heap.statistics().user_bytes, before);
    EXPECT_TRUE(std::ranges::any_of(again, [&](void* block) { return freed.contains(block); }));
}

TEST_P(hardened_test, many_threads_free_what_others_allocate) {
    manager heap = create_hardened();
    constexpr int threads = 4;
    std::array<std::vector<void*>, threads> given;
    std::barrier turn(threads);
    const auto work = [&](int me) {
        std::mt19937_64 random(static_cast<unsigned>(me));
        for (int round = 0; round < 20; ++round) {
            for (int i = 0; i < 200; ++i) {
                const std::size_t bytes = 1 + random() % 300;
                void* const block = heap.allocate(bytes);
                std::memset(block, me, bytes);
                given[static_cast<std::size_t>(me)].push_back(block);
            }
            turn.arrive_and_wait();
            auto& other = given[static_cast<std::size_t>((me + 1) % threads)];
            for (void* const block : other) {
                heap.deallocate(block);
            }
            other.clear();
            turn.arrive_and_wait();
        }
    };
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
        all.emplace_back(work, i);
    }
    for (std::thread& each : all) {
        each.join();
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(hardened_test, guard_ranges_are_counted_and_are_no_blocks) {
    manager heap = create_hardened();
    EXPECT_EQ(heap.statistics().guard_ranges, 0U);
    std::set<const void*> blocks;
    while (blocks.size() < 1000) {
        blocks.insert(heap.allocate(1000));
    }
    const heap_statistics numbers = heap.statistics();
    EXPECT_GE(numbers.guard_ranges, 15U);
    EXPECT_LE(numbers.guard_ranges, numbers.slabs);
    EXPECT_EQ(numbers.allocated_blocks, blocks.size());
    heap.for_each_block([&](const block_info& each) { EXPECT_EQ(blocks.erase(each.address), 1U); });
    EXPECT_TRUE(blocks.empty());
    std::uint64_t reserved = 0;
    heap.for_each_extent([&](const extent_info& each) { reserved += each.kind == extent_kind::reserved ? 1U : 0U; });
    EXPECT_EQ(reserved, numbers.guard_ranges);
}

TEST_P(hardened_test, collection_passes_over_guard_ranges_and_frees_what_is_lost) {
    manager heap = create_hardened();
    constexpr std::size_t kept = 300;
    for (std::size_t i = 0; i < kept; ++i) {
        heap.root(i) = std::memset(heap.allocate(1000), 0, 1000);
        static_cast<void>(heap.allocate(700));  // lost
    }
    std::vector<char*> ranges;
    heap.for_each_extent([&](const extent_info& each) {
        if (each.kind == extent_kind::reserved) {
            ranges.push_back(static_cast<char*>(heap.get_address()) + each.offset);
        }
    });
    EXPECT_GE(ranges.size(), 8U);
    for (std::size_t i = 0; i < kept; ++i) {
        new (heap.root(i).get()) ptr<char>(ranges[i % ranges.size()] + 100 * i);
    }
    const collect_report report = heap.collect();
    EXPECT_EQ(report.blocks_reached, kept);
    EXPECT_EQ(report.blocks_freed, kept);
    EXPECT_EQ(heap.statistics().allocated_blocks, kept);
    EXPECT_THAT(heap.check(false), IsEmpty());
    EXPECT_GE(heap.statistics().guard_ranges, 5U);
}

TEST_P(hardened_test, a_store_behind_a_slab_is_the_end) {
    EXPECT_TRUE(base::succeeds_in_child([&] {
        manager heap = create_hardened();
        char* last = nullptr;
        while (last == nullptr) {
            auto* const block = static_cast<char*>(heap.allocate(8192));
            const auto end = static_cast<std::uint64_t>(heap.get_handle_from_address(block)) + 8192;
            last = end % 65'536 == 0 ? block : nullptr;
        }
        std::memset(last, 1, 8192);
        if (GetParam().first == durability::commit) {
            heap.commit();
        }
        std::signal(SIGSEGV, [](int) { ::_exit(0); });
        std::memset(last, 2, 8193);
        return false;
    }));
}

INSTANTIATE_TEST_SUITE_P(durabilities, hardened_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
