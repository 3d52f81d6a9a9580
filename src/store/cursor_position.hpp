// Where a cursor stands: on a key and, in MDB_DUPSORT, on one of its values. What it remembers beside that is what
// liblmdb remembers, so that programs find the same after operations that fail.
//
// Before others change the database of a cursor in a transaction that writes, and before a reader's version goes, it
// keeps its key, and looks for it at its next use. Where that is gone, it stands before the next entry.
#pragma once

#include <string>

#include "store/transaction.hpp"

namespace holdfast::store_engine {

class cursor_position {
public:
    cursor_position(const cursor_position&) = delete;
    cursor_position& operator=(const cursor_position&) = delete;

    /// To its database as the transaction sees it. Needed before any other call.
    [[nodiscard]] status bind();
    /// After its transaction was renewed.
    [[nodiscard]] status bind_again();
    [[nodiscard]] status renew(transaction& in);
    void detach() noexcept { transaction_ = nullptr; }
    void keep_position();
    void unplace() noexcept;

    [[nodiscard]] transaction* in() const noexcept { return transaction_; }
    [[nodiscard]] MDB_dbi number() const noexcept { return number_; }
    [[nodiscard]] const database_state& state() const noexcept { return *state_; }

protected:
    // Of the position's key.
    enum class values_kind : std::uint8_t { one, few, tree };

    cursor_position(transaction& in, MDB_dbi number) noexcept : transaction_(&in), number_(number) {}
    ~cursor_position() = default;

    /// To where it stood before keep_position().
    [[nodiscard]] status restore();
    [[nodiscard]] bool is_dupsort() const noexcept { return (state_->record.flags & MDB_DUPSORT) != 0; }
    [[nodiscard]] bool is_dupfixed() const noexcept { return (state_->record.flags & MDB_DUPFIXED) != 0; }
    /// Behind the last entry, or on none: looks for one in the next leaf. not_found: there is none.
    [[nodiscard]] status settle();
    /// The first or the last of the key that it stands on.
    [[nodiscard]] status enter_values(bool at_last);
    /// Before the first of them: for the entry behind one that is gone.
    [[nodiscard]] status enter_before_values();
    /// To the first of a few, for a caller who does not ask for a value, as liblmdb does.
    [[nodiscard]] status enter_without_value();
    /// Looks at what the key has; the position among the values is not set.
    void attach_values() noexcept;
    [[nodiscard]] bool has_many() const noexcept { return kind_ != values_kind::one; }
    /// Before the key that a look-up missed: on none of the several values of the next.
    [[nodiscard]] bool lacks_value() const noexcept { return has_many() && !value_placed_; }
    [[nodiscard]] const block_header& few() const noexcept { return block_at(tree_.block(), tree_.index()); }
    [[nodiscard]] status value_here(std::string_view& value) const;
    [[nodiscard]] status give(MDB_val* key, MDB_val* data) const;
    [[nodiscard]] status next_value();
    [[nodiscard]] status previous_value();

    transaction* transaction_;
    MDB_dbi number_;
    database_state* state_ = nullptr;
    tree_cursor tree_;
    bool gone_ = false;    ///< the entry is gone: `next` is the present one
    bool at_end_ = false;  ///< `next` found no entry

    values_kind kind_ = values_kind::one;  ///< `one`, too, behind the last entry
    bool value_placed_ = false;            ///< on one of several values
    bool value_gone_ = false;
    unsigned few_index_ = 0;
    tree_record values_record_{};
    tree_cursor values_;

private:
    void attach() noexcept;
    [[nodiscard]] status restore_value();
    [[nodiscard]] status read_plain(std::string_view& value) const;

    bool kept_ = false;                 ///< the position is the kept key and value
    status kept_outcome_ = status::ok;  ///< of reading them
    bool kept_behind_ = false;          ///< or behind the last entry
    bool kept_before_ = false;          ///< or before the kept key
    bool kept_value_behind_ = false;    ///< or behind the last value of the key
    std::string kept_key_;
    std::string kept_value_;
};

}  // namespace holdfast::store_engine
