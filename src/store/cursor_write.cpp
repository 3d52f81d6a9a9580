#include <algorithm>
#include <cstring>

#include "store/cursor.hpp"

namespace holdfast::store_engine {
namespace {

constexpr std::size_t most_value = 0xFFFFFFFFU;

std::string_view text_of(const MDB_val& value) noexcept {
    return {static_cast<const char*>(value.mv_data), value.mv_size};
}

}  // namespace

status cursor::check_sizes(std::string_view key, std::string_view value) const noexcept {
    const std::size_t most = transaction_->env().max_key_size();
    const std::size_t most_data = values_.is_dupsort() ? std::min(most, max_key) : most_value;
    if (key.empty() || key.size() > most || value.size() > most_data) {
        return status::bad_value_size;
    }
    return check_integers(key, value);
}

status cursor::check_integers(std::string_view key, std::string_view value) const noexcept {
    const auto is_integer = [](std::string_view text) {
        return text.size() == sizeof(std::uint32_t) || text.size() == sizeof(std::uint64_t);
    };
    if ((state_->keys.kind == order_kind::integer && !is_integer(key)) ||
        (values_.is_dupsort() && state_->values.kind == order_kind::integer && !is_integer(value))) {
        return status::bad_value_size;
    }
    if (values_.is_dupfixed() && value.empty()) {
        return status::bad_value_size;
    }
    return status::ok;
}

// MDB_MULTIPLE: data[1].mv_size says how many values lie at data[0].mv_data, and then how many were written.
status cursor::put(std::string_view key, MDB_val* data, unsigned flags) {
    HF_STORE_TRY(transaction_->check_writable());
    if (!state_->known) {
        return status::bad_database;  // it was removed meanwhile
    }
    if ((flags & MDB_MULTIPLE) == 0) {
        return put_one(key, data, flags);
    }
    if (!values_.is_dupfixed()) {
        return status::incompatible;
    }
    const std::size_t wanted = data[1].mv_size;
    data[1].mv_size = 0;
    MDB_val item = data[0];
    for (std::size_t i = 0; i < wanted; ++i) {
        const unsigned later = i == 0 ? flags : flags & ~static_cast<unsigned>(MDB_NOOVERWRITE | MDB_CURRENT);
        HF_STORE_TRY(put_one(key, &item, later & ~static_cast<unsigned>(MDB_MULTIPLE)));
        data[1].mv_size = i + 1;
        item.mv_data = static_cast<char*>(item.mv_data) + item.mv_size;
    }
    return status::ok;
}

status cursor::put_one(std::string_view key, MDB_val* data, unsigned flags) {
    const std::string_view value = text_of(*data);
    HF_STORE_TRY(check_sizes(key, value));
    HF_STORE_TRY(restore());
    bool exists = false;
    HF_STORE_TRY(place_for_put(key, data, flags, exists));
    gone_ = false;
    const bool reserves = values_.is_dupsort() && (flags & MDB_RESERVE) != 0;
    const bool fits = leaf_size(stored_size(key.size()), value.size()) <= max_node;
    if (reserves && (exists || !fits) && data->mv_data == nullptr) {
        return status::incompatible;  // where it goes depends on its bytes, which are not there yet
    }
    transaction_->keep_positions(number_, this);
    transaction_->changed(*state_);
    if (reserves && !exists && fits) {
        values_.placed = true;
        const status outcome = put_plain(key, data, flags, false);
        return outcome == status::ok ? outcome : transaction_->spoil(outcome);
    }
    if (values_.is_dupsort()) {
        const status outcome = values_.put(key, value, flags, exists);
        return outcome == status::ok || outcome == status::key_exists || outcome == status::bad_value_size
                   ? outcome
                   : transaction_->spoil(outcome);
    }
    if (exists && (tree_.flags() & node_is_tree) != 0) {
        return status::incompatible;  // a named database, not a value
    }
    const status outcome = !fits ? put_long(key, data, flags, exists) : put_plain(key, data, flags, exists);
    return outcome == status::ok ? outcome : transaction_->spoil(outcome);
}

// Stands where the key is or goes.
status cursor::place_for_put(std::string_view key, MDB_val* data, unsigned flags, bool& exists) {
    if ((flags & MDB_CURRENT) != 0) {
        if (!tree_.placed()) {
            return status::invalid_argument;
        }
        HF_STORE_TRY(go_to_entry());
        exists = true;
        if (!values_.has_many() || !values_.placed) {
            return values_.has_many() ? status::invalid_argument : status::ok;
        }
        std::string_view value;  // a missing one is no reason to spoil the transaction
        HF_STORE_TRY(values_.kind == values_kind::tree && values_.tree.placed() ? values_.tree.go_to_entry()
                                                                                : status::ok);
        return values_.read(value);
    }
    values_.kind = values_kind::one;
    at_end_ = false;
    if ((flags & MDB_APPEND) != 0) {
        const status outcome = tree_.last();
        if (outcome != status::ok) {
            return outcome == status::not_found ? status::ok : outcome;
        }
        std::string_view last;
        HF_STORE_TRY(tree_.key(last));
        if (compare(state_->keys, key, last) <= 0) {
            HF_STORE_TRY(values_.enter(true));
            at_end_ = true;
            return status::key_exists;
        }
        tree_.set_index(tree_.block().count);
        return status::ok;
    }
    const status outcome = tree_.seek(key, exists);
    if (outcome != status::ok) {
        return outcome == status::not_found ? status::ok : outcome;
    }
    if (exists && (flags & MDB_NOOVERWRITE) != 0) {
        HF_STORE_TRY(values_.enter(false));
        static_cast<void>(give(nullptr, data));
        return status::key_exists;
    }
    return status::ok;
}

status cursor::put_plain(std::string_view key, MDB_val* data, unsigned flags, bool exists) {
    const bool reserve = (flags & MDB_RESERVE) != 0;
    const std::string_view value(reserve              ? nullptr
                                 : data->mv_size == 0 ? ""
                                                      : static_cast<const char*>(data->mv_data),
                                 data->mv_size);
    std::byte* written = nullptr;
    if (exists) {
        const bool was_long = (tree_.flags() & node_is_long) != 0;
        const space_freeing frees(transaction_->pages(), was_long);
        if (was_long) {
            HF_STORE_TRY(drop_long());
        }
        HF_STORE_TRY(tree_.replace(value, 0, &written));
    } else {
        HF_STORE_TRY(tree_.insert(key, value, 0, &written));
        ++state_->record.entries;
    }
    values_.kind = values_kind::one;
    if (reserve) {
        data->mv_data = written;
    }
    return status::ok;
}

status cursor::put_long(std::string_view key, MDB_val* data, unsigned flags, bool exists) {
    long_value where{.page = 0, .size = data->mv_size};
    const bool shrinks = exists && (tree_.flags() & node_is_long) != 0 &&
                         run_pages_for(where.size) <= run_pages_for(long_value_from(tree_.value()).size);
    const space_freeing frees(transaction_->pages(), shrinks);
    std::byte* memory = nullptr;
    HF_STORE_TRY(transaction_->pages().create_run(where.size, where.page, memory));
    if ((flags & MDB_RESERVE) == 0) {
        std::memcpy(memory, data->mv_data, where.size);  // before the old value goes, which it may be part of
    } else {
        data->mv_data = memory;
    }
    if (exists) {
        if ((tree_.flags() & node_is_long) != 0) {
            HF_STORE_TRY(drop_long());
        }
        HF_STORE_TRY(tree_.replace(as_text(where), node_is_long, nullptr));
    } else {
        HF_STORE_TRY(tree_.insert(key, as_text(where), node_is_long, nullptr));
        ++state_->record.entries;
    }
    state_->record.long_pages += run_pages_for(where.size);
    values_.kind = values_kind::one;
    return status::ok;
}

status cursor::drop_long() {
    const long_value where = long_value_from(tree_.value());
    const page_header* run = nullptr;
    HF_STORE_TRY(transaction_->pages().get(where.page, run));
    if (run->block.kind != page_kind::run) {
        return status::corrupted;
    }
    state_->record.long_pages -= run->run_pages;
    transaction_->pages().release(where.page, *run);
    return status::ok;
}

status cursor::remove(bool all_values) {
    HF_STORE_TRY(transaction_->check_writable());
    const space_freeing frees(transaction_->pages());
    HF_STORE_TRY(restore());
    if (!tree_.placed()) {
        return status::invalid_argument;
    }
    HF_STORE_TRY(go_to_entry());
    if (values_.lacks_value() && !all_values) {
        return status::invalid_argument;
    }
    if (!values_.is_dupsort() && (tree_.flags() & node_is_tree) != 0) {
        return status::incompatible;  // a named database
    }
    if (!all_values && values_.has_many()) {
        std::string_view value;
        HF_STORE_TRY(values_.kind == values_kind::tree && values_.gone ? values_.tree.go_to_entry() : status::ok);
        HF_STORE_TRY(values_.read(value));
    }
    transaction_->keep_positions(number_, this);
    transaction_->changed(*state_);
    at_end_ = false;
    if (!all_values && values_.kind != values_kind::one) {
        bool left = false;
        if (const status outcome = values_.remove(left); outcome != status::ok || left) {
            return outcome == status::ok ? outcome : transaction_->spoil(outcome);
        }
    }
    const status outcome = remove_key();
    return outcome == status::ok ? outcome : transaction_->spoil(outcome);
}

status cursor::remove_key() {
    std::uint64_t values = 1;
    if (values_.kind == values_kind::few) {
        values = values_.few().count;
    } else if (values_.kind == values_kind::tree) {
        values = values_.record.entries;
        HF_STORE_TRY(drop_tree(transaction_->pages(), values_.record));
    } else if ((tree_.flags() & node_is_long) != 0) {
        HF_STORE_TRY(drop_long());
    }
    state_->record.entries -= values;
    HF_STORE_TRY(tree_.remove());
    gone_ = true;
    values_.kind = values_kind::one;
    values_.gone = false;
    return tree_.on_entry() ? values_.enter_before() : status::ok;
}

}  // namespace holdfast::store_engine
