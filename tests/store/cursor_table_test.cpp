// What a cursor does after an operation that failed: a table of all pairs of operations, from several places, that runs
// on Debian's liblmdb and on ours. Both must say the same, but where liblmdb reads memory that it never set, or does
// not what its documentation says:
//
// - Behind the last entry it counts duplicates, steps among them, and writes with MDB_CURRENT, beyond the page.
// - Before the key that a look-up missed, where that has several values, it takes steps among values of another key.
//   MDB_CURRENT may write another key's count of them.
// - On the last value of a key MDB_GET_MULTIPLE gives nothing.
// - MDB_CURRENT puts a value of MDB_DUPSORT where it does not belong.
#include <algorithm>
#include <array>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "store/lmdb_library.hpp"

namespace holdfast::test {
namespace {

/// The last three are not of the cursor: its transaction puts an item, or one nested in it does and commits; a reader
/// is reset and renewed.
enum class call : std::uint8_t { get, put, del, count, insert, insert_nested, renew };

struct operation {
    call what;
    unsigned flags;
    std::string key;
    std::string data;
};

using items = std::vector<std::pair<std::string, std::string>>;

struct database_kind {
    std::string name;
    unsigned flags;
    items content;
};
void PrintTo(const database_kind& one, std::ostream* out) { *out << one.name; }

constexpr std::array names = {"FIRST",         "FIRST_DUP",  "GET_BOTH",  "GET_BOTH_RANGE", "GET_CURRENT",
                              "GET_MULTIPLE",  "LAST",       "LAST_DUP",  "NEXT",           "NEXT_DUP",
                              "NEXT_MULTIPLE", "NEXT_NODUP", "PREV",      "PREV_DUP",       "PREV_NODUP",
                              "SET",           "SET_KEY",    "SET_RANGE", "PREV_MULTIPLE"};

std::string name_of(const operation& one) {
    switch (one.what) {
        case call::get: return fmt::format("{} {}/{}", names.at(one.flags), one.key, one.data);
        case call::put: return fmt::format("put {:#x} {}/{}", one.flags, one.key, one.data);
        case call::del: return fmt::format("del {:#x}", one.flags);
        case call::count: return "count";
        case call::insert: return "insert " + one.key;
        case call::insert_nested: return "insert in a nested transaction " + one.key;
        case call::renew: break;
    }
    return "renew";
}

bool writes(const operation& one) {
    return one.what != call::get && one.what != call::count && one.what != call::renew;
}

std::vector<operation> all_operations() {
    std::vector<operation> all;
    for (const unsigned op :
         {MDB_FIRST, MDB_LAST, MDB_NEXT, MDB_NEXT_DUP, MDB_NEXT_NODUP, MDB_PREV, MDB_PREV_DUP, MDB_PREV_NODUP,
          MDB_FIRST_DUP, MDB_LAST_DUP, MDB_GET_CURRENT, MDB_GET_MULTIPLE, MDB_NEXT_MULTIPLE, MDB_PREV_MULTIPLE}) {
        all.push_back({call::get, op, "", ""});
    }
    for (const unsigned op : {MDB_SET, MDB_SET_KEY, MDB_SET_RANGE}) {
        for (const char* const key : {"a", "c", "d", "e", "g"}) {
            all.push_back({call::get, op, key, ""});
        }
    }
    for (const unsigned op : {MDB_GET_BOTH, MDB_GET_BOTH_RANGE}) {
        for (const auto& [key, data] : items{{"a", "2"},
                                             {"b", "1"},
                                             {"b", "9"},
                                             {"c", "2"},
                                             {"d", "3"},
                                             {"d", "4"},
                                             {"d", "9"},
                                             {"f", "1"},
                                             {"g", "2"}}) {
            all.push_back({call::get, op, key, data});
        }
    }
    all.push_back({call::put, MDB_NOOVERWRITE, "d", "5"});
    all.push_back({call::put, MDB_NODUPDATA, "d", "2"});
    all.push_back({call::put, MDB_APPEND, "c", "1"});
    all.push_back({call::put, MDB_CURRENT, "d", "2"});
    all.push_back({call::put, 0, "d", "5"});
    all.push_back({call::put, 0, "", "x"});
    all.push_back({call::del, 0, "", ""});
    all.push_back({call::del, MDB_NODUPDATA, "", ""});
    all.push_back({call::count, 0, "", ""});
    return all;
}

/// What comes before the operation that fails.
std::vector<std::vector<operation>> all_places() {
    const operation to_middle{call::get, MDB_SET, "d", ""};
    const operation remove{call::del, 0, "", ""};
    return {{},
            {{call::get, MDB_FIRST, "", ""}},
            {{call::get, MDB_LAST, "", ""}},
            {to_middle},
            {{call::get, MDB_GET_BOTH, "d", "4"}},
            {{call::get, MDB_SET, "c", ""}},
            {to_middle, remove},
            {{call::get, MDB_LAST, "", ""}, remove},
            {{call::get, MDB_FIRST, "", ""}, remove, remove, remove}};
}

/// One library with an environment; the table is filled in transactions nested in one that never commits.
class subject {
public:
    subject(const std::string& name, const std::string& directory, const database_kind& kind)
        : lmdb_(lmdb(name)), kind_(kind) {
        std::filesystem::create_directory(directory);
        lmdb_.env_create(&environment_);
        lmdb_.env_set_maxdbs(environment_, 4);
        EXPECT_EQ(lmdb_.env_open(environment_, directory.c_str(), MDB_NOSYNC | MDB_NOTLS, 0600), 0);
        EXPECT_EQ(lmdb_.txn_begin(environment_, nullptr, 0, &outer_), 0);
        EXPECT_EQ(lmdb_.dbi_open(outer_, "items", MDB_CREATE | kind.flags, &database_), 0);
        for (const auto& [key, data] : kind.content) {
            EXPECT_EQ(insert(outer_, key, data), 0);
        }
        EXPECT_EQ(lmdb_.txn_commit(outer_), 0);
        EXPECT_EQ(lmdb_.txn_begin(environment_, nullptr, 0, &outer_), 0);
        EXPECT_EQ(lmdb_.txn_begin(environment_, nullptr, MDB_RDONLY, &reader_), 0);
    }
    subject(const subject&) = delete;
    subject& operator=(const subject&) = delete;
    ~subject() {
        lmdb_.txn_abort(outer_);
        lmdb_.txn_abort(reader_);
        lmdb_.env_close(environment_);
    }

    /// What each operation of a new cursor gave, then, where one writes, what the database holds.
    std::vector<std::string> run(const std::vector<operation>& all) {
        const bool changes = std::any_of(all.begin(), all.end(), writes);
        const bool renews = all.end() != std::find_if(all.begin(), all.end(),
                                                      [](const operation& one) { return one.what == call::renew; });
        MDB_txn* in = renews ? reader_ : outer_;
        if (changes) {
            EXPECT_EQ(lmdb_.txn_begin(environment_, outer_, 0, &in), 0);
        }
        MDB_cursor* used = nullptr;
        EXPECT_EQ(lmdb_.cursor_open(in, database_, &used), 0);
        std::vector<std::string> outcomes;
        for (const operation& one : all) {
            outcomes.push_back(perform(in, used, one));
        }
        lmdb_.cursor_close(used);
        if (changes) {
            outcomes.push_back(content(in));
            lmdb_.txn_abort(in);
        }
        return outcomes;
    }

private:
    [[nodiscard]] std::string key_of(const std::string& key) const {
        if ((kind_.flags & MDB_INTEGERKEY) == 0 || key.empty()) {
            return key;
        }
        const auto number = static_cast<unsigned>(key[0]);
        return {reinterpret_cast<const char*>(&number), sizeof(number)};
    }
    [[nodiscard]] std::string data_of(const std::string& data) const {
        return (kind_.flags & MDB_DUPFIXED) != 0 && data.size() == 1 ? std::string(4, data[0]) : data;
    }

    int insert(MDB_txn* in, const std::string& key, const std::string& data) const {
        const std::string stored_key = key_of(key);
        const std::string stored_data = data_of(data);
        MDB_val k = value_of(stored_key);
        MDB_val d = value_of(stored_data);
        return lmdb_.put(in, database_, &k, &d, 0);
    }

    int insert_nested(MDB_txn* in, const operation& one) const {
        MDB_txn* nested = nullptr;
        EXPECT_EQ(lmdb_.txn_begin(environment_, in, 0, &nested), 0);
        EXPECT_EQ(insert(nested, one.key, one.data), 0);
        return lmdb_.txn_commit(nested);
    }

    int renew() const {
        lmdb_.txn_reset(reader_);
        return lmdb_.txn_renew(reader_);
    }

    std::string perform(MDB_txn* in, MDB_cursor* used, const operation& one) const {
        const std::string key = key_of(one.key);
        const std::string data = data_of(one.data);
        const std::string unset = "?";
        MDB_val k = value_of(one.key.empty() && one.what == call::get ? unset : key);
        MDB_val d = value_of(one.data.empty() ? unset : data);
        std::size_t count = 0;
        switch (one.what) {
            case call::get: {
                const int code = lmdb_.cursor_get(used, &k, &d, static_cast<MDB_cursor_op>(one.flags));
                return code != 0 ? error_name(code) : fmt::format("{}={}", bytes_of(k), bytes_of(d));
            }
            case call::put: return error_name(lmdb_.cursor_put(used, &k, &d, one.flags));
            case call::del: return error_name(lmdb_.cursor_del(used, one.flags));
            case call::insert: return error_name(insert(in, one.key, one.data));
            case call::insert_nested: return error_name(insert_nested(in, one));
            case call::renew: return error_name(renew());
            case call::count: break;
        }
        const int code = lmdb_.cursor_count(used, &count);
        return code != 0 ? error_name(code) : std::to_string(count);
    }

    std::string content(MDB_txn* in) const {
        MDB_cursor* over = nullptr;
        EXPECT_EQ(lmdb_.cursor_open(in, database_, &over), 0);
        std::string all;
        MDB_val k{};
        MDB_val d{};
        while (lmdb_.cursor_get(over, &k, &d, MDB_NEXT) == 0) {
            all += fmt::format("{}={} ", bytes_of(k), bytes_of(d));
        }
        lmdb_.cursor_close(over);
        return all;
    }

    const lmdb_library& lmdb_;
    const database_kind& kind_;
    MDB_env* environment_ = nullptr;
    MDB_txn* outer_ = nullptr;
    MDB_txn* reader_ = nullptr;
    MDB_dbi database_ = 0;
};

bool fails(const std::string& outcome) { return outcome.starts_with("MDB_") || outcome == "EINVAL"; }

/// Where a cursor stands in liblmdb, by what MDB_GET_CURRENT says.
enum class stand : std::uint8_t { on, behind, none };

stand stand_of(const std::string& current) {
    return current == "MDB_NOTFOUND" ? stand::behind : fails(current) ? stand::none : stand::on;
}

bool is_step_among_values(const operation& one) {
    if (one.what == call::del) {
        return (one.flags & MDB_NODUPDATA) != 0;  // and then counts wrong
    }
    if (one.what != call::get) {
        return false;
    }
    switch (one.flags) {
        case MDB_NEXT:
        case MDB_NEXT_DUP:
        case MDB_NEXT_MULTIPLE:
        case MDB_PREV:
        case MDB_PREV_DUP:
        case MDB_PREV_MULTIPLE: return true;
        default: return false;
    }
}

/// Whether liblmdb may read what it never set, or damage the database.
bool is_undefined(const operation& one, stand at, bool sorts_duplicates) {
    const bool puts_current = one.what == call::put && one.flags == MDB_CURRENT;
    switch (at) {
        case stand::on: return puts_current && sorts_duplicates;
        case stand::behind:
            return one.what == call::count || puts_current || (sorts_duplicates && is_step_among_values(one));
        case stand::none: return sorts_duplicates && (is_step_among_values(one) || puts_current);
    }
    return false;
}

std::vector<database_kind> all_kinds() {
    const items single{{"b", "2"}, {"d", "2"}, {"f", "2"}};
    const items mixed{{"b", "2"}, {"d", "2"}, {"d", "4"}, {"d", "6"}, {"f", "2"}};
    items several;
    items many;
    for (const char* const key : {"b", "d", "f"}) {
        for (const char* const data : {"2", "4", "6"}) {
            several.emplace_back(key, data);
            many.emplace_back(key, data);
            for (int i = 0; i < 60; ++i) {
                many.emplace_back(key, fmt::format("{}{:03}{}", data, i, std::string(30, 'x')));
            }
        }
    }
    constexpr unsigned fixed = MDB_DUPSORT | MDB_DUPFIXED;
    return {{"plain", 0, single},
            {"none", 0, {}},
            {"integer keys", MDB_INTEGERKEY, single},
            {"reverse keys", MDB_REVERSEKEY, single},
            {"one each", MDB_DUPSORT, single},
            {"no duplicates", MDB_DUPSORT, {}},
            {"duplicates", MDB_DUPSORT, several},
            {"mixed", MDB_DUPSORT, mixed},
            {"trees of duplicates", MDB_DUPSORT, many},
            {"fixed", fixed, several},
            {"fixed and mixed", fixed, mixed},
            {"integer duplicates", fixed | MDB_INTEGERDUP | MDB_INTEGERKEY, several},
            {"reverse duplicates", MDB_DUPSORT | MDB_REVERSEDUP | MDB_REVERSEKEY, mixed}};
}

class cursor_table : public testing::TestWithParam<database_kind> {
protected:
    /// Fills the part of the table that begins at a place.
    void fill(const std::vector<operation>& place) {
        const bool sorts = (GetParam().flags & MDB_DUPSORT) != 0;
        for (const operation& failing : operations_) {
            std::vector<operation> all = place;
            all.push_back({call::get, MDB_GET_CURRENT, "", ""});
            const bool uncertain = is_undefined(failing, stand_of(debian_.run(all)[place.size()]), sorts);
            all.back() = failing;
            if (uncertain || !fails(debian_.run(all)[place.size()])) {
                continue;
            }
            all.push_back({call::get, MDB_GET_CURRENT, "", ""});
            const stand at = stand_of(debian_.run(all)[place.size() + 1]);
            for (const operation& after : operations_) {
                if (!is_undefined(after, at, sorts)) {
                    all.back() = after;
                    if (at == stand::none || !gives_nothing(all)) {
                        compare(all);
                        compare_beside_others(all);
                    }
                }
            }
        }
    }
    [[nodiscard]] std::size_t cells() const { return cells_; }

private:
    /// Whether liblmdb's MDB_GET_MULTIPLE succeeds, and sets nothing.
    bool gives_nothing(const std::vector<operation>& all) {
        const bool is_multiple = all.back().what == call::get && all.back().flags == MDB_GET_MULTIPLE;
        return is_multiple && debian_.run(all)[all.size() - 1] == "?=?";
    }

    /// Compares while others write, or after the cursor's transaction was renewed.
    void compare_beside_others(const std::vector<operation>& all) {
        std::vector<operation> more = all;
        const auto between = more.end() - 1;
        const bool reads = std::none_of(all.begin(), all.end(), writes);
        if (reads && cells_ % 4 == 0) {
            more.insert(between, {call::renew, 0, "", ""});
        } else {
            more.insert(between, {cells_ % 3 == 0 ? call::insert_nested : call::insert, 0, "ab", "2"});
        }
        compare(more);
    }

    void compare(const std::vector<operation>& all) {
        ++cells_;
        const std::vector<std::string> expected = debian_.run(all);
        const std::vector<std::string> found = holdfast_.run(all);
        if (expected != found) {
            std::string text;
            for (std::size_t i = 0; i < expected.size(); ++i) {
                text += fmt::format("\n  {}: {}{}", i < all.size() ? name_of(all[i]) : "content", expected[i],
                                    expected[i] == found[i] ? "" : ", ours: " + found[i]);
            }
            ADD_FAILURE() << text;
        }
    }

    base::scratch_directory place_;
    subject debian_{"debian", place_.path("debian"), GetParam()};
    subject holdfast_{"holdfast", place_.path("holdfast"), GetParam()};
    std::vector<operation> operations_ = all_operations();
    std::size_t cells_ = 0;
};

TEST_P(cursor_table, is_that_of_liblmdb) {
    for (const std::vector<operation>& place : all_places()) {
        fill(place);
        if (HasFailure()) {
            return;
        }
    }
    EXPECT_GT(cells(), 1000U);
}

INSTANTIATE_TEST_SUITE_P(of, cursor_table, testing::ValuesIn(all_kinds()), [](const auto& made) {
    std::string name = made.param.name;
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
});

}  // namespace
}  // namespace holdfast::test
