// Random programs against LMDB's interface: what a program is made of, apart from who runs it.
//
// A program is a list of steps, each some random words. The model (store_model.hpp) turns a step into a command that is
// allowed in its state, so whatever part of a program is left out, the rest is a program: that is what makes failures
// small.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lmdb.h>

#include "store/lmdb_library.hpp"

namespace holdfast::test {

/// splitmix64 (Steele, Lea, Flood 2014).
class random_words {
public:
    explicit constexpr random_words(std::uint64_t seed) noexcept : state_(seed) {}
    constexpr std::uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15U); }
    constexpr std::uint64_t below(std::uint64_t limit) noexcept { return next() % limit; }
    static constexpr std::uint64_t mix(std::uint64_t word) noexcept {
        word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
        word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
        return word ^ (word >> 31U);
    }

private:
    std::uint64_t state_;
};

/// A kind of database that programs use. Sizes in bytes; 0: any.
struct database_kind {
    const char* name;
    unsigned flags;
    unsigned key_bytes;
    unsigned data_bytes;
    bool custom_order;  ///< mdb_set_compare() and mdb_set_dupsort() with compare_lengths_first()

    [[nodiscard]] bool sorts_duplicates() const noexcept { return (flags & MDB_DUPSORT) != 0; }
};
inline constexpr unsigned kinds_of_databases = 11;
[[nodiscard]] const database_kind& kind_of(unsigned database);

/// As LMDB documents the orders: keys or, with `is_data`, duplicates of that database.
[[nodiscard]] int compare_in(const database_kind& kind, bool is_data, const std::string& a, const std::string& b);
int compare_lengths_first(const MDB_val* a, const MDB_val* b);

enum class action : std::uint8_t {
    nothing,
    begin,       ///< a write transaction, or one nested in it
    commit,      ///< the innermost
    abort,       ///< the innermost
    read_begin,  ///< of one of the readers
    read_reset,
    read_renew,
    read_abort,
    put,
    del,
    get,
    empty,   ///< mdb_drop(0)
    remove,  ///< mdb_drop(1)
    open_database,
    entries,
    scan,  ///< all items forwards and backwards
    cursor_open,
    cursor_close,
    cursor_renew,
    cursor_get,
    cursor_put,
    cursor_del,
    cursor_count,
    put_multiple,
    get_multiple,  ///< all duplicates of a key by MDB_GET_MULTIPLE and MDB_NEXT_MULTIPLE, or backwards
    compare,
    misuse_parent,  ///< an operation of a transaction that has a child
    reopen,
    copy,  ///< mdb_env_copy2(), and a scan of the copy
};
inline constexpr unsigned kinds_of_actions = static_cast<unsigned>(action::copy) + 1;
[[nodiscard]] const char* name_of(action what);

struct step {
    action what;
    std::uint64_t words[6];
};
[[nodiscard]] std::vector<step> make_program(std::uint64_t seed, std::size_t steps);

/// What is to be called. `reader` is 0 for the innermost write transaction.
struct command {
    action what = action::nothing;
    unsigned database = 0;
    unsigned reader = 0;
    unsigned cursor = 0;
    unsigned flags = 0;  ///< of the call; of cursor_get: its MDB_cursor_op
    bool has_data = false;
    std::string key;
    std::string data;
};

/// What came of a command; of the model: what must come, and nothing where LMDB's documentation leaves it open.
struct outcome {
    std::optional<int> code;
    std::optional<std::string> key;
    std::optional<std::string> data;
    std::optional<std::uint64_t> number;
};
[[nodiscard]] inline outcome just(int code) {
    outcome made;
    made.code = code;
    return made;
}
[[nodiscard]] std::string describe(const command& called);
[[nodiscard]] std::string describe(const outcome& found);
/// "" or how what was found is not what was expected.
[[nodiscard]] std::string difference(const outcome& expected, const outcome& found);

}  // namespace holdfast::test
