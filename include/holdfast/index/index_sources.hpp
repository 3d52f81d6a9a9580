// Sources for bulk_load() (index_load.hpp).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/index/index_support.hpp>
#include <holdfast/index/index_words.hpp>

namespace holdfast::detail {

/// Ascending keys. Fills leaves to nine tenths.
template <class Key, class Value, class Layout, class Iterator, class Sentinel>
class ascending_source {
public:
    ascending_source(const manager& heap, Iterator first, Sentinel last)
        : heap_(heap), first_(std::move(first)), last_(std::move(last)) {}

    [[nodiscard]] std::size_t leaf_takes() { return at_end() ? 0 : Layout::slots * 9 / 10; }
    /// Throws error(invalid_argument) for a key that is not larger than the one before.
    [[nodiscard]] bool next(std::pair<Key, Value>& entry) {
        if (at_end()) {
            return false;
        }
        is_read_ = true;
        if constexpr (std::is_reference_v<given>) {
            const auto& [key, value] = *first_;
            entry = {Key(key), Value(value)};
        } else {
            kept_.emplace(*first_);
            const auto& [key, value] = *kept_;
            entry = {Key(key), Value(value)};
        }
        if (largest_ && !(Key(*largest_) < entry.first)) {
            throw_index_argument(heap_, "keys of bulk_load", "one that is not larger than that before it",
                                 "ascending keys");
        }
        largest_ = owned_key(entry.first);
        return true;
    }
    [[nodiscard]] const Key& low_bound(const Key& key) const noexcept { return key; }

private:
    using given = decltype(*std::declval<Iterator&>());
    using owned_key = typename index_words<Key>::owned;

    [[nodiscard]] bool at_end() {
        if (is_read_) {
            ++first_;
            is_read_ = false;
        }
        return first_ == last_;
    }

    const manager& heap_;
    Iterator first_;
    Sentinel last_;
    bool is_read_ = false;  ///< the entry at first_
    /// What the iterator gives by value or address is read until it moves on.
    std::optional<std::remove_reference_t<given>> kept_;
    std::optional<owned_key> largest_;
};

/// Takes entries in any order, from an iterator that may go over them twice and gives references, and gives them in the
/// order of their hashes. Leaves, at least four fifths full, end at hashes with few bits where they can, so that few
/// entries of the directory are parted.
template <class Key, class Value, class Layout, class Order, std::forward_iterator Iterator>
class hashed_source {
public:
    /// Throws error(invalid_argument) where a key is there twice, error(limit) where more keys than a leaf holds have
    /// one hash, std::bad_alloc.
    template <class Sentinel>
    hashed_source(const manager& heap, const std::string& name, const Order& order, Iterator first, Sentinel last) {
        for (; first != last; ++first) {
            const auto& [key, value] = *first;
            all_.push_back({order.bound_of(Key(key)), first});
        }
        std::sort(all_.begin(), all_.end(), [](const place& a, const place& b) { return a.bound < b.bound; });
        for (auto begin = all_.begin(); begin != all_.end();) {
            const auto end = std::find_if(begin, all_.end(), [&](const place& at) { return at.bound != begin->bound; });
            check_run(heap, name, {begin, end});
            begin = end;
        }
    }

    [[nodiscard]] std::size_t leaf_takes() {
        low_ = next_low_;
        const std::size_t left = all_.size() - at_;
        if (left <= Layout::slots) {
            return left;
        }
        const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(at_);
        const std::uint64_t earliest = begin[Layout::slots * 4 / 5 - 1].bound;
        const std::uint64_t latest = begin[Layout::slots].bound;
        next_low_ = earliest < latest ? roundest(earliest, latest) : latest;
        const auto end = std::find_if(begin, all_.end(), [&](const place& at) { return at.bound >= next_low_; });
        return static_cast<std::size_t>(end - begin);
    }
    [[nodiscard]] bool next(std::pair<Key, Value>& entry) {
        const auto& [key, value] = *all_[at_++].entry;
        entry = {Key(key), Value(value)};
        return true;
    }
    [[nodiscard]] const std::uint64_t& low_bound(const Key& /*key*/) const noexcept { return low_; }

private:
    struct place {
        std::uint64_t bound;
        Iterator entry;
    };

    [[nodiscard]] static Key key_of(const place& at) {
        const auto& [key, value] = *at.entry;
        return Key(key);
    }
    static void check_run(const manager& heap, const std::string& name, std::span<const place> run) {
        const std::span<const place> some = run.first(std::min(run.size(), Layout::slots + 1));
        for (std::size_t i = 1; i < some.size(); ++i) {
            for (std::size_t other = 0; other < i; ++other) {
                if (equal_keys(key_of(some[i]), key_of(some[other]))) {
                    throw_index_argument(heap, "keys of bulk_load", "one twice", "distinct keys");
                }
            }
        }
        if (run.size() > Layout::slots) {
            throw_index_limit(heap, name);
        }
    }
    /// Above `low`, and not above `high`, the number with the most zeros at its end.
    [[nodiscard]] static std::uint64_t roundest(std::uint64_t low, std::uint64_t high) noexcept {
        const auto differing = static_cast<unsigned>(std::bit_width(low ^ high)) - 1;
        return high >> differing << differing;
    }

    std::vector<place> all_;
    std::size_t at_ = 0;
    std::uint64_t low_ = 0;  ///< of the leaf in the making
    std::uint64_t next_low_ = 0;
};

}  // namespace holdfast::detail
