// The golden test of the layout: with a change that fails here, docs/format.md and the format version change.
#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_record.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/superblock.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::page_size;

std::string dump(std::span<const std::byte> bytes) {
    std::string text;
    for (std::size_t line = 0; line < bytes.size(); line += 16) {
        const auto part = bytes.subspan(line, std::min<std::size_t>(16, bytes.size() - line));
        if (std::all_of(part.begin(), part.end(), [](std::byte b) { return b == std::byte{0}; })) {
            continue;
        }
        text += fmt::format("{:04x}:", line);
        for (const std::byte b : part) {
            text += fmt::format(" {:02x}", static_cast<unsigned>(b));
        }
        text += "\n";
    }
    return text;
}

template <class T>
std::string dump_object(const T& object) {
    return dump(std::as_bytes(std::span{&object, 1}));
}

superblock_on_media fixed_superblock() {
    superblock_on_media block = blank_superblock();
    block.sequence = 0x0102030405060708;
    for (std::size_t i = 0; i < sizeof block.uuid; ++i) {
        block.uuid[i] = static_cast<std::uint8_t>(0xa0 + i);
    }
    block.heap_key = 0x1112131415161718;
    block.segment_size = 256 * base::mebibyte;
    block.reservation = base::tebibyte;
    block.base_address = 0x700000000000;
    block.frontier = 6 * base::mebibyte;
    block.objects_size = 64 * base::kibibyte;
    block.capacity = base::gibibyte;
    block.state = heap_state::running;
    block.flags = flag_same_address;
    block.created_ns = 0x2122232425262728;
    block.committed_ns = 0x3132333435363738;
    block.checkpoint_clock = 0x41;
    block.recoveries = 0x42;
    block.log_begin = {0x5152535455565758, 0x43, 0x6162636465666768};
    seal(block);
    return block;
}

TEST(layout, of_the_superblock) {
    EXPECT_EQ(dump_object(fixed_superblock()),
              "0000: 48 4f 4c 44 46 41 53 54 02 00 00 00 00 10 00 00\n"
              "0010: 08 07 06 05 04 03 02 01 a0 a1 a2 a3 a4 a5 a6 a7\n"
              "0020: a8 a9 aa ab ac ad ae af 18 17 16 15 14 13 12 11\n"
              "0030: 00 00 00 10 00 00 00 00 00 00 00 00 00 01 00 00\n"
              "0040: 00 00 00 00 00 70 00 00 00 00 60 00 00 00 00 00\n"
              "0050: 00 00 01 00 00 00 00 00 00 00 00 40 00 00 00 00\n"
              "0060: 02 00 00 00 01 00 00 00 28 27 26 25 24 23 22 21\n"
              "0070: 38 37 36 35 34 33 32 31 41 00 00 00 00 00 00 00\n"
              "0080: 42 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
              "00b0: 58 57 56 55 54 53 52 51 43 00 00 00 00 00 00 00\n"
              "00c0: 68 67 66 65 64 63 62 61 00 00 10 00 00 00 00 00\n"
              "0ff0: 00 00 00 00 00 00 00 00 81 71 78 38 17 e9 e1 21\n");
    EXPECT_TRUE(validate(fixed_superblock(), "golden", 0).ok());
    EXPECT_EQ(uuid_text(fixed_superblock().uuid), "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
}

TEST(layout, of_the_superblock_file) {
    const test_directory directory;
    auto file = must(persist::posix_storage().create(directory.path("superblock"), "test.create"));
    must(write_superblocks(*file, fixed_superblock()));
    const auto bytes = content_of(file->path());
    ASSERT_EQ(bytes.size(), 2 * page_size);
    EXPECT_EQ(dump(std::span(bytes).first(page_size)), dump_object(fixed_superblock()));
    EXPECT_EQ(dump(std::span(bytes).last(page_size)), dump_object(fixed_superblock()));
}

TEST(layout, of_the_record_of_a_commit) {
    std::vector<std::byte> before(page_size, std::byte{7});
    std::vector<std::byte> page = before;
    page[5] = std::byte{1};
    page[6] = std::byte{2};
    page[2000] = std::byte{3};
    std::vector<std::vector<std::byte>> parts;
    const auto take_part = [&parts](std::span<const std::byte> part) {
        parts.emplace_back(part.begin(), part.end());
        return base::result<void>();
    };
    record_writer writer(2 * page_size, take_part);
    must(writer.home(place_of(3, 0x123456789), 0x45));
    must(writer.difference(place_of(objects_file_id, 5), page.data(), before.data()));
    must(writer.pages(place_of(1, 2), page));
    must(writer.pages(place_of(1, 3), page));
    const auto payload = writer.finish(fixed_superblock());
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(dump(std::span(parts[0]).first(72)),
              "0000: 89 67 45 23 01 03 00 00 03 00 00 00 45 00 00 00\n"
              "0010: 05 00 00 00 00 ff ff ff 01 00 00 00 02 00 00 00\n"
              "0020: 05 00 02 00 d0 07 01 00 01 02 03 00 00 00 00 00\n"
              "0030: 02 00 00 00 00 01 00 00 02 00 00 00 01 00 00 00\n"
              "0040: 07 07 07 07 07 01 02 07\n");
    EXPECT_EQ(parts[0].size(), 64 + page_size);
    EXPECT_EQ(dump(std::span(payload).first(8)), "0000: d0 00 00 00 01 00 00 00\n");
    const superblock_on_media said = fixed_superblock();
    EXPECT_EQ(std::memcmp(payload.data() + 8, &said, superblock_used), 0);
    EXPECT_EQ(dump(std::span(payload).subspan(8 + superblock_used, 16)),
              "0000: 03 00 00 00 00 01 00 00 02 00 00 00 01 00 00 00\n");
    EXPECT_EQ(payload.size(), 8 + superblock_used + 16 + page_size);
}

TEST(layout, of_page_entries_and_slab_headers) {
    EXPECT_EQ(dump_object(encode({extent_kind::roots, {16}})), "0000: 10 00 00 00 00 04 00 00\n");
    EXPECT_EQ(dump_object(encode({extent_kind::used, {0x8123456789}})), "0000: 89 67 45 23 81 02 00 00\n");
    EXPECT_EQ(encode({extent_kind::none, {0}}), 0U);
    for (const auto kind : {extent_kind::free, extent_kind::used, extent_kind::slab, extent_kind::roots}) {
        const page_entry entry{kind, {page_entry_length_mask}};
        EXPECT_EQ(decode_page_entry(encode(entry)), entry);
        EXPECT_TRUE(is_valid_page_entry(encode(entry)));
    }
    EXPECT_EQ(encode({extent_kind::reserved, {3}}), 0x50000000003U);
    EXPECT_EQ(encode({extent_kind::used, {3}, 0xabcde}), 0xabcde20000000003U);
    EXPECT_TRUE(is_valid_page_entry(0xabcde20000000003U));
    EXPECT_FALSE(is_valid_page_entry(0xabcde30000000003U)) << "a type of a slab stands in its header";
    EXPECT_FALSE(is_valid_page_entry(std::uint64_t{6} << page_entry_length_bits));
    EXPECT_FALSE(is_valid_page_entry(std::uint64_t{1} << 44));
    EXPECT_FALSE(is_valid_page_entry(std::uint64_t{1} << 63));
    const slab_header_on_media header{48, 1365, 0, 0, {}};
    EXPECT_EQ(dump_object(header), "0000: 30 00 00 00 55 05 00 00 00 00 00 00 00 00 00 00\n");
    const slab_header_on_media morphed{160, 409, encode(slab_flags{true, 112}), 0, {}};
    EXPECT_EQ(dump_object(morphed), "0000: a0 00 00 00 99 01 00 00 01 00 70 00 00 00 00 00\n");
    EXPECT_EQ(decode_slab_flags(0x700001).old_block_size, 112U);
    EXPECT_TRUE(decode_slab_flags(0x700001).upper_half);
    EXPECT_FALSE(decode_slab_flags(0x700000).upper_half);
    const slab_header_on_media sparse{48, 1365, encode(slab_flags{false, 0, true}), 0, {}};
    EXPECT_EQ(dump_object(sparse), "0000: 30 00 00 00 55 05 00 00 02 00 00 00 00 00 00 00\n");
    EXPECT_EQ(encode(slab_flags{true, 112, true}), 0x700003U);
    EXPECT_TRUE(decode_slab_flags(0x700002).may_have_holes);
    EXPECT_FALSE(decode_slab_flags(0x700001).may_have_holes);
    EXPECT_EQ(upper_bitmap_word, 64U);
}

TEST(layout, superblock_has_the_fields_of_durabilities_atomic_and_collect_where_the_format_says) {
    superblock_on_media block{};
    block.flags = flag_lanes | flag_stale_checksums | flag_tracing;
    block.checkpoint_clock = 0x3132333435363738;
    block.incarnation = 0x4142434445464748;
    block.lane_slots = 0x51525354;
    block.record_order = 0x61626364;
    EXPECT_EQ(dump_object(block),
              "0060: 00 00 00 00 0e 00 00 00 00 00 00 00 00 00 00 00\n"
              "0070: 00 00 00 00 00 00 00 00 38 37 36 35 34 33 32 31\n"
              "0080: 00 00 00 00 00 00 00 00 48 47 46 45 44 43 42 41\n"
              "0090: 54 53 52 51 64 63 62 61 00 00 00 00 00 00 00 00\n");
}

TEST(layout, superblock_says_of_cache_lines_where_the_format_says) {
    superblock_on_media block{};
    block.flags = flag_separate_lines;
    EXPECT_EQ(dump_object(block), "0060: 00 00 00 00 10 00 00 00 00 00 00 00 00 00 00 00\n");
}

TEST(layout, superblock_has_the_number_of_nodes_where_the_format_says) {
    superblock_on_media block{};
    block.nodes = 0x71727374;
    EXPECT_EQ(dump_object(block), "0090: 00 00 00 00 00 00 00 00 74 73 72 71 00 00 00 00\n");
}

TEST(layout, superblock_has_the_file_that_it_was_written_for_where_the_format_says) {
    superblock_on_media block{};
    block.file_identity = 0x8182838485868788;
    EXPECT_EQ(dump_object(block), "00a0: 88 87 86 85 84 83 82 81 00 00 00 00 00 00 00 00\n");
}

TEST(layout, superblock_has_the_boot_of_the_machine_where_the_format_says) {
    superblock_on_media block{};
    block.boot = 0x9192939495969798;
    EXPECT_EQ(dump_object(block), "00a0: 00 00 00 00 00 00 00 00 98 97 96 95 94 93 92 91\n");
}

TEST(layout, of_the_marker_of_a_node) {
    node_marker_on_media marker{};
    std::memcpy(marker.magic, node_magic, sizeof node_magic);
    marker.version = node_version;
    marker.size = node_marker_size;
    for (std::size_t i = 0; i < sizeof marker.uuid; ++i) {
        marker.uuid[i] = static_cast<std::uint8_t>(0xa0 + i);
    }
    marker.node = 2;
    marker.nodes = 3;
    marker.path_size = 4;
    std::memcpy(marker.heap, "/h.f", 4);
    marker.checksum = 0x0102030405060708;
    EXPECT_EQ(dump_object(marker),
              "0000: 48 46 53 54 4e 4f 44 45 01 00 00 00 00 10 00 00\n"
              "0010: a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 aa ab ac ad ae af\n"
              "0020: 02 00 00 00 03 00 00 00 04 00 00 00 00 00 00 00\n"
              "0030: 2f 68 2e 66 00 00 00 00 00 00 00 00 00 00 00 00\n"
              "0ff0: 00 00 00 00 00 00 00 00 08 07 06 05 04 03 02 01\n");
}

struct expected_sizes {
    std::uint64_t segment_size;
    std::uint64_t page_entries_at;
    std::uint64_t bitmaps_at;
    std::uint64_t checksums_at;
    std::uint64_t checksum_pages;
    std::uint64_t file_size;
};

TEST(layout, of_segments_of_several_sizes) {
    constexpr std::array table{
        expected_sizes{2097152, 4096, 8192, 40960, 1, 2142208},
        expected_sizes{4194304, 4096, 12288, 77824, 2, 4280320},
        expected_sizes{268435456, 262144, 786432, 4980736, 66, 273686528},
        expected_sizes{68719476736, 67108864, 201326592, 1275068416, 16705, 70062968832},
    };
    for (const expected_sizes& expected : table) {
        const geometry shape{expected.segment_size};
        SCOPED_TRACE(expected.segment_size);
        EXPECT_TRUE(shape.valid());
        EXPECT_EQ(shape.slab_headers_at(), 0U);
        EXPECT_EQ(shape.page_entries_at(), expected.page_entries_at);
        EXPECT_EQ(shape.bitmaps_at(), expected.bitmaps_at);
        EXPECT_EQ(shape.checksums_at(), expected.checksums_at);
        EXPECT_EQ(shape.checksum_pages(), expected.checksum_pages);
        EXPECT_EQ(shape.file_size(), expected.file_size);
        EXPECT_EQ(shape.metadata_size(), expected.checksums_at + expected.checksum_pages * page_size);
        EXPECT_GE(shape.checksum_pages() * checksums_per_page, shape.summed_pages());
    }
    for (const std::uint64_t bad : {std::uint64_t{0}, base::mebibyte, 3 * base::mebibyte, 128 * base::gibibyte}) {
        EXPECT_FALSE(geometry{bad}.valid()) << bad;
    }
}

TEST(layout, of_checksum_pages) {
    EXPECT_EQ(place_of_checksum(0).checksum_page, 0U);
    EXPECT_EQ(place_of_checksum(1022).checksum_page, 0U);
    EXPECT_EQ(place_of_checksum(1022).entry, 1022U);
    EXPECT_EQ(place_of_checksum(1023).checksum_page, 1U);
    EXPECT_EQ(place_of_checksum(1023).entry, 0U);
    EXPECT_EQ(place_of_checksum(65536 + 1215).checksum_page, 65U);
    EXPECT_EQ(place_of_checksum(65536 + 1215).entry, 256U);

    std::vector<std::byte> page(page_size);
    std::fill(page.begin(), page.end(), std::byte{1});
    EXPECT_EQ(base::checksum64(page), 0x40d4d8a9314dfcd8U);
    EXPECT_EQ(base::page_checksum(page), static_cast<std::uint32_t>(0x40d4d8a9314dfcd8U));
    EXPECT_EQ(narrow_checksum(0x500000000), 1U);
    EXPECT_EQ(narrow_checksum(0x500000007), 7U);
    EXPECT_EQ(nonzero_checksum(0), 1U);

    // The own entry is the last of a segment's, the first of the objects file's.
    std::vector<std::uint32_t> checksums(checksums_per_page + 1, 0x01010101);
    const std::uint32_t own = own_checksum(checksums);
    checksums.back() = own;
    EXPECT_EQ(own_checksum(checksums), own);
    checksums.front() ^= 1;
    EXPECT_NE(own_checksum(checksums), own);
    std::vector<std::uint64_t> group(objects_group_pages, 7);
    const std::uint64_t own_group = own_group_checksum(group);
    group.front() = own_group;
    EXPECT_EQ(own_group_checksum(group), own_group);
    group.back() ^= 1;
    EXPECT_NE(own_group_checksum(group), own_group);
}

TEST(layout, of_names) {
    const heap_paths paths("h");
    EXPECT_EQ(paths.segment(0), "h/segment.000000");
    EXPECT_EQ(paths.segment(1234567), "h/segment.1234567");
    EXPECT_EQ(paths.file(objects_file_id), "h/objects");
    EXPECT_EQ(paths.file(42), "h/segment.000042");
    for (const char* name : {"superblock", "superblock.new", "log.000000", "objects", "lock", "segment.000000",
                             "store.000000", "lanes.000000"}) {
        EXPECT_TRUE(heap_paths::is_heap_file(name)) << name;
    }
    for (const char* name : {"segment", "segment.", "segment.1", "segment.00000x", "notes.txt", "superblock.old",
                             "store.shop", "log.1", "lanes.1"}) {
        EXPECT_FALSE(heap_paths::is_heap_file(name)) << name;
    }
}

}  // namespace
}  // namespace holdfast::segment
