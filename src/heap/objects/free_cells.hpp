// The free cells of the objects file: coalesced runs in DRAM, best fit. Taking needs no memory, and giving back a place
// that may be made before: a change of the directory can do all that may fail before its first store.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace holdfast::heap {

class free_cells {
public:
    using cell = std::uint64_t;
    /// Memory for one run.
    class place {
        friend class free_cells;
        std::map<cell, std::uint64_t>::node_type by_position_;
        std::set<std::pair<std::uint64_t, cell>>::node_type by_length_;
    };

    /// May throw std::bad_alloc.
    [[nodiscard]] static place make_place() {
        std::map<cell, std::uint64_t> position{{0, 0}};
        std::set<std::pair<std::uint64_t, cell>> length{{0, 0}};
        place made;
        made.by_position_ = position.extract(position.begin());
        made.by_length_ = length.extract(length.begin());
        return made;
    }
    void clear() noexcept {
        runs_.clear();
        by_length_.clear();
    }
    /// Position and length in cells.
    [[nodiscard]] const std::map<cell, std::uint64_t>& runs() const noexcept { return runs_; }

    /// `position` where that is not free.
    [[nodiscard]] cell end_of_free(cell position) const noexcept {
        const auto after = runs_.upper_bound(position);
        if (after == runs_.begin()) {
            return position;
        }
        const auto run = std::prev(after);
        return std::max(position, run->first + run->second);
    }
    /// The largest number where none follows.
    [[nodiscard]] cell next_from(cell position) const noexcept {
        const auto next = runs_.upper_bound(position);
        return next == runs_.end() ? ~cell{0} : next->first;
    }

    /// The cells are not free. May throw std::bad_alloc before it changes anything.
    void add(cell position, std::uint64_t cells) { add(position, cells, make_place()); }
    void add(cell position, std::uint64_t cells, place where) noexcept {
        if (cells == 0) {
            return;
        }
        // Runs never cross groups: checksum pages lie between.
        const auto next = runs_.lower_bound(position);
        if (next != runs_.end() && position + cells == next->first) {
            cells += next->second;
            static_cast<void>(remove(next));
        }
        const auto after = runs_.lower_bound(position);
        if (after != runs_.begin()) {
            const auto before = std::prev(after);
            if (before->first + before->second == position) {
                position = before->first;
                cells += before->second;
                static_cast<void>(remove(before));
            }
        }
        insert(position, cells, std::move(where));
    }
    /// From the shortest run that has as many.
    [[nodiscard]] std::optional<cell> take(std::uint64_t cells) noexcept {
        const auto best = by_length_.lower_bound({cells, 0});
        if (best == by_length_.end()) {
            return std::nullopt;
        }
        const auto [length, position] = *best;
        place freed = remove(runs_.find(position));
        if (length != cells) {
            insert(position + cells, length - cells, std::move(freed));
        }
        return position;
    }

private:
    [[nodiscard]] place remove(std::map<cell, std::uint64_t>::iterator run) noexcept {
        place freed;
        freed.by_length_ = by_length_.extract({run->second, run->first});
        freed.by_position_ = runs_.extract(run);
        return freed;
    }
    void insert(cell position, std::uint64_t cells, place where) noexcept {
        where.by_position_.key() = position;
        where.by_position_.mapped() = cells;
        where.by_length_.value() = {cells, position};
        runs_.insert(std::move(where.by_position_));
        by_length_.insert(std::move(where.by_length_));
    }

    std::map<cell, std::uint64_t> runs_;
    std::set<std::pair<std::uint64_t, cell>> by_length_;
};

}  // namespace holdfast::heap
