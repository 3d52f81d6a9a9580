#include "store/cursor_position.hpp"

namespace holdfast::store_engine {

status cursor_position::bind() {
    HF_STORE_TRY(transaction_->database(number_, state_));
    attach();
    return status::ok;
}

status cursor_position::bind_again() {
    HF_STORE_TRY(transaction_->database(number_, state_, true));
    attach();
    return status::ok;
}

void cursor_position::attach() noexcept {
    tree_.attach(transaction_->pages(), state_->record, state_->keys);
    values_.attach(transaction_->pages(), values_record_, state_->values);
}

status cursor_position::renew(transaction& in) {
    transaction_ = &in;
    unplace();
    return bind();
}

void cursor_position::unplace() noexcept {
    tree_.leave();
    gone_ = false;
    at_end_ = false;
    kept_ = false;
    kind_ = values_kind::one;
    value_placed_ = false;
    value_gone_ = false;
}

status cursor_position::settle() {
    if (tree_.on_entry()) {
        return status::ok;
    }
    HF_STORE_TRY(tree_.settle());
    return enter_values(false);
}

// --- positions over changes by others -------------------------------------------------------------------------------

void cursor_position::keep_position() {
    if (kept_ || !tree_.placed()) {
        return;
    }
    kept_ = true;
    kept_value_.clear();
    kept_value_behind_ = false;
    kept_before_ = !tree_.on_entry();
    gone_ = gone_ || kept_before_;
    kept_outcome_ = tree_.settle();
    kept_behind_ = kept_outcome_ != status::ok;
    if (!kept_behind_) {
        std::string_view key;
        kept_outcome_ = tree_.key(key);
        kept_key_ = key;
    }
    if (!kept_behind_ && !kept_before_ && is_dupsort() && !lacks_value()) {
        std::string_view value;
        if (kind_ == values_kind::tree) {
            static_cast<void>(values_.settle());
        }
        kept_value_behind_ = value_here(value) != status::ok;
        if (!kept_value_behind_) {
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
    const bool lacked_value = lacks_value();
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
        at_end_ = false;
        value_gone_ = false;
        const status behind = tree_.settle();
        return behind == status::ok ? enter_before_values() : behind == status::not_found ? status::ok : behind;
    }
    if (!is_dupsort()) {
        return status::ok;
    }
    if (lacked_value) {
        attach_values();
        return status::ok;
    }
    return restore_value();
}

// Goes to the kept value, or before the next.
status cursor_position::restore_value() {
    if (kept_before_) {
        return enter_before_values();
    }
    const bool was_gone = value_gone_;
    const bool was_placed = value_placed_;
    attach_values();
    value_gone_ = was_gone;
    value_placed_ = was_placed;
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
        gone_ = gone_ || difference > 0;
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
    value_placed_ = false;
    value_gone_ = false;
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
    value_placed_ = true;
    if (kind_ == values_kind::few) {
        few_index_ = at_last ? few().count - 1U : 0U;
    } else if (kind_ == values_kind::tree) {
        const status outcome = at_last ? values_.last() : values_.first();
        return outcome == status::not_found ? status::corrupted : outcome;
    }
    return status::ok;
}

status cursor_position::enter_before_values() {
    HF_STORE_TRY(enter_values(false));
    value_gone_ = has_many();
    return status::ok;
}

status cursor_position::enter_without_value() {
    HF_STORE_TRY(enter_values(false));
    value_placed_ = kind_ != values_kind::tree;
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
    if (!value_placed_) {
        return enter_values(false);
    }
    const bool stays = value_gone_;
    status outcome = status::not_found;
    if (kind_ == values_kind::few) {
        const unsigned next = few_index_ + (stays ? 0U : 1U);
        if (next < few().count) {
            few_index_ = next;
            outcome = status::ok;
        }
    } else if (values_.placed()) {
        outcome = stays ? values_.settle() : values_.next();
    }
    value_gone_ = value_gone_ && outcome != status::ok;
    return outcome;
}

status cursor_position::previous_value() {
    if (!value_placed_) {
        return enter_values(true);
    }
    status outcome = status::not_found;
    if (kind_ == values_kind::few) {
        if (few_index_ != 0) {
            --few_index_;
            outcome = status::ok;
        }
    } else if (values_.placed()) {
        outcome = values_.previous();
    }
    value_gone_ = false;
    return outcome;
}

}  // namespace holdfast::store_engine
