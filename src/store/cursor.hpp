// A cursor, as LMDB's MDB_cursor: a position on a key and, in MDB_DUPSORT, on one of its values.
//
// A cursor in a transaction that writes stays where it is when others change its database: before they do, it keeps the
// key, and when it is used again, it looks for it. Where that is gone, it stands before the entry behind it.
#pragma once

#include <string>

#include "store/transaction.hpp"

namespace holdfast::store {

class cursor {
public:
    cursor(transaction& in, MDB_dbi number) noexcept : transaction_(&in), number_(number) {}
    cursor(const cursor&) = delete;
    cursor& operator=(const cursor&) = delete;

    /// Binds it to its database as the transaction sees it. Needed before any other call.
    [[nodiscard]] status bind();
    /// Binds it to another transaction.
    [[nodiscard]] status renew(transaction& in);

    [[nodiscard]] status get(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status put(std::string_view key, MDB_val* data, unsigned flags);
    [[nodiscard]] status remove(bool all_values);
    [[nodiscard]] status count(std::size_t& values);
    /// On the key, or on the pair.
    [[nodiscard]] status find(std::string_view key, const std::string_view* value);

    void keep_position();
    void unplace() noexcept;
    [[nodiscard]] transaction* in() const noexcept { return transaction_; }
    void detach() noexcept { transaction_ = nullptr; }
    [[nodiscard]] MDB_dbi number() const noexcept { return number_; }
    [[nodiscard]] const database_state& state() const noexcept { return *state_; }

private:
    // What the position's key has.
    enum class values_kind : std::uint8_t { one, few, tree };

    // cursor_read.cpp
    [[nodiscard]] status restore();
    [[nodiscard]] status restore_value();
    [[nodiscard]] bool is_dupsort() const noexcept { return (state_->record.flags & MDB_DUPSORT) != 0; }
    [[nodiscard]] bool is_dupfixed() const noexcept { return (state_->record.flags & MDB_DUPFIXED) != 0; }
    [[nodiscard]] status enter_values(bool at_last);
    void attach_values() noexcept;
    [[nodiscard]] const block_header& few() const noexcept { return block_at(tree_.block(), tree_.index()); }
    [[nodiscard]] status value_here(std::string_view& value) const;
    [[nodiscard]] status read_plain(std::string_view& value) const;
    [[nodiscard]] status give(MDB_val* key, MDB_val* data) const;
    [[nodiscard]] status first(MDB_val* key, MDB_val* data);
    [[nodiscard]] status last(MDB_val* key, MDB_val* data);
    [[nodiscard]] status next(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status previous(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status next_value();
    [[nodiscard]] status previous_value();
    [[nodiscard]] status edge_value(MDB_val* key, MDB_val* data, bool at_last);
    [[nodiscard]] status set(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status set_value(MDB_val& data, bool range);
    [[nodiscard]] status current(MDB_val* key, MDB_val* data);
    [[nodiscard]] status multiple(MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status give_multiple(MDB_val* data);

    // cursor_write.cpp
    [[nodiscard]] status check_sizes(std::string_view key, std::string_view value) const noexcept;
    [[nodiscard]] status check_integers(std::string_view key, std::string_view value) const noexcept;
    [[nodiscard]] status put_one(std::string_view key, MDB_val* data, unsigned flags);
    [[nodiscard]] status place_for_put(std::string_view key, MDB_val* data, unsigned flags, bool& exists);
    [[nodiscard]] status put_plain(std::string_view key, MDB_val* data, unsigned flags, bool exists);
    [[nodiscard]] status put_long(std::string_view key, MDB_val* data, unsigned flags, bool exists);
    [[nodiscard]] status drop_long();
    [[nodiscard]] status remove_key();

    // cursor_values.cpp
    [[nodiscard]] status put_value(std::string_view key, std::string_view value, unsigned flags, bool exists);
    [[nodiscard]] status put_beside_one(std::string_view key, std::string_view value, unsigned flags);
    [[nodiscard]] status put_into_few(std::string_view key, std::string_view value, unsigned flags);
    [[nodiscard]] status replace_in_few(std::string_view key, std::string_view value, unsigned index);
    [[nodiscard]] status grow_few(std::string_view key, std::string_view value, unsigned index);
    [[nodiscard]] status put_into_tree(std::string_view value, unsigned flags);
    [[nodiscard]] status plant_values(std::string_view key, const block_header* block, std::string_view value,
                                      bool exists);
    [[nodiscard]] status save_values_record();
    [[nodiscard]] status remove_value(bool& left);

    transaction* transaction_;
    MDB_dbi number_;
    database_state* state_ = nullptr;
    tree_cursor tree_;
    bool gone_ = false;  ///< the entry that it stood on is gone: `next` is the one that it stands on

    values_kind kind_ = values_kind::one;
    bool value_gone_ = false;
    unsigned few_index_ = 0;
    tree_record values_record_{};
    tree_cursor values_;

    bool kept_ = false;         ///< the position is the kept key and value
    bool kept_behind_ = false;  ///< or behind the last entry
    bool kept_value_behind_ = false;  ///< or behind the last value of the key
    std::string kept_key_;
    std::string kept_value_;
};

}  // namespace holdfast::store
