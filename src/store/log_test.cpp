// Recovery: a store whose file is as a crash may leave it. The last record of the log cut at any byte, each byte of it
// changed, a meta torn: what was committed before is there, what follows is there as a whole or not at all, and damage
// to what a checkpoint holds is an error, never a wrong answer.
#include "store/log.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include "store/committer.hpp"
#include "store/page_checksum.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

using bytes = std::vector<char>;

// Behind metas and log.
constexpr std::size_t first_page = meta_pages + least_log_pages;

bytes read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void write_file(const std::string& path, const bytes& content) {
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

// A process that commits `count` transactions and ends without closing the store.
void crash_after(const std::string& path, unsigned count) {
    const pid_t child = ::fork();  // lint-allow(fork): a layer above base/
    ASSERT_GE(child, 0);
    if (child == 0) {
        MDB_env* env = nullptr;
        bool good = mdb_env_create(&env) == 0 && mdb_env_open(env, path.c_str(), MDB_NOSYNC, 0664) == 0;
        for (unsigned i = 0; good && i < count; ++i) {
            MDB_txn* in = nullptr;
            MDB_dbi database = 0;
            good = mdb_txn_begin(env, nullptr, 0, &in) == 0 && mdb_dbi_open(in, nullptr, 0, &database) == 0 &&
                   put(in, database, "last", std::to_string(i)) == 0 &&
                   put(in, database, "key" + std::to_string(i * 37 % 100), std::string(20 + i * 13 % 100, 'v')) == 0 &&
                   mdb_txn_commit(in) == 0;
        }
        ::_exit(good ? 0 : 1);
    }
    int outcome = 0;
    ASSERT_EQ(::waitpid(child, &outcome, 0), child);
    ASSERT_EQ(outcome, 0);
}

// The last transaction that a store opened from this content has; -1: none, -2: an error.
int last_of(const bytes& content) {
    const store_directory directory;
    write_file(directory.data(), content);
    const test_environment env(directory.path(), MDB_NOSYNC);
    if (env.opened() != 0) {
        return -2;
    }
    MDB_txn* in = env.begin(MDB_RDONLY);
    MDB_dbi database = 0;
    EXPECT_EQ(mdb_dbi_open(in, nullptr, 0, &database), 0);
    const std::string last = get(in, database, "last");
    mdb_txn_abort(in);
    if (last.starts_with("error")) {
        return last == "error -30798" ? -1 : -2;
    }
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
    return std::atoi(last.c_str());
}

// Where the records of the log lie in the file.
std::vector<std::pair<std::size_t, std::size_t>> records_of(const bytes& content) {
    meta_on_media meta{};
    for (std::size_t page = 0; page < meta_pages; ++page) {
        meta_on_media one{};
        std::memcpy(&one, content.data() + page * page_size, sizeof(one));
        if (one.checksum == meta_checksum(one) && (meta.log_page == 0 || one.sequence > meta.sequence)) {
            meta = one;
        }
    }
    std::vector<std::pair<std::size_t, std::size_t>> records;
    std::size_t at = meta.log_page * page_size;
    for (std::uint64_t transaction = meta.transaction + 1;; ++transaction) {
        log::record_header_on_media head{};
        std::memcpy(&head, content.data() + at, sizeof(head));
        if (head.sequence != transaction) {
            return records;
        }
        records.emplace_back(at, log::space_of(head.size));
        at += log::space_of(head.size);
    }
}

class recovery_test : public testing::Test {
protected:
    void SetUp() override {
        crash_after(directory_.path(), count);
        content_ = read_file(directory_.data());
        records_ = records_of(content_);
        ASSERT_EQ(records_.size(), count);
    }
    static constexpr unsigned count = 24;
    store_directory directory_;
    bytes content_;
    std::vector<std::pair<std::size_t, std::size_t>> records_;
};

TEST_F(recovery_test, the_log_rebuilds_pages_that_were_never_written) {
    // All that lies behind metas and log is what the commits wrote: none of it needs to have reached the disk.
    std::memset(content_.data() + first_page * page_size, 0xA5, content_.size() - first_page * page_size);
    EXPECT_EQ(last_of(content_), count - 1);
    content_.resize(first_page * page_size);
    EXPECT_EQ(last_of(content_), count - 1);
}

TEST_F(recovery_test, a_log_that_ends_with_any_record_gives_the_commits_before) {
    for (unsigned kept = 0; kept < count; ++kept) {
        bytes cut = content_;
        std::memset(cut.data() + records_[kept].first, 0, records_[kept].second);
        ASSERT_EQ(last_of(cut), static_cast<int>(kept) - 1);
    }
}

TEST_F(recovery_test, a_record_that_is_torn_or_damaged_anywhere_is_not_there) {
    const auto [start, size] = records_.back();
    for (std::size_t at = 0; at < size; at += 1 + size / 40) {
        bytes torn = content_;
        std::memset(torn.data() + start + at, 0, size - at);
        if (std::memcmp(torn.data() + start, content_.data() + start, size) != 0) {
            ASSERT_EQ(last_of(torn), static_cast<int>(count) - 2) << "cut at " << at;
        }
        bytes damaged = content_;
        damaged[start + at] = static_cast<char>(damaged[start + at] ^ 0x10);
        ASSERT_EQ(last_of(damaged), static_cast<int>(count) - 2) << "changed at " << at;
    }
}

TEST_F(recovery_test, a_meta_that_was_being_written_does_not_count) {
    {
        const test_environment closed(directory_.path());  // writes a checkpoint: the second meta
        ASSERT_EQ(closed.opened(), 0);
    }
    const bytes closed = read_file(directory_.data());
    ASSERT_EQ(last_of(closed), count - 1);
    for (std::size_t at = 0; at < sizeof(meta_on_media); at += 7) {
        // The file as it was before the checkpoint, with a part of its meta.
        bytes torn = content_;
        std::memcpy(torn.data() + page_size, closed.data() + page_size, at);
        ASSERT_EQ(last_of(torn), count - 1) << "torn at " << at;
    }
}

// Without it, the checkpoint before would count, and all since would be gone in silence.
TEST_F(recovery_test, a_damaged_meta_of_a_log_that_was_written_is_an_error) {
    {
        const test_environment closed(directory_.path());  // a checkpoint: the second meta
        ASSERT_EQ(closed.opened(), 0);
    }
    crash_after(directory_.path(), 3);
    const bytes crashed = read_file(directory_.data());
    ASSERT_EQ(last_of(crashed), 2);
    bytes damaged = crashed;
    damaged[page_size + offsetof(meta_on_media, main)] ^= 1;
    EXPECT_EQ(last_of(damaged), -2);
    std::memcpy(damaged.data() + page_size, content_.data() + page_size, page_size);  // as it was before
    EXPECT_EQ(last_of(damaged), -2);
}

TEST_F(recovery_test, a_damaged_page_is_an_error) {
    {
        const test_environment closed(directory_.path());
        ASSERT_EQ(closed.opened(), 0);
        MDB_txn* in = closed.begin();
        ASSERT_EQ(put(in, 1, "long", std::string(9000, 'l')), 0);
        ASSERT_EQ(put(in, 1, "longer", std::string(20'000, 'l')), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    const bytes closed = read_file(directory_.data());
    unsigned noticed = 0;
    for (std::size_t page = first_page; page < closed.size() / page_size; ++page) {
        bytes damaged = closed;
        for (std::size_t at = page * page_size + 40; at < (page + 1) * page_size; at += 64) {
            damaged[at] = static_cast<char>(damaged[at] ^ 1);
        }
        const store_directory directory;
        write_file(directory.data(), damaged);
        const test_environment env(directory.path(), MDB_RDONLY);
        ASSERT_EQ(env.opened(), 0);
        const int outcome = hf_lmdb_check(env.get(), nullptr);
        ASSERT_TRUE(outcome == 0 || outcome == MDB_CORRUPTED || outcome == MDB_PAGE_NOTFOUND);
        noticed += outcome != 0 ? 1 : 0;
    }
    EXPECT_GE(noticed, 3U);  // of all pages that the last version uses; the others are free
}

// Of what a fuzzer found: both have right checksums.
TEST_F(recovery_test, a_record_that_claims_pages_which_it_does_not_write_is_damage) {
    const auto [start, size] = records_.back();
    meta_on_media meta{};  // of the first checkpoint
    std::memcpy(&meta, content_.data(), sizeof(meta));
    const std::span record(reinterpret_cast<std::byte*>(content_.data()) + start, size);
    log::record_header_on_media header{};
    std::memcpy(&header, record.data(), sizeof(header));
    const auto seal = [&] {
        log::seal(record, header.size, {.sequence = header.sequence - 1, .checksum = header.before},
                  {.kind = header.kind, .epoch = header.epoch, .key = log_key(meta.uuid, meta.sequence)});
    };
    seal();
    ASSERT_EQ(last_of(content_), count - 1);
    commit_on_media commit{};
    std::memcpy(&commit, record.data() + log::header_size, sizeof(commit));
    commit.next_page += std::uint64_t{1} << 20U;  // four gigabytes that nobody wrote
    std::memcpy(record.data() + log::header_size, &commit, sizeof(commit));
    seal();
    EXPECT_EQ(last_of(content_), -2);
}

TEST_F(recovery_test, a_page_that_claims_to_be_many_is_damage) {
    {
        const test_environment closed(directory_.path());
        ASSERT_EQ(closed.opened(), 0);
    }
    bytes closed = read_file(directory_.data());
    unsigned changed = 0;
    for (std::size_t number = first_page; number < closed.size() / page_size; ++number) {
        page_header head{};
        char* const at = closed.data() + number * page_size;
        std::memcpy(&head, at, sizeof(head));
        if (head.block.kind != page_kind::leaf || head.run_pages != 1) {
            continue;
        }
        head.run_pages = 3;
        std::memcpy(at, &head, sizeof(head));
        head.checksum = page_checksum(*reinterpret_cast<const page_header*>(at), number);
        std::memcpy(at, &head, sizeof(head));
        ++changed;
    }
    ASSERT_GT(changed, 0U);
    EXPECT_EQ(last_of(closed), -2);
}

// A process that commits this value, and each that follows, and ends without closing the store.
void crash_after_values(const std::string& path, std::initializer_list<const char*> values, unsigned flags) {
    const pid_t child = ::fork();  // lint-allow(fork): a layer above base/
    ASSERT_GE(child, 0);
    if (child == 0) {
        MDB_env* env = nullptr;
        bool good = mdb_env_create(&env) == 0 && mdb_env_open(env, path.c_str(), flags, 0664) == 0;
        for (const char* value : values) {
            MDB_txn* in = nullptr;
            good = good && mdb_txn_begin(env, nullptr, 0, &in) == 0 && put(in, 1, "key", value) == 0 &&
                   mdb_txn_commit(in) == 0;
        }
        ::_exit(good ? 0 : 1);
    }
    int outcome = 0;
    ASSERT_EQ(::waitpid(child, &outcome, 0), child);
    ASSERT_EQ(outcome, 0);
}

/// Was: commits that a loss of power had undone came back, over others. The medium had got the record of a later one,
/// and not that of an earlier one; a new record as long as the earlier one led to the later one again.
TEST(recovery_of_lost_records_test, commits_that_were_undone_came_back) {
    for (const unsigned lost : {0U, 1U, 2U}) {
        for (const unsigned reader : {0U, unsigned{MDB_RDONLY}}) {
            const store_directory first;
            crash_after_values(first.path(), {"old 1", "old 2", "old 3", "old 4", "old 5"}, MDB_NOSYNC);
            bytes content = read_file(first.data());
            const auto records = records_of(content);
            ASSERT_EQ(records.size(), 5U);
            std::memset(content.data() + records[lost].first, 0, log::header_size);
            const store_directory second;
            write_file(second.data(), content);
            crash_after_values(second.path(), {}, reader);
            crash_after_values(second.path(), {"new 1"}, 0);
            const test_environment env(second.path());
            ASSERT_EQ(env.opened(), 0);
            EXPECT_EQ(content_of(env.get()), (content_of_store{{"key", "new 1"}}));
        }
    }
}

/// Was: pages that the inner of two transactions took, which were both undone, were in no list any more. They stayed
/// unused for ever, and where they were new, the log was damage to a recovery: a crash cost the whole store.
TEST(recovery_of_nested_test, pages_of_two_levels_that_were_undone_were_lost) {
    const store_directory directory;
    const pid_t child = ::fork();  // lint-allow(fork): a layer above base/
    ASSERT_GE(child, 0);
    if (child == 0) {
        MDB_env* env = nullptr;
        MDB_txn* levels[3] = {};
        MDB_dbi database = 0;
        bool good = mdb_env_create(&env) == 0 && mdb_env_open(env, directory.path().c_str(), MDB_NOSYNC, 0664) == 0 &&
                    mdb_txn_begin(env, nullptr, 0, &levels[0]) == 0 &&
                    mdb_dbi_open(levels[0], nullptr, 0, &database) == 0 && put(levels[0], database, "kept", "v") == 0 &&
                    mdb_txn_begin(env, levels[0], 0, &levels[1]) == 0 &&
                    mdb_txn_begin(env, levels[1], 0, &levels[2]) == 0;
        for (unsigned i = 0; good && i < 200; ++i) {
            good = put(levels[2], database, "undone" + std::to_string(i), std::string(1000 + i * 30, 'v')) == 0;
        }
        mdb_txn_abort(levels[2]);
        mdb_txn_abort(levels[1]);
        ::_exit(good && mdb_txn_commit(levels[0]) == 0 ? 0 : 1);
    }
    int outcome = 0;
    ASSERT_EQ(::waitpid(child, &outcome, 0), child);
    ASSERT_EQ(outcome, 0);
    const test_environment env(directory.path());
    ASSERT_EQ(env.opened(), 0);
    MDB_txn* in = env.begin(MDB_RDONLY);
    EXPECT_EQ(get(in, 1, "kept"), "v");
    mdb_txn_abort(in);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

TEST(store_file_test, other_files_are_refused) {
    const store_directory directory;
    write_file(directory.data(), bytes(8192, 'x'));
    EXPECT_EQ(test_environment(directory.path()).opened(), MDB_INVALID);
    EXPECT_EQ(test_environment(directory.path() + "/missing").opened(), ENOENT);
    const store_directory empty;
    EXPECT_EQ(test_environment(empty.path(), MDB_RDONLY).opened(), ENOENT);
    const test_environment made(empty.path());
    ASSERT_EQ(made.opened(), 0);
    bytes other = read_file(empty.data());
    for (const int version : {1, 4, 5, 6, 99}) {
        const store_directory directory_of_version;
        other[8] = static_cast<char>(version);
        write_file(directory_of_version.data(), other);
        EXPECT_EQ(test_environment(directory_of_version.path()).opened(), MDB_VERSION_MISMATCH) << version;
    }
}

}  // namespace
}  // namespace holdfast::store_engine
