// Copies of a heap where the file system can share blocks between files: they take no space until one of the two is
// changed, and neither sees what becomes of the other.
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "base/process_test_support.hpp"
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

using parameters = std::tuple<file_system_kind, durability>;

class shared_blocks : public ::testing::TestWithParam<parameters> {
protected:
    [[nodiscard]] static file_system_kind files_of() { return std::get<0>(GetParam()); }
    [[nodiscard]] static bool can_share() { return files_of() != file_system_kind::ext4; }
    [[nodiscard]] static open_options options() {
        open_options wanted;
        wanted.durability = std::get<1>(GetParam());
        wanted.segment_size = 4 * mebibyte;
        if (wanted.durability == durability::atomic) {
            wanted.domain = open_options::domain_choice::disk;
        }
        wanted.accept_process_crash_only = wanted.durability == durability::collect;
        return wanted;
    }
    static constexpr std::size_t count = 64;
    static constexpr std::size_t size = 256 << 10;

    void SetUp() override {
        const std::string why = mounts_unavailable().empty() ? unavailable(files_of()) : mounts_unavailable();
        if (!why.empty()) {
            report_unavailable(why);
            GTEST_SKIP() << why;
        }
        image_ = std::make_unique<image_file_system>(files_of(), 512 * mebibyte);
        heap_ = image_->path() + "/heap";
        copy_ = image_->path() + "/copy";
    }

    /// Blocks of random bytes, of which a sum is kept.
    void make() const {
        manager heap(create_only, heap_, options());
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
    {
        manager heap(open_only, heap_, options());
        heap.snapshot(copy_);
        const mapped_bytes of_copy = extents_of_segments(copy_);
        EXPECT_GE(of_copy.all, count * size);
        EXPECT_EQ(of_copy.shared >= of_copy.all / 10 * 9, can_share()) << of_copy.shared << " of " << of_copy.all;
        heap.find<std::uint64_t>("sums").first[3] = fill(heap, 3, 1000);
        heap.close(true);
    }
    expect_content(copy_);
    expect_content(heap_);
    {
        manager heap(open_only, copy_, options());
        heap.find<std::uint64_t>("sums").first[5] = fill(heap, 5, 2000);
        heap.close(true);
    }
    expect_content(copy_);
    expect_content(heap_);
}

/// The power goes, or the process dies, behind a snapshot, while what it shares is changed: the kernel gives the heap
/// blocks of its own as they are written. Nothing of the snapshot may be lost, nor anything that the heap had durable.
class shared_blocks_survive : public shared_blocks {
protected:
    /// Changes all blocks, one at a time; `changed` counts those that are durable. Never returns.
    void change_all(std::atomic<std::uint64_t>& changed) const {
        manager heap(open_only, heap_, options());
        heap.snapshot(copy_);
        auto* const sums = heap.find<std::uint64_t>("sums").first;
        for (std::size_t i = 0; i < count; ++i) {
            change(heap, sums, i);
            changed.store(i + 1);
        }
        ::pause();
    }
    struct page {
        std::uint64_t words[512];
    };
    /// New random words in the first page of the block.
    static void change(manager& heap, std::uint64_t* sums, std::size_t i) {
        auto& first = *static_cast<page*>(heap.root(i).get());
        if (options().durability == durability::atomic) {
            heap.transact([&](transaction& tx) { exchange(tx.open(first), tx.open(sums[i]), i); });
            return;
        }
        exchange(first, sums[i], i);
        if (options().durability == durability::commit) {
            heap.commit();
        }
    }
    static void exchange(page& changed, std::uint64_t& sum, std::size_t i) {
        std::mt19937_64 random(count + i);
        for (std::uint64_t& word : changed.words) {
            sum -= word;
            word = random();
            sum += word;
        }
    }
    /// The snapshot is what it was; the heap has at least the first `changed` blocks of new content.
    void expect_both(std::uint64_t changed) const {
        expect_content(copy_);
        {
            const manager snapshot(open_read_only, copy_);
            for (std::size_t i = 0; i < count; ++i) {
                EXPECT_EQ(*static_cast<const std::uint64_t*>(snapshot.root(i).get()), std::mt19937_64(i)()) << i;
            }
        }
        manager(open_only, heap_, options()).close(true);
        const manager heap(open_read_only, heap_);
        EXPECT_EQ(heap.check(true), std::vector<std::string>{});
        for (std::size_t i = 0; i < changed; ++i) {
            EXPECT_EQ(*static_cast<const std::uint64_t*>(heap.root(i).get()), std::mt19937_64(count + i)()) << i;
        }
        if (options().durability != durability::collect) {  // what a process stores last may be there in part
            expect_content(heap_);
        }
    }
};

TEST_P(shared_blocks_survive, the_death_of_the_writer) {
    make();
    base::shared_memory<std::atomic<std::uint64_t>> changed;
    base::child_process writer([&] { change_all(*changed); });
    ASSERT_TRUE(writer.runs_until([&] { return changed->load() >= count / 2; }));
    const std::uint64_t before = changed->load();
    writer.kill();
    expect_both(before);
}

/// `collect` does not, on ordinary files.
class shared_blocks_survive_longer : public shared_blocks_survive {};
TEST_P(shared_blocks_survive_longer, a_loss_of_power) {
    make();
    base::shared_memory<std::atomic<std::uint64_t>> changed;
    base::child_process writer([&] { change_all(*changed); });
    ASSERT_TRUE(writer.runs_until([&] { return changed->load() >= count / 2; }));
    const std::uint64_t before = changed->load();
    if (files_of() == file_system_kind::btrfs) {
        writer.kill();
        image_->lose_power();
    } else {
        image_->shut_down();
        writer.kill();
        image_->mount_again();
    }
    expect_both(before);
}

/// A store through a shared mapping to a block that a copy shares takes space: where there is less than the heap has,
/// nothing is shared, and a copy has no room. In `commit` it is the commit that takes space, and says so.
TEST_P(shared_blocks, where_room_is_short_there_is_no_signal) {
    make();
    const bool stores_take_space = options().durability != durability::commit;
    manager heap(open_only, heap_, options());
    const ballast nearly_full(image_->path(), count * size / 2);
    errc reason = errc::none;
    try {
        heap.snapshot(copy_);
    } catch (const error& failure) {
        reason = failure.reason();
    }
    if (stores_take_space || !can_share()) {
        EXPECT_EQ(reason, errc::no_space);
    } else if (files_of() == file_system_kind::xfs) {  // Btrfs may lack room for its own tables
        EXPECT_EQ(reason, errc::none);
    }
    EXPECT_EQ(std::filesystem::exists(copy_), reason == errc::none);
    if (stores_take_space && files_of() != file_system_kind::btrfs) {  // there each store takes space, shared or not
        const ballast full(image_->path(), 0);
        for (std::size_t i = 0; i < count; ++i) {
            static_cast<void>(fill(heap, i, 2 * count + i));
        }
    }
    heap.close(false);
}

/// A heap that grows leaves room for what it shares, whatever a loop asks for; and takes it once nothing is shared.
class shared_blocks_grow : public shared_blocks {
protected:
    static std::size_t allocate_all(manager& heap) {
        std::size_t taken = 0;
        for (std::size_t bytes = 8 * mebibyte; bytes >= size; bytes /= 2) {
            try {
                for (;;) {
                    std::memset(heap.allocate(bytes), 1, 1);
                    taken += bytes;
                }
            } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then a smaller one
            }
        }
        return taken;
    }
};
TEST_P(shared_blocks_grow, and_leave_room_for_what_is_shared) {
    make();
    manager heap(open_only, heap_, options());
    heap.snapshot(copy_);
    ASSERT_GE(extents_of_segments(heap_).shared, count * size);
    auto others = std::make_unique<ballast>(image_->path(), fs::space(image_->path()).available - 48 * mebibyte);
    EXPECT_GT(allocate_all(heap), 64 * mebibyte);
    for (std::size_t i = 0; i < count; ++i) {
        heap.find<std::uint64_t>("sums").first[i] = fill(heap, i, 3 * count + i);
    }
    heap.sync();
    EXPECT_LT(extents_of_segments(heap_).shared, 2 * mebibyte);
    others.reset();
    EXPECT_GT(allocate_all(heap), 40 * mebibyte) << "else blocks are kept for what is no longer shared";
    heap.close(true);
    expect_content(copy_);
    expect_content(heap_);
}

constexpr auto name = [](const auto& with) {
    constexpr const char* names[] = {"", "commit", "collect", "atomic"};
    const auto index = static_cast<std::size_t>(std::get<1>(with.param));
    return std::string(name_of(std::get<0>(with.param))) + "_" + names[index];
};
const auto durabilities = ::testing::Values(durability::commit, durability::atomic, durability::collect);

INSTANTIATE_TEST_SUITE_P(on, shared_blocks,
                         ::testing::Combine(::testing::Values(file_system_kind::ext4, file_system_kind::xfs,
                                                              file_system_kind::btrfs),
                                            durabilities),
                         name);
INSTANTIATE_TEST_SUITE_P(on, shared_blocks_survive,
                         ::testing::Combine(::testing::Values(file_system_kind::xfs, file_system_kind::btrfs),
                                            durabilities),
                         name);
INSTANTIATE_TEST_SUITE_P(on, shared_blocks_grow,
                         ::testing::Combine(::testing::Values(file_system_kind::xfs),
                                            ::testing::Values(durability::collect, durability::atomic)),
                         name);
INSTANTIATE_TEST_SUITE_P(on, shared_blocks_survive_longer,
                         ::testing::Combine(::testing::Values(file_system_kind::xfs, file_system_kind::btrfs),
                                            ::testing::Values(durability::commit, durability::atomic)),
                         name);

}  // namespace
}  // namespace holdfast::test
