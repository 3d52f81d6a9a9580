// Stores beside holes on a full disk, where the page cache keeps several pages as one.
//
// Fault model: a file system on a block device without a free block; free space of the heap has gone back to it, so
// that its files have holes between pages that are in use; and the page cache is empty, or holds what somebody has read
// ahead. A store to a block is never a SIGBUS, and takes no space.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"
#include "full_disk/full_disks.hpp"
#include "powerloss/mounts.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

using parameters = std::tuple<file_system_kind, durability>;

class folios : public ::testing::TestWithParam<parameters> {
protected:
    static constexpr std::size_t size = 5 * 4096;  // between blocks of this size a folio of any size has its holes
    static constexpr std::size_t count = 1200;

    void SetUp() override {
        if (!mounts_unavailable().empty()) {
            report_unavailable(mounts_unavailable());
            GTEST_SKIP() << mounts_unavailable();
        }
        const file_system_kind kind = std::get<0>(GetParam());
        image_ = std::make_unique<image_file_system>(kind, (kind == file_system_kind::xfs ? 320 : 96) * mebibyte);
        path_ = image_->path() + "/heap";
    }

    [[nodiscard]] static open_options options() {
        open_options wanted;
        wanted.segment_size = 8 * mebibyte;
        wanted.durability = std::get<1>(GetParam());
        wanted.accept_process_crash_only = true;
        return wanted;
    }

    [[nodiscard]] std::byte* at(manager& heap, std::size_t i) const {
        return static_cast<std::byte*>(heap.get_address_from_handle(handles_[i]));
    }

    void allocate(manager& heap) {
        for (std::size_t i = 0; i < count; ++i) {
            void* const block = heap.allocate(size);
            std::memset(block, static_cast<int>(i % 251), size);
            handles_.push_back(heap.get_handle_from_address(block));
            // Slabs, whose bitmaps lie far apart.
            heap.construct<int>(("name" + std::to_string(i)).c_str())(1);
        }
    }
    void keep_each(manager& heap, std::size_t nth) {
        std::vector<manager::handle_t> kept;
        for (std::size_t i = 0; i < handles_.size(); ++i) {
            if (i % nth == 0) {
                kept.push_back(handles_[i]);
            } else {
                heap.deallocate(at(heap, i));
            }
        }
        handles_ = std::move(kept);
    }
    /// Every second block goes, and its space with it.
    void make_holes(manager& heap) {
        keep_each(heap, 2);
        const shrink_report done = heap.shrink();
        ASSERT_LT(done.charged_after + count * size / 3, done.charged_before) << "else nothing is tested here";
    }
    void make_heap_with_holes() {
        manager heap(create_only, path_, options());
        allocate(heap);
        make_holes(heap);
    }

    void read_all(manager& heap) const {
        for (std::size_t i = 0; i < handles_.size(); ++i) {
            const std::byte* const block = at(heap, i);
            const auto expected = static_cast<std::byte>(2 * i % 251);
            EXPECT_TRUE(std::all_of(block, block + size, [&](std::byte found) { return found == expected; })) << i;
        }
    }
    /// To all that is allocated, with no block free on the disk.
    void expect_stores_take_no_space(manager& heap) const {
        const ballast full(image_->path(), 0);
        const std::uint64_t before = charged(path_);
        for (std::size_t i = 0; i < handles_.size(); ++i) {
            std::memset(at(heap, i), 7, size);
        }
        for (std::size_t i = 0; i < count; ++i) {
            *heap.find<int>(("name" + std::to_string(i)).c_str()).first = 2;
        }
        for (std::size_t i = 0; i < handles_.size(); i += 2) {
            heap.deallocate(at(heap, i));
        }
        heap.commit();
        EXPECT_LT(charged(path_), before + mebibyte);
        EXPECT_EQ(heap.check(false), std::vector<std::string>());
    }

    std::unique_ptr<image_file_system> image_;
    std::string path_;
    std::vector<manager::handle_t> handles_;
};

TEST_P(folios, that_the_program_itself_read_ahead) {
    make_heap_with_holes();
    image_->mount_again();
    manager heap(open_only, path_, options());
    read_all(heap);
    expect_stores_take_no_space(heap);
}

TEST_P(folios, that_somebody_read_ahead_before) {
    make_heap_with_holes();
    image_->mount_again();
    ASSERT_EQ(std::system(("cat '" + path_ + "'/* > /dev/null").c_str()), 0);
    manager heap(open_only, path_, options());
    read_all(heap);
    expect_stores_take_no_space(heap);
}

TEST_P(folios, that_a_reader_of_the_heap_had) {
    make_heap_with_holes();
    image_->mount_again();
    {
        const manager reader(open_read_only, path_);
        EXPECT_EQ(reader.check(true), std::vector<std::string>());
    }
    manager heap(open_only, path_, options());
    expect_stores_take_no_space(heap);
}

TEST_P(folios, that_a_snapshot_read) {
    make_heap_with_holes();
    image_->mount_again();
    manager heap(open_only, path_, options());
    heap.snapshot(image_->path() + "/snapshot");
    expect_stores_take_no_space(heap);
}

/// An open after a crash makes holes again, which takes space on some file systems.
TEST_P(folios, are_no_obstacle_to_an_open_after_a_crash_on_a_full_disk) {
    const base::process_end end = base::run_in_child([&] {
        manager heap(create_only, path_, options());
        allocate(heap);
        make_holes(heap);
        heap.root(0) = heap.allocate(size);
        ::kill(::getpid(), SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    const ballast full(image_->path(), 0);
    const manager heap(open_only, path_, options());
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
    EXPECT_NE(heap.root(0).get(), nullptr);
}

TEST_P(folios, that_were_there_before_the_holes) {
    {
        manager heap(create_only, path_, options());
        allocate(heap);
    }
    image_->mount_again();
    ASSERT_EQ(std::system(("cat '" + path_ + "'/* > /dev/null").c_str()), 0);
    manager heap(open_only, path_, options());
    for (std::size_t i = 0; i < count; ++i) {
        at(heap, i)[0] = static_cast<std::byte>(i % 251);  // stores, too, that have not reached the disk
    }
    make_holes(heap);
    read_all(heap);
    expect_stores_take_no_space(heap);
}

/// In durability `commit`, slabs of which little is live get holes, too.
TEST_P(folios, that_reach_into_slabs) {
    constexpr std::size_t small = 200;
    open_options committing = options();
    committing.durability = durability::commit;
    {
        manager heap(create_only, path_, committing);
        for (std::size_t i = 0; i < 60'000; ++i) {
            void* const block = heap.allocate(small);
            std::memset(block, static_cast<int>(i % 251), small);
            handles_.push_back(heap.get_handle_from_address(block));
        }
        heap.commit();
        keep_each(heap, 150);
        const shrink_report done = heap.shrink();
        ASSERT_LT(done.charged_after + 4 * mebibyte, done.charged_before) << "else nothing is tested here";
    }
    image_->mount_again();
    ASSERT_EQ(std::system(("cat '" + path_ + "'/* > /dev/null").c_str()), 0);
    manager heap(open_only, path_, options());
    const ballast full(image_->path(), 0);
    const std::uint64_t before = charged(path_);
    for (std::size_t i = 0; i < handles_.size(); ++i) {
        std::memset(at(heap, i), 7, small);
    }
    heap.commit();
    EXPECT_LT(charged(path_), before + mebibyte);
}

/// A heap grows into pages that an earlier fault, before its end, has read ahead as a hole.
TEST_P(folios, that_reach_beyond_the_end_of_the_heap) {
    {
        manager heap(create_only, path_, options());
        handles_.push_back(heap.get_handle_from_address(heap.allocate(size)));
    }
    image_->mount_again();
    const base::process_end end = base::run_in_child([&] {
        manager heap(open_only, path_, options());
        static_cast<void>(*const_cast<volatile std::byte*>(at(heap, 0)));
        const ballast full(image_->path(), mebibyte + mebibyte / 2);
        std::size_t blocks = 0;
        while (void* const block = heap.allocate(mebibyte / 8, std::nothrow)) {
            std::memset(block, 1, mebibyte / 8);
            ++blocks;
        }
        EXPECT_GT(blocks, 16U) << "it did not grow, so nothing is tested here";
        EXPECT_EQ(heap.check(false), std::vector<std::string>());
    });
    EXPECT_TRUE(end.succeeded()) << end;
}

/// A recovery stores, and before anybody has split what was read ahead.
TEST_P(folios, that_a_recovery_meets) {
    make_heap_with_holes();
    const base::process_end end = base::run_in_child([&] {
        manager heap(open_only, path_, options());
        for (std::size_t i = 0; i < handles_.size(); i += 3) {
            heap.deallocate(at(heap, i));
        }
    });
    ASSERT_TRUE(end.succeeded()) << end;
    image_->mount_again();
    ASSERT_EQ(std::system(("cat '" + path_ + "'/* > /dev/null").c_str()), 0);
    const ballast full(image_->path(), 64 * 1024);
    manager heap(open_only, path_, options());
    EXPECT_EQ(*heap.find<int>("name7").first, 1);
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
}

/// A loss of power takes with it what was reserved and not synced.
TEST_P(folios, of_bitmaps_that_lost_their_space_are_no_end_of_a_recovery) {
    constexpr std::size_t blocks = 500;
    open_options wanted = options();
    wanted.accept_process_crash_only = wanted.durability == durability::collect;  // else the domain is `disk`
    const base::process_end end = base::run_in_child([&] {
        manager heap(create_only, path_, wanted);
        auto* const words = static_cast<ptr<void>*>(heap.allocate_to(heap.root(0), 8 * blocks, {.zeroed = true}));
        for (std::size_t i = 0; i < blocks; ++i) {
            heap.allocate_to(words[i], 64);
        }
        ::_exit(0);
    });
    ASSERT_TRUE(end.succeeded()) << end;
    const segment::geometry shape{wanted.segment_size};
    const int file = ::open((path_ + "/segment.000000").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>(shape.segment_size + shape.bitmaps_at()),
                          static_cast<off_t>(shape.granules() * segment::bitmap_size)),
              0);
    ::close(file);
    {
        const ballast full(image_->path(), 0);
        try {
            const manager heap(open_only, path_, wanted);
            EXPECT_EQ(std::get<0>(GetParam()), file_system_kind::xfs) << "it keeps some blocks back";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
        }
    }
    manager heap(open_only, path_, wanted);
    EXPECT_EQ(heap.check(true), std::vector<std::string>());
    EXPECT_EQ(heap.statistics().allocated_blocks, blocks + 1);
}

std::string name_of(const ::testing::TestParamInfo<parameters>& info) {
    return std::string(std::get<0>(info.param) == file_system_kind::xfs ? "xfs" : "ext4") +
           (std::get<1>(info.param) == durability::collect ? "_collect" : "_atomic");
}

INSTANTIATE_TEST_SUITE_P(everywhere, folios,
                         ::testing::Combine(::testing::Values(file_system_kind::ext4, file_system_kind::xfs),
                                            ::testing::Values(durability::collect, durability::atomic)),
                         name_of);

}  // namespace
}  // namespace holdfast::test
