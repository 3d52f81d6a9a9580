// A store whose commits count when a heap says so. The heap is a number here: in memory, and as its durable state has
// it. A crash is a copy of the file, opened with the durable number.
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <vector>

#include <holdfast/detail/store_in_heap.h>

#include "store/log.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

/// The store of a heap that is open.
class hosted {
public:
    hosted(const std::string& path, std::uint64_t accepted, bool at_once, unsigned flags = MDB_NOSYNC)
        : word(accepted) {
        EXPECT_EQ(mdb_env_create(&env), 0);
        EXPECT_EQ(mdb_env_set_maxdbs(env, 4), 0);
        EXPECT_EQ(hf_lmdb_set_maxkeysize(env, HF_LMDB_MOST_KEYSIZE), 0);
        hf_lmdb_heap heap{
            .accepted = accepted, .identity = {7}, .keeps_at_once = at_once ? 1 : 0, .accept = accept, .context = this};
        opened = hf_lmdb_open_in_heap(env, path.c_str(), flags, 0664, &heap);
    }
    hosted(const hosted&) = delete;
    hosted& operator=(const hosted&) = delete;
    ~hosted() { mdb_env_close(env); }

    static int accept(void* context, std::uint64_t commit) {
        auto& self = *static_cast<hosted*>(context);
        self.asked = commit;
        if (self.answer == 0) {
            self.word = commit;
        }
        return self.answer;
    }
    [[nodiscard]] MDB_txn* begin(unsigned flags = 0) const {
        MDB_txn* made = nullptr;
        EXPECT_EQ(mdb_txn_begin(env, nullptr, flags, &made), 0);
        return made;
    }
    int set(const std::string& key, const std::string& value) const {
        MDB_txn* in = begin();
        EXPECT_EQ(put(in, 1, key, value), 0);
        return mdb_txn_commit(in);
    }
    [[nodiscard]] content_of_store all() const { return content_of(env); }

    MDB_env* env = nullptr;
    int opened = -1;
    int answer = 0;
    std::uint64_t word;
    std::uint64_t asked = 0;
};

class store_in_heap : public testing::Test {
protected:
    [[nodiscard]] std::string file() const { return directory_.path() + "/store"; }
    /// What a crash leaves that happens now.
    [[nodiscard]] std::string copy() const {
        const std::string to = directory_.path() + "/crashed";
        std::filesystem::copy_file(file(), to, std::filesystem::copy_options::overwrite_existing);
        return to;
    }
    /// What is there after a crash, to readers and to a writer, which also writes; and again after a second crash.
    static content_of_store after_crash(const std::string& path, std::uint64_t word) {
        content_of_store found;
        {
            const hosted reader(path, word, true, MDB_RDONLY);
            EXPECT_EQ(reader.opened, 0);
            found = reader.all();
        }
        for (int times = 0; times < 2; ++times) {
            const hosted writer(path, word, true);
            EXPECT_EQ(writer.opened, 0) << mdb_strerror(writer.opened);
            EXPECT_EQ(writer.all(), found);
        }
        return found;
    }

    store_directory directory_;
};

TEST_F(store_in_heap, keeps_what_the_heap_accepted) {
    std::uint64_t word = 0;
    {
        hosted store(file(), 0, true);
        ASSERT_EQ(store.opened, 0);
        ASSERT_EQ(store.set("a", "1"), 0);
        ASSERT_EQ(store.set("b", "2"), 0);
        store.answer = EAGAIN;
        EXPECT_EQ(store.set("c", "3"), EAGAIN);
        EXPECT_EQ(store.all(), (content_of_store{{"a", "1"}, {"b", "2"}}));
        store.answer = 0;
        ASSERT_EQ(store.set("d", "4"), 0);
        word = store.word;
    }
    EXPECT_EQ(after_crash(file(), word), (content_of_store{{"a", "1"}, {"b", "2"}, {"d", "4"}}));
}

/// Was: deletions needed pages that the full store did not have, and what they freed was of no use.
TEST_F(store_in_heap, a_full_store_could_not_be_emptied) {
    unsigned next = 0;
    unsigned first = 0;
    std::uint64_t word = 0;
    const auto name = [](unsigned number) { return "key" + std::to_string(1'000'000 + number); };
    for (const bool at_once : {true, false}) {
        hosted store(file(), word, at_once);
        ASSERT_EQ(mdb_env_set_mapsize(store.env, std::size_t{4} << 20U), 0);
        const auto keep = [&] {
            ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
            hf_lmdb_after_heap_commit(store.env);
        };
        for (unsigned round = 0; round < 3; ++round) {
            const unsigned before = next;
            for (int code = 0; code == 0;) {
                MDB_txn* in = store.begin();
                for (unsigned i = 0; i < 50 && code == 0; ++i) {
                    code = put(in, 1, name(next + i), std::string(100, 'v'));
                }
                code == 0 ? static_cast<void>(code = mdb_txn_commit(in)) : mdb_txn_abort(in);
                next += code == 0 ? 50 : 0;
                EXPECT_TRUE(code == 0 || code == MDB_MAP_FULL) << code;
            }
            EXPECT_GT(next, before) << "what was freed is of no use";
            keep();
            MDB_txn* in = store.begin();
            for (const unsigned end = first + (next - first) / 6; first < end; ++first) {
                ASSERT_EQ(del(in, 1, name(first)), 0);
            }
            ASSERT_EQ(mdb_txn_commit(in), 0);
            keep();
        }
        EXPECT_EQ(store.all().size(), next - first);
        word = store.word;
    }
}

/// Was: one transaction that removed from more pages than are held back found no room. Its pages move below the limit
/// when the heap has what freed the room.
TEST_F(store_in_heap, a_full_store_could_not_be_emptied_by_one_transaction) {
    constexpr std::size_t limit = std::size_t{4} << 20U;
    const auto name = [](unsigned number) { return "key" + std::to_string(number * 2'654'435'761U); };
    std::uint64_t word = 0;
    unsigned next = 0;
    for (const bool at_once : {true, false}) {
        const unsigned first = next;
        hosted store(file(), word, at_once);
        ASSERT_EQ(mdb_env_set_mapsize(store.env, limit), 0);
        const auto keep = [&] {
            ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
            hf_lmdb_after_heap_commit(store.env);
        };
        for (int code = 0; code == 0;) {
            MDB_txn* in = store.begin();
            for (unsigned i = 0; i < 50 && code == 0; ++i) {
                code = put(in, 1, name(next + i), std::string(100, 'v'));
            }
            code == 0 ? static_cast<void>(code = mdb_txn_commit(in)) : mdb_txn_abort(in);
            next += code == 0 ? 50 : 0;
            EXPECT_TRUE(code == 0 || code == MDB_MAP_FULL) << code;
        }
        keep();
        for (const int answer : {EAGAIN, 0}) {
            store.answer = answer;
            MDB_txn* in = store.begin();
            for (unsigned i = first; i < next; ++i) {
                ASSERT_EQ(i % 3 != 0 ? del(in, 1, name(i)) : 0, 0) << i;
            }
            ASSERT_EQ(mdb_txn_commit(in), answer);
        }
        EXPECT_EQ(after_crash(copy(), store.word), store.all());
        keep();
        for (unsigned i = 0; i < 2; ++i) {
            ASSERT_EQ(store.set("key", std::to_string(i)), 0);
            keep();
        }
        EXPECT_EQ(after_crash(copy(), store.word), store.all());
        EXPECT_LE(std::filesystem::file_size(file()), limit + limit / 64);  // the list of free pages may lie behind
        word = store.word;
    }
}

TEST_F(store_in_heap, a_prepared_commit_is_there_if_the_heap_says_so) {
    hosted store(file(), 0, true);
    ASSERT_EQ(store.set("a", "1"), 0);
    for (const std::size_t size : {std::size_t{10}, std::size_t{3} << 20U}) {  // a record, and a checkpoint
        const content_of_store before = store.all();
        content_of_store after = before;
        after["b"] = std::string(size, 'b');
        MDB_txn* in = store.begin();
        ASSERT_EQ(put(in, 1, "b", after["b"]), 0);
        std::uint64_t commit = 0;
        ASSERT_EQ(hf_lmdb_prepare(in, &commit), 0);
        EXPECT_EQ(commit, store.word + 1);
        EXPECT_EQ(put(in, 1, "c", "later"), MDB_BAD_TXN);
        EXPECT_EQ(store.all(), before) << "readers see it before it counts";
        EXPECT_TRUE(after_crash(copy(), store.word) == before);
        EXPECT_TRUE(after_crash(copy(), commit) == after);
        ASSERT_EQ(hf_lmdb_end_prepared(in, ENOSPC), ENOSPC);
        mdb_txn_abort(in);
        EXPECT_TRUE(store.all() == before);
        EXPECT_TRUE(after_crash(copy(), store.word) == before);
        // The number counts again, with other content.
        ASSERT_EQ(store.set("x", std::to_string(size)), 0);
        EXPECT_EQ(store.word, commit);
        after = before;
        after["x"] = std::to_string(size);
        EXPECT_TRUE(store.all() == after);
        EXPECT_TRUE(after_crash(copy(), commit) == after);
    }
}

/// An image with a prepared checkpoint is opened by the old word, and other commits take its number.
TEST_F(store_in_heap, what_a_crash_left_beyond_the_word_never_comes_back) {
    hosted store(file(), 0, true);
    ASSERT_EQ(store.set("a", "1"), 0);
    MDB_txn* in = store.begin();
    ASSERT_EQ(put(in, 1, "b", std::string(std::size_t{3} << 20U, 'b')), 0);
    std::uint64_t commit = 0;
    ASSERT_EQ(hf_lmdb_prepare(in, &commit), 0);
    const std::string crashed = copy();
    mdb_txn_abort(in);
    {
        hosted again(crashed, commit - 1, true);
        ASSERT_EQ(again.set("c", "3"), 0);
        ASSERT_EQ(again.word, commit);
        const std::string twice = directory_.path() + "/twice";
        std::filesystem::copy_file(crashed, twice);
        EXPECT_EQ(after_crash(twice, commit), (content_of_store{{"a", "1"}, {"c", "3"}}));
    }
}

TEST_F(store_in_heap, an_unknown_outcome_ends_writing) {
    hosted store(file(), 0, true);
    ASSERT_EQ(store.set("a", "1"), 0);
    store.answer = MDB_PANIC;
    EXPECT_EQ(store.set("b", "2"), MDB_PANIC);
    MDB_txn* in = nullptr;
    EXPECT_EQ(mdb_txn_begin(store.env, nullptr, 0, &in), MDB_PANIC);
    EXPECT_EQ(after_crash(copy(), 1), (content_of_store{{"a", "1"}}));
    EXPECT_EQ(after_crash(copy(), 2), (content_of_store{{"a", "1"}, {"b", "2"}}));
}

TEST_F(store_in_heap, refuses_what_is_not_of_the_heap) {
    { ASSERT_EQ(hosted(file(), 0, true).set("a", "1"), 0); }
    EXPECT_EQ(hosted(file(), 2, true).opened, MDB_CORRUPTED) << "the heap has a commit that is not there";
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    EXPECT_EQ(mdb_env_open(env, file().c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0664), MDB_VERSION_MISMATCH);
    mdb_env_close(env);
    const std::string alone = directory_.path() + "/alone";
    { ASSERT_EQ(test_environment(alone, MDB_NOSUBDIR).opened(), 0); }
    EXPECT_EQ(hosted(alone, 0, true).opened, MDB_VERSION_MISMATCH);
    hf_lmdb_heap other{
        .accepted = 1, .identity = {8}, .keeps_at_once = 1, .accept = hosted::accept, .context = nullptr};
    ASSERT_EQ(mdb_env_create(&env), 0);
    EXPECT_EQ(hf_lmdb_open_in_heap(env, file().c_str(), 0, 0664, &other), ESTALE);
    mdb_env_close(env);
    EXPECT_EQ(after_crash(file(), 1), (content_of_store{{"a", "1"}}));
}

/// The store outgrows its log again and again, while a recovery needs the records where they were.
TEST_F(store_in_heap, the_log_moves_while_an_older_state_counts) {
    hosted store(file(), 0, false);
    for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(store.set("key" + std::to_string(i), std::string(20'000, 'v')), 0);
    }
    ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
    hf_lmdb_after_heap_commit(store.env);
    const std::uint64_t durable = store.word;
    const content_of_store expected = store.all();
    for (int i = 0; i < 60; ++i) {
        ASSERT_EQ(store.set("large" + std::to_string(i % 45), std::string(300'000, 'w')), 0);
        if (i % 15 == 14) {
            ASSERT_TRUE(after_crash(copy(), durable) == expected) << i;
        }
    }
    ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
    hf_lmdb_after_heap_commit(store.env);
    EXPECT_TRUE(after_crash(copy(), store.word) == store.all());
    // It comes to rest meanwhile, which makes a log short that nobody needs.
    for (int times = 0; times < 3; ++times) {
        ASSERT_EQ(store.set("small", std::to_string(times)), 0);
        ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
        hf_lmdb_after_heap_commit(store.env);
        const std::uint64_t word = store.word;
        const content_of_store then = store.all();
        for (int i = 0; i < 12; ++i) {
            ASSERT_EQ(store.set("large" + std::to_string(i), std::string(300'000, 'x')), 0);
            if (i == 2) {
                ASSERT_EQ(mdb_env_sync(store.env, 1), 0);
            }
        }
        ASSERT_TRUE(after_crash(copy(), word) == then) << times;
    }
}

/// Nobody knows then which of two states the heap has: both can be recovered, and what would need a third is refused.
TEST_F(store_in_heap, a_failed_commit_of_the_heap_leaves_both_states) {
    hosted store(file(), 0, false);
    ASSERT_EQ(store.set("key", "before"), 0);
    ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
    hf_lmdb_after_heap_commit(store.env);
    const std::uint64_t before = store.word;
    const content_of_store was = store.all();
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(store.set("large" + std::to_string(i), std::string(300'000, 'w')), 0);  // checkpoints
    }
    ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
    hf_lmdb_heap_commit_failed(store.env);
    const std::uint64_t wanted = store.word;
    const content_of_store to_be = store.all();
    int outcome = 0;
    for (int i = 0; i < 60 && outcome == 0; ++i) {
        outcome = store.set("large" + std::to_string(i % 10), std::string(300'000, 'x'));
    }
    EXPECT_EQ(outcome, EBUSY);
    EXPECT_TRUE(after_crash(copy(), before) == was);
    EXPECT_TRUE(after_crash(copy(), wanted) == to_be);
    ASSERT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
    hf_lmdb_after_heap_commit(store.env);
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(store.set("large" + std::to_string(i), std::string(300'000, 'y')), 0);
    }
}

/// Whatever byte of a meta is another one: an error, or what was there, and no crash.
TEST_F(store_in_heap, damaged_metas_are_errors_or_harmless) {
    std::uint64_t word = 0;
    content_of_store expected;
    {
        hosted store(file(), 0, true);
        for (int i = 0; i < 12; ++i) {
            ASSERT_EQ(store.set("key" + std::to_string(i), std::string(200'000, 'v')), 0);
        }
        word = store.word;
        expected = store.all();
        static_cast<void>(copy());  // as a crash leaves it: two checkpoints, and records
    }
    std::fstream crashed(directory_.path() + "/crashed", std::ios::in | std::ios::out | std::ios::binary);
    for (const std::streamoff meta : {0, 4096}) {
        for (std::streamoff at = meta; at < meta + 152; at += 3) {
            crashed.seekg(at);
            const auto before = static_cast<char>(crashed.get());
            crashed.seekp(at).put(static_cast<char>(before ^ 0x41)).flush();
            const hosted store(directory_.path() + "/crashed", word, true, MDB_RDONLY);
            if (store.opened == 0 && hf_lmdb_check(store.env, nullptr) == 0) {
                EXPECT_TRUE(store.all() == expected) << "byte " << at;
            }
            crashed.seekp(at).put(before).flush();
        }
    }
}

/// A record of somebody who gives back pages that the file does not have, and has one of them as the root: it is read
/// where only a writer can make the file longer.
TEST_F(store_in_heap, a_record_leads_behind_the_end_of_the_file) {
    { ASSERT_EQ(hosted(file(), 0, true).set("a", "1"), 0); }
    std::fstream forged(file(), std::ios::in | std::ios::out | std::ios::binary);
    meta_on_media meta{};
    for (std::uint64_t number = 0; number < meta_pages; ++number) {
        meta_on_media one{};
        forged.seekg(static_cast<std::streamoff>(number * page_size));
        forged.read(reinterpret_cast<char*>(&one), sizeof(one));
        meta = one.magic == store_magic && one.sequence >= meta.sequence ? one : meta;
    }
    struct {
        log::record_header_on_media header;
        commit_on_media head;
        extent_on_media returned;
    } record{};
    record.head = {.main = meta.main,
                   .next_page = meta.next_page + 1,
                   .taken_count = 0,
                   .returned_count = 1,
                   .freed_count = 0,
                   .page_count = 0};
    record.head.main.root = meta.next_page;
    record.returned = {.start = meta.next_page, .count = 1};
    log::seal(std::as_writable_bytes(std::span(&record, 1)), sizeof(record) - log::header_size,
              {.sequence = meta.transaction}, {.epoch = 1, .key = log_key(meta.uuid, meta.sequence)});
    const std::uint64_t log_page = meta.log_page + meta.sequence % 2 * (meta.log_pages / 2);
    forged.seekp(static_cast<std::streamoff>(log_page * page_size));
    forged.write(reinterpret_cast<const char*>(&record), sizeof(record));
    forged.close();
    std::filesystem::resize_file(file(), meta.next_page * page_size);
    {
        const hosted reader(file(), meta.transaction + 1, true, MDB_RDONLY);
        EXPECT_EQ(reader.opened, EACCES);
        EXPECT_NE(hf_lmdb_check(reader.env, nullptr), 0);
    }
    const hosted writer(file(), meta.transaction + 1, true);
    EXPECT_TRUE(writer.opened != 0 || hf_lmdb_check(writer.env, nullptr) != 0);
}

/// Random commits, refusals, commits of the heap that succeed or fail, crashes, and readers that stay, against a model.
/// The durable word stays behind the last commit (a heap with its own commits), or not.
class store_in_heap_model : public store_in_heap, public testing::WithParamInterface<bool> {
protected:
    void step(hosted& store);
    void change(hosted& store);
    void commit_heap(hosted& store);
    void decide_by_commit_of_heap(hosted& store, MDB_txn* in, bool succeeds);
    void read(const hosted& store);
    void end_session(hosted& store);
    void expect_after_crash();

    std::mt19937 random_{20261};
    std::map<std::uint64_t, content_of_store> history_{{0, {}}};
    std::uint64_t durable_ = 0;
    std::uint64_t maybe_ = 0;  ///< what a commit of the heap that failed may have made durable; or durable_
    MDB_txn* reader_ = nullptr;
    std::uint64_t read_ = 0;  ///< the version that it reads
    unsigned refused_ = 0;
    unsigned busy_ = 0;
    bool keeps_two_ = false;  ///< a commit of the heap failed since the last one
};

void store_in_heap_model::expect_after_crash() {
    const std::string crashed = copy();
    const std::string second = directory_.path() + "/second";
    if (maybe_ != durable_) {
        std::filesystem::copy_file(crashed, second, std::filesystem::copy_options::overwrite_existing);
        ASSERT_TRUE(after_crash(second, maybe_) == history_.at(maybe_));
    }
    ASSERT_TRUE(after_crash(crashed, durable_) == history_.at(durable_));
}

void store_in_heap_model::change(hosted& store) {
    content_of_store next = history_.at(store.word);
    MDB_txn* in = store.begin();
    for (unsigned i = 0; i < 1 + random_() % 20; ++i) {
        const std::string key = "key" + std::to_string(random_() % 300);
        if (random_() % 3 == 0) {
            EXPECT_EQ(del(in, 1, key), next.erase(key) == 1 ? 0 : MDB_NOTFOUND);
        } else {
            const std::size_t large = maybe_ != durable_ ? 900'000 : 200'000;  // fills the log until it must wait
            const std::size_t most = random_() % 8 == 0 ? large : 500;
            next[key] = std::string(random_() % most, static_cast<char>('a' + random_() % 26));
            EXPECT_EQ(put(in, 1, key, next[key]), 0);
        }
    }
    std::uint64_t commit = 0;
    const int prepared = hf_lmdb_prepare(in, &commit);
    ASSERT_TRUE(prepared == 0 || (prepared == EBUSY && (maybe_ != durable_ || keeps_two_))) << mdb_strerror(prepared);
    busy_ += prepared == EBUSY ? 1 : 0;
    const bool accepted = random_() % 4 != 0;
    if (random_() % 25 == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_after_crash()) << "crashed at " << commit;
    }
    if (commit != 0 && accepted) {
        store.word = commit;
        history_[commit] = next;
    }
    if (commit != 0 && !GetParam() && random_() % 40 == 0) {
        ASSERT_NO_FATAL_FAILURE(decide_by_commit_of_heap(store, in, accepted));
    } else if (commit != 0) {
        EXPECT_EQ(hf_lmdb_end_prepared(in, accepted ? 0 : EAGAIN), accepted ? 0 : EAGAIN);
        refused_ += accepted ? 0 : 1;
    }
    mdb_txn_abort(in);
    if (GetParam()) {
        durable_ = maybe_ = store.word;
    }
}

void store_in_heap_model::commit_heap(hosted& store) {
    EXPECT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
    maybe_ = store.word;
    ASSERT_NO_FATAL_FAILURE(expect_after_crash());
    if (!GetParam() && random_() % 3 == 0) {
        hf_lmdb_heap_commit_failed(store.env);
        return;
    }
    durable_ = store.word;
    hf_lmdb_after_heap_commit(store.env);
    keeps_two_ = false;
}

/// Between the phases of a commit, as a transaction of the heap does it; where it fails, the heap surely has not the
/// commit. `store.word`: what the heap then has in memory.
void store_in_heap_model::decide_by_commit_of_heap(hosted& store, MDB_txn* in, bool succeeds) {
    EXPECT_EQ(hf_lmdb_try_hold_writers(store.env), 0);
    EXPECT_EQ(hf_lmdb_before_heap_commit(store.env), 0);
    ASSERT_NO_FATAL_FAILURE(expect_after_crash());
    if (succeeds) {
        durable_ = maybe_ = store.word;
        ASSERT_NO_FATAL_FAILURE(expect_after_crash());
        hf_lmdb_accept_prepared(in);
        hf_lmdb_after_heap_commit(store.env);
        keeps_two_ = false;
    } else {
        hf_lmdb_heap_commit_failed(store.env);
        keeps_two_ = true;
    }
    hf_lmdb_release_writers(store.env);
    EXPECT_EQ(hf_lmdb_end_prepared(in, succeeds ? 0 : ENOSPC), succeeds ? 0 : ENOSPC);
    refused_ += succeeds ? 0 : 1;
    ASSERT_NO_FATAL_FAILURE(expect_after_crash());
}

/// A reader stays over many commits.
void store_in_heap_model::read(const hosted& store) {
    if (reader_ == nullptr) {
        reader_ = store.begin(MDB_RDONLY);
        read_ = store.word;
        return;
    }
    for (const auto& [key, value] : history_.at(read_)) {
        ASSERT_TRUE(get(reader_, 1, key) == value) << key << " in version " << read_;
    }
    mdb_txn_abort(reader_);
    reader_ = nullptr;
}

void store_in_heap_model::step(hosted& store) {
    ASSERT_NO_FATAL_FAILURE(change(store));
    if (random_() % 30 == 0) {
        ASSERT_NO_FATAL_FAILURE(commit_heap(store));
    }
    if (random_() % 12 == 0) {
        ASSERT_NO_FATAL_FAILURE(read(store));
    }
    if (random_() % 15 == 0) {
        ASSERT_TRUE(store.all() == history_.at(store.word));
        ASSERT_NO_FATAL_FAILURE(expect_after_crash());
    }
    if (random_() % 60 == 0) {
        EXPECT_EQ(mdb_env_sync(store.env, 1), 0);
    }
}

/// The heap is closed without a commit.
void store_in_heap_model::end_session(hosted& store) {
    mdb_txn_abort(reader_);
    reader_ = nullptr;
    if (random_() % 2 == 0) {
        hf_lmdb_leave_heap(store.env);
        ASSERT_NO_FATAL_FAILURE(expect_after_crash());
    }
    durable_ = maybe_ = random_() % 2 == 0 ? maybe_ : durable_;
    history_.erase(history_.upper_bound(durable_), history_.end());
}

TEST_P(store_in_heap_model, agrees_after_every_crash) {
    for (int sessions = 0; sessions < 5 && !HasFatalFailure(); ++sessions) {
        const std::string crashed = directory_.path() + "/left";
        {
            hosted store(file(), durable_, GetParam());
            ASSERT_EQ(store.opened, 0) << mdb_strerror(store.opened);
            ASSERT_TRUE(store.all() == history_.at(durable_));
            for (int steps = 0; steps < 100 && !HasFatalFailure(); ++steps) {
                step(store);
            }
            std::filesystem::copy_file(file(), crashed, std::filesystem::copy_options::overwrite_existing);
            end_session(store);
        }
        if (random_() % 3 == 0) {  // it ended in a crash
            std::filesystem::rename(crashed, file());
        }
    }
    EXPECT_GT(refused_, 20U);
    EXPECT_TRUE(GetParam() || busy_ > 0);
}

INSTANTIATE_TEST_SUITE_P(heap, store_in_heap_model, testing::Bool(),
                         [](const auto& of) { return of.param ? "at_once" : "later"; });

}  // namespace
}  // namespace holdfast::store_engine
