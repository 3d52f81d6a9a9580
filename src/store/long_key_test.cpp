// Keys that lie in runs of pages: their limits, the store's version, space, copies, and pages that were made wrong.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include <holdfast/store.hpp>

#include "store/block.hpp"
#include "store/page_checksum.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

std::string long_name(unsigned number, std::size_t size) {
    std::string key(size, 'k');
    const std::string digits = std::to_string(100000 + number);
    key.replace(size - digits.size(), digits.size(), digits);
    return key;
}

std::vector<std::byte> file_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::vector<std::byte> read(content.size());
    std::memcpy(read.data(), content.data(), content.size());
    return read;
}

void write_bytes(const std::string& path, const std::vector<std::byte>& content) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

// Of both metas, 0: there is none.
std::vector<std::uint32_t> versions_of(const std::string& path) {
    const std::vector<std::byte> content = file_bytes(path);
    std::vector<std::uint32_t> versions;
    for (std::size_t page = 0; page < meta_pages; ++page) {
        meta_on_media meta{};
        std::memcpy(&meta, content.data() + page * page_size, sizeof(meta));
        versions.push_back(meta.magic == store_magic ? meta.version : 0);
    }
    return versions;
}

void put_long_keys(const test_environment& env, MDB_dbi database, unsigned count, std::size_t size = 5000) {
    MDB_txn* in = env.begin();
    for (unsigned i = 0; i < count; ++i) {
        ASSERT_EQ(put(in, database, long_name(i * 7919 % count, size), std::to_string(i)), 0);
    }
    ASSERT_EQ(mdb_txn_commit(in), 0);
}

TEST(long_key_test, keys_have_up_to_64_kib_and_not_a_byte_more) {
    const store_directory directory;
    {
        MDB_env* env = nullptr;
        ASSERT_EQ(mdb_env_create(&env), 0);
        EXPECT_EQ(hf_lmdb_set_maxkeysize(env, 65537), EINVAL);
        EXPECT_EQ(hf_lmdb_set_maxkeysize(env, 65536), 0);
        EXPECT_EQ(mdb_env_get_maxkeysize(env), 65536);
        mdb_env_close(env);
    }
    const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
    const MDB_dbi plain = env.open();
    const MDB_dbi many = env.open("many", MDB_DUPSORT | MDB_CREATE);
    MDB_txn* in = env.begin();
    for (const std::size_t size : {1978U, 1979U, 4064U, 4065U, 65536U}) {
        const std::string key = long_name(1, size);
        EXPECT_EQ(put(in, plain, key, "plain"), 0);
        EXPECT_EQ(put(in, many, key, "a"), 0);
        EXPECT_EQ(put(in, many, key, std::string(1978, 'b')), 0);
        EXPECT_EQ(get(in, plain, key), "plain");
    }
    EXPECT_EQ(put(in, plain, std::string(65537, 'k'), "v"), MDB_BAD_VALSIZE);
    EXPECT_EQ(put(in, many, "key", std::string(1979, 'v')), MDB_BAD_VALSIZE);
    EXPECT_EQ(get(in, plain, std::string(65537, 'k')), "error -30798");
    ASSERT_EQ(mdb_txn_commit(in), 0);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

TEST(long_key_test, who_does_not_ask_for_long_keys_reads_and_removes_them) {
    const store_directory directory;
    {
        const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
        put_long_keys(env, env.open(), 40);
    }
    const test_environment env(directory.path(), MDB_NOSYNC);
    const MDB_dbi plain = env.open();
    MDB_txn* in = env.begin();
    EXPECT_EQ(put(in, plain, long_name(3, 5000), "v"), MDB_BAD_VALSIZE);
    EXPECT_EQ(get(in, plain, long_name(7919 % 40, 5000)), "1");
    EXPECT_EQ(del(in, plain, long_name(3, 5000)), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

TEST(long_key_test, names_of_databases_are_keys) {
    const store_directory directory;
    const std::string name(30000, 'n');
    for (const unsigned longest : {0U, 65536U}) {
        const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, longest);
        MDB_txn* in = env.begin();
        MDB_dbi database = 0;
        if (longest == 0) {
            EXPECT_EQ(mdb_dbi_open(in, name.c_str(), MDB_CREATE, &database), MDB_BAD_VALSIZE);
            EXPECT_EQ(mdb_dbi_open(in, std::string(512, 'n').c_str(), MDB_CREATE, &database), MDB_BAD_VALSIZE);
            EXPECT_EQ(mdb_dbi_open(in, std::string(511, 'n').c_str(), MDB_CREATE, &database), 0);
        } else {
            EXPECT_EQ(mdb_dbi_open(in, std::string(65537, 'n').c_str(), MDB_CREATE, &database), MDB_BAD_VALSIZE);
            EXPECT_EQ(mdb_dbi_open(in, name.c_str(), MDB_CREATE, &database), 0);
            EXPECT_EQ(put(in, database, "key", "value"), 0);
        }
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    const test_environment env(directory.path(), MDB_NOSYNC);
    MDB_txn* in = env.begin();
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_dbi_open(in, name.c_str(), MDB_CREATE, &database), 0);
    EXPECT_EQ(get(in, database, "key"), "value");
    EXPECT_EQ(mdb_drop(in, database, 1), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

// A program that knows no long keys must refuse the store, whichever meta it looks at.
TEST(long_key_test, the_first_long_key_raises_the_version_of_both_metas) {
    for (const unsigned flags : {0U, unsigned{MDB_NOSYNC}, unsigned{MDB_NOLOCK}}) {
        const store_directory directory;
        {
            const test_environment env(directory.path(), flags, 8, 0, 65536);
            const MDB_dbi plain = env.open();
            MDB_txn* in = env.begin();
            ASSERT_EQ(put(in, plain, std::string(1978, 'k'), "value"), 0);
            ASSERT_EQ(mdb_txn_commit(in), 0);
        }
        for (unsigned round = 0; round < 3; ++round) {
            const test_environment env(directory.path(), flags, 8, 0, 65536);
            const MDB_dbi plain = env.open();
            const auto versions = versions_of(directory.data());
            EXPECT_EQ(std::ranges::count(versions, round == 0 ? version_without_long_keys : store_version), 2)
                << "round " << round;
            put_long_keys(env, plain, 1);
            EXPECT_EQ(std::ranges::count(versions_of(directory.data()), store_version), 2);
            MDB_txn* in = env.begin();
            ASSERT_EQ(mdb_drop(in, plain, 0), 0);
            ASSERT_EQ(mdb_txn_commit(in), 0);
        }
    }
}

TEST(long_key_test, a_new_store_that_begins_with_a_long_key_has_its_version) {
    const store_directory directory;
    const test_environment env(directory.path(), 0, 8, 0, 65536);
    put_long_keys(env, 1, 1);
    EXPECT_EQ(std::ranges::count(versions_of(directory.data()), version_without_long_keys), 0);
    EXPECT_GE(std::ranges::count(versions_of(directory.data()), store_version), 1);
}

// Only a second process sees what the first has not yet closed.
TEST(long_key_test, keys_of_the_log_are_there_after_a_recovery) {
    const store_directory directory;
    const store_directory crashed;
    {
        const test_environment env(directory.path(), 0, 8, 0, 65536);
        const MDB_dbi plain = env.open();
        put_long_keys(env, plain, 2);
        put_long_keys(env, plain, 60, 3000);
        write_bytes(crashed.data(), file_bytes(directory.data()));
    }
    const test_environment env(crashed.path());
    ASSERT_EQ(env.opened(), 0);
    MDB_txn* in = env.begin(MDB_RDONLY);
    MDB_stat sums{};
    ASSERT_EQ(mdb_stat(in, 1, &sums), 0);
    EXPECT_EQ(sums.ms_entries, 62U);
    EXPECT_EQ(get(in, 1, long_name(0, 3000)), "0");
    mdb_txn_abort(in);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

TEST(long_key_test, statistics_count_the_pages_of_keys) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
    put_long_keys(env, 1, 10);
    MDB_txn* in = env.begin();
    MDB_stat sums{};
    ASSERT_EQ(mdb_stat(in, 1, &sums), 0);
    EXPECT_EQ(sums.ms_overflow_pages, 20U);  // of 5,000 bytes each
    EXPECT_EQ(del(in, 1, long_name(3, 5000)), 0);
    ASSERT_EQ(mdb_stat(in, 1, &sums), 0);
    EXPECT_EQ(sums.ms_overflow_pages, 18U);
    mdb_txn_abort(in);
}

std::size_t last_page(const test_environment& env) {
    MDB_envinfo information{};
    EXPECT_EQ(mdb_env_info(env.get(), &information), 0);
    return information.me_last_pgno;
}

TEST(long_key_test, pages_of_keys_come_back) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
    put_long_keys(env, 1, 300);
    std::size_t after_first = 0;
    for (unsigned round = 0; round < 40; ++round) {
        MDB_txn* in = env.begin();
        MDB_txn* inner = env.begin(0, in);
        for (unsigned i = 0; i < 300; ++i) {
            ASSERT_EQ(del(inner, 1, long_name(i, 5000)), 0);
            ASSERT_EQ(put(inner, 1, long_name(i, 5001), "v"), 0);
        }
        if (round % 2 == 0) {
            mdb_txn_abort(inner);
        } else {
            ASSERT_EQ(mdb_txn_commit(inner), 0);
        }
        for (unsigned i = 0; i < 300; ++i) {
            ASSERT_EQ(del(in, 1, long_name(i, round % 2 == 0 ? 5000 : 5001)), 0);
            ASSERT_EQ(put(in, 1, long_name(i, 5000), "v"), 0);
        }
        if (round % 3 == 0) {
            mdb_txn_abort(in);
        } else {
            ASSERT_EQ(mdb_txn_commit(in), 0);
        }
        if (round == 5) {
            after_first = last_page(env);
        }
    }
    EXPECT_LT(last_page(env), after_first + after_first / 2);
    ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
    MDB_txn* in = env.begin();
    ASSERT_EQ(mdb_drop(in, 1, 0), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    ASSERT_EQ(mdb_env_sync(env.get(), 1), 0);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

// Three levels, whose separators lie in runs, too: between keys that share 2,000 bytes, and in an order of its own.
TEST(long_key_test, trees_of_long_separators_grow_and_shrink) {
    constexpr unsigned count = 9000;
    for (const unsigned flags : {0U, unsigned{MDB_REVERSEKEY}}) {
        const store_directory directory;
        {
            const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
            const MDB_dbi database = env.open("long", flags | MDB_CREATE);
            put_long_keys(env, database, count, 2010);
            EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
            MDB_txn* in = env.begin(MDB_RDONLY);
            MDB_stat sums{};
            ASSERT_EQ(mdb_stat(in, database, &sums), 0);
            EXPECT_EQ(sums.ms_depth, 3U);
            EXPECT_EQ(sums.ms_overflow_pages, count + sums.ms_leaf_pages - 1) << "a separator is not long";
            mdb_txn_abort(in);
        }
        const test_environment env(directory.path(), MDB_NOSYNC);
        const MDB_dbi database = env.open("long");
        for (unsigned part = 0; part < 6; ++part) {
            MDB_txn* in = env.begin();
            for (unsigned i = part; i < count; i += 6) {
                ASSERT_EQ(del(in, database, long_name(i * 7907 % count, 2010)), 0);
            }
            ASSERT_EQ(mdb_txn_commit(in), 0);
            ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0) << "part " << part;
        }
        MDB_txn* in = env.begin(MDB_RDONLY);
        MDB_stat sums{};
        ASSERT_EQ(mdb_stat(in, database, &sums), 0);
        EXPECT_EQ(sums.ms_entries + sums.ms_overflow_pages + sums.ms_branch_pages + sums.ms_leaf_pages, 0U);
        mdb_txn_abort(in);
    }
}

// The last process leaves a file that ends behind the last page in use, or in use at the checkpoint before.
TEST(long_key_test, a_store_whose_long_keys_are_gone_is_as_small_as_before) {
    const store_directory directory;
    std::size_t before = 0;
    for (const bool remove : {false, true}) {
        const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
        const MDB_dbi plain = env.open();
        if (!remove) {
            before = last_page(env);
            put_long_keys(env, plain, 500, 40000);
        } else {
            for (unsigned i = 0; i < 500; ++i) {
                MDB_txn* in = env.begin();
                ASSERT_EQ(del(in, plain, long_name(i, 40000)), 0);
                ASSERT_EQ(mdb_txn_commit(in), 0);
            }
        }
    }
    for (unsigned round = 0; round < 2; ++round) {
        const test_environment env(directory.path(), MDB_NOSYNC);
        MDB_txn* in = env.begin();
        ASSERT_EQ(put(in, 1, "short", std::to_string(round)), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    const test_environment env(directory.path(), MDB_NOSYNC);
    EXPECT_LT(last_page(env), before + 40);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

TEST(long_key_test, copies_have_the_keys_and_the_version_that_they_need) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
    const MDB_dbi many = env.open("many", MDB_DUPSORT | MDB_CREATE);
    put_long_keys(env, 1, 300);
    put_long_keys(env, many, 300, 20000);
    const store_directory copied;
    ASSERT_EQ(mdb_env_copy2(env.get(), copied.path().c_str(), MDB_CP_COMPACT), 0);
    {
        const test_environment copy(copied.path());
        EXPECT_EQ(hf_lmdb_check(copy.get(), nullptr), 0);
        const MDB_dbi same = copy.open("many");
        MDB_txn* in = copy.begin(MDB_RDONLY);
        EXPECT_EQ(get(in, same, long_name(7919 % 300, 20000)), "1");
        EXPECT_EQ(get(in, 1, long_name(7919 % 300, 5000)), "1");
        mdb_txn_abort(in);
    }
    EXPECT_EQ(std::ranges::count(versions_of(copied.data()), version_without_long_keys), 0);
    MDB_txn* in = env.begin();
    ASSERT_EQ(mdb_drop(in, many, 1), 0);
    for (unsigned i = 0; i < 300; ++i) {
        ASSERT_EQ(del(in, 1, long_name(i, 5000)), 0);
    }
    ASSERT_EQ(mdb_txn_commit(in), 0);
    const store_directory short_ones;
    ASSERT_EQ(mdb_env_copy(env.get(), short_ones.path().c_str()), 0);
    EXPECT_EQ(std::ranges::count(versions_of(short_ones.data()), store_version), 0);
}

TEST(long_key_test, the_face_of_cxx_asks_by_name) {
    const store_directory directory;
    const std::string key = long_name(1, 65536);
    {
        store shop(directory.path() + "/shop", {.longest_key = 65536});
        auto change = shop.write();
        change.put(key, "value");
        EXPECT_THROW(change.put(key + "k", "value"), store_error);
        change.commit();
    }
    store shop(directory.path() + "/shop");
    EXPECT_EQ(shop.read().get(key), "value");
    EXPECT_EQ(shop.read().all().begin()->first, key);
    EXPECT_THROW(store(directory.path() + "/other", {.longest_key = 65537}), store_error);
}

// --- pages that were made wrong -------------------------------------------------------------------------------------

class hostile_long_key_test : public testing::Test {
protected:
    // Keys that share all but their last bytes: separators are long, too.
    void make(unsigned count) {
        {
            const test_environment env(directory_.path(), MDB_NOSYNC, 8, 0, 65536);
            put_long_keys(env, env.open(), count);
        }
        content_ = file_bytes(directory_.data());
        meta_on_media other{};
        std::memcpy(&meta_, content_.data(), sizeof(meta_));
        std::memcpy(&other, content_.data() + page_size, sizeof(other));
        if (other.sequence > meta_.sequence) {
            meta_ = other;
        }
    }
    [[nodiscard]] page_header& page(std::uint64_t number) {
        return *reinterpret_cast<page_header*>(content_.data() + number * page_size);
    }
    [[nodiscard]] page_header& root() { return page(meta_.main.root); }
    [[nodiscard]] long_key key_of(unsigned index) { return long_key_from(stored_key_at(root().block, index).text); }
    // Writes the store with a root that `change` has changed, checksum repaired, and expects that check finds it and
    // that nothing else does more than fail.
    void expect_damage(const char* what, const std::function<void(page_header&)>& change) {
        SCOPED_TRACE(what);
        const std::vector<std::byte> sound = content_;
        change(root());
        root().checksum = page_checksum(root(), meta_.main.root);
        const store_directory directory;
        write_bytes(directory.data(), content_);
        content_ = sound;
        const test_environment env(directory.path(), MDB_NOSYNC, 8, 0, 65536);
        ASSERT_EQ(env.opened(), 0);
        const int outcome = hf_lmdb_check(env.get(), nullptr);
        EXPECT_TRUE(outcome == MDB_CORRUPTED || outcome == MDB_PAGE_NOTFOUND) << outcome;
        MDB_txn* in = env.begin();
        MDB_cursor* at = nullptr;
        ASSERT_EQ(mdb_cursor_open(in, 1, &at), 0);
        MDB_val key{};
        MDB_val value{};
        std::size_t sum = 0;
        for (unsigned i = 0; i < 1000 && mdb_cursor_get(at, &key, &value, MDB_NEXT) == 0; ++i) {
            sum += as_view(key).size() + static_cast<unsigned char>(as_view(key).back());
        }
        EXPECT_LT(sum, 1000U * 65536U);
        mdb_cursor_close(at);
        for (unsigned i = 0; i < 300; ++i) {
            static_cast<void>(get(in, 1, long_name(i, 5000)));
            static_cast<void>(i % 3 == 0 ? del(in, 1, long_name(i, 5000)) : put(in, 1, long_name(i, 5003), "v"));
        }
        static_cast<void>(mdb_txn_commit(in));
        in = env.begin();
        static_cast<void>(mdb_drop(in, 1, 0));
        mdb_txn_abort(in);
    }
    void expect_damage_to_key(const char* what, unsigned index, const std::function<void(long_key&)>& change) {
        expect_damage(what, [&](page_header& changed) {
            long_key key = key_of(index);
            change(key);
            std::memcpy(mutable_key_at(changed.block, index), &key, sizeof(key));
        });
    }
    void expect_all_damages(unsigned index) {
        expect_damage_to_key("another head", index, [](long_key& key) { key.head[47] = 'a'; });
        expect_damage_to_key("too short", index, [](long_key& key) { key.where.size = 512; });
        expect_damage_to_key("too long", index, [](long_key& key) { key.where.size = 65537; });
        expect_damage_to_key("longer than a run", index, [](long_key& key) { key.where.size = 9000; });
        expect_damage_to_key("endless", index, [](long_key& key) { key.where.size = ~std::uint64_t{0}; });
        expect_damage_to_key("no run", index, [this](long_key& key) { key.where.page = meta_.main.root; });
        expect_damage_to_key("the log", index, [this](long_key& key) { key.where.page = meta_.log_page; });
        expect_damage_to_key("a meta", index, [](long_key& key) { key.where.page = 0; });
        expect_damage_to_key("nowhere", index, [](long_key& key) { key.where.page = ~std::uint64_t{0}; });
        expect_damage_to_key("another key's", index,
                             [this, index](long_key& key) { key.where = key_of(index + 1).where; });
        expect_damage("hidden", [](page_header& changed) { changed.block.has_long_keys = 0; });
        expect_damage("unknown", [](page_header& changed) { changed.block.has_long_keys = 2; });
    }

    store_directory directory_;
    std::vector<std::byte> content_;
    meta_on_media meta_{};
};

TEST_F(hostile_long_key_test, a_leaf_is_believed_nothing) {
    make(20);
    ASSERT_EQ(root().block.kind, page_kind::leaf);
    ASSERT_TRUE(stored_key_at(root().block, 5).is_long);
    expect_all_damages(5);
}

TEST_F(hostile_long_key_test, a_branch_is_believed_nothing) {
    make(300);
    ASSERT_EQ(root().block.kind, page_kind::branch);
    ASSERT_TRUE(stored_key_at(root().block, 1).is_long);
    expect_all_damages(1);
    expect_damage_to_key("a leaf's key", 1, [this](long_key& key) {
        const page_header& leaf = page(child_at(root().block, 0));
        key.where = long_key_from(stored_key_at(leaf.block, 0).text).where;
    });
}

}  // namespace
}  // namespace holdfast::store_engine
