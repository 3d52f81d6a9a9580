// What LMDB's documentation says of cursors, sentence by sentence.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "store/store_fixture.hpp"

namespace holdfast::test {
namespace {

class store_cursor : public store_test {
protected:
    ~store_cursor() override {
        if (used_ != nullptr) {
            mdb.cursor_close(used_);
        }
        if (transaction_ != nullptr) {
            mdb.txn_abort(transaction_);
        }
    }

    /// A write transaction, and a cursor of a database with a=1, b=1, b=2, b=3, c=1 (without duplicates: b=3 alone).
    void prepare(unsigned flags = MDB_DUPSORT) {
        open();
        transaction_ = begin();
        database_ = database(transaction_, "items", MDB_CREATE | flags);
        for (const auto& [key, data] : items{{"a", "1"}, {"b", "1"}, {"b", "2"}, {"b", "3"}, {"c", "1"}}) {
            EXPECT_EQ(put(transaction_, database_, key, data), 0);
        }
        used_ = cursor(transaction_, database_);
    }
    std::string go(MDB_cursor_op op, const std::string& key = "", const std::string& data = "") {
        return move(used_, op, key, data);
    }
    int write(const std::string& key, const std::string& data, unsigned flags = 0) {
        MDB_val k = value_of(key);
        MDB_val d = value_of(data);
        return mdb.cursor_put(used_, &k, &d, flags);
    }
    items content() { return all(transaction_, database_); }
    /// The transaction ends, and with it the cursor.
    void finish() {
        used_ = nullptr;
        commit(std::exchange(transaction_, nullptr));
    }

    MDB_txn* transaction_ = nullptr;
    MDB_dbi database_ = 0;
    MDB_cursor* used_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(of, store_cursor, testing::ValuesIn(lmdb_libraries()), name_of_library);

TEST_P(store_cursor, goes_from_end_to_end) {
    prepare();
    EXPECT_EQ(go(MDB_FIRST), "a=1");
    EXPECT_EQ(go(MDB_NEXT), "b=1");
    EXPECT_EQ(go(MDB_NEXT), "b=2");
    EXPECT_EQ(go(MDB_NEXT_NODUP), "c=1");
    EXPECT_EQ(go(MDB_NEXT), "MDB_NOTFOUND");
    EXPECT_EQ(go(MDB_LAST), "c=1");
    EXPECT_EQ(go(MDB_PREV), "b=3");
    EXPECT_EQ(go(MDB_PREV), "b=2");
    EXPECT_EQ(go(MDB_PREV_NODUP), "a=1");
    EXPECT_EQ(go(MDB_PREV), "MDB_NOTFOUND");
}

TEST_P(store_cursor, a_new_one_begins_at_the_ends) {
    prepare(0);
    EXPECT_EQ(go(MDB_GET_CURRENT), "EINVAL");
    EXPECT_EQ(go(MDB_NEXT), "a=1");
    MDB_cursor* const other = cursor(transaction_, database_);
    EXPECT_EQ(move(other, MDB_PREV), "c=1");
    mdb.cursor_close(other);
}

TEST_P(store_cursor, goes_among_the_duplicates_of_a_key) {
    prepare();
    EXPECT_EQ(go(MDB_SET, "b"), "b=1");
    EXPECT_EQ(go(MDB_PREV_DUP), "MDB_NOTFOUND");
    EXPECT_EQ(go(MDB_SET, "b"), "b=1");
    EXPECT_EQ(go(MDB_NEXT_DUP), "b=2");
    EXPECT_EQ(go(MDB_GET_CURRENT), "b=2");
    EXPECT_EQ(go(MDB_LAST_DUP, "b"), "b=3");
    EXPECT_EQ(go(MDB_FIRST_DUP, "b"), "b=1");
    EXPECT_EQ(go(MDB_LAST_DUP, "b"), "b=3");
    EXPECT_EQ(go(MDB_NEXT_DUP), "MDB_NOTFOUND");
    EXPECT_EQ(go(MDB_SET, "a"), "a=1");
    EXPECT_EQ(go(MDB_NEXT_DUP), "MDB_NOTFOUND");
}

TEST_P(store_cursor, goes_to_keys_and_items) {
    prepare();
    EXPECT_EQ(go(MDB_SET, "aa"), "MDB_NOTFOUND");
    EXPECT_EQ(go(MDB_SET_KEY, "c"), "c=1");
    EXPECT_EQ(go(MDB_SET_RANGE, "aa"), "b=1");
    EXPECT_EQ(go(MDB_SET_RANGE, "b"), "b=1");
    EXPECT_EQ(go(MDB_SET_RANGE, "d"), "MDB_NOTFOUND");
    EXPECT_EQ(go(MDB_GET_BOTH, "b", "2"), "b=2");
    EXPECT_EQ(go(MDB_GET_BOTH, "b", "22"), "MDB_NOTFOUND");
    EXPECT_EQ(go(MDB_GET_BOTH_RANGE, "b", "22"), "b=3");
    EXPECT_EQ(go(MDB_GET_BOTH_RANGE, "b", "4"), "MDB_NOTFOUND");
    EXPECT_EQ(go(MDB_GET_BOTH_RANGE, "bb", "1"), "MDB_NOTFOUND");
}

TEST_P(store_cursor, what_is_for_duplicates_is_refused_without) {
    prepare(0);
    EXPECT_EQ(go(MDB_SET, "b"), "b=3");
    for (const MDB_cursor_op op : {MDB_GET_BOTH, MDB_GET_BOTH_RANGE, MDB_FIRST_DUP, MDB_LAST_DUP, MDB_GET_MULTIPLE,
                                   MDB_NEXT_MULTIPLE, MDB_PREV_MULTIPLE}) {
        EXPECT_EQ(go(op, "b", "3"), "MDB_INCOMPATIBLE") << op;
    }
    std::size_t count = 0;
    EXPECT_EQ(mdb.cursor_count(used_, &count), MDB_INCOMPATIBLE);
    EXPECT_EQ(write("d", "1", MDB_NODUPDATA), 0) << "which has no meaning here, and is not refused";
}

TEST_P(store_cursor, counts_duplicates) {
    prepare();
    std::size_t count = 0;
    EXPECT_EQ(mdb.cursor_count(used_, &count), EINVAL) << "it is not initialized";
    EXPECT_EQ(mdb.cursor_count(used_, nullptr), EINVAL);
    EXPECT_EQ(go(MDB_SET, "b"), "b=1");
    EXPECT_EQ(mdb.cursor_count(used_, &count), 0);
    EXPECT_EQ(count, 3U);
    EXPECT_EQ(go(MDB_SET, "a"), "a=1");
    EXPECT_EQ(mdb.cursor_count(used_, &count), 0);
    EXPECT_EQ(count, 1U);
}

TEST_P(store_cursor, stands_on_what_it_put) {
    prepare();
    EXPECT_EQ(write("b", "0"), 0);
    EXPECT_EQ(go(MDB_GET_CURRENT), "b=0");
    EXPECT_EQ(go(MDB_NEXT), "b=1");
    EXPECT_EQ(write("bb", "9"), 0);
    EXPECT_EQ(go(MDB_PREV), "b=3");
    EXPECT_EQ(write("b", "2", MDB_NODUPDATA), MDB_KEYEXIST);
    EXPECT_EQ(write("b", "7", MDB_NOOVERWRITE), MDB_KEYEXIST);
}

TEST_P(store_cursor, replaces_the_current_item) {
    prepare(0);
    EXPECT_EQ(write("b", "x", MDB_CURRENT), EINVAL) << "there is none";
    EXPECT_EQ(go(MDB_SET, "b"), "b=3");
    EXPECT_EQ(write("b", "x", MDB_CURRENT), 0);
    EXPECT_EQ(write("b", std::string(5000, 'y'), MDB_CURRENT), 0) << "of another size";
    EXPECT_EQ(go(MDB_GET_CURRENT), "b=" + std::string(5000, 'y'));
    EXPECT_EQ(go(MDB_NEXT), "c=1");
}

TEST_P(store_cursor, finds_the_same_item_by_next_and_current_after_a_removal) {
    for (const MDB_cursor_op op : {MDB_NEXT, MDB_GET_CURRENT}) {
        prepare(0);
        EXPECT_EQ(go(MDB_SET, "b"), "b=3");
        EXPECT_EQ(mdb.cursor_del(used_, 0), 0);
        EXPECT_EQ(go(op), "c=1");
        EXPECT_EQ(go(MDB_PREV), "a=1");
        finish();
    }
}

/// Was, in our library: an item alone of its key was removed, and what followed was taken for one alone, too: it was
/// shown as the bytes of all its items, and removed with all of them.
TEST_P(store_cursor, goes_on_behind_a_removal) {
    prepare();
    EXPECT_EQ(go(MDB_SET, "a"), "a=1");
    EXPECT_EQ(mdb.cursor_del(used_, 0), 0);
    EXPECT_EQ(go(MDB_GET_CURRENT), "b=1");
    std::size_t count = 0;
    EXPECT_EQ(mdb.cursor_count(used_, &count), 0);
    EXPECT_EQ(count, 3U);
    EXPECT_EQ(put(transaction_, database_, "a", "1"), 0);
    EXPECT_EQ(go(MDB_SET, "a"), "a=1");
    EXPECT_EQ(mdb.cursor_del(used_, 0), 0);
    EXPECT_EQ(mdb.cursor_del(used_, 0), 0);
    EXPECT_EQ(content(), (items{{"b", "2"}, {"b", "3"}, {"c", "1"}}));
    MDB_stat found{};
    EXPECT_EQ(mdb.stat(transaction_, database_, &found), 0);
    EXPECT_EQ(found.ms_entries, 3U);
}

TEST_P(store_cursor, removes_an_item_or_all_of_its_key) {
    prepare();
    EXPECT_EQ(mdb.cursor_del(used_, 0), EINVAL);
    EXPECT_EQ(go(MDB_GET_BOTH, "b", "2"), "b=2");
    EXPECT_EQ(mdb.cursor_del(used_, 0), 0);
    EXPECT_EQ(go(MDB_NEXT), "b=3");
    EXPECT_EQ(content(), (items{{"a", "1"}, {"b", "1"}, {"b", "3"}, {"c", "1"}}));
    EXPECT_EQ(mdb.cursor_del(used_, MDB_NODUPDATA), 0);
    EXPECT_EQ(content(), (items{{"a", "1"}, {"c", "1"}}));
}

TEST_P(store_cursor, keeps_its_item_while_others_write) {
    prepare(0);
    EXPECT_EQ(go(MDB_SET, "b"), "b=3");
    for (int i = 0; i < 2000; ++i) {
        EXPECT_EQ(put(transaction_, database_, "a" + std::to_string(i), std::string(100, 'd')), 0);
    }
    EXPECT_EQ(go(MDB_GET_CURRENT), "b=3");
    EXPECT_EQ(go(MDB_NEXT), "c=1");
    EXPECT_EQ(go(MDB_SET, "b"), "b=3");
    for (int i = 0; i < 2000; ++i) {
        EXPECT_EQ(del(transaction_, database_, "a" + std::to_string(i)), 0);
    }
    EXPECT_EQ(go(MDB_PREV), "a=1");
}

TEST_P(store_cursor, a_parents_cursor_follows_its_child) {
    prepare(0);
    EXPECT_EQ(go(MDB_SET, "b"), "b=3");
    for (const bool keep : {false, true}) {
        MDB_txn* const child = begin(0, transaction_);
        for (int i = 0; i < 500; ++i) {
            EXPECT_EQ(put(child, database_, "a" + std::to_string(i), std::string(100, 'd')), 0);
        }
        keep ? commit(child) : mdb.txn_abort(child);
        EXPECT_EQ(go(MDB_GET_CURRENT), "b=3");
    }
    EXPECT_EQ(go(MDB_PREV), "a99=" + std::string(100, 'd'));
}

TEST_P(store_cursor, writes_and_reads_many_at_once) {
    open();
    transaction_ = begin();
    database_ = database(transaction_, "items", MDB_CREATE | MDB_DUPSORT | MDB_DUPFIXED);
    used_ = cursor(transaction_, database_);
    std::string elements;
    for (int i = 1000; i < 4000; ++i) {
        elements += std::to_string(i);
    }
    MDB_val key = value_of("key");
    MDB_val data[2] = {value_of(elements), {3000, nullptr}};
    data[0].mv_size = 4;
    EXPECT_EQ(mdb.cursor_put(used_, &key, data, MDB_MULTIPLE), 0);
    EXPECT_EQ(data[1].mv_size, 3000U);
    std::size_t count = 0;
    EXPECT_EQ(go(MDB_SET, "key"), "key=1000");
    EXPECT_EQ(mdb.cursor_count(used_, &count), 0);
    EXPECT_EQ(count, 3000U);
    std::string found;
    MDB_val got{};
    for (int code = mdb.cursor_get(used_, &key, &got, MDB_GET_MULTIPLE); code == 0;
         code = mdb.cursor_get(used_, &key, &got, MDB_NEXT_MULTIPLE)) {
        EXPECT_EQ(got.mv_size % 4, 0U);
        found += bytes_of(got);
    }
    EXPECT_EQ(found, elements);
    EXPECT_EQ(go(MDB_LAST), "key=3999");
    found.clear();
    for (int code = mdb.cursor_get(used_, &key, &got, MDB_GET_MULTIPLE); code == 0;
         code = mdb.cursor_get(used_, &key, &got, MDB_PREV_MULTIPLE)) {
        found.insert(0, bytes_of(got));
    }
    EXPECT_EQ(found, elements);
}

TEST_P(store_cursor, knows_its_transaction_and_database) {
    prepare();
    EXPECT_EQ(mdb.cursor_txn(used_), transaction_);
    EXPECT_EQ(mdb.cursor_dbi(used_), database_);
}

TEST_P(store_cursor, of_a_reader_is_renewed_and_closed_after_its_transaction) {
    prepare();
    finish();
    MDB_txn* reader = begin(MDB_RDONLY);
    MDB_cursor* const kept = cursor(reader, database_);
    EXPECT_EQ(move(kept, MDB_LAST), "c=1");
    mdb.txn_abort(reader);
    MDB_txn* const writer = begin();
    EXPECT_EQ(put(writer, database_, "d", "1"), 0);
    commit(writer);
    reader = begin(MDB_RDONLY);
    EXPECT_EQ(mdb.cursor_renew(reader, kept), 0);
    EXPECT_EQ(mdb.cursor_txn(kept), reader);
    EXPECT_EQ(move(kept, MDB_LAST), "d=1");
    mdb.txn_abort(reader);
    mdb.cursor_close(kept);
}

/// Was, in our library: it began anew at the first item, so a program that renews for each step never came to an end.
TEST_P(store_cursor, of_a_reader_goes_on_after_a_reset) {
    for (const unsigned flags : {0U, unsigned{MDB_DUPSORT}}) {
        prepare(flags);
        const items expected = content();
        finish();
        MDB_txn* const reader = begin(MDB_RDONLY);
        used_ = cursor(reader, database_);
        items found;
        MDB_val key{};
        MDB_val data{};
        for (int code = mdb.cursor_get(used_, &key, &data, MDB_FIRST); code == 0 && found.size() <= expected.size();
             code = mdb.cursor_get(used_, &key, &data, MDB_NEXT)) {
            found.emplace_back(bytes_of(key), bytes_of(data));
            mdb.txn_reset(reader);
            EXPECT_EQ(mdb.cursor_get(used_, &key, &data, MDB_GET_CURRENT), MDB_BAD_TXN);
            EXPECT_EQ(mdb.txn_renew(reader), 0);
            EXPECT_EQ(go(MDB_GET_CURRENT), found.back().first + "=" + found.back().second);
        }
        EXPECT_EQ(found, expected);
        EXPECT_EQ(go(MDB_LAST), "c=1");
        mdb.txn_reset(reader);
        EXPECT_EQ(mdb.txn_renew(reader), 0);
        EXPECT_EQ(go(MDB_PREV), "b=3");
        mdb.cursor_close(std::exchange(used_, nullptr));
        mdb.txn_abort(reader);
        close();
        std::filesystem::remove(path("data.mdb"));
    }
}

/// The database's handle closes with the reset of the transaction that opened it; a cursor of it stays.
TEST_P(store_cursor, goes_on_though_its_handle_was_closed_by_a_reset) {
    prepare();
    finish();
    open();
    MDB_txn* const reader = begin(MDB_RDONLY);
    const MDB_dbi opened = database(reader, "items");
    used_ = cursor(reader, opened);
    EXPECT_EQ(go(MDB_SET_KEY, "b"), "b=1");
    mdb.txn_reset(reader);
    EXPECT_EQ(mdb.txn_renew(reader), 0);
    unsigned flags = 0;
    EXPECT_EQ(mdb.dbi_flags(reader, opened, &flags), EINVAL);
    EXPECT_EQ(go(MDB_NEXT), "b=2");
    mdb.cursor_close(std::exchange(used_, nullptr));
    mdb.txn_abort(reader);
}

TEST_P(store_cursor, of_handle_0_shows_what_is_free) {
    open();
    MDB_txn* writer = begin();
    const MDB_dbi main = database(writer);
    for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(put(writer, main, "key" + std::to_string(i), std::string(1000, 'v')), 0);
    }
    commit(writer);
    for (int i = 0; i < 180; i += 20) {
        writer = begin();
        for (int k = i; k < i + 20; ++k) {
            EXPECT_EQ(del(writer, main, "key" + std::to_string(k)), 0);
        }
        EXPECT_EQ(mdb.cursor_open(writer, 0, &used_), EINVAL);
        commit(writer);
    }
    MDB_txn* const reader = begin(MDB_RDONLY);
    MDB_envinfo information{};
    EXPECT_EQ(mdb.env_info(environment(), &information), 0);
    MDB_stat numbers{};
    EXPECT_EQ(mdb.stat(reader, 0, &numbers), 0);
    EXPECT_GT(numbers.ms_entries, 0U);
    used_ = cursor(reader, 0);
    std::size_t entries = 0;
    std::set<std::size_t> free;
    std::size_t last_transaction = 0;
    MDB_val key{};
    MDB_val data{};
    while (mdb.cursor_get(used_, &key, &data, MDB_NEXT) == 0) {
        ++entries;
        std::size_t transaction = 0;
        ASSERT_EQ(key.mv_size, sizeof(transaction));
        std::memcpy(&transaction, key.mv_data, sizeof(transaction));
        EXPECT_GT(transaction, last_transaction);
        last_transaction = transaction;
        std::vector<std::size_t> pages(data.mv_size / sizeof(std::size_t));
        std::memcpy(pages.data(), data.mv_data, data.mv_size);
        ASSERT_GE(pages.size(), 1 + pages[0]);
        free.insert(pages.begin() + 1, pages.begin() + 1 + static_cast<std::ptrdiff_t>(pages[0]));
    }
    EXPECT_EQ(entries, numbers.ms_entries);
    EXPECT_LE(last_transaction, mdb.txn_id(reader));
    EXPECT_GT(free.size(), 30U);
    EXPECT_GT(*free.begin(), 1U);
    EXPECT_LE(*free.rbegin(), information.me_last_pgno);
    EXPECT_EQ(mdb.cursor_get(used_, &key, &data, MDB_FIRST), 0);
    EXPECT_EQ(mdb.cursor_get(used_, &key, &data, MDB_PREV), MDB_NOTFOUND);
    EXPECT_EQ(mdb.cursor_get(used_, &key, &data, MDB_GET_CURRENT), 0);
    unsigned flags = 0;
    EXPECT_EQ(mdb.dbi_flags(reader, 0, &flags), EINVAL);
    EXPECT_EQ(get(reader, 0, "key"), "EINVAL");
    mdb.cursor_close(std::exchange(used_, nullptr));
    mdb.txn_abort(reader);
}

TEST_P(store_cursor, of_a_reader_does_not_write) {
    prepare();
    finish();
    MDB_txn* const reader = begin(MDB_RDONLY);
    used_ = cursor(reader, database_);
    EXPECT_EQ(go(MDB_FIRST), "a=1");
    EXPECT_EQ(write("d", "1"), EACCES);
    EXPECT_EQ(mdb.cursor_del(used_, 0), EACCES);
    mdb.cursor_close(std::exchange(used_, nullptr));
    mdb.txn_abort(reader);
}

}  // namespace
}  // namespace holdfast::test
