#include "persist/owned_paths.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

namespace {

namespace fs = std::filesystem;
using base::failure_code;

class held_directories_test : public testing::Test {
protected:
    void SetUp() override { fs::create_directory(at("heap")); }

    [[nodiscard]] std::string at(const std::string& name) const { return root_ + "/" + name; }
    void expect_file(const std::string& name) { EXPECT_TRUE(fs::is_regular_file(at(name))) << name; }

    base::scratch_directory scratch_{base::disk_directory()};
    std::string root_ = scratch_.path();
};

TEST_F(held_directories_test, paths_lead_to_the_directory_that_was_opened) {
    const auto held = posix_storage().hold(at("heap"));
    ASSERT_TRUE(held.ok());
    storage& inside = **held;
    fs::rename(at("heap"), at("moved"));
    fs::create_directory(at("heap"));
    ASSERT_TRUE(inside.create(at("heap/file"), "test").ok());
    ASSERT_TRUE(inside.make_directory(at("heap/inner"), "test").ok());
    ASSERT_TRUE(inside.create(at("heap//inner/file"), "test").ok());
    ASSERT_TRUE(inside.make_link(at("heap/link"), "inner", "test").ok());
    ASSERT_TRUE(inside.rename(at("heap/inner/file"), at("heap/second"), "test").ok());
    ASSERT_TRUE(inside.sync_directory(at("heap"), "test").ok());
    expect_file("moved/file");
    expect_file("moved/second");
    EXPECT_TRUE(fs::is_empty(at("heap"))) << "the one that has the name now";
    EXPECT_EQ(*inside.list(at("heap")), (std::vector<std::string>{"file", "inner", "link", "second"}));
    EXPECT_EQ(*inside.link_target(at("heap/link")), "inner");
    EXPECT_EQ(*inside.identity(at("heap")), *posix_storage().identity(at("moved")));
    EXPECT_EQ(*inside.location(at("heap")), fs::canonical(at("moved")).string());
    EXPECT_TRUE(*inside.exists(at("heap/file")));
    EXPECT_FALSE(*posix_storage().exists(at("heap/file")));
    ASSERT_TRUE(inside.remove(at("heap/file"), "test").ok());
    EXPECT_FALSE(fs::exists(at("moved/file")));
    // Not paths that merely begin with its letters, nor those of its parent.
    fs::create_directory(at("heap2"));
    ASSERT_TRUE(inside.create(at("heap2/file"), "test").ok());
    expect_file("heap2/file");
}

TEST_F(held_directories_test, an_inner_one_is_found_before_the_outer) {
    fs::create_directory(at("far"));
    fs::create_symlink(at("far"), at("heap/node"));
    const auto outer = posix_storage().hold(at("heap"));
    const auto both = (*outer)->hold(at("heap/node"));
    ASSERT_TRUE(both.ok());
    fs::remove(at("heap/node"));
    ASSERT_TRUE((*both)->create(at("heap/node/file"), "test").ok());
    expect_file("far/file");
    EXPECT_EQ((*outer)->create(at("heap/node/other"), "test").error().os_error, ENOENT);
    EXPECT_FALSE(*(*both)->exists(at("heap/node"))) << "the name is gone";
}

TEST_F(held_directories_test, relative_paths_outlive_the_working_directory) {
    const std::string before = fs::current_path().string();
    fs::current_path(root_);
    const auto held = posix_storage().hold("heap");
    fs::current_path("/");
    ASSERT_TRUE(held.ok());
    EXPECT_TRUE((*held)->create("heap/file", "test").ok());
    fs::current_path(before);
    expect_file("heap/file");
}

TEST_F(held_directories_test, only_directories_are_held) {
    ASSERT_TRUE(posix_storage().create(at("file"), "test").ok());
    EXPECT_EQ(posix_storage().hold(at("file")).error().os_error, ENOTDIR);
    EXPECT_EQ(posix_storage().hold(at("nothing")).error().code, failure_code::not_found);
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0644), 0);
    EXPECT_EQ(posix_storage().hold(at("pipe")).error().os_error, ENOTDIR) << "and nobody waits";
}

TEST_F(held_directories_test, descriptors_are_closed_by_exec) {
    const auto held = posix_storage().hold(at("heap"));
    const auto directory = (*held)->open_directory(at("heap"));
    ASSERT_TRUE(directory.ok());
    EXPECT_NE(::fcntl((*directory)->native_handle(), F_GETFD) & FD_CLOEXEC, 0);
    held_directories directories;
    ASSERT_TRUE(directories.add(at("heap")).ok());
    EXPECT_NE(::fcntl(directories.first()->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(held_directories_test, what_is_made_has_the_permissions_that_were_asked_for) {
    const mode_t before = ::umask(022);
    const auto made = posix_storage().with({0660, 0770});
    ASSERT_TRUE(made->create(at("file"), "test").ok());
    ASSERT_TRUE(made->make_directory(at("directory"), "test").ok());
    const auto found = posix_storage().permissions_of(at("directory"), at("file"));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->files, 0640U);
    EXPECT_EQ(found->directories, 0750U);
    ::umask(before);
}

struct stat status_of(uid_t owner, gid_t group) {
    struct stat status {};
    status.st_uid = owner;
    status.st_gid = group;
    return status;
}

TEST_F(held_directories_test, files_are_of_the_owner_or_of_ours_or_of_a_group_that_may_write) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "NOT TESTED: only root can become another user";
    }
    constexpr uid_t alice = 1001;
    constexpr uid_t bob = 1002;
    constexpr gid_t group = 2000;
    held_directory private_one;
    private_one.path = "heap";
    private_one.owner = alice;
    private_one.group = group;
    private_one.mode = S_IFDIR | 0755;
    held_directory shared_one;
    shared_one.owner = alice;
    shared_one.group = group;
    shared_one.mode = S_IFDIR | 0775;
    EXPECT_TRUE(check_owner(status_of(bob, group), private_one, "file").ok()) << "root takes all";
    ASSERT_EQ(::seteuid(alice), 0);
    EXPECT_TRUE(check_owner(status_of(alice, 1), private_one, "file").ok());
    EXPECT_TRUE(check_owner(status_of(bob, group), shared_one, "file").ok());
    EXPECT_FALSE(check_owner(status_of(bob, 1), shared_one, "file").ok());
    const auto refused = check_owner(status_of(bob, group), private_one, "file");
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_EQ(::seteuid(bob), 0);
    EXPECT_TRUE(check_owner(status_of(bob, 1), private_one, "file").ok()) << "our own";
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::permission);
    EXPECT_EQ(refused.error().path, "file");
    EXPECT_EQ(refused.error().field, "owner");
    EXPECT_EQ(refused.error().found, "user 1002");
    EXPECT_EQ(refused.error().expected, "user 1001, the owner of heap");
}

}  // namespace

}  // namespace holdfast::persist
