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
    values_.attach(*transaction_, *state_);
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
    values_.leave();
}

status cursor_position::go_to_entry() {
    if (tree_.on_entry()) {
        return status::ok;
    }
    HF_STORE_TRY(tree_.go_to_entry());
    return values_.enter(false);
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
    kept_outcome_ = tree_.go_to_entry();
    kept_behind_ = kept_outcome_ != status::ok;
    if (!kept_behind_) {
        std::string_view key;
        kept_outcome_ = tree_.key(key);
        kept_key_ = key;
    }
    if (!kept_behind_ && !kept_before_ && values_.is_dupsort() && !values_.lacks_value()) {
        std::string_view value;
        if (values_.kind == values_kind::tree) {
            static_cast<void>(values_.tree.go_to_entry());
        }
        kept_value_behind_ = values_.read(value) != status::ok;
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
    const bool lacked_value = values_.lacks_value();
    values_.kind = values_kind::one;
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
        values_.gone = false;
        const status behind = tree_.go_to_entry();
        return behind == status::ok ? values_.enter_before() : behind == status::not_found ? status::ok : behind;
    }
    if (!values_.is_dupsort()) {
        return status::ok;
    }
    if (lacked_value) {
        values_.inspect();
        return status::ok;
    }
    return restore_value();
}

// Goes to the kept value, or before the next.
status cursor_position::restore_value() {
    if (kept_before_) {
        return values_.enter_before();
    }
    const bool was_gone = values_.gone;
    const bool was_placed = values_.placed;
    values_.inspect();
    values_.gone = was_gone;
    values_.placed = was_placed;
    bool exact = false;
    if (kept_value_behind_) {
        HF_STORE_TRY(values_.enter(true));
        values_.gone = values_.kind != values_kind::one;
        values_.few_index = values_.kind == values_kind::few ? values_.few().count : 0;
        if (values_.kind == values_kind::tree) {
            values_.tree.set_index(values_.tree.block().count);
        }
        return status::ok;
    }
    if (values_.kind == values_kind::one) {
        const int difference = compare(state_->values, tree_.value(), kept_value_);
        gone_ = gone_ || difference > 0;
        return status::ok;
    }
    if (values_.kind == values_kind::few) {
        const place found = find_in_leaf(values_.few(), state_->values, kept_value_);
        values_.few_index = found.index;
        exact = found.exact;
    } else {
        HF_STORE_TRY(values_.tree.seek(kept_value_, exact));
    }
    values_.gone = values_.gone || !exact;
    return status::ok;
}

status cursor_position::give(MDB_val* key, MDB_val* data) const {
    if (key != nullptr) {
        std::string_view text;
        HF_STORE_TRY(tree_.key(text));
        *key = to_value(text);
    }
    if (data != nullptr) {
        std::string_view value;
        HF_STORE_TRY(values_.read(value));
        *data = to_value(value);
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
