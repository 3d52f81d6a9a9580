#include "store/block.hpp"

#include <array>

namespace holdfast::store_engine {
namespace {

constexpr std::size_t slot_size = sizeof(std::uint16_t);

std::size_t node_size_at(const block_header& block, unsigned index) noexcept {
    return size_at(block, index) - slot_size;
}

std::size_t contiguous_bytes(const block_header& block) noexcept {
    return block.upper - sizeof(block_header) - slot_size * block.count;
}

// Moves the nodes together at the end, in the order of their slots.
void compact(block_header& block) noexcept {
    std::array<std::byte, block_capacity> old;
    std::memcpy(old.data() + block.upper, bytes_of(block) + block.upper, std::size_t{block.capacity} - block.upper);
    std::size_t upper = block.capacity;
    std::uint16_t* slots = slots_of(block);
    for (unsigned i = 0; i < block.count; ++i) {
        // From the copy: another node may have overwritten it.
        const std::size_t from = slots[i];
        std::size_t size = 0;
        if (block.kind == page_kind::branch) {
            branch_node node;
            std::memcpy(&node, old.data() + from, sizeof(node));
            size = branch_size(key_size(node)) - slot_size;
        } else {
            leaf_node node;
            std::memcpy(&node, old.data() + from, sizeof(node));
            size = leaf_size(key_size(node), node.value_size) - slot_size;
        }
        upper -= size;
        std::memcpy(bytes_of(block) + upper, old.data() + from, size);
        slots[i] = narrow<std::uint16_t>(upper);
    }
    block.upper = narrow<std::uint16_t>(upper);
    block.garbage = 0;
}

// Returns the place of a node that has a slot now.
std::byte* open_slot(block_header& block, unsigned index, std::size_t node_size) noexcept {
    if (contiguous_bytes(block) < node_size + slot_size) {
        compact(block);
    }
    std::uint16_t* slots = slots_of(block);
    std::memmove(slots + index + 1, slots + index, slot_size * (block.count - index));
    block.upper = narrow<std::uint16_t>(block.upper - node_size);
    slots[index] = block.upper;
    ++block.count;
    return bytes_of(block) + block.upper;
}

void copy_padded(std::byte* to, std::string_view text) noexcept {
    if (!text.empty()) {
        std::memcpy(to, text.data(), text.size());
    }
    if ((text.size() & 1U) != 0) {
        to[text.size()] = std::byte{0};
    }
}

void note_long_key(block_header& block, const stored_key& key) noexcept {
    if (key.is_long) {
        block.has_long_keys = 1;
    }
}

void write_child(branch_node& node, std::uint64_t child) noexcept {
    node.child[0] = narrow<std::uint16_t>(child & 0xFFFFU);
    node.child[1] = narrow<std::uint16_t>(child >> 16U & 0xFFFFU);
    node.child[2] = narrow<std::uint16_t>(child >> 32U & 0xFFFFU);
}

template <class Compare>
place lower_bound(const block_header& block, std::string_view key, Compare compare_to) {
    unsigned low = 0;
    unsigned high = block.count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        const int difference = compare_to(leaf_key_at(block, middle), key);
        if (difference == 0) {
            return {middle, true};
        }
        if (difference < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return {low, false};
}

template <class Compare>
unsigned last_not_above(const block_header& block, std::string_view key, Compare compare_to) {
    unsigned low = 1;  // entry 0 is below every key
    unsigned high = block.count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (compare_to(branch_key_at(block, middle), key) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

place find_in_packed(const block_header& block, const order& by, std::string_view key) {
    unsigned low = 0;
    unsigned high = block.count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        const int difference = compare(by, packed_at(block, middle), key);
        if (difference == 0) {
            return {middle, true};
        }
        if (difference < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return {low, false};
}

}  // namespace

std::size_t size_at(const block_header& block, unsigned index) noexcept {
    switch (block.kind) {
        case page_kind::branch: return branch_size(key_size(branch_at(block, index)));
        case page_kind::packed: return block.item_size;
        default: {
            const leaf_node& node = leaf_at(block, index);
            return leaf_size(key_size(node), node.value_size);
        }
    }
}

std::size_t used_bytes(const block_header& block) noexcept {
    return block.capacity - sizeof(block_header) - free_bytes(block);
}

std::size_t free_bytes(const block_header& block) noexcept {
    if (block.kind == page_kind::packed) {
        return block.capacity - sizeof(block_header) - std::size_t{block.item_size} * block.count;
    }
    return contiguous_bytes(block) + block.garbage;
}

void format_block(block_header& block, page_kind kind, std::size_t capacity, std::size_t item_size) noexcept {
    block = {.kind = kind,
             .has_long_keys = 0,
             .count = 0,
             .upper = narrow<std::uint16_t>(capacity),
             .capacity = narrow<std::uint16_t>(capacity),
             .item_size = narrow<std::uint16_t>(item_size),
             .garbage = 0};
}

std::byte* insert_leaf(block_header& block, unsigned index, const stored_key& key, std::string_view value,
                       std::uint16_t flags) noexcept {
    std::byte* at = open_slot(block, index, leaf_size(key.text.size(), value.size()) - slot_size);
    const std::size_t size = key.is_long ? long_key_in_leaf : key.text.size();
    const leaf_node node{.key_and_flags = narrow<std::uint16_t>(size | flags),
                         .value_size = narrow<std::uint16_t>(value.size())};
    std::memcpy(at, &node, sizeof(node));
    copy_padded(at + sizeof(node), key.text);
    note_long_key(block, key);
    std::byte* to = at + sizeof(node) + even(key.text.size());
    if (value.data() != nullptr) {
        copy_padded(to, value);
    } else {
        std::memset(to, 0, even(value.size()));
    }
    return to;
}

void insert_branch(block_header& block, unsigned index, const stored_key& key, std::uint64_t child) noexcept {
    std::byte* at = open_slot(block, index, branch_size(key.text.size()) - slot_size);
    const std::size_t size = key.is_long ? long_key_in_branch : key.text.size();
    branch_node node{.key_size = narrow<std::uint16_t>(size), .child = {}};
    write_child(node, child);
    std::memcpy(at, &node, sizeof(node));
    copy_padded(at + sizeof(node), key.text);
    note_long_key(block, key);
}

void insert_packed(block_header& block, unsigned index, std::string_view item) noexcept {
    std::byte* at = bytes_of(block) + sizeof(block_header) + std::size_t{index} * block.item_size;
    std::memmove(at + block.item_size, at, std::size_t{block.item_size} * (block.count - index));
    std::memcpy(at, item.data(), block.item_size);
    ++block.count;
}

void insert_copy(block_header& block, unsigned index, const block_header& from, unsigned from_index) noexcept {
    switch (block.kind) {
        case page_kind::branch:
            insert_branch(block, index, stored_key_at(from, from_index), child_at(from, from_index));
            break;
        case page_kind::packed: insert_packed(block, index, packed_at(from, from_index)); break;
        default:
            insert_leaf(block, index, stored_key_at(from, from_index), value_at(from, from_index),
                        flags_at(from, from_index));
    }
}

void set_child(block_header& block, unsigned index, std::uint64_t child) noexcept {
    write_child(*reinterpret_cast<branch_node*>(bytes_of(block) + slots_of(block)[index]), child);
}

void remove_at(block_header& block, unsigned index) noexcept {
    if (block.kind == page_kind::packed) {
        std::byte* at = bytes_of(block) + sizeof(block_header) + std::size_t{index} * block.item_size;
        std::memmove(at, at + block.item_size, std::size_t{block.item_size} * (block.count - index - 1U));
        --block.count;
        return;
    }
    const std::size_t size = node_size_at(block, index);
    std::uint16_t* slots = slots_of(block);
    if (slots[index] == block.upper) {
        block.upper = narrow<std::uint16_t>(block.upper + size);
    } else {
        block.garbage = narrow<std::uint16_t>(block.garbage + size);
    }
    std::memmove(slots + index, slots + index + 1, slot_size * (block.count - index - 1U));
    --block.count;
    if (block.count == 0) {
        block.upper = block.capacity;
        block.garbage = 0;
        block.has_long_keys = 0;
    }
}

void truncate_block(block_header& block, unsigned index) noexcept {
    if (block.kind == page_kind::packed) {
        block.count = narrow<std::uint16_t>(index);
        return;
    }
    for (unsigned i = index; i < block.count; ++i) {
        block.garbage = narrow<std::uint16_t>(block.garbage + node_size_at(block, i));
    }
    block.count = narrow<std::uint16_t>(index);
    compact(block);
}

std::byte* mutable_value_at(block_header& block, unsigned index) noexcept {
    const leaf_node& node = leaf_at(block, index);
    return bytes_of(block) + slots_of(block)[index] + sizeof(leaf_node) + even(key_size(node));
}

std::byte* mutable_key_at(block_header& block, unsigned index) noexcept {
    return bytes_of(block) + slots_of(block)[index] +
           (block.kind == page_kind::branch ? sizeof(branch_node) : sizeof(leaf_node));
}

void set_flags_at(block_header& block, unsigned index, std::uint16_t flags) noexcept {
    auto& node = *reinterpret_cast<leaf_node*>(bytes_of(block) + slots_of(block)[index]);
    node.key_and_flags = narrow<std::uint16_t>((node.key_and_flags & key_size_mask) | flags);
}

void clear_unused(block_header& block) noexcept {
    const bool is_packed = block.kind == page_kind::packed;
    const std::size_t begin = sizeof(block_header) + (is_packed ? block.item_size : slot_size) * block.count;
    const std::size_t end = is_packed ? block.capacity : block.upper;
    std::memset(bytes_of(block) + begin, 0, end - begin);
}

place find_in_leaf(const block_header& block, const order& by, std::string_view key) {
    if (block.kind == page_kind::packed) {
        return find_in_packed(block, by, key);
    }
    switch (by.kind) {
        case order_kind::bytes: return lower_bound(block, key, compare_bytes);
        case order_kind::integer: return lower_bound(block, key, compare_integers);
        default:
            return lower_bound(block, key, [&by](std::string_view a, std::string_view b) { return compare(by, a, b); });
    }
}

unsigned find_in_branch(const block_header& block, const order& by, std::string_view key) {
    switch (by.kind) {
        case order_kind::bytes: return last_not_above(block, key, compare_bytes);
        case order_kind::integer: return last_not_above(block, key, compare_integers);
        default:
            return last_not_above(block, key,
                                  [&by](std::string_view a, std::string_view b) { return compare(by, a, b); });
    }
}

namespace {

// The run of a long key is looked at when the key is read.
bool is_valid_long_key(const block_header& block, std::size_t at, std::size_t least) noexcept {
    if (block.has_long_keys == 0 || at + sizeof(long_key) > block.capacity) {
        return false;
    }
    const long_key key = long_key_from(text_at(block, at, sizeof(long_key)));
    return key.where.size >= least && key.where.size <= max_long_key;
}

bool is_valid_leaf(const block_header& block, std::size_t offset, std::size_t& size) noexcept {
    if (offset + sizeof(leaf_node) > block.capacity) {
        return false;
    }
    leaf_node node;
    std::memcpy(&node, bytes_of(block) + offset, sizeof(node));
    size = leaf_size(key_size(node), node.value_size) - slot_size;
    if (offset + size > block.capacity || size + slot_size > max_node || key_size(node) > max_key) {
        return false;
    }
    if ((node.key_and_flags & key_size_mask) == long_key_in_leaf &&
        !is_valid_long_key(block, offset + sizeof(node), max_key + 1)) {
        return false;
    }
    const unsigned flags = node.key_and_flags & node_flags_mask;
    if ((flags & node_is_long) != 0) {
        return flags == node_is_long && node.value_size == sizeof(long_value);
    }
    if ((flags & node_is_tree) != 0) {
        return node.value_size == sizeof(tree_record);
    }
    if ((flags & node_has_many) == 0) {
        return true;
    }
    if (node.value_size < sizeof(block_header)) {
        return false;
    }
    const std::size_t at = offset + sizeof(leaf_node) + even(key_size(node));
    const auto& inner = *reinterpret_cast<const block_header*>(bytes_of(block) + at);
    if (inner.kind != page_kind::packed && inner.kind != page_kind::leaf) {
        return false;
    }
    if (!is_valid(inner, node.value_size) || inner.count == 0 || inner.has_long_keys != 0) {
        return false;
    }
    for (unsigned i = 0; i < inner.count; ++i) {
        if (flags_at(inner, i) != 0) {
            return false;  // values of a key have none of their own
        }
    }
    return true;
}

// Entry 0 has no long key: its key has no meaning, so nobody would free the run.
bool is_valid_branch(const block_header& block, std::size_t offset, bool is_first, std::size_t& size) noexcept {
    if (offset + sizeof(branch_node) > block.capacity) {
        return false;
    }
    branch_node node;
    std::memcpy(&node, bytes_of(block) + offset, sizeof(node));
    size = branch_size(key_size(node)) - slot_size;
    if (node.key_size == long_key_in_branch) {
        return !is_first && is_valid_long_key(block, offset + sizeof(node), max_short_separator + 1);
    }
    return offset + size <= block.capacity && node.key_size <= max_key;
}

}  // namespace

bool is_valid(const block_header& block, std::size_t capacity) noexcept {
    if (block.capacity != capacity || block.upper > capacity || block.has_long_keys > 1) {
        return false;
    }
    if (block.kind == page_kind::packed) {
        return block.item_size != 0 && block.item_size <= max_key && block.upper == capacity && block.garbage == 0 &&
               block.has_long_keys == 0 &&
               sizeof(block_header) + std::size_t{block.item_size} * block.count <= capacity;
    }
    if (block.kind != page_kind::branch && block.kind != page_kind::leaf) {
        return false;
    }
    if (sizeof(block_header) + slot_size * block.count > block.upper || block.item_size != 0) {
        return false;
    }
    std::size_t sum = 0;
    for (unsigned i = 0; i < block.count; ++i) {
        const std::size_t offset = slots_of(block)[i];
        std::size_t size = 0;
        if (offset < block.upper || (offset & 1U) != 0 ||
            !(block.kind == page_kind::leaf ? is_valid_leaf(block, offset, size)
                                            : is_valid_branch(block, offset, i == 0, size))) {
            return false;
        }
        sum += size;
    }
    return block.upper + sum + block.garbage == capacity;
}

}  // namespace holdfast::store_engine
