// Entries of a page or of a small set of values. No function here allocates or fails: a caller has compared
// free_bytes() with the entry's size before an insertion, and asked is_valid() about a block from media.
#pragma once

#include <cstring>
#include <span>
#include <string_view>

#include "store/order.hpp"
#include "store/page_format.hpp"

namespace holdfast::store_engine {

[[nodiscard]] constexpr std::size_t even(std::size_t size) noexcept { return (size + 1) & ~std::size_t{1}; }

template <class Target, class Source>
[[nodiscard]] constexpr Target narrow(Source value) noexcept {
    return static_cast<Target>(value);
}

[[nodiscard]] inline const std::byte* bytes_of(const block_header& block) noexcept {
    return reinterpret_cast<const std::byte*>(&block);
}
[[nodiscard]] inline std::byte* bytes_of(block_header& block) noexcept { return reinterpret_cast<std::byte*>(&block); }

[[nodiscard]] inline const std::uint16_t* slots_of(const block_header& block) noexcept {
    return reinterpret_cast<const std::uint16_t*>(bytes_of(block) + sizeof(block_header));
}
[[nodiscard]] inline std::uint16_t* slots_of(block_header& block) noexcept {
    return reinterpret_cast<std::uint16_t*>(bytes_of(block) + sizeof(block_header));
}

[[nodiscard]] inline std::string_view text_at(const block_header& block, std::size_t offset,
                                              std::size_t size) noexcept {
    return {reinterpret_cast<const char*>(bytes_of(block)) + offset, size};
}

[[nodiscard]] inline const leaf_node& leaf_at(const block_header& block, unsigned index) noexcept {
    return *reinterpret_cast<const leaf_node*>(bytes_of(block) + slots_of(block)[index]);
}
[[nodiscard]] inline const branch_node& branch_at(const block_header& block, unsigned index) noexcept {
    return *reinterpret_cast<const branch_node*>(bytes_of(block) + slots_of(block)[index]);
}

/// Of what a node has of its key: all, or a long_key.
[[nodiscard]] inline std::size_t key_size(const leaf_node& node) noexcept {
    const std::size_t size = node.key_and_flags & key_size_mask;
    return size == long_key_in_leaf ? sizeof(long_key) : size;
}
[[nodiscard]] inline std::size_t key_size(const branch_node& node) noexcept {
    return node.key_size == long_key_in_branch ? sizeof(long_key) : node.key_size;
}
[[nodiscard]] inline std::uint16_t flags_at(const block_header& block, unsigned index) noexcept {
    return block.kind == page_kind::leaf ? leaf_at(block, index).key_and_flags & node_flags_mask : std::uint16_t{0};
}

// For blocks without long keys.
[[nodiscard]] inline std::string_view leaf_key_at(const block_header& block, unsigned index) noexcept {
    const std::size_t offset = slots_of(block)[index];
    return text_at(block, offset + sizeof(leaf_node), leaf_at(block, index).key_and_flags & key_size_mask);
}
[[nodiscard]] inline std::string_view branch_key_at(const block_header& block, unsigned index) noexcept {
    const std::size_t offset = slots_of(block)[index];
    return text_at(block, offset + sizeof(branch_node), branch_at(block, index).key_size);
}
[[nodiscard]] inline std::string_view packed_at(const block_header& block, unsigned index) noexcept {
    return text_at(block, sizeof(block_header) + std::size_t{index} * block.item_size, block.item_size);
}
[[nodiscard]] inline std::string_view key_at(const block_header& block, unsigned index) noexcept {
    switch (block.kind) {
        case page_kind::branch: return branch_key_at(block, index);
        case page_kind::packed: return packed_at(block, index);
        default: return leaf_key_at(block, index);
    }
}

/// A key's bytes, or a long_key.
struct stored_key {
    std::string_view text;
    bool is_long = false;
};
[[nodiscard]] inline stored_key stored_key_at(const block_header& block, unsigned index) noexcept {
    if (block.has_long_keys == 0) {
        return {.text = key_at(block, index)};
    }
    const std::size_t offset = slots_of(block)[index];
    if (block.kind == page_kind::branch) {
        const branch_node& node = branch_at(block, index);
        return {.text = text_at(block, offset + sizeof(branch_node), key_size(node)),
                .is_long = node.key_size == long_key_in_branch};
    }
    const leaf_node& node = leaf_at(block, index);
    return {.text = text_at(block, offset + sizeof(leaf_node), key_size(node)),
            .is_long = (node.key_and_flags & key_size_mask) == long_key_in_leaf};
}

/// As it lies there: inline, or a long_value, a block, a tree_record.
[[nodiscard]] inline std::string_view value_at(const block_header& block, unsigned index) noexcept {
    if (block.kind != page_kind::leaf) {
        return {};
    }
    const leaf_node& node = leaf_at(block, index);
    return text_at(block, slots_of(block)[index] + sizeof(leaf_node) + even(key_size(node)), node.value_size);
}

/// False, and nothing is set, where there is no entry whose key and value lie in its node.
[[nodiscard]] inline bool plain_entry_at(const block_header& block, unsigned index, std::string_view& key,
                                         std::string_view& value) noexcept {
    if (index >= block.count || block.kind != page_kind::leaf || block.has_long_keys != 0) {
        return false;
    }
    const std::size_t offset = slots_of(block)[index] + sizeof(leaf_node);
    const leaf_node node = leaf_at(block, index);
    if ((node.key_and_flags & node_flags_mask) != 0) {
        return false;
    }
    key = text_at(block, offset, node.key_and_flags);
    value = text_at(block, offset + even(node.key_and_flags), node.value_size);
    return true;
}

/// Prefetches a node, if there is one: nodes lie in the order in which they were written, so the processor does not
/// foresee a scan. Always inlined: GCC takes a function that only prefetches for one without effects and drops calls of
/// it.
[[gnu::always_inline]] inline void fetch_node(const block_header& block, unsigned index) noexcept {
    if (index < block.count && block.kind == page_kind::leaf) {
        const std::byte* const node = bytes_of(block) + slots_of(block)[index];
        __builtin_prefetch(node);
        __builtin_prefetch(node + 64);
    }
}

[[nodiscard]] inline std::uint64_t child_at(const block_header& block, unsigned index) noexcept {
    const branch_node& node = branch_at(block, index);
    return node.child[0] | std::uint64_t{node.child[1]} << 16U | std::uint64_t{node.child[2]} << 32U;
}

/// The value of a key with a few values.
[[nodiscard]] inline const block_header& block_at(const block_header& block, unsigned index) noexcept {
    return *reinterpret_cast<const block_header*>(value_at(block, index).data());
}

[[nodiscard]] inline tree_record record_from(std::string_view value) noexcept {
    tree_record record;
    std::memcpy(&record, value.data(), sizeof(record));
    return record;
}
[[nodiscard]] inline long_value long_value_from(std::string_view value) noexcept {
    long_value where;
    std::memcpy(&where, value.data(), sizeof(where));
    return where;
}
[[nodiscard]] inline long_key long_key_from(std::string_view stored) noexcept {
    long_key key;
    std::memcpy(&key, stored.data(), sizeof(key));
    return key;
}
template <class Record>
[[nodiscard]] std::string_view as_text(const Record& record) noexcept {
    return {reinterpret_cast<const char*>(&record), sizeof(record)};
}

/// Of a key of so many bytes in a leaf's node.
[[nodiscard]] constexpr std::size_t stored_size(std::size_t key) noexcept {
    return key > max_key ? sizeof(long_key) : key;
}
/// Of an entry with its slot; `key`: what the node has of it.
[[nodiscard]] constexpr std::size_t leaf_size(std::size_t key, std::size_t value) noexcept {
    return sizeof(leaf_node) + even(key) + even(value) + sizeof(std::uint16_t);
}
[[nodiscard]] constexpr std::size_t branch_size(std::size_t key) noexcept {
    return sizeof(branch_node) + even(key) + sizeof(std::uint16_t);
}
[[nodiscard]] std::size_t size_at(const block_header& block, unsigned index) noexcept;

[[nodiscard]] std::size_t used_bytes(const block_header& block) noexcept;
[[nodiscard]] std::size_t free_bytes(const block_header& block) noexcept;

// --- changes: each needs free_bytes of the entry's size --------------------------------------------------------------

void format_block(block_header& block, page_kind kind, std::size_t capacity, std::size_t item_size) noexcept;

/// Returns where the value goes; it is copied there unless its data is null.
std::byte* insert_leaf(block_header& block, unsigned index, const stored_key& key, std::string_view value,
                       std::uint16_t flags) noexcept;
void insert_branch(block_header& block, unsigned index, const stored_key& key, std::uint64_t child) noexcept;
void insert_packed(block_header& block, unsigned index, std::string_view item) noexcept;
/// Of a block of the same kind.
void insert_copy(block_header& block, unsigned index, const block_header& from, unsigned from_index) noexcept;
void set_child(block_header& block, unsigned index, std::uint64_t child) noexcept;
void remove_at(block_header& block, unsigned index) noexcept;
/// From `index` on.
void truncate_block(block_header& block, unsigned index) noexcept;
/// To be written over by a value of the same size.
[[nodiscard]] std::byte* mutable_value_at(block_header& block, unsigned index) noexcept;
/// What a node of a leaf or a branch has of its key.
[[nodiscard]] std::byte* mutable_key_at(block_header& block, unsigned index) noexcept;
void set_flags_at(block_header& block, unsigned index, std::uint16_t flags) noexcept;

/// Zeros between slots and nodes, or behind packed items.
void clear_unused(block_header& block) noexcept;

// --- search, in blocks that have no long keys (long_keys.hpp)

struct place {
    unsigned index = 0;
    bool exact = false;
};
/// The first entry of a leaf or packed block that is not below the key.
[[nodiscard]] place find_in_leaf(const block_header& block, const order& by, std::string_view key);
/// Whose child may hold the key. Precondition: the branch has an entry.
[[nodiscard]] unsigned find_in_branch(const block_header& block, const order& by, std::string_view key);

/// Whether each offset and size lies inside of the block and each kind of value has its size, which the other functions
/// take for granted. `capacity`: of the block's place.
[[nodiscard]] bool is_valid(const block_header& block, std::size_t capacity) noexcept;

}  // namespace holdfast::store_engine
