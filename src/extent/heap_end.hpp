// The end of the space that extents tile: where nothing fits, the heap grows; where the free extent at its end is long,
// the heap can become shorter.
//
// Invariants: the frontier of the map is never beyond that of space_growth, except while a commit that shortens the
// heap runs; the pages before it are tiled (EXT-1). A free extent at the end counts toward what is asked for.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_map.hpp"
#include "segment/space.hpp"

namespace holdfast::extent {

/// Thread safety: its owner holds the lock of the map.
class heap_end {
public:
    heap_end(extent_map& map, segment::space_growth& growth) noexcept : map_(map), growth_(growth) {}
    heap_end(const heap_end&) = delete;
    heap_end& operator=(const heap_end&) = delete;
    ~heap_end() = default;

    /// Grows the space so that an extent of this length fits at its end. Fails with limit where the reservation is too
    /// small, and as space_growth::grow() does.
    [[nodiscard]] base::result<void> grow_for(base::pages length, base::pages alignment);
    /// Grows the space into a segment of the node, skipping pages of other nodes. The skipped pages have no space on
    /// disk. False, without a reason, where it cannot: the caller asks other nodes next.
    [[nodiscard]] bool grow_on(std::uint32_t node, base::pages length, base::pages alignment);

    /// Makes the map end where the free extent at its end begins, except for `keep` pages of it, as far as the unit of
    /// growth allows. Returns the pages by which it became shorter. What is mapped and on disk stays as it is.
    [[nodiscard]] base::pages shorten(base::pages keep) noexcept;
    /// By how many pages shorten() would make the map shorter.
    [[nodiscard]] base::pages excess(base::pages keep) const noexcept;
    /// Lets the map end where the heap ends. It is unknown which of the pages that it gains have space on disk.
    void restore() noexcept;

private:
    void adopt_grown(base::pages skipped) noexcept;
    void clean_entries(base::pages begin, base::pages end) const noexcept;

    extent_map& map_;
    segment::space_growth& growth_;
};

}  // namespace holdfast::extent
