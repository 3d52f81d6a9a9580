// Copies of a heap on a full disk.
//
// Fault model: what copies a heap copies its content, and leaves what was reserved and never written as holes; and from
// some moment on the file system refuses blocks. A store to a block, of before or of now, is never a SIGBUS; nor is a
// load, where even that takes space (tmpfs).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "full_disk/full_disks.hpp"
#include "powerloss/mounts.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

using parameters = std::tuple<const char*, durability>;

class copies : public ::testing::TestWithParam<parameters> {
protected:
    struct block {
        manager::handle_t handle;
        std::size_t size;
        int seed;  ///< -1: never written
    };
    static constexpr std::uint64_t never_written = 8 * mebibyte;

    void SetUp() override {
        if (!mounts_unavailable().empty()) {
            report_unavailable(mounts_unavailable());
            GTEST_SKIP() << mounts_unavailable();
        }
        if (std::string(std::get<0>(GetParam())) == "tmpfs") {
            memory_ = std::make_unique<memory_file_system>("size=64m");
            directory_ = memory_->path();
        } else {
            image_ = std::make_unique<image_file_system>(file_system_kind::ext4, 80 * mebibyte);
            directory_ = image_->path();
        }
        path_ = directory_ + "/heap";
        copy_ = directory_ + "/copy";
    }

    [[nodiscard]] static open_options options() {
        open_options wanted;
        wanted.segment_size = 4 * mebibyte;
        wanted.durability = std::get<1>(GetParam());
        wanted.accept_process_crash_only = true;
        wanted.commit_on_close = false;
        return wanted;
    }

    /// Some blocks with content and some without, large and small; those of one size in slabs of one kind, so that
    /// whole pages of slabs were never written either.
    void make(manager& heap) {
        const auto allocate = [&](std::size_t size, int seed) {
            void* const at = heap.allocate(size);
            if (seed >= 0) {
                std::memset(at, seed, size);
            }
            blocks_.push_back({heap.get_handle_from_address(at), size, seed});
            return at;
        };
        for (int i = 0; i < 64; ++i) {
            allocate(never_written / 2 / 64, -1);
            allocate(5000, i);
        }
        for (int i = 0; i < 512; ++i) {
            allocate(never_written / 2 / 512, -1);
            allocate(100, i % 100);
        }
        heap.construct<int>("answer")(42);
        // What nothing reaches is free after a crash in durability `collect`.
        auto* const reached = static_cast<offset_ptr<void>*>(heap.allocate(blocks_.size() * sizeof(offset_ptr<void>)));
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            new (reached + i) offset_ptr<void>(heap.get_address_from_handle(blocks_[i].handle));
        }
        heap.root(1) = reached;
        heap.commit();
    }

    void copy_files() const {
        const std::string command = "cp -r --sparse=always --reflink=never '" + path_ + "' '" + copy_ + "'";
        ASSERT_EQ(std::system(command.c_str()), 0);
        ASSERT_LT(charged(copy_) + never_written / 2, charged(path_)) << "else nothing is tested here";
    }

    void read_all(const manager& heap) const {
        std::uint64_t wrong = 0;
        for (const block& each : blocks_) {
            const auto* const at = static_cast<const std::byte*>(heap.get_address_from_handle(each.handle));
            const auto expected = static_cast<std::byte>(std::max(each.seed, 0));
            wrong += std::all_of(at, at + each.size, [&](std::byte found) { return found == expected; }) ? 0U : 1U;
        }
        EXPECT_EQ(wrong, 0U);
        EXPECT_EQ(*heap.find<int>("answer").first, 42);
        EXPECT_GE(heap.statistics().allocated_blocks, blocks_.size());
    }
    void write_all(manager& heap) const {
        for (const block& each : blocks_) {
            std::memset(heap.get_address_from_handle(each.handle), 7, each.size);
        }
    }

    /// On a full disk a writer has its space, or is told why not: so.
    [[nodiscard]] std::string refusal() const {
        try {
            manager heap(open_only, copy_, options());
            write_all(heap);
            return {};
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
            return failure.what();
        }
    }

    /// A copy that may have lost something or nothing.
    void expect_no_signal() const {
        const ballast full(directory_, 0);
        read_all(manager(open_read_only, copy_));
        static_cast<void>(refusal());
    }
    /// A copy, where nothing is free: readers read, writers are told. Where there is room, writers have all of it, and
    /// keep it.
    void try_copy() const {
        {
            const ballast full(directory_, 0);
            const std::string why = refusal();
            EXPECT_NE(why.find("open it read-only"), std::string::npos) << why;
            const manager reader(open_read_only, copy_);
            read_all(reader);
            EXPECT_EQ(reader.check(true), std::vector<std::string>());
        }
        {
            manager writer(open_only, copy_, options());
            const ballast full(directory_, 0);
            read_all(writer);
            write_all(writer);
            EXPECT_EQ(writer.check(false), std::vector<std::string>());
            for (const block& each : blocks_) {
                writer.deallocate(writer.get_address_from_handle(each.handle));
            }
            EXPECT_EQ(writer.check(false), std::vector<std::string>());
        }
    }

    std::unique_ptr<memory_file_system> memory_;
    std::unique_ptr<image_file_system> image_;
    std::string directory_;
    std::string path_;
    std::string copy_;
    std::vector<block> blocks_;
};

TEST_P(copies, of_a_closed_heap) {
    {
        manager heap(create_only, path_, options());
        make(heap);
    }
    copy_files();
    try_copy();
}

/// In `atomic` and `collect` it is to be recovered, which reads and writes what a copy has lost.
TEST_P(copies, of_a_heap_in_use) {
    {
        manager heap(create_only, path_, options());
        make(heap);
        copy_files();
    }
    try_copy();
}

TEST_P(copies, by_the_library) {
    {
        manager heap(create_only, path_, options());
        make(heap);
    }
    manager::copy(path_, copy_);
    expect_no_signal();
}

TEST_P(copies, snapshots) {
    {
        manager heap(create_only, path_, options());
        make(heap);
        heap.snapshot(copy_);
    }
    expect_no_signal();
}

/// A copy is one until a writer has had its space; then it is opened where there is none.
TEST_P(copies, have_their_space_once_they_were_opened) {
    {
        manager heap(create_only, path_, options());
        make(heap);
    }
    copy_files();
    { const manager writer(open_only, copy_, options()); }
    fs::rename(copy_, directory_ + "/renamed");
    const ballast full(directory_, 0);
    manager again(open_only, directory_ + "/renamed", options());
    read_all(again);
    write_all(again);
}

/// Who is refused has not taken from others what there was.
TEST_P(copies, that_do_not_fit_take_nothing) {
    {
        manager heap(create_only, path_, options());
        make(heap);
    }
    copy_files();
    const ballast full(directory_, 4 * mebibyte);
    const std::uint64_t before = fs::space(directory_).available;
    EXPECT_NE(refusal(), "");
    EXPECT_GT(fs::space(directory_).available + 2 * mebibyte, before);
}

/// Lanes of a heap that was closed count for nothing, whatever somebody made of them.
TEST_P(copies, that_have_lanes_of_any_length) {
    {
        manager heap(create_only, path_, options());
        make(heap);
    }
    copy_files();
    std::ofstream(copy_ + "/lanes", std::ios::app).flush();
    fs::resize_file(copy_ + "/lanes", 200 * 1024 * mebibyte);
    const manager writer(open_only, copy_, options());
    read_all(writer);
    EXPECT_GT(fs::space(directory_).available, 4 * mebibyte);
}

/// Their bitmaps have sums and no space: whoever compares the sums reads them.
TEST_P(copies, of_a_heap_that_had_slabs) {
    {
        manager heap(create_only, path_, options());
        std::vector<void*> blocks;
        for (int i = 0; i < 100'000; ++i) {
            blocks.push_back(heap.allocate(64));
        }
        heap.commit();
        for (void* const small : blocks) {
            heap.deallocate(small);
        }
        heap.commit();
        make(heap);
    }
    copy_files();
    manager writer(open_only, copy_, options());
    const ballast full(directory_, 0);
    EXPECT_GE(writer.statistics().allocated_blocks, blocks_.size());
    EXPECT_EQ(writer.check(false), std::vector<std::string>());
    write_all(writer);
}

std::string name_of(const ::testing::TestParamInfo<parameters>& info) {
    const durability of = std::get<1>(info.param);
    return std::string(std::get<0>(info.param)) + (of == durability::commit    ? "_commit"
                                                   : of == durability::collect ? "_collect"
                                                                               : "_atomic");
}

INSTANTIATE_TEST_SUITE_P(everywhere, copies,
                         ::testing::Combine(::testing::Values("tmpfs", "ext4"),
                                            ::testing::Values(durability::commit, durability::collect,
                                                              durability::atomic)),
                         name_of);

}  // namespace
}  // namespace holdfast::test
