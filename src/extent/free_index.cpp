#include "extent/free_index.hpp"

#include <utility>

#include "base/checked.hpp"

namespace holdfast::extent {

base::result<void> free_index::reset(base::pages pages) {
    HF_TRY_ASSIGN(nodes_, base::sparse_table<node>::create(pages.value, "index of free extents"));
    tree::init_header(&header_);
    total_ = {};
    count_ = 0;
    return {};
}

void free_index::insert(base::pages start, base::pages length) noexcept {
    node& here = nodes_[start.value];
    HF_ASSERT(length.value > 0 && here.length == 0);
    here.length = length.value & ~(std::uint64_t{1} << 63);
    nodes_[start.value + length.value - 1].length_of_last = length.value;
    tree::insert_equal(&header_, tree::end_node(&header_), &here, [](const node* a, const node* b) noexcept {
        return a->length != b->length ? a->length < b->length : a < b;
    });
    total_ += length;
    ++count_;
}

void free_index::erase(base::pages start) noexcept {
    node& here = nodes_[start.value];
    HF_ASSERT(here.length != 0);
    const std::uint64_t length = here.length;
    tree::erase(&header_, &here);
    here.length = 0;
    nodes_[start.value + length - 1].length_of_last = 0;
    total_ -= {length};
    --count_;
}

free_index::node* free_index::first_of_length(base::pages length) const noexcept {
    return tree::lower_bound(&header_, length.value,
                             [](const node* a, std::uint64_t wanted) noexcept { return a->length < wanted; });
}

std::optional<free_index::placement> free_index::fit(const node* candidate, base::pages length,
                                                     base::pages alignment) const noexcept {
    const std::uint64_t start = nodes_.index_of(*candidate);
    const std::uint64_t at = base::align_up(start, alignment.value);
    if (at - start > candidate->length || candidate->length - (at - start) < length.value) {
        return std::nullopt;
    }
    return placement{{start}, {candidate->length}, {at}};
}

std::optional<free_index::placement> free_index::best_fit(base::pages length, base::pages alignment) const noexcept {
    constexpr int tries = 32;
    const node* const end = tree::end_node(&header_);
    node* candidate = first_of_length(length);
    for (int tried = 0; tried < tries && candidate != end; ++tried, candidate = tree::next_node(candidate)) {
        if (const auto found = fit(candidate, length, alignment)) {
            return found;
        }
    }
    if (candidate == end) {
        return std::nullopt;
    }
    const node* const certain = first_of_length({length.value + alignment.value - 1});
    if (certain != end) {
        return fit(certain, length, alignment);
    }
    for (; candidate != end; candidate = tree::next_node(candidate)) {
        if (const auto found = fit(candidate, length, alignment)) {
            return found;
        }
    }
    return std::nullopt;
}

base::pages free_index::largest() const noexcept {
    return count_ == 0 ? base::pages{} : base::pages{header_.right->length};
}

}  // namespace holdfast::extent
