#include "extent/extent_index.hpp"

namespace holdfast::extent {

base::result<void> extent_index::reset(base::pages pages, node_layout layout) {
    HF_TRY(free_.reset(pages, layout));
    HF_TRY(starts_.reset(pages, "extent starts"));
    counts_ = {};
    return {};
}

void extent_index::add_backed(base::pages start, base::pages pages) noexcept {
    free_index::run changed = free_.erase(start);
    changed.backed += pages;
    free_.insert(changed);
}

void extent_index::remove_backed(base::pages start, base::pages pages) noexcept {
    free_index::run changed = free_.erase(start);
    changed.backed -= pages;
    free_.insert(changed);
}

base::pages extent_index::remove_all_backed(base::pages start) noexcept {
    free_index::run changed = free_.erase(start);
    const base::pages before = changed.backed;
    changed.backed = {};
    free_.insert(changed);
    return before;
}

}  // namespace holdfast::extent
