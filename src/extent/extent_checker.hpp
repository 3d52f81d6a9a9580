#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_map.hpp"

namespace holdfast::extent {

/// The caller holds the lock of the map.
class extent_checker {
public:
    explicit extent_checker(const extent_map& map) noexcept : map_(map) {}

    /// `corrupt`: an entry differs from the index, or breaks EXT-1 to EXT-6. Time: proportional to `count`, and to the
    /// length / 64 of the extents that begin there.
    [[nodiscard]] base::result<void> check_entries(base::pages first, base::pages count) const;
    /// Appends a sentence for every breach. Other threads stand still.
    void check(std::vector<std::string>& problems) const;

private:
    void check_interiors(const extent& of, std::vector<std::string>& problems) const;
    void check_index(const extent& of, std::vector<std::string>& problems) const;
    void check_holes(const extent& of, base::pages& holes, std::vector<std::string>& problems) const;

    const extent_map& map_;
};

}  // namespace holdfast::extent
