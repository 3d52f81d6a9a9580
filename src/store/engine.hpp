// The store below its trees: pages, versions of them, commits. All that is durable or shared by processes goes through
// here.
//
// A commit writes pages that no version uses (in the mapped file), then one record to the log; when the record is
// durable, so is the commit, by one sync that all who wait share. A checkpoint, when the log is full or a commit is
// larger than it, makes the pages themselves durable, then a meta that names their root; then the log begins anew.
// Recovery is the last checkpoint and the valid records behind it.
//
// A checkpoint is durable before its log is written and before pages go that only the one before had: else a loss of
// power would find the one before, with its pages and the records behind it written over. So also without syncs,
// because others, or earlier ones, promised what is in them; only a store that was made without syncs, and never
// synced, has promised nothing (`unpromised`).
//
// A commit is seen by writers at once, who build on it, and by readers when it is durable. So that nobody sees it and
// then does not, a transaction that saw it ends when it is durable. Where the process of a commit died, the next who
// looks, reader or writer, does what it left undone: what is whole becomes durable, and all see it; a recovery would
// find the same.
//
// Thread safety: functions of readers by any number of threads; those of a writer by the one that has begun to write.
#pragma once

#include <mutex>

#include "store/committer.hpp"

namespace holdfast::store_engine {

/// In a heap: the state before a commit that the heap may yet refuse.
struct prepared_commit {
    std::uint64_t meta_page = 0;
    meta_on_media meta{};  ///< as it lay there
    std::uint64_t written = 0;
    std::uint64_t synced = 0;
    std::uint64_t checkpoint_sequence = 0;
    std::uint64_t checkpoint_transaction = 0;
    std::uint64_t log_page = 0;
    std::uint64_t log_pages = 0;
    std::uint64_t log_end = 0;
    std::uint64_t log_checksum = 0;
    std::uint64_t log_synced = 0;
    std::uint64_t file_pages = 0;
    std::uint64_t map_size = 0;
    std::uint32_t unsynced = 0;
};

/// A transaction that leaves the store no larger may take pages beyond the limit (docs/store.md, "Space"); they move
/// below it behind its commit (pages_beyond.hpp).
class limit_excess {
public:
    /// Pages from `bound` on of commits from `since` on; bound 0: there are none.
    struct pages {
        std::uint64_t bound = 0;
        std::uint64_t since = 0;
    };
    [[nodiscard]] pages noted() const noexcept { return {.bound = bound_.load(), .since = since_.load()}; }
    /// Before a commit.
    void note(const write_set& changes) noexcept {
        if (changes.bound != 0 && changes.version.next_page > changes.bound && bound_.load() == 0) {
            since_.store(changes.version.transaction);
            bound_.store(changes.bound);
        }
    }
    void end() noexcept { bound_.store(0); }
    /// Once, by who may be the first that writes: pages beyond the limit may be of a process that was killed.
    void inspect(const stored_pages& of, const root& last) noexcept {
        if (!looked_.exchange(true) && last.next_page > of.limit_pages() && bound_.load() == 0) {
            since_.store(0);
            bound_.store(of.limit_pages());
        }
    }

private:
    std::atomic<bool> looked_{false};
    std::atomic<std::uint64_t> bound_{0};
    std::atomic<std::uint64_t> since_{0};
};

class engine {
public:
    ~engine() { close(); }

    [[nodiscard]] stored_pages& pages() noexcept { return pages_; }
    /// For check, by who has begun to write.
    [[nodiscard]] const free_space& free_pages() const noexcept { return free_.space; }

    [[nodiscard]] status open(const engine_options& options);
    /// The last process to close a store leaves an empty log.
    void close() noexcept;

    // --- readers ---

    [[nodiscard]] root enter(reader_slot& slot);
    /// A version that a transaction of this process saw was lost with a failed sync: readers would go back behind it.
    [[nodiscard]] bool has_lost() const noexcept { return has_lost_.load(std::memory_order_relaxed); }
    /// The last version that readers see.
    [[nodiscard]] root last_root() noexcept {
        notice_deaths();
        return pages_.last_root();
    }
    /// Before it, where the lock file lies on a read-only mount and so cannot say that this process reads. in_use:
    /// others have the store open, and may write over what is read here.
    [[nodiscard]] status check_nobody_writes() const noexcept;

    // --- the writer ---

    [[nodiscard]] status begin_write(shared_lock& lock, write_set& changes, lock_mode mode = lock_mode::waits);
    /// Adjacent pages that no version uses, to be written.
    [[nodiscard]] status allocate(write_set& changes, std::uint32_t count, std::uint64_t base, std::uint64_t& page);
    /// Ends the transaction. If ok, readers see it, and it is durable unless no_sync.
    [[nodiscard]] status commit(write_set& changes, shared_lock& lock);
    /// Ends the transaction when what it saw is durable.
    void roll_back(write_set& changes, shared_lock& lock) noexcept;
    /// Pages that commits took beyond the limit.
    [[nodiscard]] limit_excess& excess() noexcept { return excess_; }

    // --- the writer of a store in a heap (engine_in_heap.cpp) ---

    /// The first phase of a commit, as durable as commit() makes it; it counts, and readers see it, after
    /// commit_prepared(). The lock stays; until one of the next three, no other function of a writer is called.
    [[nodiscard]] status prepare(write_set& changes);
    /// The heap has the commit. A second call does nothing.
    void commit_prepared() noexcept;
    /// The heap has not, and never will: no trace remains.
    [[nodiscard]] status abort_prepared() noexcept;
    /// Nobody knows whether the heap has it: nothing can be written until the store is opened again.
    void give_up() noexcept;
    /// Keeps writers of other threads out. EBUSY while one writes; the calling thread may.
    [[nodiscard]] status try_hold_writers() noexcept;
    void release_writers() noexcept { held_.unlock(); }
    /// What is accepted or prepared; also with no_sync. In a child of fork(): nothing, as the heap refuses there.
    [[nodiscard]] status make_written_durable() {
        return pages_.shared().is_of_parent() ? status::ok : commits_.sync_log(pages_.shared().header().written.load());
    }
    /// What is accepted is in the heap's durable state: a recovery leads there or beyond.
    void keep_accepted() noexcept { commits_.keep_accepted(); }
    /// A commit of the heap failed, and may yet be durable.
    void keep_old_and_new() noexcept { commits_.keep_old_and_new(); }
    /// The heap is closed: as close(), but readers go on. Nobody writes any more.
    void leave() noexcept;
    /// With commit_prepared() the heap's durable state has the commit.
    void set_keeps_at_once(bool at_once) noexcept { keeps_at_once_ = at_once; }

    // --- all ---

    /// Makes commits durable. With no_sync: only with `force`, and where much is not durable by a checkpoint, which
    /// gives space back.
    [[nodiscard]] status sync(bool force);
    /// Checkpoints the last commit, shortens the log, and gives space back. EBUSY: the mode is `tries`, and somebody
    /// writes.
    [[nodiscard]] status checkpoint_now(committer::checkpoint_kind kind, lock_mode mode);

private:
    // engine_open.cpp
    [[nodiscard]] status join();
    [[nodiscard]] status start();
    [[nodiscard]] status recover(const meta_on_media& meta);
    [[nodiscard]] status take_in_metas();
    void end_overlay() noexcept;

    // engine_in_heap.cpp
    [[nodiscard]] status begin_in_heap(const meta_on_media& meta);
    [[nodiscard]] status give_holes_blocks();

    // engine.cpp
    [[nodiscard]] status take_new(write_set& changes, std::uint32_t count, std::uint64_t& page);
    [[nodiscard]] status take_in();
    [[nodiscard]] status secure_what_was_found();
    [[nodiscard]] status after_a_death();
    [[nodiscard]] status sync_for_a_dead();
    void notice_deaths() noexcept;

    stored_pages pages_;
    known_free_pages free_;
    committer commits_{pages_, free_};
    bool open_ = false;
    bool only_inspects_ = false;  ///< on a read-only mount
    prepared_commit prepared_;
    bool is_prepared_ = false;  ///< by prepare(), and the heap has not decided yet
    bool keeps_at_once_ = false;
    limit_excess excess_;
    shared_lock held_;  ///< by try_hold_writers()
    std::mutex overlay_mutex_;
    std::atomic<bool> has_lost_{false};
    // When, and at which commit, a reader last asked whether others live.
    std::atomic<std::int64_t> asked_at_{0};
    std::atomic<std::uint64_t> asked_of_{no_transaction};
};

}  // namespace holdfast::store_engine
