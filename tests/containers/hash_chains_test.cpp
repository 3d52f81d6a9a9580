// The chains alone: nodes and buckets lie on the stack, hashes are given.
#include <array>
#include <cstddef>
#include <deque>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/detail/hash_chains.hpp>

namespace holdfast::detail {
namespace {

class hash_chains_test : public ::testing::Test {
protected:
    using node = hash_node<int, true>;

    hash_chains_test() { chains_.adopt(eight_.data(), 8); }

    /// A node in no chain.
    node* make(int value, std::size_t hash) {
        node& made = nodes_.emplace_back();
        made.value = value;
        made.hash = hash;
        return &made;
    }
    node* link(int value, std::size_t hash) {
        node* const made = make(value, hash);
        chains_.link_first(made, hash);
        return made;
    }
    /// A hash whose bucket of the eight is `index`.
    [[nodiscard]] std::size_t hash_in(std::size_t index) const {
        std::size_t hash = 0;
        while (chains_.index_of(hash) != index) {
            ++hash;
        }
        return hash;
    }
    [[nodiscard]] std::vector<int> values() const {
        using iterator = hash_iterator<node, true>;
        return {iterator(chains_.first()), iterator()};
    }
    template <bool KeepsOrder>
    void move_to_sixteen() {
        chains_.adopt(sixteen_.data(), 16);
        for (std::size_t i = 0; i < 8; ++i) {
            if (eight_[i]) {
                chains_.relink<KeepsOrder>(eight_[i].get(), [](const node* of) { return of->hash; });
            }
        }
    }

    std::array<hash_link, 9> eight_;
    std::array<hash_link, 17> sixteen_;
    std::deque<node> nodes_;
    hash_chains<node> chains_;
};

TEST_F(hash_chains_test, iterate_over_the_buckets_in_their_order) {
    link(1, hash_in(6));
    link(2, hash_in(0));
    link(3, hash_in(6));
    EXPECT_EQ(values(), (std::vector{2, 3, 1}));
}

TEST_F(hash_chains_test, link_a_node_behind_another_one) {
    node* const first = link(1, hash_in(3));
    link(2, hash_in(7));
    chains_.link_behind(first, make(3, first->hash));
    EXPECT_EQ(values(), (std::vector{1, 3, 2}));
}

TEST_F(hash_chains_test, unlink_the_first_a_middle_and_the_last_node_of_a_bucket) {
    const std::size_t hash = hash_in(2);
    std::array<node*, 4> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = link(static_cast<int>(i), hash);
    }
    EXPECT_FALSE(chains_.unlink(all[3], hash));
    EXPECT_FALSE(chains_.unlink(all[1], hash));
    EXPECT_FALSE(chains_.unlink(all[0], hash));
    EXPECT_EQ(values(), std::vector{2});
}

TEST_F(hash_chains_test, tell_when_the_first_bucket_with_nodes_becomes_empty) {
    node* const first = link(1, hash_in(1));
    node* const second = link(2, hash_in(4));
    node* const third = link(3, hash_in(7));
    EXPECT_FALSE(chains_.unlink(second, second->hash));
    EXPECT_TRUE(chains_.unlink(first, first->hash));
    chains_.skip_to(third->hash);
    EXPECT_EQ(values(), std::vector{3});
    link(4, hash_in(0));
    EXPECT_EQ(values(), (std::vector{4, 3}));
}

TEST_F(hash_chains_test, split_each_bucket_into_two_neighbours) {
    std::vector<std::size_t> before;
    for (std::size_t hash = 0; hash < 100; ++hash) {
        before.push_back(chains_.index_of(hash));
    }
    move_to_sixteen<false>();
    for (std::size_t hash = 0; hash < 100; ++hash) {
        EXPECT_EQ(chains_.index_of(hash) / 2, before[hash]);
    }
}

TEST_F(hash_chains_test, keep_the_order_of_a_chain_where_that_is_asked_for) {
    const std::size_t hash = hash_in(5);
    link(1, hash);
    link(2, hash);
    link(3, hash);
    move_to_sixteen<true>();
    EXPECT_EQ(values(), (std::vector{3, 2, 1}));
}

TEST_F(hash_chains_test, reverse_a_chain_where_order_does_not_matter) {
    const std::size_t hash = hash_in(5);
    link(1, hash);
    link(2, hash);
    move_to_sixteen<false>();
    EXPECT_EQ(values(), (std::vector{1, 2}));
}

}  // namespace
}  // namespace holdfast::detail
