// The redo rings of an open heap (lane/): the files `lanes`, mapped with the sharing of the heap.
//
//   - [lanes(), lanes() + lanes_size()) is mapped and has space on disk; a reader covers holes.
//   - lanes() stays where it is while the files grow.
//   - Where records may count, the lanes stay where the superblock says. Else those of several nodes lie in the
//     directories of the nodes from open() on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/holes.hpp"
#include "segment/files/lane_places.hpp"
#include "segment/files/superblock_of_files.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

/// Callers serialise grow_lanes(). lanes_size() and sync() may run beside it, the rest while the heap is opened or
/// closed.
class lane_file final : public lane_area {
public:
    lane_file(const heap_location& location, const superblock_of_files& superblock, hole_cover& cover) noexcept
        : location_(location), superblock_(superblock), cover_(cover) {}

    /// Makes missing files where no lane counts.
    base::result<void> open(const lane_shape& shape);

    /// Null until open().
    [[nodiscard]] std::byte* lanes() const noexcept override { return range_.begin(); }
    [[nodiscard]] std::uint64_t lanes_size() const noexcept override { return size_.load(std::memory_order_acquire); }
    base::result<void> grow_lanes(std::uint64_t bytes) override;
    [[nodiscard]] log_home log() const override;
    /// Lane k lies in file k mod files(). 1 until open().
    [[nodiscard]] std::uint32_t files() const noexcept { return places_ ? places_->files() : 1; }
    [[nodiscard]] std::string path() const { return places_ ? places_->path(0) : location_.paths().lanes(); }

    base::result<void> sync(persist::site where) const;
    /// Only where no record counts. Durable on return.
    base::result<void> remove_copied() const;
    /// Only where no record of it counts, as after recovery. Durable on return.
    base::result<void> remove_copied_log() const;

private:
    [[nodiscard]] bool may_make() const noexcept { return location_.shared() && !superblock_.has_pending_lanes(); }
    base::result<std::unique_ptr<persist::file>> open_file(std::uint32_t file) const;
    base::result<void> finish_creation(persist::file& opened, std::uint32_t file) const;
    base::result<void> reserve(const lane_shape& shape, std::uint64_t in_use);
    base::result<void> map_found(std::span<const std::unique_ptr<persist::file>> files,
                                 std::span<const std::uint64_t> sizes);
    base::result<void> map(persist::file& file, std::uint32_t number, std::span<const lane_window> windows) const;

    const heap_location& location_;
    const superblock_of_files& superblock_;
    hole_cover& cover_;
    std::optional<lane_places> places_;
    address_range range_;
    std::atomic<std::uint64_t> size_{0};
};

}  // namespace holdfast::segment
