// What somebody puts in the place of a heap's files: links, pipes, directories, files of others. Nothing outside the
// heap changes, nobody waits for ever, and the message names what is there.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>

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
using support::files_under;
using support::scratch_directory;

constexpr uid_t nobody = 65534;

/// In a child of fork of root's.
void become_nobody() {
    ASSERT_EQ(::setresgid(nobody, nobody, nobody), 0);
    ASSERT_EQ(::setresuid(nobody, nobody, nobody), 0);
    ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);  // or the kernel hides /proc/self from its own process
}

class planted : public testing::TestWithParam<durability> {
protected:
    planted() {
        make_heap(heap_, 2, GetParam());
        support::write_bytes(victim_, 0, {'p', 'r', 'e', 'c', 'i', 'o', 'u', 's'});
    }
    /// The files of the heap, `lock` first: it is what an open writes first.
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> found{"lock", "superblock", "objects", "segment.000000"};
        if (GetParam() == durability::atomic) {
            found.emplace_back("lanes");
        }
        return found;
    }
    /// Puts what `plant` makes into the place of each file in turn; neither a writer nor a reader may open it.
    void expect_refused(const std::string& found, const std::function<void(const std::string&)>& plant) {
        for (const std::string& name : names()) {
            SCOPED_TRACE(name);
            const std::string path = heap_ + "/" + name;
            fs::rename(path, scratch_ / "kept");
            plant(path);
            EXPECT_TRUE(ends_within(20, [&] {
                expect_refusal(scratch_.path(), {errc::corrupt, path, "file type", found, "regular file"},
                               [&] { const manager opened(open_only, heap_, options_for(GetParam())); });
                if (name != "lanes") {  // those mean nothing to a reader of a heap that was closed
                    expect_refusal(scratch_.path(), {errc::corrupt, path, "file type", found, "regular file"},
                                   [&] { const manager opened(open_read_only, heap_, options_for(GetParam())); });
                }
            }));
            EXPECT_EQ(support::read_bytes(victim_), (std::vector<char>{'p', 'r', 'e', 'c', 'i', 'o', 'u', 's'}));
            fs::remove(path);
            fs::rename(scratch_ / "kept", path);
        }
        EXPECT_EQ(step_at(heap_), 2U);
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "heap";
    std::string victim_ = scratch_ / "victim";
};

/// Was: the target of `lock` was cut to nothing and got a process id, even where the open failed then.
TEST_P(planted, links_are_not_followed) {
    expect_refused("link", [&](const std::string& path) { fs::create_symlink(victim_, path); });
    expect_refused("link", [&](const std::string& path) { fs::create_symlink(scratch_ / "kept", path); });
    expect_refused("link", [&](const std::string& path) { fs::create_symlink("nowhere", path); });
}

/// Was: whoever opened the heap waited for ever, where `lock` was a pipe.
TEST_P(planted, pipes_are_not_waited_for) {
    expect_refused("pipe", [](const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0); });
}

/// Was: "Is a directory", and of some files "success" expected.
TEST_P(planted, directories_are_named) {
    expect_refused("directory", [](const std::string& path) { fs::create_directory(path); });
}

/// Was: "No such device or address".
TEST_P(planted, sockets_are_named) {
    expect_refused("socket", [&](const std::string& path) { ASSERT_EQ(::mknod(path.c_str(), S_IFSOCK | 0644, 0), 0); });
}

/// Was: the devices of `lock` were opened, and waited for where they are terminals.
TEST_P(planted, devices_are_named) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "NOT TESTED: only root can make devices";
    }
    expect_refused("device", [](const std::string& path) {
        ASSERT_EQ(::mknod(path.c_str(), S_IFCHR | 0644, makedev(1, 7)), 0);  // /dev/full
    });
}

/// Was: another name of a file of the caller's was cut to nothing.
TEST_P(planted, second_names_of_other_files_are_not_written) {
    for (const std::string& name : names()) {
        SCOPED_TRACE(name);
        const std::string path = heap_ + "/" + name;
        fs::copy_file(path, scratch_ / "second");
        fs::rename(path, scratch_ / "kept");
        fs::create_hard_link(scratch_ / "second", path);
        const auto before = support::read_bytes(scratch_ / "second");
        expect_refusal(scratch_.path(), {errc::corrupt, path, "names of the file", "2", "1"},
                       [&] { const manager opened(open_only, heap_, options_for(GetParam())); });
        EXPECT_EQ(step_at(heap_), 2U) << "a reader changes nothing";
        EXPECT_EQ(support::read_bytes(scratch_ / "second"), before);
        fs::remove(path);
        fs::rename(scratch_ / "kept", path);
        fs::remove(scratch_ / "second");
    }
    EXPECT_EQ(step_at(heap_), 2U);
}

/// Was: files of anybody who could write the directory were taken for the heap's.
TEST_P(planted, files_of_others_are_refused_but_for_root) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "NOT TESTED: only root can give files away";
    }
    ::chmod(scratch_.path().c_str(), 0755);
    const auto give = [](const std::string& path, uid_t owner) { ASSERT_EQ(::chown(path.c_str(), owner, owner), 0); };
    give(heap_, nobody);
    for (const auto& entry : fs::directory_iterator(heap_)) {
        give(entry.path(), nobody);
    }
    for (const std::string name : {"lock", "superblock", "objects"}) {
        const std::string path = heap_ + "/" + name;
        give(path, 12345);
        ::chmod(path.c_str(), 0666);
        support::in_child([&] {
            become_nobody();
            expect_refusal(heap_, {errc::permission, path, "owner", "12345", "65534"},
                           [&] { const manager opened(open_only, heap_, options_for(GetParam())); });
            expect_refusal(heap_, {errc::permission, path, "owner", "12345", "65534"},
                           [&] { const manager opened(open_read_only, heap_, options_for(GetParam())); });
        });
        EXPECT_EQ(step_at(heap_), 2U) << "root may";
        ::chmod(path.c_str(), 0644);
        give(path, nobody);
    }
    // What root adds to a heap stays its owner's.
    {
        manager heap(open_only, heap_, options_for(GetParam()));
        support::advance(heap, 3);
        static_cast<void>(heap.allocate(std::size_t{9} << 20U));
        heap.close(true);
    }
    support::in_child([&] {
        become_nobody();
        manager heap(open_only, heap_, options_for(GetParam()));
        support::advance(heap, 4);
        heap.close(true);
    });
    EXPECT_EQ(step_at(heap_), 4U);
}

/// Was: the lock was made, or written, before anybody had looked whether this is a heap.
TEST_P(planted, what_has_no_superblock_of_ours_is_not_written) {
    support::write_bytes(heap_ + "/superblock", 0, std::vector<char>(8192, 'x'));
    support::write_bytes(heap_ + "/lock", 0, {'m', 'i', 'n', 'e'});
    const auto lock = support::read_bytes(heap_ + "/lock");
    EXPECT_THROW(manager(open_only, heap_, options_for(GetParam())), error);
    EXPECT_EQ(support::read_bytes(heap_ + "/lock"), lock);
    fs::remove(heap_ + "/lock");
    EXPECT_THROW(manager(open_only, heap_, options_for(GetParam())), error);
    EXPECT_FALSE(fs::exists(heap_ + "/lock"));
}

/// Was: "open the lock: No such file or directory", although nothing in it means anything.
TEST_P(planted, a_missing_lock_is_none) {
    fs::remove(heap_ + "/lock");
    const auto before = files_under(heap_);
    {
        const manager reader(open_read_only, heap_, options_for(GetParam()));
        const manager another(open_read_only, heap_, options_for(GetParam()));
        EXPECT_EQ(support::step_of(reader), 2U);
        if (GetParam() != durability::commit) {
            expect_refusal(heap_, {errc::locked, heap_ + "/lock", "lock", "reader, process", "nobody"},
                           [&] { const manager writer(open_only, heap_, options_for(GetParam())); });
        }
    }
    EXPECT_EQ(files_under(heap_), before) << "a reader makes nothing";
    {
        const manager writer(open_only, heap_, options_for(GetParam()));
        EXPECT_TRUE(fs::exists(heap_ + "/lock"));
        fs::remove(heap_ + "/lock");
        expect_refusal(heap_, {errc::locked, heap_ + "/lock", "lock", "writer, process", "nobody"},
                       [&] { const manager second(open_only, heap_, options_for(GetParam())); });
    }
    EXPECT_EQ(step_at(heap_), 2U);
}

/// Was: a heap of one user became readable to all by being copied.
TEST_P(planted, copies_are_as_private_as_their_source) {
    fs::create_directories(scratch_ / "place");
    const mode_t umask_before = ::umask(022);
    fs::permissions(heap_, fs::perms{0700});
    for (const auto& entry : fs::directory_iterator(heap_)) {
        fs::permissions(entry.path(), fs::perms{0600});
    }
    const auto expect_private = [](const std::string& path, unsigned directories, unsigned files) {
        EXPECT_EQ(static_cast<unsigned>(fs::status(path).permissions()), directories) << path;
        for (const auto& entry : fs::directory_iterator(path)) {
            if (!entry.is_symlink()) {
                EXPECT_EQ(static_cast<unsigned>(entry.status().permissions()), files) << entry.path();
            }
        }
    };
    manager::copy(heap_, scratch_ / "copy");
    manager::copy(heap_, scratch_ / "placed", {scratch_ / "place"});
    {
        manager heap(open_only, heap_, options_for(GetParam()));
        static_cast<void>(heap.allocate(std::size_t{9} << 20U));  // new segments
        heap.snapshot(scratch_ / "snapshot");
        heap.close(true);
    }
    expect_private(heap_, 0700, 0600);
    expect_private(scratch_ / "copy", 0700, 0600);
    expect_private(scratch_ / "placed", 0700, 0600);
    expect_private(fs::read_symlink(scratch_ / "placed/node.0"), 0700, 0600);
    expect_private(scratch_ / "snapshot", 0700, 0600);
    fs::permissions(heap_, fs::perms{0755});  // the files are private still
    manager::copy(heap_, scratch_ / "third");
    expect_private(scratch_ / "third", 0755, 0600);
    ::umask(umask_before);
}

INSTANTIATE_TEST_SUITE_P(durabilities, planted, testing::ValuesIn(durabilities),
                         [](const auto& named) { return name_of(named.param); });

/// Was: "mkdir: No such file or directory" of the heap, which is what was asked to be made.
TEST(parents, that_are_missing_are_named) {
    const scratch_directory scratch;
    make_heap(scratch / "heap", 1, durability::commit);
    const support::refusal wanted{errc::not_found, scratch / "a", "directory", "nothing", "a directory"};
    const std::string path = scratch / "a/b/heap";
    for (const auto& action : std::vector<std::function<void()>>{
             [&] { const manager made(create_only, path); },
             [&] { const manager made(open_or_create, path); },
             [&] { manager::copy(scratch / "heap", path); },
             [&] { manager(open_read_only, scratch / "heap").snapshot(path); },
         }) {
        const auto thrown = expect_refusal(scratch.path(), wanted, action);
        ASSERT_TRUE(thrown);
        EXPECT_THAT(thrown->what(), testing::HasSubstr("mkdir -p " + (scratch / "a/b")));
    }
    support::write_bytes(scratch / "a", 0, {'x'});
    expect_refusal(scratch.path(), {errc::not_found, scratch / "a", "directory", "a file", "a directory"},
                   [&] { const manager made(create_only, path); });
    const working_directory here(scratch.path());
    expect_refusal(scratch.path(), {errc::not_found, "nowhere", "directory", "nothing", "a directory"},
                   [&] { const manager made(create_only, "nowhere/heap"); });
}

}  // namespace
}  // namespace holdfast::attack
