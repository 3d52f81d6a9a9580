// A heap is a directory, not a path: it goes on where it is, wherever its name leads meanwhile.
#include <filesystem>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/holdfast.h>

#include "attack/attacked.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::attack {
namespace {

namespace fs = std::filesystem;
using support::files_under;
using support::scratch_directory;

class moved_heap : public testing::TestWithParam<durability> {
protected:
    moved_heap() {
        fs::create_directories(scratch_ / "here");
        fs::create_directories(scratch_ / "there");
        make_heap(scratch_ / "here/heap", 1, GetParam());
        make_heap(scratch_ / "there/heap", 1, GetParam());
    }
    /// All that an open heap does to its files: it grows, commits, counts, copies itself, and ends.
    void use_and_close(manager& heap, const std::string& snapshot) {
        support::advance(heap, 2);
        heap.deallocate(heap.allocate(std::size_t{9} << 20U));
        heap.commit();
        EXPECT_GT(heap.statistics().charged_bytes, 0U);
        heap.snapshot(snapshot);
        support::advance(heap, 3);
        heap.close(true);
        EXPECT_EQ(step_at(snapshot), 2U);
    }

    scratch_directory scratch_;
};

/// Was: commit and close succeeded, wrote into the other heap, and left both unreadable.
TEST_P(moved_heap, chdir_to_where_another_heap_has_its_name) {
    const auto other = files_under(scratch_ / "there");
    const working_directory here(scratch_ / "here");
    {
        manager heap(open_only, "heap", options_for(GetParam()));
        const working_directory there(scratch_ / "there");
        EXPECT_EQ(heap.path(), "heap") << "messages name it as it was opened";
        use_and_close(heap, scratch_ / "copy");
    }
    EXPECT_EQ(files_under(scratch_ / "there"), other) << "the other heap was changed";
    EXPECT_EQ(step_at(scratch_ / "here/heap"), 3U);
}

/// Was: every commit of a daemon failed, for its working directory is the root.
TEST_P(moved_heap, chdir_to_the_root) {
    {
        const working_directory here(scratch_ / "here");
        manager heap(open_only, "heap", options_for(GetParam()));
        const working_directory root("/");
        use_and_close(heap, scratch_ / "copy");
    }
    EXPECT_EQ(step_at(scratch_ / "here/heap"), 3U);
}

/// Was: what was put into its place was overwritten.
TEST_P(moved_heap, renamed_and_another_put_into_its_place) {
    manager heap(open_only, scratch_ / "here/heap", options_for(GetParam()));
    fs::rename(scratch_ / "here/heap", scratch_ / "kept");
    fs::rename(scratch_ / "there/heap", scratch_ / "here/heap");
    const auto other = files_under(scratch_ / "here/heap");
    use_and_close(heap, scratch_ / "copy");
    EXPECT_EQ(files_under(scratch_ / "here/heap"), other) << "the other heap was changed";
    EXPECT_EQ(step_at(scratch_ / "kept"), 3U);
    EXPECT_EQ(step_at(scratch_ / "here/heap"), 1U);
}

/// Was: commits and growth failed.
TEST_P(moved_heap, renamed_and_nothing_in_its_place) {
    manager heap(open_only, scratch_ / "here/heap", options_for(GetParam()));
    fs::rename(scratch_ / "here", scratch_ / "moved");
    use_and_close(heap, scratch_ / "copy");
    EXPECT_EQ(step_at(scratch_ / "moved/heap"), 3U);
}

/// Was: the directories of nodes were found anew by their path each time.
TEST_P(moved_heap, whose_directories_of_nodes_are_renamed) {
    fs::create_directories(scratch_ / "place");
    open_options options = options_for(GetParam());
    options.node_directories = {"", scratch_ / "place"};
    manager heap(create_only, scratch_ / "nodes", options);
    support::advance(heap, 1);
    heap.commit();
    fs::rename(scratch_ / "place", scratch_ / "elsewhere");
    use_and_close(heap, scratch_ / "copy");
    fs::rename(scratch_ / "elsewhere", scratch_ / "place");
    EXPECT_EQ(step_at(scratch_ / "nodes"), 3U);
}

/// Was: true only as long as nobody changed the working directory.
TEST_P(moved_heap, destinations_of_snapshots_are_resolved_when_they_are_made) {
    fs::create_directories(scratch_ / "there/heap.copies");
    const working_directory here(scratch_ / "here");
    manager heap(open_only, "heap", options_for(GetParam()));
    const working_directory there(scratch_ / "there");
    heap.snapshot("heap.copies/one");
    heap.snapshot("heap/../heap.copies/two");
    heap.close(true);
    EXPECT_EQ(step_at(scratch_ / "there/heap.copies/one"), 1U);
    EXPECT_EQ(step_at(scratch_ / "there/heap.copies/two"), 1U);
}

/// Was: the thread looked for them where the program had gone meanwhile.
TEST_P(moved_heap, paths_of_calls_that_return_a_future_are_resolved_when_they_are_made) {
    std::future<void> copied;
    std::future<bool> removed;
    {
        const working_directory here(scratch_ / "here");
        copied = manager::copy_async("heap", "copy");
        const working_directory there(scratch_ / "there");
        removed = manager::remove_async("heap");
    }
    copied.get();
    EXPECT_TRUE(removed.get());
    EXPECT_EQ(step_at(scratch_ / "here/copy"), 1U);
    EXPECT_EQ(step_at(scratch_ / "here/heap"), 1U);
    EXPECT_FALSE(fs::exists(scratch_ / "there/heap"));
}

/// Was: a heap whose files somebody exchanged wrote its commits over the other's.
TEST_P(moved_heap, whose_superblock_is_another_heaps_is_not_written) {
    {
        manager heap(open_only, scratch_ / "here/heap", options_for(GetParam()));
        support::advance(heap, 2);
        fs::copy_file(scratch_ / "there/heap/superblock", scratch_ / "here/heap/superblock",
                      fs::copy_options::overwrite_existing);
        const auto superblock = support::read_bytes(scratch_ / "there/heap/superblock");
        try {
            heap.close(true);
            ADD_FAILURE() << "closed over the superblock of another heap";
        } catch (const error& what) {
            EXPECT_EQ(what.reason(), errc::corrupt) << what.what();
            EXPECT_EQ(what.path(), scratch_ / "here/heap/superblock");
            EXPECT_EQ(what.field(), "uuid");
        }
        EXPECT_EQ(support::read_bytes(scratch_ / "here/heap/superblock"), superblock);
    }
    EXPECT_EQ(step_at(scratch_ / "there/heap"), 1U);
}

/// Was: each file was found anew by its name, so the commit went into the other heap's file.
TEST_P(moved_heap, whose_file_is_exchanged_for_another_heaps_does_not_write_it) {
    for (const char* name : {"segment.000000", "objects"}) {
        SCOPED_TRACE(name);
        const std::string own = scratch_ / "here/heap/" + name;
        const std::string others = scratch_ / "there/heap/" + name;
        manager heap(open_only, scratch_ / "here/heap", options_for(GetParam()));
        support::advance(heap, support::step_of(heap) + 1);
        fs::rename(own, scratch_ / "own");
        fs::rename(others, own);
        const auto before = support::read_bytes(own);
        EXPECT_EQ(heap.allocate(std::size_t{9} << 20U, std::nothrow) == nullptr, name == std::string("segment.000000"))
            << "a growth reserves space in the file";
        try {
            heap.set_description(std::string(200'000, 'x'));  // the directory of objects grows
            heap.commit();
            EXPECT_NE(GetParam(), durability::commit) << "committed into another heap's file";
        } catch (const error& what) {
            EXPECT_EQ(what.reason(), errc::corrupt) << what.what();
            EXPECT_EQ(what.path(), own);
        }
        EXPECT_EQ(support::read_bytes(own), before) << "the other heap was changed";
        fs::rename(own, others);
        fs::rename(scratch_ / "own", own);
        heap.close(false);
        EXPECT_GE(step_at(scratch_ / "here/heap"), 1U);
        EXPECT_EQ(step_at(scratch_ / "there/heap"), 1U);
    }
}

/// The C API is over the same engine.
TEST_P(moved_heap, of_the_c_api_stays_where_it_is) {
    const auto other = files_under(scratch_ / "there");
    const working_directory here(scratch_ / "here");
    hf_options options = HF_OPTIONS_INIT;
    options.durability = static_cast<std::uint32_t>(GetParam());
    options.accept_process_crash_only = 1;
    hf_heap* heap = nullptr;
    ASSERT_EQ(hf_open("heap", &options, &heap), HF_OK) << hf_errormsg();
    const working_directory there(scratch_ / "there");
    EXPECT_NE(hf_allocate(heap, std::size_t{9} << 20U), nullptr) << hf_errormsg();
    EXPECT_EQ(hf_commit(heap), HF_OK) << hf_errormsg();
    EXPECT_EQ(hf_close(heap), HF_OK) << hf_errormsg();
    EXPECT_EQ(files_under(scratch_ / "there"), other) << "the other heap was changed";
    EXPECT_EQ(step_at(scratch_ / "here/heap"), 1U);
}

INSTANTIATE_TEST_SUITE_P(durabilities, moved_heap, testing::ValuesIn(durabilities),
                         [](const auto& named) { return name_of(named.param); });

}  // namespace
}  // namespace holdfast::attack
