// A heap that is opened in another durability, where hardly anything is left of the file system: redo rings need space.
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "full_disk/full_disks.hpp"
#include "powerloss/mounts.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

class other_durability : public on_small_disk<const char*> {
protected:
    void SetUp() override { mount(GetParam(), 48, 64); }

    [[nodiscard]] static open_options committing() {
        open_options wanted;
        wanted.segment_size = 4 * mebibyte;
        return wanted;
    }
    [[nodiscard]] static open_options durable() {
        open_options wanted;
        wanted.durability = durability::atomic;
        wanted.domain = open_options::domain_choice::disk;
        return wanted;
    }
};

TEST_P(other_durability, with_little_room_has_a_shorter_log) {
    manager(create_only, path_, committing()).close();
    const ballast full(directory_, 5 * mebibyte / 2);
    manager heap(open_only, path_, durable());
    for (int i = 0; i < 9000; ++i) {  // more than once around the log
        heap.allocate_to(heap.root(1), 100);
        heap.free_from(heap.root(1));
    }
    std::memset(heap.allocate_to(heap.root(1), 100), 7, 100);
    const std::string copy = room_->path() + "/crashed";
    fs::copy(path_, copy, fs::copy_options::recursive);
    const manager found(open_read_only, copy);
    EXPECT_EQ(found.check(true), std::vector<std::string>());
    ASSERT_NE(found.root(1).get(), nullptr);
    EXPECT_EQ(*static_cast<const char*>(found.root(1).get()), 7);
}

TEST_P(other_durability, without_room_is_refused_and_the_last_one_is_not) {
    manager(create_only, path_, committing()).close();
    {
        const ballast full(directory_, 64 * 1024);
        try {
            const manager heap(open_only, path_, durable());
            ADD_FAILURE() << "redo rings without room";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
            EXPECT_NE(failure.hint().find("durability in which it was last open"), std::string::npos) << failure.what();
        }
        EXPECT_EQ(manager(open_only, path_, committing()).check(true), std::vector<std::string>());
    }
    EXPECT_EQ(manager(open_only, path_, durable()).check(true), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(on, other_durability, ::testing::Values("tmpfs", "ext4"));

}  // namespace
}  // namespace holdfast::test
