// Cases that fuzzers found: media with good checksums and a content that no heap writes.
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "segment/format/superblock.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::failure_code;
using base::page_size;
using persist::access_mode;
using persist::posix_storage;
using testing::Contains;
using testing::HasSubstr;

class hostile_journal_test : public testing::Test {
protected:
    hostile_journal_test() {
        block_.sequence = 2;
        block_.heap_key = 1;
        block_.segment_size = minimum_segment_size;
        block_.frontier = region_size;
        block_.state = heap_state::running;
        seal(block_);
    }

    journal_state write_and_read(const std::vector<std::uint64_t>& pages) {
        const std::vector<std::byte> zeros(page_size);
        std::vector<page_run> runs;
        for (const std::uint64_t page : pages) {
            runs.push_back({0, page, 1, zeros.data()});
        }
        const std::vector<std::uint64_t> sums(pages.size(), base::checksum64(zeros));
        must(write_journal(*file_, block_, runs, sums));
        return must(read_journal(*file_, nullptr));
    }

    test_directory directory_;
    std::unique_ptr<persist::file> file_ = must(posix_storage().create(directory_.path("journal"), "test"));
    superblock_on_media block_ = blank_superblock();
};

TEST_F(hostile_journal_test, that_carries_a_page_twice_is_broken) {
    EXPECT_EQ(write_and_read({3, 4, 9}).what, journal_state::kind::whole);
    const journal_state twice = write_and_read({3, 4, 4});
    EXPECT_EQ(twice.what, journal_state::kind::broken);
    EXPECT_THAT(twice.why.message(), HasSubstr("ascending"));
    EXPECT_EQ(write_and_read({4, 3, 9}).what, journal_state::kind::broken);
}

TEST_F(hostile_journal_test, whose_superblock_is_of_another_heap_is_broken) {
    ASSERT_EQ(write_and_read({3}).what, journal_state::kind::whole);
    journal_header_on_media header{};
    must(file_->read_at(0, std::as_writable_bytes(std::span{&header, 1})));
    header.uuid[5] ^= 1;
    header.checksum =
        base::checksum64(std::as_bytes(std::span{&header, 1}).first(offsetof(journal_header_on_media, checksum)));
    must(file_->write_at(0, std::as_bytes(std::span{&header, 1}), "test"));
    const journal_state state = must(read_journal(*file_, nullptr));
    EXPECT_EQ(state.what, journal_state::kind::broken);
    EXPECT_THAT(state.why.field, HasSubstr("uuid"));
}

class hostile_heap_test : public testing::Test {
protected:
    hostile_heap_test() {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        const auto files = must(heap_files::create(posix_storage(), path_, options));
        must(files->grow({1}));
        must(files->commit({}));
        must(files->close_cleanly());
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_F(hostile_heap_test, with_a_file_whose_number_is_too_large_opens) {
    for (const char* name : {"segment.99999999999999999999999", "segment.0000007"}) {
        std::ofstream(path_ + "/" + name) << "not ours";
        EXPECT_TRUE(heap_files::open(posix_storage(), path_, access_mode::read_write, {}).ok()) << name;
        EXPECT_THAT(names_in(path_), Contains(name));
    }
}

TEST_F(hostile_heap_test, at_the_last_number_refuses_commits_and_stays) {
    superblock_on_media block{};
    std::memcpy(&block, content_of(path_ + "/superblock").data(), sizeof block);
    block.sequence = std::numeric_limits<std::uint64_t>::max();
    seal(block);
    const auto file = must(posix_storage().open(path_ + "/superblock", access_mode::read_write));
    must(write_superblocks(*file, block));
    {
        const auto files = must(heap_files::open(posix_storage(), path_, access_mode::read_write, {}));
        files->view().base()[0] = std::byte{1};
        const auto refused = files->commit({});
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, failure_code::limit);
    }
    EXPECT_TRUE(heap_files::open(posix_storage(), path_, access_mode::read_write, {}).ok());
}

TEST(hostile_address_test, null_begins_no_range) {
    const auto range = address_range::exactly(nullptr, region_size);
    ASSERT_FALSE(range.ok());
    EXPECT_EQ(range.error().code, failure_code::address_taken);
}

}  // namespace
}  // namespace holdfast::segment
