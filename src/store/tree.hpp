// A position in a B+tree, and changes. The main database, each named one, and the many values of one key are trees. A
// position is of one tree and one transaction.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "store/long_keys.hpp"

namespace holdfast::store_engine {

/// Of a leaf with a value, of a branch with a child.
struct tree_entry {
    stored_key key;
    std::string_view value;
    std::uint64_t child;
    std::uint16_t flags;
};

class tree_cursor {
public:
    void attach(transaction_pages& pages, tree_record& record, const order& by) noexcept {
        pages_ = &pages;
        record_ = &record;
        by_ = &by;
        depth_ = 0;
    }

    // --- position ---

    /// In a leaf: on an entry, or behind the last one (`!on_entry()`).
    [[nodiscard]] bool placed() const noexcept { return depth_ != 0; }
    void leave() noexcept { depth_ = 0; }
    [[nodiscard]] bool on_entry() const noexcept { return depth_ != 0 && index() < block().count; }
    [[nodiscard]] const block_header& block() const noexcept { return levels_[depth_ - 1].page->block; }
    [[nodiscard]] unsigned index() const noexcept { return levels_[depth_ - 1].index; }
    void set_index(unsigned index) noexcept { levels_[depth_ - 1].index = index; }
    [[nodiscard]] status key(std::string_view& key) const { return read_key(*pages_, block(), index(), key); }
    [[nodiscard]] std::string_view value() const noexcept { return value_at(block(), index()); }
    [[nodiscard]] std::uint16_t flags() const noexcept { return flags_at(block(), index()); }
    /// Of the leaf: no page below is younger.
    [[nodiscard]] std::uint64_t birth() const noexcept { return levels_[depth_ - 1].page->birth; }

    /// The first entry that is not below the key, in its leaf; `exact`: it is the key. not_found: the tree is empty.
    [[nodiscard]] status seek(std::string_view key, bool& exact);
    /// not_found: the tree is empty.
    [[nodiscard]] status first();
    [[nodiscard]] status last();
    /// To the next leaf from behind the last entry of one. not_found, and no change: there is none.
    [[nodiscard]] status go_to_entry();
    /// not_found, and no change: there is none.
    [[nodiscard]] status next();
    [[nodiscard]] status previous();
    [[nodiscard]] status previous_leaf();
    [[nodiscard]] bool in_last_leaf() const noexcept;

    // --- changes: the position is one of seek(), in a transaction that writes ---

    [[nodiscard]] status own_path();
    /// Puts an entry at the position, and stands on it. `value` without data: the caller writes its bytes at `written`,
    /// which may be null. Packed leaves: the key alone.
    [[nodiscard]] status insert(std::string_view key, std::string_view value, std::uint16_t flags, std::byte** written);
    /// Then stands on the next entry, or behind the last.
    [[nodiscard]] status remove();
    /// The size may differ.
    [[nodiscard]] status replace(std::string_view value, std::uint16_t flags, std::byte** written);
    /// After own_path().
    [[nodiscard]] block_header& writable_block() const noexcept {
        return pages_->writable(levels_[depth_ - 1].number)->block;
    }

private:
    using level = tree_level;

    [[nodiscard]] status enter(unsigned depth, std::uint64_t number);
    [[nodiscard]] status descend_to_edge(unsigned depth, std::uint64_t number, bool right);
    [[nodiscard]] status step_leaf(bool right);
    [[nodiscard]] block_header& writable_at(unsigned depth) const noexcept {
        return pages_->writable(levels_[depth].number)->block;
    }
    [[nodiscard]] status plant();
    [[nodiscard]] status insert_stored(std::string_view key, const tree_entry& item, std::byte** written);
    [[nodiscard]] unsigned split_point(const block_header& block, unsigned depth,
                                       const tree_entry& item) const noexcept;
    [[nodiscard]] status insert_into_full(std::string_view key, const tree_entry& item);
    [[nodiscard]] status shift_to_neighbour(bool left, bool& shifted);
    [[nodiscard]] status split(unsigned depth, const tree_entry& item);
    [[nodiscard]] status add_child(unsigned depth, const stored_key& separator, std::uint64_t right);
    [[nodiscard]] status rebalance(unsigned depth);
    [[nodiscard]] status shrink_root();
    [[nodiscard]] status drop_child(unsigned depth);
    [[nodiscard]] status try_merge(unsigned depth, unsigned left_index, bool& merged);
    void count_page(page_kind kind, int by) noexcept;

    transaction_pages* pages_ = nullptr;
    tree_record* record_ = nullptr;
    const order* by_ = nullptr;
    unsigned depth_ = 0;
    std::array<level, max_depth> levels_;
};

/// Frees all pages, with the long values and trees in its leaves; empties the record, but for its flags.
[[nodiscard]] status drop_tree(transaction_pages& pages, tree_record& record);

}  // namespace holdfast::store_engine
