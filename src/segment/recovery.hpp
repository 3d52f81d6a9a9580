// What a heap is when it is opened: which commit stands, and whether the journal has to be carried home first.
//
//     superblock copies   journal                     result
//     one good, N         void, or sequence <= N      commit N
//     one good, N         whole, sequence N+1         commit N+1: pages home, sync, superblock, sync (read-only: the
//                                                     pages are overlaid in memory)
//     none good           whole, any sequence         the journal's commit
//     one good, N         broken, heap was running    N, if every page has the checksum that N recorded; else an error
//     one good, N         broken, heap was clean      an error: nothing of ours leaves that behind
//     none good           anything else               an error
//
// A crash anywhere in here leaves a state of the same table with the same result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/journal.hpp"
#include "segment/transaction.hpp"

namespace holdfast::segment {

struct recovered_state {
    superblock_on_media superblock{};
    bool crashed = false;         ///< the heap was not closed
    bool rolled_forward = false;  ///< the journal was applied
    /// Read-only: the journal whose pages the caller lays over its mappings.
    std::optional<journal_content> overlay;
    /// Damage that cost nothing, a line each: a bad superblock copy.
    std::vector<base::failure> warnings;
};

/// Decides, and in access_mode::read_write repairs. The caller holds the heap's lock (exclusive for read_write).
base::result<recovered_state> recover(persist::storage& storage, const heap_paths& paths, persist::access_mode mode);

/// Checks SEG-1: every file that the superblock speaks of is there and has its size; and that it may be opened so.
base::result<void> check_files(persist::storage& storage, const heap_paths& paths,
                               const superblock_on_media& superblock, persist::access_mode mode);

/// SEG-2: every page that was ever committed matches its checksum, every checksum page matches its own. Reads the whole
/// heap; stops after `limit` problems. Failures of the environment (not of the content) are returned. `overlay`: a
/// whole journal that is not carried home; its pages count, not those of the files. Of a heap that was last open in
/// durability `atomic` or `collect` no page has a sum.
struct page_comparison {
    std::uint64_t compared = 0;     ///< pages
    std::uint64_t without_sum = 0;  ///< pages that were never committed, or changed since without a commit
};
base::result<page_comparison> verify_pages(persist::storage& storage, const heap_paths& paths,
                                           const superblock_on_media& superblock, std::vector<base::failure>& problems,
                                           std::size_t limit, const journal_content* overlay = nullptr);

}  // namespace holdfast::segment
