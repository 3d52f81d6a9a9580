#include "extent/free_index.hpp"

#include <algorithm>
#include <limits>

#include "base/checked.hpp"

namespace holdfast::extent {

base::result<void> free_index::reset(base::pages pages) {
    // With more free extents than numbers, those beyond are found again when the heap is opened.
    const std::uint64_t most = std::min<std::uint64_t>(pages.value + 1, std::numeric_limits<std::uint32_t>::max());
    HF_TRY_ASSIGN(numbers_, base::sparse_table<std::uint32_t>::create(pages.value, "pages of free extents"));
    HF_TRY_ASSIGN(nodes_, base::sparse_table<node>::create(most, "index of free extents"));
    tree::init_header(&header_);
    nodes_made_ = first_unused_ = oldest_ = youngest_ = nobody;
    total_ = backed_ = {};
    count_ = 0;
    return {};
}

std::uint32_t free_index::take_node() noexcept {
    if (first_unused_ != nobody) {
        const std::uint32_t number = first_unused_;
        first_unused_ = nodes_[number].younger;
        return number;
    }
    return nodes_made_ + 1 < nodes_.size() ? ++nodes_made_ : nobody;
}

void free_index::link_youngest(std::uint32_t number) noexcept {
    nodes_[number].older = youngest_;
    nodes_[number].younger = nobody;
    (youngest_ == nobody ? oldest_ : nodes_[youngest_].younger) = number;
    youngest_ = number;
}

void free_index::unlink(std::uint32_t number) noexcept {
    const node& of = nodes_[number];
    (of.older == nobody ? oldest_ : nodes_[of.older].younger) = of.younger;
    (of.younger == nobody ? youngest_ : nodes_[of.younger].older) = of.older;
}

void free_index::insert(const run& added) noexcept {
    const std::uint32_t number = take_node();
    if (number == nobody) {
        return;
    }
    node& here = nodes_[number];
    HF_ASSERT(added.length.value > 0 && added.backed <= added.length && node_at(added.start) == nullptr);
    here.start = added.start.value;
    here.length = added.length.value & ~(std::uint64_t{1} << 63);
    here.backed = added.backed.value;
    numbers_[added.start.value] = number;
    numbers_[added.start.value + added.length.value - 1] = number;
    tree::insert_equal(&header_, tree::end_node(&header_), &here, [](const node* a, const node* b) noexcept {
        return a->length != b->length ? a->length < b->length : a->start < b->start;
    });
    if (here.backed != 0) {
        link_youngest(number);
    }
    total_ += added.length;
    backed_ += added.backed;
    ++count_;
}

free_index::run free_index::erase(base::pages start) noexcept {
    const std::uint32_t number = numbers_[start.value];
    HF_ASSERT(number != nobody && nodes_[number].start == start.value);
    node& here = nodes_[number];
    const run erased = run_of(here);
    tree::erase(&header_, &here);
    if (here.backed != 0) {
        unlink(number);
    }
    numbers_[start.value] = nobody;
    numbers_[start.value + erased.length.value - 1] = nobody;
    here.younger = first_unused_;
    first_unused_ = number;
    total_ -= erased.length;
    backed_ -= erased.backed;
    --count_;
    return erased;
}

free_index::node* free_index::first_of_length(base::pages length) const noexcept {
    return tree::lower_bound(&header_, length.value,
                             [](const node* a, std::uint64_t wanted) noexcept { return a->length < wanted; });
}

std::optional<free_index::placement> free_index::fit(const node* candidate, base::pages length,
                                                     base::pages alignment) noexcept {
    const std::uint64_t start = candidate->start;
    const std::uint64_t at = base::align_up(start, alignment.value);
    if (at - start > candidate->length || candidate->length - (at - start) < length.value) {
        return std::nullopt;
    }
    return placement{run_of(*candidate), {at}};
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

std::optional<free_index::run> free_index::oldest_backed() const noexcept {
    return oldest_ == nobody ? std::nullopt : std::optional(run_of(nodes_[oldest_]));
}

base::pages free_index::largest() const noexcept {
    return count_ == 0 ? base::pages{} : base::pages{header_.right->length};
}

}  // namespace holdfast::extent
