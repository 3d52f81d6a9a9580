// What a program may do that it should not, or that few do: environments that are not open, readers and cursors that
// are used again, objects of C++ in an order of their own, cursors that have found nothing.
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include <holdfast/store.hpp>

#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

/// As get() says it.
std::string error(int code) { return "error " + std::to_string(code); }

TEST(store_misuse_test, an_environment_that_is_not_open_is_not_synced) {
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    EXPECT_EQ(mdb_env_sync(env, 1), EINVAL);
    EXPECT_EQ(mdb_env_sync(nullptr, 1), EINVAL);
    mdb_env_close(env);
}

// Was: SIGSEGV, at once or at the thread's next lock, because the memory of a lock that was held went.
TEST(store_misuse_test, closing_undoes_a_transaction_that_writes) {
    const store_directory directory;
    for (const unsigned flags : {0U, unsigned{MDB_NOLOCK}, unsigned{MDB_WRITEMAP}}) {
        MDB_env* env = nullptr;
        ASSERT_EQ(mdb_env_create(&env), 0);
        ASSERT_EQ(mdb_env_open(env, directory.path().c_str(), flags, 0600), 0);
        MDB_txn* in = nullptr;
        MDB_txn* nested = nullptr;
        MDB_cursor* at = nullptr;
        ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
        ASSERT_EQ(put(in, 1, "lost", "v"), 0);
        ASSERT_EQ(mdb_txn_begin(env, in, 0, &nested), 0);
        ASSERT_EQ(mdb_cursor_open(nested, 1, &at), 0);
        mdb_env_close(env);
        const test_environment again(directory.path(), flags);
        ASSERT_EQ(again.opened(), 0);
        EXPECT_EQ(put(in, 1, "lost", "v"), MDB_BAD_TXN);
        EXPECT_EQ(get(nested, 1, "lost"), error(MDB_BAD_TXN));
        EXPECT_EQ(mdb_txn_env(nested), nullptr);
        MDB_val key{};
        MDB_val value{};
        EXPECT_EQ(mdb_cursor_get(at, &key, &value, MDB_FIRST), EINVAL);
        mdb_cursor_close(at);
        mdb_txn_abort(nested);
        EXPECT_EQ(mdb_txn_commit(in), MDB_BAD_TXN);
        MDB_txn* const next = again.begin();
        EXPECT_EQ(get(next, 1, "lost"), error(MDB_NOTFOUND));
        EXPECT_EQ(mdb_txn_commit(next), 0);
    }
}

// Was: SIGSEGV in an iterator of the Python package lmdb, without its extension in C.
TEST(store_misuse_test, a_value_that_is_read_after_closing_is_no_crash) {
    const store_directory directory;
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    ASSERT_EQ(mdb_env_open(env, directory.path().c_str(), 0, 0600), 0);
    MDB_txn* in = nullptr;
    ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
    MDB_val key = as_val("key");
    MDB_val value{4, nullptr};
    ASSERT_EQ(mdb_put(in, 1, &key, &value, MDB_RESERVE), 0);
    std::memcpy(value.mv_data, "late", 4);
    MDB_val found{};
    ASSERT_EQ(mdb_get(in, 1, &key, &found), 0);
    mdb_txn_abort(in);
    mdb_env_close(env);
    for (const MDB_val& late : {found, value}) {
        EXPECT_EQ(*static_cast<const volatile char*>(late.mv_data), '\0');
    }
}

TEST(store_misuse_test, a_reader_and_its_cursor_may_outlive_the_environment) {
    const store_directory directory;
    for (const unsigned flags : {0U, unsigned{MDB_NOTLS}, unsigned{MDB_NOLOCK}}) {
        MDB_env* env = nullptr;
        ASSERT_EQ(mdb_env_create(&env), 0);
        ASSERT_EQ(mdb_env_open(env, directory.path().c_str(), flags, 0600), 0);
        MDB_txn* reads = nullptr;
        MDB_cursor* at = nullptr;
        ASSERT_EQ(mdb_txn_begin(env, nullptr, MDB_RDONLY, &reads), 0);
        ASSERT_EQ(mdb_cursor_open(reads, 1, &at), 0);
        mdb_env_close(env);
        const test_environment again(directory.path(), flags);  // in the same memory
        MDB_val key = as_val("key");
        MDB_val value = as_val("value");
        unsigned number = 0;
        EXPECT_EQ(mdb_cursor_get(at, &key, &value, MDB_FIRST), MDB_BAD_TXN);
        EXPECT_EQ(mdb_cursor_put(at, &key, &value, 0), MDB_BAD_TXN);
        EXPECT_EQ(mdb_get(reads, 1, &key, &value), MDB_BAD_TXN);
        EXPECT_EQ(mdb_dbi_open(reads, nullptr, 0, &number), MDB_BAD_TXN);
        EXPECT_EQ(mdb_dbi_flags(reads, 1, &number), EINVAL);
        EXPECT_EQ(mdb_cmp(reads, 1, &key, &value), 0);
        mdb_txn_reset(reads);
        EXPECT_EQ(mdb_txn_renew(reads), MDB_BAD_TXN);
        mdb_txn_abort(reads);
        mdb_cursor_close(at);
    }
}

TEST(store_misuse_test, an_environment_stays_open_until_another_thread_has_written) {
    const store_directory directory;
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    ASSERT_EQ(mdb_env_open(env, directory.path().c_str(), 0, 0600), 0);
    std::promise<void> begun;
    std::promise<void> closed;
    std::thread writer([&] {
        MDB_txn* in = nullptr;
        EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
        begun.set_value();
        closed.get_future().wait();
        EXPECT_EQ(put(in, 1, "kept", "v"), 0);
        EXPECT_EQ(mdb_txn_commit(in), 0);
    });
    begun.get_future().wait();
    mdb_env_close(env);
    closed.set_value();
    writer.join();
    const test_environment again(directory.path());
    MDB_txn* const in = again.begin();
    EXPECT_EQ(get(in, 1, "kept"), "v");
    EXPECT_EQ(mdb_txn_commit(in), 0);
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

// As in liblmdb: one value of the next key is shown, but of several there is none that it stands on. Was: the next
// key's.
TEST_P(store_values_test, a_look_up_that_missed_stands_on_none_of_several_values) {
    MDB_cursor* const at = cursor_beside(GetParam());
    const int expected = GetParam() == 1 ? 0 : EINVAL;
    ASSERT_EQ(put(in_, database_, "c", "of another key"), 0);
    MDB_val value{};
    MDB_val other = as_val("value0");
    std::size_t count = 0;
    const auto miss = [&] {
        MDB_val key = as_val("a");
        ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_SET), MDB_NOTFOUND);
    };
    miss();
    EXPECT_EQ(mdb_cursor_count(at, &count), expected);
    MDB_val key{};
    EXPECT_EQ(mdb_cursor_get(at, &key, &value, MDB_GET_CURRENT), expected);
    EXPECT_EQ(as_view(key), "b");
    miss();
    EXPECT_EQ(mdb_cursor_put(at, &key, &other, MDB_CURRENT), expected);
    miss();
    EXPECT_EQ(mdb_cursor_del(at, 0), expected);
    EXPECT_EQ(get(in_, database_, "b"), GetParam() == 1 ? error(MDB_NOTFOUND) : "value10000");
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
