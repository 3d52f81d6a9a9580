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
    std::uint64_t log_synced = 0;
    std::uint64_t file_pages = 0;
    std::uint32_t unsynced = 0;
};

class engine : public committer {
public:
    engine() = default;
    ~engine() { close(); }

    [[nodiscard]] status open(const engine_options& options);
    /// The last process to close a store leaves an empty log.
    void close() noexcept;

    // --- readers ---

    [[nodiscard]] status take_slot(reader_slot*& slot) noexcept { return shared_.take_slot(slot); }
    [[nodiscard]] root enter(reader_slot& slot);
    /// Before it, where the lock file lies on a read-only mount and so cannot say that this process reads. in_use:
    /// others have the store open, and may write over what is read here.
    [[nodiscard]] status check_nobody_writes() const noexcept;

    // --- the writer ---

    [[nodiscard]] status begin_write(shared_lock& lock, write_set& changes, lock_mode mode = lock_mode::waits);
    /// Adjacent pages that no version uses, to be written.
    [[nodiscard]] status allocate(write_set& changes, std::uint32_t count, std::uint64_t base, std::uint64_t& page);
    /// Ends the transaction. If ok, readers see it, and it is durable unless no_sync.
    [[nodiscard]] status commit(write_set& changes, shared_lock& lock);
    void roll_back(write_set& changes, shared_lock& lock) noexcept;

    // --- the writer of a store in a heap (engine_in_heap.cpp) ---

    /// The first half of a commit, as durable as commit() makes it; it counts, and readers see it, after accept(). The
    /// lock stays; until one of the next three, no other function of a writer is called.
    [[nodiscard]] status prepare(write_set& changes);
    /// The heap has the commit.
    void accept() noexcept;
    /// The heap has not, and never will: no trace remains.
    [[nodiscard]] status withdraw() noexcept;
    /// Nobody knows whether the heap has it: nothing can be written until the store is opened again.
    void give_up() noexcept;
    /// Also with no_sync. In a child of fork(): nothing, as the heap refuses there.
    [[nodiscard]] status make_accepted_durable() {
        return shared_.is_of_parent() ? status::ok : sync_log(shared_.header().written.load());
    }
    /// What is accepted is in the heap's durable state: a recovery leads there or beyond.
    void keep_accepted() noexcept;
    /// A commit of the heap failed, and may yet be durable: what either state needs stays, until one is kept.
    void keep_both() noexcept { keeps_both_ = true; }
    /// The heap is closed: as close(), but readers go on. Nobody writes any more.
    void leave() noexcept;
    /// With accept() the heap's durable state has the commit.
    void set_keeps_at_once(bool at_once) noexcept { keeps_at_once_ = at_once; }

    // --- all ---

    /// Makes commits durable. With no_sync: only with `force`, and where much is not durable by a checkpoint, which
    /// gives space back.
    [[nodiscard]] status sync(bool force);
    /// Checkpoints the last commit, shortens the log, and gives space back. EBUSY: the mode is `tries`, and somebody
    /// writes.
    [[nodiscard]] status checkpoint_now(bool durable, lock_mode mode);
    void set_no_sync(bool no_sync) noexcept { options_.no_sync = no_sync || in_memory_; }
    void set_limit(std::size_t bytes) noexcept { options_.limit = bytes; }

private:
    // engine_open.cpp
    [[nodiscard]] status join();
    [[nodiscard]] status create();
    [[nodiscard]] status start();
    [[nodiscard]] status recover(const meta_on_media& meta);
    [[nodiscard]] status take_in_metas();
    void end_overlay() noexcept;

    // engine_in_heap.cpp
    [[nodiscard]] status begin_in_heap(const meta_on_media& meta);
    [[nodiscard]] status give_holes_blocks();

    // engine.cpp
    [[nodiscard]] status take_in();
    [[nodiscard]] status secure_what_was_found();
    [[nodiscard]] status after_a_death();

    bool open_ = false;
    bool only_looks_ = false;  ///< on a read-only mount
    prepared_commit prepared_;
    bool keeps_at_once_ = false;
    std::mutex overlay_mutex_;
};

}  // namespace holdfast::store_engine
