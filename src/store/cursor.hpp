// A cursor, as LMDB's MDB_cursor: moves, and writes where it stands.
#pragma once

#include "store/cursor_position.hpp"

namespace holdfast::store_engine {

class cursor : public cursor_position {
public:
    cursor(transaction& in, MDB_dbi number) noexcept : cursor_position(in, number) {}

    [[nodiscard]] status get(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status put(std::string_view key, MDB_val* data, unsigned flags);
    [[nodiscard]] status remove(bool all_values);
    [[nodiscard]] status count(std::size_t& values);
    /// On the key, or on the pair.
    [[nodiscard]] status find(std::string_view key, const std::string_view* value);

private:
    std::size_t in_free_list_ = free_list_view::no_place;  ///< of handle 0

    // cursor_read.cpp
    [[nodiscard]] status perform(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    /// On the last entry, or behind it.
    [[nodiscard]] bool is_behind_all() const noexcept;
    [[nodiscard]] bool step_to_plain(bool right, MDB_val* key, MDB_val* data) noexcept;
    [[nodiscard]] status first(MDB_val* key, MDB_val* data);
    [[nodiscard]] status last(MDB_val* key, MDB_val* data);
    [[nodiscard]] status next(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status previous(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status edge_value(MDB_val* key, MDB_val* data, bool at_last);
    [[nodiscard]] status set(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
    [[nodiscard]] status set_value(MDB_val& data, bool range);
    [[nodiscard]] status current(MDB_val* key, MDB_val* data);
    [[nodiscard]] status multiple(MDB_val* key, MDB_val* data, MDB_cursor_op operation);
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
};

}  // namespace holdfast::store_engine
