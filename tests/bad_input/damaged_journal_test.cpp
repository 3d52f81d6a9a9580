// Journals: missing, truncated, flipped; beside a clean heap, a crashed one, and in the middle of a commit.
#include <cstring>
#include <filesystem>

#include "refusal.hpp"
#include "segment/format/journal_format.hpp"
#include "segment/format/superblock_format.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class damaged_journal : public ::testing::Test {
protected:
    scratch_directory scratch_;
    std::string heap_ = scratch_ / "heap";
    std::string file_ = heap_ + "/journal";
};

TEST_F(damaged_journal, missing_it_is_named_in_every_state) {
    const refusal wanted{errc::missing, file_, "file", "nothing", "the heap's journal"};
    make_heap(heap_, 2);
    fs::remove(file_);
    expect_no_open(heap_, wanted);
    fs::remove_all(heap_);
    make_crashed_heap(heap_, 2);
    fs::remove(file_);
    expect_no_open(heap_, wanted);
}

TEST_F(damaged_journal, an_empty_one_serves_a_clean_heap_as_the_error_said) {
    make_heap(heap_, 2);
    fs::resize_file(file_, 0);
    EXPECT_EQ(step_when_opened(heap_), 2U);
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_journal, truncated_beside_a_clean_heap_it_is_damage) {
    make_heap(heap_, 2);
    fs::resize_file(file_, 4095);
    expect_no_open(heap_, {errc::corrupt, file_, "file size", "4095", "at least 4096"});
}

TEST_F(damaged_journal, flipped_beside_a_clean_heap_it_is_damage) {
    make_heap(heap_, 2);
    for (const auto& [byte, field] : {std::pair{3UL, "magic"}, std::pair{17UL, "checksum"}, std::pair{33UL, "checksum"},
                                      std::pair{2000UL, "checksum"}, std::pair{4090UL, "checksum"}}) {
        flip_bit(file_, byte, 2);
        expect_no_open(heap_, {errc::corrupt, file_, field, "", ""});
        flip_bit(file_, byte, 2);
    }
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_journal, of_another_heap_it_is_refused_by_uuid) {
    make_heap(heap_, 2);
    make_heap(scratch_ / "other", 2);
    fs::copy_file(scratch_ / "other/journal", file_, fs::copy_options::overwrite_existing);
    expect_no_open(heap_,
                   {errc::corrupt, file_, "uuid", manager::get_uuid(scratch_ / "other"), manager::get_uuid(heap_)});
}

TEST_F(damaged_journal, whole_with_a_commit_in_it_it_is_carried_home) {
    make_heap_with_pending_commit(heap_, 4);
    EXPECT_EQ(step_when_opened(heap_), 4U);
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_journal, whole_it_replaces_both_copies_of_the_superblock) {
    make_heap_with_pending_commit(heap_, 4);
    flip_bit(heap_ + "/superblock", 700, 1);
    flip_bit(heap_ + "/superblock", segment::superblock_size + 700, 1);
    {
        const manager opened(open_read_only, heap_, small_segments());
        EXPECT_EQ(step_of(opened), 4U);
    }
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_journal, whole_it_is_copied_though_both_copies_of_the_superblock_are_torn) {
    make_heap_with_pending_commit(heap_, 4);
    flip_bit(heap_ + "/superblock", 700, 1);
    flip_bit(heap_ + "/superblock", segment::superblock_size + 700, 1);
    manager::copy(heap_, scratch_ / "copy");
    EXPECT_EQ(step_when_opened(scratch_ / "copy"), 4U);
}

TEST_F(damaged_journal, torn_before_anything_was_home_the_commit_before_stands) {
    make_heap_with_pending_commit(heap_, 4);
    const scratch_directory kept;
    copy_directory(heap_, kept / "heap");
    std::uint64_t entries = 0;
    const auto count = read_bytes(file_, 40, sizeof entries);
    std::memcpy(&entries, count.data(), sizeof entries);
    ASSERT_LE(entries, 256U) << "a table of one page";
    const std::uint64_t size = (3 + entries) * 4096;
    ASSERT_LE(size, fs::file_size(file_));
    // Header, superblock, table, first and last page of content.
    for (const std::uint64_t byte : {40UL, 4096UL + 20, 2 * 4096UL + 3, 3 * 4096UL + 9, size - 1}) {
        SCOPED_TRACE(byte);
        flip_bit(file_, byte, 4);
        {
            const manager opened(open_read_only, heap_, small_segments());
            EXPECT_EQ(step_of(opened), 3U);
            EXPECT_THAT(opened.check(true), ::testing::IsEmpty()) << "a torn journal is what a power cut leaves";
        }
        expect_heap_goes_on(heap_);
        copy_directory(kept / "heap", heap_);
    }
    fs::resize_file(file_, size - 4096);
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_journal, damaged_when_half_of_the_commit_was_home_it_is_an_error) {
    make_heap_with_pending_commit(heap_, 4);
    // Carry home what a crash in the middle of step 3 would have: every second page of the segment.
    const scratch_directory finished;
    copy_directory(heap_, finished / "heap");
    { manager rolled(open_only, finished / "heap", small_segments()); }
    std::uint64_t carried = 0;
    for (std::uint64_t page = 0; page < fs::file_size(heap_ + "/segment.000000") / 4096; page += 2) {
        const auto home = read_bytes(finished / "heap/segment.000000", page * 4096, 4096);
        if (home != read_bytes(heap_ + "/segment.000000", page * 4096, 4096)) {
            write_bytes(heap_ + "/segment.000000", page * 4096, home);
            ++carried;
        }
    }
    ASSERT_GT(carried, 2U);
    EXPECT_EQ(manager::consistent(heap_), true) << "with its journal whole the commit is finished";
    flip_bit(file_, 3 * 4096 + 9, 4);
    const auto thrown = expect_refusal(heap_, {errc::corrupt, file_, "checksum of page", "0x", "0x"},
                                       [&] { const manager opened(open_only, heap_, small_segments()); });
    ASSERT_TRUE(thrown.has_value());
    EXPECT_THAT(thrown->hint(), HasSubstr("half way home"));
    EXPECT_THAT(thrown->hint(), HasSubstr("segment.000000"));
    fs::remove(file_);
    expect_no_open(heap_, {errc::missing, file_, "file", "nothing", "the heap's journal"});
}

}  // namespace
}  // namespace holdfast::support
