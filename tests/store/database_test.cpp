// What LMDB's documentation says of databases, and of writing and reading without cursors, sentence by sentence.
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "store/store_fixture.hpp"

namespace holdfast::test {
namespace {

class store_database : public store_test {
protected:
    static std::string integer(std::uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }
};
class store_items : public store_database {};
INSTANTIATE_TEST_SUITE_P(of, store_database, testing::ValuesIn(lmdb_libraries()), name_of_library);
INSTANTIATE_TEST_SUITE_P(of, store_items, testing::ValuesIn(lmdb_libraries()), name_of_library);

TEST_P(store_database, is_created_only_where_asked_for) {
    open();
    MDB_txn* transaction = begin();
    MDB_dbi named = 0;
    EXPECT_EQ(mdb.dbi_open(transaction, "named", 0, &named), MDB_NOTFOUND);
    EXPECT_EQ(mdb.dbi_open(transaction, "named", MDB_CREATE, &named), 0);
    EXPECT_EQ(database(transaction, "named"), named) << "the handle of the database that is open";
    commit(transaction);
    open();
    transaction = begin(MDB_RDONLY);
    EXPECT_EQ(mdb.dbi_open(transaction, "named", 0, &named), 0);
    mdb.txn_abort(transaction);
}

TEST_P(store_database, there_are_as_many_as_announced) {
    open(0, [&](MDB_env* made) { EXPECT_EQ(mdb.env_set_maxdbs(made, 2), 0); });
    MDB_txn* const transaction = begin();
    database(transaction, "first", MDB_CREATE);
    database(transaction, "second", MDB_CREATE);
    MDB_dbi third = 0;
    EXPECT_EQ(mdb.dbi_open(transaction, "third", MDB_CREATE, &third), MDB_DBS_FULL);
    commit(transaction);
}

TEST_P(store_database, names_are_keys_of_the_unnamed_one) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi main = database(transaction);
    database(transaction, "b", MDB_CREATE);
    database(transaction, "a", MDB_CREATE);
    EXPECT_EQ(put(transaction, main, "record", "data"), 0);
    std::string names;
    for (const auto& [name, data] : all(transaction, main)) {
        names += name + " ";
    }
    EXPECT_EQ(names, "a b record ");
    MDB_dbi wrong = 0;
    EXPECT_EQ(mdb.dbi_open(transaction, "record", 0, &wrong), MDB_INCOMPATIBLE);
    EXPECT_EQ(put(transaction, main, "a", "data"), MDB_INCOMPATIBLE) << "may be read but not written";
    mdb.txn_abort(transaction);
}

TEST_P(store_database, an_unnamed_one_with_duplicates_has_no_named_ones) {
    open();
    MDB_txn* const transaction = begin();
    database(transaction, nullptr, MDB_DUPSORT);
    MDB_dbi named = 0;
    EXPECT_EQ(mdb.dbi_open(transaction, "named", MDB_CREATE, &named), MDB_INCOMPATIBLE);
    mdb.txn_abort(transaction);
}

TEST_P(store_database, flags_are_kept) {
    open();
    constexpr unsigned flags = MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_REVERSEKEY;
    MDB_txn* transaction = begin();
    database(transaction, "named", MDB_CREATE | flags);
    commit(transaction);
    open();
    transaction = begin(MDB_RDONLY);
    unsigned found = 0;
    EXPECT_EQ(mdb.dbi_flags(transaction, database(transaction, "named"), &found), 0);
    EXPECT_EQ(found, flags);
    mdb.txn_abort(transaction);
}

TEST_P(store_database, a_handle_of_an_aborted_transaction_is_closed) {
    open();
    MDB_txn* transaction = begin();
    const MDB_dbi named = database(transaction, "named", MDB_CREATE);
    mdb.txn_abort(transaction);
    transaction = begin();
    EXPECT_EQ(put(transaction, named, "key", "data"), EINVAL);
    MDB_dbi again = 0;
    EXPECT_EQ(mdb.dbi_open(transaction, "named", 0, &again), MDB_NOTFOUND);
    mdb.txn_abort(transaction);
}

TEST_P(store_database, a_handle_is_its_transactions_until_that_commits) {
    open();
    MDB_txn* transaction = begin();
    database(transaction, "named", MDB_CREATE);
    commit(transaction);
    open();
    transaction = begin(MDB_RDONLY);
    const MDB_dbi named = database(transaction, "named");
    MDB_txn* const other = begin(MDB_RDONLY);
    EXPECT_EQ(get(other, named, "key"), "EINVAL");
    mdb.txn_abort(other);
    EXPECT_EQ(get(transaction, named, "key"), "MDB_NOTFOUND");
    commit(transaction);
    transaction = begin(MDB_RDONLY);
    EXPECT_EQ(get(transaction, named, "key"), "MDB_NOTFOUND");
    mdb.txn_abort(transaction);
    transaction = begin();
    MDB_txn* const child = begin(0, transaction);
    const MDB_dbi later = database(child, "later", MDB_CREATE);
    commit(child);
    EXPECT_EQ(put(transaction, later, "key", "data"), 0);
    commit(transaction);
}

TEST_P(store_database, a_handle_that_was_never_opened_is_EINVAL) {
    open();
    MDB_txn* const transaction = begin();
    EXPECT_EQ(put(transaction, 9, "key", "data"), EINVAL);
    EXPECT_EQ(get(transaction, 9, "key"), "EINVAL");
    MDB_cursor* made = nullptr;
    EXPECT_EQ(mdb.cursor_open(transaction, 9, &made), EINVAL);
    MDB_stat numbers{};
    EXPECT_EQ(mdb.stat(transaction, 9, &numbers), EINVAL);
    mdb.txn_abort(transaction);
}

TEST_P(store_database, drop_empties_or_removes) {
    open();
    MDB_txn* transaction = begin();
    const MDB_dbi named = database(transaction, "named", MDB_CREATE);
    for (int i = 0; i < 500; ++i) {
        EXPECT_EQ(
            put(transaction, named, "key" + std::to_string(i), std::string(50U + 10U * static_cast<unsigned>(i), 'd')),
            0);
    }
    EXPECT_EQ(mdb.drop(transaction, named, 0), 0);
    EXPECT_TRUE(all(transaction, named).empty());
    EXPECT_EQ(put(transaction, named, "key", "data"), 0);
    commit(transaction);
    transaction = begin();
    EXPECT_EQ(mdb.drop(transaction, named, 1), 0);
    MDB_dbi gone = 0;
    EXPECT_EQ(mdb.dbi_open(transaction, "named", 0, &gone), MDB_NOTFOUND);
    commit(transaction);
    transaction = begin(MDB_RDONLY);
    EXPECT_TRUE(all(transaction, database(transaction)).empty());
    mdb.txn_abort(transaction);
}

TEST_P(store_database, statistics_count_items) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi plain = database(transaction, "plain", MDB_CREATE);
    const MDB_dbi dups = database(transaction, "dups", MDB_CREATE | MDB_DUPSORT);
    MDB_stat numbers{};
    EXPECT_EQ(mdb.stat(transaction, plain, &numbers), 0);
    EXPECT_EQ(numbers.ms_entries, 0U);
    EXPECT_EQ(numbers.ms_depth, 0U);
    for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(put(transaction, plain, std::to_string(i), "data"), 0);
        EXPECT_EQ(put(transaction, dups, std::to_string(i % 3), std::to_string(i)), 0);
    }
    EXPECT_EQ(put(transaction, plain, "large", std::string(100000, 'd')), 0);
    EXPECT_EQ(mdb.stat(transaction, plain, &numbers), 0);
    EXPECT_EQ(numbers.ms_entries, 301U);
    EXPECT_GE(numbers.ms_depth, 1U);
    EXPECT_GE(numbers.ms_leaf_pages, 1U);
    EXPECT_GE(numbers.ms_overflow_pages, 100000U / numbers.ms_psize);
    EXPECT_EQ(mdb.stat(transaction, dups, &numbers), 0);
    EXPECT_EQ(numbers.ms_entries, 300U);
    commit(transaction);
    EXPECT_EQ(mdb.env_stat(environment(), &numbers), 0);
    EXPECT_EQ(numbers.ms_entries, 2U) << "of the unnamed database";
}

TEST_P(store_items, put_replaces_get_finds_and_del_removes) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi main = database(transaction);
    EXPECT_EQ(get(transaction, main, "key"), "MDB_NOTFOUND");
    EXPECT_EQ(put(transaction, main, "key", "first"), 0);
    EXPECT_EQ(put(transaction, main, "key", "second"), 0);
    EXPECT_EQ(get(transaction, main, "key"), "second");
    EXPECT_EQ(del(transaction, main, "key", "other data is ignored"), 0);
    EXPECT_EQ(get(transaction, main, "key"), "MDB_NOTFOUND");
    EXPECT_EQ(del(transaction, main, "key"), MDB_NOTFOUND);
    mdb.txn_abort(transaction);
}

TEST_P(store_items, sizes_of_keys_have_limits) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi main = database(transaction);
    const MDB_dbi dups = database(transaction, "dups", MDB_CREATE | MDB_DUPSORT);
    EXPECT_EQ(put(transaction, main, "", "data"), MDB_BAD_VALSIZE);
    EXPECT_EQ(put(transaction, main, std::string(512, 'k'), "data"), MDB_BAD_VALSIZE);
    EXPECT_EQ(put(transaction, main, std::string(511, 'k'), "data"), 0);
    EXPECT_EQ(put(transaction, main, "k", ""), 0) << "data may be empty";
    EXPECT_EQ(get(transaction, main, "k"), "");
    EXPECT_EQ(get(transaction, main, ""), "MDB_BAD_VALSIZE");
    EXPECT_EQ(put(transaction, dups, "key", std::string(512, 'd')), MDB_BAD_VALSIZE);
    EXPECT_EQ(put(transaction, dups, "key", std::string(511, 'd')), 0);
    commit(transaction);
}

TEST_P(store_items, may_be_large) {
    open();
    MDB_txn* transaction = begin();
    const MDB_dbi main = database(transaction);
    const std::string large(9'000'001, 'l');  // NOLINT(bugprone-string-constructor): as long as is meant
    EXPECT_EQ(put(transaction, main, "large", large), 0);
    EXPECT_EQ(put(transaction, main, "other", large.substr(0, 4097)), 0);
    commit(transaction);
    transaction = begin();
    EXPECT_EQ(get(transaction, main, "large"), large);
    EXPECT_EQ(put(transaction, main, "large", "small"), 0);
    EXPECT_EQ(get(transaction, main, "large"), "small");
    EXPECT_EQ(get(transaction, main, "other"), large.substr(0, 4097));
    commit(transaction);
}

TEST_P(store_items, no_overwrite_shows_what_is_there) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi main = database(transaction);
    EXPECT_EQ(put(transaction, main, "key", "first"), 0);
    MDB_val key = value_of("key");
    MDB_val data = value_of("second");
    EXPECT_EQ(mdb.put(transaction, main, &key, &data, MDB_NOOVERWRITE), MDB_KEYEXIST);
    EXPECT_EQ(bytes_of(data), "first");
    const MDB_dbi dups = database(transaction, "dups", MDB_CREATE | MDB_DUPSORT);
    EXPECT_EQ(put(transaction, dups, "key", "first", MDB_NOOVERWRITE), 0);
    EXPECT_EQ(put(transaction, dups, "key", "second", MDB_NOOVERWRITE), MDB_KEYEXIST) << "even with duplicates";
    mdb.txn_abort(transaction);
}

TEST_P(store_items, reserved_space_is_filled_in_later) {
    open();
    MDB_txn* transaction = begin();
    const MDB_dbi main = database(transaction);
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{100000}}) {
        const std::string name = std::to_string(size);
        MDB_val key = value_of(name);
        MDB_val data{size, nullptr};
        ASSERT_EQ(mdb.put(transaction, main, &key, &data, MDB_RESERVE), 0);
        ASSERT_EQ(data.mv_size, size);
        std::memset(data.mv_data, 'r', size);
    }
    commit(transaction);
    transaction = begin(MDB_RDONLY);
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{100000}}) {
        EXPECT_EQ(get(transaction, main, std::to_string(size)), std::string(size, 'r'));
    }
    mdb.txn_abort(transaction);
}

/// LMDB's documentation forbids it, and programs do it: for a new key liblmdb reserves space all the same.
TEST_P(store_items, space_is_reserved_for_the_first_of_duplicates) {
    open();
    MDB_txn* transaction = begin();
    for (const unsigned flags : {unsigned{MDB_DUPSORT}, unsigned{MDB_DUPSORT | MDB_DUPFIXED}}) {
        const std::string name = std::to_string(flags);
        const MDB_dbi dups = database(transaction, name.c_str(), MDB_CREATE | flags);
        MDB_val key = value_of("key");
        MDB_val data{4, nullptr};
        ASSERT_EQ(mdb.put(transaction, dups, &key, &data, MDB_RESERVE), 0);
        std::memcpy(data.mv_data, "late", 4);
        EXPECT_EQ(put(transaction, dups, "key", "more"), 0);
        MDB_cursor* const at = cursor(transaction, dups);
        key = value_of("last");
        data = {4, nullptr};
        ASSERT_EQ(mdb.cursor_put(at, &key, &data, MDB_RESERVE), 0);
        std::memcpy(data.mv_data, "also", 4);
        EXPECT_EQ(move(at, MDB_GET_CURRENT), "last=also");
        mdb.cursor_close(at);
        EXPECT_EQ(all(transaction, dups), (items{{"key", "late"}, {"key", "more"}, {"last", "also"}}));
    }
    mdb.txn_abort(transaction);
}

TEST_P(store_items, appending_needs_order) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi main = database(transaction, "plain", MDB_CREATE);
    for (int i = 1000; i < 2000; ++i) {
        EXPECT_EQ(put(transaction, main, std::to_string(i), "data", MDB_APPEND), 0);
    }
    EXPECT_EQ(put(transaction, main, "1500", "data", MDB_APPEND), MDB_KEYEXIST);
    EXPECT_EQ(put(transaction, main, "0", "data", MDB_APPEND), MDB_KEYEXIST);
    const MDB_dbi dups = database(transaction, "dups", MDB_CREATE | MDB_DUPSORT);
    for (int i = 1000; i < 2000; ++i) {
        EXPECT_EQ(put(transaction, dups, "key", std::to_string(i), MDB_APPENDDUP), 0);
    }
    EXPECT_EQ(put(transaction, dups, "key", "1500", MDB_APPENDDUP), MDB_KEYEXIST);
    EXPECT_EQ(all(transaction, main).size(), 1000U);
    EXPECT_EQ(all(transaction, dups).size(), 1000U);
    commit(transaction);
}

TEST_P(store_items, duplicates_are_sorted_and_unique) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi dups = database(transaction, nullptr, MDB_DUPSORT);
    for (const char* data : {"c", "a", "b", "a"}) {
        EXPECT_EQ(put(transaction, dups, "key", data), 0);
    }
    EXPECT_EQ(put(transaction, dups, "key", "a", MDB_NODUPDATA), MDB_KEYEXIST);
    EXPECT_EQ(all(transaction, dups), (items{{"key", "a"}, {"key", "b"}, {"key", "c"}}));
    EXPECT_EQ(get(transaction, dups, "key"), "a") << "the first is returned";
    EXPECT_EQ(del(transaction, dups, "key", "b"), 0);
    EXPECT_EQ(del(transaction, dups, "key", "b"), MDB_NOTFOUND);
    EXPECT_EQ(all(transaction, dups), (items{{"key", "a"}, {"key", "c"}}));
    EXPECT_EQ(del(transaction, dups, "key"), 0) << "all of the key";
    EXPECT_TRUE(all(transaction, dups).empty());
    commit(transaction);
}

TEST_P(store_items, fixed_duplicates_have_one_size) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi dups = database(transaction, nullptr, MDB_DUPSORT | MDB_DUPFIXED);
    EXPECT_EQ(put(transaction, dups, "key", "1234"), 0);
    EXPECT_EQ(put(transaction, dups, "key", "5678"), 0);
    if (GetParam().name != "debian") {  // liblmdb 0.9.24 takes them, and damages the database
        EXPECT_EQ(put(transaction, dups, "key", "12"), MDB_BAD_VALSIZE);
        EXPECT_EQ(put(transaction, dups, "key", "123456"), MDB_BAD_VALSIZE);
    }
    EXPECT_EQ(all(transaction, dups), (items{{"key", "1234"}, {"key", "5678"}}));
    mdb.txn_abort(transaction);
}

TEST_P(store_items, are_sorted_as_the_flags_say) {
    open();
    MDB_txn* const transaction = begin();
    const MDB_dbi lexical = database(transaction, "lexical", MDB_CREATE);
    const MDB_dbi reverse = database(transaction, "reverse", MDB_CREATE | MDB_REVERSEKEY);
    const MDB_dbi integers = database(transaction, "integers", MDB_CREATE | MDB_INTEGERKEY);
    const MDB_dbi dups = database(transaction, "dups", MDB_CREATE | MDB_DUPSORT | MDB_REVERSEDUP);
    for (const char* key : {"ab", "b", "a", "ba", "\xff"}) {
        EXPECT_EQ(put(transaction, lexical, key, ""), 0);
        EXPECT_EQ(put(transaction, reverse, key, ""), 0);
        EXPECT_EQ(put(transaction, dups, "k", key), 0);
    }
    for (const std::uint64_t key : {256U, 1U, 65536U, 2U}) {
        EXPECT_EQ(put(transaction, integers, integer(key), ""), 0);
    }
    EXPECT_EQ(all(transaction, lexical), (items{{"a", ""}, {"ab", ""}, {"b", ""}, {"ba", ""}, {"\xff", ""}}))
        << "shorter before longer, bytes without sign";
    EXPECT_EQ(all(transaction, reverse), (items{{"a", ""}, {"ba", ""}, {"b", ""}, {"ab", ""}, {"\xff", ""}}));
    EXPECT_EQ(all(transaction, dups), (items{{"k", "a"}, {"k", "ba"}, {"k", "b"}, {"k", "ab"}, {"k", "\xff"}}));
    EXPECT_EQ(all(transaction, integers),
              (items{{integer(1), ""}, {integer(2), ""}, {integer(256), ""}, {integer(65536), ""}}));
    const std::string a = "b";
    const std::string b = "ab";
    const MDB_val first = value_of(a);
    const MDB_val second = value_of(b);
    EXPECT_GT(mdb.cmp(transaction, lexical, &first, &second), 0);
    EXPECT_LT(mdb.cmp(transaction, reverse, &first, &second), 0);
    EXPECT_EQ(mdb.cmp(transaction, reverse, &first, &first), 0);
    EXPECT_LT(mdb.dcmp(transaction, dups, &first, &second), 0);
    commit(transaction);
}

TEST_P(store_items, are_sorted_by_functions_of_the_program) {
    open();
    const auto backwards = [](const MDB_val* a, const MDB_val* b) { return bytes_of(*b).compare(bytes_of(*a)); };
    MDB_txn* transaction = begin();
    MDB_dbi dups = database(transaction, "dups", MDB_CREATE | MDB_DUPSORT);
    EXPECT_EQ(mdb.set_compare(transaction, dups, backwards), 0);
    EXPECT_EQ(mdb.set_dupsort(transaction, dups, backwards), 0);
    for (const char* key : {"b", "c", "a"}) {
        EXPECT_EQ(put(transaction, dups, key, "1"), 0);
        EXPECT_EQ(put(transaction, dups, key, "2"), 0);
    }
    commit(transaction);
    open();
    transaction = begin();
    dups = database(transaction, "dups");
    EXPECT_EQ(mdb.set_compare(transaction, dups, backwards), 0);
    EXPECT_EQ(mdb.set_dupsort(transaction, dups, backwards), 0);
    EXPECT_EQ(all(transaction, dups), (items{{"c", "2"}, {"c", "1"}, {"b", "2"}, {"b", "1"}, {"a", "2"}, {"a", "1"}}));
    EXPECT_EQ(del(transaction, dups, "b", "2"), 0);
    EXPECT_EQ(get(transaction, dups, "b"), "1");
    commit(transaction);
}

}  // namespace
}  // namespace holdfast::test
