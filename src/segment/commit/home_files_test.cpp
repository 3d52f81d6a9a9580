#include "segment/commit/home_files.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

TEST(home_files, give_descriptors_back_where_the_process_has_no_other) {
    const test_directory directory;
    const heap_paths paths(directory.path("heap"));
    ASSERT_EQ(::mkdir(paths.directory().c_str(), 0777), 0);
    constexpr std::uint64_t files = 3;
    for (std::uint64_t id = 0; id < files; ++id) {
        must(persist::posix_storage().create(paths.file(id), "test.create"));
    }
    EXPECT_TRUE(base::succeeds_in_child([&] {
        home_files home;
        must(home.get(persist::posix_storage(), paths, 0));
        must(home.get(persist::posix_storage(), paths, 1));
        const int next = ::open("/", O_RDONLY | O_CLOEXEC);
        const rlimit all_used{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
        if (next < 0 || ::setrlimit(RLIMIT_NOFILE, &all_used) != 0) {
            return false;
        }
        for (std::uint64_t id = files; id-- > 0;) {
            const auto found = home.get(persist::posix_storage(), paths, id);
            if (!found || (*found)->path() != paths.file(id)) {
                return false;
            }
        }
        return true;
    }));
}

}  // namespace
}  // namespace holdfast::segment
