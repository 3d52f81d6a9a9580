// Which commit counts when a heap is opened, and whether the journal's pages must go home first:
//
//     superblock copies   journal                     result
//     one good, N         void, or sequence <= N      commit N
//     one good, N         whole, sequence N+1         commit N+1: pages home, sync, superblock, sync (a reader
//     overlays)
//     none good           whole, any sequence         the journal's commit
//     one good, N         broken, heap was running    N, if every page has the checksum that N recorded; else an error
//     one good, N         broken, heap was clean      an error: no crash leaves that behind
//     none good           anything else               an error
//
// A crash during recovery leaves a state of this table with the same result. What a dead writer did not sync is
// visible, and a power failure may still take it. So recovery syncs what it builds on: the journal before pages go
// home, and the superblock before a commit may overwrite the journal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/journal.hpp"
#include "segment/commit/transaction.hpp"

namespace holdfast::segment {

struct recovered_state {
    superblock_on_media superblock{};
    bool crashed = false;
    bool rolled_forward = false;
    /// A reader lays its pages over the mappings.
    std::optional<journal_content> overlay;
    /// A bad copy of the superblock.
    std::vector<base::failure> warnings;
};

/// Repairs in access_mode::read_write. The caller holds the heap's lock (exclusive for read_write).
base::result<recovered_state> recover(persist::storage& storage, const heap_paths& paths, persist::access_mode mode);

/// SEG-1, and that each file may be opened in this mode.
base::result<void> check_files(persist::storage& storage, const heap_paths& paths,
                               const superblock_on_media& superblock, persist::access_mode mode);

/// SEG-2: every page that has a sum matches it, and every checksum page matches its own. Reads the whole heap; stops
/// after `limit` problems. Returns failures of the environment only. The pages of `overlay`, a whole journal, replace
/// those of the files. A heap that was last open in durability `atomic` or `collect` has no sums.
struct page_comparison {
    std::uint64_t compared = 0;     ///< pages
    std::uint64_t without_sum = 0;  ///< never committed, or changed since without a commit
};
base::result<page_comparison> verify_pages(persist::storage& storage, const heap_paths& paths,
                                           const superblock_on_media& superblock, std::vector<base::failure>& problems,
                                           std::size_t limit, const journal_content* overlay = nullptr);

}  // namespace holdfast::segment
