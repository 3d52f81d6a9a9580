#include <cstring>
#include <vector>

#include <gmock/gmock.h>

#include "base/sparse_table.hpp"
#include "lane/lane_set.hpp"
#include "lane/replay.hpp"

namespace holdfast::lane {
namespace {

// Byte by byte. A change that fails here changes the format (docs/format.md, "Lanes").
TEST(lane_layout, is_what_the_format_says) {
    record_on_media record{0,
                           0x0102030405060708,
                           0x1112131415161718,
                           encode_destination(0x212223242526, 0x2728),
                           0x30000,
                           encode({block_kind::small, 64, 5}),
                           nowhere,
                           encode({block_kind::pages, 3, 0})};
    const std::array<std::uint64_t, 8> words{0,       0x0102030405060708, 0x1112131415161718, 0x2728212223242526,
                                             0x30000, 0x0000510000000040, 0xffffffffffffffff, 0x0000020000000003};
    EXPECT_EQ(std::memcmp(&record, words.data(), sizeof record), 0);
    EXPECT_EQ(decode_block(words[5]), (block_word{block_kind::small, 64, 5}));
    EXPECT_EQ(encode({block_kind::slab, 64, 0}), 0x0000030000000040U);
    EXPECT_EQ(decode_block(0x0000038000000040U), (block_word{block_kind::slab, 64, 0, true}));
    EXPECT_EQ(lanes_at, 4096U);
    EXPECT_EQ(lane_size(8192), 4096U + 8192U * 64U);
    EXPECT_EQ(lanes_file_size(2, 64), 4096U + 2U * (4096U + 64U * 64U));
    const std::array<std::uint64_t, 3> seed_parts{1, 2, 3};
    const std::uint64_t seed = XXH3_64bits(seed_parts.data(), sizeof seed_parts);
    EXPECT_EQ(seed_of(1, 2, 3), seed);
    EXPECT_EQ(checksum_of(record, seed), XXH3_64bits_withSeed(words.data() + 1, 56, seed));
    // Two copies of the last checkpoint, then two of the number of lanes, each with its seal.
    const std::array<std::uint64_t, 4> checkpoint{77, 0x80070, 5, 0xabcdef};
    const std::uint64_t count = 3;
    const lanes_head_on_media head = new_head({77, {0x80070, 5, 0xabcdef}}, count, 9);
    const std::uint64_t seal = XXH3_64bits_withSeed(checkpoint.data(), sizeof checkpoint, 9);
    const std::uint64_t seal_of_count = XXH3_64bits_withSeed(&count, sizeof count, ~std::uint64_t{9});
    const std::array<std::uint64_t, 14> head_words{77, 0x80070, 5, 0xabcdef, seal,          0, 0,
                                                   0,  0,       0, count,    seal_of_count, 0, 0};
    EXPECT_EQ(std::memcmp(&head, head_words.data(), sizeof head), 0);
}

TEST(lane_layout, has_the_counters_of_the_writer_where_the_format_says) {
    std::array<std::byte, lanes_at> page{};
    auto& block = *reinterpret_cast<writer_counters_on_media*>(page.data() + writer_counters_at);
    EXPECT_FALSE(read_writer_counters(page, 5, 0)) << "never written";
    block.generation = 7;  // the writer was killed while it wrote
    store_writer_counters(block, 5, 6, {11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
    std::array<std::uint64_t, 14> words{
        8, 6, static_cast<std::uint64_t>(::getpid()), 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0};
    const std::array<std::uint64_t, 3> seed_parts{5, 6, ~std::uint64_t{0}};
    words[13] = XXH3_64bits_withSeed(words.data(), 104, XXH3_64bits(seed_parts.data(), sizeof seed_parts));
    EXPECT_EQ(std::memcmp(page.data() + 1024, words.data(), sizeof words), 0);
    const auto found = read_writer_counters(page, 5, 6);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->process, words[2]);
    EXPECT_EQ(found->counters.records, 11U);
    EXPECT_EQ(found->counters.lanes, 20U);
    EXPECT_FALSE(read_writer_counters(page, 5, 7)) << "of another incarnation";
    EXPECT_FALSE(read_writer_counters(page, 4, 6)) << "of another heap";
    EXPECT_FALSE(read_writer_counters(std::span(page).first(1100), 5, 6));
    for (std::size_t at = 1024; at < 1024 + sizeof words; ++at) {
        page[at] ^= std::byte{1};
        EXPECT_FALSE(read_writer_counters(page, 5, 6)) << at;
        page[at] ^= std::byte{1};
    }
    store_writer_counters(block, 5, 6, {});
    EXPECT_EQ(block.generation, 10U);
}

TEST(lane_layout, shows_a_torn_block_of_counters_as_absent) {
    std::array<std::byte, lanes_at> page{};
    auto& block = *reinterpret_cast<writer_counters_on_media*>(page.data() + writer_counters_at);
    std::atomic<bool> done{false};
    std::thread writer([&] {
        for (std::uint64_t i = 1; i < 200'000; ++i) {
            store_writer_counters(block, 5, 6, {i, i, i, i, i, i, i, i, i, i});
        }
        done.store(true);
    });
    std::uint64_t seen = 0;
    do {
        std::array<std::byte, lanes_at> copy{};
        for (std::size_t at = writer_counters_at; at < writer_counters_at + sizeof block; at += 8) {
            const std::uint64_t word =
                std::atomic_ref(*reinterpret_cast<std::uint64_t*>(page.data() + at)).load(std::memory_order_relaxed);
            std::memcpy(copy.data() + at, &word, sizeof word);
        }
        if (const auto found = read_writer_counters(copy, 5, 6)) {
            const lane_statistics& all = found->counters;
            for (const std::uint64_t each : {all.fences, all.media_bytes, all.checkpoint_ns, all.waits, all.lanes}) {
                ASSERT_EQ(each, all.records);
            }
            ++seen;
        }
    } while (!done.load());
    writer.join();
    EXPECT_GT(seen, 0U);
}

TEST(record_clock, goes_on_above_what_was_recorded) {
    for (const auto from : {record_clock::source::processor, record_clock::source::memory}) {
        if (from == record_clock::source::processor && !has_invariant_counter()) {
            continue;
        }
        record_clock clock(from);
        clock.start(std::uint64_t{1} << 60U);
        std::uint64_t last = std::uint64_t{1} << 60U;
        for (int i = 0; i < 1000; ++i) {
            const std::uint64_t now = clock.now();
            EXPECT_GT(now, last);
            last = now;
        }
    }
}

TEST(line_set, knows_each_line_once) {
    line_set lines;
    std::vector<char> memory(1 << 16);
    std::size_t fresh = 0;
    for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < memory.size(); i += 8) {
            fresh += lines.insert(&memory[i]) ? 1U : 0U;
        }
    }
    EXPECT_LE(fresh, memory.size() / 64 + 1);
    lines.clear();
    EXPECT_TRUE(lines.insert(memory.data()));
}

}  // namespace
}  // namespace holdfast::lane
