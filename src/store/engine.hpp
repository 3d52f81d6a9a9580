// The store below its trees: pages of a file, versions of them, commits. Everything that is durable, and everything
// that processes share, goes through here.
//
// A commit writes pages that no version uses (in memory that is the file's), then one record to the log; when the
// record is durable, so is the commit, for one sync that all who wait share. A checkpoint, which comes when the log is
// full or a commit is larger than it, makes the pages themselves durable, then a meta that names their root; then the
// log begins anew. Recovery is the last checkpoint and the valid records behind it.
//
// A checkpoint is durable before its log is written and before pages go that only the one before had: else a loss of
// power would find the one before, with its pages and the records behind it written over. Without syncs, too, because
// others, or earlier ones, acknowledged what is in them; only a store that was made without syncs, and never synced,
// has promised nothing (`unpromised`).
//
// Thread safety: functions of readers by any number of threads; those of a writer by who has begun to write.
#pragma once

#include <mutex>
#include <vector>

#include "store/stored_pages.hpp"
#include "store/write_set.hpp"

namespace holdfast::store_engine {

class engine : public stored_pages {
public:
    engine() = default;
    ~engine() { close(); }

    [[nodiscard]] status open(const engine_options& options);
    /// The last process to close a store leaves it with an empty log.
    void close() noexcept;

    // --- readers ---

    [[nodiscard]] status take_slot(reader_slot*& slot) noexcept { return shared_.take_slot(slot); }
    [[nodiscard]] root enter(reader_slot& slot);

    // --- the writer ---

    [[nodiscard]] status begin_write(shared_lock& lock, write_set& changes, lock_mode mode = lock_mode::waits);
    /// Pages in a row that no version uses, in memory that may be written.
    [[nodiscard]] status allocate(write_set& changes, std::uint32_t count, std::uint64_t base, std::uint64_t& page);
    /// Ends the transaction. When it returns ok, readers see it, and it is durable unless no_sync.
    [[nodiscard]] status commit(write_set& changes, shared_lock& lock);
    void roll_back(write_set& changes, shared_lock& lock) noexcept;

    // --- all ---

    /// Makes commits durable that are not. With no_sync: only with `force`, and where much is not durable by a
    /// checkpoint, which gives space back.
    [[nodiscard]] status sync(bool force);
    /// Writes a checkpoint of the last commit, shortens the log, and gives space back. EBUSY: the mode is `tries`, and
    /// somebody writes.
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

    // engine.cpp
    [[nodiscard]] status take_in();
    [[nodiscard]] status after_a_death();
    void release_pages();
    [[nodiscard]] std::uint64_t quota_pages() const noexcept;
    /// Whether a checkpoint must be durable before what it replaces is gone.
    [[nodiscard]] bool must_be_durable() const noexcept;

    // engine_commit.cpp
    void finish_pages(write_set& changes) const noexcept;
    void apply_own(const write_set& changes);
    [[nodiscard]] bool append(write_set& changes);
    [[nodiscard]] bool is_synced(std::uint64_t transaction) const noexcept;
    [[nodiscard]] status sync_log(std::uint64_t transaction);
    [[nodiscard]] status sync_log_now();
    struct checkpoint_kind {
        bool settle;   ///< no commit is expected soon: the log becomes short, and space goes back
        bool durable;  ///< when it returns, even where it need not be
    };
    [[nodiscard]] status checkpoint(write_set& changes, checkpoint_kind kind);
    [[nodiscard]] status write_free_list(root& version, meta_on_media& meta);
    [[nodiscard]] status renew_log(root& version, meta_on_media& meta, bool durable);
    [[nodiscard]] status shorten_log(const root& version, meta_on_media& meta);
    [[nodiscard]] status write_meta(meta_on_media& meta, bool durable);
    void give_space_back(std::uint64_t next_page, bool settle) noexcept;
    [[nodiscard]] status take_pages(root& version, std::uint64_t count, std::uint64_t& start);
    [[nodiscard]] status grow(std::uint64_t next_page);
    status fail(status what) noexcept;

    bool open_ = false;
    bool in_memory_ = false;         ///< no sync makes anything more durable
    std::uint64_t taken_pages_ = 0;  ///< by this process since the last checkpoint
    std::mutex overlay_mutex_;
    std::vector<std::byte> record_;
    std::vector<std::uint64_t> snapshots_;
};

}  // namespace holdfast::store_engine
