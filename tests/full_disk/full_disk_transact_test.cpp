// Transactions over everything on a full disk: one without room for its record is taken back, and the heap goes on.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "full_disk/full_disks.hpp"
#include "powerloss/mounts.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

using rows = map<std::uint64_t, vector<std::uint64_t>>;

class full_disk_transact : public on_small_disk<const char*> {
protected:
    void SetUp() override { mount(GetParam(), 64, 80); }

    [[nodiscard]] static open_options small_segments() {
        open_options wanted;
        wanted.segment_size = 4 * mebibyte;
        return wanted;
    }
    [[nodiscard]] static rows& rows_of(manager& heap) {
        return *heap.find_or_construct<rows>("rows")(heap.get_allocator<>());
    }
    /// What a crash now would leave.
    void expect_survives(std::uint64_t count, std::uint64_t value) {
        const std::string copy = room_->path() + "/copy" + std::to_string(copies_++);
        fs::copy(path_, copy, fs::copy_options::recursive);
        const manager found(open_read_only, copy);
        EXPECT_EQ(found.check(true), std::vector<std::string>());
        const rows& all = *found.find<rows>("rows").first;
        EXPECT_EQ(all.size(), count);
        for (const auto& [key, row] : all) {
            EXPECT_EQ(std::ranges::count(row, value), std::ssize(row)) << key;
        }
    }

    int copies_ = 0;
};

TEST_P(full_disk_transact, without_room_for_its_record_is_taken_back_and_the_heap_goes_on) {
    constexpr std::uint64_t count = 400;
    constexpr std::size_t length = 2000;
    manager heap(create_only, path_, small_segments());
    heap.transact([&] {
        for (std::uint64_t key = 0; key < count; ++key) {
            rows_of(heap)[key].assign(length, 1);
        }
    });
    // The new row finds room beside this one, so that only the record lacks space.
    heap.transact([&] { heap.construct<vector<std::uint64_t>>("beside")(10, 0, heap.get_allocator<>()); });
    const std::uint64_t blocks = heap.statistics().allocated_blocks;
    rows& all = rows_of(heap);
    const auto fill_all = [&](std::uint64_t value) {
        for (auto& [key, row] : all) {
            std::ranges::fill(row, value);
        }
        all[count].assign(10, value);
    };
    auto full = std::make_unique<ballast>(directory_, 0);
    for (int attempt = 0; attempt < 3; ++attempt) {
        try {
            heap.transact([&] { fill_all(2); });
            ADD_FAILURE() << "a record of 6 MiB on a full disk";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
        }
        EXPECT_EQ(all.size(), count);
        EXPECT_EQ(heap.statistics().allocated_blocks, blocks);
        EXPECT_EQ(heap.check(true), std::vector<std::string>());
    }
    heap.transact([&] { all.begin()->second.front() = 1; });  // a small one has room
    expect_survives(count, 1);
    full.reset();
    heap.transact([&] { fill_all(3); });
    expect_survives(count + 1, 3);
}

INSTANTIATE_TEST_SUITE_P(on, full_disk_transact, testing::Values("tmpfs", "ext4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace holdfast::test
