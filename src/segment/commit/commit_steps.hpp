// The order of writes and syncs that makes one commit atomic, without mappings, so that the crash simulator can run it.
//
//     1  many fresh pages, or new files: home, sync      nothing of the old state is there (LOG-9)
//     2  record: superblock + what changed, one write    <- the commit point
//     3  changed pages home, without a sync
//     4  at times a checkpoint: sync, superblock         the log begins behind the record
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_log.hpp"
#include "segment/commit/page_copies.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

struct commit_plan {
    superblock_on_media superblock{};            ///< sealed
    std::vector<page_run> fresh;                 ///< sorted by file, page
    std::vector<std::uint64_t> fresh_checksums;  ///< XXH3-64 of each page
    std::vector<page_run> changed;               ///< sorted by file, page
    std::vector<std::uint64_t> changed_checksums;
    /// Of each changed page: the last commit has it with a checksum, so that what differs from home says it all.
    std::vector<bool> changed_since;
    std::vector<page_run> reserved;  ///< have space on disk from this commit on
    bool names_changed = false;      ///< files were created since the last commit
    /// Its pages may stay in memory, and go home later: they are few, of files that keep their sizes, none becomes a
    /// hole, and the record has them all.
    bool may_stay_behind = false;
    /// Whoever wants it durable waits for the record himself. Only where its pages may stay behind.
    bool is_waited_for = false;
};

enum class commit_stage {
    unchanged,  ///< the commit may be tried again
    uncertain,  ///< a sync failed, perhaps that of the record: old or new state
    durable,    ///< the next open finishes the commit
    complete,
};

struct transaction_report {
    commit_stage stage = commit_stage::unchanged;
    std::uint64_t write_ns = 0;
    std::uint64_t sync_ns = 0;
    std::uint64_t written_bytes = 0;
};

/// `on_media`: what the superblock says there; a full disk may make a checkpoint of it. Not thread-safe.
base::result<void> run_commit(persist::storage& storage, const heap_paths& paths, commit_log& log,
                              const commit_plan& plan, superblock_on_media& on_media, transaction_report& report);

/// Comes after the last commit. `superblock`: its, and on return what is on media.
base::result<void> close_cleanly(persist::storage& storage, const heap_paths& paths, commit_log& log,
                                 superblock_on_media& superblock);

/// Sorted by file and page.
struct pages_to_write {
    std::span<const page_run> runs;
    std::span<const std::uint64_t> checksums;  ///< of each page; empty: no thread can store to the pages meanwhile
    /// The content of a page that was stored to meanwhile, by its number in `checksums`. None: the write fails with
    /// concurrent_modification.
    std::optional<page_copies::replacement> elsewhere;
};

/// Synced on return.
base::result<void> write_home(persist::storage& storage, const heap_paths& paths, const pages_to_write& pages,
                              persist::site write_site, persist::site sync_site, transaction_report& report);

}  // namespace holdfast::segment
