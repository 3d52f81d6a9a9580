// Look-ups. Readers lock nothing where keys and values are inline; where a block may be freed, they keep writers out of
// one leaf.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/index_core.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_search : public index_core<Key, Value, Order> {
    using base = index_core<Key, Value, Order>;

public:
    using base::base;
    using typename base::bound;
    using typename base::inner;
    using typename base::layout;
    using typename base::leaf;
    using typename base::owned_key;
    using typename base::owned_value;
    using typename base::separator;

    [[nodiscard]] std::optional<owned_value> find(const Key& key) const {
        this->refuse_closed();
        const typename base::section inside(this->grace_);
        const std::uint8_t print = fingerprint<Key>(key);
        for (;;) {
            const found_leaf at = descend_to(key, print);
            if (!is_warm(at)) {
                continue;
            }
            if constexpr (base::has_blocks) {
                if (!at.node->lock.share_if(at.version)) {
                    continue;
                }
                const shared_hold hold(at.node->lock);
                const std::size_t slot = find_slot(*at.node, key, print);
                return slot == layout::slots ? std::nullopt
                                             : std::optional<owned_value>(base::value_at(at.node->media(), slot));
            } else {
                const std::uint64_t* const words = at.node->media();
                const std::size_t slot = find_slot(*at.node, key, print);
                std::optional<owned_value> found;
                if (slot != layout::slots) {
                    found = base::value_at(words, slot);
                }
                if (at.node->lock.is_still(at.version)) [[likely]] {
                    return found;
                }
            }
        }
    }

    /// Reads all leaves in their order, each at one moment: `read(leaf, from)`, again where the leaf has changed
    /// meanwhile, then `take()`, until that returns false. `from`: null, or the bound below which a merge put entries
    /// that were read before.
    template <class Read, class Take>
    void visit_leaves(Read&& read, Take&& take) const {
        leaf_place place;
        while (!place.at_end) {
            if (read_leaf(place, read) && !take()) {
                return;
            }
        }
    }
    [[nodiscard]] std::size_t size() const {
        std::size_t sum = 0;
        std::size_t some = 0;
        visit_leaves([&](const leaf& of, const bound* from) { some = count_from(of, from); },
                     [&] {
                         sum += some;
                         return true;
                     });
        return sum;
    }

protected:
    ~index_search() = default;

    /// Whether a live entry is not below the bound, if any.
    [[nodiscard]] bool is_from(const leaf& of, std::size_t slot, const bound* from) const {
        return from == nullptr || !(this->bound_at(of.media(), slot) < *from);
    }
    struct leaf_place {
        std::optional<typename base::bound_words::owned> from;  ///< none: the first
        bool at_end = false;                                    ///< no leaf follows
    };
    struct found_leaf {
        leaf* node;
        std::uint64_t version;
    };
    struct leaf_bounds {
        std::optional<separator> low;
        std::optional<separator> high;
    };

    /// Fetches the cell where that entry is likely to lie together with the leaf's fingerprints.
    [[nodiscard]] found_leaf descend_to(const Key& key, std::uint8_t print) const {
        const auto fetch = [header = layout::header_of(layout::likely_cell(print))](const std::uint64_t* words) {
            constexpr std::size_t beside = layout::cell_words <= 8 ? layout::cell_words / 2 : 0;
            __builtin_prefetch(words + header - beside);
            __builtin_prefetch(words + header + beside);
        };
        const bound& place = this->order_.bound_of(key);
        if constexpr (Order::by_hash) {
            const child_link& link = this->directory_.entry(place);
            if (index_node* const node = link.node.load(std::memory_order_acquire); node != nullptr) [[likely]] {
                fetch(link.words.load(std::memory_order_relaxed));
                prefetch(node);
                const std::uint64_t version = node->lock.version();
                if (auto* const of = static_cast<leaf*>(node); of->contains(place)) [[likely]] {
                    return {of, version};
                }
            }
        }
        const found_leaf found = walk_down([&](const inner& at) { return at.find(place, true); }, nullptr, fetch);
        if constexpr (Order::by_hash) {
            const std::uint64_t first = found.node->first();
            const std::uint64_t last = found.node->last();
            if (found.node->lock.is_still(found.version)) {
                this->directory_.note(place, found.node, first, last);
            }
        }
        return found;
    }

    /// Else reads the leaf, and the caller looks again.
    [[nodiscard]] bool is_warm(const found_leaf& at) const {
        if (!at.node->cold.load(std::memory_order_acquire)) [[likely]] {
            return true;
        }
        if (at.node->lock.lock_if(at.version)) {
            const write_hold hold(at.node->lock);
            if (at.node->cold.load(std::memory_order_relaxed)) {
                static_cast<void>(this->warm(*at.node));
            }
        }
        return false;
    }

    /// layout::slots where there is none.
    [[nodiscard]] static std::size_t find_slot(const leaf& of, const Key& key, std::uint8_t print) noexcept {
        const std::uint64_t* const words = of.media();
        const auto candidates = of.live_with(print);
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            for (std::uint64_t found = candidates[i]; found != 0; found &= found - 1) {
                const std::size_t slot = 64 * i + static_cast<std::size_t>(std::countr_zero(found));
                if (equal_keys(base::key_at(words, slot), key)) {
                    return slot;
                }
            }
        }
        return layout::slots;
    }
    /// `choose` gives the child, `fetch` fetches lines of the leaf on media.
    template <class Choose, class Fetch>
    [[nodiscard]] found_leaf walk_down(Choose&& choose, leaf_bounds* bounds, Fetch&& fetch) const {
        for (;;) {
            index_node* node = this->root_.load(std::memory_order_acquire);
            std::uint64_t version = node->lock.version();
            bool whole = this->root_.load(std::memory_order_acquire) == node;
            if (bounds != nullptr) {
                *bounds = {};
            }
            while (whole && !node->is_leaf) {
                const inner& at = static_cast<const inner&>(*node);
                const std::size_t i = choose(at);
                index_node* const child = at.child(i);
                const std::uint64_t* const words = at.children[i].words.load(std::memory_order_relaxed);
                if (bounds != nullptr) {
                    note_bounds(at, i, *bounds);
                }
                whole = at.lock.is_still(version);
                if (whole) {
                    if (words != nullptr) {
                        fetch(words);
                    }
                    prefetch(child);
                    const std::uint64_t next = child->lock.version();
                    whole = at.lock.is_still(version);
                    node = child;
                    version = next;
                }
            }
            if (whole) [[likely]] {
                return {static_cast<leaf*>(node), version};
            }
        }
    }
    static void prefetch(const index_node* node) noexcept {
        const auto* const lines = reinterpret_cast<const char*>(node);
        __builtin_prefetch(lines + 64);
        __builtin_prefetch(lines + 128);
    }
    static void prefetch_words(const std::uint64_t* words) noexcept {
        constexpr std::size_t line = 8;
        for (std::size_t i = 0; i < layout::words; i += line) {
            __builtin_prefetch(words + i);
        }
    }

private:
    [[nodiscard]] std::size_t count_from(const leaf& of, const bound* from) const {
        std::size_t sum = from == nullptr ? of.count() : 0;
        for (std::size_t slot = 0; from != nullptr && slot < layout::slots; ++slot) {
            sum += of.is_live(slot) && is_from(of, slot, from) ? 1U : 0U;
        }
        return sum;
    }
    static void note_bounds(const inner& at, std::size_t i, leaf_bounds& bounds) {
        if (i > 0) {
            bounds.low = at.separators[i - 1].raw();
        }
        if (i < at.count.load(std::memory_order_relaxed) && i < inner::most) {
            bounds.high = at.separators[i].raw();
        }
    }
    /// The place moves on unless something has changed.
    template <class Read>
    [[nodiscard]] bool read_leaf(leaf_place& place, Read& read) const {
        this->refuse_closed();
        const typename base::section inside(this->grace_);
        leaf_bounds bounds;
        const auto choose = [&](const inner& at) { return place.from ? at.find(bound(*place.from), true) : 0; };
        const found_leaf at = walk_down(choose, &bounds, prefetch_words);
        if (!is_warm(at)) {
            return false;
        }
        std::optional<bound> from;
        if (place.from && (!bounds.low || key_of_separator(*bounds.low) < bound(*place.from))) {
            from = bound(*place.from);
        }
        const bound* const known = from ? &*from : nullptr;
        if constexpr (base::has_blocks) {
            if (!at.node->lock.share_if(at.version)) {
                return false;
            }
            const shared_hold hold(at.node->lock);
            read(*at.node, known);
        } else {
            read(*at.node, known);
            if (!at.node->lock.is_still(at.version)) {
                return false;
            }
        }
        place.at_end = !bounds.high.has_value();
        if (bounds.high) {
            place.from = typename base::bound_words::owned(key_of_separator(*bounds.high));
        }
        return true;
    }
};

}  // namespace holdfast::detail
