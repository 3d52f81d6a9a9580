// No page leaves a free extent before disk_space has backed it (EXT-8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/disk_space.hpp"
#include "extent/extent_map.hpp"
#include "extent/free_index.hpp"
#include "extent/heap_end.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::extent {

inline constexpr std::uint32_t any_node = ~std::uint32_t{0};

/// The caller holds the lock of the map.
class extent_places {
public:
    extent_places(extent_map& map, disk_space& disk, heap_end& end) noexcept : map_(map), disk_(disk), end_(end) {}
    extent_places(const extent_places&) = delete;
    extent_places& operator=(const extent_places&) = delete;
    ~extent_places() = default;

    [[nodiscard]] std::optional<free_index::placement> find_present(base::pages length, base::pages alignment,
                                                                    std::uint32_t node) const noexcept {
        return is_local(node, length) ? map_.free().best_fit_on(node, length, alignment)
                                      : map_.free().best_fit(length, alignment);
    }
    /// Grows the space where it has no place.
    [[nodiscard]] base::result<free_index::placement> find(base::pages length, base::pages alignment,
                                                           std::uint32_t node);

    /// Takes another place where the disk is full.
    [[nodiscard]] base::result<base::pages> take(const free_index::placement& place, base::pages alignment,
                                                 segment::page_entry wanted);
    /// On a node, all lie within its segment. 0: the disk is full.
    [[nodiscard]] std::size_t take_some(const free_index::placement& place, base::pages length,
                                        std::span<base::pages> out, std::uint32_t node);
    [[nodiscard]] base::result<void> take_adjacent(const free_index::placement& place, base::pages alignment,
                                                   base::pages length, std::span<base::pages> out);

    /// Pages behind the extent of `now` pages become free and backed, for `wanted` pages in all. At the end, the heap
    /// grows. False where this cannot be.
    [[nodiscard]] bool make_room_behind(base::pages start, base::pages now, base::pages wanted);

private:
    [[nodiscard]] bool is_local(std::uint32_t node, base::pages length) const noexcept {
        return node != any_node && map_.layout().nodes > 1 && length <= map_.layout().segment;
    }

    extent_map& map_;
    disk_space& disk_;
    heap_end& end_;
};

}  // namespace holdfast::extent
