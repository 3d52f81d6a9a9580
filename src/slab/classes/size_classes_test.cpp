#include "slab/classes/size_classes.hpp"

#include <bit>

#include <gtest/gtest.h>

namespace holdfast::slab {
namespace {

TEST(size_classes_test, are_the_documented_sizes) {
    const std::uint16_t expected[] = {8,    16,   24,   32,   40,   48,   56,   64,    80,    96,    112,
                                      128,  144,  160,  176,  192,  208,  224,  240,   256,   320,   384,
                                      448,  512,  640,  768,  896,  1024, 1280, 1536,  1792,  2048,  2560,
                                      3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
    static_assert(std::size(expected) == class_count);
    for (std::size_t i = 0; i < class_count; ++i) {
        EXPECT_EQ(size_classes[i].block_size, expected[i]);
        EXPECT_EQ(size_classes[i].block_count, base::granule_size / expected[i]);
    }
}

TEST(size_classes_test, every_size_gets_the_smallest_class_that_holds_it) {
    unsigned smallest = 0;
    for (std::uint64_t bytes = 1; bytes <= maximum_small_size; ++bytes) {
        while (size_classes[smallest].block_size < bytes) {
            ++smallest;
        }
        ASSERT_EQ(class_for(bytes, 1), smallest) << bytes;
        const std::uint64_t size = size_classes[smallest].block_size;
        ASSERT_TRUE(size - bytes < 8 || (size - bytes) * 5 <= size) << "waste above 20 % at " << bytes;
    }
}

TEST(size_classes_test, blocks_that_malloc_aligns_are_of_8_bytes_or_multiples_of_16) {
    for (std::uint64_t bytes = 1; bytes <= fine_limit; ++bytes) {
        const std::uint64_t size = size_classes[fine_classes_of_malloc[(bytes + 7) / 8]].block_size;
        ASSERT_EQ(size, bytes <= 8 ? 8 : size_classes[class_for(bytes, 16)].block_size) << bytes;
        ASSERT_TRUE(size == 8 || size % 16 == 0) << bytes;
    }
}

TEST(size_classes_test, every_alignment_gets_the_smallest_class_that_has_it) {
    for (std::uint64_t alignment = 1; alignment <= 2 * maximum_small_alignment; alignment *= 2) {
        for (std::uint64_t bytes = 1; bytes <= maximum_small_size; ++bytes) {
            unsigned expected = 0;
            while (expected < class_count &&
                   (size_classes[expected].block_size < bytes || size_classes[expected].block_size % alignment != 0)) {
                ++expected;
            }
            ASSERT_EQ(class_for(bytes, alignment), expected) << bytes << " at " << alignment;
        }
    }
}

TEST(size_classes_test, absurd_requests_have_no_class) {
    EXPECT_EQ(class_for(0, 8), no_class);
    EXPECT_EQ(class_for(8, 0), no_class);
    EXPECT_EQ(class_for(8, 3), no_class);
    EXPECT_EQ(class_for(maximum_small_size + 1, 8), no_class);
    EXPECT_EQ(class_for(~std::uint64_t{0}, 8), no_class);
    EXPECT_EQ(class_for(8, std::uint64_t{1} << 63), no_class);
    EXPECT_EQ(class_of_block_size(72), no_class);
    EXPECT_EQ(class_of_block_size(0), no_class);
    EXPECT_EQ(class_of_block_size(16384), class_count - 1);
}

TEST(size_classes_test, whole_cache_lines_are_the_smallest_class_of_them_that_holds_the_request) {
    for (std::uint64_t alignment = 1; alignment <= 2 * maximum_small_alignment; alignment *= 2) {
        for (std::uint64_t bytes = 1; bytes <= maximum_small_size; ++bytes) {
            ASSERT_EQ(in_whole_lines(class_for(bytes, alignment)),
                      class_for(bytes, std::max<std::uint64_t>(alignment, 64)))
                << bytes << " at " << alignment;
        }
    }
    EXPECT_EQ(size_classes[in_whole_lines(class_for(8, 8))].block_size, 64U);
    EXPECT_EQ(size_classes[in_whole_lines(class_for(65, 8))].block_size, 128U);
    EXPECT_EQ(size_classes[in_whole_lines(class_for(129, 8))].block_size, 192U);
    EXPECT_EQ(in_whole_lines(no_class), no_class) << "a wrong request stays wrong";
}

TEST(size_classes_test, the_reciprocal_divides_every_offset_of_a_slab) {
    for (const size_class& size : size_classes) {
        for (std::uint64_t within = 0; within < base::granule_size; ++within) {
            ASSERT_EQ(block_index(size, within), within / size.block_size) << within << " / " << size.block_size;
            const block_position at(within, size.reciprocal);
            ASSERT_EQ(at.index(), within / size.block_size) << within << " / " << size.block_size;
            ASSERT_EQ(at.is_start(), within % size.block_size == 0) << within << " / " << size.block_size;
        }
    }
}

TEST(size_classes_test, valid_bits_stand_for_the_blocks) {
    for (const size_class& size : size_classes) {
        std::uint64_t bits = 0;
        for (std::size_t word = 0; word < bitmap_words; ++word) {
            bits += static_cast<std::uint64_t>(std::popcount(valid_bits(size, word)));
            EXPECT_EQ(valid_bits(size, word) != 0, word < words_of(size));
        }
        EXPECT_EQ(bits, size.block_count);
    }
}

}  // namespace
}  // namespace holdfast::slab
