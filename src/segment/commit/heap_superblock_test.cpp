#include "segment/commit/heap_superblock.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using persist::access_mode;
using persist::posix_storage;

class heap_superblock_test : public testing::Test {
protected:
    void SetUp() override {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        auto files = must(heap_files::create(posix_storage(), path_, options));
        must(files->grow({1}));
        must(files->commit({}));
        must(files->close_cleanly());
        superblock_.set_recovered(files->superblock(), true);
    }
    [[nodiscard]] superblock_on_media on_media() const {
        return must(heap_files::open(posix_storage(), path_, access_mode::read_only, {}))->superblock();
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
    heap_location location_{posix_storage(), path_, access_mode::read_write};
    commit_log log_;
    heap_superblock superblock_{location_, log_};
};

TEST_F(heap_superblock_test, runs_from_the_first_change_of_a_session) {
    ASSERT_EQ(superblock_.now().state, heap_state::clean);
    must(superblock_.mark_running());
    EXPECT_EQ(superblock_.now().state, heap_state::running);
    EXPECT_EQ(on_media().state, heap_state::running);
}

TEST_F(heap_superblock_test, of_a_heap_that_is_not_on_media_stays_in_memory) {
    const heap_location nowhere{posix_storage(), directory_.path("nowhere"), access_mode::read_write};
    heap_superblock fresh{nowhere, log_};
    fresh.set(superblock_.now());
    must(fresh.mark_running());
    EXPECT_EQ(fresh.now().state, heap_state::clean);
    EXPECT_FALSE(fs::exists(directory_.path("nowhere")));
}

TEST_F(heap_superblock_test, is_as_it_was_after_a_write_that_failed) {
    fs::rename(path_ + "/superblock", path_ + "/away");
    EXPECT_FALSE(superblock_.write(heap_state::running, [](superblock_on_media& next) { next.capacity = 7; }).ok());
    EXPECT_EQ(superblock_.now().capacity, 0U);
    EXPECT_EQ(superblock_.now().state, heap_state::clean);
    fs::rename(path_ + "/away", path_ + "/superblock");
    must(superblock_.write(heap_state::running, [](superblock_on_media& next) { next.capacity = 7; }));
    EXPECT_EQ(superblock_.now().capacity, 7U);
    EXPECT_EQ(on_media().capacity, 7U);
}

TEST_F(heap_superblock_test, is_not_written_by_a_child_of_fork) {
    EXPECT_TRUE(base::succeeds_in_child([&] {
        const auto marked = superblock_.mark_running();
        const auto written = superblock_.write(heap_state::running, [](superblock_on_media&) {});
        return !marked && marked.error().code == base::failure_code::wrong_process && !written &&
               written.error().code == base::failure_code::wrong_process;
    }));
    EXPECT_EQ(on_media().state, heap_state::clean);
}

TEST_F(heap_superblock_test, counts_a_recovery_once) {
    const std::uint64_t before = superblock_.now().recoveries;
    const superblock_on_media first = superblock_.next(nullptr, {region_pages}, 0);
    EXPECT_EQ(first.recoveries, before + 1);
    EXPECT_EQ(first.sequence, superblock_.now().sequence + 1);
    superblock_.adopt(first);
    EXPECT_EQ(superblock_.next(nullptr, {region_pages}, 0).recoveries, before + 1);
}

TEST_F(heap_superblock_test, of_a_copy_is_settled_once) {
    fs::copy(path_, directory_.path("copy"), fs::copy_options::recursive);
    const heap_location there{posix_storage(), directory_.path("copy"), access_mode::read_write};
    heap_superblock copy{there, log_};
    copy.set_recovered(superblock_.now(), false);
    must(copy.check_whether_copied());
    ASSERT_TRUE(copy.is_copied());
    must(copy.end_copy());
    EXPECT_FALSE(copy.is_copied());
    must(copy.check_whether_copied());
    EXPECT_FALSE(copy.is_copied());
}

TEST_F(heap_superblock_test, is_read_again_where_it_has_changed_and_where_another_file_has_its_name) {
    superblock_reader reader;
    const heap_paths paths(path_);
    const auto sequence = [&] { return must(reader.newest(posix_storage(), paths))->sequence; };
    const auto write = [&](std::uint64_t next) {
        superblock_on_media block = superblock_.now();
        block.sequence = next;
        seal(block);
        must(write_superblocks(*must(posix_storage().open(paths.superblock(), access_mode::read_write)), block));
    };
    const std::uint64_t first = sequence();
    EXPECT_EQ(first, superblock_.now().sequence);
    EXPECT_EQ(sequence(), first);
    write(first + 1);
    EXPECT_EQ(sequence(), first + 1);
    fs::copy_file(paths.superblock(), path_ + "/copy");
    fs::rename(path_ + "/copy", paths.superblock());
    write(first + 2);
    EXPECT_EQ(sequence(), first + 2);
    fs::remove(paths.superblock());
    EXPECT_FALSE(reader.newest(posix_storage(), paths).ok());
}

}  // namespace
}  // namespace holdfast::segment
