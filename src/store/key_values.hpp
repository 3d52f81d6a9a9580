// The values of the key that a cursor stands on, and where it stands among them. In MDB_DUPSORT one lies in the key's
// node, a few in a block there, more in a tree of their own, whose record is in the node.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/transaction.hpp"

namespace holdfast::store_engine {

enum class values_kind : std::uint8_t { one, few, tree };

/// What it remembers of its place is public, because liblmdb's cursors change each of it by itself.
class key_values {
public:
    /// Of the key that `entry` stands on.
    explicit key_values(tree_cursor& entry) noexcept : entry_(entry) {}
    key_values(const key_values&) = delete;
    key_values& operator=(const key_values&) = delete;
    ~key_values() = default;

    /// Needed before any other call, and after the transaction or its database was renewed.
    void attach(transaction& in, database_state& state) noexcept {
        in_ = &in;
        state_ = &state;
        tree.attach(in.pages(), record, state.values);
    }
    [[nodiscard]] bool is_dupsort() const noexcept { return (state_->record.flags & MDB_DUPSORT) != 0; }
    [[nodiscard]] bool is_dupfixed() const noexcept { return (state_->record.flags & MDB_DUPFIXED) != 0; }

    /// On none.
    void leave() noexcept {
        kind = values_kind::one;
        placed = false;
        gone = false;
    }
    /// Finds out what the key has; the place among the values is not set.
    void inspect() noexcept;
    /// To the first or the last.
    [[nodiscard]] status enter(bool at_last);
    /// Before the first of them: for the entry behind one that is gone.
    [[nodiscard]] status enter_before();
    /// To the first of a few, for a caller who does not ask for a value, as liblmdb does.
    [[nodiscard]] status enter_without_value();
    [[nodiscard]] status next();
    [[nodiscard]] status previous();

    [[nodiscard]] bool has_many() const noexcept { return kind != values_kind::one; }
    /// Before the key that a look-up missed: on none of the several values of the next.
    [[nodiscard]] bool lacks_value() const noexcept { return has_many() && !placed; }
    [[nodiscard]] const block_header& few() const noexcept { return block_at(entry_.block(), entry_.index()); }
    /// The value that it stands on.
    [[nodiscard]] status read(std::string_view& value) const;

    /// Puts the value where it sorts, with the flags of mdb_cursor_put. `exists`: the key has a node.
    [[nodiscard]] status put(std::string_view key, std::string_view value, unsigned flags, bool exists);
    /// Of several. Stands on the next value then. `left`: the key has others; else nothing was removed.
    [[nodiscard]] status remove(bool& left);

    values_kind kind = values_kind::one;  ///< `one`, too, behind the last entry
    bool placed = false;                  ///< on one of several values
    bool gone = false;                    ///< its value was removed: it stands on the next
    unsigned few_index = 0;
    tree_record record{};
    tree_cursor tree;

private:
    [[nodiscard]] status read_plain(std::string_view& value) const;
    [[nodiscard]] status put_beside_one(std::string_view key, std::string_view value, unsigned flags);
    [[nodiscard]] status put_into_few(std::string_view key, std::string_view value, unsigned flags);
    [[nodiscard]] status move_in_few(std::string_view key, std::string_view value, const place& goes);
    [[nodiscard]] status replace_in_few(std::string_view key, std::string_view value, unsigned index);
    [[nodiscard]] status grow_few(std::string_view key, std::string_view value, unsigned index);
    [[nodiscard]] status put_into_tree(std::string_view value, unsigned flags);
    [[nodiscard]] status plant(std::string_view key, const block_header* block, std::string_view value, bool exists);
    [[nodiscard]] status save_record();

    tree_cursor& entry_;
    transaction* in_ = nullptr;
    database_state* state_ = nullptr;
};

}  // namespace holdfast::store_engine
