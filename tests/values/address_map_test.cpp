#include "address_map.hpp"

#include <random>
#include <unordered_map>

#include <gtest/gtest.h>

namespace holdfast::python {
namespace {

const void* key(std::uint64_t number) { return reinterpret_cast<const void*>(number); }

/// Few keys, so that many meet in the same places, and runs go over the end of the array.
TEST(address_map, does_what_a_map_of_the_library_does) {
    for (const std::uint64_t keys : {40U, 500U, 20'000U}) {
        std::mt19937_64 random(keys);
        address_map<std::uint64_t> ours;
        std::unordered_map<const void*, std::uint64_t> expected;
        for (int step = 0; step < 100'000; ++step) {
            const void* const at = key(16 * (1 + random() % keys));
            const std::uint64_t value = random();
            switch (random() % 5) {
                case 0:
                case 1: {
                    const auto [found, added] = ours.add(at, value);
                    const auto [entry, is_new] = expected.emplace(at, value);
                    ASSERT_EQ(added, is_new);
                    ASSERT_EQ(*found, entry->second);
                    break;
                }
                case 2:
                    ours.erase(at);
                    expected.erase(at);
                    break;
                default: {
                    const std::uint64_t* const found = ours.find(at);
                    ASSERT_EQ(found != nullptr, expected.contains(at));
                    ASSERT_TRUE(found == nullptr || *found == expected.at(at));
                }
            }
            if (step % 30'000 == 29'999) {
                ours.clear();
                expected.clear();
            }
            ASSERT_EQ(ours.size(), expected.size());
        }
        std::size_t seen = 0;
        ours.for_each([&](const void* at, std::uint64_t value) {
            ++seen;
            EXPECT_EQ(expected.at(at), value);
        });
        EXPECT_EQ(seen, expected.size());
    }
}

TEST(address_map, is_empty_after_clear_whatever_was_in_it) {
    address_map<int> map;
    for (const std::uint64_t many : {10'000U, 3U, 0U}) {
        for (std::uint64_t i = 1; i <= many; ++i) {
            map.add(key(i * 8), 1);
        }
        map.clear();
        EXPECT_EQ(map.size(), 0U);
        EXPECT_FALSE(map.contains(key(8)));
        map.erase(key(8));
    }
}

}  // namespace
}  // namespace holdfast::python
