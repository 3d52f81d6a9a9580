// Logs: missing, cut off, flipped; beside a clean heap, a crashed one, and one whose last commit is not home.
#include <filesystem>
#include <string>

#include "refusal.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class damaged_log : public ::testing::Test {
protected:
    scratch_directory scratch_;
    std::string heap_ = scratch_ / "heap";
};

TEST_F(damaged_log, of_a_clean_heap_is_none) {
    make_heap(heap_, 2);
    for (const auto& entry : fs::directory_iterator(heap_)) {
        EXPECT_FALSE(entry.path().filename().string().starts_with("log.")) << entry.path();
    }
    // What a crash behind the last write of a close leaves.
    write_bytes(heap_ + "/log.000000", 0, {'r', 'e', 'm', 'a', 'i', 'n', 's'});
    write_bytes(heap_ + "/log.000001", 0, {'r', 'e', 'm', 'a', 'i', 'n', 's'});
    EXPECT_EQ(step_when_opened(heap_), 2U);
    expect_heap_goes_on(heap_);
    EXPECT_FALSE(fs::exists(heap_ + "/log.000000"));
}

TEST_F(damaged_log, missing_it_is_named) {
    make_crashed_heap(heap_, 2);
    const std::string file = log_of(heap_);
    fs::remove(file);
    expect_no_open(heap_, {errc::missing, file, "file", "nothing", "the heap's log"});
}

TEST_F(damaged_log, whole_with_a_commit_in_it_it_is_carried_home) {
    make_heap_with_pending_commit(heap_, 4);
    EXPECT_EQ(step_when_opened(heap_), 4U);
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_log, of_another_heap_it_has_no_record_of_this_one) {
    make_heap_with_pending_commit(heap_, 4);
    make_crashed_heap(scratch_ / "other", 4);
    fs::copy_file(log_of(scratch_ / "other"), log_of(heap_), fs::copy_options::overwrite_existing);
    EXPECT_EQ(step_when_opened(heap_), 3U) << "what is home";
}

TEST_F(damaged_log, torn_before_anything_was_home_the_commit_before_stands) {
    make_heap_with_pending_commit(heap_, 4);
    const scratch_directory kept;
    copy_directory(heap_, kept / "heap");
    const std::string file = log_of(heap_);
    const std::uint64_t size = end_of_log(heap_);
    // The last bytes, and a bit of them.
    for (const std::uint64_t left_out : {16U, 600U, 5000U}) {
        SCOPED_TRACE(left_out);
        flip_bit(file, size - left_out, 4);
        {
            const manager opened(open_read_only, heap_, small_segments());
            EXPECT_EQ(step_of(opened), 3U);
            EXPECT_THAT(opened.check(true), ::testing::IsEmpty()) << "a torn record is what a power cut leaves";
        }
        expect_heap_goes_on(heap_);
        copy_directory(kept / "heap", heap_);
    }
    fs::resize_file(file, size - 64);
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_log, damaged_before_a_sound_record_it_is_an_error) {
    make_heap_with_pending_commit(heap_, 4);
    const std::string file = log_of(heap_);
    flip_bit(file, 300, 4);
    expect_no_open(heap_, {errc::corrupt, file, "record", "damaged", "later ones are"});
}

TEST_F(damaged_log, damaged_when_half_of_the_commit_was_home_it_is_an_error) {
    make_heap_with_pending_commit(heap_, 4);
    // Carry home what a crash on the way home would have: every second page of the segment.
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
    EXPECT_EQ(manager::consistent(heap_), true) << "with its log whole the commit is finished";
    const std::string file = log_of(heap_);
    flip_bit(file, end_of_log(heap_) - 300, 4);
    const auto thrown = expect_refusal(heap_, {errc::corrupt, file, "record behind commit", "damaged", "whole"},
                                       [&] { const manager opened(open_only, heap_, small_segments()); });
    ASSERT_TRUE(thrown.has_value());
    EXPECT_THAT(thrown->hint(), HasSubstr("half way home"));
    EXPECT_THAT(thrown->hint(), HasSubstr("segment.000000"));
    fs::remove(file);
    expect_no_open(heap_, {errc::missing, file, "file", "nothing", "the heap's log"});
}

}  // namespace
}  // namespace holdfast::support
