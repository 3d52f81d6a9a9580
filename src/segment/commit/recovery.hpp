// Decides the state of a heap when it is opened: which commit counts, and whether the journal's pages must be written
// to their places first.
//
//     superblock copies   journal                     result
//     one good, N         void, or sequence <= N      commit N
//     one good, N         whole, sequence N+1         commit N+1: pages home, sync, superblock, sync (read-only: the
//                                                     pages are overlaid in memory)
//     none good           whole, any sequence         the journal's commit
//     one good, N         broken, heap was running    N, if every page has the checksum that N recorded; else an error
//     one good, N         broken, heap was clean      an error: no crash leaves that behind
//     none good           anything else               an error
//
// A crash during recovery leaves a state of this table with the same result. A writer that died may have written what
// it did not sync: recovery sees it, and a power failure may still take it. So recovery syncs what it builds on, the
// journal before pages go home, and the superblock before a commit may overwrite the journal.
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
    /// Read-only: the journal whose pages the caller lays over its mappings.
    std::optional<journal_content> overlay;
    /// Damage that lost nothing: a bad copy of the superblock.
    std::vector<base::failure> warnings;
};

/// In access_mode::read_write repairs. The caller holds the heap's lock (exclusive for read_write).
base::result<recovered_state> recover(persist::storage& storage, const heap_paths& paths, persist::access_mode mode);

/// Checks SEG-1, and that each file may be opened in this mode.
base::result<void> check_files(persist::storage& storage, const heap_paths& paths,
                               const superblock_on_media& superblock, persist::access_mode mode);

/// SEG-2: every page that has a sum matches it, and every checksum page matches its own. Reads the whole heap; stops
/// after `limit` problems. Returns failures of the environment only. `overlay`: a whole journal, whose pages count in
/// the place of those of the files. A heap that was last open in durability `atomic` or `collect` has no page sums.
struct page_comparison {
    std::uint64_t compared = 0;     ///< pages
    std::uint64_t without_sum = 0;  ///< never committed, or changed since without a commit
};
base::result<page_comparison> verify_pages(persist::storage& storage, const heap_paths& paths,
                                           const superblock_on_media& superblock, std::vector<base::failure>& problems,
                                           std::size_t limit, const journal_content* overlay = nullptr);

}  // namespace holdfast::segment
