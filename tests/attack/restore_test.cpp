// What those who operate heaps do to their directories while they are closed: restores that have not finished, files
// that are lost, copies and removals that are killed.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attack/attacked.hpp"
#include "bad_input/refusal.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::attack {
namespace {

namespace fs = std::filesystem;
using support::expect_refusal;
using support::scratch_directory;

class restored_heap : public testing::TestWithParam<durability> {
protected:
    restored_heap() { make_heap(path_, 3, GetParam()); }

    scratch_directory scratch_;
    std::string path_ = scratch_ / "heap";
};

/// Was: open_or_create took it for the remains of a creation, removed all segments and made an empty heap.
TEST_P(restored_heap, without_its_superblock_is_not_replaced_by_an_empty_one) {
    fs::rename(path_ + "/superblock", scratch_ / "superblock");
    const support::refusal missing{errc::missing, path_ + "/superblock", "file", "nothing", "superblock"};
    for (const auto& open : std::initializer_list<std::function<void()>>{
             [&] { const manager heap(open_or_create, path_, options_for(GetParam())); },
             [&] { const manager heap(create_only, path_, options_for(GetParam())); },
             [&] { const manager heap(open_only, path_, options_for(GetParam())); }}) {
        expect_refusal(scratch_.path(), missing, open);
    }
    fs::rename(scratch_ / "superblock", path_ + "/superblock");
    EXPECT_EQ(step_at(path_), 3U);
}

/// rsync brings the files in the order of their names: the superblock comes last.
TEST_P(restored_heap, that_is_still_being_restored_is_not_replaced_by_an_empty_one) {
    fs::create_directory(scratch_ / "restored");
    for (const char* name : {"lock", "objects"}) {
        fs::copy_file(path_ + "/" + name, scratch_ / "restored" + "/" + name);
    }
    const support::refusal missing{errc::missing, scratch_ / "restored/superblock", "file", "nothing", "superblock"};
    expect_refusal(scratch_.path(), missing,
                   [&] { const manager heap(open_or_create, scratch_ / "restored", options_for(GetParam())); });
    EXPECT_TRUE(manager::remove(scratch_ / "restored")) << "who asks for that may remove it";
    EXPECT_FALSE(fs::exists(scratch_ / "restored"));
}

/// superblock.new says that what is there is no heap yet, or no more.
TEST_P(restored_heap, whose_removal_was_cut_off_makes_room_for_a_new_one) {
    fs::rename(path_ + "/superblock", path_ + "/superblock.new");
    {
        const manager heap(open_or_create, path_, options_for(GetParam()));
        EXPECT_EQ(heap.get_num_named_objects(), 0U);
    }
    EXPECT_FALSE(fs::exists(path_ + "/superblock.new"));
}

/// Was: locked, as if another process were there.
TEST_P(restored_heap, whose_name_is_a_link_that_leads_nowhere_is_not_found) {
    fs::create_symlink(scratch_ / "nowhere", scratch_ / "link");
    expect_refusal(scratch_.path(), {errc::not_found, scratch_ / "link", "directory", "nowhere", "directory"},
                   [&] { const manager heap(open_or_create, scratch_ / "link", options_for(GetParam())); });
}

INSTANTIATE_TEST_SUITE_P(, restored_heap, testing::ValuesIn(durabilities),
                         [](const auto& each) { return name_of(each.param); });

}  // namespace
}  // namespace holdfast::attack
