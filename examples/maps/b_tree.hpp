// A B-tree (Bayer, McCreight 1972) of nodes with 3 to 7 items. It changes few nodes: from a leaf upwards, and
// neighbours lend or take items before a node is joined with one.
#pragma once

#include <cstddef>

#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "map.hpp"

namespace maps {

class b_tree final : public checked_map {
public:
    /// Opens or makes the map of that name.
    b_tree(holdfast::manager& heap, const char* name);

    bool insert(std::uint64_t key, std::uint64_t value) override;
    std::optional<std::uint64_t> remove(std::uint64_t key) override;
    [[nodiscard]] std::optional<std::uint64_t> look_up(std::uint64_t key) const override;
    bool for_each(const visitor& visit) const override;  // NOLINT(modernize-use-nodiscard)
    [[nodiscard]] std::string problem() const override;
    [[nodiscard]] std::uint64_t block_count() const override;

private:
    static constexpr std::size_t most_items = 7;
    static constexpr std::size_t least_items = 3;  ///< of every node but the root

    struct item {
        std::uint64_t key = 0;
        std::uint64_t value = 0;
    };
    /// A leaf: no pointers, so that a copy of it is a copy of its bytes. It ascends by key.
    struct node {
        std::uint64_t count = 0;
        item items[most_items];
    };
    /// Each child but the last one is less than the item of the same index, and each but the first one greater than the
    /// item before.
    struct inner_node : node {
        holdfast::ptr<node> children[most_items + 1];
    };
    struct head {
        holdfast::ptr<node> root;
        std::uint64_t height = 0;  ///< nodes on the way to an item of a leaf; 0: empty
    };
    class way;
    struct walk;

    [[nodiscard]] static std::size_t index_of(const node& at, std::uint64_t key) noexcept;
    /// The key's item, or null. `to` leads to its node, or to the leaf where it belongs.
    [[nodiscard]] item* find(std::uint64_t key, way& to) const;
    [[nodiscard]] bool is_leaf(std::size_t level) const noexcept { return level + 1 == head_.height; }
    /// A node is opened as what it is, for a transaction has one copy of an object.
    [[nodiscard]] node& open(holdfast::transaction& tx, node* at, bool is_leaf) const;

    /// Puts an item into a node that has room; `behind` is the child behind it, null in a leaf.
    static void put(node& into, std::size_t index, const item& added, node* behind);
    /// Takes an item and the child behind it (`child` 1) or before it (0) out of a node.
    static void take(node& from, std::size_t index, bool is_leaf, std::size_t child = 1);
    /// Splits a full node while an item is put into it; the item becomes the one between the halves. Returns the new
    /// node, of the greater ones.
    node* split(holdfast::transaction& tx, node* full, bool is_leaf, std::size_t index, item& added, node* behind);
    void put_upwards(holdfast::transaction& tx, const way& to, item added);
    /// After an item was taken from the leaf at the end of the way.
    void refill(holdfast::transaction& tx, const way& to);
    /// A node that lacks an item gets one of a neighbour that can spare it. Returns whether there was one.
    bool borrow(holdfast::transaction& tx, inner_node& parent, std::size_t index, bool is_leaf);
    void join(holdfast::transaction& tx, inner_node& parent, std::size_t index, bool is_leaf);

    /// False where a rule is broken or the visitor has ended the walk.
    bool go(walk& through) const;

    holdfast::manager& heap_;
    head& head_;
};

}  // namespace maps
