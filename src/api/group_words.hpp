// What a transaction stores, and a group of records. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/hot.hpp"
#include "heap/operations/group_operations.hpp"

namespace holdfast::detail {

/// Successive words become one piece, while it has room.
class group_words {
public:
    HF_HOT void clear() noexcept {
        pieces_.clear();
        next_ = nowhere;
    }
    HF_HOT void put(std::uint64_t offset, std::uint64_t value) {
        if (offset != next_) {
            pieces_.emplace_back().offset = offset;
        }
        heap::data_piece& last = pieces_.back();
        last.values[last.words++] = value;
        next_ = last.words == last.values.size() ? nowhere : offset + sizeof value;
    }
    [[nodiscard]] const std::vector<heap::data_piece>& pieces() const noexcept { return pieces_; }

private:
    static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

    std::vector<heap::data_piece> pieces_;
    std::uint64_t next_ = nowhere;  ///< the word that would go on with the last piece
};

struct stored_word {
    std::uint64_t offset;
    std::uint64_t value;
    bool is_pointer = false;
    bool in_copy = false;  ///< the copy of an object that was opened later counts
};

/// Of several values of one place, the last counts.
class stored_words {
public:
    void add(const stored_word& next) {
        all_.push_back(next);
        if (!by_offset_.empty()) [[unlikely]] {
            by_offset_.emplace(next.offset, all_.size() - 1);
        }
    }
    /// Before for_each_in(). May throw std::bad_alloc.
    void make_index() {
        if (all_.size() > few && by_offset_.size() != all_.size()) {
            by_offset_.clear();
            for (std::size_t i = 0; i < all_.size(); ++i) {
                by_offset_.emplace(all_[i].offset, i);
            }
        }
    }
    /// Words of one place come in the order of their stores.
    template <class Function>
    void for_each_in(std::uint64_t begin, std::uint64_t end, Function&& each) {
        if (all_.size() <= few) {
            for (stored_word& one : all_) {
                if (one.offset >= begin && one.offset < end) {
                    each(one);
                }
            }
            return;
        }
        for (auto next = by_offset_.lower_bound(begin); next != by_offset_.end() && next->first < end; ++next) {
            each(all_[next->second]);
        }
    }
    [[nodiscard]] const stored_word* find(std::uint64_t offset) const noexcept {
        const auto found = std::find_if(all_.rbegin(), all_.rend(),
                                        [offset](const stored_word& each) { return each.offset == offset; });
        return found == all_.rend() ? nullptr : &*found;
    }
    /// Keeps the last value of each place, sorted by place.
    void keep_last() {
        const auto by_place = [](const stored_word& a, const stored_word& b) { return a.offset < b.offset; };
        by_offset_.clear();
        if (all_.size() > few) {
            std::stable_sort(all_.begin(), all_.end(), by_place);
        } else {  // stable, and without memory
            for (auto next = all_.begin(); next != all_.end(); ++next) {
                std::rotate(std::upper_bound(all_.begin(), next, *next, by_place), next, next + 1);
            }
        }
        std::size_t kept = 0;
        for (std::size_t i = 0; i < all_.size(); ++i) {
            if (i + 1 == all_.size() || all_[i + 1].offset != all_[i].offset) {
                all_[kept++] = all_[i];
            }
        }
        all_.resize(kept);
    }
    void shrink(std::size_t count) noexcept {
        all_.resize(count);
        by_offset_.clear();
    }
    HF_HOT void clear() noexcept {
        all_.clear();
        if (!by_offset_.empty()) [[unlikely]] {
            by_offset_.clear();
        }
    }
    [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
    [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
    [[nodiscard]] auto end() const noexcept { return all_.end(); }
    [[nodiscard]] auto begin() noexcept { return all_.begin(); }
    [[nodiscard]] auto end() noexcept { return all_.end(); }

private:
    /// Searched one by one.
    static constexpr std::size_t few = 16;

    std::vector<stored_word> all_;
    std::multimap<std::uint64_t, std::size_t> by_offset_;  ///< empty, or of all words, where there are more than a few
};

}  // namespace holdfast::detail
