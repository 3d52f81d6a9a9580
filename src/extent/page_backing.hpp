// What is known about the space on disk of free pages, in DRAM. A free page is backed (it has space), or a hole (it has
// none), or neither is known, as after open().
//
// Invariants: no free page is both backed and a hole; no page of an extent in use is a hole (EXT-8). Whether a page in
// use was backed when it was last free means nothing.
#pragma once

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/page_bits.hpp"

namespace holdfast::extent {

/// Nothing is known about any page at first. Thread safety: none; its owner holds a lock.
class page_backing {
public:
    [[nodiscard]] base::result<void> reset(base::pages pages) {
        HF_TRY(backed_.reset(pages, "pages with space"));
        return holes_.reset(pages, "pages without space");
    }

    void set_backed(base::pages start, base::pages length) noexcept {
        backed_.set(start, length);
        holes_.clear(start, length);
    }
    void set_hole(base::pages start, base::pages length) noexcept {
        backed_.clear(start, length);
        holes_.set(start, length);
    }
    /// Of backed pages it becomes unknown whether they have space. Holes stay holes.
    void forget_backed(base::pages start, base::pages length) noexcept { backed_.clear(start, length); }
    /// Of holes it becomes unknown whether they have space. Backed pages stay backed.
    void forget_holes(base::pages start, base::pages length) noexcept { holes_.clear(start, length); }

    [[nodiscard]] bool all_backed(base::pages start, base::pages length) const noexcept {
        return backed_.all(start, length);
    }
    [[nodiscard]] base::pages holes(base::pages start, base::pages length) const noexcept {
        return holes_.count(start, length);
    }
    /// How many pages are not known to be holes.
    [[nodiscard]] base::pages not_holes(base::pages start, base::pages length) const noexcept {
        return length - holes_.count(start, length);
    }
    /// The last page up to this one that is not known to be backed; there is one.
    [[nodiscard]] base::pages last_not_backed(base::pages page) const noexcept {
        return backed_.last_clear_up_to(page);
    }
    /// The last page up to this one that is not known to be a hole; there is one.
    [[nodiscard]] base::pages last_not_hole(base::pages page) const noexcept { return holes_.last_clear_up_to(page); }

private:
    page_bits backed_;
    page_bits holes_;
};

}  // namespace holdfast::extent
