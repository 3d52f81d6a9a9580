#include "heap/upkeep_thread.hpp"

#include <chrono>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using namespace std::chrono_literals;
using segment::must;

TEST(upkeep_thread_test, sleeps_when_nothing_is_left_and_wakes_when_the_heap_is_used) {
    slab::upkeep_alarm alarm;
    base::atomic<std::uint32_t> ends{0};
    std::counting_semaphore<> rounds(0);
    std::jthread thread([&] {
        upkeep_thread::run(alarm, 2, ends, [&] {
            rounds.release();
            return true;
        });
    });
    rounds.acquire();
    rounds.acquire();
    EXPECT_FALSE(rounds.try_acquire_for(1s)) << "it has slept for four periods";
    alarm.note_use();
    EXPECT_TRUE(rounds.try_acquire_for(60s));
    ends.store(1);
    base::wake_sleepers(ends);
    alarm.note_use();
}

TEST(upkeep_thread_test, ends_when_there_is_no_heap_any_more) {
    slab::upkeep_alarm alarm;
    const base::atomic<std::uint32_t> never{0};
    std::jthread([&] { upkeep_thread::run(alarm, 100, never, [] { return false; }); }).join();
}

class upkeep_thread_of_heap_test : public testing::TestWithParam<durability_kind> {
protected:
    [[nodiscard]] std::unique_ptr<engine> make(std::uint64_t decay_ns) const {
        engine_options options;
        options.durability = GetParam();
        options.accept_process_crash_only = true;
        options.decay_ns = decay_ns;
        return must(engine::create(directory_.path("heap"), options));
    }
    /// Of slabs, of cached extents and of large blocks.
    static void use(engine& heap) {
        std::vector<void*> blocks;
        for (const std::size_t bytes : {std::size_t{1000}, std::size_t{100'000}, std::size_t{4} << 20}) {
            for (std::size_t i = 0; i < (std::size_t{8} << 20) / bytes; ++i) {
                blocks.push_back(heap.allocate(bytes, 16));
                ASSERT_NE(blocks.back(), nullptr);
                std::memset(blocks.back(), 1, bytes);
            }
        }
        for (void* const block : blocks) {
            ASSERT_TRUE(heap.try_deallocate(block));
        }
    }
    static std::uint64_t charged(engine& heap) { return must(heap.files().statistics()).charged_bytes; }
    /// False after a minute.
    static bool falls_below(engine& heap, std::uint64_t bytes) {
        const auto end = std::chrono::steady_clock::now() + 60s;
        while (charged(heap) >= bytes) {
            if (std::chrono::steady_clock::now() > end) {
                return false;
            }
            std::this_thread::yield();
        }
        return true;
    }
    segment::test_directory directory_;
};

TEST_P(upkeep_thread_of_heap_test, gives_back_what_was_freed_while_the_program_rests) {
    constexpr std::uint64_t decay_ns = 100'000'000;
    const auto heap = make(decay_ns);
    const std::uint64_t before = charged(*heap);
    use(*heap);
    const std::uint64_t after = charged(*heap);
    ASSERT_GT(after, before + (std::uint64_t{16} << 20));
    {
        const upkeep_thread thread(heap->blocks().slabs().upkeep(), decay_ns);
        EXPECT_TRUE(falls_below(*heap, before + (std::uint64_t{4} << 20)))
            << before << ' ' << after << ' ' << charged(*heap);
    }
    EXPECT_TRUE(heap->check(true).empty());
}

TEST_P(upkeep_thread_of_heap_test, works_beside_threads_and_ends_with_the_heap) {
    constexpr std::uint64_t decay_ns = 50'000'000;
    const auto heap = make(decay_ns);
    for (int round = 0; round < 3; ++round) {
        const upkeep_thread thread(heap->blocks().slabs().upkeep(), decay_ns);
        std::jthread one([&] { use(*heap); });
        std::jthread other([&] { use(*heap); });
    }
    EXPECT_TRUE(heap->check(true).empty());
    must(heap->close(true));
}

INSTANTIATE_TEST_SUITE_P(durabilities, upkeep_thread_of_heap_test,
                         testing::Values(durability_kind::atomic, durability_kind::collect));

}  // namespace
}  // namespace holdfast::heap
