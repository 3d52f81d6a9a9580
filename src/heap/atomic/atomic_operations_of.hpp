// Checks what a call with a destination was given, holds or finds its blocks, and lets atomic_protocol do the rest.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "heap/atomic/atomic_blocks.hpp"
#include "heap/atomic/atomic_core.hpp"
#include "heap/atomic/atomic_groups.hpp"
#include "heap/atomic/atomic_operations.hpp"
#include "heap/atomic/atomic_protocol.hpp"
#include "heap/operations/destination_operations.hpp"
#include "heap/operations/reservations.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::heap {

template <persist::persistence_domain Domain>
class atomic_operations_of final : public atomic_operations {
public:
    atomic_operations_of(Domain domain, segment::space_view space, segment::lane_area& area,
                         slab::block_allocator& blocks, const lane::lane_options& options,
                         const segment::zero_pages& zeros = {})
        : core_(std::move(domain), space, area, blocks, options, zeros) {}

    base::result<void> open() { return core_.open(); }
    block_operations& on_blocks() noexcept override { return on_blocks_; }
    group_operations& groups() noexcept override { return groups_; }

    void* allocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        slab::held_block held;
        slab::thread_cache* const cache = core_.blocks().this_cache();
        if (!core_.is_destination(destination) || !core_.hold(cache, wanted, held)) [[unlikely]] {
            return nullptr;
        }
        if (!core_.protocol().publish(cache, destination, held, nullptr)) [[unlikely]] {
            static_cast<void>(core_.refuse_poisoned());
            return nullptr;
        }
        return core_.space().address({held.offset});
    }

    operation_result free_from(std::uint64_t& destination) noexcept override {
        if (!core_.is_destination(destination)) [[unlikely]] {
            return operation_result::failed;
        }
        const std::uint64_t word = load_word(destination);
        if (segment::is_null_pointer(word)) {
            return operation_result::nothing_to_do;
        }
        slab::held_block found;
        if (!core_.blocks().find_allocated(target_of(destination, word), found)) [[unlikely]] {
            return operation_result::failed;
        }
        slab::thread_cache* const cache = core_.blocks().this_cache();
        return core_.finish_free(cache, found, core_.protocol().free(cache, &destination, found))
                   ? operation_result::done
                   : operation_result::failed;
    }

    void* reallocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        if (!core_.is_destination(destination)) {
            return nullptr;
        }
        const std::uint64_t word = load_word(destination);
        if (segment::is_null_pointer(word)) {
            return allocate_to(destination, wanted);
        }
        slab::held_block old;
        slab::held_block held;
        slab::thread_cache* const cache = core_.blocks().this_cache();
        const void* const source = target_of(destination, word);
        if (!core_.blocks().find_allocated(source, old)) {
            return nullptr;
        }
        if (can_stay(old, source, wanted)) {
            core_.lanes().domain().flush(source, wanted.bytes, "heap.reallocate.flush_in_place");
            core_.lanes().domain().fence("heap.reallocate.fence_in_place");
            return core_.lanes().is_healthy() || !core_.refuse_poisoned() ? core_.space().address({old.offset})
                                                                          : nullptr;
        }
        block_request typed = wanted;
        typed.type = wanted.type != 0 ? wanted.type : old.block.type;
        typed.bytes = bytes_with_room(old.bytes(), wanted.bytes);
        if (!core_.hold(cache, typed, held)) {
            typed.bytes = wanted.bytes;
            if (!core_.hold(cache, typed, held)) {
                return nullptr;
            }
        }
        void* const target = core_.space().address({held.offset});
        const std::uint64_t kept = std::min(old.bytes(), std::min(held.bytes(), wanted.bytes));
        core_.lanes().domain().copy(target, source, kept, "heap.reallocate.copy");
        core_.lanes().domain().flush(target, kept, "heap.reallocate.flush");
        core_.lanes().domain().fence("heap.reallocate.fence");
        if (!core_.protocol().publish(cache, destination, held, &old)) {
            if (core_.refuse_poisoned()) {
                return nullptr;
            }
            core_.blocks().release(cache, held);
            core_.blocks().inspect().leave_refusal(source);
            return nullptr;
        }
        core_.blocks().release(cache, old);
        return target;
    }

    void* allocate(const block_request& wanted) noexcept override { return core_.allocate(wanted); }

    void* reserve(const block_request& wanted) noexcept override {
        slab::held_block held;
        slab::thread_cache* const cache = core_.blocks().this_cache();
        if (core_.is_abandoned() || !core_.hold(cache, wanted, held)) {
            return nullptr;
        }
        if (!reservations_.add(held)) {
            core_.blocks().release(cache, held);
            base::failure what;
            what.code = base::failure_code::out_of_memory;
            core_.blocks().leave(std::move(what));
            return nullptr;
        }
        return core_.space().address({held.offset});
    }

    bool publish(std::uint64_t& destination, void* reserved) noexcept override {
        if (!core_.is_destination(destination)) {
            return false;
        }
        const auto held = take_reservation(reserved);
        if (held && core_.protocol().publish(core_.blocks().this_cache(), destination, *held, nullptr)) {
            return true;
        }
        static_cast<void>(core_.refuse_poisoned());
        return false;
    }

    bool keep(void* reserved) noexcept override {
        const auto held = take_reservation(reserved);
        if (held && core_.protocol().keep(core_.blocks().this_cache(), *held)) {
            return true;
        }
        static_cast<void>(core_.refuse_poisoned());
        return false;
    }
    bool withdraw(void* block) noexcept override {
        slab::held_block found;
        if (core_.is_abandoned() || !core_.blocks().find_allocated(block, found)) {
            return false;
        }
        if (!core_.protocol().free(core_.blocks().this_cache(), nullptr, found)) {
            if (!core_.refuse_poisoned()) {
                core_.blocks().inspect().leave_refusal(block);
            }
            return false;
        }
        if (found.is_by_node()) {
            core_.blocks().nodes().hold(found);
        }
        // Without memory to remember it, the block is lost until the next open.
        static_cast<void>(reservations_.add(found));
        return true;
    }

    bool cancel(void* reserved) noexcept override {
        const auto held = take_reservation(reserved);
        if (held) {
            core_.blocks().release(core_.blocks().this_cache(), *held);
        }
        return held.has_value();
    }

    std::size_t allocate_batch(std::span<std::uint64_t* const> destinations,
                               const block_request& wanted) noexcept override;
    std::size_t free_batch(std::span<std::uint64_t* const> destinations) noexcept override;

    void checkpoint() noexcept override { core_.lanes().checkpoint(); }
    bool wait_until_obsolete() noexcept override { return core_.lanes().wait_until_obsolete(); }
    std::vector<std::uint64_t> reserved() override {
        std::vector<std::uint64_t> offsets = reservations_.small_offsets();
        groups_.list_small(offsets);
        return offsets;
    }
    void cancel_all() noexcept override {
        while (const auto held = reservations_.remove_one()) {
            core_.blocks().release(core_.blocks().this_cache(), *held);
        }
        groups_.release_all(
            [this](const slab::held_block& each) { core_.blocks().release(core_.blocks().this_cache(), each); });
    }
    void abandon() noexcept override { core_.abandon(); }
    const lane::lane_pool& lanes() const noexcept override { return core_.lanes(); }
    [[nodiscard]] lane::lane_set<Domain>& lane_set() noexcept { return core_.lanes(); }

private:
    static constexpr std::size_t batch_size = atomic_protocol<Domain>::batch_size;

    [[nodiscard]] std::optional<slab::held_block> take_reservation(void* reserved) noexcept;

    atomic_core<Domain> core_;
    atomic_blocks<Domain> on_blocks_{core_};
    atomic_groups<Domain> groups_{core_};
    reservations reservations_;
};

template <persist::persistence_domain Domain>
std::optional<slab::held_block> atomic_operations_of<Domain>::take_reservation(void* reserved) noexcept {
    if (core_.is_abandoned()) {
        return std::nullopt;
    }
    auto held = reservations_.remove(core_.space().offset(reserved).value);
    if (!held) {
        core_.blocks().leave(refused_reservation(reserved));
    }
    return held;
}

template <persist::persistence_domain Domain>
std::size_t atomic_operations_of<Domain>::allocate_batch(std::span<std::uint64_t* const> destinations,
                                                         const block_request& wanted) noexcept {
    std::size_t done = 0;
    while (done < destinations.size()) {
        std::array<slab::held_block, batch_size> held;
        const std::size_t some = std::min<std::size_t>(
            {batch_size, destinations.size() - done, static_cast<std::size_t>(core_.lanes().largest_batch())});
        std::size_t ready = 0;
        slab::thread_cache* const cache = core_.blocks().this_cache();
        while (ready < some && core_.is_destination(*destinations[done + ready]) &&
               core_.hold(cache, wanted, held[ready])) {
            ++ready;
        }
        if (ready != 0 &&
            !core_.protocol().publish_batch(cache, destinations.subspan(done, ready), std::span(held).first(ready))) {
            static_cast<void>(core_.refuse_poisoned());
            break;
        }
        done += ready;
        if (ready < some) {
            break;
        }
    }
    return done;
}

template <persist::persistence_domain Domain>
std::size_t atomic_operations_of<Domain>::free_batch(std::span<std::uint64_t* const> destinations) noexcept {
    std::size_t done = 0;
    while (done < destinations.size()) {
        std::array<slab::held_block, batch_size> found;
        std::array<bool, batch_size> freed{};
        std::array<bool, batch_size> null;
        const std::size_t some = std::min<std::size_t>(
            {batch_size, destinations.size() - done, static_cast<std::size_t>(core_.lanes().largest_batch())});
        std::size_t ready = 0;
        for (; ready < some && core_.is_destination(*destinations[done + ready]); ++ready) {
            const std::uint64_t word = load_word(*destinations[done + ready]);
            null[ready] = segment::is_null_pointer(word);
            if (!null[ready] &&
                !core_.blocks().find_allocated(target_of(*destinations[done + ready], word), found[ready])) {
                break;
            }
        }
        slab::thread_cache* const cache = core_.blocks().this_cache();
        if (ready != 0) {
            core_.protocol().free_batch(cache, destinations.subspan(done, ready), std::span(found).first(ready),
                                        std::span(null).first(ready), std::span(freed).first(ready));
        }
        bool all = ready == some;
        for (std::size_t i = 0; i < ready; ++i) {
            all = (null[i] || core_.finish_free(cache, found[i], freed[i])) && all;
        }
        done += ready;
        if (!all) {
            break;
        }
    }
    return done;
}

}  // namespace holdfast::heap
