#include "extent/free_index.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include <boost/intrusive/intrusive_fwd.hpp>
#include <boost/intrusive/rbtree_algorithms.hpp>

#include "base/units.hpp"

namespace holdfast::extent {

struct free_index::node_traits {
    using node = free_index::node;
    using node_ptr = node*;
    using const_node_ptr = const node*;
    using color = bool;
    static node_ptr get_parent(const_node_ptr of) noexcept { return of->parent; }
    static void set_parent(node_ptr of, node_ptr parent) noexcept { of->parent = parent; }
    static node_ptr get_left(const_node_ptr of) noexcept { return of->left; }
    static void set_left(node_ptr of, node_ptr left) noexcept { of->left = left; }
    static node_ptr get_right(const_node_ptr of) noexcept { return of->right; }
    static void set_right(node_ptr of, node_ptr right) noexcept { of->right = right; }
    static color get_color(const_node_ptr of) noexcept { return of->color != 0; }
    static void set_color(node_ptr of, color value) noexcept { of->color = value ? 1 : 0; }
    static color black() noexcept { return false; }
    static color red() noexcept { return true; }
};

struct free_index::tree : boost::intrusive::rbtree_algorithms<free_index::node_traits> {};

base::result<void> free_index::reset(base::pages pages, node_layout layout) {
    // Free extents beyond these numbers would be found again at the next open.
    const std::uint64_t most = std::min<std::uint64_t>(pages.value + 1, std::numeric_limits<std::uint32_t>::max());
    HF_TRY_ASSIGN(numbers_, base::sparse_table<std::uint32_t>::create(pages.value, "pages of free extents"));
    HF_TRY_ASSIGN(nodes_, base::sparse_table<node>::create(most, "index of free extents"));
    layout_ = layout;
    first_.clear();
    more_ = std::vector<trees>(layout.nodes == 1 ? 0 : layout.nodes);
    nodes_made_ = first_unused_ = oldest_ = youngest_ = nobody;
    total_ = backed_ = {};
    count_ = 0;
    return {};
}

void free_index::trees::clear() noexcept {
    for (node& each : short_headers) {
        tree::init_header(&each);
    }
    tree::init_header(&header);
    short_used = {};
}

free_index::trees& free_index::trees_of(base::pages start, base::pages length) noexcept {
    if (layout_.nodes == 1) {
        return first_;
    }
    const std::uint32_t of = start + length <= layout_.segment_end(start) ? layout_.node_of(start) : layout_.nodes;
    return of == 0 ? first_ : more_[of - 1];
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
    trees& group = trees_of(added.start, added.length);
    node* const header = group.header_of(here.length);
    tree::insert_equal(header, tree::end_node(header), &here, [](const node* a, const node* b) noexcept {
        return a->length != b->length ? a->length < b->length : a->start < b->start;
    });
    if (header != &group.header) {
        group.short_used[here.length / 64] |= std::uint64_t{1} << (here.length % 64);
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
    trees& group = trees_of(erased.start, erased.length);
    node* const header = group.header_of(here.length);
    tree::erase(header, &here);
    if (header != &group.header && header->parent == nullptr) {
        group.short_used[here.length / 64] &= ~(std::uint64_t{1} << (here.length % 64));
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

/// Null where there is none.
free_index::node* free_index::trees::first_of_length(base::pages length) const noexcept {
    if (length.value <= longest_short) {
        std::size_t word = length.value / 64;
        std::uint64_t used = short_used[word] & ~std::uint64_t{0} << (length.value % 64);
        while (used == 0 && ++word < short_used.size()) {
            used = short_used[word];
        }
        if (used != 0) {
            return short_headers[word * 64 + static_cast<std::size_t>(std::countr_zero(used))].left;
        }
    }
    node* const found = tree::lower_bound(
        &header, length.value, [](const node* a, std::uint64_t wanted) noexcept { return a->length < wanted; });
    return found == &header ? nullptr : found;
}

/// Null behind the last.
free_index::node* free_index::trees::next_of(const node* one) const noexcept {
    const node* const end = header_of(one->length);
    node* const next = tree::next_node(const_cast<node*>(one));
    if (next != end) {
        return next;
    }
    return end == &header ? nullptr : first_of_length({one->length + 1});
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

std::optional<free_index::placement> free_index::trees::best_fit(base::pages length,
                                                                 base::pages alignment) const noexcept {
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

std::optional<free_index::placement> free_index::best_fit(base::pages length, base::pages alignment) const noexcept {
    std::optional<placement> best = first_.best_fit(length, alignment);
    for (const trees& each : more_) {
        const auto other = each.best_fit(length, alignment);
        const auto rank = [](const placement& one) { return std::pair(one.in.length, one.in.start); };
        if (other && (!best || rank(*other) < rank(*best))) {
            best = other;
        }
    }
    return best;
}

std::optional<free_index::placement> free_index::fit_on(std::uint32_t on, const node& candidate, base::pages length,
                                                        base::pages alignment) const noexcept {
    const base::pages end{candidate.start + candidate.length};
    for (base::pages from{candidate.start}; from < end; from = layout_.segment_end(from)) {
        const base::pages at{base::align_up(from.value, alignment.value)};
        if (layout_.node_of(from) == on && at + length <= std::min(end, layout_.segment_end(from))) {
            return placement{run_of(candidate), at};
        }
    }
    return std::nullopt;
}

std::optional<free_index::placement> free_index::best_fit_on(std::uint32_t on, base::pages length,
                                                             base::pages alignment) const noexcept {
    if (layout_.nodes == 1) {
        return first_.best_fit(length, alignment);
    }
    if (const auto within = (on == 0 ? first_ : more_[on - 1]).best_fit(length, alignment)) {
        return within;
    }
    const trees& wide = more_.back();
    for (const auto* one = wide.first_of_length(length); one != nullptr; one = wide.next_of(one)) {
        if (const auto found = fit_on(on, *one, length, alignment)) {
            return found;
        }
    }
    return std::nullopt;
}

std::optional<free_index::run> free_index::oldest_backed() const noexcept {
    return oldest_ == nobody ? std::nullopt : std::optional(run_of(nodes_[oldest_]));
}

base::pages free_index::largest() const noexcept {
    base::pages found = first_.largest();
    for (const trees& each : more_) {
        found = std::max(found, each.largest());
    }
    return found;
}

base::pages free_index::trees::largest() const noexcept {
    if (header.parent != nullptr) {
        return {header.right->length};
    }
    for (std::size_t word = short_used.size(); word-- > 0;) {
        if (short_used[word] != 0) {
            return {word * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(short_used[word]))};
        }
    }
    return {};
}

}  // namespace holdfast::extent
