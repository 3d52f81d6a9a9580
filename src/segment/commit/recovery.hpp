// Which commit counts when a heap is opened, and whether the log must go home first:
//
//     superblock copies   log behind its begin         result
//     one good, N         not read: heap was clean     commit N
//     one good, N         n commits, then nothing      commit N+n: home, sync, superblock, sync (a reader overlays)
//     one good, N         n commits, then a torn one   N+n, if every page has the checksum that N+n recorded; else an
//                                                      error
//     one good, N         a record that is no commit   an error
//     none good           anything                     an error
//
// A crash during recovery leaves a state of this table with the same result. What a dead writer did not sync is
// visible, and a power failure may still take it. So the log is written again and synced before anything goes home
// (LOG-7), and home before the log begins behind it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/files/heap_directories.hpp"
#include "segment/files/heap_options.hpp"

namespace holdfast::segment {

struct replayed_log {
    std::uint64_t commits = 0;
    std::uint64_t bytes = 0;
};

struct recovered_state {
    superblock_on_media superblock{};
    bool crashed = false;
    replayed_log replayed;
    /// Lies over the mappings: of a reader, or of a writer that home has to wait for.
    std::optional<log_content> overlay;
    /// What the superblock says on media: home is there at least.
    superblock_on_media on_media{};
    /// The state's end in the log.
    log::mark end;
    /// A bad copy of the superblock.
    std::vector<base::failure> warnings;
};

struct recovery_wishes {
    replay_watch watch{};
    /// Of a reader beside a writer: the newest version that may be read.
    std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
    /// The files have all of this version: the living writer says so.
    std::uint64_t is_home = 0;
    /// A version that somebody reads: where the log has a later one, it is settled and stays, and home with it.
    std::uint64_t oldest_in_use = std::numeric_limits<std::uint64_t>::max();
    /// All that the log has is durable: who wrote it has left it so, since the machine was started.
    bool end_is_decided = false;
};

/// Repairs in access_mode::read_write. The caller holds the heap's lock (exclusive for read_write), or a slot of
/// `readers` beside the writer.
base::result<recovered_state> recover(persist::storage& storage, const heap_paths& paths, persist::access_mode mode,
                                      const recovery_wishes& wishes = {});

/// For a reader: holds the heap and finds the version to read, beside a writer or without one. While `directories`
/// lives and has said no version, home and the log stay.
struct reader_state {
    std::shared_ptr<heap_directories> directories;
    recovered_state state;
};
base::result<reader_state> open_and_recover(persist::storage& storage, const heap_paths& paths);

/// SEG-1, and that each file may be opened in this mode.
base::result<void> check_files(persist::storage& storage, const heap_paths& paths,
                               const superblock_on_media& superblock, persist::access_mode mode);

/// SEG-2: every page that has a checksum matches it, and every checksum page matches its own. Reads the whole heap;
/// stops after `limit` problems. Returns failures of the environment only. What `overlay` has replaces the content of
/// the files. A heap that was last open in durability `atomic` or `collect` has no checksums.
struct page_comparison {
    std::uint64_t compared = 0;          ///< pages
    std::uint64_t without_checksum = 0;  ///< never committed, or changed since without a commit
};
base::result<page_comparison> verify_pages(persist::storage& storage, const heap_paths& paths,
                                           const superblock_on_media& superblock, std::vector<base::failure>& problems,
                                           std::size_t limit, const log_content* overlay = nullptr);

}  // namespace holdfast::segment
