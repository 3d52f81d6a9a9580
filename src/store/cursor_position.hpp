// Where a cursor stands: on a key and, in MDB_DUPSORT, on one of its values. What it remembers beside that is what
// liblmdb remembers, so that programs find the same after operations that fail.
//
// Before others change the database of a cursor in a transaction that writes, and before a reader's version goes, it
// keeps its key, and looks for it at its next use. Where that is gone, it stands before the next entry.
#pragma once

#include <string>

#include "store/key_values.hpp"
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
    cursor_position(transaction& in, MDB_dbi number) noexcept : transaction_(&in), number_(number) {}
    ~cursor_position() = default;

    /// To where it stood before keep_position().
    [[nodiscard]] status restore();
    /// Behind the last entry, or on none: looks for one in the next leaf. not_found: there is none.
    [[nodiscard]] status go_to_entry();
    [[nodiscard]] status give(MDB_val* key, MDB_val* data) const;

    transaction* transaction_;
    MDB_dbi number_;
    database_state* state_ = nullptr;
    tree_cursor tree_;
    bool gone_ = false;    ///< the entry is gone: `next` is the present one
    bool at_end_ = false;  ///< `next` found no entry
    key_values values_{tree_};

private:
    void attach() noexcept;
    [[nodiscard]] status restore_value();

    bool kept_ = false;                 ///< the position is the kept key and value
    status kept_outcome_ = status::ok;  ///< of reading them
    bool kept_behind_ = false;          ///< or behind the last entry
    bool kept_before_ = false;          ///< or before the kept key
    bool kept_value_behind_ = false;    ///< or behind the last value of the key
    std::string kept_key_;
    std::string kept_value_;
};

}  // namespace holdfast::store_engine
