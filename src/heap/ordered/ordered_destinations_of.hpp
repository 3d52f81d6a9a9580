// destination_operations for durability `commit` and `collect`, by the order of stores alone.
//
// Invariants, at every moment:
//   DEST-1: a destination points to an allocated block. The block is allocated before, and freed only after the
//           destination has changed and, where stores need it, was written back. A crash in between leaves a block
//           that nothing points to, which tracing frees.
//   DEST-2: a reserved block is `held`: no bitmap or page entry says that it is allocated.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "heap/operations/destination_operations.hpp"
#include "heap/operations/reservations.hpp"
#include "heap/ordered/group_blocks.hpp"
#include "persist/mutant.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/space.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// `Heap`, each member noexcept:
/// - space(), blocks();
/// - allocate(block_request) and deallocate(address), as users call them;
/// - changes(): the gate of changes; null where a commit drops no page;
/// - keep(held_block): marks it allocated, durably if media must know it before anything points to it;
/// - store(word, value), copy(to, from, bytes), zero(to, bytes, site), persist(begin, bytes, site): access to user
///   memory. The zeros are persisted.
template <class Heap>
class ordered_destinations final : public destination_operations, public group_operations {
public:
    explicit ordered_destinations(Heap heap) noexcept : heap_(std::move(heap)) {}

    void* allocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        const slab::change_call call(heap_.changes());
        if (!is_destination(destination)) {
            return nullptr;
        }
        void* const block = allocate(wanted);
        if (block != nullptr) {
            point(destination, block);
        }
        return block;
    }

    operation_result free_from(std::uint64_t& destination) noexcept override {
        const slab::change_call call(heap_.changes());
        if (!is_destination(destination)) {
            return operation_result::failed;
        }
        const std::uint64_t word = load_word(destination);
        if (segment::is_null_pointer(word)) {
            return operation_result::nothing_to_do;
        }
        slab::held_block found;
        void* const old = target_of(destination, word);
        if (!heap_.blocks().find_allocated(old, found)) {
            return operation_result::failed;
        }
        return replace(destination, word, nullptr, old) ? operation_result::done : operation_result::failed;
    }

    void* reallocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        const slab::change_call call(heap_.changes());
        if (!is_destination(destination)) {
            return nullptr;
        }
        const std::uint64_t word = load_word(destination);
        if (segment::is_null_pointer(word)) {
            return allocate_to(destination, wanted);
        }
        slab::held_block found;
        void* const old = target_of(destination, word);
        if (!heap_.blocks().find_allocated(old, found)) {
            return nullptr;
        }
        if (can_stay(found, old, wanted)) {
            heap_.persist(old, wanted.bytes, "heap.destination.content_in_place");
            return old;
        }
        block_request typed = wanted;
        typed.type = wanted.type != 0 ? wanted.type : found.block.type;
        typed.bytes = bytes_with_room(found.bytes(), wanted.bytes);
        void* block = allocate(typed);
        if (block == nullptr) {
            typed.bytes = wanted.bytes;
            block = allocate(typed);
        }
        if (block == nullptr) {
            return nullptr;
        }
        const std::uint64_t kept = std::min(found.bytes(), wanted.bytes);
        heap_.copy(block, old, kept);
        heap_.persist(block, kept, "heap.destination.content");
        if (!replace(destination, word, block, old)) {
            static_cast<void>(heap_.deallocate(block));
            heap_.blocks().inspect().leave_refusal(old);
            return nullptr;
        }
        return block;
    }

    bool hold(const block_request& wanted, slab::held_block& held) noexcept override {
        slab::block_allocator& blocks = heap_.blocks();
        if (is_abandoned() ||
            !(wanted.type == 0 ? blocks.hold(blocks.this_cache(), wanted.bytes, wanted.alignment, held)
                               : blocks.hold_typed(wanted.bytes, wanted.alignment, wanted.type, held))) {
            return false;
        }
        zero_if(wanted, heap_.space().address({held.offset}), held.bytes());
        return true;
    }
    void release(const slab::held_block& held) noexcept override {
        if (!abandoned_.load(std::memory_order_relaxed)) [[likely]] {
            heap_.blocks().release(heap_.blocks().this_cache(), held);
        }
    }

    void* reserve(const block_request& wanted) noexcept override {
        const slab::change_call call(heap_.changes());
        slab::held_block held;
        if (!hold(wanted, held)) {
            return nullptr;
        }
        if (!reservations_.add(held)) {
            release(held);
            base::failure what;
            what.code = base::failure_code::out_of_memory;
            heap_.blocks().leave(std::move(what));
            return nullptr;
        }
        return heap_.space().address({held.offset});
    }

    bool publish(std::uint64_t& destination, void* reserved) noexcept override {
        const slab::change_call call(heap_.changes());
        if (!is_destination(destination)) {
            return false;
        }
        const auto held = take_reservation(reserved);
        if (held) {
            heap_.keep(*held);
            point(destination, reserved);
        }
        return held.has_value();
    }

    bool cancel(void* reserved) noexcept override {
        const slab::change_call call(heap_.changes());
        const auto held = take_reservation(reserved);
        if (held) {
            heap_.blocks().release(heap_.blocks().this_cache(), *held);
        }
        return held.has_value();
    }

    std::size_t allocate_batch(std::span<std::uint64_t* const> destinations,
                               const block_request& wanted) noexcept override {
        std::size_t done = 0;
        while (done < destinations.size() && allocate_to(*destinations[done], wanted) != nullptr) {
            ++done;
        }
        return done;
    }
    std::size_t free_batch(std::span<std::uint64_t* const> destinations) noexcept override {
        std::size_t done = 0;
        while (done < destinations.size() && free_from(*destinations[done]) != operation_result::failed) {
            ++done;
        }
        return done;
    }

    group_operations& groups() noexcept override { return *this; }
    bool commit(const group_request& changes) noexcept override {
        const slab::change_call call(heap_.changes());
        group_blocks blocks;
        if (is_abandoned() || !blocks.gather(changes.freed, heap_.blocks(), &claims_)) {
            return false;
        }
        for (const slab::held_block& each : changes.made) {
            heap_.keep(each);
        }
        for (const data_piece& piece : changes.data) {
            auto* const words = reinterpret_cast<std::uint64_t*>(heap_.space().address({piece.offset}));
            for (std::uint64_t i = 0; i < piece.words; ++i) {
                persist::tell_media(persist::media_step::store, &words[i], sizeof words[i]);
                heap_.store(words[i], piece.values[i]);
            }
        }
        for (void* const each : changes.freed) {
            static_cast<void>(heap_.deallocate(each));
        }
        return true;
    }
    /// No record is written.
    std::uint64_t largest() const noexcept override { return ~std::uint64_t{0}; }

    slab::change_gate* changes() noexcept override { return heap_.changes(); }

    std::vector<std::uint64_t> reserved() override {
        std::vector<std::uint64_t> offsets = reservations_.small_offsets();
        list_small(offsets);
        return offsets;
    }
    void cancel_all() noexcept override {
        slab::block_allocator& blocks = heap_.blocks();
        while (const auto held = reservations_.remove_one()) {
            blocks.release(blocks.this_cache(), *held);
        }
        release_all([&blocks](const slab::held_block& each) { blocks.release(blocks.this_cache(), each); });
    }
    void abandon() noexcept override { abandoned_.store(true, std::memory_order_release); }

private:
    [[nodiscard]] bool is_abandoned() noexcept {
        if (!abandoned_.load(std::memory_order_relaxed)) [[likely]] {
            return false;
        }
        heap_.blocks().leave(refused_child());
        return true;
    }
    [[nodiscard]] bool is_destination(const std::uint64_t& word) noexcept {
        const std::uint64_t offset = heap_.space().offset(&word).value;
        const std::uint64_t end = heap_.blocks().end_offset();
        if (is_abandoned()) {
            return false;
        }
        if (offset < end && offset % sizeof word == 0) [[likely]] {
            return true;
        }
        heap_.blocks().leave(refused_destination(word, offset, end));
        return false;
    }
    [[nodiscard]] std::optional<slab::held_block> take_reservation(void* reserved) noexcept {
        if (is_abandoned()) {
            return std::nullopt;
        }
        auto held = reservations_.remove(heap_.space().offset(reserved).value);
        if (!held) {
            heap_.blocks().leave(refused_reservation(reserved));
        }
        return held;
    }
    void zero_if(const block_request& wanted, void* block, std::uint64_t usable) noexcept {
        if (wanted.zeroed) {
            heap_.zero(block, usable, "heap.destination.zeros");
        }
    }
    [[nodiscard]] void* allocate(const block_request& wanted) noexcept {
        void* const block = heap_.allocate(wanted);
        // All usable bytes: reallocate_to() keeps them, so the program finds them later.
        if (slab::held_block made; block != nullptr && wanted.zeroed && heap_.blocks().find_allocated(block, made)) {
            zero_if(wanted, block, made.bytes());
        }
        return block;
    }
    void point(std::uint64_t& destination, const void* block) noexcept {
        const std::uint16_t stamp = segment::stamp_of(load_word(destination));
        heap_.store(destination, block == nullptr
                                     ? segment::null_pointer(stamp)
                                     : segment::encode_pointer(reinterpret_cast<std::uintptr_t>(&destination),
                                                               reinterpret_cast<std::uintptr_t>(block), stamp));
    }
    /// Points the destination, which holds `word`, to `block` or null, then frees `old` (DEST-1). Restores the
    /// destination if another thread was first.
    [[nodiscard]] bool replace(std::uint64_t& destination, std::uint64_t word, const void* block, void* old) noexcept {
        point(destination, block);
        heap_.persist(&destination, sizeof destination, "heap.destination.changed");
        const bool freed = heap_.deallocate(old);
        if (!freed) {
            heap_.store(destination, word);
            heap_.persist(&destination, sizeof destination, "heap.destination.restored");
        }
        return freed;
    }

    Heap heap_;
    reservations reservations_;
    block_claims claims_;  ///< of groups; other calls are exact or not as their durability is
    std::atomic<bool> abandoned_{false};
};

}  // namespace holdfast::heap
