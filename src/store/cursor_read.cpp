#include "store/cursor.hpp"

namespace holdfast::store_engine {

// --- moves ----------------------------------------------------------------------------------------------------------

// Most steps of a scan: from an entry with one value to another in its leaf.
bool cursor::step_to_plain(bool right, MDB_val* key, MDB_val* data) noexcept {
    constexpr unsigned entries_ahead = 6;
    if (gone_ || values_.kind != values_kind::one) {
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
    at_end_ = false;
    values_.gone = false;
    values_.placed = true;
    if (key != nullptr) {
        *key = to_value(found_key);
    }
    if (data != nullptr) {
        *data = to_value(found_value);
    }
    return true;
}

status cursor::first(MDB_val* key, MDB_val* data) {
    HF_STORE_TRY(tree_.first());
    at_end_ = false;
    HF_STORE_TRY(values_.enter(false));
    return give(key, data);
}

status cursor::last(MDB_val* key, MDB_val* data) {
    HF_STORE_TRY(tree_.last());
    at_end_ = false;
    HF_STORE_TRY(values_.enter(true));
    return give(key, data);
}

bool cursor::is_behind_all() const noexcept {
    return tree_.index() + 1U >= tree_.block().count && tree_.in_last_leaf();
}

status cursor::next(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    if (gone_ && operation == MDB_NEXT_DUP) {
        return status::not_found;
    }
    if (!tree_.placed()) {
        return first(key, data);
    }
    const bool among_values = operation == MDB_NEXT_DUP && values_.is_dupsort();
    if (!among_values && step_to_plain(true, key, data)) [[likely]] {
        return status::ok;
    }
    if (at_end_) {
        if (is_behind_all()) {
            return status::not_found;
        }
        at_end_ = false;
    }
    if (values_.has_many() && operation != MDB_NEXT_NODUP) {
        const status outcome = values_.next();
        if (operation != MDB_NEXT || outcome != status::not_found) {
            return outcome == status::ok ? give(key, data) : outcome;
        }
    } else if (among_values) {
        return status::not_found;
    }
    const status outcome = gone_ || !tree_.on_entry() ? tree_.go_to_entry() : tree_.next();
    at_end_ = outcome == status::not_found;
    HF_STORE_TRY(outcome);
    HF_STORE_TRY(data != nullptr ? values_.enter(false) : values_.enter_without_value());
    return give(key, data);
}

status cursor::previous(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    const bool among_values = operation == MDB_PREV_DUP && values_.is_dupsort();
    if (!tree_.placed()) {
        HF_STORE_TRY(last(key, data));
        if (!among_values) {
            return status::ok;
        }
        tree_.set_index(tree_.block().count);
        values_.kind = values_kind::one;
        return status::not_found;
    }
    if (!among_values && step_to_plain(false, key, data)) [[likely]] {
        return status::ok;
    }
    if (values_.has_many() && operation != MDB_PREV_NODUP) {
        const status outcome = values_.previous();
        if (operation != MDB_PREV || outcome != status::not_found) {
            at_end_ = at_end_ && outcome != status::ok;
            return outcome == status::ok ? give(key, data) : outcome;
        }
    } else if (among_values) {
        return status::not_found;
    }
    at_end_ = false;
    HF_STORE_TRY(tree_.previous());
    HF_STORE_TRY(data != nullptr ? values_.enter(true) : values_.enter_without_value());
    return give(key, data);
}

// The key of several values is not given.
status cursor::edge_value(MDB_val* key, MDB_val* data, bool at_last) {
    if (data == nullptr || !tree_.placed()) {
        return status::invalid_argument;
    }
    if (!values_.is_dupsort()) {
        return status::incompatible;
    }
    HF_STORE_TRY(go_to_entry());
    if (!values_.has_many()) {
        return give(key, data);
    }
    if (!values_.placed) {
        return status::invalid_argument;
    }
    at_end_ = false;
    HF_STORE_TRY(values_.enter(at_last));
    return give(nullptr, data);
}

status cursor::current(MDB_val* key, MDB_val* data) {
    if (!tree_.placed()) {
        return status::invalid_argument;
    }
    HF_STORE_TRY(go_to_entry());
    HF_STORE_TRY(give(key, nullptr));
    if (data == nullptr) {
        return status::ok;
    }
    if (values_.lacks_value()) {
        return status::invalid_argument;
    }
    if (values_.gone && values_.kind == values_kind::tree) {
        HF_STORE_TRY(values_.tree.go_to_entry());
    }
    values_.gone = false;  // it has shown where it stands
    return give(nullptr, data);
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
    at_end_ = false;
    bool exact = false;
    HF_STORE_TRY(tree_.seek(wanted, exact));
    if (!exact) {
        values_.kind = values_kind::one;
        const status behind = tree_.go_to_entry();
        if (operation != MDB_SET_RANGE || behind != status::ok) {
            if (behind == status::ok && values_.is_dupsort()) {
                values_.inspect();
            }
            return behind == status::ok ? status::not_found : behind;
        }
    }
    if (operation == MDB_GET_BOTH || operation == MDB_GET_BOTH_RANGE) {
        return set_value(*data, operation == MDB_GET_BOTH_RANGE);
    }
    HF_STORE_TRY(data != nullptr ? values_.enter(false) : values_.enter_without_value());
    return give(operation == MDB_SET ? nullptr : key, data);
}

// Of the key that it stands on: this value, or the first that is not below it.
status cursor::set_value(MDB_val& data, bool range) {
    const std::string_view wanted(static_cast<const char*>(data.mv_data), data.mv_size);
    values_.inspect();
    values_.placed = true;
    if (values_.kind == values_kind::one) {
        const int difference = compare(state_->values, tree_.value(), wanted);
        values_.placed = difference == 0 || (difference > 0 && range);
        return values_.placed ? give(nullptr, &data) : status::not_found;
    }
    bool exact = false;
    if (values_.kind == values_kind::few) {
        const place found = find_in_leaf(values_.few(), state_->values, wanted);
        values_.few_index = found.index;
        exact = found.exact;
    } else {
        HF_STORE_TRY(values_.tree.seek(wanted, exact));
        const status behind = values_.tree.go_to_entry();
        HF_STORE_TRY(behind == status::not_found ? status::ok : behind);
    }
    HF_STORE_TRY(exact || range ? status::ok : status::not_found);
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
    if (!values_.has_many()) {
        return give(nullptr, data);
    }
    const block_header& items = values_.kind == values_kind::few ? values_.few() : values_.tree.block();
    if (items.kind != page_kind::packed || items.count == 0) {
        return status::corrupted;
    }
    *data = to_value(text_at(items, sizeof(block_header), std::size_t{items.count} * items.item_size));
    if (values_.kind == values_kind::few) {
        values_.few_index = items.count - 1U;
    } else {
        values_.tree.set_index(items.count - 1U);
    }
    values_.gone = false;
    return status::ok;
}

status cursor::multiple(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    if (data == nullptr || (operation == MDB_GET_MULTIPLE && !tree_.placed())) {
        return status::invalid_argument;
    }
    if (!values_.is_dupfixed()) {
        return status::incompatible;
    }
    if (operation == MDB_NEXT_MULTIPLE) {
        HF_STORE_TRY(next(key, data, MDB_NEXT_DUP));
    } else if (operation == MDB_PREV_MULTIPLE) {
        if (!tree_.placed()) {
            HF_STORE_TRY(last(key, data));
        }
        const bool among_many = values_.kind == values_kind::tree && values_.placed && values_.tree.placed();
        HF_STORE_TRY(among_many ? values_.tree.previous_leaf() : status::not_found);
    } else {
        const status outcome = go_to_entry();
        if (outcome != status::ok || !values_.placed) {
            return outcome == status::not_found ? status::ok : outcome;  // gives nothing, as liblmdb
        }
    }
    return give_multiple(data);
}

status cursor::get(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
    HF_STORE_TRY(transaction_->check_usable());
    if (number_ == free_database) [[unlikely]] {
        HF_STORE_TRY(transaction_->free_list.load(transaction_->env().store().pages(), transaction_->id()));
        return transaction_->free_list.get(in_free_list_, key, data, operation);
    }
    HF_STORE_TRY(restore());
    const status outcome = perform(key, data, operation);
    gone_ = false;  // for one operation
    return outcome;
}

status cursor::perform(MDB_val* key, MDB_val* data, MDB_cursor_op operation) {
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
        case MDB_PREV_MULTIPLE: return multiple(key, data, operation);
        case MDB_GET_BOTH:
        case MDB_GET_BOTH_RANGE:
            if (data == nullptr) {
                return status::invalid_argument;
            }
            return values_.is_dupsort() ? set(key, data, operation) : status::incompatible;
        case MDB_SET:
        case MDB_SET_KEY:
        case MDB_SET_RANGE: return set(key, data, operation);
    }
    return status::invalid_argument;
}

status cursor::count(std::size_t& values) {
    if (!values_.is_dupsort()) {
        return status::incompatible;
    }
    HF_STORE_TRY(transaction_->check_usable());
    HF_STORE_TRY(restore());
    if (!tree_.placed()) {
        return status::invalid_argument;
    }
    HF_STORE_TRY(go_to_entry());
    if (values_.lacks_value()) {
        return status::invalid_argument;
    }
    switch (values_.kind) {
        case values_kind::one: values = 1; break;
        case values_kind::few: values = values_.few().count; break;
        case values_kind::tree: values = values_.record.entries; break;
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
