// The redo rings of an open heap (lane/): the file `lanes`, mapped with the sharing of the heap.
//
// Invariants:
//
//   - [lanes(), lanes() + lanes_size()) is mapped and has space on disk, in a reader except for holes, which it covers.
//   - lanes() stays where it is while the file grows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/address_range.hpp"
#include "segment/heap_location.hpp"
#include "segment/heap_superblock.hpp"
#include "segment/hole_cover.hpp"
#include "segment/space.hpp"

namespace holdfast::segment {

/// Callers serialise grow_lanes(); the rest runs while the heap is opened or closed.
class lane_file final : public lane_area {
public:
    lane_file(const heap_location& location, const heap_superblock& superblock, hole_cover& cover) noexcept
        : location_(location), superblock_(superblock), cover_(cover) {}

    /// Maps the file as far as it goes, and sets addresses aside for `limit` bytes. Where no lane counts, makes a
    /// missing file.
    base::result<void> open(std::uint64_t limit);

    /// Empty until open().
    [[nodiscard]] std::byte* lanes() const noexcept override { return range_.begin(); }
    [[nodiscard]] std::uint64_t lanes_size() const noexcept override { return size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override;

    /// Makes the contents durable with a system call, where the file is open.
    base::result<void> sync(persist::site where) const;
    /// A copied heap in which no record counts: removes the file, durably. An open in durability `atomic` makes a new
    /// one.
    base::result<void> remove_copied() const;

private:
    const heap_location& location_;
    const heap_superblock& superblock_;
    hole_cover& cover_;
    address_range range_;
    std::uint64_t size_ = 0;
};

}  // namespace holdfast::segment
