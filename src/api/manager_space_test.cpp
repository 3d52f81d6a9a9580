// Space that goes back to the file system, in each durability: faded, shrunk, shortened, and taken again.
#include <sys/mman.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"
#include "base/units.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using base::mebibyte;

enum class way : std::uint8_t { commit, emulated, page_cache };

class manager_space_test : public manager_test, public testing::WithParamInterface<way> {
protected:
    static open_options options() {
        open_options wanted = small_options();
        if (GetParam() != way::commit) {
            wanted.durability = durability::atomic;
            wanted.domain = GetParam() == way::emulated ? open_options::domain_choice::emulated
                                                        : open_options::domain_choice::page_cache;
            wanted.accept_process_crash_only = true;
        }
        wanted.decay = std::chrono::milliseconds(-1);
        return wanted;
    }
    static bool commits() { return GetParam() == way::commit; }

    /// Blocks in roots [0, count), each full of its number.
    static void fill(manager& heap, std::size_t count, std::size_t size) {
        for (std::size_t i = 0; i < count; ++i) {
            std::memset(heap.allocate_to(heap.root(i), size), static_cast<int>(i), size);
        }
    }
    static void free_all_but(manager& heap, std::size_t count, std::size_t every) {
        for (std::size_t i = 0; i < count; ++i) {
            if (every == 0 || i % every != 0) {
                heap.free_from(heap.root(i));
            }
        }
    }
    static void expect_filled(manager& heap, std::size_t count, std::size_t size, std::size_t every) {
        for (std::size_t i = 0; i < count; i += every) {
            const auto* const block = static_cast<const unsigned char*>(heap.root(i).get());
            ASSERT_NE(block, nullptr);
            for (std::size_t at = 0; at < size; at += 4096) {
                ASSERT_EQ(block[at], i & 0xff) << "block " << i;
            }
            ASSERT_EQ(block[size - 1], i & 0xff);
        }
    }
    static std::uint64_t charged(const manager& heap) { return heap.statistics().charged_bytes; }
    [[nodiscard]] std::size_t segment_files() const {
        std::size_t count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(path())) {
            count += entry.path().filename().string().starts_with("segment.") ? 1U : 0U;
        }
        return count;
    }
};

INSTANTIATE_TEST_SUITE_P(ways, manager_space_test, testing::Values(way::commit, way::emulated, way::page_cache),
                         [](const auto& each) {
                             return each.param == way::commit     ? "commit"
                                    : each.param == way::emulated ? "emulated"
                                                                  : "page_cache";
                         });

TEST_P(manager_space_test, shrink_gives_back_what_is_free_and_keeps_the_rest) {
    {
        manager heap(create_only, path(), options());
        fill(heap, 100, 300'000);
        heap.commit();
        const std::uint64_t full = charged(heap);
        EXPECT_GT(full, 30'000'000U);
        free_all_but(heap, 100, 10);
        const shrink_report done = heap.shrink();
        EXPECT_EQ(done.charged_before, full);
        EXPECT_EQ(done.charged_after, charged(heap));
        EXPECT_LT(done.charged_after, full / 4);
        EXPECT_GT(done.given_back, 20'000'000U);
        EXPECT_GE(done.shortened, 2 * mebibyte);
        EXPECT_THAT(heap.check(true), IsEmpty());
        expect_filled(heap, 100, 300'000, 10);
        fill(heap, 0, 0);
        // The holes are used again.
        for (std::size_t i = 1; i < 100; i += 10) {
            std::memset(heap.allocate_to(heap.root(i), 250'000), 7, 250'000);
        }
        EXPECT_THAT(heap.check(true), IsEmpty());
    }
    manager heap(open_only, path(), options());
    EXPECT_THAT(heap.check(true), IsEmpty());
    expect_filled(heap, 100, 300'000, 10);
    for (std::size_t i = 1; i < 100; i += 10) {
        EXPECT_EQ(static_cast<const char*>(heap.root(i).get())[249'999], 7);
    }
}

TEST_P(manager_space_test, segments_at_the_end_are_removed_and_come_again) {
    {
        manager heap(create_only, path(), options());
        fill(heap, 60, mebibyte);
        heap.commit();
        const std::size_t files = segment_files();
        EXPECT_GE(files, 30U);
        free_all_but(heap, 60, 0);
        const shrink_report done = heap.shrink();
        EXPECT_LE(segment_files(), 2U);
        EXPECT_EQ(heap.get_size(), segment_files() * 2 * mebibyte);
        EXPECT_LT(done.apparent_after, done.apparent_before / 4);
        fill(heap, 60, mebibyte);
        heap.commit();
        EXPECT_GE(segment_files(), 30U);
        expect_filled(heap, 60, mebibyte, 1);
        EXPECT_THAT(heap.check(true), IsEmpty());
        free_all_but(heap, 60, 3);
        heap.shrink();
    }
    manager heap(open_only, path(), options());
    expect_filled(heap, 60, mebibyte, 3);
    EXPECT_THAT(heap.check(true), IsEmpty());
    const manager copy_source(std::move(heap));
}

/// Was: `bad_alloc`, which C and Python call "no_space", though the disk is empty.
TEST_P(manager_space_test, a_heap_whose_directory_is_gone_says_so_and_not_that_there_is_no_space) {
    manager heap(create_only, path(), options());
    fs::remove_all(path());
    const auto allocate = [&] {
        for (unsigned i = 0; i < 100; ++i) {
            static_cast<void>(heap.allocate(mebibyte));
        }
    };
    const auto allocate_for_a_container = [&] {
        for (unsigned i = 0; i < 100; ++i) {
            static_cast<void>(heap.get_allocator<char>().allocate(mebibyte));
        }
    };
    for (const errc reason : {reason_of(allocate), reason_of(allocate_for_a_container)}) {
        EXPECT_TRUE(reason == errc::missing || reason == errc::not_found) << make_error_code(reason).message();
    }
    EXPECT_NE(reason_of([&] { heap.close(); }), errc::none);
}

TEST_P(manager_space_test, a_killed_process_leaves_a_shrunk_heap_sound) {
    manager(create_only, path(), options()).close();
    const base::process_end end = base::run_in_child([&] {
        manager heap(open_only, path(), options());
        fill(heap, 60, mebibyte);
        free_all_but(heap, 60, 7);
        heap.shrink();
        for (std::size_t i = 1; i < 60; i += 7) {
            std::memset(heap.allocate_to(heap.root(i), 5 * mebibyte), static_cast<int>(i), 5 * mebibyte);
        }
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    manager heap(open_only, path(), options());
    expect_filled(heap, 60, mebibyte, 7);
    EXPECT_THAT(heap.check(true), IsEmpty());
    for (std::size_t i = 1; i < 60; i += 7) {
        EXPECT_EQ(heap.root(i) == nullptr, commits()) << "what came after the last commit";
    }
    heap.shrink();
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_P(manager_space_test, shrink_stops_at_its_target) {
    if (commits()) {
        return;  // one commit gives back all there is
    }
    open_options wanted = options();
    wanted.segment_size = 64 * mebibyte;
    manager heap(create_only, path(), wanted);
    fill(heap, 300, mebibyte);
    const auto* const last = heap.allocate_to(heap.root(300), 1);  // the end is in use
    EXPECT_NE(last, nullptr);
    free_all_but(heap, 300, 2);
    const std::uint64_t target = charged(heap) - 40 * mebibyte;
    int calls = 0;
    const shrink_report done = heap.shrink({target, [&calls](const shrink_report&) { ++calls; }});
    EXPECT_LE(done.charged_after, target);
    EXPECT_GT(done.charged_after, target - 80 * mebibyte);
    EXPECT_GE(calls, 2);
    EXPECT_EQ(heap.shrink({~std::uint64_t{0}, {}}).given_back, 0U);
}

TEST_P(manager_space_test, freed_memory_fades) {
    open_options wanted = options();
    wanted.decay = std::chrono::milliseconds(0);
    manager heap(create_only, path(), wanted);
    fill(heap, 60, mebibyte);
    heap.commit();
    const std::uint64_t full = charged(heap);
    free_all_but(heap, 60, 6);
    heap.commit();
    for (int i = 0; i < 50; ++i) {  // a free gives back a little each time
        void* const block = heap.allocate(100'000);
        heap.deallocate(block);
    }
    heap.commit();
    EXPECT_LT(charged(heap), full / 2);
    expect_filled(heap, 60, mebibyte, 6);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_P(manager_space_test, freed_memory_fades_while_the_program_rests) {
    open_options wanted = options();
    wanted.decay = std::chrono::milliseconds(50);
    wanted.upkeep_thread = true;
    manager heap(create_only, path(), wanted);
    fill(heap, 8, 2 * mebibyte);
    if (commits()) {
        heap.commit();
    }
    free_all_but(heap, 8, 0);
    const std::uint64_t freed = charged(heap);
    EXPECT_TRUE(base::succeeds_in_child([&] {
        return reason_of([&] { heap.close(); }) == errc::wrong_process;  // and waits for no such thread
    }));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(commits() ? 0 : 60);
    while (charged(heap) > freed - 12 * mebibyte && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
    }
    EXPECT_EQ(charged(heap) <= freed - 12 * mebibyte, !commits());
    heap.close();
}

TEST_P(manager_space_test, huge_blocks_come_and_go) {
    open_options wanted = options();
    wanted.decay = std::chrono::milliseconds(3'600'000);
    wanted.segment_size = 16 * mebibyte;
    manager heap(create_only, path(), wanted);
    const void* const end = heap.allocate_to(heap.root(1), 100);
    EXPECT_NE(end, nullptr);
    for (int round = 0; round < 20; ++round) {
        auto* const block = static_cast<char*>(heap.allocate_to(heap.root(0), 100 * mebibyte));
        block[0] = 1;
        block[100 * mebibyte - 1] = 1;
        ASSERT_NE(heap.allocate_to(heap.root(2), 20'000), nullptr);  // so that the huge one does not end the heap
        heap.commit();
        EXPECT_GT(charged(heap), 100 * mebibyte);
        heap.free_from(heap.root(0));
        heap.commit();
        EXPECT_LT(charged(heap), 80 * mebibyte);
        heap.free_from(heap.root(2));
    }
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_P(manager_space_test, space_that_was_promised_stays) {
    if (!commits()) {
        return;  // the constructor with a size is one of durability commit
    }
    manager heap(create_only, path(), 300 * mebibyte);
    for (int i = 0; i < 3; ++i) {
        static_cast<void>(heap.allocate(100));
        heap.commit();
        EXPECT_GE(charged(heap), 300 * mebibyte);
        EXPECT_GE(heap.get_size(), 300 * mebibyte);
    }
}

#if !HOLDFAST_CHECKED  // the sanitizers end the process where the kernel has no mapping left for them
TEST_P(manager_space_test, too_many_mappings_are_an_error_that_says_so) {
    manager heap(create_only, path(), options());
    // Every second page of a range is another mapping.
    constexpr std::size_t page = 4096;
    constexpr std::size_t pages = 140'000;
    void* const range = ::mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(range, MAP_FAILED);
    for (std::size_t i = 0; i < pages; i += 2) {
        if (::mprotect(static_cast<char*>(range) + i * page, page, PROT_READ) != 0) {
            break;
        }
    }
    errc reason = errc::none;
    std::string message;
    try {
        for (std::size_t i = 0; i < 200; ++i) {
            static_cast<void>(heap.allocate_to(heap.root(i), mebibyte));
        }
    } catch (const bad_alloc& refused) {
        message = refused.what();
        reason = refused.reason();
    }
    ::munmap(range, pages * page);
    EXPECT_EQ(reason, errc::limit);
    EXPECT_THAT(message, HasSubstr("max_map_count"));
    EXPECT_NE(heap.allocate_to(heap.root(400), 40 * mebibyte), nullptr) << "the heap goes on";
    EXPECT_THAT(heap.check(true), IsEmpty());
}
#endif

}  // namespace
}  // namespace holdfast
