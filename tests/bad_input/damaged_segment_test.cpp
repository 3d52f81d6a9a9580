// Segments and the directory of objects: truncated, missing, flipped.
#include <algorithm>
#include <filesystem>

#include "refusal.hpp"
#include "segment/format/heap_format.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr segment::geometry shape{segment::minimum_segment_size};

class damaged_segment : public ::testing::Test {
protected:
    damaged_segment() { make_heap(heap_, 3); }

    /// The first byte at or after `from` in the file that is not zero.
    [[nodiscard]] static std::uint64_t written_byte(const std::string& path, std::uint64_t from) {
        const std::vector<char> bytes = read_bytes(path);
        const auto found = std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(),
                                        [](char byte) { return byte != 0; });
        return static_cast<std::uint64_t>(found - bytes.begin());
    }

    /// A byte of the block that the heap's root leads to: user data.
    [[nodiscard]] std::uint64_t user_byte() const {
        const manager opened(open_read_only, heap_, small_segments());
        return opened.get_handle_from_address(opened.root(0).get()) + 1000;
    }

    /// The damage shows in check(), not at open; what it says names the file.
    void expect_check_finds(bool pages, const std::string& name) const {
        const manager opened(open_read_only, heap_, small_segments());
        const auto problems = opened.check(pages);
        ASSERT_THAT(problems, Not(IsEmpty()));
        EXPECT_THAT(problems, ::testing::Contains(HasSubstr(name)));
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "heap";
    std::string segment_ = heap_ + "/segment.000000";
    std::string objects_ = heap_ + "/objects";
};

TEST_F(damaged_segment, truncated_it_is_refused_by_size) {
    for (const std::uint64_t size :
         {shape.file_size() - 1, shape.segment_size, std::uint64_t{4096}, std::uint64_t{0}}) {
        fs::resize_file(segment_, size);
        expect_no_open(heap_,
                       {errc::corrupt, segment_, "file size", std::to_string(size), std::to_string(shape.file_size())});
    }
}

TEST_F(damaged_segment, missing_it_is_named) {
    fs::remove(segment_);
    expect_no_open(heap_, {errc::missing, segment_, "open", "No such file", ""});
}

TEST_F(damaged_segment, flipped_tables_are_found_at_open) {
    for (const auto& [table, at] :
         {std::pair{"slab headers", shape.slab_headers_at()}, std::pair{"page entries", shape.page_entries_at()}}) {
        SCOPED_TRACE(table);
        const std::uint64_t byte = written_byte(segment_, shape.segment_size + at);
        flip_bit(segment_, byte, 1);
        expect_no_open(heap_, {errc::corrupt, segment_, "checksum of page", "0x", "0x"});
        flip_bit(segment_, byte, 1);
    }
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_segment, flipped_live_bitmaps_are_found_by_check_and_by_whoever_uses_them) {
    flip_bit(segment_, written_byte(segment_, shape.segment_size + shape.bitmaps_at()), 1);
    expect_check_finds(false, "segment.000000");
    expect_check_finds(true, "segment.000000");
}

TEST_F(damaged_segment, flipped_checksum_pages_are_found) {
    flip_bit(segment_, written_byte(segment_, shape.segment_size + shape.checksums_at()), 1);
    try {
        expect_check_finds(true, "segment.000000");
    } catch (const error& what) {
        EXPECT_EQ(what.reason(), errc::corrupt);
        EXPECT_EQ(what.path(), segment_);
        EXPECT_THAT(what.field(), HasSubstr("checksum"));
    }
}

TEST_F(damaged_segment, flipped_user_data_are_found_by_check_of_pages_and_by_an_open_that_verifies) {
    const std::uint64_t byte = user_byte();
    flip_bit(segment_, byte, 6);
    expect_check_finds(true, "segment.000000");
    {
        const manager opened(open_read_only, heap_, small_segments());
        EXPECT_THAT(opened.check(false), IsEmpty());
        EXPECT_THROW(static_cast<void>(step_of(opened)), wrong_content);
    }
    open_options verify = small_segments();
    verify.verify = true;
    const refusal wanted{errc::corrupt, segment_, "checksum of page " + std::to_string(byte / 4096), "0x", "0x"};
    expect_refusal(heap_, wanted, [&] { const manager opened(open_only, heap_, verify); });
    expect_refusal(heap_, wanted, [&] { const manager opened(open_read_only, heap_, verify); });
    flip_bit(segment_, byte, 6);
    { const manager opened(open_only, heap_, verify); }
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_segment, truncated_or_missing_objects_are_refused) {
    const std::vector<char> kept = read_bytes(objects_);
    fs::resize_file(objects_, 100);
    expect_no_open(heap_, {errc::corrupt, objects_, "file size", "100", "at least"});
    fs::remove(objects_);
    expect_no_open(heap_, {errc::missing, objects_, "open", "No such file", ""});
    write_bytes(objects_, 0, kept);
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_segment, a_flipped_object_record_is_an_error_of_every_look_up) {
    flip_bit(objects_, 4096 + 70, 3);  // the name of the first record
    expect_check_finds(false, "objects");
    manager opened(open_only, heap_, small_segments());
    const refusal wanted{errc::corrupt, objects_, "record at byte 4096: checksum", "0x", "0x"};
    expect_refusal(heap_, wanted, [&] { static_cast<void>(opened.find<int>("anything")); });
    expect_refusal(heap_, wanted, [&] { static_cast<void>(opened.construct<int>("anything")(1)); });
    expect_refusal(heap_, wanted, [&] { static_cast<void>(opened.get_num_named_objects()); });
    expect_refusal(heap_, wanted, [&] { static_cast<void>(opened.statistics()); });
    expect_refusal(heap_, wanted, [&] { opened.set_description("text"); });
}

TEST_F(damaged_segment, damage_of_the_objects_checksum_page_is_found) {
    flip_bit(objects_, 9, 3);
    expect_check_finds(true, "objects");
}

}  // namespace
}  // namespace holdfast::support
