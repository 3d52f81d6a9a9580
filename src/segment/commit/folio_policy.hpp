// The first store to a page of a clean folio needs space for the whole folio, of up to 2 MiB: on a full file system it
// is a SIGBUS, although its own page has space. Linux makes large folios when it reads ahead (XFS since 5.18, ext4
// since 6.16), so mappings of files with holes read no page ahead of a touch, and older folios are split. tmpfs and DAX
// reserve space by the page. Reasons: docs/decisions/0023-folios.md.
#pragma once

#include <cstdint>
#include <vector>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

/// part() is thread-safe. Callers serialise split() and choose(), which run at an open or a growth.
class folio_policy {
public:
    folio_policy(const page_sharing& sharing, const space_view& view) noexcept : sharing_(sharing), view_(view) {}
    folio_policy(const folio_policy&) = delete;
    folio_policy& operator=(const folio_policy&) = delete;
    ~folio_policy() = default;

    /// Comes before anything is mapped. Splits folios at the edges of holes. `frontier`: bytes.
    base::result<void> split(persist::storage& storage, const heap_paths& paths, std::uint64_t frontier) const;
    /// User pages [from_page, end_page) have just been mapped; with from_page 0, the segment's tables, too. `fresh`:
    /// the pages are new.
    base::result<void> choose(persist::file& file, std::uint64_t index, std::uint64_t from_page, std::uint64_t end_page,
                              bool fresh);
    /// Comes before `count` user pages from `first` on become a hole.
    base::result<void> part(persist::file& file, std::uint64_t index, std::uint64_t first, std::uint64_t count);

private:
    [[nodiscard]] base::result<bool> has_folios(persist::file& file) const;
    void keep_small(std::uint64_t index);

    const page_sharing& sharing_;
    const space_view& view_;
    std::uint64_t segments_at_open_ = 0;  ///< with folios from earlier reads
    base::mutex mutex_;
    std::vector<bool> small_ HF_GUARDED_BY(mutex_);  ///< by segment
};

}  // namespace holdfast::segment
