// Scans of an ordered_index.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <holdfast/detail/index_batch.hpp>
#include <holdfast/detail/index_calls.hpp>

namespace holdfast::detail {

template <class Key, class Value>
class index_scan : public index_calls<Key, Value, order_of_keys<Key>> {
    using base = index_calls<Key, Value, order_of_keys<Key>>;

protected:
    using base::base;
    using typename base::found_leaf;
    using typename base::inner;
    using typename base::layout;
    using typename base::leaf;
    using typename base::leaf_bounds;
    using typename base::owned_key;
    using typename base::separator;
    ~index_scan() = default;

    using batch_of_leaf = index_batch<Key, Value, layout::slots>;

    /// One leaf at a time, from a key on.
    struct scan_place {
        std::optional<owned_key> key;  ///< none: the smallest or largest
        bool inclusive = true;         ///< the key itself follows
        bool at_end = false;           ///< no leaf follows
    };
    /// Copies at most `most` entries of a leaf, and moves the place on.
    void fetch_forward(scan_place& place, std::size_t most, batch_of_leaf& batch) const {
        fetch(place, true, most, batch);
    }
    void fetch_backward(scan_place& place, std::size_t most, batch_of_leaf& batch) const {
        fetch(place, false, most, batch);
    }

private:
    void fetch(scan_place& place, bool forward, std::size_t most, batch_of_leaf& batch) const {
        this->refuse_closed();
        const typename base::section inside(this->grace_);
        for (;;) {
            leaf_bounds bounds;
            const found_leaf at = find_place(place, forward, bounds, most);
            if (!this->is_warm(at) || !is_ordered(at)) {
                continue;
            }
            if constexpr (base::has_blocks) {
                if (!at.node->lock.share_if(at.version)) {
                    continue;
                }
                const shared_hold hold(at.node->lock);
                const bool is_full = copy(*at.node, place, forward, most, batch);
                move_on(place, forward, bounds, is_full ? &batch : nullptr);
                return;
            } else {
                const bool is_full = copy(*at.node, place, forward, most, batch);
                if (at.node->lock.is_still(at.version)) [[likely]] {
                    move_on(place, forward, bounds, is_full ? &batch : nullptr);
                    return;
                }
            }
        }
    }
    /// `most`: the entries that are wanted.
    [[nodiscard]] found_leaf find_place(const scan_place& place, bool forward, leaf_bounds& bounds,
                                        std::size_t most) const {
        const auto fetch_all = [most](const std::uint64_t* words) {
            if (most > layout::slots / 8) {
                base::prefetch_words(words);
            }
        };
        if (place.key) {
            const Key key(*place.key);
            const bool or_equal = forward || place.inclusive;
            return this->walk_down([&](const inner& at) { return at.find(key, or_equal); }, &bounds, fetch_all);
        }
        const auto first_or_last = [forward](const inner& at) {
            return forward ? 0 : std::min<std::size_t>(at.count.load(std::memory_order_relaxed), inner::most);
        };
        return this->walk_down(first_or_last, &bounds, fetch_all);
    }
    [[nodiscard]] bool is_ordered(const found_leaf& at) const {
        if (at.node->ordered.load(std::memory_order_relaxed)) [[likely]] {
            return true;
        }
        if (at.node->lock.lock_if(at.version)) {
            const write_hold hold(at.node->lock);
            this->put_in_order(*at.node);
        }
        return false;
    }
    /// Whether it stopped because there were `most`.
    [[nodiscard]] static bool copy(const leaf& of, const scan_place& place, bool forward, std::size_t most,
                                   batch_of_leaf& batch) {
        const std::uint64_t* const words = of.media();
        const std::size_t count = std::min(of.count(), layout::slots);
        std::size_t begin = 0;
        std::size_t end = count;
        if (place.key) {
            const std::size_t at = rank_of(of, Key(*place.key), forward != place.inclusive, count);
            (forward ? begin : end) = at;
        }
        const std::size_t some = std::min(most, end - begin);
        batch.clear();
        for (std::size_t i = 0; i < some; ++i) {
            const std::size_t slot = of.slot_of_rank(forward ? begin + i : end - 1 - i);
            batch.add(base::key_at(words, slot), base::value_at(words, slot));
        }
        return some < end - begin;
    }
    /// How many live keys are smaller than the key, or not larger (`or_equal`).
    [[nodiscard]] static std::size_t rank_of(const leaf& of, const Key& key, bool or_equal, std::size_t count) {
        const std::uint64_t* const words = of.media();
        std::size_t first = 0;
        std::size_t left = count;
        while (left > 0) {
            const std::size_t half = left / 2;
            const Key here = base::key_at(words, of.slot_of_rank(first + half));
            const bool right = or_equal ? !(key < here) : here < key;
            first = right ? first + half + 1 : first;
            left = right ? left - half - 1 : half;
        }
        return first;
    }
    /// `part`: entries that do not end the leaf, or null.
    static void move_on(scan_place& place, bool forward, const leaf_bounds& bounds, const batch_of_leaf* part) {
        if (part != nullptr) {
            place.key = owned_key(part->key(part->size() - 1));
            place.inclusive = false;
            return;
        }
        const std::optional<separator>& bound = forward ? bounds.high : bounds.low;
        place.at_end = !bound.has_value();
        if (bound) {
            place.key = owned_key(key_of_separator(*bound));
            place.inclusive = forward;
        }
    }
};

}  // namespace holdfast::detail
