// For the tests of ordered_index and hash_index: keys and values of a type made from numbers, and a std::map beside the
// index.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>

#include "api/manager_test_configurations.hpp"
#include "support/index_entries.hpp"

namespace holdfast {

/// A key of three words.
struct wide_key {
    std::uint64_t group = 0;
    std::uint64_t number = 0;
    std::uint64_t rest = 0;
    friend auto operator<=>(const wide_key&, const wide_key&) = default;
};
struct wide_value {
    std::uint64_t words[6] = {};
    friend bool operator==(const wide_value&, const wide_value&) = default;
};

/// A T for each number: equal ones for equal numbers alone, as far as the type has so many.
template <class T>
[[nodiscard]] auto made_from(std::uint64_t number) {
    if constexpr (std::is_same_v<T, std::string_view>) {
        // Long and short ones, with long common beginnings.
        const std::string text = fmt::format("{:05}", number);
        return number % 7 == 0 ? text + std::string(number % 900, 'x') : "common/" + text;
    } else if constexpr (std::is_same_v<T, wide_key>) {
        return wide_key{number / 100, number % 100, ~number};
    } else if constexpr (std::is_same_v<T, wide_value>) {
        return wide_value{{number, number + 1, number + 2, number + 3, number + 4, ~number}};
    } else {
        return static_cast<T>(number);
    }
}

template <class Index>
class index_and_model {
public:
    using index = Index;
    using Key = typename index::key_type;
    using Value = typename index::mapped_type;
    using owned_key = typename index::owned_key;
    using owned_value = typename index::owned_value;
    using model = std::map<owned_key, owned_value>;

    /// One random call by both.
    void step(index& tested, std::mt19937_64& random, std::uint64_t keys) {
        const owned_key key = made_from<Key>(random() % keys);
        const owned_value value = made_from<Value>(random() % 5000);
        const auto known = model_.find(key);
        const bool is_there = known != model_.end();
        switch (random() % 10) {
            case 0:
            case 1:
            case 2:
                ASSERT_EQ(tested.insert(key, value), !is_there);
                model_.emplace(key, value);
                break;
            case 3:
                ASSERT_EQ(tested.update(key, value), is_there);
                if (is_there) {
                    known->second = value;
                }
                break;
            case 4:
                ASSERT_EQ(tested.upsert(key, value), !is_there);
                model_[key] = value;
                break;
            case 5:
            case 6:
            case 7:
                ASSERT_EQ(tested.remove(key), is_there);
                model_.erase(key);
                break;
            case 8: ASSERT_EQ(tested.find(key), is_there ? std::optional(known->second) : std::nullopt); break;
            default:
                if constexpr (is_ordered) {
                    look_around(tested, key);
                }
        }
    }
    void compare(index& tested) const {
        EXPECT_EQ(tested.size(), model_.size());
        EXPECT_THAT(tested.check(), testing::IsEmpty());
        if constexpr (is_ordered) {
            compare_order(tested);
        } else {
            model all;
            EXPECT_EQ(
                test::for_each_entry(tested, [&](const Key& key, const Value& value) { all.emplace(key, value); }),
                model_.size());
            EXPECT_TRUE(std::equal(all.begin(), all.end(), model_.begin(), model_.end(), same));
        }
    }
    [[nodiscard]] model& contents() noexcept { return model_; }

private:
    static constexpr bool is_ordered = requires(const index& tested) { tested.first(); };
    static constexpr auto same = [](const auto& a, const auto& b) {
        return a.first == b.first && a.second == b.second;
    };
    void compare_order(index& tested) const {
        std::vector<std::pair<owned_key, owned_value>> all;
        EXPECT_EQ(tested.scan([&](const Key& key, const Value& value) {
            all.emplace_back(key, value);
            return true;
        }),
                  model_.size());
        EXPECT_TRUE(std::equal(all.begin(), all.end(), model_.begin(), model_.end(), same));
        all.clear();
        tested.scan_backward([&](const Key& key, const Value& value) {
            all.emplace_back(key, value);
            return true;
        });
        EXPECT_TRUE(std::equal(all.begin(), all.end(), model_.rbegin(), model_.rend(), same));
    }
    void look_around(const index& tested, const owned_key& key) const {
        const auto not_below = model_.lower_bound(key);
        const auto found = tested.lower_bound(key);
        ASSERT_EQ(found.has_value(), not_below != model_.end());
        if (found) {
            ASSERT_TRUE(same(*found, *not_below));
        }
        const auto above = model_.upper_bound(key);
        const auto before = tested.last_not_above(key);
        ASSERT_EQ(before.has_value(), above != model_.begin());
        if (before) {
            ASSERT_TRUE(same(*before, *std::prev(above)));
        }
    }

    model model_;
};

}  // namespace holdfast
