#include "segment/files/holes.hpp"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {

namespace {

using persist::posix_storage;

constexpr std::uint64_t part = 256 * base::kibibyte;

class backing_cursor_test : public testing::Test {
protected:
    void SetUp() override {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        const auto files = must(heap_files::create(posix_storage(), path_, options));
        must(files->grow(base::pages_for(3 * minimum_segment_size)));
        std::memset(files->view().base(), 1, 3 * minimum_segment_size);
        must(files->commit({}));
        must(files->close_cleanly());
    }
    void punch(std::uint64_t segment, std::uint64_t offset, std::uint64_t length) const {
        const auto file = must(posix_storage().open(paths_.segment(segment), persist::access_mode::read_write));
        must(file->punch_hole(offset, length, "test.punch"));
    }
    static backed_bytes count(backing_cursor& cursor, std::uint64_t begin, std::uint64_t end) {
        return must(cursor.count({begin}, {end}));
    }

    test_directory directory_{place::disk};
    std::string path_ = directory_.path("heap");
    heap_paths paths_{path_};
    geometry shape_{minimum_segment_size};
};

TEST_F(backing_cursor_test, counts_all_where_there_is_no_hole) {
    backing_cursor cursor(posix_storage(), paths_, shape_);
    const backed_bytes found = count(cursor, 0, 3 * minimum_segment_size);
    EXPECT_EQ(found.bytes, 3 * minimum_segment_size) << "user space alone: metadata lie behind it in each file";
    EXPECT_TRUE(found.exact);
}

TEST_F(backing_cursor_test, leaves_holes_out_in_whatever_ranges_it_is_asked) {
    punch(0, part, 2 * part);
    punch(1, minimum_segment_size - part, part);
    punch(2, 0, part);
    for (const std::uint64_t step : {part / 4, part, 3 * part / 2, minimum_segment_size, 3 * minimum_segment_size}) {
        backing_cursor cursor(posix_storage(), paths_, shape_);
        std::uint64_t bytes = 0;
        for (std::uint64_t at = 0; at < 3 * minimum_segment_size; at += step) {
            const backed_bytes found = count(cursor, at, std::min(at + step, 3 * minimum_segment_size));
            EXPECT_TRUE(found.exact);
            bytes += found.bytes;
        }
        EXPECT_EQ(bytes, 3 * minimum_segment_size - 4 * part) << "steps of " << step;
    }
    backing_cursor cursor(posix_storage(), paths_, shape_);
    EXPECT_EQ(count(cursor, 0, part).bytes, part);
    EXPECT_EQ(count(cursor, part, 2 * part).bytes, 0U);
    EXPECT_EQ(count(cursor, 2 * part, 4 * part).bytes, part);
    const std::uint64_t end = 2 * minimum_segment_size;
    EXPECT_EQ(count(cursor, end - 2 * part, end + 2 * part).bytes, 2 * part);
}

TEST_F(backing_cursor_test, says_which_file_is_missing) {
    std::filesystem::remove(paths_.segment(1));
    backing_cursor cursor(posix_storage(), paths_, shape_);
    const auto refused = cursor.count({0}, {2 * minimum_segment_size});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, base::failure_code::missing);
    EXPECT_EQ(refused.error().path, paths_.segment(1));
}

}  // namespace

}  // namespace holdfast::segment
