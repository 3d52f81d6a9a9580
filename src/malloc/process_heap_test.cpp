// What the environment says of the heap of a process.
#include "malloc/process_heap.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "base/under_qemu.hpp"
#include "segment/test_support.hpp"

namespace holdfast::drop_in {
namespace {

TEST(drop_in_settings_test, come_from_the_environment) {
    ::setenv("HOLDFAST_MALLOC_HEAP", "/somewhere/heap.%p", 1);
    ::setenv("HOLDFAST_MALLOC_SIZE", "3G", 1);
    ::setenv("HOLDFAST_MALLOC_STATS", "1", 1);
    ::setenv("HOLDFAST_MALLOC_HARDENED", "0", 1);
    EXPECT_FALSE(settings_from_environment().hardened);
    ::setenv("HOLDFAST_MALLOC_HARDENED", "1", 1);
    const settings found = settings_from_environment();
    EXPECT_TRUE(found.hardened);
    EXPECT_FALSE(found.upkeep_thread);
    ::setenv("HOLDFAST_MALLOC_UPKEEP_THREAD", "1", 1);
    EXPECT_TRUE(settings_from_environment().upkeep_thread);
    ::unsetenv("HOLDFAST_MALLOC_UPKEEP_THREAD");
    EXPECT_EQ(found.path, "/somewhere/heap.%p");
    EXPECT_EQ(found.capacity, std::uint64_t{3} << 30U);
    EXPECT_TRUE(found.statistics);
    for (const char* const wrong : {"", "x", "-", "-5", " 5M", "3Q", "3GG", "0", "99999999999999999999T"}) {
        ::setenv("HOLDFAST_MALLOC_SIZE", wrong, 1);
        EXPECT_EQ(settings_from_environment().capacity, 0U) << wrong;
    }
    ::unsetenv("HOLDFAST_MALLOC_HEAP");
    ::unsetenv("HOLDFAST_MALLOC_SIZE");
    ::unsetenv("HOLDFAST_MALLOC_STATS");
    ::unsetenv("HOLDFAST_MALLOC_HARDENED");
}

/// The test below runs this.
TEST(drop_in_settings_test, DISABLED_are_the_defaults) {
    const settings found = settings_from_environment();
    EXPECT_EQ(found.path, "");
    EXPECT_FALSE(found.statistics);
    std::fflush(stdout);
    ::_exit(HasFailure() ? 1 : 0);  // at exit() LeakSanitizer fails in a program that has other rights
}

TEST(drop_in_settings_test, of_a_user_do_not_reach_a_program_that_has_other_rights) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "NOT TESTED: only root can make a program another user's";
    }
    if (base::under_qemu) {
        GTEST_SKIP() << "NOT TESTED: qemu-user starts programs with its own rights";
    }
    const segment::test_directory directory;
    struct statvfs mount {};
    ASSERT_EQ(::statvfs(directory.path(".").c_str(), &mount), 0);
    if ((mount.f_flag & ST_NOSUID) != 0) {
        GTEST_SKIP() << "NOT TESTED: the scratch directory is mounted nosuid";
    }
    constexpr ::uid_t another = 65'534;
    const std::string program = directory.path("program");
    std::filesystem::copy_file("/proc/self/exe", program);
    ASSERT_EQ(::chown(program.c_str(), another, another), 0);
    ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
    EXPECT_TRUE(base::succeeds_in_child([&] {
        ::setenv("HOLDFAST_MALLOC_HEAP", "/somewhere/heap", 1);
        ::setenv("HOLDFAST_MALLOC_STATS", "1", 1);
        ::execl(program.c_str(), program.c_str(), "--gtest_also_run_disabled_tests",
                "--gtest_filter=*DISABLED_are_the_defaults", nullptr);
        ::_exit(127);
    }));
}

}  // namespace
}  // namespace holdfast::drop_in
