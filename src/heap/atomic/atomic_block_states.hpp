// Who owns a block while an operation of durability `atomic` changes it: states in DRAM, bits and page entries on
// media.
//
// Invariants:
//   HEAP-18: of several operations that free one block, claim() or clear() succeeds for one; of several groups that
//            free a small block, claim_for_group().
//   HEAP-19: a freed block is `held` until it is released, so that nobody gets it before its operation is complete.
//
// Thread safety: any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "lane/lane_set.hpp"
#include "persist/domain.hpp"
#include "segment/format/heap_format.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class atomic_block_states final : public lane::block_states {
public:
    atomic_block_states(slab::block_allocator& blocks, lane::record_order order) noexcept
        : blocks_(blocks), bitmaps_follow_(lane::is_by_clock(order)) {}

    void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept override {
        blocks_.slabs().table().bits_of_line(line, bits);
    }
    void withdraw_line(
        const std::uint64_t* line,
        base::function_ref<void(std::uint64_t&, std::uint64_t, std::uint64_t)> replace) const noexcept override {
        blocks_.whole_pages().withdraw_line(line, replace);
    }
    bool set_state(std::uint64_t offset, lane::block_word block, bool allocated) noexcept override {
        if (block.kind == lane::block_kind::pages) {
            slab::held_block freed;
            freed.offset = offset;
            return !allocated && blocks_.whole_pages().clear_claimed(freed);
        }
        std::uint8_t* const found = blocks_.inspect().block_state_of(offset, block);
        if (found != nullptr) {
            // Without its freeing thread, the block stays `held` until the next open.
            std::atomic_ref(*found).store(allocated ? slab::block_state::live : slab::block_state::held,
                                          std::memory_order_release);
        }
        return found != nullptr;
    }

    /// Comes after the call has taken its time, which a locked instruction would delay: it waits for earlier
    /// non-temporal stores.
    [[nodiscard]] bool claim(const slab::held_block& found) const noexcept {
        if (!found.is_small()) [[unlikely]] {
            return found.is_by_node() ? blocks_.nodes().claim(found)
                                      : !bitmaps_follow_ || blocks_.whole_pages().claim(found);
        }
        return !bitmaps_follow_ || claim_state(found);
    }
    /// Before any record, where clear() would decide too late for a group.
    [[nodiscard]] bool claim_for_group(const slab::held_block& found) const noexcept {
        return found.is_small() ? claim_state(found) : claim(found);
    }
    /// Undoes claim_for_group().
    void unclaim(const slab::held_block& found) const noexcept {
        if (found.is_by_node()) {
            blocks_.nodes().unclaim(found);
        } else if (found.is_small()) {
            std::atomic_ref(*found.state).store(slab::block_state::live, std::memory_order_release);
        } else if (bitmaps_follow_) {
            blocks_.whole_pages().end_claim(found);
        }
    }
    template <persist::persistence_domain Domain>
    void set(Domain& domain, const slab::held_block& held) noexcept {
        if (!held.is_small()) {
            domain.store(*held.place.word, held.place.set, "heap.entry.set");
            return;
        }
        if (!bitmaps_follow_) {
            domain.fetch_or(*held.place.word, held.place.mask, "heap.bit.set");
        }
        std::atomic_ref(*held.state).store(slab::block_state::live, std::memory_order_release);
    }
    /// False: another thread was first.
    template <persist::persistence_domain Domain>
    [[nodiscard]] bool clear(Domain& domain, const slab::held_block& held) noexcept {
        if (held.is_by_node()) [[unlikely]] {
            if (!bitmaps_follow_) {
                domain.fetch_and(*held.place.word, ~held.place.mask, "heap.bit.clear");
            }
            blocks_.nodes().clear(held);
            return true;
        }
        if (!held.is_small()) {
            if (bitmaps_follow_ && blocks_.whole_pages().clear_elsewhere(held)) [[unlikely]] {
                return true;
            }
            const bool cleared = domain.replace_if(
                *held.place.word, held.place.set,
                segment::encode({segment::extent_kind::reserved, {held.block.length}, 0}), "heap.entry.clear");
            if (bitmaps_follow_) {
                blocks_.whole_pages().end_claim(held);
            }
            return cleared;
        }
        const bool cleared =
            bitmaps_follow_ ||  // claim() decided
            (domain.fetch_and(*held.place.word, ~held.place.mask, "heap.bit.clear") & held.place.mask) != 0;
        if (cleared) {
            std::atomic_ref(*held.state).store(slab::block_state::held, std::memory_order_release);
        }
        return cleared;
    }
    /// For a checkpoint to write back.
    [[nodiscard]] const void* line_of(const slab::held_block& held) const noexcept {
        if (!held.is_small() && !held.is_by_node()) {
            return line_of_entry(held.place.word);
        }
        return bitmaps_follow_ ? lane::follows_states(held.place.word) : held.place.word;
    }
    /// All lines of page entries follow shadows, or none: a checkpoint goes to a line once.
    [[nodiscard]] const void* line_of_entry(const std::uint64_t* word) const noexcept {
        return bitmaps_follow_ && blocks_.whole_pages().has_nodes() ? lane::follows_shadows(word) : word;
    }

private:
    [[nodiscard]] static bool claim_state(const slab::held_block& found) noexcept {
        std::uint8_t live = slab::block_state::live;
        return std::atomic_ref(*found.state)
            .compare_exchange_strong(live, slab::block_state::freeing, std::memory_order_acq_rel);
    }

    slab::block_allocator& blocks_;
    const bool bitmaps_follow_;  ///< checkpoints write them from the block states; else each call does
};

}  // namespace holdfast::heap
