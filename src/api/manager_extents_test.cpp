// The extents of an open heap: they tile its space, and say what is in it.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"
#include "base/units.hpp"
#include "persist/storage.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

constexpr std::uint64_t kibibyte = 1024;
using base::mebibyte;

/// All extents; they tile the user space.
std::vector<extent_info> extents_of(const manager& heap) {
    std::vector<extent_info> found;
    std::uint64_t end = 0;
    heap.for_each_extent([&](const extent_info& each) {
        EXPECT_EQ(each.offset, end);
        EXPECT_GT(each.bytes, 0U);
        EXPECT_EQ(each.bytes % 4096, 0U);
        EXPECT_LE(each.backed_bytes, each.bytes);
        end = each.offset + each.bytes;
        found.push_back(each);
    });
    EXPECT_EQ(end, heap.get_size());
    return found;
}

extent_info extent_at(const manager& heap, const void* address) {
    const std::uint64_t offset = heap.get_handle_from_address(address);
    for (const extent_info& each : extents_of(heap)) {
        if (each.offset <= offset && offset < each.offset + each.bytes) {
            return each;
        }
    }
    ADD_FAILURE() << "no extent at " << offset;
    return {};
}

std::uint64_t count(const std::vector<extent_info>& extents, extent_kind kind) {
    return static_cast<std::uint64_t>(
        std::count_if(extents.begin(), extents.end(), [kind](const extent_info& each) { return each.kind == kind; }));
}

TEST_F(manager_test, extents_of_a_new_heap_are_the_roots_and_free_space) {
    const manager heap = create();
    const std::vector<extent_info> found = extents_of(heap);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].kind, extent_kind::roots);
    EXPECT_EQ(found[0].bytes, 64 * kibibyte);
    EXPECT_EQ(found[1].kind, extent_kind::free);
    EXPECT_EQ(found[1].bytes, 2 * mebibyte - 64 * kibibyte);
    EXPECT_EQ(heap.statistics().segment_size, 2 * mebibyte);
}

TEST_F(manager_test, extents_say_how_full_slabs_are) {
    manager heap = create();
    std::vector<void*> blocks(700);  // 256 fit in a slab
    for (void*& block : blocks) {
        block = heap.allocate(256);
    }
    for (std::size_t i = 0; i < blocks.size(); i += 7) {
        heap.deallocate(blocks[i]);
    }
    std::uint64_t live = 0;
    std::uint64_t slabs = 0;
    for (const extent_info& each : extents_of(heap)) {
        if (each.kind == extent_kind::slab) {
            EXPECT_EQ(each.bytes, 64 * kibibyte);
            EXPECT_EQ(each.block_size, 256U);
            EXPECT_EQ(each.blocks, 256U);
            EXPECT_LE(each.live_blocks, each.blocks);
            live += each.live_blocks;
            ++slabs;
        } else {
            EXPECT_EQ(each.block_size + each.blocks + each.live_blocks, 0U);
        }
    }
    EXPECT_EQ(live, 600U);
    EXPECT_EQ(slabs, heap.statistics().slabs);
}

TEST_F(manager_test, extents_tell_blocks_of_whole_pages_from_free_and_from_reserved_ones) {
    manager heap = create();
    void* const big = heap.allocate(100 * kibibyte);
    void* const between = heap.allocate(40 * kibibyte);
    void* const huge = heap.allocate(17 * mebibyte);
    heap.deallocate(between);
    EXPECT_EQ(extent_at(heap, big).kind, extent_kind::block);
    EXPECT_EQ(extent_at(heap, big).bytes, 100 * kibibyte);
    EXPECT_EQ(extent_at(heap, huge).kind, extent_kind::block);
    EXPECT_EQ(extent_at(heap, huge).bytes, 17 * mebibyte) << "across nine segments";
    EXPECT_EQ(extent_at(heap, between).kind, extent_kind::free);
    EXPECT_EQ(count(extents_of(heap), extent_kind::block), heap.statistics().extents);
    heap.close(true);

    open_options options = small_options();
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    manager atomic(open_only, path(), options);
    void* const reserved = atomic.reserve(32 * kibibyte);
    EXPECT_EQ(extent_at(atomic, reserved).kind, extent_kind::reserved);
    atomic.cancel(reserved);
    EXPECT_EQ(extent_at(atomic, reserved).kind, extent_kind::free);
}

TEST_F(manager_test, extents_are_the_same_for_a_reader) {
    manager heap = create();
    for (std::uint64_t bytes = 8; bytes < mebibyte; bytes = bytes * 3 / 2 + 8) {
        static_cast<void>(heap.allocate(bytes));
    }
    const std::vector<extent_info> before = extents_of(heap);
    heap.close(true);
    const std::vector<extent_info> after = extents_of(manager(open_read_only, path()));
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(after[i].kind, before[i].kind);
        EXPECT_EQ(after[i].block_size, before[i].block_size);
        EXPECT_EQ(after[i].live_blocks, before[i].live_blocks);
    }
}

TEST(manager_extents, with_holes_in_their_files_cost_what_is_left) {
    const segment::test_directory disk(segment::place::disk);
    const std::string path = disk.path("heap");
    std::uint64_t offset = 0;
    {
        manager heap(create_only, path, small_options());
        void* const block = heap.allocate(mebibyte);
        std::memset(block, 1, mebibyte);
        offset = heap.get_handle_from_address(block);
        heap.commit();
        EXPECT_EQ(extent_at(heap, block).backed_bytes, mebibyte);
        heap.deallocate(block);
        heap.close(true);
    }
    {
        auto file =
            segment::must(persist::posix_storage().open(path + "/segment.000000", persist::access_mode::read_write));
        segment::must(file->punch_hole(offset, 512 * kibibyte, "test.punch"));
    }
    const manager heap(open_read_only, path);
    const extent_info free = extent_at(heap, heap.get_address_from_handle(offset));
    ASSERT_EQ(free.kind, extent_kind::free);
    EXPECT_LE(free.backed_bytes, free.bytes - 512 * kibibyte);
    if (free.backed_exactly) {
        EXPECT_EQ(free.backed_bytes, free.bytes - 512 * kibibyte);
    }
}

TEST_F(manager_test, a_visitor_of_extents_may_allocate_and_free) {
    manager heap = create();
    for (int i = 0; i < 300; ++i) {
        static_cast<void>(heap.allocate(20 * kibibyte));
    }
    std::uint64_t visited = 0;
    heap.for_each_extent([&](const extent_info& each) {
        ++visited;
        if (each.kind == extent_kind::block && visited % 2 == 0) {
            heap.deallocate(heap.get_address_from_handle(each.offset));
            static_cast<void>(heap.allocate(64));
        }
    });
    EXPECT_GE(visited, 300U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

}  // namespace
}  // namespace holdfast
