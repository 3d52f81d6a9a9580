// Between LMDB's interface and the classes behind it: an MDB_env is an environment, an MDB_txn a transaction, an
// MDB_cursor a cursor. No exception leaves a function of the interface.
#pragma once

#include <new>

#include "store/cursor.hpp"

namespace holdfast::store_engine {

[[nodiscard]] inline environment* of(MDB_env* env) noexcept { return reinterpret_cast<environment*>(env); }
[[nodiscard]] inline transaction* of(MDB_txn* txn) noexcept { return reinterpret_cast<transaction*>(txn); }
[[nodiscard]] inline cursor* of(MDB_cursor* at) noexcept { return reinterpret_cast<cursor*>(at); }
[[nodiscard]] inline MDB_env* of(environment* env) noexcept { return reinterpret_cast<MDB_env*>(env); }
[[nodiscard]] inline MDB_txn* of(transaction* txn) noexcept { return reinterpret_cast<MDB_txn*>(txn); }
[[nodiscard]] inline MDB_cursor* of(cursor* at) noexcept { return reinterpret_cast<MDB_cursor*>(at); }

template <class Call>
[[nodiscard]] int guarded(Call call) noexcept {
    try {
        return code_of(call());
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    } catch (...) {
        return MDB_PANIC;  // of an order of the caller, which must not throw
    }
}

/// Where memory ran out in the midst of a change, the transaction can only be aborted.
template <class Call>
[[nodiscard]] int guarded_change(transaction& in, Call call) noexcept {
    try {
        return code_of(call());
    } catch (...) {
        return code_of(in.spoil(status::no_memory));
    }
}

/// Of an argument in pages of the store, which the call may move.
class steady_text {
public:
    steady_text(const transaction& in, const MDB_val& value);
    [[nodiscard]] std::string_view text() const noexcept { return text_; }

private:
    std::string_view text_;
    std::string copy_;
};

}  // namespace holdfast::store_engine
