#include "store/cursor.hpp"

namespace holdfast::store_engine {

// --- moves ----------------------------------------------------------------------------------------------------------

// Most steps of a scan: from an entry with one value to another in its leaf.
bool cursor::step_to_plain(bool right, MDB_val* key, MDB_val* data) noexcept {
    constexpr unsigned entries_ahead = 6;
    if (gone_ || kind_ != values_kind::one) {
        return false;
    }
    const block_header& block = tree_.block();
    const unsigned to = tree_.index() + (right ? 1U : ~0U);  // none is before the first: above any count
    std::string_view found_key;
    std::string_view found_value;
    if (!plain_entry_at(block, to, found_key, found_value)) {
        return false;
    }
    fetch_node(block, right ? to + entries_ahead : to - entries_ahead);
    tree_.set_index(to);
    value_gone_ = false;
    if (key != nullptr) {
        *key = to_value(found_key);
    }
    if (data != nullptr) {
        *data = to_value(found_value);
    }
    return true;
}

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
    if (operation != MDB_NEXT_DUP && step_to_plain(true, key, data)) [[likely]] {
        return status::ok;
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
    if (operation != MDB_PREV_DUP && step_to_plain(false, key, data)) [[likely]] {
        return status::ok;
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
    gone_ = false;  // it has shown where it stands
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
        gone_ = operation != MDB_SET_RANGE;  // it stands before the next entry
        if (gone_) {
            HF_STORE_TRY(tree_.on_entry() ? enter_values(false) : status::ok);  // which has values of its own
            return status::not_found;
        }
        HF_STORE_TRY(tree_.settle());
    }
    if (operation == MDB_GET_BOTH || operation == MDB_GET_BOTH_RANGE) {
        return set_value(*data, operation == MDB_GET_BOTH_RANGE);
    }
    HF_STORE_TRY(enter_values(false));
    return give(operation == MDB_SET ? nullptr : key, data);
}

// Of the key that it stands on: this value, or the first that is not below it.
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

// All values of the position's leaf or block; then stands on the last.
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

}  // namespace holdfast::store_engine
