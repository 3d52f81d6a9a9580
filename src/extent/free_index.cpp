#include "extent/free_index.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/checked.hpp"

namespace holdfast::extent {

base::result<void> free_index::reset(base::pages pages) {
    // With more free extents than numbers, those beyond are found again when the heap is opened.
    const std::uint64_t most = std::min<std::uint64_t>(pages.value + 1, std::numeric_limits<std::uint32_t>::max());
    HF_TRY_ASSIGN(numbers_, base::sparse_table<std::uint32_t>::create(pages.value, "pages of free extents"));
    HF_TRY_ASSIGN(nodes_, base::sparse_table<node>::create(most, "index of free extents"));
    clear_trees();
    nodes_made_ = first_unused_ = oldest_ = youngest_ = nobody;
    total_ = backed_ = {};
    count_ = 0;
    return {};
}

void free_index::clear_trees() noexcept {
    for (node& header : short_headers_) {
        tree::init_header(&header);
    }
    tree::init_header(&header_);
    short_used_ = {};
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
    node* const header = header_of(here.length);
    tree::insert_equal(header, tree::end_node(header), &here, [](const node* a, const node* b) noexcept {
        return a->length != b->length ? a->length < b->length : a->start < b->start;
    });
    if (header != &header_) {
        short_used_[here.length / 64] |= std::uint64_t{1} << (here.length % 64);
    }
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
    node* const header = header_of(here.length);
    tree::erase(header, &here);
    if (header != &header_ && header->parent == nullptr) {
        short_used_[here.length / 64] &= ~(std::uint64_t{1} << (here.length % 64));
    }
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

/// The lowest of the shortest that have at least this length; null where there is none.
free_index::node* free_index::first_of_length(base::pages length) const noexcept {
    if (length.value <= longest_short) {
        std::size_t word = length.value / 64;
        std::uint64_t used = short_used_[word] & ~std::uint64_t{0} << (length.value % 64);
        while (used == 0 && ++word < short_used_.size()) {
            used = short_used_[word];
        }
        if (used != 0) {
            return short_headers_[word * 64 + static_cast<std::size_t>(std::countr_zero(used))].left;
        }
    }
    node* const found = tree::lower_bound(
        &header_, length.value, [](const node* a, std::uint64_t wanted) noexcept { return a->length < wanted; });
    return found == &header_ ? nullptr : found;
}

/// The next by length, then by address; null behind the last.
free_index::node* free_index::next_of(const node* one) const noexcept {
    const node* const header = header_of(one->length);
    node* const next = tree::next_node(const_cast<node*>(one));
    if (next != header) {
        return next;
    }
    return header == &header_ ? nullptr : first_of_length({one->length + 1});
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
    const node* candidate = first_of_length(length);
    for (int tried = 0; tried < tries && candidate != nullptr; ++tried, candidate = next_of(candidate)) {
        if (const auto found = fit(candidate, length, alignment)) {
            return found;
        }
    }
    if (candidate == nullptr) {
        return std::nullopt;
    }
    const node* const certain = first_of_length({length.value + alignment.value - 1});
    if (certain != nullptr) {
        return fit(certain, length, alignment);
    }
    for (; candidate != nullptr; candidate = next_of(candidate)) {
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
    if (header_.parent != nullptr) {
        return {header_.right->length};
    }
    for (std::size_t word = short_used_.size(); word-- > 0;) {
        if (short_used_[word] != 0) {
            return {word * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(short_used_[word]))};
        }
    }
    return {};
}

}  // namespace holdfast::extent
