// Databases that are removed in nested transactions, and handles that are closed too early, or used again.
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

class store_drop_test : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(env_.opened(), 0);
        named_ = env_.open("named", MDB_CREATE);
        for (const char* const key : {"a", "b"}) {
            MDB_txn* in = env_.begin();
            ASSERT_EQ(put(in, named_, key, std::string(3000, 'v')), 0);
            ASSERT_EQ(mdb_txn_commit(in), 0);
        }
        in_ = env_.begin();
        ASSERT_EQ(put(in_, named_, "c", "new"), 0);
    }
    /// It was removed in this transaction, which commits.
    void expect_made_again() {
        MDB_dbi again = 0;
        EXPECT_EQ(mdb_dbi_open(in_, "named", 0, &again), MDB_NOTFOUND);
        ASSERT_EQ(mdb_dbi_open(in_, "named", MDB_CREATE, &again), 0);
        EXPECT_EQ(put(in_, again, "d", "new"), 0);
        ASSERT_EQ(mdb_txn_commit(in_), 0);
        expect_keys("d");
    }
    void expect_keys(const char* keys) {
        MDB_txn* in = env_.begin(MDB_RDONLY);
        MDB_dbi again = 0;
        ASSERT_EQ(mdb_dbi_open(in, "named", 0, &again), 0);
        std::string found;
        for (const char* const key : {"a", "b", "c", "d"}) {
            found += get(in, again, key).starts_with("error") ? "" : key;
        }
        EXPECT_EQ(found, keys);
        mdb_txn_abort(in);
        EXPECT_EQ(hf_lmdb_check(env_.get(), nullptr), 0);
    }
    store_directory directory_;
    test_environment env_{directory_.path()};
    MDB_dbi named_ = 0;
    MDB_txn* in_ = nullptr;
};

/// Was: the handle was closed all the same, and who opened the database again in the outer transaction got the tree of
/// the last commit, whose pages the outer one had freed.
TEST_F(store_drop_test, one_that_is_undone_lost_what_the_outer_transaction_had_changed) {
    MDB_txn* inner = env_.begin(0, in_);
    ASSERT_EQ(mdb_drop(inner, named_, 1), 0);
    EXPECT_EQ(put(inner, named_, "x", "x"), EINVAL);
    MDB_dbi again = 0;
    EXPECT_EQ(mdb_dbi_open(inner, "named", 0, &again), MDB_NOTFOUND);
    mdb_txn_abort(inner);
    ASSERT_EQ(mdb_dbi_open(in_, "named", 0, &again), 0);
    EXPECT_EQ(get(in_, again, "c"), "new");
    EXPECT_EQ(put(in_, again, "d", "new"), 0);
    ASSERT_EQ(mdb_txn_commit(in_), 0);
    expect_keys("abcd");
}

TEST_F(store_drop_test, one_in_a_nested_transaction_counts_when_that_commits) {
    MDB_txn* middle = env_.begin(0, in_);
    MDB_txn* inner = env_.begin(0, middle);
    ASSERT_EQ(mdb_drop(inner, named_, 1), 0);
    ASSERT_EQ(mdb_txn_commit(inner), 0);
    EXPECT_EQ(put(middle, named_, "x", "x"), EINVAL);
    ASSERT_EQ(mdb_txn_commit(middle), 0);
    EXPECT_EQ(put(in_, named_, "x", "x"), EINVAL);
    expect_made_again();
}

TEST_F(store_drop_test, one_may_be_made_again_where_it_was_removed) {
    MDB_txn* inner = env_.begin(0, in_);
    ASSERT_EQ(mdb_drop(inner, named_, 1), 0);
    MDB_dbi again = 0;
    ASSERT_EQ(mdb_dbi_open(inner, "named", MDB_CREATE, &again), 0);
    EXPECT_EQ(put(inner, again, "d", "new"), 0);
    ASSERT_EQ(mdb_txn_commit(inner), 0);
    EXPECT_EQ(get(in_, again, "d"), "new");
    ASSERT_EQ(mdb_txn_commit(in_), 0);
    expect_keys("d");
}

/// Was: a handle's number that was used again hid what had been changed under it, and the commit kept a tree whose
/// pages it had freed.
TEST_F(store_drop_test, a_handle_that_was_closed_before_its_changes_were_saved_damaged_the_store) {
    mdb_dbi_close(env_.get(), named_);
    MDB_dbi other = 0;
    EXPECT_EQ(mdb_dbi_open(in_, "named", 0, &other), MDB_BAD_DBI);
    EXPECT_EQ(mdb_txn_commit(in_), MDB_BAD_DBI);
    expect_keys("ab");
}

/// Was: the number of a handle that others had closed, and given to another database, led to the first one.
TEST_F(store_drop_test, a_reader_finds_databases_by_name_whose_handles_others_closed) {
    mdb_txn_abort(in_);
    MDB_txn* in = env_.begin();
    MDB_dbi other = 0;
    ASSERT_EQ(mdb_dbi_open(in, "other", MDB_CREATE, &other), 0);
    ASSERT_EQ(put(in, other, "a", "of the other"), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    mdb_dbi_close(env_.get(), other);

    MDB_txn* const view = env_.begin(MDB_RDONLY);
    EXPECT_EQ(get(view, named_, "a"), std::string(3000, 'v'));
    in = env_.begin();
    ASSERT_EQ(mdb_drop(in, named_, 1), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    ASSERT_EQ(env_.open("other"), named_) << "the test needs a number that is used again";
    EXPECT_EQ(mdb_dbi_open(view, "other", 0, &other), 0);
    EXPECT_EQ(get(view, other, "a"), "of the other");
    mdb_txn_abort(view);
}

/// Was: pages of a named database that the transaction had changed were freed, some of them twice, and the commit kept
/// a tree of them.
TEST_F(store_drop_test, the_unnamed_database_was_emptied_under_a_named_one_that_had_changes) {
    MDB_cursor* at = nullptr;
    ASSERT_EQ(mdb_cursor_open(in_, named_, &at), 0);
    MDB_val key{};
    MDB_val value{};
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_FIRST), 0);
    ASSERT_EQ(put(in_, 1, "beside", "it"), 0);
    ASSERT_EQ(mdb_drop(in_, 1, 0), 0);
    EXPECT_EQ(mdb_cursor_get(at, &key, &value, MDB_NEXT), MDB_NOTFOUND);
    EXPECT_EQ(get(in_, named_, "a"), "error " + std::to_string(MDB_NOTFOUND));
    EXPECT_EQ(put(in_, named_, "d", "new"), MDB_NOTFOUND);
    key = as_val("d");
    EXPECT_EQ(mdb_cursor_put(at, &key, &value, 0), MDB_BAD_DBI);
    EXPECT_EQ(get(in_, 1, "beside"), "error " + std::to_string(MDB_NOTFOUND));
    expect_made_again();
}

/// Was: accepted. What it wrote was lost, and its pages were neither in use nor free.
TEST_F(store_drop_test, a_cursor_of_a_removed_database_writes_nothing) {
    MDB_cursor* at = nullptr;
    ASSERT_EQ(mdb_cursor_open(in_, named_, &at), 0);
    ASSERT_EQ(mdb_drop(in_, named_, 1), 0);
    MDB_val key = as_val("d");
    MDB_val value = as_val("new");
    EXPECT_EQ(mdb_cursor_put(at, &key, &value, 0), MDB_BAD_DBI);
    ASSERT_EQ(mdb_txn_commit(in_), 0);
    EXPECT_EQ(hf_lmdb_check(env_.get(), nullptr), 0);
}

TEST_F(store_drop_test, the_unnamed_database_is_emptied_in_a_nested_transaction) {
    MDB_txn* inner = env_.begin(0, in_);
    ASSERT_EQ(mdb_drop(inner, 1, 0), 0);
    mdb_txn_abort(inner);
    EXPECT_EQ(get(in_, named_, "c"), "new");
    inner = env_.begin(0, in_);
    ASSERT_EQ(put(inner, named_, "d", "new"), 0);
    ASSERT_EQ(mdb_drop(inner, 1, 0), 0);
    ASSERT_EQ(mdb_txn_commit(inner), 0);
    EXPECT_EQ(get(in_, named_, "c"), "error " + std::to_string(MDB_NOTFOUND));
    ASSERT_EQ(mdb_txn_commit(in_), 0);
    MDB_txn* view = env_.begin(MDB_RDONLY);
    EXPECT_EQ(get(view, named_, "a"), "error " + std::to_string(MDB_NOTFOUND));
    mdb_txn_abort(view);
    EXPECT_EQ(hf_lmdb_check(env_.get(), nullptr), 0);
}

}  // namespace
}  // namespace holdfast::store_engine
