#include "base/sparse_table.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

using table = sparse_table<std::uint64_t>;

constexpr std::uint64_t count = std::uint64_t{1} << 22;

table make() {
    auto made = table::create(count, "a test");
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
}

void store(const table& to) {
    for (std::uint64_t i = 0; i < count; i += 1000) {
        to[i] = i + 1;
    }
}

void expect_zeros(const table& all) {
    for (std::uint64_t i = 0; i < count; i += 1000) {
        ASSERT_EQ(all[i], 0U);
    }
}

TEST(sparse_tables, that_are_made_anew_take_kept_memory_and_begin_with_zeros) {
    std::optional<table> first(make());
    std::optional<table> second(make());
    store(*first);
    store(*second);
    const std::uint64_t* const there = &(*first)[0];
    const kept_sparse_memory kept;
    first.reset();
    const table again = make();
    EXPECT_EQ(&again[0], there);
    expect_zeros(again);
    EXPECT_EQ((*second)[1000], 1001U);
    second.reset();
    const auto other = sparse_table<std::uint8_t>::create(count, "another size");
    ASSERT_TRUE(other.ok());
    EXPECT_EQ((*other)[count - 1], 0U);
}

TEST(sparse_tables, more_than_are_kept_go_as_ever) {
    const kept_sparse_memory kept;
    for (int round = 0; round < 3; ++round) {
        std::vector<table> all;
        for (int i = 0; i < 100; ++i) {
            all.push_back(make());
            expect_zeros(all.back());
            store(all.back());
        }
    }
}

}  // namespace
}  // namespace holdfast::base
