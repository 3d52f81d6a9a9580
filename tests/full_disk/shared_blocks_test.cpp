// Copies of a heap where the file system can share blocks between files: they take no space until one of the two is
// changed, and neither sees what becomes of the other.
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "full_disk/full_disks.hpp"
#include "powerloss/mounts.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

struct mapped_bytes {
    std::uint64_t all = 0;
    std::uint64_t shared = 0;  ///< with another file
};

void add_extents_of(const fs::path& file, mapped_bytes& sum) {
    constexpr std::uint32_t some = 128;
    std::vector<fiemap> buffer(1 + some * sizeof(fiemap_extent) / sizeof(fiemap) + 1);
    fiemap& map = buffer.front();
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    for (bool last = false; !last;) {
        map.fm_length = FIEMAP_MAX_OFFSET - map.fm_start;
        map.fm_flags = FIEMAP_FLAG_SYNC;
        map.fm_extent_count = some;
        if (::ioctl(fd, FS_IOC_FIEMAP, &map) != 0) {
            ::close(fd);
            throw std::system_error(errno, std::generic_category(), "FIEMAP of " + file.string());
        }
        last = map.fm_mapped_extents == 0;
        for (std::uint32_t i = 0; i < map.fm_mapped_extents; ++i) {
            const fiemap_extent& each = map.fm_extents[i];
            sum.all += each.fe_length;
            sum.shared += (each.fe_flags & FIEMAP_EXTENT_SHARED) != 0 ? each.fe_length : 0;
            map.fm_start = each.fe_logical + each.fe_length;
            last = (each.fe_flags & FIEMAP_EXTENT_LAST) != 0;
        }
    }
    ::close(fd);
}

mapped_bytes extents_of_segments(const std::string& heap) {
    mapped_bytes sum;
    for (const fs::directory_entry& each : fs::directory_iterator(heap)) {
        if (each.path().filename().string().starts_with("segment.")) {
            add_extents_of(each.path(), sum);
        }
    }
    return sum;
}

class shared_blocks : public ::testing::TestWithParam<file_system_kind> {
protected:
    static constexpr std::size_t count = 64;
    static constexpr std::size_t size = 256 << 10;

    void SetUp() override {
        const std::string why = mounts_unavailable().empty() ? unavailable(GetParam()) : mounts_unavailable();
        if (!why.empty()) {
            report_unavailable(why);
            GTEST_SKIP() << why;
        }
        image_ = std::make_unique<image_file_system>(GetParam(), 512 * mebibyte);
        heap_ = image_->path() + "/heap";
        copy_ = image_->path() + "/copy";
    }

    /// Blocks of random bytes, of which a sum is kept.
    void make() const {
        manager heap(create_only, heap_);
        auto* const sums = heap.construct<std::uint64_t>("sums")[count](0U);
        for (std::size_t i = 0; i < count; ++i) {
            heap.root(i) = ptr<void>{heap.allocate(size)};
            sums[i] = fill(heap, i, i);
        }
        heap.close(true);
    }
    static std::uint64_t fill(manager& heap, std::size_t i, std::uint64_t seed) {
        auto* const words = static_cast<std::uint64_t*>(heap.root(i).get());
        std::mt19937_64 random(seed);
        std::uint64_t sum = 0;
        for (std::size_t at = 0; at < size / 8; ++at) {
            sum += words[at] = random();
        }
        return sum;
    }
    static void expect_content(const std::string& path) {
        const manager heap(open_read_only, path);
        EXPECT_EQ(heap.check(true), std::vector<std::string>{});
        const auto* const sums = heap.find<std::uint64_t>("sums").first;
        for (std::size_t i = 0; i < count; ++i) {
            const auto* const words = static_cast<const std::uint64_t*>(heap.root(i).get());
            std::uint64_t sum = 0;
            for (std::size_t at = 0; at < size / 8; ++at) {
                sum += words[at];
            }
            EXPECT_EQ(sum, sums[i]) << path << ", block " << i;
        }
    }

    std::unique_ptr<image_file_system> image_;
    std::string heap_;
    std::string copy_;
};

TEST_P(shared_blocks, of_copies_take_no_space_and_are_nobody_elses) {
    make();
    EXPECT_EQ(extents_of_segments(heap_).shared, 0U);
    const bool can_share = GetParam() != file_system_kind::ext4;
    {
        manager heap(open_only, heap_);
        heap.snapshot(copy_);
        const mapped_bytes of_copy = extents_of_segments(copy_);
        EXPECT_GE(of_copy.all, count * size);
        EXPECT_EQ(of_copy.shared >= of_copy.all / 10 * 9, can_share) << of_copy.shared << " of " << of_copy.all;
        heap.find<std::uint64_t>("sums").first[3] = fill(heap, 3, 1000);
        heap.close(true);
    }
    expect_content(copy_);
    expect_content(heap_);
    {
        manager heap(open_only, copy_);
        heap.find<std::uint64_t>("sums").first[5] = fill(heap, 5, 2000);
        heap.close(true);
    }
    expect_content(copy_);
    expect_content(heap_);
}

INSTANTIATE_TEST_SUITE_P(on, shared_blocks,
                         ::testing::Values(file_system_kind::ext4, file_system_kind::xfs, file_system_kind::btrfs),
                         [](const auto& with) { return std::string(name_of(with.param)); });

}  // namespace
}  // namespace holdfast::test
