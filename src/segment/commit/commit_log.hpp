// The log of an open heap in durability `commit`, and what of it is home and not synced (docs/walkthrough-commit.md).
//
//   - The superblock on media says where the log begins. It moves in a checkpoint alone, after all that is home was
//     synced (LOG-6), and its space is used again after both copies are durable (LOG-5).
//   - A session begins with an empty log, unless readers use what was home before. Its files go when the heap is
//     closed, unless readers still do.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "log/log.hpp"
#include "persist/storage.hpp"
#include "segment/commit/home_files.hpp"
#include "segment/commit/lagging_home.hpp"
#include "segment/commit/writeback.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

/// 0: by the heap's size.
struct commit_log_limits {
    std::uint64_t file_size = 0;
    std::uint64_t checkpoint_bytes = 0;  ///< a longer log is due
    std::uint64_t checkpoint_pages = 32 * 1024;
    std::uint64_t most_files = 16;  ///< of a record; a longer one makes the files longer, up to `longest_file`
    std::uint64_t longest_file = 16 * base::mebibyte;
    std::uint64_t logged_fresh_pages = 16;  ///< more of them go home before the record
    std::uint64_t pages_behind = 512;       ///< of small commits, which go home together; 0: each commit's go at once
    std::optional<std::uint64_t> epoch{};   ///< log_options::epoch
};

/// A commit whose record is in the log and perhaps not durable yet. Without a log it is durable. Thread-safe.
class appended_commit {
public:
    appended_commit() = default;
    appended_commit(std::shared_ptr<log::log> in, std::uint64_t sequence, std::uint64_t version) noexcept
        : log_(std::move(in)), sequence_(sequence), version_(version) {}

    [[nodiscard]] bool is_durable() const noexcept { return log_ == nullptr || log_->is_durable(sequence_); }
    /// It is durable on return. `poisoned`: it may be or not.
    [[nodiscard]] base::result<void> wait() const {
        return log_ == nullptr ? base::result<void>() : log_->wait(sequence_);
    }
    /// What the last write of the log took, until it was durable.
    [[nodiscard]] std::chrono::nanoseconds last_write() const noexcept {
        return log_ == nullptr ? std::chrono::nanoseconds() : log_->last_write();
    }
    /// To wait takes less than to wake another thread.
    [[nodiscard]] bool is_quick() const noexcept { return last_write() < std::chrono::microseconds(20); }
    [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

private:
    std::shared_ptr<log::log> log_;
    std::uint64_t sequence_ = 0;
    std::uint64_t version_ = 0;
};

/// reserve(), publish() and appended() are thread-safe. The others run alone.
class commit_log {
public:
    explicit commit_log(const commit_log_limits& limits = {}) : limits_(limits) {}
    commit_log(const commit_log&) = delete;
    commit_log& operator=(const commit_log&) = delete;
    ~commit_log() = default;

    [[nodiscard]] const commit_log_limits& limits() const noexcept { return limits_; }
    [[nodiscard]] home_files& home() noexcept { return home_; }
    [[nodiscard]] writeback& device() noexcept { return device_; }
    [[nodiscard]] lagging_home& lag() noexcept { return lag_; }
    [[nodiscard]] const lagging_home& lag() const noexcept { return lag_; }

    /// The log of an earlier session goes on: home has not all of it. All up to `end` is durable.
    void go_on_behind(const superblock_on_media& home, const log::mark& end) {
        lag_.begin(home);
        goes_on_ = true;
        known_end_ = end;
    }
    /// Another process had the turn, and has written to the log up to `end`, durably. It begins at `begin` now.
    void go_on_at(const log::mark& begin, const log::mark& end) noexcept;
    /// Behind the last record of this process's commits, or that was there before; nothing: not known.
    [[nodiscard]] std::optional<log::mark> last_end() const noexcept {
        return opened_ != nullptr ? opened_->end() : known_end_;
    }
    /// For the superblock that says that a session begins.
    void begin_session(superblock_on_media& superblock) const noexcept;
    /// Opens the log where `superblock`, which is on media, says that it begins, and keeps so much space that a commit
    /// which only frees has room on a full disk.
    base::result<void> reserve(persist::storage& storage, const heap_paths& paths,
                               const superblock_on_media& superblock, base::pages frontier,
                               log::file_content content = log::file_content::allocated);
    /// Opened where it was not yet; the superblock then says so, durably.
    base::result<log::log*> get(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock);

    /// Before a record of so many bytes: each file costs a name, a sync and its removal. The log, which nobody else
    /// reads, ends then and begins anew.
    base::result<void> lengthen_files(persist::storage& storage, const heap_paths& paths,
                                      superblock_on_media& superblock, std::uint64_t bytes);
    /// Fails where somebody has exchanged the files of the directory.
    base::result<void> check_own(persist::storage& storage, const heap_paths& paths,
                                 const superblock_on_media& superblock);
    /// Pages of the file went home without a sync.
    void note_home(std::uint64_t file, std::uint64_t pages);
    /// The heap has only so many segments now.
    void forget_beyond(std::uint64_t segments) noexcept;
    /// Bytes since the last checkpoint.
    [[nodiscard]] std::uint64_t bytes() const noexcept;
    [[nodiscard]] bool is_empty() const noexcept { return bytes() == 0; }

    enum class go_home {
        where_worth_it,
        always,
    };
    /// Home goes on to the oldest version in use, at most to that of `superblock`, the last commit's. True where home
    /// has the last commit.
    base::result<bool> follow_readers(persist::storage& storage, const heap_paths& paths,
                                      const superblock_on_media& superblock, go_home when);
    /// The last record in the log, the end of the commit with this version.
    [[nodiscard]] appended_commit appended(std::uint64_t version);
    /// The version is durable, and so are all before it: readers may go to it.
    void publish(std::uint64_t version) noexcept;
    /// Another process reads the heap.
    [[nodiscard]] bool is_read() const noexcept {
        return lag_.users() != nullptr && lag_.users()->any(dead_readers::may_count);
    }
    /// A small commit may leave its pages behind, which readers would pay for.
    [[nodiscard]] bool leaves_behind() const noexcept { return limits_.pages_behind != 0 && !is_read(); }
    /// A checkpoint where the log is long. One that has much to sync waits for a later commit, when the device has
    /// written most of it, unless the log grows by too much meanwhile. To submit scattered pages takes seconds of a
    /// processor, so a thread does that; the checkpoint itself takes the few milliseconds that are left, so a commit
    /// may make it.
    /// Nothing waits where `needs_space`.
    base::result<void> maintain(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                                bool needs_space = false);
    /// `superblock`: of the last commit. It says on return what is on media.
    base::result<void> checkpoint(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock);
    /// A checkpoint, behind which there is no log until get() or reserve() makes one. Removes its files. Where home
    /// lags it is but a checkpoint, and the state on media stays. The next log has files of this size, or of the same.
    base::result<void> end(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                           heap_state state, std::uint64_t next_file_size = 0);

private:
    base::result<log::log*> open(persist::storage& storage, const heap_paths& paths,
                                 const superblock_on_media& superblock) HF_REQUIRES(mutex_);
    [[nodiscard]] bool is_long(const superblock_on_media& superblock) const noexcept {
        return bytes() >= most_bytes(superblock) || pages_ >= limits_.checkpoint_pages;
    }
    [[nodiscard]] std::uint64_t most_bytes(const superblock_on_media& superblock) const noexcept;
    base::result<void> move_begin(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                                  heap_state state, bool ends);
    base::result<void> sync_home(persist::storage& storage, const heap_paths& paths);
    base::result<void> wait_for_all(std::uint64_t newest);
    base::result<void> take_home(persist::storage& storage, const heap_paths& paths, std::uint64_t version);
    base::result<void> take_all_home(persist::storage& storage, const heap_paths& paths,
                                     const superblock_on_media& superblock);
    [[nodiscard]] bool is_log_read(std::uint64_t version) const noexcept;
    void release(const log::mark& begin, std::uint64_t version) noexcept;
    base::result<void> checkpoint_behind(persist::storage& storage, const heap_paths& paths,
                                         superblock_on_media& superblock);

    commit_log_limits limits_;
    base::mutex mutex_;
    std::uint64_t published_ HF_GUARDED_BY(mutex_) = 0;
    std::shared_ptr<log::log> log_ HF_GUARDED_BY(mutex_);
    log::log* opened_ = nullptr;
    bool goes_on_ = false;
    std::optional<log::mark> known_end_;  ///< where it goes on
    std::uint64_t begin_ = 0;             ///< position
    std::string identity_;                ///< of the superblock's file
    home_files home_;
    lagging_home lag_;
    std::set<std::uint64_t> unsynced_;
    std::uint64_t pages_ = 0;
    bool is_being_written_ = false;
    writeback device_;
};

/// Best effort.
void remove_log_files(persist::storage& storage, const heap_paths& paths,
                      const superblock_on_media& superblock) noexcept;

/// Names and sizes of all copies, one after the other, so that one is whole at every moment and the older goes first.
base::result<void> write_state(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                               heap_state state, bool durable = true);

}  // namespace holdfast::segment
