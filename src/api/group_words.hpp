// The words that a transaction stores: as the program stored them, and as a group has them.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hot.hpp"
#include "heap/destination_operations.hpp"

namespace holdfast::detail {

/// The words of a group, in pieces. Words that lie one behind the other become one piece, as long as it has room.
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
};

/// Single words. Of several values of one place, the last one counts.
class stored_words {
public:
    void add(std::uint64_t offset, std::uint64_t value) { all_.push_back({offset, value}); }
    /// Null where nothing was stored there.
    [[nodiscard]] const stored_word* find(std::uint64_t offset) const noexcept {
        const auto found = std::find_if(all_.rbegin(), all_.rend(),
                                        [offset](const stored_word& each) { return each.offset == offset; });
        return found == all_.rend() ? nullptr : &*found;
    }
    /// Keeps the last value of each place, sorted by place.
    void settle() {
        const auto by_place = [](const stored_word& a, const stored_word& b) { return a.offset < b.offset; };
        constexpr std::size_t few = 16;
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
    void shrink(std::size_t count) noexcept { all_.resize(count); }
    HF_HOT void clear() noexcept { all_.clear(); }
    [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
    [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
    [[nodiscard]] auto end() const noexcept { return all_.end(); }

private:
    std::vector<stored_word> all_;
};

}  // namespace holdfast::detail
