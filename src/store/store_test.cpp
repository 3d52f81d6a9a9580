// The C++ face, and what the engine adds to LMDB: space that one reader cannot keep, files that shrink, longer keys.
#include <sys/stat.h>

#include <holdfast/store.hpp>

#include "store/store_test_support.hpp"

namespace holdfast::store_tests {
namespace {

using store_engine::store_directory;

std::size_t bytes_of(const std::string& path) {
    struct stat information {};
    return ::stat(path.c_str(), &information) == 0 ? static_cast<std::size_t>(information.st_blocks) * 512 : 0;
}

TEST(store_face_test, entries_are_there_after_a_commit_and_not_without) {
    const store_directory directory;
    const std::string path = directory.path() + "/shop";
    {
        store shop(path);
        auto change = shop.write();
        change.put("apples", "12");
        change.put("pears", "7");
        EXPECT_FALSE(change.insert("pears", "8"));
        {
            auto inner = change.nested();
            inner.put("plums", "1");
        }
        {
            auto inner = change.nested();
            EXPECT_TRUE(inner.erase("apples"));
            inner.put("cherries", "99");
            inner.commit();
        }
        change.commit();
        auto undone = shop.write();
        undone.clear();
    }
    store shop(path, {.read_only = true});
    const auto view = shop.read();
    std::string all;
    for (const auto& [fruit, number] : view.all()) {
        all += std::string(fruit) + "=" + std::string(number) + " ";
    }
    EXPECT_EQ(all, "cherries=99 pears=7 ");
    EXPECT_EQ(view.size(), 2U);
    EXPECT_EQ(view.from("d").begin()->first, "pears");
    EXPECT_FALSE(view.contains("plums"));
    EXPECT_GT(shop.check(), 0U);
}

/// Was: the cursor of the ended transaction was freed twice.
TEST(store_face_test, a_range_of_an_ended_transaction_was_closed_again_where_another_was_assigned_to_it) {
    const store_directory directory;
    store shop(directory.path() + "/shop");
    auto first = shop.write();
    first.put("apples", "12");
    auto range = first.all();
    EXPECT_EQ(range.begin()->first, "apples");
    first.commit();
    auto second = shop.write();
    range = second.all();
    EXPECT_EQ(range.begin()->first, "apples");
    const auto view = shop.read();
    range = view.all();
    EXPECT_EQ(range.begin()->second, "12");
    range = second.from("b");
    EXPECT_EQ(range.begin(), range.end());
}

TEST(store_face_test, errors_are_thrown) {
    const store_directory directory;
    EXPECT_THROW((store(directory.path() + "/missing/file")), store_error);
    store shop(directory.path() + "/shop", {.limit = 400000});
    auto change = shop.write();
    try {
        for (unsigned i = 0; i < 1000; ++i) {
            change.put("key" + std::to_string(i), std::string(1000, 'v'));
        }
        FAIL() << "the limit is not kept";
    } catch (const store_error& error) {
        EXPECT_EQ(error.code(), MDB_MAP_FULL);
    }
}

// LMDB keeps every page that is freed while the reader is there.
TEST(store_space_test, a_reader_that_stays_keeps_its_version_alone) {
    const store_directory directory;
    store shop(directory.path() + "/shop", {.durable = false});
    const auto fill = [&shop](unsigned round) {
        for (unsigned i = 0; i < 4000; i += 100) {
            auto change = shop.write();
            for (unsigned j = i; j < i + 100; ++j) {
                change.put("key" + std::to_string(j * 7919 % 4000),
                           std::string(200, static_cast<char>('a' + round % 26)));
            }
            change.commit();
        }
    };
    fill(0);
    const std::size_t live = bytes_of(directory.path() + "/shop");
    const auto stuck = shop.read();
    for (unsigned round = 1; round <= 20; ++round) {
        fill(round);
    }
    EXPECT_EQ(stuck.get("key17"), std::string(200, 'a'));
    EXPECT_LT(bytes_of(directory.path() + "/shop"), 4 * live);
}

TEST(store_space_test, a_file_shrinks_when_entries_go) {
    const store_directory directory;
    const std::string path = directory.path() + "/shop";
    std::size_t full = 0;
    for (const bool remove : {false, true}) {
        {
            store shop(path, {.durable = false});
            auto change = shop.write();
            for (unsigned i = 0; i < 60000; ++i) {
                if (!remove) {
                    change.put("key" + std::to_string(i), std::string(200, 'v'));
                } else if (i % 10 != 0) {
                    change.erase("key" + std::to_string(i));
                }
            }
            change.commit();
        }
        if (!remove) {
            full = bytes_of(path);
        }
    }
    EXPECT_LT(bytes_of(path) * 10, full * 4);
    store shop(path);
    EXPECT_EQ(shop.read().size(), 6000U);
    EXPECT_GT(shop.check(), 0U);
}

TEST(store_space_test, a_forced_sync_gives_space_back_and_waits_for_no_writer) {
    const store_directory directory;
    const std::string path = directory.path() + "/shop";
    store shop(path, {.durable = false});
    const auto in_batches = [&shop](unsigned count, const auto& change_one) {
        for (unsigned i = 0; i < count;) {
            auto change = shop.write();
            for (const unsigned end = i + 500; i < end; ++i) {
                change_one(change, i, "key" + std::to_string(i * 7919 % count));
            }
            change.commit();
        }
    };
    in_batches(20000, [](auto& change, unsigned, const std::string& key) { change.put(key, std::string(200, 'v')); });
    shop.sync();
    const std::size_t full = bytes_of(path);
    {
        const auto before = shop.read();
        in_batches(20000, [](auto& change, unsigned i, const std::string& key) {
            if (i % 10 != 0) {
                change.erase(key);
            }
        });
        shop.sync();
        EXPECT_EQ(before.size(), 20000U);  // its pages stay
        EXPECT_EQ(before.get("key7919"), std::string(200, 'v'));
    }
    in_batches(20000, [](auto& change, unsigned i, const std::string& key) {
        if (i % 10 == 0) {
            change.put(key, std::string(200, 'w'));
        }
    });
    {
        auto change = shop.write();
        change.put("one more", "1");
        shop.sync();
        change.commit();
    }
    shop.sync();
    EXPECT_LT(bytes_of(path), full / 2);
    EXPECT_EQ(shop.read().size(), 2001U);
    EXPECT_GT(shop.check(), 0U);
}

TEST(store_keys_test, keys_are_longer_where_that_is_asked_for) {
    const store_directory directory;
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    EXPECT_EQ(mdb_env_get_maxkeysize(env), 511);
    EXPECT_EQ(hf_lmdb_set_maxkeysize(env, 510), EINVAL);
    EXPECT_EQ(hf_lmdb_set_maxkeysize(env, 65537), EINVAL);
    EXPECT_EQ(hf_lmdb_set_maxkeysize(env, 1978), 0);
    ASSERT_EQ(mdb_env_open(env, directory.path().c_str(), MDB_NOSYNC, 0664), 0);
    MDB_txn* in = nullptr;
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
    ASSERT_EQ(mdb_dbi_open(in, nullptr, MDB_DUPSORT, &database), 0);
    for (unsigned i = 0; i < 200; ++i) {
        const std::string key = std::string(1970, 'k') + std::to_string(i);
        ASSERT_EQ(store_engine::put(in, database, key, std::string(1970, 'a') + std::to_string(i)), 0);
        ASSERT_EQ(store_engine::put(in, database, key, std::string(1970, 'b') + std::to_string(i)), 0);
    }
    EXPECT_EQ(store_engine::put(in, database, std::string(1979, 'k'), "v"), MDB_BAD_VALSIZE);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    EXPECT_EQ(hf_lmdb_check(env, nullptr), 0);
    mdb_env_close(env);
}

}  // namespace
}  // namespace holdfast::store_tests
