// Looking things up in an ordered_index: by readers that lock nothing where keys and values are inline, and that keep
// writers out of one leaf where a block may be freed. Not for users.
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

/// Entries of one leaf, copied: what a scan hands out.
template <class Key, class Value, std::size_t Slots>
class index_batch {
public:
    index_batch() {
        if constexpr (std::is_same_v<entries, std::vector<entry>>) {
            entries_.resize(Slots);
        }
    }
    void clear() noexcept {
        count_ = 0;
        texts_.clear();
    }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    void add(const Key& key, const Value& value) {
        entry& to = entries_[count_++];
        to.key = keep(key);
        to.value = keep(value);
    }
    [[nodiscard]] Key key(std::size_t i) const noexcept { return give<Key>(entries_[i].key); }
    [[nodiscard]] Value value(std::size_t i) const noexcept { return give<Value>(entries_[i].value); }

private:
    struct place {
        std::size_t begin;
        std::size_t length;
    };
    template <class T>
    using kept = std::conditional_t<is_index_text<T>, place, T>;
    template <class T>
    [[nodiscard]] kept<T> keep(const T& value) {
        if constexpr (is_index_text<T>) {
            texts_.append(value);
            return {texts_.size() - value.size(), value.size()};
        } else {
            return value;
        }
    }
    template <class T>
    [[nodiscard]] T give(const kept<T>& from) const noexcept {
        if constexpr (is_index_text<T>) {
            return T(texts_).substr(from.begin, from.length);
        } else {
            return from;
        }
    }
    struct entry {
        kept<Key> key;
        kept<Value> value;
    };
    static constexpr std::size_t most_bytes_inside = 8192;  // so that a scan needs no memory of its own
    using entries =
        std::conditional_t<Slots * sizeof(entry) <= most_bytes_inside, std::array<entry, Slots>, std::vector<entry>>;
    entries entries_;  // those of an array are of any content
    std::size_t count_ = 0;
    std::string texts_;
};

template <index_key Key, index_value Value>
class index_search : public index_core<Key, Value> {
    using base = index_core<Key, Value>;

public:
    using base::base;
    using typename base::inner;
    using typename base::layout;
    using typename base::leaf;
    using typename base::owned_key;
    using typename base::owned_value;
    using typename base::separator;

    /// The value of the key; nothing where it is not there.
    [[nodiscard]] std::optional<owned_value> find(const Key& key) const {
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

    using batch_of_leaf = index_batch<Key, Value, layout::slots>;

    /// One leaf at a time, from a key on.
    struct scan_place {
        std::optional<owned_key> key;  ///< none: the smallest, or the largest
        bool inclusive = true;         ///< the key itself belongs to what follows
        bool at_end = false;           ///< no leaf follows
    };
    /// Copies the entries of a leaf that follow the place in ascending order, at most `most`, and moves the place on.
    void fetch_forward(scan_place& place, std::size_t most, batch_of_leaf& batch) const {
        fetch(place, true, most, batch);
    }
    void fetch_backward(scan_place& place, std::size_t most, batch_of_leaf& batch) const {
        fetch(place, false, most, batch);
    }

    /// The entries of the leaf at the place, which moves on to the next one.
    [[nodiscard]] std::size_t count_leaf(scan_place& place) const {
        const typename base::section inside(this->grace_);
        for (;;) {
            leaf_bounds bounds;
            const found_leaf at = find_place(place, true, bounds, 0);
            if (!is_warm(at)) {
                continue;
            }
            const std::size_t count = at.node->count();
            if (at.node->lock.is_still(at.version)) [[likely]] {
                move_on(place, true, bounds, nullptr);
                return count;
            }
        }
    }

protected:
    ~index_search() = default;

    struct found_leaf {
        leaf* node;
        std::uint64_t version;
    };
    /// What bounds a leaf, where something does.
    struct leaf_bounds {
        std::optional<separator> low;
        std::optional<separator> high;
    };

    /// The leaf to which a key with that fingerprint belongs, for find_slot(): the cell where its entry is likely to
    /// lie is fetched together with the leaf's fingerprints.
    [[nodiscard]] found_leaf descend_to(const Key& key, std::uint8_t print) const {
        return walk_down([&](const inner& at) { return at.find(key, true); }, nullptr,
                         [header = layout::header_of(layout::likely_cell(print))](const std::uint64_t* words) {
                             constexpr std::size_t beside = layout::cell_words <= 8 ? layout::cell_words / 2 : 0;
                             __builtin_prefetch(words + header - beside);
                             __builtin_prefetch(words + header + beside);
                         });
    }

    /// Whether the leaf was read since the open; else reads it, and the caller looks again.
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

    /// The live entry with that key; layout::slots where there is none.
    [[nodiscard]] static std::size_t find_slot(const leaf& of, const Key& key, std::uint8_t print) noexcept {
        const std::uint64_t* const words = of.media();
        const auto candidates = of.live_with(print);
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            for (std::uint64_t found = candidates[i]; found != 0; found &= found - 1) {
                const std::size_t slot = 64 * i + static_cast<std::size_t>(std::countr_zero(found));
                if (equal(base::key_at(words, slot), key)) {
                    return slot;
                }
            }
        }
        return layout::slots;
    }
    [[nodiscard]] static bool equal(const Key& a, const Key& b) noexcept {
        if constexpr (requires { a == b; }) {
            return a == b;
        } else {
            return !(a < b) && !(b < a);
        }
    }

private:
    /// `choose` gives the child of a node to go to, `fetch` fetches lines of the leaf on media.
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
    static void note_bounds(const inner& at, std::size_t i, leaf_bounds& bounds) {
        if (i > 0) {
            bounds.low = at.separators[i - 1].raw();
        }
        if (i < at.count.load(std::memory_order_relaxed) && i < inner::most) {
            bounds.high = at.separators[i].raw();
        }
    }

    void fetch(scan_place& place, bool forward, std::size_t most, batch_of_leaf& batch) const {
        const typename base::section inside(this->grace_);
        for (;;) {
            leaf_bounds bounds;
            const found_leaf at = find_place(place, forward, bounds, most);
            if (!is_warm(at) || !is_ordered(at)) {
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
    /// `most`: entries of the leaf that are wanted.
    [[nodiscard]] found_leaf find_place(const scan_place& place, bool forward, leaf_bounds& bounds,
                                        std::size_t most) const {
        const auto fetch_all = [most](const std::uint64_t* words) {
            if (most > layout::slots / 8) {
                prefetch_words(words);
            }
        };
        if (place.key) {
            const Key key(*place.key);
            const bool or_equal = forward || place.inclusive;
            return walk_down([&](const inner& at) { return at.find(key, or_equal); }, &bounds, fetch_all);
        }
        const auto first_or_last = [forward](const inner& at) {
            return forward ? 0 : std::min<std::size_t>(at.count.load(std::memory_order_relaxed), inner::most);
        };
        return walk_down(first_or_last, &bounds, fetch_all);
    }
    [[nodiscard]] bool is_ordered(const found_leaf& at) const {
        if (at.node->ordered.load(std::memory_order_relaxed)) [[likely]] {
            return true;
        }
        if (at.node->lock.lock_if(at.version)) {
            const write_hold hold(at.node->lock);
            base::put_in_order(*at.node);
        }
        return false;
    }
    /// Returns whether it stopped because there were `most`.
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
    /// `part`: entries behind which others of the leaf follow; null: none do.
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
