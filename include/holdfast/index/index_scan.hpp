// Scans of an ordered_index.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <holdfast/index/index_batch.hpp>
#include <holdfast/index/index_tree.hpp>

namespace holdfast::detail {

/// One leaf at a time, from a key on.
template <class Key, class Value>
class index_scan {
    using order = order_of_keys<Key>;
    using types = index_types<Key, Value, order>;
    using tree = index_tree<Key, Value, order>;
    using inner = typename types::inner;
    using layout = typename types::layout;
    using leaf = typename types::leaf;
    using owned_key = typename types::owned_key;
    using separator = typename types::separator;
    using found_leaf = typename tree::found_leaf;
    using section = typename tree::node_tree::section;
    using leaf_bounds = typename tree::node_tree::leaf_bounds;

public:
    using batch = index_batch<Key, Value, layout::slots>;

    /// From the smallest or largest key on where there is none.
    index_scan(const tree& of, std::optional<owned_key> from, bool forward)
        : tree_(of), forward_(forward), key_(std::move(from)) {}

    [[nodiscard]] bool at_end() const noexcept { return at_end_; }
    /// Copies at most `most` entries of the next leaf.
    void fetch(std::size_t most, batch& to) {
        tree_.media().refuse_closed();
        const section inside(tree_.nodes().grace());
        for (;;) {
            leaf_bounds bounds;
            const found_leaf at = find_place(bounds, most);
            if (!tree_.is_warm(at) || !is_ordered(at)) {
                continue;
            }
            if constexpr (types::has_blocks) {
                if (!at.node->lock.share_if(at.version)) {
                    continue;
                }
                const shared_guard hold(at.node->lock);
                const bool is_full = copy(*at.node, most, to);
                move_on(bounds, is_full ? &to : nullptr);
                return;
            } else {
                const bool is_full = copy(*at.node, most, to);
                if (at.node->lock.is_still(at.version)) [[likely]] {
                    move_on(bounds, is_full ? &to : nullptr);
                    return;
                }
            }
        }
    }

private:
    /// `most`: the entries that are wanted.
    [[nodiscard]] found_leaf find_place(leaf_bounds& bounds, std::size_t most) const {
        const auto fetch_all = [most](const std::uint64_t* words) {
            if (most > layout::slots / 8) {
                types::prefetch_words(words);
            }
        };
        if (key_) {
            const Key key(*key_);
            const bool or_equal = forward_ || inclusive_;
            return tree_.nodes().walk_down([&](const inner& at) { return at.find(key, or_equal); }, &bounds, fetch_all);
        }
        const auto first_or_last = [this](const inner& at) {
            return forward_ ? 0 : std::min<std::size_t>(at.count.load(std::memory_order_relaxed), inner::most);
        };
        return tree_.nodes().walk_down(first_or_last, &bounds, fetch_all);
    }
    [[nodiscard]] bool is_ordered(const found_leaf& at) const {
        if (at.node->ordered.load(std::memory_order_relaxed)) [[likely]] {
            return true;
        }
        if (at.node->lock.lock_if(at.version)) {
            const write_guard hold(at.node->lock);
            tree_.media().put_in_order(*at.node);
        }
        return false;
    }
    /// Whether it stopped because there were `most`.
    [[nodiscard]] bool copy(const leaf& of, std::size_t most, batch& to) const {
        const std::uint64_t* const words = of.media();
        const std::size_t count = std::min(of.count(), layout::slots);
        std::size_t begin = 0;
        std::size_t end = count;
        if (key_) {
            const std::size_t at = rank_of(of, Key(*key_), forward_ != inclusive_, count);
            (forward_ ? begin : end) = at;
        }
        const std::size_t some = std::min(most, end - begin);
        to.clear();
        for (std::size_t i = 0; i < some; ++i) {
            const std::size_t slot = of.slot_of_rank(forward_ ? begin + i : end - 1 - i);
            to.add(types::key_at(words, slot), types::value_at(words, slot));
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
            const Key here = types::key_at(words, of.slot_of_rank(first + half));
            const bool right = or_equal ? !(key < here) : here < key;
            first = right ? first + half + 1 : first;
            left = right ? left - half - 1 : half;
        }
        return first;
    }
    /// `part`: entries that do not end the leaf, or null.
    void move_on(const leaf_bounds& bounds, const batch* part) {
        if (part != nullptr) {
            key_ = owned_key(part->key(part->size() - 1));
            inclusive_ = false;
            return;
        }
        const std::optional<separator>& bound = forward_ ? bounds.high : bounds.low;
        at_end_ = !bound.has_value();
        if (bound) {
            key_ = owned_key(key_of_separator(*bound));
            inclusive_ = forward_;
        }
    }

    const tree& tree_;
    const bool forward_;
    std::optional<owned_key> key_;  ///< none: the smallest or largest
    bool inclusive_ = true;         ///< the key itself follows
    bool at_end_ = false;           ///< no leaf follows
};

}  // namespace holdfast::detail
