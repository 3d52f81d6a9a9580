// Directories of nodes that are not what the heap made: refusals that name path, field, found and expected.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "refusal.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

class nodes : public ::testing::Test {
protected:
    nodes() {
        fs::create_directory(scratch_ / "a");
        fs::create_directory(scratch_ / "b");
        manager made(create_only, heap_, in_two_places());
        advance(made, 1);
        made.root(1) = made.allocate(5U << 20U);
        made.commit();
        made.close();
    }
    [[nodiscard]] open_options in_two_places() const {
        open_options options = small_segments();
        options.node_directories = {scratch_ / "a", scratch_ / "b"};
        return options;
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "heap";
};

TEST_F(nodes, a_place_that_is_not_mounted) {
    fs::rename(scratch_ / "b", scratch_ / "c");
    expect_no_open(heap_,
                   {errc::missing, heap_ + "/node.1", "node directory", scratch_ / "b", "the directory of node 1"});
    expect_refusal(scratch_.path(), {errc::missing, heap_ + "/node.1", "node directory", "", ""},
                   [&] { manager::copy(heap_, scratch_ / "copy"); });
    expect_refusal(scratch_.path(), {errc::missing, heap_ + "/node.1", "node directory", "", ""},
                   [&] { static_cast<void>(manager::remove(heap_)); });
    fs::rename(scratch_ / "c", scratch_ / "b");
    expect_heap_goes_on(heap_);
}

TEST_F(nodes, a_link_to_something_else) {
    const fs::path kept = fs::read_symlink(heap_ + "/node.1");
    fs::create_directory(scratch_ / "photos");
    write_bytes(scratch_ / "photos/node", 0, std::vector<char>(4096, 'x'));
    write_bytes(scratch_ / "photos/lock", 0, {'m', 'i', 'n', 'e'});
    fs::remove(heap_ + "/node.1");
    fs::create_directory_symlink(scratch_ / "photos", heap_ + "/node.1");
    expect_no_open(heap_, {errc::corrupt, heap_ + "/node.1/node", "magic", "another", "HFSTNODE"});
    expect_refusal(scratch_.path(), {errc::corrupt, heap_ + "/node.1/node", "magic", "", ""},
                   [&] { static_cast<void>(manager::remove(heap_)); });
    EXPECT_EQ(read_bytes(scratch_ / "photos/lock"), (std::vector<char>{'m', 'i', 'n', 'e'}));
    fs::remove(heap_ + "/node.1");
    fs::create_directory_symlink(kept, heap_ + "/node.1");
    expect_heap_goes_on(heap_);
}

TEST_F(nodes, a_link_that_leads_in_a_circle) {
    const fs::path kept = fs::read_symlink(heap_ + "/node.0");
    fs::remove(heap_ + "/node.0");
    fs::create_directory_symlink(heap_ + "/node.0", heap_ + "/node.0");
    EXPECT_THROW(manager(open_read_only, heap_), error);
    fs::remove(heap_ + "/node.0");
    fs::create_directory_symlink(kept, heap_ + "/node.0");
    expect_heap_goes_on(heap_);
}

TEST_F(nodes, a_segment_that_is_missing_is_named_where_it_should_be) {
    fs::rename(heap_ + "/node.1/segment.000001", scratch_ / "kept");
    expect_no_open(heap_, {errc::missing, heap_ + "/node.1/segment.000001", "", "", ""});
    fs::rename(scratch_ / "kept", heap_ + "/node.1/segment.000001");
    expect_heap_goes_on(heap_);
}

TEST_F(nodes, a_directory_copied_by_hand) {
    fs::copy(heap_, scratch_ / "copy", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    expect_no_open(scratch_ / "copy",
                   {errc::corrupt, scratch_ / "copy/node.0", "node directory", heap_, "one of its own"});
    expect_refusal(scratch_.path(), {errc::corrupt, scratch_ / "copy/node.0", "node directory", heap_, ""},
                   [&] { static_cast<void>(manager::remove(scratch_ / "copy")); });
    expect_heap_goes_on(heap_);
}

TEST_F(nodes, more_than_the_format_knows) {
    open_options options = small_segments();
    options.node_directories.assign(65, "");
    expect_refusal(scratch_.path(), {errc::invalid_argument, scratch_ / "new", "node directories", "65", "at most 64"},
                   [&] { const manager made(create_only, scratch_ / "new", options); });
}

TEST_F(nodes, options_of_a_heap_that_is_there_mean_nothing) {
    open_options options = small_segments();
    options.node_directories = {"/nonexistent"};
    EXPECT_EQ(step_of(manager(open_only, heap_, options)), 1U);
}

/// Runs it with a file system mounted on the directory, in a child with a name space of its own.
void with_mounted(const char* type, const char* data, const std::string& where, const std::function<void()>& action) {
    in_child([&] {
        ASSERT_TRUE(keep_mounts_apart());
        ASSERT_EQ(::mount("holdfast", where.c_str(), type, 0, data), 0);
        action();
    });
}

TEST(file_systems, hugetlbfs_is_refused_with_what_to_use_instead) {
    if (!can_keep_mounts_apart()) {
        GTEST_SKIP() << "NOT TESTED: only root can mount a file system, and not in every container";
    }
    std::ifstream known("/proc/filesystems");
    if (std::string(std::istreambuf_iterator<char>(known), {}).find("hugetlbfs") == std::string::npos) {
        GTEST_SKIP() << "NOT TESTED: this kernel has no hugetlbfs";
    }
    const scratch_directory scratch;
    const std::string huge = scratch / "huge";
    fs::create_directory(huge);
    make_heap(scratch / "heap", 1);
    with_mounted("hugetlbfs", nullptr, huge, [&] {
        const auto refused = [&](const std::string& path, const std::function<void()>& action) {
            expect_refusal(scratch.path(), {errc::unsupported, path, "file system", "hugetlbfs", "tmpfs"}, action);
        };
        refused(huge + "/heap", [&] { const manager made(create_only, huge + "/heap", small_segments()); });
        refused(huge, [&] { const manager made(open_or_create, huge, small_segments()); });
        refused(huge + "/copy", [&] { manager::copy(scratch / "heap", huge + "/copy"); });
        open_options options = small_segments();
        options.node_directories = {"", huge};
        refused(huge, [&] { const manager made(create_only, scratch / "new", options); });
    });
}

TEST(file_systems, a_place_that_is_full_is_no_space) {
    if (!can_keep_mounts_apart()) {
        GTEST_SKIP() << "NOT TESTED: only root can mount a file system, and not in every container";
    }
    const scratch_directory scratch;
    fs::create_directory(scratch / "small");
    with_mounted("tmpfs", "size=3m", scratch / "small", [&] {
        open_options options = small_segments();
        options.node_directories = {"", scratch / "small"};
        manager heap(create_only, scratch / "heap", options);
        advance(heap, 1);
        heap.commit();
        EXPECT_EQ(heap.allocate(64U << 20U, std::nothrow), nullptr);
        EXPECT_THROW(static_cast<void>(heap.allocate(64U << 20U)), bad_alloc);
        advance(heap, 2);
        heap.commit();
        EXPECT_EQ(step_of(heap), 2U);
        heap.close();
        EXPECT_EQ(step_of(manager(open_read_only, scratch / "heap")), 2U);
        EXPECT_TRUE(manager::remove(scratch / "heap"));
        EXPECT_TRUE(fs::is_empty(scratch / "small"));
    });
}

}  // namespace
}  // namespace holdfast::support
