// Stores that somebody wrote with right checksums and wrong contents: an error, never a crash.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "store/block.hpp"
#include "store/log.hpp"
#include "store/page_checksum.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

using bytes = std::vector<char>;

// A store with short entries, long values and values of one key; it is closed.
class store_forged_test : public ::testing::Test {
protected:
    void SetUp() override {
        const test_environment env(directory_.path(), MDB_NOSYNC);
        const MDB_dbi dups = env.open("dups", MDB_CREATE | MDB_DUPSORT);
        for (unsigned round = 0; round < 4; ++round) {
            MDB_txn* const in = env.begin();
            for (unsigned i = 0; i < 20; ++i) {
                ASSERT_EQ(put(in, unnamed, "key" + std::to_string(i), std::string(i % 5 == 0 ? 9000 : 80, 'v')), 0);
                ASSERT_EQ(put(in, dups, "one", "value" + std::to_string(i)), 0);
            }
            ASSERT_EQ(mdb_txn_commit(in), 0);
        }
    }
    void read() {
        std::ifstream file(directory_.data(), std::ios::binary);
        content_ = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    void write() const {
        std::ofstream(directory_.data(), std::ios::binary)
            .write(content_.data(), static_cast<std::streamsize>(content_.size()));
    }
    [[nodiscard]] page_header& page(std::uint64_t number) {
        return *reinterpret_cast<page_header*>(content_.data() + number * page_size);
    }
    [[nodiscard]] meta_on_media& meta() {
        auto& first = *reinterpret_cast<meta_on_media*>(content_.data());
        auto& second = *reinterpret_cast<meta_on_media*>(content_.data() + page_size);
        return second.magic == store_magic && second.sequence > first.sequence ? second : first;
    }
    void seal(std::uint64_t number) { page(number).checksum = page_checksum(page(number), number); }
    void seal_meta() { meta().checksum = meta_checksum(meta()); }
    void forge_meta(const std::function<void(meta_on_media&)>& change) {
        read();
        change(meta());
        seal_meta();
        write();
    }
    void forge_root(const std::function<void(page_header&)>& change) {
        read();
        const std::uint64_t number = meta().main.root;
        ASSERT_EQ(page(number).block.kind, page_kind::leaf);
        change(page(number));
        seal(number);
        write();
    }
    /// Of what read() has read.
    void forge_free_list(const std::vector<extent_on_media>& ready, const std::vector<freed_extent_on_media>& freed) {
        const free_list_on_media head{.ready_count = ready.size(), .freed_count = freed.size()};
        auto* at = reinterpret_cast<std::byte*>(&page(meta().free_list));
        std::byte* const begin = at;
        const auto append = [&at](const auto& many) {
            const auto bytes = std::as_bytes(std::span(many));
            at = std::copy(bytes.begin(), bytes.end(), at);
        };
        append(std::array{head});
        append(ready);
        append(freed);
        meta().free_list_size = static_cast<std::uint64_t>(at - begin);
        meta().free_list_checksum = bytes_checksum({begin, at}, meta().sequence);
        seal_meta();
        write();
    }
    /// A page that the list says a transaction may take; 0: there is none.
    [[nodiscard]] std::uint64_t last_ready() {
        free_list_on_media head{};
        extent_on_media last{};
        const auto* const list = reinterpret_cast<const char*>(&page(meta().free_list));
        std::memcpy(&head, list, sizeof(head));
        if (head.ready_count == 0) {
            return 0;
        }
        std::memcpy(&last, list + sizeof(head) + (head.ready_count - 1) * sizeof(last), sizeof(last));
        return last.start + last.count - 1;
    }
    [[nodiscard]] int check(unsigned flags) const {
        const test_environment env(directory_.path(), flags | MDB_NOSYNC);
        return env.opened() != 0 ? env.opened() : hf_lmdb_check(env.get(), nullptr);
    }
    [[nodiscard]] int change(const std::string& key, std::string_view value) const {
        const test_environment env(directory_.path(), MDB_NOSYNC);
        if (env.opened() != 0) {
            return env.opened();
        }
        MDB_txn* in = nullptr;
        if (const int outcome = mdb_txn_begin(env.get(), nullptr, 0, &in); outcome != 0) {
            return outcome;
        }
        if (const int outcome = value.empty() ? del(in, unnamed, key) : put(in, unnamed, key, value); outcome != 0) {
            mdb_txn_abort(in);
            return outcome;
        }
        return mdb_txn_commit(in);
    }

    static constexpr MDB_dbi unnamed = 1;
    store_directory directory_;
    bytes content_;
};

TEST_F(store_forged_test, a_list_of_free_pages_has_more_bytes_than_there_are_addresses) {
    forge_meta([](meta_on_media& meta) { meta.free_list_size = ~std::uint64_t{0} - 7; });
    EXPECT_EQ(check(0), MDB_CORRUPTED);
    EXPECT_EQ(change("key1", "new"), MDB_CORRUPTED);
}

TEST_F(store_forged_test, the_last_transaction_and_the_last_checkpoint_have_successors) {
    forge_meta([](meta_on_media& meta) { meta.transaction = ~std::uint64_t{0}; });
    EXPECT_EQ(check(0), MDB_CORRUPTED);
    forge_meta([](meta_on_media& meta) {
        meta.transaction = 5;
        meta.sequence |= ~std::uint64_t{1};
    });
    EXPECT_EQ(check(0), MDB_CORRUPTED);
}

TEST_F(store_forged_test, keys_are_not_packed) {
    read();
    const std::uint64_t root = meta().main.root;
    format_block(page(root).block, page_kind::packed, block_capacity, 8);
    insert_packed(page(root).block, 0, "key00001");
    seal(root);
    meta().main.item_size = 8;
    seal_meta();
    write();
    EXPECT_EQ(change("key00001", "new"), MDB_CORRUPTED);
    const test_environment env(directory_.path(), MDB_NOSYNC);
    EXPECT_EQ(env.opened(), MDB_CORRUPTED);  // there, a value of no bytes was written beside the page
}

TEST_F(store_forged_test, an_empty_database_is_not_packed) {
    {
        const test_environment env(directory_.path(), MDB_NOSYNC);
        static_cast<void>(env.open("none", MDB_CREATE));
    }
    forge_root([](page_header& root) {
        for (unsigned i = 0; i < root.block.count; ++i) {
            if (leaf_key_at(root.block, i) == "none") {
                tree_record record = record_from(value_at(root.block, i));
                record.item_size = 8;
                std::memcpy(mutable_value_at(root.block, i), &record, sizeof(record));
            }
        }
    });
    EXPECT_EQ(check(MDB_RDONLY), MDB_CORRUPTED);
    const test_environment env(directory_.path(), MDB_RDONLY);
    MDB_txn* const in = env.begin(MDB_RDONLY);
    MDB_dbi database = 0;
    EXPECT_EQ(mdb_dbi_open(in, "none", 0, &database), MDB_CORRUPTED);
    mdb_txn_abort(in);
}

TEST_F(store_forged_test, a_run_has_no_entries) {
    read();
    const block_header& leaf = page(meta().main.root).block;
    std::uint64_t run = 0;
    for (unsigned i = 0; i < leaf.count; ++i) {
        if ((flags_at(leaf, i) & node_is_long) != 0) {
            run = long_value_from(value_at(leaf, i)).page;
        }
    }
    ASSERT_NE(run, 0U);
    page(run).block.count = 2000;
    page(run).block.has_long_keys = 1;
    std::memset(&page(run).block + 1, 0xFF, page_size / 2);
    seal(run);
    write();
    const test_environment env(directory_.path(), MDB_RDONLY);
    ASSERT_EQ(env.opened(), 0);
    const store_directory to;
    EXPECT_EQ(mdb_env_copy(env.get(), to.path().c_str()), MDB_CORRUPTED);
}

// A node with a key of so many bytes as no program puts, and nothing else.
TEST_F(store_forged_test, a_key_is_no_longer_than_keys_are) {
    const std::string key(3000, 'k');
    forge_root([&key](page_header& root) {
        format_block(root.block, page_kind::leaf, block_capacity, 0);
        insert_leaf(root.block, 0, {.text = key}, "v", 0);
    });
    EXPECT_EQ(change(key, {}), MDB_CORRUPTED);
    EXPECT_EQ(change("k", "another key beside it"), MDB_CORRUPTED);
    EXPECT_EQ(check(MDB_RDONLY), MDB_CORRUPTED);
}

// A medium that loses what is written leaves an older page, whose checksum is right.
TEST_F(store_forged_test, no_page_is_younger_than_the_one_that_leads_to_it) {
    {
        const test_environment env(directory_.path(), MDB_NOSYNC);
        MDB_txn* in = env.begin();
        for (unsigned i = 0; i < 200; ++i) {
            ASSERT_EQ(put(in, unnamed, "more" + std::to_string(1000 + i), std::string(80, 'v')), 0);
        }
        ASSERT_EQ(mdb_txn_commit(in), 0);
        in = env.begin();  // its pages stay as they are
        MDB_dbi dups = 0;
        ASSERT_EQ(mdb_dbi_open(in, "dups", 0, &dups), 0);
        ASSERT_EQ(mdb_drop(in, dups, 0), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    EXPECT_EQ(check(MDB_RDONLY), 0);
    read();
    const page_header& root = page(meta().main.root);
    ASSERT_EQ(root.block.kind, page_kind::branch);
    const std::uint64_t last = child_at(root.block, root.block.count - 1U);
    ASSERT_LT(page(last).birth, meta().transaction);
    page(meta().main.root).birth = page(last).birth - 1;
    seal(meta().main.root);
    write();
    EXPECT_EQ(check(MDB_RDONLY), MDB_CORRUPTED);
    EXPECT_EQ(change("more1199", "new"), MDB_CORRUPTED);
    const test_environment env(directory_.path(), MDB_RDONLY);
    MDB_txn* const in = env.begin(MDB_RDONLY);
    EXPECT_EQ(get(in, unnamed, "more1199"), "error " + std::to_string(MDB_CORRUPTED));
    mdb_txn_abort(in);
}

TEST_F(store_forged_test, who_only_reads_finds_damage_in_the_list_of_free_pages) {
    EXPECT_EQ(check(MDB_RDONLY), 0);
    read();
    ASSERT_NE(meta().free_list, 0U);
    content_[meta().free_list * page_size] ^= 1;
    write();
    EXPECT_EQ(check(MDB_RDONLY), MDB_CORRUPTED);
}

TEST_F(store_forged_test, a_page_in_use_is_named_as_free) {
    read();
    forge_free_list({{.start = meta().main.root, .count = 1}}, {});
    EXPECT_EQ(check(MDB_RDONLY), MDB_CORRUPTED);
    EXPECT_EQ(check(0), MDB_CORRUPTED);
    // What a transaction that was aborted wrote there is not taken for a page of the next one.
    const test_environment env(directory_.path(), MDB_NOSYNC);
    for (unsigned i = 0; i < 3; ++i) {
        MDB_txn* const in = env.begin();
        static_cast<void>(put(in, unnamed, "key1", std::string(300, 'n')));
        static_cast<void>(put(in, unnamed, "key2", std::string(9000, 'n')));
        mdb_txn_abort(in);
    }
}

// A transaction takes it, and it becomes free a second time: check found the store sound, and commits damaged it.
TEST_F(store_forged_test, the_list_of_free_pages_names_a_page_twice) {
    read();
    const std::uint64_t page = last_ready();
    ASSERT_NE(page, 0U);
    forge_free_list({{.start = page, .count = 1}}, {});
    EXPECT_EQ(check(0), 0);
    read();
    const std::uint64_t last = meta().transaction;
    forge_free_list({{.start = page, .count = 1}}, {{.start = page, .count = 1, .born = 0, .died = last}});
    EXPECT_EQ(check(0), MDB_CORRUPTED);
    EXPECT_EQ(change("key1", "new"), MDB_CORRUPTED);
    forge_free_list({{.start = page, .count = 1}, {.start = page, .count = 1}}, {});
    EXPECT_EQ(check(0), MDB_CORRUPTED);
}

// It is free in no version yet, so check found nothing, but would be in the next one.
TEST_F(store_forged_test, the_list_of_free_pages_has_one_that_a_later_transaction_freed) {
    read();
    const std::uint64_t root = meta().main.root;
    forge_free_list({}, {{.start = root, .count = 1, .born = 0, .died = meta().transaction + 1}});
    EXPECT_EQ(check(0), MDB_CORRUPTED);
    EXPECT_EQ(change("key1", "new"), MDB_CORRUPTED);
}

TEST_F(store_forged_test, a_record_frees_a_page_that_is_free_or_will_be) {
    {
        const test_environment env(directory_.path(), MDB_NOSYNC);
        MDB_txn* const in = env.begin();
        ASSERT_EQ(put(in, unnamed, "key1", "new"), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
        read();  // as a crash leaves it
    }
    const std::uint64_t key = log_key(meta().uuid, meta().sequence);
    const log::mark before{.sequence = meta().transaction};
    const std::span log(reinterpret_cast<std::byte*>(&page(meta().log_page)), meta().log_pages * page_size);
    log_record record;
    ASSERT_TRUE(read_record(log, before, key, record));
    ASSERT_FALSE(record.freed.empty());
    std::byte* const at = log.data() + (record.freed.data() - log.data());
    const auto outcome_of = [&](const freed_extent_on_media& freed) {
        std::memcpy(at, &freed, sizeof(freed));
        log::seal(log.first(record.end.position), record.end.position - log::header_size, before, {.key = key});
        write();
        return check(0);
    };
    freed_extent_on_media freed{};
    std::memcpy(&freed, at, sizeof(freed));
    EXPECT_EQ(outcome_of(freed), 0);
    const std::uint64_t transaction = freed.died;
    freed.died = transaction + 1;
    EXPECT_EQ(outcome_of(freed), MDB_CORRUPTED);
    freed.died = transaction;
    freed.start = last_ready();
    ASSERT_NE(freed.start, 0U);
    EXPECT_EQ(outcome_of(freed), MDB_CORRUPTED);
}

// Values of the unnamed database as other flags have them. Flags that came later made what was there something else: a
// long value overran a buffer, and a named database was lost when its name was put.
TEST_F(store_forged_test, the_unnamed_database_keeps_its_flags_while_it_has_entries) {
    const test_environment env(directory_.path(), MDB_NOSYNC);
    MDB_txn* in = env.begin();
    MDB_dbi database = 0;
    ASSERT_EQ(put(in, unnamed, "long", std::string(2000, 'v')), 0);
    EXPECT_EQ(mdb_dbi_open(in, nullptr, MDB_DUPSORT, &database), MDB_INCOMPATIBLE);
    EXPECT_EQ(put(in, unnamed, "long", "another"), 0);
    EXPECT_EQ(get(in, unnamed, "long"), "another");
    ASSERT_EQ(mdb_txn_commit(in), 0);
    in = env.begin(MDB_RDONLY);
    EXPECT_EQ(mdb_dbi_open(in, nullptr, MDB_INTEGERKEY, &database), MDB_INCOMPATIBLE);
    mdb_txn_abort(in);
    in = env.begin();
    ASSERT_EQ(mdb_drop(in, unnamed, 0), 0);
    EXPECT_EQ(mdb_dbi_open(in, nullptr, MDB_DUPSORT, &database), 0);
    ASSERT_EQ(put(in, unnamed, "key", "1"), 0);
    ASSERT_EQ(put(in, unnamed, "key", "2"), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

}  // namespace
}  // namespace holdfast::store_engine
