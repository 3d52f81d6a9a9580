#include "store/cursor_position.hpp"

namespace holdfast::store_engine {

status cursor_position::bind() {
    HF_STORE_TRY(transaction_->database(number_, state_));
    tree_.attach(transaction_->pages(), state_->record, state_->keys);
    values_.attach(transaction_->pages(), values_record_, state_->values);
    return status::ok;
}

status cursor_position::renew(transaction& in) {
    transaction_ = &in;
    unplace();
    return bind();
}

void cursor_position::unplace() noexcept {
    tree_.leave();
    gone_ = false;
    kept_ = false;
    kind_ = values_kind::one;
    value_gone_ = false;
}

// --- positions over changes by others -------------------------------------------------------------------------------

void cursor_position::keep_position() {
    if (kept_ || !tree_.placed()) {
        return;
    }
    kept_ = true;
    kept_value_.clear();
    gone_ = gone_ || !tree_.on_entry();
    kept_outcome_ = tree_.settle();
    kept_behind_ = kept_outcome_ != status::ok;
    if (!kept_behind_) {
        std::string_view key;
        kept_outcome_ = tree_.key(key);
        kept_key_ = key;
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

status cursor_position::restore() {
    if (!kept_) {
        return status::ok;
    }
    if (kept_outcome_ != status::ok && kept_outcome_ != status::not_found) {
        return kept_outcome_;
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

// Goes to the kept value, or before the next.
status cursor_position::restore_value() {
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

void cursor_position::attach_values() noexcept {
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

status cursor_position::enter_values(bool at_last) {
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
status cursor_position::read_plain(std::string_view& value) const {
    value = tree_.value();
    if ((tree_.flags() & node_is_long) == 0) {
        return status::ok;
    }
    const long_value where = long_value_from(value);
    const page_header* run = nullptr;
    HF_STORE_TRY(transaction_->pages().get(where.page, run));
    if (run->block.kind != page_kind::run || run->birth > tree_.birth() ||
        where.size > run->run_pages * page_size - run_header_size) {
        return status::corrupted;
    }
    value = {reinterpret_cast<const char*>(run) + run_header_size, where.size};
    return status::ok;
}

status cursor_position::value_here(std::string_view& value) const {
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
    return values_.key(value);
}

status cursor_position::give(MDB_val* key, MDB_val* data) const {
    if (key != nullptr) {
        std::string_view text;
        HF_STORE_TRY(tree_.key(text));
        *key = to_value(text);
    }
    if (data != nullptr) {
        std::string_view value;
        HF_STORE_TRY(value_here(value));
        *data = to_value(value);
    }
    return status::ok;
}

status cursor_position::next_value() {
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

status cursor_position::previous_value() {
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

}  // namespace holdfast::store_engine
