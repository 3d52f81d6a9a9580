#include "segment/files/segment_files.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::page_size;
using base::pages;
using persist::access_mode;
using persist::posix_storage;
using testing::ElementsAre;
using testing::IsEmpty;

class segment_files_test : public testing::Test {
protected:
    segment_files_test() { files_.set_shape(shape_); }

    [[nodiscard]] std::string segment(int index) const {
        return directory_.path("segment.00000" + std::to_string(index));
    }

    test_directory directory_;
    geometry shape_{2 * region_size};
    heap_location location_{posix_storage(), directory_.path(), access_mode::read_write};
    segment_files files_{location_};
};

TEST_F(segment_files_test, have_their_whole_size_when_their_tables_are_reserved) {
    must(files_.reserve_tables({0}, {3 * region_pages}));
    EXPECT_THAT(names_in(directory_.path()), ElementsAre("segment.000000", "segment.000001"));
    EXPECT_EQ(fs::file_size(segment(0)), shape_.file_size());
    EXPECT_EQ(fs::file_size(segment(1)), shape_.file_size());
    EXPECT_TRUE(files_.names_changed());
}

TEST_F(segment_files_test, are_visited_piece_by_piece) {
    must(files_.reserve_tables({0}, {4 * region_pages}));
    std::vector<std::string> visited;
    must(files_.for_each(
        {region_pages}, {2 * region_pages}, [&](persist::file& file, std::uint64_t first, std::uint64_t count) {
            visited.push_back(fs::path(file.path()).filename().string() + " " + std::to_string(first / region_pages) +
                              " " + std::to_string(count / region_pages));
            return base::result<void>();
        }));
    EXPECT_THAT(visited, ElementsAre("segment.000000 1 1", "segment.000001 0 1"));
}

TEST_F(segment_files_test, of_a_growth_that_is_undone_are_removed_and_older_ones_stay) {
    must(files_.reserve_tables({0}, {region_pages}));
    must(files_.reserve_tables({region_pages}, {4 * region_pages}));
    files_.undo_growth({region_pages}, {4 * region_pages});
    EXPECT_THAT(names_in(directory_.path()), ElementsAre("segment.000000"));
}

TEST_F(segment_files_test, lose_what_lies_beyond_the_end) {
    must(files_.reserve_tables({0}, {4 * region_pages}));
    overwrite(segment(0), region_size - 1, {std::byte{1}, std::byte{2}});
    must(files_.clear_beyond({region_pages}));
    const std::vector<std::byte> left = content_of(segment(0));
    EXPECT_EQ(left[region_size - 1], std::byte{1});
    EXPECT_EQ(left[region_size], std::byte{0});
}

TEST_F(segment_files_test, of_a_crash_are_removed_at_the_next_open) {
    must(files_.reserve_tables({0}, {4 * region_pages}));
    overwrite(segment(0), region_size, {std::byte{2}});
    must(files_.remove_leftovers({region_pages}, false));
    EXPECT_THAT(names_in(directory_.path()), ElementsAre("segment.000000"));
    EXPECT_EQ(content_of(segment(0))[region_size], std::byte{2}) << "nothing crashed";
    must(files_.remove_leftovers({region_pages}, true));
    EXPECT_EQ(content_of(segment(0))[region_size], std::byte{0});
    must(files_.remove_leftovers({0}, false));
    EXPECT_THAT(names_in(directory_.path()), IsEmpty());
}

TEST_F(segment_files_test, of_a_removed_segment_are_not_kept_open) {
    must(files_.reserve_tables({0}, {2 * region_pages}));
    must(files_.open(0));
    files_.remove(0);
    EXPECT_FALSE(files_.open(0).ok());
}

}  // namespace
}  // namespace holdfast::segment
