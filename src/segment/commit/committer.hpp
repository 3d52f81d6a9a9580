// The commits of an open heap.
//
//   - After a commit that succeeded, a private page below the committed frontier is as the commit has it: one that
//   MAP-2
//     or MAP-3 names, one whose last version is not home (lagging_home), or a warm one (warm_pages).
//   - After a failure before anything is in doubt, media and the mapped checksums are those of the last commit, and the
//     commit may be repeated.
//   - After a failed sync, or a failure behind the commit point, the heap is poisoned: no commit and no clean close
//     succeeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/commit/dirty_pages.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/commit/last_version.hpp"
#include "segment/commit/user_space.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/objects_file.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

class commit_builder;
struct captured_commit;

struct space_going {
    free_runs holes;                      ///< sorted
    std::optional<base::pages> frontier;  ///< of the heap
};

struct commit_statistics {
    std::uint64_t given_back_pages = 0;
    std::uint64_t dirty_pages = 0;
    std::uint64_t fresh_pages = 0;
    std::uint64_t logged_pages = 0;
    std::uint64_t written_bytes = 0;
    std::uint64_t scan_ns = 0;
    std::uint64_t write_ns = 0;
    std::uint64_t sync_ns = 0;
    std::uint64_t total_ns = 0;
    appended_commit record;  ///< to wait for, where the commit is not durable yet
};

enum class commit_of {
    everything,   ///< durable on return
    transaction,  ///< the caller waits for its record; stores of other processes may be left for a later commit
};

/// What a process finds that catches up with another one's turn.
enum class caught_up {
    not_at_all,  ///< the heap must be opened anew; what is in memory means nothing
    tables,      ///< what was read of the heap's own tables may be another now
    content,     ///< no table differs from what this process has committed or seen
};

/// Memory for copies.
struct capture_room {
    capture_room() = default;
    /// May throw std::bad_alloc.
    explicit capture_room(std::uint64_t for_pages);

    std::uint64_t pages = 0;
    std::unique_ptr<std::byte[]> bytes;
};

/// Memory of an open heap that is not the files'.
struct private_memory {
    std::uint64_t bytes = 0;
    std::uint64_t stored_pages = 0;  ///< of user space that the last commit has
    std::uint64_t stored_runs = 0;   ///< in which these lie
};

/// Judges a page of metadata, by segment and byte in its metadata, or of the directory of objects, by objects_file_id
/// and byte in the file.
using metadata_check = base::function_ref<base::result<void>(std::uint64_t segment, std::uint64_t at)>;

/// Not thread-safe: all other threads stand still.
class committer {
public:
    explicit committer(const committer_parts& parts) noexcept;
    committer(const committer&) = delete;
    committer& operator=(const committer&) = delete;
    ~committer();

    base::result<void> start(store_watch watch);
    /// Sorted and disjoint, below the frontier: from now on commits leave these pages as they lie in memory, for
    /// devices that store to them, and compare them with the media. May throw std::bad_alloc.
    void keep(const free_runs& pages);

    /// Makes the mapped state durable, or of a transaction puts its record into the log, then gives the space in
    /// `going` back, if it can. `check` judges each page of metadata before it is written, checksum pages excepted; its
    /// failure refuses the commit.
    base::result<commit_statistics> commit(const free_runs& free, const space_going& going, metadata_check check,
                                           commit_of what = commit_of::everything);
    /// Of the commits from now on: other threads wait for the turn of who commits.
    void expect_waiting(bool others_wait) noexcept { others_wait_ = others_wait; }
    /// Takes what was stored to since the last commit into memory of its own. finish() makes it durable, whatever is
    /// stored meanwhile. False: nothing was done, because a commit would move space, a process reads, memory is not
    /// watched yet, or there is none for the copies.
    base::result<bool> capture(const free_runs& free, metadata_check check);
    /// Other threads may store and allocate meanwhile. Comes before any other call; does nothing where nothing was
    /// captured. A failure leaves what was captured to the next commit. May throw std::bad_alloc.
    base::result<std::optional<commit_statistics>> finish();
    /// Comes at an open, before any change. Without it, free pages go through the log.
    void note_free(const free_runs& free) noexcept;
    /// What the log has becomes durable at home. Comes after a commit.
    base::result<void> checkpoint();
    /// It also gives the log's space back.
    base::result<void> end_log();
    base::result<bool> unchanged(const free_runs& free);
    /// The last commit() must have everything.
    base::result<void> close_cleanly();
    /// Forgets changes since the last commit(). A failed commit() leaves the heap as a crash would.
    base::result<void> close_unchanged();
    /// For transactions that may be aborted. Callers let no other thread store meanwhile.
    [[nodiscard]] last_version& last() noexcept { return last_; }
    /// Whose records are perhaps waited for; with the versions in use, and what home has not.
    [[nodiscard]] commit_log& log() const noexcept { return log_; }
    /// Pages that are not home lie over the mappings: those that `content` has, up to `end` in the log. `home`: the
    /// superblock on media.
    base::result<void> begin_behind(const superblock_on_media& home, const log_content& content, const log::mark& end);
    /// Of a process that takes turns, which has it: shows what others have committed since, and left in order, whatever
    /// was stored to their pages meanwhile.
    [[nodiscard]] base::result<caught_up> catch_up();
    /// Media, and nothing in memory alone, have all of the heap but its pages that are not home.
    [[nodiscard]] bool is_as_committed() const noexcept;
    /// No commit succeeds any more; the last one may be durable or not.
    [[nodiscard]] bool is_poisoned() const noexcept { return poison_.code != base::failure_code::none; }

    /// Pages that were stored to since the last commit, and those that commits leave. What is in swap is not counted.
    /// Scans the heap's page tables. Thread-safe. May throw std::bad_alloc.
    [[nodiscard]] base::result<private_memory> find_private() const;
    /// Memory whose stores the kernel notes.
    [[nodiscard]] std::uint64_t watched_bytes() const noexcept { return scanner_ ? scanner_->watched_bytes() : 0; }
    void close_in_child() noexcept {
        if (scanner_ != nullptr) {
            scanner_->close_in_child();
        }
    }

private:
    class catching_up;
    /// `kept` and `noted` must outlive the result.
    [[nodiscard]] commit_builder builder(const free_runs& free, const space_going& going, const free_runs& kept,
                                         const noted_pages& noted);
    base::result<commit_statistics> commit_scanned(const free_runs& free, const space_going& going,
                                                   metadata_check check, commit_of what);
    [[nodiscard]] base::result<void> may_commit() const;
    [[nodiscard]] bool can_capture() const noexcept;
    void plan_commit(commit_builder& builder, commit_plan& plan, commit_statistics& statistics, commit_of what);
    base::result<void> write_commit(commit_builder& builder, commit_plan& plan, transaction_report& report);
    void drop_clean(const std::vector<memory_run>& dirty) noexcept;
    base::result<void> run(commit_plan& plan, transaction_report& report);
    base::result<void> after_commit(base::result<void> done);
    base::result<void> finish_log(base::function_ref<base::result<void>()> how);
    /// Home goes on to what all readers have.
    base::result<void> follow_readers(commit_log::go_home when);
    void drop_what_is_home(std::uint64_t version) noexcept;
    void adopt(const commit_plan& plan) noexcept;
    base::result<void> map_adopted();
    [[nodiscard]] base::failure poisoned() const;

    const heap_location& location_;
    heap_superblock& superblock_;
    commit_log& log_;
    segment_files& segments_;
    heap_mapping& mapping_;
    objects_file& objects_;
    user_space& space_;
    std::unique_ptr<dirty_scanner> scanner_;
    free_runs committed_free_;  ///< perhaps not all; where readers lag, free in their versions, too
    free_runs pinned_;
    std::unique_ptr<captured_commit> captured_;
    capture_room room_;              ///< of the last captured commit: the next one has no new memory to touch
    std::vector<memory_run> clean_;  ///< of the last captured commit: private, and home if nobody has stored to them
    bool others_wait_ = false;
    bool commit_failed_ = false;  ///< media may have content beyond the frontier
    base::failure poison_;
    last_version last_;
    // Of a process that takes turns:
    superblock_reader media_;
    log::kept_file last_read_;  ///< of the log
};

}  // namespace holdfast::segment
