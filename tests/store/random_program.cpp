#include "store/random_program.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace holdfast::test {
namespace {

constexpr std::array<database_kind, kinds_of_databases> kinds = {{
    {"plain", 0, 0, 0, false},
    {"reverse", MDB_REVERSEKEY, 0, 0, false},
    {"integer8", MDB_INTEGERKEY, 8, 0, false},
    {"integer4", MDB_INTEGERKEY, 4, 0, false},
    {"dups", MDB_DUPSORT, 0, 0, false},
    {"reversed dups", MDB_DUPSORT | MDB_REVERSEDUP | MDB_REVERSEKEY, 0, 0, false},
    {"fixed dups", MDB_DUPSORT | MDB_DUPFIXED, 0, 6, false},
    {"integer dups", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 0, 8, false},
    {"integers", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_INTEGERKEY, 8, 4, false},
    {"custom", 0, 0, 0, true},
    {"custom dups", MDB_DUPSORT, 0, 0, true},
}};

/// How often each action comes, in the order of the enumeration.
constexpr std::array<unsigned, kinds_of_actions> weights = {0, 60, 40, 14, 14,  6,   12, 5,  260, 90, 60, 2, 1, 30, 6,
                                                            4, 60, 10, 16, 300, 120, 70, 20, 16,  14, 6,  3, 1, 1};

int compare_lexically(const std::string& a, const std::string& b) { return a.compare(b); }

int compare_backwards(const std::string& a, const std::string& b) {
    return std::string(a.rbegin(), a.rend()).compare(std::string(b.rbegin(), b.rend()));
}

std::uint64_t integer_of(const std::string& bytes) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data(), std::min(bytes.size(), sizeof(eight)));
    return eight;
}

int compare_integers(const std::string& a, const std::string& b) {
    return integer_of(a) < integer_of(b) ? -1 : integer_of(a) > integer_of(b) ? 1 : 0;
}

std::string shortened(const std::string& bytes) {
    std::string text;
    for (const char byte : bytes.substr(0, 12)) {
        text += byte >= 'a' && byte <= 'z' ? std::string(1, byte)
                                           : fmt::format("\\{:02x}", static_cast<unsigned char>(byte));
    }
    return fmt::format("{}:{}{}", bytes.size(), text, bytes.size() > 12 ? "..." : "");
}

const char* name_of_operation(unsigned op) {
    static constexpr std::array names = {"FIRST",         "FIRST_DUP",  "GET_BOTH",  "GET_BOTH_RANGE", "GET_CURRENT",
                                         "GET_MULTIPLE",  "LAST",       "LAST_DUP",  "NEXT",           "NEXT_DUP",
                                         "NEXT_MULTIPLE", "NEXT_NODUP", "PREV",      "PREV_DUP",       "PREV_NODUP",
                                         "SET",           "SET_KEY",    "SET_RANGE", "PREV_MULTIPLE"};
    return op < names.size() ? names[op] : "?";
}

}  // namespace

const database_kind& kind_of(unsigned database) { return kinds[database % kinds_of_databases]; }

int compare_lengths_first(const MDB_val* a, const MDB_val* b) {
    if (a->mv_size != b->mv_size) {
        return a->mv_size < b->mv_size ? -1 : 1;
    }
    return a->mv_size == 0 ? 0 : std::memcmp(a->mv_data, b->mv_data, a->mv_size);
}

int compare_in(const database_kind& kind, bool is_data, const std::string& a, const std::string& b) {
    if (kind.custom_order) {
        const MDB_val first = value_of(a);
        const MDB_val second = value_of(b);
        return compare_lengths_first(&first, &second);
    }
    if ((kind.flags & (is_data ? MDB_INTEGERDUP : MDB_INTEGERKEY)) != 0) {
        return compare_integers(a, b);
    }
    return (kind.flags & (is_data ? MDB_REVERSEDUP : MDB_REVERSEKEY)) != 0 ? compare_backwards(a, b)
                                                                           : compare_lexically(a, b);
}

const char* name_of(action what) {
    static constexpr std::array<const char*, kinds_of_actions> names = {
        "nothing",      "begin",         "commit",        "abort",      "read_begin",   "read_reset",
        "read_renew",   "read_abort",    "put",           "del",        "get",          "empty",
        "remove",       "open_database", "entries",       "scan",       "cursor_open",  "cursor_close",
        "cursor_renew", "cursor_get",    "cursor_put",    "cursor_del", "cursor_count", "put_multiple",
        "get_multiple", "compare",       "misuse_parent", "reopen",     "copy"};
    return names[static_cast<std::size_t>(what)];
}

std::vector<step> make_program(std::uint64_t seed, std::size_t steps) {
    unsigned total = 0;
    for (const unsigned weight : weights) {
        total += weight;
    }
    random_words random(seed);
    std::vector<step> program(steps);
    for (step& one : program) {
        std::uint64_t drawn = random.below(total);
        unsigned kind = 0;
        while (drawn >= weights[kind]) {
            drawn -= weights[kind++];
        }
        one.what = static_cast<action>(kind);
        for (std::uint64_t& word : one.words) {
            word = random.next();
        }
    }
    return program;
}

std::string describe(const command& called) {
    std::string text = fmt::format("{} {}", name_of(called.what), kind_of(called.database).name);
    text += called.reader != 0 ? fmt::format(" reader {}", called.reader) : "";
    text += called.cursor != 0 ? fmt::format(" cursor {}", called.cursor) : "";
    text += called.what == action::cursor_get ? fmt::format(" {}", name_of_operation(called.flags))
            : called.flags != 0               ? fmt::format(" flags {:#x}", called.flags)
                                              : "";
    text += called.key.empty() ? "" : " key " + shortened(called.key);
    text += called.has_data ? " data " + shortened(called.data) : "";
    return text;
}

std::string describe(const outcome& found) {
    std::string text = found.code ? error_name(*found.code) : "any code";
    text += found.key ? " key " + shortened(*found.key) : "";
    text += found.data ? " data " + shortened(*found.data) : "";
    text += found.number ? fmt::format(" number {}", *found.number) : "";
    return text;
}

std::string difference(const outcome& expected, const outcome& found) {
    const bool same = (!expected.code || expected.code == found.code) && (!expected.key || expected.key == found.key) &&
                      (!expected.data || expected.data == found.data) &&
                      (!expected.number || expected.number == found.number);
    return same ? "" : fmt::format("expected {}, found {}", describe(expected), describe(found));
}

}  // namespace holdfast::test
