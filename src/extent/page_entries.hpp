// A word for each page, on media (segment_format.hpp): the truth about the extent that starts there. After a crash only
// used extents, slabs and the roots count; all space between them is free, whatever its entries say. Invariants: EXT-1
// to EXT-6.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/extent_invariants.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

using extent_visitor = base::function_ref<void(const extent&)>;

/// Thread safety: each entry is an atomic word.
class page_entries {
public:
    explicit page_entries(const segment::space_view& space) noexcept : space_(space) {}

    [[nodiscard]] const segment::space_view& space() const noexcept { return space_; }
    [[nodiscard]] base::pages reserved() const noexcept { return base::page_of({space_.reservation()}); }

    [[nodiscard]] std::uint64_t load(base::pages page) const noexcept {
        return std::atomic_ref<std::uint64_t>(space_.page_entry_word(page)).load(std::memory_order_acquire);
    }
    [[nodiscard]] extent extent_at(base::pages start) const noexcept {
        const segment::page_entry entry = segment::decode_page_entry(load(start));
        return {start, entry.length, entry.kind, entry.type};
    }
    void store(base::pages page, segment::page_entry entry) const noexcept {
        std::atomic_ref<std::uint64_t>(space_.page_entry_word(page))
            .store(segment::encode(entry), std::memory_order_release);
    }
    [[nodiscard]] bool replace(base::pages page, std::uint64_t expected, segment::page_entry entry) const noexcept {
        return std::atomic_ref<std::uint64_t>(space_.page_entry_word(page))
            .compare_exchange_strong(expected, segment::encode(entry), std::memory_order_acq_rel);
    }
    /// An entry that has the word already is not written.
    void put(base::pages page, std::uint64_t word) const noexcept {
        if (load(page) != word) {
            std::atomic_ref<std::uint64_t>(space_.page_entry_word(page)).store(word, std::memory_order_release);
        }
    }
    [[nodiscard]] bool is_reserved(base::pages start, base::pages length) const noexcept {
        return load(start) == segment::encode({segment::extent_kind::reserved, length});
    }

    /// `corrupt` where the frontier is 0 or lies beyond the reservation.
    [[nodiscard]] base::result<void> check_frontier(base::pages frontier) const;
    /// Calls `each` in order of address. `corrupt` where EXT-1 to EXT-5 do not hold.
    template <class Each>
    [[nodiscard]] base::result<void> walk(base::pages frontier, Each each) const;
    /// Calls `block` for every extent that counts after a crash and starts in [begin, end), and `gap` for the rest. If
    /// `begin` lies within an extent, so does the start of the first gap.
    template <class Block, class Gap>
    [[nodiscard]] base::result<void> walk_blocks(base::pages begin, base::pages end, base::pages frontier, Block block,
                                                 Gap gap) const;
    /// Entries that are right already are not written: their pages stay clean.
    void write_gap(base::pages start, base::pages length) const noexcept;

    /// Calls `each` for used extents, slabs and the roots, in order of address. No other thread may write entries
    /// meanwhile. Fails as extent_allocator::open() does.
    [[nodiscard]] base::result<void> read_blocks(base::pages frontier, extent_visitor each) const;
    /// Does what extent_allocator::recover() does to the page entries.
    [[nodiscard]] base::result<void> rebuild(base::pages frontier) const;

private:
    [[nodiscard]] base::pages next_block(base::pages from, base::pages end) const noexcept;

    segment::space_view space_;
};

}  // namespace holdfast::extent
