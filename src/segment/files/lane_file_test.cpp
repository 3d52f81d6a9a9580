#include "segment/files/lane_file.hpp"

#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::failure_code;
using base::page_size;
using persist::access_mode;
using persist::posix_storage;

constexpr std::uint64_t addresses = 64 * base::kibibyte;
constexpr lane_shape shape{3 * page_size, 5};
static_assert(shape.size_of(5) == addresses);

class lane_file_test : public testing::Test {
protected:
    void SetUp() override {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        auto files = must(heap_files::create(posix_storage(), path_, options));
        must(files->grow({1}));
        must(files->commit({}));
        must(files->close_cleanly());
    }
    [[nodiscard]] std::unique_ptr<heap_files> open(access_mode mode, bool shared) const {
        mapping_options mapping;
        mapping.shared = shared;
        return must(heap_files::open(posix_storage(), path_, mode, mapping));
    }
    /// For durability `atomic`.
    [[nodiscard]] std::unique_ptr<heap_files> open() const { return open(access_mode::read_write, true); }
    [[nodiscard]] std::string lanes() const { return path_ + "/lanes"; }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_F(lane_file_test, is_made_empty_and_grows_in_place_by_pages_of_zeros) {
    auto files = open();
    lane_file& file = files->lanes();
    EXPECT_EQ(file.lanes(), nullptr);
    must(file.open(shape));
    EXPECT_EQ(file.lanes_size(), 0U);
    must(file.grow_lanes(1));
    ASSERT_EQ(file.lanes_size(), page_size);
    std::byte* const begin = file.lanes();
    EXPECT_EQ(begin[page_size - 1], std::byte{0});
    begin[0] = std::byte{7};
    must(file.grow_lanes(addresses));
    EXPECT_EQ(file.lanes(), begin);
    EXPECT_EQ(file.lanes_size(), addresses);
    EXPECT_EQ(begin[addresses - 1], std::byte{0});
    EXPECT_EQ(content_of(lanes())[0], std::byte{7}) << "a store is in the file at once";
    must(file.grow_lanes(1));
    EXPECT_EQ(file.lanes_size(), addresses) << "it never shrinks";
}

TEST_F(lane_file_test, has_its_content_when_it_is_opened_again) {
    {
        auto files = open();
        must(files->lanes().open(shape));
        must(files->lanes().grow_lanes(2 * page_size));
        std::memset(files->lanes().lanes() + page_size, 5, page_size);
    }
    auto files = open();
    must(files->lanes().open(shape));
    EXPECT_EQ(files->lanes().lanes_size(), 2 * page_size);
    EXPECT_EQ(files->lanes().lanes()[page_size], std::byte{5});
}

TEST_F(lane_file_test, of_a_reader_is_private) {
    {
        auto files = open();
        must(files->lanes().open(shape));
        must(files->lanes().grow_lanes(page_size));
    }
    auto reader = open(access_mode::read_only, false);
    must(reader->lanes().open(shape));
    reader->lanes().lanes()[0] = std::byte{1};
    EXPECT_EQ(content_of(lanes())[0], std::byte{0});
}

TEST_F(lane_file_test, is_missing_where_its_records_count_or_a_reader_looks) {
    const auto refused = open(access_mode::read_only, false)->lanes().open(shape);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::missing);
    {
        auto files = open();
        must(files->lanes().open(shape));
        must(files->session().begin_incarnation(64, 1));
    }
    fs::remove(lanes());
    auto crashed = open();
    ASSERT_TRUE(crashed->has_pending_lanes());
    EXPECT_EQ(crashed->lanes().open(shape).error().code, failure_code::missing);
}

TEST_F(lane_file_test, that_is_too_long_is_corrupt_and_does_not_grow_beyond_its_addresses) {
    {
        auto files = open();
        must(files->lanes().open(shape));
        const auto refused = files->lanes().grow_lanes(addresses + 1);
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, failure_code::limit);
        EXPECT_EQ(files->lanes().lanes_size(), 0U);
    }
    fs::resize_file(lanes(), addresses + 1);
    const auto refused = open()->lanes().open(shape);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::corrupt);
    EXPECT_EQ(refused.error().path, lanes());
}

}  // namespace
}  // namespace holdfast::segment
