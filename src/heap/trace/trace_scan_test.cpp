// The scans of all processors against the definition, word by word.
#include <array>
#include <random>

#include <gtest/gtest.h>

#include "heap/trace/trace_worker.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::heap {
namespace {

std::uint64_t definition(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                         const scan_limits& limits) {
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < groups * scan_group; ++i) {
        const bool pointer =
            !segment::is_null_pointer(words[i]) && segment::decode_pointer(offset + 8 * i, words[i]) < limits.end;
        const bool address = limits.raw && words[i] >= limits.address && words[i] - limits.address < limits.end;
        found |= std::uint64_t{pointer || address} << (i / scan_group);
    }
    return found;
}

TEST(trace_scan, finds_the_groups_that_the_definition_finds) {
    std::mt19937_64 random(1);
    std::array<std::uint64_t, scan_limit> words{};
    std::uint64_t found_in_all = 0;
    for (int times = 0; times < 20'000; ++times) {
        scan_limits limits;
        limits.end = 1 + random() % (std::uint64_t{1} << (1 + random() % 46));
        limits.address = 0x10000000 + (random() >> 18U);
        limits.raw = times % 2 == 0;
        const std::uint64_t offset = random() % limits.end / 8 * 8;
        const std::uint64_t groups = random() % 65;
        for (std::uint64_t i = 0; i < groups * scan_group; ++i) {
            const std::uint64_t edge = random() % 3 == 0 ? limits.end - 1 : random() % 2 == 0 ? limits.end : 0;
            switch (random() % 16) {
                case 0:
                    words[i] = segment::encode_pointer(offset + 8 * i, edge, static_cast<std::uint16_t>(random()));
                    break;
                case 1: words[i] = limits.address + edge; break;
                case 2: words[i] = limits.address - 1; break;
                case 3: words[i] = segment::encode_pointer(offset + 8 * i, ~std::uint64_t{0}, 0); break;
                case 4: words[i] = ~std::uint64_t{0}; break;
                case 5: words[i] = random(); break;
                default: words[i] = random() % 4; break;
            }
        }
        const std::uint64_t expected = definition(words.data(), groups, offset, limits);
        ASSERT_EQ(scan_anywhere(words.data(), groups, offset, limits), expected);
        ASSERT_EQ(fastest_scan()(words.data(), groups, offset, limits), expected);
        found_in_all += expected == 0 ? 0 : 1;
    }
    EXPECT_GT(found_in_all, 1000U);
}

}  // namespace
}  // namespace holdfast::heap
