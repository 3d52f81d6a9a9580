// A free page is known to be backed, or to be a hole, or neither. No page of an extent in use is a hole (EXT-8).
#pragma once

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/page_bits.hpp"

namespace holdfast::extent {

/// Nothing is known at first. The caller holds a lock.
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
    void forget_backed(base::pages start, base::pages length) noexcept { backed_.clear(start, length); }
    void forget_holes(base::pages start, base::pages length) noexcept { holes_.clear(start, length); }

    [[nodiscard]] bool all_backed(base::pages start, base::pages length) const noexcept {
        return backed_.all(start, length);
    }
    [[nodiscard]] base::pages holes(base::pages start, base::pages length) const noexcept {
        return holes_.count(start, length);
    }
    [[nodiscard]] base::pages not_holes(base::pages start, base::pages length) const noexcept {
        return length - holes_.count(start, length);
    }
    [[nodiscard]] base::pages last_not_backed(base::pages page) const noexcept {
        return backed_.last_clear_up_to(page);
    }
    [[nodiscard]] base::pages last_not_hole(base::pages page) const noexcept { return holes_.last_clear_up_to(page); }

private:
    page_bits backed_;
    page_bits holes_;
};

}  // namespace holdfast::extent
