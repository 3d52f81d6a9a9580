// Paths that are no heap, and places that cannot be read or written.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "refusal.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

constexpr uid_t nobody = 65534;

TEST(paths, nothing_there_is_not_found_and_stays_nothing) {
    const scratch_directory scratch;
    expect_no_open(scratch / "absent", {errc::not_found, scratch / "absent", "directory", "nothing", "a heap"});
    EXPECT_FALSE(fs::exists(scratch / "absent"));
    expect_refusal(scratch.path(), {errc::not_found, scratch / "a", "directory", "nothing", "a heap"},
                   [&] { manager::copy(scratch / "a", scratch / "b"); });
    EXPECT_FALSE(manager::remove(scratch / "absent"));
    EXPECT_FALSE(manager::consistent(scratch / "absent"));
}

TEST(paths, a_file_is_not_a_heap_and_is_not_overwritten) {
    const scratch_directory scratch;
    write_bytes(scratch / "file", 0, {'t', 'e', 'x', 't'});
    expect_no_open(scratch / "file",
                   {errc::not_a_heap, scratch / "file", "directory", "a file", "the files of a heap"});
    expect_refusal(scratch.path(), {errc::already_exists, scratch / "file", "path", "a file", "nothing"},
                   [&] { const manager made(create_only, scratch / "file"); });
    expect_refusal(scratch.path(), {errc::not_a_heap, scratch / "file", "directory", "a file", "the files of a heap"},
                   [&] { const manager made(open_or_create, scratch / "file"); });
    EXPECT_THROW(manager::remove(scratch / "file"), error);
    EXPECT_TRUE(fs::exists(scratch / "file"));
}

TEST(paths, an_empty_directory_is_not_a_heap_but_one_can_be_made_there) {
    const scratch_directory scratch;
    fs::create_directory(scratch / "empty");
    expect_no_open(scratch / "empty",
                   {errc::not_a_heap, scratch / "empty", "directory", "an empty directory", "the files of a heap"});
    { const manager made(create_only, scratch / "empty", small_segments()); }
    EXPECT_EQ(step_when_opened(scratch / "empty"), 0U);
}

TEST(paths, a_directory_with_files_of_others_is_not_a_heap_and_none_is_made_there) {
    const scratch_directory scratch;
    fs::create_directory(scratch / "photos");
    write_bytes(scratch / "photos/one.jpg", 0, {'j', 'p', 'g'});
    const std::string photos = scratch / "photos";
    expect_no_open(photos,
                   {errc::not_a_heap, photos, "directory", "no superblock, but one.jpg", "the files of a heap"});
    expect_refusal(photos, {errc::already_exists, photos, "directory", "a file one.jpg", "nothing, or an empty"},
                   [&] { const manager made(create_only, photos); });
    expect_refusal(photos, {errc::not_a_heap, photos, "directory", "one.jpg", "the files of a heap"},
                   [&] { const manager made(open_or_create, photos); });
    expect_refusal(photos, {errc::invalid_argument, photos, "directory", "a file one.jpg", "the files of a heap alone"},
                   [&] { static_cast<void>(manager::remove(photos)); });
}

/// Was: a process that wanted to share the heap made the files lock and readers there.
TEST(paths, nothing_is_made_beside_a_superblock_of_others) {
    const scratch_directory scratch;
    const std::string theirs = scratch / "theirs";
    fs::create_directory(theirs);
    const std::string file = theirs + "/superblock";
    open_options shared = small_segments();
    shared.shared = true;
    for (const auto& [content, wanted] :
         {std::pair(std::vector<char>(16384, 'x'), refusal{errc::not_a_heap, file, "magic", "7878787878787878", ""}),
          std::pair(std::vector<char>(5, 'x'), refusal{errc::corrupt, file, "file size", "5", ""}),
          std::pair(std::vector<char>(), refusal{errc::corrupt, file, "file size", "0", ""})}) {
        write_bytes(file, 0, content);
        fs::resize_file(file, content.size());
        expect_no_open(theirs, wanted);
        expect_refusal(theirs, wanted, [&] { const manager opened(open_only, theirs, shared); });
        expect_refusal(theirs, wanted, [&] { const manager opened(open_or_create, theirs, shared); });
    }
}

TEST(paths, create_only_never_overwrites_a_heap) {
    const scratch_directory scratch;
    make_heap(scratch / "heap", 2);
    expect_refusal(scratch.path(), {errc::already_exists, scratch / "heap", "directory", "a heap", "nothing"},
                   [&] { const manager made(create_only, scratch / "heap"); });
    make_heap(scratch / "other", 1);
    expect_refusal(scratch.path(), {errc::already_exists, scratch / "other", "directory", "", "nothing, or an empty"},
                   [&] { manager::copy(scratch / "heap", scratch / "other"); });
    EXPECT_EQ(step_when_opened(scratch / "other"), 1U);
}

TEST(paths, a_heap_with_a_foreign_file_in_it_opens_but_is_not_removed) {
    const scratch_directory scratch;
    make_heap(scratch / "heap", 2);
    write_bytes(scratch / "heap/README", 0, {'m', 'i', 'n', 'e'});
    EXPECT_EQ(step_when_opened(scratch / "heap"), 2U);
    expect_refusal(scratch / "heap",
                   {errc::invalid_argument, scratch / "heap", "directory", "a file README", "the files of a heap"},
                   [&] { static_cast<void>(manager::remove(scratch / "heap")); });
    expect_heap_goes_on(scratch / "heap");
}

TEST(paths, a_directory_in_the_place_of_a_file_is_named) {
    const scratch_directory scratch;
    make_heap(scratch / "heap", 1);
    for (const std::string name : {"superblock", "segment.000000", "objects"}) {
        const std::string path = scratch / ("heap/" + name);
        fs::rename(path, scratch / "kept");
        fs::create_directory(path);
        expect_refusal(scratch / "heap", {errc::corrupt, path, "file type", "directory", "regular file"},
                       [&] { const manager opened(open_read_only, scratch / "heap", small_segments()); });
        fs::remove(path);
        fs::rename(scratch / "kept", path);
    }
    expect_heap_goes_on(scratch / "heap");
}

TEST(paths, a_heap_that_nobody_may_enter_is_refused_by_permission) {
    const scratch_directory scratch;
    ::chmod(scratch.path().c_str(), 0755);
    make_heap(scratch / "heap", 2);
    ::chmod((scratch / "heap").c_str(), 0);
    in_child([&] {
        if (::geteuid() == 0) {
            ASSERT_EQ(::setresuid(nobody, nobody, nobody), 0);
        }
        for (const bool writer : {true, false}) {
            try {
                const manager opened = writer ? manager(open_only, scratch / "heap", small_segments())
                                              : manager(open_read_only, scratch / "heap", small_segments());
                ADD_FAILURE() << "opened";
            } catch (const error& what) {
                EXPECT_EQ(what.reason(), errc::permission) << what.what();
                EXPECT_EQ(what.path(), scratch / "heap");
                EXPECT_EQ(what.field(), "opendir");
                EXPECT_EQ(what.found(), "Permission denied");
                EXPECT_EQ(what.expected(), "permission");
            }
        }
    });
    ::chmod((scratch / "heap").c_str(), 0755);
    EXPECT_EQ(step_when_opened(scratch / "heap"), 2U);
}

TEST(paths, files_that_may_only_be_read_open_for_reading_alone) {
    const scratch_directory scratch;
    ::chmod(scratch.path().c_str(), 0755);
    make_heap(scratch / "heap", 2);
    for (const auto& entry : fs::directory_iterator(scratch / "heap")) {
        ::chmod(entry.path().c_str(), 0444);
    }
    ::chmod((scratch / "heap").c_str(), 0555);
    in_child([&] {
        if (::geteuid() == 0) {
            ASSERT_EQ(::setresuid(nobody, nobody, nobody), 0);
        }
        expect_refusal(scratch / "heap",
                       {errc::permission, scratch / "heap/lock", "open the lock", "denied", "permission"},
                       [&] { const manager opened(open_only, scratch / "heap", small_segments()); });
        EXPECT_EQ(step_when_opened(scratch / "heap"), 2U);
    });
    ::chmod((scratch / "heap").c_str(), 0755);
}

TEST(paths, a_directory_that_may_not_be_written_gets_no_heap) {
    const scratch_directory scratch;
    ::chmod(scratch.path().c_str(), 0555);
    in_child([&] {
        if (::geteuid() == 0) {
            ASSERT_EQ(::setresuid(nobody, nobody, nobody), 0);
        }
        expect_refusal(scratch.path(), {errc::permission, scratch / "heap", "mkdir", "denied", "permission"},
                       [&] { const manager made(create_only, scratch / "heap", small_segments()); });
    });
    ::chmod(scratch.path().c_str(), 0755);
}

TEST(paths, a_read_only_file_system_serves_readers_and_refuses_writers) {
    if (!can_keep_mounts_apart()) {
        GTEST_SKIP() << "NOT TESTED: only root can mount a file system, and not in every container";
    }
    const scratch_directory scratch;
    in_child([&] {
        // Mounts of a namespace of its own go with the child.
        ASSERT_TRUE(keep_mounts_apart());
        ASSERT_EQ(::mount("holdfast", scratch.path().c_str(), "tmpfs", 0, "size=64m"), 0);
        make_heap(scratch / "heap", 2);
        make_crashed_heap(scratch / "crashed", 2);
        make_heap_with_pending_commit(scratch / "pending", 3);
        ASSERT_EQ(::mount(nullptr, scratch.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
        for (const std::string name : {"heap", "crashed", "pending"}) {
            expect_refusal(scratch / name,
                           {errc::read_only, scratch / (name + "/lock"), "open the lock", "Read-only file system",
                            "a writable file system"},
                           [&] { const manager opened(open_only, scratch / name, small_segments()); });
        }
        expect_refusal(scratch.path(),
                       {errc::read_only, scratch / "new", "mkdir", "Read-only file system", "a writable file system"},
                       [&] { const manager made(create_only, scratch / "new", small_segments()); });
        EXPECT_EQ(step_when_opened(scratch / "heap"), 2U);
        // Neither is recovery a change on media for a reader.
        EXPECT_EQ(step_when_opened(scratch / "crashed"), 2U);
        EXPECT_EQ(step_when_opened(scratch / "pending"), 3U);
    });
}

}  // namespace
}  // namespace holdfast::support
