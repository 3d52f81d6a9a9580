// Checks what a call was given, holds or finds its blocks, and lets atomic_protocol do the rest.
//
// Invariants:
//   HEAP-3: a freed block goes back to the allocator after complete().
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/hot.hpp"
#include "heap/atomic/atomic_operations.hpp"
#include "heap/atomic/atomic_protocol.hpp"
#include "heap/ordered/destination_word.hpp"
#include "heap/ordered/group_blocks.hpp"
#include "heap/reallocate.hpp"
#include "heap/reservations.hpp"
#include "persist/mutant.hpp"
#include "segment/format/pointer_format.hpp"

namespace holdfast::heap {

template <persist::persistence_domain Domain>
class atomic_operations_of final : public atomic_operations {
public:
    atomic_operations_of(Domain domain, segment::space_view space, segment::lane_area& area,
                         slab::block_allocator& blocks, const lane::lane_options& options,
                         const segment::zero_pages& zeros = {})
        : space_(space), blocks_(blocks), zeros_(zeros), protocol_(std::move(domain), space, area, blocks, options) {}
    ~atomic_operations_of() override { blocks_.forget_log(); }

    base::result<void> open() {
        HF_TRY(lane_set().open());
        blocks_.use_log(&protocol_, &lane_set());
        return {};
    }

    void* allocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        slab::held_block held;
        slab::thread_cache* const cache = blocks_.this_cache();
        if (!is_destination(destination) || !hold(cache, wanted, held)) [[unlikely]] {
            return nullptr;
        }
        if (!protocol_.publish(cache, destination, held, nullptr)) [[unlikely]] {
            static_cast<void>(refuse_poisoned());
            return nullptr;
        }
        return space_.address({held.offset});
    }

    operation_result free_from(std::uint64_t& destination) noexcept override {
        if (!is_destination(destination)) [[unlikely]] {
            return operation_result::failed;
        }
        const std::uint64_t word = load_word(destination);
        if (segment::is_null_pointer(word)) {
            return operation_result::nothing_to_do;
        }
        slab::held_block found;
        if (!blocks_.find_allocated(target_of(destination, word), found)) [[unlikely]] {
            return operation_result::failed;
        }
        slab::thread_cache* const cache = blocks_.this_cache();
        return finish_free(cache, found, protocol_.free(cache, &destination, found)) ? operation_result::done
                                                                                     : operation_result::failed;
    }

    void* reallocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        if (!is_destination(destination)) {
            return nullptr;
        }
        const std::uint64_t word = load_word(destination);
        if (segment::is_null_pointer(word)) {
            return allocate_to(destination, wanted);
        }
        slab::held_block old;
        slab::held_block held;
        slab::thread_cache* const cache = blocks_.this_cache();
        const void* const source = target_of(destination, word);
        if (!blocks_.find_allocated(source, old)) {
            return nullptr;
        }
        if (can_stay(old, source, wanted)) {
            lane_set().domain().flush(source, wanted.bytes, "heap.reallocate.flush_in_place");
            lane_set().domain().fence("heap.reallocate.fence_in_place");
            return lane_set().is_healthy() || !refuse_poisoned() ? space_.address({old.offset}) : nullptr;
        }
        block_request typed = wanted;
        typed.type = wanted.type != 0 ? wanted.type : old.block.type;
        typed.bytes = bytes_with_room(old.bytes(), wanted.bytes);
        if (!hold(cache, typed, held)) {
            typed.bytes = wanted.bytes;
            if (!hold(cache, typed, held)) {
                return nullptr;
            }
        }
        void* const target = space_.address({held.offset});
        const std::uint64_t kept = std::min(old.bytes(), std::min(held.bytes(), wanted.bytes));
        lane_set().domain().copy(target, source, kept, "heap.reallocate.copy");
        lane_set().domain().flush(target, kept, "heap.reallocate.flush");
        lane_set().domain().fence("heap.reallocate.fence");
        if (!protocol_.publish(cache, destination, held, &old)) {
            if (refuse_poisoned()) {
                return nullptr;
            }
            blocks_.release(cache, held);
            blocks_.inspect().leave_refusal(source);
            return nullptr;
        }
        blocks_.release(cache, old);
        return target;
    }

    void* allocate(const block_request& wanted) noexcept override {
        slab::held_block held;
        slab::thread_cache* const cache = blocks_.this_cache();
        if (is_abandoned() || !hold(cache, wanted, held)) [[unlikely]] {
            return nullptr;
        }
        if (!protocol_.keep(cache, held)) [[unlikely]] {
            static_cast<void>(refuse_poisoned());
            return nullptr;
        }
        return space_.address({held.offset});
    }

    bool deallocate(void* block) noexcept override {
        slab::held_block found;
        if (is_abandoned() || !blocks_.find_allocated(block, found)) [[unlikely]] {
            return false;
        }
        slab::thread_cache* const cache = blocks_.this_cache();
        return finish_free(cache, found, protocol_.free(cache, nullptr, found));
    }

    void* reserve(const block_request& wanted) noexcept override {
        slab::held_block held;
        slab::thread_cache* const cache = blocks_.this_cache();
        if (is_abandoned() || !hold(cache, wanted, held)) {
            return nullptr;
        }
        if (!reservations_.add(held)) {
            blocks_.release(cache, held);
            base::failure what;
            what.code = base::failure_code::out_of_memory;
            blocks_.leave(std::move(what));
            return nullptr;
        }
        return space_.address({held.offset});
    }

    bool publish(std::uint64_t& destination, void* reserved) noexcept override {
        if (!is_destination(destination)) {
            return false;
        }
        const auto held = take_reservation(reserved);
        if (held && protocol_.publish(blocks_.this_cache(), destination, *held, nullptr)) {
            return true;
        }
        static_cast<void>(refuse_poisoned());
        return false;
    }

    bool keep(void* reserved) noexcept override {
        const auto held = take_reservation(reserved);
        if (held && protocol_.keep(blocks_.this_cache(), *held)) {
            return true;
        }
        static_cast<void>(refuse_poisoned());
        return false;
    }
    void keep(const slab::held_block& held) noexcept override {
        if (!protocol_.keep(blocks_.this_cache(), held)) {
            static_cast<void>(refuse_poisoned());
        }
    }

    bool withdraw(void* block) noexcept override {
        slab::held_block found;
        if (is_abandoned() || !blocks_.find_allocated(block, found)) {
            return false;
        }
        if (!protocol_.free(blocks_.this_cache(), nullptr, found)) {
            if (!refuse_poisoned()) {
                blocks_.inspect().leave_refusal(block);
            }
            return false;
        }
        if (found.is_by_node()) {
            blocks_.nodes().hold(found);
        }
        // Without memory to remember it, the block is lost until the next open.
        static_cast<void>(reservations_.add(found));
        return true;
    }

    bool cancel(void* reserved) noexcept override {
        const auto held = take_reservation(reserved);
        if (held) {
            blocks_.release(blocks_.this_cache(), *held);
        }
        return held.has_value();
    }

    std::size_t allocate_batch(std::span<std::uint64_t* const> destinations,
                               const block_request& wanted) noexcept override;
    std::size_t free_batch(std::span<std::uint64_t* const> destinations) noexcept override;

    bool hold(const block_request& wanted, slab::held_block& held) noexcept override {
        return !is_abandoned() && hold(blocks_.this_cache(), wanted, held);
    }
    void release(const slab::held_block& held) noexcept override {
        if (!abandoned_.load(std::memory_order_relaxed)) [[likely]] {
            blocks_.release(blocks_.this_cache(), held);
        }
    }
    bool commit_group(const group_request& changes) noexcept override;
    std::uint64_t largest_group() const noexcept override { return protocol_.largest_group(); }

    void flush(const void* begin, std::uint64_t bytes) noexcept override {
        lane_set().domain().flush(begin, bytes, "heap.user.flush");
    }
    void drain() noexcept override {
        lane_set().domain().fence("heap.user.fence");
        static_cast<void>(lane_set().is_healthy());
    }

    void write_back() noexcept override {
        lane_set().checkpoint();
        blocks_.slabs().write_bitmaps();
    }
    void checkpoint() noexcept override { lane_set().checkpoint(); }
    bool settle() noexcept override { return lane_set().settle(); }
    std::vector<std::uint64_t> reserved() override {
        std::vector<std::uint64_t> offsets = reservations_.small_offsets();
        held_lists_.list_small(offsets);
        return offsets;
    }
    void cancel_all() noexcept override {
        while (const auto held = reservations_.remove_one()) {
            blocks_.release(blocks_.this_cache(), *held);
        }
        held_lists_.release_all([this](const slab::held_block& each) { blocks_.release(blocks_.this_cache(), each); });
    }
    void abandon() noexcept override {
        abandoned_.store(true, std::memory_order_release);
        blocks_.abandon();
    }
    const lane::lane_pool& lanes() const noexcept override { return protocol_.lanes(); }
    [[nodiscard]] lane::lane_set<Domain>& lane_set() noexcept { return protocol_.lanes(); }

private:
    static constexpr std::size_t batch_size = atomic_protocol<Domain>::batch_size;

    [[nodiscard]] bool commit_blocks(slab::thread_cache* cache, const group_request& changes) noexcept;
    [[nodiscard]] bool commit_with_payload(slab::thread_cache* cache, const group_changes& changes) noexcept;
    [[nodiscard]] bool is_abandoned() noexcept;
    /// After a failed call: whether a sync has failed.
    [[nodiscard]] bool refuse_poisoned() noexcept;
    HF_HOT bool is_destination(const std::uint64_t& word) noexcept {
        const std::uint64_t offset = space_.offset(&word).value;
        if (offset < blocks_.end_offset() && offset % sizeof word == 0 && !abandoned_.load(std::memory_order_relaxed) &&
            holder_is_allocated(offset)) [[likely]] {
            return true;
        }
        refuse_destination(word);
        return false;
    }
    [[nodiscard]] bool holder_is_allocated([[maybe_unused]] std::uint64_t offset) noexcept {
#if HOLDFAST_CHECKED
        return offset < base::granule_size || blocks_.inspect().is_within_allocated({offset});
#else
        return true;
#endif
    }
    void refuse_destination(const std::uint64_t& word) noexcept;
    [[nodiscard]] std::optional<slab::held_block> take_reservation(void* reserved) noexcept;
    HF_HOT bool hold(slab::thread_cache* cache, const block_request& wanted, slab::held_block& held) noexcept {
        const bool got = wanted.type == 0 ? blocks_.hold(cache, wanted.bytes, wanted.alignment, held)
                                          : blocks_.hold_typed(wanted.bytes, wanted.alignment, wanted.type, held);
        if (!got) [[unlikely]] {
            return false;
        }
        if (wanted.zeroed) [[unlikely]] {
            Domain& domain = lane_set().domain();
            zeros_.for_each_other(space_.address({held.offset}), held.bytes(),
                                  [&domain](std::byte* at, std::uint64_t bytes) {
                                      domain.fill_zero(at, bytes, "heap.zero");
                                      domain.flush(at, bytes, "heap.zero.flush");
                                  });
            domain.fence("heap.zero.fence");
        }
        return true;
    }

    HF_HOT bool finish_free(slab::thread_cache* cache, const slab::held_block& found, bool freed) noexcept {
        if (!freed) [[unlikely]] {
            if (refuse_poisoned()) {
                return false;
            }
            blocks_.inspect().leave_refusal(space_.address({found.offset}));
            return false;
        }
        blocks_.release(cache, found);
        return true;
    }

    segment::space_view space_;
    slab::block_allocator& blocks_;
    segment::zero_pages zeros_;
    atomic_protocol<Domain> protocol_;
    reservations reservations_;
    std::atomic<bool> abandoned_{false};
};

template <persist::persistence_domain Domain>
bool atomic_operations_of<Domain>::is_abandoned() noexcept {
    if (!abandoned_.load(std::memory_order_relaxed)) [[likely]] {
        return false;
    }
    if (!refuse_poisoned()) {
        blocks_.leave(refused_child());
    }
    return true;
}

template <persist::persistence_domain Domain>
bool atomic_operations_of<Domain>::refuse_poisoned() noexcept {
    if constexpr (lane::may_log<Domain>) {
        auto health = lane_set().check_health();
        if (!health) {
            abandoned_.store(true, std::memory_order_release);
            blocks_.leave(std::move(health).error());
            return true;
        }
    }
    return false;
}

template <persist::persistence_domain Domain>
void atomic_operations_of<Domain>::refuse_destination(const std::uint64_t& word) noexcept {
    if (is_abandoned()) {
        return;
    }
    blocks_.leave(refused_destination(word, space_.offset(&word).value, blocks_.end_offset()));
}

template <persist::persistence_domain Domain>
std::optional<slab::held_block> atomic_operations_of<Domain>::take_reservation(void* reserved) noexcept {
    if (is_abandoned()) {
        return std::nullopt;
    }
    auto held = reservations_.remove(space_.offset(reserved).value);
    if (!held) {
        blocks_.leave(refused_reservation(reserved));
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
            {batch_size, destinations.size() - done, static_cast<std::size_t>(lane_set().largest_batch())});
        std::size_t ready = 0;
        slab::thread_cache* const cache = blocks_.this_cache();
        while (ready < some && is_destination(*destinations[done + ready]) && hold(cache, wanted, held[ready])) {
            ++ready;
        }
        if (ready != 0 &&
            !protocol_.publish_batch(cache, destinations.subspan(done, ready), std::span(held).first(ready))) {
            static_cast<void>(refuse_poisoned());
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
bool atomic_operations_of<Domain>::commit_with_payload(slab::thread_cache* cache,
                                                       const group_changes& changes) noexcept {
    if (lane_set().by_clock() && changes.block_records() + 1 > protocol_.largest_group()) {
        base::failure what;
        what.code = base::failure_code::limit;
        blocks_.leave(std::move(what));
        return false;
    }
    slab::held_block payload;
    if (!blocks_.hold(cache, changes.records() * sizeof(lane::record_on_media), base::cache_line_size, payload)) {
        return false;
    }
    const bool done = protocol_.commit_with_payload(cache, changes, payload);
    // Until the group is void a crash reads the payload. If a call in flight delays the checkpoint, the block is lost
    // until the next open.
    if (!done && !lane_set().check_health()) {
        return false;  // the payload may be read at recovery
    }
    if (!done || !lane_set().by_clock() || HF_MUTANT("heap.payload.hold") || lane_set().settle()) {
        blocks_.release(cache, payload);
    }
    return done;
}

template <persist::persistence_domain Domain>
bool atomic_operations_of<Domain>::commit_group(const group_request& changes) noexcept {
    if (is_abandoned()) {
        return false;
    }
    slab::thread_cache* const cache = blocks_.this_cache();
    if (changes.made.empty() && changes.freed.empty() && changes.data.size() <= protocol_.largest_group()) [[likely]] {
        // Nobody else has these words: it fails only with a sync.
        return protocol_.template commit_group<false>(cache, {{}, {}, changes.data}) || !refuse_poisoned();
    }
    return commit_blocks(cache, changes);
}

template <persist::persistence_domain Domain>
bool atomic_operations_of<Domain>::commit_blocks(slab::thread_cache* cache, const group_request& changes) noexcept {
    group_blocks blocks;
    if (!blocks.gather(changes.freed, blocks_)) {
        return false;
    }
    const group_changes all{changes.made, blocks.freed(), changes.data};
    if (!(all.records() <= protocol_.largest_group() ? protocol_.template commit_group<true>(cache, all)
                                                     : commit_with_payload(cache, all))) {
        if (!refuse_poisoned()) {
            group_blocks::leave_refusal(changes.freed, blocks_);
        }
        return false;
    }
    for (const slab::held_block& each : blocks.freed()) {
        if (each.offset != lane::nowhere) {
            blocks_.release(cache, each);  // HEAP-3
        }
    }
    return true;
}

template <persist::persistence_domain Domain>
std::size_t atomic_operations_of<Domain>::free_batch(std::span<std::uint64_t* const> destinations) noexcept {
    std::size_t done = 0;
    while (done < destinations.size()) {
        std::array<slab::held_block, batch_size> found;
        std::array<bool, batch_size> freed{};
        std::array<bool, batch_size> null;
        const std::size_t some = std::min<std::size_t>(
            {batch_size, destinations.size() - done, static_cast<std::size_t>(lane_set().largest_batch())});
        std::size_t ready = 0;
        for (; ready < some && is_destination(*destinations[done + ready]); ++ready) {
            const std::uint64_t word = load_word(*destinations[done + ready]);
            null[ready] = segment::is_null_pointer(word);
            if (!null[ready] && !blocks_.find_allocated(target_of(*destinations[done + ready], word), found[ready])) {
                break;
            }
        }
        slab::thread_cache* const cache = blocks_.this_cache();
        if (ready != 0) {
            protocol_.free_batch(cache, destinations.subspan(done, ready), std::span(found).first(ready),
                                 std::span(null).first(ready), std::span(freed).first(ready));
        }
        bool all = ready == some;
        for (std::size_t i = 0; i < ready; ++i) {
            all = (null[i] || finish_free(cache, found[i], freed[i])) && all;
        }
        done += ready;
        if (!all) {
            break;
        }
    }
    return done;
}

}  // namespace holdfast::heap
