// The free extents, in DRAM: by length for best fit, by their first and last page for coalescing.
//
// The nodes lie in a sparse table with one place a page, so that to insert or to erase needs no memory that could be
// refused: a free cannot fail for want of DRAM. About 4 KiB are touched for each free extent that has no other within
// 400 KiB.
#pragma once

#include <cstdint>
#include <optional>

#include <boost/intrusive/intrusive_fwd.hpp>
#include <boost/intrusive/rbtree_algorithms.hpp>

#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"

namespace holdfast::extent {

/// Thread safety: none; its owner holds a lock.
class free_index {
public:
    /// A place for an allocation: `at`, within the free extent of `length` pages at `start`.
    struct placement {
        base::pages start;
        base::pages length;
        base::pages at;
    };

    free_index() noexcept { tree::init_header(&header_); }
    free_index(const free_index&) = delete;
    free_index& operator=(const free_index&) = delete;
    ~free_index() = default;

    /// An empty index for `pages` pages.
    [[nodiscard]] base::result<void> reset(base::pages pages);

    /// The caller knows that no free extent overlaps the new one.
    void insert(base::pages start, base::pages length) noexcept;
    /// Removes the free extent that starts there; the caller knows that there is one.
    void erase(base::pages start) noexcept;

    /// Pages of the free extent that starts there; 0 where none does.
    [[nodiscard]] base::pages length_at(base::pages start) const noexcept { return {nodes_[start.value].length}; }
    /// Pages of the free extent whose last page is the one before `end`; 0 where there is none.
    [[nodiscard]] base::pages length_before(base::pages end) const noexcept {
        return end.value == 0 ? base::pages{} : base::pages{nodes_[end.value - 1].length_of_last};
    }

    /// The smallest free extent that can hold `length` pages at a multiple of `alignment`; the lowest among equals.
    /// Logarithmic, with one exception: where only an extent shorter than length + alignment would do, a few are tried
    /// and then a longer one taken; all are tried only where there is no longer one.
    [[nodiscard]] std::optional<placement> best_fit(base::pages length, base::pages alignment) const noexcept;

    [[nodiscard]] base::pages largest() const noexcept;
    [[nodiscard]] base::pages total() const noexcept { return total_; }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

private:
    /// Zero: no free extent starts or ends at this page.
    struct node {
        node* parent;
        node* left;
        node* right;
        std::uint64_t length : 63;  ///< of the free extent that starts here
        std::uint64_t color : 1;
        std::uint64_t length_of_last;  ///< of the free extent that ends with this page
    };
    struct node_traits {
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
    using tree = boost::intrusive::rbtree_algorithms<node_traits>;

    [[nodiscard]] node* first_of_length(base::pages length) const noexcept;
    [[nodiscard]] std::optional<placement> fit(const node* candidate, base::pages length,
                                               base::pages alignment) const noexcept;

    base::sparse_table<node> nodes_;
    mutable node header_{};  // the algorithms take the header of a tree that they only read as a pointer to change
    base::pages total_{};
    std::uint64_t count_ = 0;
};

}  // namespace holdfast::extent
