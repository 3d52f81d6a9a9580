// For the fuzzer of stores: a store in a heap, with random commits, refusals, commits of the heap and crashes. The heap
// is a number: in memory, and in its durable state. A crash is another look at the file, with the durable number.
#pragma once

#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include <holdfast/detail/store_in_heap.h>

#include "store/store_fuzz_support.hpp"

namespace holdfast::store_engine::fuzz {

struct place_of_store {
    std::string path;
    unsigned flags = 0;
    std::uint8_t identity = 0;  ///< the first byte; zeros follow
};

/// Open, or refused.
class hosted_store {
public:
    hosted_store(const place_of_store& place, std::uint64_t accepted, bool at_once, unsigned more_flags = 0)
        : word_(accepted) {
        require(mdb_env_create(&env_) == 0, "no memory\n");
        require(mdb_env_set_maxdbs(env_, databases + 2) == 0, "no databases\n");
        require(hf_lmdb_set_maxkeysize(env_, HF_LMDB_MOST_KEYSIZE) == 0, "no long keys\n");
        hf_lmdb_heap heap{.accepted = accepted,
                          .identity = {place.identity},
                          .keeps_at_once = at_once ? 1 : 0,
                          .accept = accept,
                          .context = this};
        opened_ = hf_lmdb_open_in_heap(env_, place.path.c_str(), place.flags | more_flags | MDB_NOSYNC, 0600, &heap);
        MDB_envinfo info{};
        require(opened_ != 0 || (mdb_env_info(env_, &info) == 0 && info.me_last_txnid == accepted),
                "a store that the heap does not know was opened\n");
    }
    hosted_store(const hosted_store&) = delete;
    hosted_store& operator=(const hosted_store&) = delete;
    ~hosted_store() { mdb_env_close(env_); }

    [[nodiscard]] MDB_env* env() const noexcept { return env_; }
    [[nodiscard]] int opened() const noexcept { return opened_; }
    [[nodiscard]] std::uint64_t word() const noexcept { return word_; }
    void set_word(std::uint64_t commit) noexcept { word_ = commit; }
    void answer(int what) noexcept { answer_ = what; }

private:
    static int accept(void* context, std::uint64_t commit) {
        auto& self = *static_cast<hosted_store*>(context);
        require(commit == self.word_ + 1, "a commit has the number of another one\n");
        self.word_ = self.answer_ == 0 ? commit : self.word_;
        return self.answer_;
    }

    MDB_env* env_ = nullptr;
    std::uint64_t word_;
    int answer_ = 0;
    int opened_ = 0;
};

/// Of all that a transaction sees; check has been here, so it ends.
inline std::uint64_t digest(MDB_txn* in) {
    std::uint64_t sum = 0;
    const auto add = [&sum](const MDB_val& one) {
        sum = bytes_checksum({static_cast<const std::byte*>(one.mv_data), one.mv_size}, sum);
    };
    for (unsigned i = 0; i <= databases; ++i) {
        MDB_dbi database = 0;
        MDB_cursor* at = nullptr;
        int outcome = mdb_dbi_open(in, i < databases ? names[i] : nullptr, 0, &database);
        outcome = outcome == 0 ? mdb_cursor_open(in, database, &at) : outcome;
        MDB_val key{};
        MDB_val value{};
        while (outcome == 0 && (outcome = mdb_cursor_get(at, &key, &value, MDB_NEXT)) == 0) {
            add(key);
            add(value);
        }
        const MDB_val end{sizeof(outcome), &outcome};
        add(end);
        if (at != nullptr) {
            mdb_cursor_close(at);
        }
    }
    return sum;
}

/// If the store is sound, all succeeds, and after each crash it is what it was.
class life_in_heap {
public:
    life_in_heap(place_of_store place, bool sound, std::uint64_t accepted, std::uint64_t choices)
        : place_(std::move(place)), sound_(sound), choices_(choices), durable_{accepted} {}

    void live(std::unique_ptr<hosted_store> store, bool at_once) {
        if (sound_) {
            history_[store->word()] = content_of(store->env());
            // Only a checkpoint shows whether the free list leaves alone the pages that records begin with.
            store.reset();
            store = open(durable_.front(), at_once);
        }
        for (unsigned sessions = 0; store != nullptr && store->opened() == 0 && sessions < 2; ++sessions) {
            at_once_ = at_once;
            heap_failed_ = false;
            for (std::uint64_t steps = 3 + below(5); steps > 0; --steps) {
                step(*store);
            }
            end(*store);
            store.reset();
            at_once = below(2) == 0;
            store = open(durable_[below(durable_.size())], at_once);
        }
    }

private:
    [[nodiscard]] std::uint64_t below(std::uint64_t limit) noexcept {
        choices_ = bytes_checksum(std::as_bytes(std::span(&choices_, 1)), limit);
        return choices_ % limit;
    }
    [[nodiscard]] static std::uint64_t content_of(MDB_env* env) {
        MDB_txn* in = nullptr;
        require(mdb_txn_begin(env, nullptr, MDB_RDONLY, &in) == 0, "a sound store cannot be read\n");
        const std::uint64_t sum = digest(in);
        mdb_txn_abort(in);
        return sum;
    }
    /// By a writer, after a crash or the end of the one before.
    [[nodiscard]] std::unique_ptr<hosted_store> open(std::uint64_t word, bool at_once) {
        auto store = std::make_unique<hosted_store>(place_, word, at_once);
        if (sound_) {
            require(store->opened() == 0, "a sound store cannot be opened again\n");
            require(hf_lmdb_check(store->env(), nullptr) == 0, "a sound store is damaged by its own changes\n");
            require(content_of(store->env()) == history_.at(word), "a sound store is not what it was\n");
        }
        durable_ = {word};
        history_.erase(history_.upper_bound(word), history_.end());
        return store;
    }
    /// What a crash leaves now, if the heap's word is this one.
    void check_after_crash(std::uint64_t word) {
        const hosted_store reader(place_, word, true, MDB_RDONLY);
        require(!sound_ || reader.opened() == 0, "a sound store is lost by a crash\n");
        require(!sound_ || content_of(reader.env()) == history_.at(word), "a crash brings a sound store elsewhere\n");
        if (!sound_ && reader.opened() == 0) {
            static_cast<void>(read_all(reader.env()));
        }
    }
    void check_after_crash() {
        for (const std::uint64_t word : durable_) {
            check_after_crash(word);
        }
    }
    [[nodiscard]] bool may_fail(int outcome) const noexcept {
        return outcome == 0 || !sound_ || (heap_failed_ && outcome == EBUSY);
    }

    void step(hosted_store& store) {
        switch (below(8)) {
            case 0: commit_heap(store); break;
            case 1: require(may_fail(mdb_env_sync(store.env(), 1)), "a sound store cannot be synced\n"); break;
            case 2: check_after_crash(); break;
            default: change_under_view(store);
        }
    }
    void change_under_view(hosted_store& store) {
        MDB_txn* view = nullptr;
        std::uint64_t seen = 0;
        if (sound_) {
            require(mdb_txn_begin(store.env(), nullptr, MDB_RDONLY, &view) == 0, "a sound store cannot be read\n");
            seen = digest(view);
            require(seen == history_.at(store.word()), "a sound store is not what it was\n");
        }
        for (std::uint64_t times = 1 + below(3); times > 0; --times) {
            change_store(store, below(6) == 0 ? EAGAIN : 0);
        }
        require(!sound_ || digest(view) == seen, "what a reader sees has changed\n");
        mdb_txn_abort(view);
    }
    [[nodiscard]] int write(MDB_txn* in) {
        const auto first = static_cast<unsigned>(below(150));
        const auto which = static_cast<unsigned>(1 + below(all_databases));
        if (below(8) == 0) {
            MDB_dbi database = 0;
            const int opened = mdb_dbi_open(in, names[first % databases], 0, &database);
            return opened != 0 ? opened : mdb_drop(in, database, static_cast<int>(first % 2));
        }
        if (below(4) == 0) {  // more than the log holds
            MDB_dbi database = 0;
            const std::string text((std::size_t{1} << 20U) + first * page_size, static_cast<char>('A' + first % 26));
            MDB_val key = value_of("large");
            MDB_val value = value_of(text);
            const int opened = mdb_dbi_open(in, names[0], MDB_CREATE, &database);
            return opened != 0 ? opened : mdb_put(in, database, &key, &value, 0);
        }
        return change(in, first, 1 + static_cast<unsigned>(below(8)), below(3) == 0, which);
    }
    void change_store(hosted_store& store, int answer) {
        MDB_txn* in = nullptr;
        if (const int begun = mdb_txn_begin(store.env(), nullptr, 0, &in); begun != 0) {
            require(!sound_, "a sound store takes no transaction\n");
            return;
        }
        const int written = write(in);
        require(may_fail(written) || written == MDB_NOTFOUND || is_of_flags(written),
                "a sound store cannot be changed\n");
        if (below(8) == 0) {
            commit_heap(store);  // in the midst of the transaction
        }
        if (written != 0 || below(8) == 0) {
            mdb_txn_abort(in);
        } else if (answer != MDB_PANIC && below(3) == 0) {
            commit_at_once(store, in, answer);
        } else {
            commit_in_phases(store, in, answer);
        }
        require(!sound_ || content_of(store.env()) == history_.at(store.word()),
                "a commit that counts is not what it was\n");
    }
    void accepted(hosted_store& store, std::uint64_t commit, std::uint64_t sum) {
        store.set_word(commit);
        history_[commit] = sum;
        durable_ = at_once_ ? std::vector{commit} : durable_;
    }
    void commit_at_once(hosted_store& store, MDB_txn* in, int answer) {
        const std::uint64_t before = store.word();
        store.answer(answer);
        const int outcome = mdb_txn_commit(in);
        require(may_fail(outcome) || outcome == answer, "a sound store does not commit\n");
        if (store.word() != before) {
            require(!sound_ || outcome == 0, "a commit that the heap has is refused\n");
            accepted(store, store.word(), sound_ ? content_of(store.env()) : 0);
        }
    }
    void commit_in_phases(hosted_store& store, MDB_txn* in, int answer) {
        std::uint64_t commit = 0;
        const int outcome = hf_lmdb_prepare(in, &commit);
        require(may_fail(outcome), "a sound store does not prepare\n");
        if (outcome == 0 && commit != 0) {
            require(commit == store.word() + 1, "a commit has the number of another one\n");
            std::uint64_t sum = 0;
            if (sound_) {
                const hosted_store reader(place_, commit, true, MDB_RDONLY);
                require(reader.opened() == 0, "what is prepared is lost by a crash\n");
                sum = content_of(reader.env());
            }
            check_after_crash();
            end_prepared(store, in, commit, sum, answer);
        }
        mdb_txn_abort(in);
    }
    void end_prepared(hosted_store& store, MDB_txn* in, std::uint64_t commit, std::uint64_t sum, int answer) {
        if (answer == MDB_PANIC) {
            history_[commit] = sum;
            if (at_once_) {
                durable_.push_back(commit);
            }
        } else if (answer == 0) {
            accepted(store, commit, sum);
        } else if (below(2) == 0) {
            return;  // an abort says the same
        }
        const int outcome = hf_lmdb_end_prepared(in, answer);
        require(!sound_ || outcome == answer, "a sound store does not end\n");
    }
    /// Of the heap's memory. Where it fails, nobody knows which word is durable.
    void commit_heap(hosted_store& store) {
        if (hf_lmdb_before_heap_commit(store.env()) != 0) {
            require(!sound_, "a sound store cannot be made durable\n");
            return;
        }
        if (at_once_) {
            return;
        }
        if (!heap_failed_ && below(3) == 0) {
            heap_failed_ = true;
            durable_ = {durable_.front(), store.word()};
            hf_lmdb_heap_commit_failed(store.env());
        } else {
            heap_failed_ = false;
            durable_ = {store.word()};
            hf_lmdb_after_heap_commit(store.env());
        }
        check_after_crash();
    }
    /// In order, or in the midst of a commit.
    void end(hosted_store& store) {
        switch (below(4)) {
            case 0: change_store(store, MDB_PANIC); break;
            case 1: hf_lmdb_leave_heap(store.env()); break;
            case 2: commit_heap(store); break;
            default: break;
        }
    }

    place_of_store place_;
    bool sound_;
    std::uint64_t choices_;
    bool at_once_ = false;
    bool heap_failed_ = false;            ///< the last commit; the store keeps both states
    std::vector<std::uint64_t> durable_;  ///< for a recovery of the heap
    std::map<std::uint64_t, std::uint64_t> history_;
};

// --- sound stores ---------------------------------------------------------------------------------------------------

struct sound_store_in_heap {
    bytes content;
    std::vector<std::uint64_t> words;
};

constexpr std::uint8_t sound_identity = 7;

enum class end_in_heap {
    closed,
    prepared_checkpoint,  ///< words are kept at once: the checkpoint before has records
    prepared_record       ///< the durable state is old: two checkpoints have records
};

inline int make_in_heap(const place_of_store& place, end_in_heap how, const std::vector<std::uint64_t>& words) {
    auto store = std::make_unique<hosted_store>(place, 0, how != end_in_heap::prepared_record);
    MDB_env* const env = store->env();
    int outcome = store->opened();
    for (unsigned i = 0; i < 4 && outcome == 0; ++i) {
        outcome = change_all(env, i * 30, 30, false);
    }
    outcome = outcome != 0 ? outcome : mdb_env_sync(env, 1);  // a checkpoint
    outcome = outcome != 0 ? outcome : change_all(env, 20, 25, true);
    outcome = outcome != 0 ? outcome : hf_lmdb_before_heap_commit(env);
    hf_lmdb_after_heap_commit(env);
    if (how == end_in_heap::closed) {
        store.reset();
        return outcome;
    }
    for (unsigned i = 0; i < 5 && outcome == 0; ++i) {
        outcome = change_all(env, i * 20, i == 1 ? 30 : 3, i % 2 != 0);
        outcome = outcome != 0 || i != 1 ? outcome : mdb_env_sync(env, 1);
    }
    MDB_txn* in = nullptr;
    std::uint64_t commit = 0;
    outcome = outcome != 0 ? outcome : mdb_txn_begin(env, nullptr, 0, &in);
    outcome = outcome != 0 ? outcome : change(in, 0, how == end_in_heap::prepared_record ? 2 : 150, false);
    outcome = outcome != 0 ? outcome : hf_lmdb_prepare(in, &commit);
    static_cast<void>(store.release());  // it dies
    return outcome != 0 || commit != words.back() ? EINVAL : 0;
}

inline std::vector<sound_store_in_heap> sound_stores_in_heap(const scratch& directory) {
    std::vector<sound_store_in_heap> made = {{{}, {5}}, {{}, {10, 11}}, {{}, {5, 7, 10, 11}}};
    for (const end_in_heap how :
         {end_in_heap::closed, end_in_heap::prepared_checkpoint, end_in_heap::prepared_record}) {
        sound_store_in_heap& one = made.at(static_cast<std::size_t>(how));
        const place_of_store place{.path = directory.file("sound-in-heap-" + std::to_string(static_cast<int>(how))),
                                   .identity = sound_identity};
        in_process_that_dies([&] { return make_in_heap(place, how, one.words); });
        one.content = read_file(place.path);
    }
    return made;
}

}  // namespace holdfast::store_engine::fuzz
