// What every hash table stores and how: the layout of its members, and nodes that are added and taken by hand.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>

#include "arena.hpp"

namespace holdfast::test {
namespace {

// --- layout

struct salted_hash {
    std::size_t operator()(int key) const noexcept { return static_cast<std::size_t>(key) ^ salt; }
    std::size_t salt = 7;
};
struct salted_equal {
    bool operator()(int a, int b) const noexcept { return a == b; }
    std::size_t salt = 9;
};
using salted_set = unordered_set<int, salted_hash, salted_equal>;

// Tables on media have these sizes: a change of any of them needs another layout_n in containers/unordered.hpp.
static_assert(sizeof(unordered_map<int, int>) == 64);
static_assert(sizeof(unordered_multimap<int, string>) == 64);
static_assert(sizeof(unordered_set<string>) == 64);
static_assert(sizeof(unordered_multiset<int>) == 64);
static_assert(sizeof(unordered_set<int, hash<int>, equal_to<int>, std::allocator<int>>) == 56);
static_assert(sizeof(salted_set) == 80);
static_assert(sizeof(unordered_map<int, int>::iterator) == 8);
static_assert(alignof(unordered_map<int, int>) == 8);

template <class Field, class Table>
Field field_at(const Table& table, std::size_t offset) {
    Field found{};
    std::memcpy(&found, reinterpret_cast<const std::byte*>(&table) + offset, sizeof found);
    return found;
}

TEST(hash_core, has_the_members_of_layout_1) {
    arena heap;
    salted_set table({1, 2, 3}, 0, salted_hash{}, salted_equal{}, heap.get_allocator<int>());
    table.max_load_factor(0.5F);
    table.rehash(32);
    std::size_t first = 0;
    while (table.bucket_size(first) == 0) {
        ++first;
    }
    EXPECT_TRUE(heap.contains(reinterpret_cast<const detail::hash_link*>(&table)->get()));
    EXPECT_EQ(field_at<std::uint64_t>(table, 8), 32U);        // buckets
    EXPECT_EQ(field_at<std::uint64_t>(table, 16), first);     // the first bucket with nodes
    EXPECT_EQ(field_at<std::uint32_t>(table, 24), 64U - 5U);  // shift
    EXPECT_EQ(field_at<float>(table, 32), 0.5F);              // maximal load factor
    EXPECT_EQ(field_at<std::uint64_t>(table, 40), 3U);        // elements
    EXPECT_EQ(field_at<std::uint64_t>(table, 48), 16U);       // elements that fit
    EXPECT_EQ(field_at<std::uint64_t>(table, 56), 7U);        // hash
    EXPECT_EQ(field_at<std::uint64_t>(table, 64), 9U);        // comparison
    EXPECT_EQ(field_at<std::uint64_t>(table, 72), heap.get_allocator<int>().key());
}

// --- nodes

/// Few hashes, so that different keys share a bucket.
struct hash_of_tens {
    std::size_t operator()(int key) const { return static_cast<std::size_t>(key / 10); }
};

/// A core whose nodes the tests handle themselves.
template <bool IsMulti>
class open_core
    : public detail::hash_core<detail::hash_set_traits<int, IsMulti>, hash_of_tens, equal_to<int>, allocator<int>> {
    using core = detail::hash_core<detail::hash_set_traits<int, IsMulti>, hash_of_tens, equal_to<int>, allocator<int>>;

public:
    using core::behind_equals;
    using core::core;
    using core::erase_node;
    using core::find_node;
    using core::first_node;
    using core::last_equal;
    using core::occupancy;
    using core::set_max_load;

    void add(int value) {
        auto made = this->make_node(value);
        this->insert_node(made, this->hash_of(value), IsMulti ? find(value) : nullptr);
    }
    [[nodiscard]] auto* find(int value) const { return find_node(value, this->hash_of(value)); }
    [[nodiscard]] std::vector<int> values() const {
        return {typename core::const_iterator(first_node()), typename core::const_iterator()};
    }
};

TEST(hash_core, without_buckets_finds_nothing_and_allocates_nothing) {
    arena heap;
    const open_core<false> none(heap.get_allocator<int>());
    EXPECT_EQ(none.find(1), nullptr);
    EXPECT_EQ(none.first_node(), nullptr);
    EXPECT_EQ(none.last_equal(1, 0), nullptr);
    EXPECT_EQ(heap.blocks(), 0U);
}

TEST(hash_core, keeps_equal_elements_together_among_others_of_the_same_bucket) {
    arena heap;
    open_core<true> core(heap.get_allocator<int>());
    for (const int value : {11, 12, 11, 13, 12, 11}) {
        core.add(value);
    }
    EXPECT_EQ(core.values(), (std::vector{13, 12, 12, 11, 11, 11}));
    EXPECT_EQ(core.behind_equals(core.find(12), 12), core.find(11));
    EXPECT_EQ(core.behind_equals(core.find(11), 11), nullptr);
    EXPECT_EQ(core.last_equal(12, 1)->following(), core.find(11));
}

TEST(hash_core, erases_a_node_and_names_the_next_one) {
    arena heap;
    open_core<false> core(heap.get_allocator<int>());
    for (const int value : {11, 12, 13}) {
        core.add(value);
    }
    EXPECT_EQ(core.erase_node(core.find(12)), core.find(11));
    EXPECT_EQ(core.erase_node(core.find(11)), nullptr);
    EXPECT_EQ(core.values(), std::vector{13});
    EXPECT_EQ(core.occupancy().size(), 1U);
    EXPECT_EQ(heap.blocks(), 2U);  // the node and the buckets
}

TEST(hash_core, that_is_moved_leaves_an_empty_one_that_can_be_used) {
    arena heap;
    open_core<false> from(heap.get_allocator<int>());
    from.add(1);
    open_core<false> to(std::move(from));
    EXPECT_EQ(to.values(), std::vector{1});
    EXPECT_EQ(from.first_node(), nullptr);  // NOLINT(bugprone-use-after-move): promised
    from.add(2);
    EXPECT_EQ(from.values(), std::vector{2});
}

TEST(hash_core, made_like_another_one_has_its_functions_and_load_factor_but_no_elements) {
    arena heap;
    open_core<false> model(heap.get_allocator<int>());
    model.set_max_load(4);
    model.add(1);
    const open_core<false> made(model, heap.get_allocator<int>());
    EXPECT_EQ(made.occupancy().max_factor(), 4.0F);
    EXPECT_EQ(made.first_node(), nullptr);
}

}  // namespace
}  // namespace holdfast::test
