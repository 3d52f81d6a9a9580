// The frontier of the map is never beyond that of space_growth, except while a commit shortens the heap.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_map.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

/// The caller holds the lock of the map.
class heap_end {
public:
    heap_end(extent_map& map, segment::space_growth& growth) noexcept : map_(map), growth_(growth) {}
    heap_end(const heap_end&) = delete;
    heap_end& operator=(const heap_end&) = delete;
    ~heap_end() = default;

    /// A free extent at the end counts. Fails with limit where the reservation is too small, and as
    /// space_growth::grow() does.
    [[nodiscard]] base::result<void> grow_for(base::pages length, base::pages alignment);
    /// Grows into a segment of the node. The skipped pages of other nodes have no space on disk. False where it cannot.
    [[nodiscard]] bool grow_on(std::uint32_t node, base::pages length, base::pages alignment);

    /// Cuts the free extent at the map's end off, except for `keep` pages, as far as the unit of growth allows. Returns
    /// the pages cut off, which stay mapped and on disk.
    [[nodiscard]] base::pages shorten(base::pages keep) noexcept;
    /// What shorten() would cut off.
    [[nodiscard]] base::pages excess(base::pages keep) const noexcept;
    /// The map ends where the heap ends. It is unknown which of the new pages have space on disk.
    void restore() noexcept;

private:
    void adopt_grown(base::pages skipped) noexcept;
    void clean_entries(base::pages begin, base::pages end) const noexcept;

    extent_map& map_;
    segment::space_growth& growth_;
};

}  // namespace holdfast::extent
