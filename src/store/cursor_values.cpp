// The many values of a key, in MDB_DUPSORT: one lies in the key's node, a few in a block there, more in a tree.
#include <array>
#include <cstring>

#include "store/cursor.hpp"

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

status cursor::put_value(std::string_view key, std::string_view value, unsigned flags, bool exists) {
    if (exists && (flags & MDB_CURRENT) == 0) {
        attach_values();
        few_index_ = 0;
    }
    value_placed_ = true;
    if (!exists) {
        if (leaf_size(stored_size(key.size()), value.size()) > max_node) {
            HF_STORE_TRY(plant_values(key, nullptr, value, false));
        } else {
            HF_STORE_TRY(tree_.insert(key, value.empty() ? std::string_view("") : value, 0, nullptr));
            kind_ = values_kind::one;
        }
        value_gone_ = false;
        ++state_->record.entries;
        return status::ok;
    }
    switch (kind_) {
        case values_kind::one: return put_beside_one(key, value, flags);
        case values_kind::few: return put_into_few(key, value, flags);
        case values_kind::tree: break;
    }
    return put_into_tree(value, flags);
}

status cursor::put_beside_one(std::string_view key, std::string_view value, unsigned flags) {
    if ((tree_.flags() & node_is_long) != 0) {
        return status::incompatible;  // it was no MDB_DUPSORT database then
    }
    const std::string_view old = tree_.value();
    const int difference = compare(state_->values, value, old);
    if ((flags & MDB_CURRENT) != 0 || difference == 0) {
        if (difference == 0 && (flags & (MDB_NODUPDATA | MDB_APPENDDUP)) != 0) {
            return status::key_exists;
        }
        return tree_.replace(value.empty() ? std::string_view("") : value, 0, nullptr);
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
        leaf_size(stored_key_at(tree_.block(), tree_.index()).text.size(), capacity) > max_node) {
        alignas(block_header) std::array<std::byte, sizeof(block_header) + leaf_size(max_key, 0)> one;
        auto& single = *reinterpret_cast<block_header*>(one.data());
        format_block(single, is_dupfixed() ? page_kind::packed : page_kind::leaf, one.size(),
                     is_dupfixed() ? old.size() : 0);
        insert_item(single, 0, {copy.data(), old.size()});
        HF_STORE_TRY(plant_values(key, &single, value, true));
    } else {
        format_block(buffer.block(), is_dupfixed() ? page_kind::packed : page_kind::leaf, capacity,
                     is_dupfixed() ? value.size() : 0);
        insert_item(buffer.block(), 0, {copy.data(), old.size()});
        few_index_ = difference < 0 ? 0 : 1;
        insert_item(buffer.block(), few_index_, value);
        HF_STORE_TRY(tree_.replace(buffer.text(), node_has_many, nullptr));
        kind_ = values_kind::few;
    }
    value_gone_ = false;
    ++state_->record.entries;
    return status::ok;
}

status cursor::put_into_few(std::string_view key, std::string_view value, unsigned flags) {
    if (few().kind == page_kind::packed && value.size() != few().item_size) {
        return status::bad_value_size;
    }
    if ((flags & MDB_CURRENT) != 0) {
        if (few_index_ >= few().count) {
            return status::not_found;
        }
        const place goes = find_in_leaf(few(), state_->values, value);
        if (goes.index == few_index_ || (!goes.exact && goes.index == few_index_ + 1U)) {
            return replace_in_few(key, value, few_index_);
        }
        return move_in_few(key, value, goes);
    }
    const place found = find_in_leaf(few(), state_->values, value);
    if ((flags & MDB_APPENDDUP) != 0 && (found.exact || found.index < few().count)) {
        few_index_ = few().count - 1U;
        return status::key_exists;
    }
    if (found.exact) {
        if ((flags & MDB_NODUPDATA) != 0) {
            few_index_ = found.index;
            return status::key_exists;
        }
        return replace_in_few(key, value, found.index);
    }
    HF_STORE_TRY(grow_few(key, value, found.index));
    ++state_->record.entries;
    return status::ok;
}

// The value that it stands on sorts into another place, or is there already.
status cursor::move_in_few(std::string_view key, std::string_view value, const place& goes) {
    HF_STORE_TRY(tree_.own_path());
    auto& block = *reinterpret_cast<block_header*>(mutable_value_at(tree_.writable_block(), tree_.index()));
    remove_at(block, few_index_);
    const unsigned index = goes.index > few_index_ ? goes.index - 1U : goes.index;
    if (goes.exact) {
        few_index_ = index;
        value_gone_ = false;
        --state_->record.entries;
        return status::ok;
    }
    return grow_few(key, value, index);
}

// An order of the caller may take other bytes for equal.
status cursor::replace_in_few(std::string_view key, std::string_view value, unsigned index) {
    few_index_ = index;
    value_gone_ = false;
    const std::string_view old = key_at(few(), index);
    if (old == value) {
        return status::ok;
    }
    HF_STORE_TRY(tree_.own_path());
    auto& block = *reinterpret_cast<block_header*>(mutable_value_at(tree_.writable_block(), tree_.index()));
    remove_at(block, index);
    return grow_few(key, value, index);
}

// Puts the value into the block, a larger one, or a tree of all values.
status cursor::grow_few(std::string_view key, std::string_view value, unsigned index) {
    HF_STORE_TRY(tree_.own_path());
    auto& block = *reinterpret_cast<block_header*>(mutable_value_at(tree_.writable_block(), tree_.index()));
    value_gone_ = false;
    few_index_ = index;
    if (item_bytes(block, value) <= free_bytes(block)) {
        insert_item(block, index, value);
        return status::ok;
    }
    const std::size_t capacity = sizeof(block_header) + used_bytes(block) + item_bytes(block, value);
    if (capacity > max_node ||
        leaf_size(stored_key_at(tree_.block(), tree_.index()).text.size(), capacity) > max_node) {
        block_buffer copy;
        std::memcpy(&copy.block(), &block, block.capacity);
        return plant_values(key, &copy.block(), value, true);
    }
    block_buffer larger;
    format_block(larger.block(), block.kind, capacity, block.item_size);
    for (unsigned i = 0; i < block.count; ++i) {
        insert_copy(larger.block(), i, block, i);
    }
    insert_item(larger.block(), index, value);
    return tree_.replace(larger.text(), node_has_many, nullptr);
}

// Makes a tree of the values of a block, which may be null, and one more. `exists`: the key has a node.
status cursor::plant_values(std::string_view key, const block_header* block, std::string_view value, bool exists) {
    values_record_ = tree_record{};
    values_record_.flags = state_->record.flags;
    values_record_.item_size = is_dupfixed() ? static_cast<std::uint32_t>(value.size()) : 0;
    values_.attach(transaction_->pages(), values_record_, state_->values);
    bool exact = false;
    for (unsigned i = 0; block != nullptr && i < block->count; ++i) {
        const std::string_view item = key_at(*block, i);
        if (const status found = values_.seek(item, exact); found != status::ok && found != status::not_found) {
            return found;
        }
        HF_STORE_TRY(exact ? status::corrupted : values_.insert(item, {}, 0, nullptr));
        ++values_record_.entries;
    }
    if (const status found = values_.seek(value, exact); found != status::ok && found != status::not_found) {
        return found;
    }
    HF_STORE_TRY(exact ? status::corrupted : values_.insert(value, {}, 0, nullptr));
    ++values_record_.entries;
    constexpr auto flags = static_cast<std::uint16_t>(node_has_many | node_is_tree);
    HF_STORE_TRY(exists ? tree_.replace(as_text(values_record_), flags, nullptr)
                        : tree_.insert(key, as_text(values_record_), flags, nullptr));
    kind_ = values_kind::tree;
    value_gone_ = false;
    return status::ok;
}

status cursor::put_into_tree(std::string_view value, unsigned flags) {
    if (values_record_.item_size != 0 && value.size() != values_record_.item_size) {
        return status::bad_value_size;
    }
    bool exact = false;
    std::string_view old;
    if ((flags & MDB_CURRENT) != 0) {
        HF_STORE_TRY(values_.placed() ? values_.settle() : status::not_found);
        HF_STORE_TRY(values_.key(old));
        if (old == value) {
            return status::ok;
        }
        HF_STORE_TRY(values_.remove());
        --values_record_.entries;
        --state_->record.entries;
        flags = 0;
    } else if ((flags & MDB_APPENDDUP) != 0) {
        HF_STORE_TRY(values_.last());
        HF_STORE_TRY(values_.key(old));
        if (compare(state_->values, value, old) <= 0) {
            return status::key_exists;
        }
    }
    if (const status found = values_.seek(value, exact); found != status::ok && found != status::not_found) {
        return found;
    }
    value_gone_ = false;
    if (exact) {
        if ((flags & MDB_NODUPDATA) != 0) {
            return status::key_exists;
        }
        HF_STORE_TRY(values_.key(old));
        if (old == value) {
            return values_record_.entries == record_from(tree_.value()).entries ? status::ok : save_values_record();
        }
        HF_STORE_TRY(values_.remove());  // an order of the caller takes other bytes for equal
        --values_record_.entries;
        --state_->record.entries;
        if (const status found = values_.seek(value, exact); found != status::ok && found != status::not_found) {
            return found;
        }
    }
    HF_STORE_TRY(values_.insert(value, {}, 0, nullptr));
    ++values_record_.entries;
    ++state_->record.entries;
    return save_values_record();
}

status cursor::save_values_record() {
    constexpr auto flags = static_cast<std::uint16_t>(node_has_many | node_is_tree);
    return tree_.replace(as_text(values_record_), flags, nullptr);
}

// Stands on the next value then. `left`: the key has others.
status cursor::remove_value(bool& left) {
    if (kind_ == values_kind::few) {
        left = few().count > 1;
        if (!left) {
            return status::ok;
        }
        HF_STORE_TRY(tree_.own_path());
        auto& block = *reinterpret_cast<block_header*>(mutable_value_at(tree_.writable_block(), tree_.index()));
        remove_at(block, few_index_);
    } else {
        left = values_record_.entries > 1;
        if (!left) {
            return status::ok;
        }
        HF_STORE_TRY(values_.remove());
        --values_record_.entries;
        HF_STORE_TRY(save_values_record());
    }
    --state_->record.entries;
    value_gone_ = true;
    return status::ok;
}

}  // namespace holdfast::store_engine
