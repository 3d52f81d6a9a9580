// A commit writes the pages that it changes in place here first. After write_journal() and a sync() returned success,
// recovery finds the whole commit. A process crash before write_journal() returns leaves nothing of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/page_copies.hpp"
#include "segment/format/journal_format.hpp"
#include "segment/format/superblock_format.hpp"

namespace holdfast::segment {

struct journal_content {
    superblock_on_media superblock{};
    std::vector<journal_entry_on_media> entries;
    std::uint64_t content_at = 0;  ///< in the journal file
};

struct journal_state {
    enum class kind {
        void_journal,
        whole,
        broken,  ///< torn, or damaged later
    };
    kind what = kind::void_journal;
    std::uint64_t sequence = 0;  ///< 0 where the header cannot be trusted
    journal_content content;
    base::failure why;
};

/// The caller syncs. `sums`: XXH3-64 of each page; where one differs, concurrent_modification. On failure recovery sees
/// nothing of the commit. May throw std::bad_alloc.
base::result<void> write_journal(persist::file& file, const superblock_on_media& superblock,
                                 std::span<const page_run> runs, std::span<const std::uint64_t> sums);
/// `pages`: of write_journal().
base::result<void> read_written_page(persist::file& file, std::size_t pages, std::size_t index,
                                     std::span<std::byte> page);

/// Gives the journal's space back, and syncs.
base::result<void> write_void_journal(persist::file& file, const superblock_on_media& superblock);

/// Fails where the file is a sound journal of another heap.
base::result<void> check_own_journal(persist::file& file, const superblock_on_media& superblock);

/// JRN-1 to JRN-3. `heap`: null: not known.
base::result<journal_state> read_journal(persist::file& file, const superblock_on_media* heap);

/// Fails where the page does not match its checksum.
base::result<void> read_journal_page(persist::file& file, const journal_content& journal, std::size_t index,
                                     std::span<std::byte> page);

[[nodiscard]] constexpr std::uint64_t entry_file(const journal_entry_on_media& entry) noexcept {
    return entry.place >> entry_page_bits;
}
[[nodiscard]] constexpr std::uint64_t entry_page(const journal_entry_on_media& entry) noexcept {
    return entry.place & ((std::uint64_t{1} << entry_page_bits) - 1);
}

}  // namespace holdfast::segment
