// What a program may do that it should not, or that few do: environments that are not open, readers and cursors that
// are used again, objects of C++ in an order of their own, cursors that have found nothing.
#include <optional>
#include <string>
#include <thread>

#include <holdfast/store.hpp>

#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

TEST(store_misuse_test, an_environment_that_is_not_open_is_not_synced) {
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    EXPECT_EQ(mdb_env_sync(env, 1), EINVAL);
    EXPECT_EQ(mdb_env_sync(nullptr, 1), EINVAL);
    mdb_env_close(env);
}

TEST(store_misuse_test, the_largest_limit_is_none) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC);
    ASSERT_EQ(mdb_env_set_mapsize(env.get(), ~std::size_t{0}), 0);
    MDB_txn* const in = env.begin();
    EXPECT_EQ(put(in, 1, "key", std::string(std::size_t{8} << 20U, 'v')), 0);
    EXPECT_EQ(mdb_txn_commit(in), 0);
}

TEST(store_face_test, a_store_open_for_reading_has_its_databases) {
    const store_directory directory;
    const std::string path = directory.path() + "/shop";
    {
        store shop(path, {.durable = false});
        const MDB_dbi fruit = shop.database("fruit");
        store_transaction change = shop.write();
        change.put("apples", "12", fruit);
        change.commit();
    }
    store shop(path, {.read_only = true});
    const MDB_dbi fruit = shop.database("fruit");
    EXPECT_EQ(shop.read().get("apples", fruit), "12");
    const auto code_of_opening = [&shop](const std::string& name) {
        try {
            return static_cast<int>(shop.database(name));
        } catch (const store_error& error) {
            return error.code();
        }
    };
    EXPECT_EQ(code_of_opening("vegetables"), MDB_NOTFOUND);
    EXPECT_EQ(code_of_opening(std::string("fruit\0s", 7)), MDB_BAD_VALSIZE);
}

// In C++, what is natural to write must not write to memory that is gone.
TEST(store_face_test, a_range_may_outlive_its_transaction) {
    const store_directory directory;
    store shop(directory.path() + "/shop", {.durable = false});
    store_transaction change = shop.write();
    change.put("apples", "12");
    const store_range fruit = change.all();
    EXPECT_EQ(fruit.begin()->first, "apples");
    change.commit();
    try {
        static_cast<void>(fruit.begin());
        ADD_FAILURE() << "the transaction has ended";
    } catch (const store_error& error) {
        EXPECT_EQ(error.code(), MDB_BAD_TXN);
    }
    std::optional<store_view> view(shop.read());
    const store_range seen = view->all();
    view.reset();
    EXPECT_THROW(static_cast<void>(seen.begin()), store_error);
}

TEST(store_face_test, no_key_is_empty) {
    const store_directory directory;
    store shop(directory.path() + "/shop", {.durable = false});
    store_transaction change = shop.write();
    EXPECT_FALSE(change.contains(""));
    EXPECT_FALSE(change.erase(""));
    EXPECT_THROW(change.put("", "12"), store_error);
}

// A slot that was given back keeps no pages: its reader saw those of later commits.
TEST(store_readers_test, a_reader_goes_on_in_another_thread_when_its_own_has_ended) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC);
    MDB_txn* in = env.begin();
    ASSERT_EQ(put(in, 1, "key", "first"), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    MDB_txn* reader = nullptr;
    std::thread([&] {
        reader = env.begin(MDB_RDONLY);
        mdb_txn_reset(reader);
    }).join();
    ASSERT_EQ(mdb_txn_renew(reader), 0);
    for (unsigned i = 0; i < 3000; ++i) {
        in = env.begin();
        ASSERT_EQ(put(in, 1, "key", "later " + std::to_string(i)), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    EXPECT_EQ(get(reader, 1, "key"), "first");
    mdb_txn_abort(reader);
}

TEST(store_readers_test, cursors_of_a_renewed_reader_see_what_it_sees) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC);
    const MDB_dbi database = env.open("named", MDB_CREATE);
    MDB_txn* in = env.begin();
    ASSERT_EQ(put(in, database, "key", "first"), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    MDB_txn* const reader = env.begin(MDB_RDONLY);
    MDB_cursor* at = nullptr;
    ASSERT_EQ(mdb_cursor_open(reader, database, &at), 0);
    mdb_txn_reset(reader);
    in = env.begin();
    ASSERT_EQ(put(in, database, "key", "second"), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    ASSERT_EQ(mdb_txn_renew(reader), 0);
    MDB_val key{};
    MDB_val value{};
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_FIRST), 0);
    EXPECT_EQ(as_view(value), "second");
    mdb_cursor_close(at);
    mdb_txn_abort(reader);
}

// A cursor that has looked for a key in vain stands before the one behind it. That one's values were taken for a single
// one: their pages were lost when it was removed, and all of them when it was changed.
class store_values_test : public ::testing::TestWithParam<unsigned> {
protected:
    /// A cursor on the database, in which the key b has so many values.
    MDB_cursor* cursor_beside(unsigned values) {
        for (unsigned i = 0; i < values; ++i) {
            EXPECT_EQ(put(in_, database_, "b", "value" + std::to_string(10000 + i)), 0);
        }
        MDB_cursor* at = nullptr;
        EXPECT_EQ(mdb_cursor_open(in_, database_, &at), 0);
        return at;
    }

    const store_directory directory_;
    const test_environment env_{directory_.path(), MDB_NOSYNC};
    const MDB_dbi database_ = env_.open("dups", MDB_CREATE | MDB_DUPSORT);
    MDB_txn* const in_ = env_.begin();
};

TEST_P(store_values_test, the_entry_behind_it_has_its_values) {
    MDB_cursor* const at = cursor_beside(GetParam());
    ASSERT_EQ(put(in_, database_, "c", "of another key"), 0);
    MDB_val key = as_val("a");
    MDB_val value{};
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_SET), MDB_NOTFOUND);
    std::size_t count = 0;
    EXPECT_EQ(mdb_cursor_count(at, &count), 0);
    EXPECT_EQ(count, GetParam());
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_GET_CURRENT), 0);
    EXPECT_EQ(as_view(key), "b");
    EXPECT_EQ(as_view(value), "value10000");
    key = as_val("a");
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_SET_KEY), MDB_NOTFOUND);
    MDB_val other = as_val("value0");
    ASSERT_EQ(mdb_cursor_put(at, &key, &other, MDB_CURRENT), 0);
    key = as_val("a");
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_SET), MDB_NOTFOUND);
    ASSERT_EQ(mdb_cursor_del(at, 0), 0);
    MDB_stat numbers{};
    ASSERT_EQ(mdb_stat(in_, database_, &numbers), 0);
    EXPECT_EQ(numbers.ms_entries, GetParam());
    EXPECT_EQ(get(in_, database_, "c"), "of another key");
    ASSERT_EQ(mdb_txn_commit(in_), 0);
    EXPECT_EQ(hf_lmdb_check(env_.get(), nullptr), 0);
}

// LMDB asks that the new value sorts into the place of the old one. One that does not is put where it belongs, however
// many there are: in a block it stayed in the place, and was not found again.
TEST_P(store_values_test, a_value_that_is_replaced_by_any_other_is_in_order) {
    MDB_cursor* const at = cursor_beside(GetParam());
    MDB_val key{};
    MDB_val value{};
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_FIRST), 0);
    MDB_val last = as_val("value2");
    ASSERT_EQ(mdb_cursor_put(at, &key, &last, MDB_CURRENT), 0);
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_LAST), 0);
    EXPECT_EQ(as_view(value), "value2");
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_FIRST), 0);
    ASSERT_EQ(mdb_cursor_put(at, &key, &last, MDB_CURRENT), 0);  // which is there already
    MDB_stat numbers{};
    ASSERT_EQ(mdb_stat(in_, database_, &numbers), 0);
    EXPECT_EQ(numbers.ms_entries, GetParam() == 1 ? 1 : GetParam() - 1);
    ASSERT_EQ(mdb_txn_commit(in_), 0);
    EXPECT_EQ(hf_lmdb_check(env_.get(), nullptr), 0);
}

TEST_P(store_values_test, a_transaction_goes_on_where_there_is_no_value_to_replace) {
    MDB_cursor* const at = cursor_beside(GetParam() + 1);
    MDB_val key{};
    MDB_val value{};
    ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_LAST), 0);
    ASSERT_EQ(mdb_cursor_del(at, 0), 0);
    MDB_val other = as_val("value2");
    key = as_val("b");
    EXPECT_EQ(mdb_cursor_put(at, &key, &other, MDB_CURRENT), MDB_NOTFOUND);
    EXPECT_EQ(put(in_, database_, "b", "value2"), 0);
    ASSERT_EQ(mdb_txn_commit(in_), 0);
    EXPECT_EQ(hf_lmdb_check(env_.get(), nullptr), 0);
}

INSTANTIATE_TEST_SUITE_P(values, store_values_test, ::testing::Values(1, 3, 2000));

}  // namespace
}  // namespace holdfast::store_engine
