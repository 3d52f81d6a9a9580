// Pages that are not known to be backed are reserved before they are handed out: a full disk is an error and never a
// SIGBUS. Free extents of any age then make room (PAllocator 4.6), while may_go() allows it. Invariant: EXT-8.
#pragma once

#include <optional>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_map.hpp"
#include "extent/free_index.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

/// The caller holds the lock of the map, except for may_go().
class disk_space {
public:
    disk_space(extent_map& map, segment::space_growth& growth) noexcept : map_(map), growth_(growth) {}
    disk_space(const disk_space&) = delete;
    disk_space& operator=(const disk_space&) = delete;
    ~disk_space() = default;

    void set_written_back_check(base::function_ref<bool()> written_back) noexcept { written_back_ = written_back; }
    [[nodiscard]] bool may_go() const noexcept { return !written_back_ || (*written_back_)(); }

    /// Also reserves more of the same free extent.
    [[nodiscard]] base::result<void> back(const free_index::placement& place, base::pages length);
    /// Where the disk is full, another place is reserved and returned.
    [[nodiscard]] base::result<free_index::placement> backed_place(const free_index::placement& place,
                                                                   base::pages length, base::pages alignment);
    [[nodiscard]] base::result<void> back_used(base::pages start, base::pages length);
    /// Gives back `wanted` pages of free extents, but not the one at `spared`. False where there were none.
    [[nodiscard]] bool make_space(base::pages wanted, base::pages spared);

private:
    [[nodiscard]] std::optional<free_index::placement> find_backed(base::pages length, base::pages alignment) const;
    [[nodiscard]] base::result<void> back_range(base::pages whole, base::pages from, base::pages end);
    void give_back_part(base::pages whole, base::pages from, base::pages end);

    extent_map& map_;
    segment::space_growth& growth_;
    std::optional<base::function_ref<bool()>> written_back_;
};

}  // namespace holdfast::extent
