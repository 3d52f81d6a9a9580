// Cursors that move.
#include "store/cursor.hpp"

namespace holdfast::store {

status cursor::bind() {
    HF_STORE_TRY(transaction_->database(number_, state_));
    tree_.attach(transaction_->pages(), state_->record, state_->keys);
    values_.attach(transaction_->pages(), values_record_, state_->values);
    return status::ok;
}

status cursor::renew(transaction& in) {
    transaction_ = &in;
    unplace();
    return bind();
}

void cursor::unplace() noexcept {
    tree_.leave();
    gone_ = false;
    kept_ = false;
    kind_ = values_kind::one;
    value_gone_ = false;
}

// --- positions over changes by others -------------------------------------------------------------------------------

void cursor::keep_position() {
    if (kept_ || !tree_.placed()) {
        return;
    }
    kept_ = true;
    kept_value_.clear();
    gone_ = gone_ || !tree_.on_entry();
    kept_behind_ = tree_.settle() != status::ok;
    if (!kept_behind_) {
        kept_key_ = tree_.key();
    }
    if (!kept_behind_ && !gone_) {
        std::string_view value;
        if (kind_ == values_kind::tree && values_.placed()) {
            static_cast<void>(values_.settle());
        }
        kept_value_behind_ = is_dupsort() && value_here(value) != status::ok;
        if (is_dupsort() && !kept_value_behind_) {
            kept_value_ = value;
        }
    }
    tree_.leave();
}

status cursor::restore() {
    if (!kept_) {
        return status::ok;
    }
    kept_ = false;
    kind_ = values_kind::one;
    bool exact = false;
    if (kept_behind_) {
        const status outcome = tree_.last();
        if (outcome == status::ok) {
            tree_.set_index(tree_.block().count);
        }
        return outcome == status::not_found ? status::ok : outcome;
    }
    const status outcome = tree_.seek(kept_key_, exact);
    if (outcome != status::ok) {
        tree_.leave();
        return outcome == status::not_found ? status::ok : outcome;
    }
    if (!exact) {
        gone_ = true;
        value_gone_ = false;
        const status behind = tree_.settle();
        return behind == status::ok ? enter_values(false) : behind == status::not_found ? status::ok : behind;
    }
    return is_dupsort() ? restore_value() : status::ok;
}

// To the kept value, or before the one behind it.
status cursor::restore_value() {
    if (gone_) {
        return enter_values(false);
    }
    attach_values();
    bool exact = false;
    if (kept_value_behind_) {
        HF_STORE_TRY(enter_values(true));
        value_gone_ = kind_ != values_kind::one;
        few_index_ = kind_ == values_kind::few ? few().count : 0;
        if (kind_ == values_kind::tree) {
            values_.set_index(values_.block().count);
        }
        return status::ok;
    }
    if (kind_ == values_kind::one) {
        const int difference = compare(state_->values, tree_.value(), kept_value_);
        gone_ = difference > 0;
        return status::ok;
    }
    if (kind_ == values_kind::few) {
        const place found = find_in_leaf(few(), state_->values, kept_value_);
        few_index_ = found.index;
        exact = found.exact;
    } else {
        HF_STORE_TRY(values_.seek(kept_value_, exact));
    }
    value_gone_ = value_gone_ || !exact;
    return status::ok;
}

// --- values ---------------------------------------------------------------------------------------------------------

// Looks at what the key has; the position among the values is not set.
void cursor::attach_values() noexcept {
    const std::uint16_t flags = tree_.flags();
    if ((flags & node_has_many) == 0) {
        kind_ = values_kind::one;
    } else if ((flags & node_is_tree) == 0) {
        kind_ = values_kind::few;
    } else {
        kind_ = values_kind::tree;
        values_record_ = record_from(tree_.value());
        values_.leave();
    }
}

status cursor::enter_values(bool at_last) {
    value_gone_ = false;
    if (!is_dupsort()) {
        kind_ = values_kind::one;
        return status::ok;
    }
    attach_values();
    if (kind_ == values_kind::few) {
        few_index_ = at_last ? few().count - 1U : 0U;
    } else if (kind_ == values_kind::tree) {
        const status outcome = at_last ? values_.last() : values_.first();
        return outcome == status::not_found ? status::corrupted : outcome;
    }
    return status::ok;
}

// The value of an entry that has one.
status cursor::read_plain(std::string_view& value) const {
    value = tree_.value();
    if ((tree_.flags() & node_is_long) == 0) {
        return status::ok;
    }
    const long_value where = long_value_from(value);
    const page_header* run = nullptr;
    HF_STORE_TRY(transaction_->pages().get(where.page, run));
    if (run->block.kind != page_kind::run || where.size > run->run_pages * page_size - run_header_size) {
        return status::corrupted;
    }
    value = {reinterpret_cast<const char*>(run) + run_header_size, where.size};
    return status::ok;
}

status cursor::value_here(std::string_view& value) const {
    switch (kind_) {
        case values_kind::one: return read_plain(value);
        case values_kind::few:
            if (few_index_ >= few().count) {
                return status::not_found;
            }
            value = key_at(few(), few_index_);
            return status::ok;
        case values_kind::tree: break;
    }
    if (!values_.on_entry()) {
        return status::not_found;
    }
    value = values_.key();
    return status::ok;
}

status cursor::give(MDB_val* key, MDB_val* data) const {
    if (key != nullptr) {
        *key = to_value(tree_.key());
    }
    if (data != nullptr) {
        std::string_view value;
        HF_STORE_TRY(value_here(value));
        *data = to_value(value);
    }
    return status::ok;
}

status cursor::next_value() {
    if (kind_ == values_kind::few) {
        const unsigned next = few_index_ + (value_gone_ ? 0U : 1U);
        if (next >= few().count) {
            return status::not_found;
        }
        few_index_ = next;
    } else {
        HF_STORE_TRY(!values_.placed() ? status::not_found : value_gone_ ? values_.settle() : values_.next());
    }
    value_gone_ = false;
    return status::ok;
}

status cursor::previous_value() {
    if (kind_ == values_kind::few) {
        if (few_index_ == 0) {
            return status::not_found;
        }
        --few_index_;
    } else {
        HF_STORE_TRY(values_.placed() ? values_.previous() : status::not_found);
    }
    value_gone_ = false;
    return status::ok;
}

// --- moves ----------------------------------------------------------------------------------------------------------

status cursor::first(MDB_val* key, MDB_val* data) {
    gone_ = false;
    HF_STORE_TRY(tree_.first());
    HF_STORE_TRY(enter_values(false));
    return give(key, data);
}

status cursor::last(MDB_val* key, MDB_val* data) {
    gone_ = false;
    HF_STORE_TRY(tree_.last());
    HF_STORE_TRY(enter_values(true));
    return give(key, data);
}

status cursor::next(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    if (!tree_.placed()) {
        return first(key, data);
    }
    const bool by_value = !gone_ && kind_ != values_kind::one && tree_.on_entry() && operation != MDB_NEXT_NODUP;
    if (by_value) {
        const status outcome = next_value();
        if (outcome == status::ok) {
            return give(key, data);
        }
        if (outcome != status::not_found) {
            return outcome;
        }
    }
    if (operation == MDB_NEXT_DUP) {
        return status::not_found;
    }
    HF_STORE_TRY(gone_ || !tree_.on_entry() ? tree_.settle() : tree_.next());
    gone_ = false;
    HF_STORE_TRY(enter_values(false));
    return give(key, data);
}

status cursor::previous(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    if (!tree_.placed()) {
        return last(key, data);
    }
    const bool by_value = !gone_ && kind_ != values_kind::one && tree_.on_entry() && operation != MDB_PREV_NODUP;
    if (by_value) {
        const status outcome = previous_value();
        if (outcome == status::ok) {
            return give(key, data);
        }
        if (outcome != status::not_found) {
            return outcome;
        }
    }
    if (operation == MDB_PREV_DUP) {
        return status::not_found;
    }
    HF_STORE_TRY(tree_.previous());
    gone_ = false;
    HF_STORE_TRY(enter_values(true));
    return give(key, data);
}

status cursor::edge_value(MDB_val* key, MDB_val* data, bool at_last) {
    if (data == nullptr || !tree_.placed()) {
        return status::invalid_argument;
    }
    if (!is_dupsort()) {
        return status::incompatible;
    }
    if (!tree_.on_entry()) {
        return status::not_found;
    }
    HF_STORE_TRY(enter_values(at_last));
    return give(key, data);
}

status cursor::current(MDB_val* key, MDB_val* data) {
    if (!tree_.placed()) {
        return status::invalid_argument;
    }
    if (!tree_.on_entry()) {
        HF_STORE_TRY(tree_.settle());
        HF_STORE_TRY(enter_values(false));
    }
    if (value_gone_ && kind_ == values_kind::tree) {
        HF_STORE_TRY(values_.settle());
    }
    HF_STORE_TRY(give(key, data));
    gone_ = false;  // it stands on what it has shown
    value_gone_ = false;
    return status::ok;
}

// --- looking for a key ----------------------------------------------------------------------------------------------

status cursor::set(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    if (key == nullptr) {
        return status::invalid_argument;
    }
    if (key->mv_size == 0) {
        return status::bad_value_size;
    }
    const std::string_view wanted(static_cast<const char*>(key->mv_data), key->mv_size);
    gone_ = false;
    bool exact = false;
    HF_STORE_TRY(tree_.seek(wanted, exact));
    if (!exact) {
        kind_ = values_kind::one;
        gone_ = operation != MDB_SET_RANGE;  // it stands before the entry behind the key
        HF_STORE_TRY(gone_ ? status::not_found : tree_.settle());
    }
    if (operation == MDB_GET_BOTH || operation == MDB_GET_BOTH_RANGE) {
        return set_value(*data, operation == MDB_GET_BOTH_RANGE);
    }
    HF_STORE_TRY(enter_values(false));
    return give(operation == MDB_SET ? nullptr : key, data);
}

// To a value of the key that it stands on, or the first that is not below it.
status cursor::set_value(MDB_val& data, bool range) {
    const std::string_view wanted(static_cast<const char*>(data.mv_data), data.mv_size);
    value_gone_ = false;
    attach_values();
    bool exact = false;
    if (kind_ == values_kind::one) {
        const int difference = compare(state_->values, tree_.value(), wanted);
        if (difference < 0 || (difference > 0 && !range)) {
            return status::not_found;
        }
        return give(nullptr, &data);
    }
    if (kind_ == values_kind::few) {
        const place found = find_in_leaf(few(), state_->values, wanted);
        few_index_ = found.index;
        exact = found.exact;
        value_gone_ = !exact && (!range || found.index >= few().count);
        if (value_gone_) {
            return status::not_found;
        }
    } else {
        HF_STORE_TRY(values_.seek(wanted, exact));
        value_gone_ = !exact && (!range || values_.settle() != status::ok);
        HF_STORE_TRY(value_gone_ ? status::not_found : status::ok);
    }
    return give(nullptr, &data);
}

status cursor::find(std::string_view key, const std::string_view* value) {
    MDB_val wanted = to_value(key);
    if (value == nullptr) {
        return set(&wanted, nullptr, MDB_SET);
    }
    MDB_val data = to_value(*value);
    return set(&wanted, &data, MDB_GET_BOTH);
}

// --- many values of one size ----------------------------------------------------------------------------------------

// All values of the leaf, or of the block, that the position is in; the position is the last of them then.
status cursor::give_multiple(MDB_val* data) {
    if (kind_ == values_kind::one) {
        return give(nullptr, data);
    }
    const block_header& items = kind_ == values_kind::few ? few() : values_.block();
    if (items.kind != page_kind::packed || items.count == 0) {
        return status::corrupted;
    }
    *data = to_value(text_at(items, sizeof(block_header), std::size_t{items.count} * items.item_size));
    if (kind_ == values_kind::few) {
        few_index_ = items.count - 1U;
    } else {
        values_.set_index(items.count - 1U);
    }
    value_gone_ = false;
    return status::ok;
}

status cursor::multiple(MDB_val* data, MDB_cursor_op operation) {
    if (data == nullptr || (operation == MDB_GET_MULTIPLE && !tree_.placed())) {
        return status::invalid_argument;
    }
    if (!is_dupfixed()) {
        return status::incompatible;
    }
    if (operation == MDB_NEXT_MULTIPLE) {
        HF_STORE_TRY(next(nullptr, data, MDB_NEXT_DUP));
    } else if (operation == MDB_PREV_MULTIPLE) {
        if (!tree_.placed()) {
            HF_STORE_TRY(last(nullptr, data));
        } else {
            HF_STORE_TRY(kind_ == values_kind::tree && values_.placed() ? values_.previous_leaf() : status::not_found);
        }
    } else if (!tree_.on_entry()) {
        return status::not_found;
    }
    return give_multiple(data);
}

status cursor::get(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    HF_STORE_TRY(transaction_->check_usable());
    HF_STORE_TRY(restore());
    switch (operation) {
        case MDB_FIRST: return first(key, data);
        case MDB_LAST: return last(key, data);
        case MDB_NEXT:
        case MDB_NEXT_DUP:
        case MDB_NEXT_NODUP: return next(key, data, operation);
        case MDB_PREV:
        case MDB_PREV_DUP:
        case MDB_PREV_NODUP: return previous(key, data, operation);
        case MDB_FIRST_DUP: return edge_value(key, data, false);
        case MDB_LAST_DUP: return edge_value(key, data, true);
        case MDB_GET_CURRENT: return current(key, data);
        case MDB_GET_MULTIPLE:
        case MDB_NEXT_MULTIPLE:
        case MDB_PREV_MULTIPLE: return multiple(data, operation);
        case MDB_GET_BOTH:
        case MDB_GET_BOTH_RANGE:
            if (data == nullptr) {
                return status::invalid_argument;
            }
            return is_dupsort() ? set(key, data, operation) : status::incompatible;
        case MDB_SET:
        case MDB_SET_KEY:
        case MDB_SET_RANGE: return set(key, data, operation);
    }
    return status::invalid_argument;
}

status cursor::count(std::size_t& values) {
    HF_STORE_TRY(transaction_->check_usable());
    HF_STORE_TRY(restore());
    if (!is_dupsort()) {
        return status::incompatible;
    }
    if (!tree_.placed()) {
        return status::invalid_argument;
    }
    if (!tree_.on_entry()) {
        return status::not_found;
    }
    switch (kind_) {
        case values_kind::one: values = 1; break;
        case values_kind::few: values = few().count; break;
        case values_kind::tree: values = values_record_.entries; break;
    }
    return status::ok;
}

}  // namespace holdfast::store
