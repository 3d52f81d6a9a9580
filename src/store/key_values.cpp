#include "store/key_values.hpp"

#include <array>
#include <cstring>

namespace holdfast::store_engine {
namespace {

// A block of values in the making, aligned at least as a node's value.
class block_buffer {
public:
    [[nodiscard]] block_header& block() noexcept { return *reinterpret_cast<block_header*>(bytes_.data()); }
    [[nodiscard]] std::string_view text() noexcept {
        return {reinterpret_cast<const char*>(bytes_.data()), block().capacity};
    }

private:
    alignas(8) std::array<std::byte, max_node> bytes_;
};

std::size_t item_bytes(const block_header& block, std::string_view value) noexcept {
    return block.kind == page_kind::packed ? block.item_size : leaf_size(value.size(), 0);
}

void insert_item(block_header& block, unsigned index, std::string_view value) noexcept {
    if (block.kind == page_kind::packed) {
        insert_packed(block, index, value);
    } else {
        insert_leaf(block, index, {.text = value}, {}, 0);
    }
}

}  // namespace

// --- where the cursor stands ----------------------------------------------------------------------------------------

void key_values::inspect() noexcept {
    placed = false;
    gone = false;
    const std::uint16_t flags = entry_.flags();
    if ((flags & node_has_many) == 0) {
        kind = values_kind::one;
    } else if ((flags & node_is_tree) == 0) {
        kind = values_kind::few;
    } else {
        kind = values_kind::tree;
        record = record_from(entry_.value());
        tree.leave();
    }
}

status key_values::enter(bool at_last) {
    gone = false;
    if (!is_dupsort()) {
        kind = values_kind::one;
        return status::ok;
    }
    inspect();
    placed = true;
    if (kind == values_kind::few) {
        few_index = at_last ? few().count - 1U : 0U;
    } else if (kind == values_kind::tree) {
        const status outcome = at_last ? tree.last() : tree.first();
        return outcome == status::not_found ? status::corrupted : outcome;
    }
    return status::ok;
}

status key_values::enter_before() {
    HF_STORE_TRY(enter(false));
    gone = has_many();
    return status::ok;
}

status key_values::enter_without_value() {
    HF_STORE_TRY(enter(false));
    placed = kind != values_kind::tree;
    return status::ok;
}

// The value of an entry that has one.
status key_values::read_plain(std::string_view& value) const {
    value = entry_.value();
    if ((entry_.flags() & node_is_long) == 0) {
        return status::ok;
    }
    const long_value where = long_value_from(value);
    const page_header* run = nullptr;
    HF_STORE_TRY(in_->pages().get(where.page, run));
    if (run->block.kind != page_kind::run || run->birth > entry_.birth() ||
        where.size > run->run_pages * page_size - run_header_size) {
        return status::corrupted;
    }
    value = {reinterpret_cast<const char*>(run) + run_header_size, where.size};
    return status::ok;
}

status key_values::read(std::string_view& value) const {
    switch (kind) {
        case values_kind::one: return read_plain(value);
        case values_kind::few:
            if (few_index >= few().count) {
                return status::not_found;
            }
            value = key_at(few(), few_index);
            return status::ok;
        case values_kind::tree: break;
    }
    if (!tree.on_entry()) {
        return status::not_found;
    }
    return tree.key(value);
}

status key_values::next() {
    if (!placed) {
        return enter(false);
    }
    const bool stays = gone;
    status outcome = status::not_found;
    if (kind == values_kind::few) {
        const unsigned next = few_index + (stays ? 0U : 1U);
        if (next < few().count) {
            few_index = next;
            outcome = status::ok;
        }
    } else if (tree.placed()) {
        outcome = stays ? tree.go_to_entry() : tree.next();
    }
    gone = gone && outcome != status::ok;
    return outcome;
}

status key_values::previous() {
    if (!placed) {
        return enter(true);
    }
    status outcome = status::not_found;
    if (kind == values_kind::few) {
        if (few_index != 0) {
            --few_index;
            outcome = status::ok;
        }
    } else if (tree.placed()) {
        outcome = tree.previous();
    }
    gone = false;
    return outcome;
}

// --- changes --------------------------------------------------------------------------------------------------------

status key_values::put(std::string_view key, std::string_view value, unsigned flags, bool exists) {
    if (exists && (flags & MDB_CURRENT) == 0) {
        inspect();
        few_index = 0;
    }
    placed = true;
    if (!exists) {
        if (leaf_size(stored_size(key.size()), value.size()) > max_node) {
            HF_STORE_TRY(plant(key, nullptr, value, false));
        } else {
            HF_STORE_TRY(entry_.insert(key, value.empty() ? std::string_view("") : value, 0, nullptr));
            kind = values_kind::one;
        }
        gone = false;
        ++state_->record.entries;
        return status::ok;
    }
    switch (kind) {
        case values_kind::one: return put_beside_one(key, value, flags);
        case values_kind::few: return put_into_few(key, value, flags);
        case values_kind::tree: break;
    }
    return put_into_tree(value, flags);
}

status key_values::put_beside_one(std::string_view key, std::string_view value, unsigned flags) {
    if ((entry_.flags() & node_is_long) != 0) {
        return status::incompatible;  // it was no MDB_DUPSORT database then
    }
    const std::string_view old = entry_.value();
    const int difference = compare(state_->values, value, old);
    if ((flags & MDB_CURRENT) != 0 || difference == 0) {
        if (difference == 0 && (flags & (MDB_NODUPDATA | MDB_APPENDDUP)) != 0) {
            return status::key_exists;
        }
        return entry_.replace(value.empty() ? std::string_view("") : value, 0, nullptr);
    }
    if (difference < 0 && (flags & MDB_APPENDDUP) != 0) {
        return status::key_exists;
    }
    if (is_dupfixed() && old.size() != value.size()) {
        return status::bad_value_size;
    }
    const std::size_t capacity =
        sizeof(block_header) +
        (is_dupfixed() ? 2 * value.size() : leaf_size(value.size(), 0) + leaf_size(old.size(), 0));
    std::array<char, max_key> copy;  // the node moves
    std::memcpy(copy.data(), old.data(), old.size());
    block_buffer buffer;
    if (capacity > max_node ||
        leaf_size(stored_key_at(entry_.block(), entry_.index()).text.size(), capacity) > max_node) {
        alignas(block_header) std::array<std::byte, sizeof(block_header) + leaf_size(max_key, 0)> one;
        auto& single = *reinterpret_cast<block_header*>(one.data());
        format_block(single, is_dupfixed() ? page_kind::packed : page_kind::leaf, one.size(),
                     is_dupfixed() ? old.size() : 0);
        insert_item(single, 0, {copy.data(), old.size()});
        HF_STORE_TRY(plant(key, &single, value, true));
    } else {
        format_block(buffer.block(), is_dupfixed() ? page_kind::packed : page_kind::leaf, capacity,
                     is_dupfixed() ? value.size() : 0);
        insert_item(buffer.block(), 0, {copy.data(), old.size()});
        few_index = difference < 0 ? 0 : 1;
        insert_item(buffer.block(), few_index, value);
        HF_STORE_TRY(entry_.replace(buffer.text(), node_has_many, nullptr));
        kind = values_kind::few;
    }
    gone = false;
    ++state_->record.entries;
    return status::ok;
}

status key_values::put_into_few(std::string_view key, std::string_view value, unsigned flags) {
    if (few().kind == page_kind::packed && value.size() != few().item_size) {
        return status::bad_value_size;
    }
    if ((flags & MDB_CURRENT) != 0) {
        if (few_index >= few().count) {
            return status::not_found;
        }
        const place goes = find_in_leaf(few(), state_->values, value);
        if (goes.index == few_index || (!goes.exact && goes.index == few_index + 1U)) {
            return replace_in_few(key, value, few_index);
        }
        return move_in_few(key, value, goes);
    }
    const place found = find_in_leaf(few(), state_->values, value);
    if ((flags & MDB_APPENDDUP) != 0 && (found.exact || found.index < few().count)) {
        few_index = few().count - 1U;
        return status::key_exists;
    }
    if (found.exact) {
        if ((flags & MDB_NODUPDATA) != 0) {
            few_index = found.index;
            return status::key_exists;
        }
        return replace_in_few(key, value, found.index);
    }
    HF_STORE_TRY(grow_few(key, value, found.index));
    ++state_->record.entries;
    return status::ok;
}

// The value that it stands on sorts into another place, or is there already.
status key_values::move_in_few(std::string_view key, std::string_view value, const place& goes) {
    HF_STORE_TRY(entry_.own_path());
    auto& block = *reinterpret_cast<block_header*>(mutable_value_at(entry_.writable_block(), entry_.index()));
    remove_at(block, few_index);
    const unsigned index = goes.index > few_index ? goes.index - 1U : goes.index;
    if (goes.exact) {
        few_index = index;
        gone = false;
        --state_->record.entries;
        return status::ok;
    }
    return grow_few(key, value, index);
}

// An order of the caller may take other bytes for equal.
status key_values::replace_in_few(std::string_view key, std::string_view value, unsigned index) {
    few_index = index;
    gone = false;
    const std::string_view old = key_at(few(), index);
    if (old == value) {
        return status::ok;
    }
    HF_STORE_TRY(entry_.own_path());
    auto& block = *reinterpret_cast<block_header*>(mutable_value_at(entry_.writable_block(), entry_.index()));
    remove_at(block, index);
    return grow_few(key, value, index);
}

// Puts the value into the block, a larger one, or a tree of all values.
status key_values::grow_few(std::string_view key, std::string_view value, unsigned index) {
    HF_STORE_TRY(entry_.own_path());
    auto& block = *reinterpret_cast<block_header*>(mutable_value_at(entry_.writable_block(), entry_.index()));
    gone = false;
    few_index = index;
    if (item_bytes(block, value) <= free_bytes(block)) {
        insert_item(block, index, value);
        return status::ok;
    }
    const std::size_t capacity = sizeof(block_header) + used_bytes(block) + item_bytes(block, value);
    if (capacity > max_node ||
        leaf_size(stored_key_at(entry_.block(), entry_.index()).text.size(), capacity) > max_node) {
        block_buffer copy;
        std::memcpy(&copy.block(), &block, block.capacity);
        return plant(key, &copy.block(), value, true);
    }
    block_buffer larger;
    format_block(larger.block(), block.kind, capacity, block.item_size);
    for (unsigned i = 0; i < block.count; ++i) {
        insert_copy(larger.block(), i, block, i);
    }
    insert_item(larger.block(), index, value);
    return entry_.replace(larger.text(), node_has_many, nullptr);
}

// Makes a tree of the values of a block, which may be null, and one more. `exists`: the key has a node.
status key_values::plant(std::string_view key, const block_header* block, std::string_view value, bool exists) {
    record = tree_record{};
    record.flags = state_->record.flags;
    record.item_size = is_dupfixed() ? static_cast<std::uint32_t>(value.size()) : 0;
    tree.attach(in_->pages(), record, state_->values);
    bool exact = false;
    for (unsigned i = 0; block != nullptr && i < block->count; ++i) {
        const std::string_view item = key_at(*block, i);
        if (const status found = tree.seek(item, exact); found != status::ok && found != status::not_found) {
            return found;
        }
        HF_STORE_TRY(exact ? status::corrupted : tree.insert(item, {}, 0, nullptr));
        ++record.entries;
    }
    if (const status found = tree.seek(value, exact); found != status::ok && found != status::not_found) {
        return found;
    }
    HF_STORE_TRY(exact ? status::corrupted : tree.insert(value, {}, 0, nullptr));
    ++record.entries;
    constexpr auto flags = static_cast<std::uint16_t>(node_has_many | node_is_tree);
    HF_STORE_TRY(exists ? entry_.replace(as_text(record), flags, nullptr)
                        : entry_.insert(key, as_text(record), flags, nullptr));
    kind = values_kind::tree;
    gone = false;
    return status::ok;
}

status key_values::put_into_tree(std::string_view value, unsigned flags) {
    if (record.item_size != 0 && value.size() != record.item_size) {
        return status::bad_value_size;
    }
    bool exact = false;
    std::string_view old;
    if ((flags & MDB_CURRENT) != 0) {
        HF_STORE_TRY(tree.placed() ? tree.go_to_entry() : status::not_found);
        HF_STORE_TRY(tree.key(old));
        if (old == value) {
            return status::ok;
        }
        HF_STORE_TRY(tree.remove());
        --record.entries;
        --state_->record.entries;
        flags = 0;
    } else if ((flags & MDB_APPENDDUP) != 0) {
        HF_STORE_TRY(tree.last());
        HF_STORE_TRY(tree.key(old));
        if (compare(state_->values, value, old) <= 0) {
            return status::key_exists;
        }
    }
    if (const status found = tree.seek(value, exact); found != status::ok && found != status::not_found) {
        return found;
    }
    gone = false;
    if (exact) {
        if ((flags & MDB_NODUPDATA) != 0) {
            return status::key_exists;
        }
        HF_STORE_TRY(tree.key(old));
        if (old == value) {
            return record.entries == record_from(entry_.value()).entries ? status::ok : save_record();
        }
        HF_STORE_TRY(tree.remove());  // an order of the caller takes other bytes for equal
        --record.entries;
        --state_->record.entries;
        if (const status found = tree.seek(value, exact); found != status::ok && found != status::not_found) {
            return found;
        }
    }
    HF_STORE_TRY(tree.insert(value, {}, 0, nullptr));
    ++record.entries;
    ++state_->record.entries;
    return save_record();
}

status key_values::save_record() {
    constexpr auto flags = static_cast<std::uint16_t>(node_has_many | node_is_tree);
    return entry_.replace(as_text(record), flags, nullptr);
}

// Stands on the next value then. `left`: the key has others.
status key_values::remove(bool& left) {
    if (kind == values_kind::few) {
        left = few().count > 1;
        if (!left) {
            return status::ok;
        }
        HF_STORE_TRY(entry_.own_path());
        auto& block = *reinterpret_cast<block_header*>(mutable_value_at(entry_.writable_block(), entry_.index()));
        remove_at(block, few_index);
    } else {
        left = record.entries > 1;
        if (!left) {
            return status::ok;
        }
        HF_STORE_TRY(tree.remove());
        --record.entries;
        HF_STORE_TRY(save_record());
    }
    --state_->record.entries;
    gone = true;
    return status::ok;
}

}  // namespace holdfast::store_engine
