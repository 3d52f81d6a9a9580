// Heaps as a crash leaves them, made by putting files of two moments together: no process has to die at the right one.
#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "kill/world.hpp"
#include "support/counted_heap.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

/// A heap whose last commit stands in the log, whole, and is not home.
struct crashed_heap {
    explicit crashed_heap(const std::string& directory) : path(directory + "/crashed") {
        const std::string source = directory + "/source";
        manager heap(create_only, source);
        make_world(heap);
        random numbers(1);
        change_world(heap, numbers, {.shard_bytes = 1U << 19U});
        heap.commit();
        const std::string before = directory + "/before";
        fs::copy(source, before, fs::copy_options::recursive);
        change_world(heap, numbers, {.shard_bytes = 1U << 14U});
        digest = examine(heap).digest;
        const auto size = heap.get_size();
        heap.commit();
        EXPECT_GT(heap.last_commit().logged_pages, 0U);
        EXPECT_EQ(heap.get_size(), size);  // a shorter heap's files were cut after the commit
        fs::copy(source, path, fs::copy_options::recursive);
        support::undo_last_way_home(path, before);  // pages that the commit before had free are home already
    }
    std::string path;
    std::uint64_t digest = 0;
};

/// Was: the pages of the files were compared, not what the log lays over them, and a sound heap was damaged.
TEST(crashed_heap, reader_compares_the_pages_of_the_log) {
    const base::scratch_directory directory;
    const crashed_heap crashed(directory.path());
    open_options options;
    options.verify = true;
    const manager heap(open_read_only, crashed.path, options);
    EXPECT_TRUE(heap.statistics().rolled_forward);
    const world_state state = examine_and_check(heap);
    EXPECT_EQ(state.problems, std::vector<std::string>());
    EXPECT_EQ(state.digest, crashed.digest);
}

TEST(crashed_heap, writer_finishes_the_commit_of_the_log) {
    const base::scratch_directory directory;
    const crashed_heap crashed(directory.path());
    const manager heap(open_only, crashed.path);
    EXPECT_TRUE(heap.statistics().rolled_forward);
    const world_state state = examine_and_check(heap);
    EXPECT_EQ(state.problems, std::vector<std::string>());
    EXPECT_EQ(state.digest, crashed.digest);
}

TEST(crashed_heap, copy_has_the_commit_of_the_log) {
    const base::scratch_directory directory;
    const crashed_heap crashed(directory.path());
    manager::copy(crashed.path, directory.path() + "/copy");
    const manager heap(open_only, directory.path() + "/copy");
    EXPECT_FALSE(heap.statistics().recovered);
    const world_state state = examine_and_check(heap);
    EXPECT_EQ(state.problems, std::vector<std::string>());
    EXPECT_EQ(state.digest, crashed.digest);
}

}  // namespace
}  // namespace holdfast::test
