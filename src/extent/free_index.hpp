// The free extents, in DRAM: by length for best fit, by their first and last page for coalescing, by age for decay.
// Each length up to 256 pages has its own tree, ordered by address; longer extents share one. Each node of the machine
// has such trees, and further ones hold extents that reach into the next segment.
//
// The tree nodes are in a pool with room for all possible free extents. Inserting and erasing need no memory, so a free
// cannot fail for want of DRAM.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"

namespace holdfast::extent {

/// Segment i is on node i mod `nodes`.
struct node_layout {
    std::uint32_t nodes = 1;
    base::pages segment{};  ///< a power of two

    [[nodiscard]] constexpr std::uint32_t node_of(base::pages page) const noexcept {
        return nodes == 1 ? 0 : static_cast<std::uint32_t>(page.value / segment.value % nodes);
    }
    [[nodiscard]] constexpr base::pages segment_end(base::pages page) const noexcept {
        return {(page.value / segment.value + 1) * segment.value};
    }
};

/// The caller holds a lock.
class free_index {
public:
    /// `backed`: pages that are not known to be holes.
    struct run {
        base::pages start;
        base::pages length;
        base::pages backed;
    };
    struct placement {
        run in;
        base::pages at;
    };

    free_index() = default;
    free_index(const free_index&) = delete;
    free_index& operator=(const free_index&) = delete;
    ~free_index() = default;

    /// Makes the index empty. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> reset(base::pages pages, node_layout layout = {});

    /// The extent becomes the youngest. No other free extent may overlap it.
    void insert(const run& added) noexcept;
    /// A free extent must start there.
    run erase(base::pages start) noexcept;

    [[nodiscard]] base::pages length_at(base::pages start) const noexcept {
        const node* const found = node_at(start);
        return found != nullptr && found->start == start.value ? base::pages{found->length} : base::pages{};
    }
    [[nodiscard]] base::pages length_before(base::pages end) const noexcept {
        const node* const found = end.value == 0 ? nullptr : node_at({end.value - 1});
        return found != nullptr && found->start + found->length == end.value ? base::pages{found->length}
                                                                             : base::pages{};
    }

    /// The smallest free extent that fits; the lowest among equals. Takes logarithmic time, except that a few extents
    /// shorter than length + alignment are tried before a longer one, and all of them where there is none.
    [[nodiscard]] std::optional<placement> best_fit(base::pages length, base::pages alignment) const noexcept;
    /// Within a segment of the node. An extent that reaches beyond it is taken only where no other fits.
    [[nodiscard]] std::optional<placement> best_fit_on(std::uint32_t on, base::pages length,
                                                       base::pages alignment) const noexcept;

    [[nodiscard]] std::optional<run> oldest_backed() const noexcept;
    /// The oldest first. `each` must not change the index.
    template <class Each>
    void for_each_backed(Each each) const {
        for (std::uint32_t number = oldest_; number != nobody; number = nodes_[number].younger) {
            each(run_of(nodes_[number]));
        }
    }

    [[nodiscard]] base::pages largest() const noexcept;
    [[nodiscard]] base::pages total() const noexcept { return total_; }
    [[nodiscard]] base::pages backed() const noexcept { return backed_; }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

private:
    struct node {
        node* parent;
        node* left;
        node* right;
        std::uint64_t start;
        std::uint64_t length : 63;
        std::uint64_t color : 1;
        std::uint64_t backed;
        std::uint32_t older;
        std::uint32_t younger;  ///< or the next unused node
    };
    static constexpr std::uint32_t nobody = 0;
    struct node_traits;
    struct tree;  ///< keeps the headers of Boost.Intrusive out of this one

    [[nodiscard]] const node* node_at(base::pages page) const noexcept {
        const std::uint32_t number = numbers_[page.value];
        return number == nobody ? nullptr : &nodes_[number];
    }
    [[nodiscard]] static run run_of(const node& of) noexcept { return {{of.start}, {of.length}, {of.backed}}; }
    [[nodiscard]] std::uint32_t take_node() noexcept;
    void link_youngest(std::uint32_t number) noexcept;
    void unlink(std::uint32_t number) noexcept;
    static constexpr std::uint64_t longest_short = 256;

    // The tree algorithms take pointers to non-const even where they only read.
    struct trees {
        mutable std::array<node, longest_short + 1> short_headers{};
        mutable node header{};
        std::array<std::uint64_t, longest_short / 64 + 1> short_used{};

        trees() noexcept { clear(); }
        trees(const trees&) = delete;  // headers point to themselves
        trees& operator=(const trees&) = delete;
        ~trees() = default;
        void clear() noexcept;
        [[nodiscard]] node* header_of(std::uint64_t length) const noexcept {
            return length <= longest_short ? &short_headers[length] : &header;
        }
        [[nodiscard]] node* first_of_length(base::pages length) const noexcept;
        [[nodiscard]] node* next_of(const node* one) const noexcept;
        [[nodiscard]] std::optional<placement> best_fit(base::pages length, base::pages alignment) const noexcept;
        [[nodiscard]] base::pages largest() const noexcept;
    };
    [[nodiscard]] trees& trees_of(base::pages start, base::pages length) noexcept;
    [[nodiscard]] std::optional<placement> fit_on(std::uint32_t on, const node& candidate, base::pages length,
                                                  base::pages alignment) const noexcept;
    [[nodiscard]] static std::optional<placement> fit(const node* candidate, base::pages length,
                                                      base::pages alignment) noexcept;

    base::sparse_table<std::uint32_t> numbers_;  ///< for the first and the last page of each extent
    base::sparse_table<node> nodes_;
    std::uint32_t nodes_made_ = 0;
    std::uint32_t first_unused_ = nobody;
    std::uint32_t oldest_ = nobody;
    std::uint32_t youngest_ = nobody;
    node_layout layout_;
    trees first_;
    std::vector<trees> more_;  ///< of the other nodes, then of extents in several segments
    base::pages total_{};
    base::pages backed_{};
    std::uint64_t count_ = 0;
};

}  // namespace holdfast::extent
