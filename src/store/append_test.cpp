// Keys that ascend go behind the last entry without a search, which is right only while that leaf is the last one:
// beside removals, other databases, cursors, nested transactions, and in every order.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

class append_test : public testing::TestWithParam<unsigned> {
protected:
    [[nodiscard]] std::string next_key() {
        last_ += 1 + random_() % 3;
        std::string digits = std::to_string(last_);
        digits = std::string(9 - digits.size(), '0') + digits;
        return (GetParam() & MDB_REVERSEKEY) != 0 ? std::string(digits.rbegin(), digits.rend()) : digits;
    }
    [[nodiscard]] std::string some_key(const content_of_store& from) {
        auto at = from.lower_bound(std::to_string(random_() % 10));
        return at == from.end() ? from.rbegin()->first : at->first;
    }
    void change(MDB_txn* in, content_of_store& content);
    void change_nested(MDB_txn* in, content_of_store& content);

    std::mt19937_64 random_{20261126};
    std::uint64_t last_ = 0;
    MDB_dbi plain_ = 0;
    MDB_dbi other_ = 0;
    unsigned others_ = 0;
};
INSTANTIATE_TEST_SUITE_P(of, append_test, testing::Values(0U, unsigned{MDB_REVERSEKEY}),
                         [](const auto& one) { return one.param == 0 ? "plain" : "reversed"; });

void append_test::change(MDB_txn* in, content_of_store& content) {
    const std::uint64_t what = random_() % 100;
    if (what < 75 || content.empty()) {
        const std::string key = next_key();
        const std::string value(random_() % 50 == 0 ? 5000 : random_() % 300, 'v');
        const unsigned flags = what % 2 == 0 ? MDB_APPEND : 0U;
        ASSERT_EQ(put(in, plain_, key, value, flags), 0);
        content[key] = value;
        if (what % 10 == 0) {
            EXPECT_EQ(put(in, plain_, key, value, MDB_APPEND), MDB_KEYEXIST);
        }
    } else if (what < 85) {
        const std::string key = what < 80 ? some_key(content) : content.rbegin()->first;
        ASSERT_EQ(del(in, plain_, key), 0);
        content.erase(key);
    } else if (what < 90) {
        const std::string key = some_key(content);
        content[key] = std::string(random_() % 400, 'w');
        ASSERT_EQ(put(in, plain_, key, content[key]), 0);
    } else if (what < 95) {
        ASSERT_EQ(put(in, other_, "one", "value" + std::to_string(1'000'000 + others_++), MDB_APPENDDUP), 0);
    } else {
        MDB_cursor* at = nullptr;
        MDB_val key{};
        MDB_val value{};
        ASSERT_EQ(mdb_cursor_open(in, plain_, &at), 0);
        ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_LAST), 0);
        const std::string last(as_view(key));
        const std::string larger = next_key();
        ASSERT_EQ(put(in, plain_, larger, "beside"), 0);
        content[larger] = "beside";
        ASSERT_EQ(mdb_cursor_get(at, &key, &value, MDB_GET_CURRENT), 0);
        EXPECT_EQ(as_view(key), last);
        ASSERT_EQ(mdb_cursor_del(at, 0), 0);
        content.erase(last);
        mdb_cursor_close(at);
    }
}

void append_test::change_nested(MDB_txn* in, content_of_store& content) {
    MDB_txn* inner = nullptr;
    ASSERT_EQ(mdb_txn_begin(mdb_txn_env(in), in, 0, &inner), 0);
    content_of_store inside = content;
    const unsigned others = others_;
    for (std::uint64_t left = random_() % 60; left > 0; --left) {
        change(inner, inside);
    }
    if (random_() % 2 == 0) {
        ASSERT_EQ(mdb_txn_commit(inner), 0);
        content = std::move(inside);
    } else {
        mdb_txn_abort(inner);
        others_ = others;
    }
}

TEST_P(append_test, entries_are_those_of_a_model) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC);
    plain_ = env.open("plain", MDB_CREATE | GetParam());
    other_ = env.open("other", MDB_CREATE | MDB_DUPSORT);
    content_of_store content;
    for (unsigned round = 0; round < 60; ++round) {
        MDB_txn* in = env.begin();
        content_of_store inside = content;
        const unsigned others = others_;
        for (std::uint64_t left = random_() % 300; left > 0; --left) {
            random_() % 40 == 0 ? change_nested(in, inside) : change(in, inside);
        }
        if (random_() % 4 != 0) {
            ASSERT_EQ(mdb_txn_commit(in), 0);
            content = std::move(inside);
        } else {
            mdb_txn_abort(in);
            others_ = others;
        }
        in = env.begin(MDB_RDONLY);
        for (const auto& [key, value] : content) {
            ASSERT_EQ(get(in, plain_, key), value);
        }
        MDB_stat sums{};
        EXPECT_EQ(mdb_stat(in, plain_, &sums), 0);
        EXPECT_EQ(sums.ms_entries, content.size());
        EXPECT_EQ(mdb_stat(in, other_, &sums), 0);
        EXPECT_EQ(sums.ms_entries, others_);
        mdb_txn_abort(in);
        ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
    }
}

}  // namespace
}  // namespace holdfast::store_engine
