// atomic_operations for one persistence domain: the steps of docs/atomic-protocol.md, section "A call", in their order.
//
// Invariants:
//   HEAP-1: between lane_set::announce() and complete() no lock is taken and nothing is allocated.
//   HEAP-2: before the fence of its record, an operation stores to no destination and no metadata.
//   HEAP-3: a freed block goes back to the allocator after complete().
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/hot.hpp"
#include "heap/atomic_operations.hpp"
#include "heap/reallocate.hpp"
#include "heap/reservations.hpp"
#include "persist/mutant.hpp"
#include "segment/pointer_format.hpp"

namespace holdfast::heap {

template <persist::persistence_domain Domain>
class atomic_operations_of final : public atomic_operations, public slab::slab_log, public lane::block_marks {
public:
    atomic_operations_of(Domain domain, segment::space_view space, segment::lane_area& area,
                         slab::block_allocator& blocks, const lane::lane_options& options)
        : space_(space),
          blocks_(blocks),
          lanes_(std::move(domain), space, area, with_marks(options)),
          bitmaps_follow_(options.order == lane::record_order::clock) {}
    ~atomic_operations_of() override { blocks_.forget_log(); }

    base::result<void> open() {
        HF_TRY(lanes_.open());
        blocks_.use_log(this, &lanes_);
        return {};
    }

    void* allocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        slab::held_block held;
        slab::thread_cache* const cache = blocks_.this_cache();
        if (!is_destination(destination) || !hold(cache, wanted, held)) [[unlikely]] {
            return nullptr;
        }
        publish_in_turn(cache, destination, held, nullptr);
        return space_.address({held.offset});
    }

    operation_result free_from(std::uint64_t& destination) noexcept override {
        if (!is_destination(destination)) [[unlikely]] {
            return operation_result::failed;
        }
        const std::uint64_t word = load(destination);
        if (segment::is_null_pointer(word)) {
            return operation_result::nothing_to_do;
        }
        slab::held_block found;
        if (!blocks_.find_allocated(target_of(destination, word), found)) [[unlikely]] {
            return operation_result::failed;
        }
        return free_and_release(&destination, found) ? operation_result::done : operation_result::failed;
    }

    void* reallocate_to(std::uint64_t& destination, const block_request& wanted) noexcept override {
        if (!is_destination(destination)) {
            return nullptr;
        }
        const std::uint64_t word = load(destination);
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
            lanes_.domain().flush(source, wanted.bytes, "heap.reallocate.flush_in_place");
            lanes_.domain().fence("heap.reallocate.fence_in_place");
            return space_.address({old.offset});
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
        lanes_.domain().copy(target, source, kept, "heap.reallocate.copy");
        lanes_.domain().flush(target, kept, "heap.reallocate.flush");
        lanes_.domain().fence("heap.reallocate.fence");
        if (!publish_in_turn(cache, destination, held, &old)) {
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
        keep_in_turn(cache, held);
        return space_.address({held.offset});
    }

    bool deallocate(void* block) noexcept override {
        slab::held_block found;
        if (is_abandoned() || !blocks_.find_allocated(block, found)) [[unlikely]] {
            return false;
        }
        return free_and_release(nullptr, found);
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
        return held && publish_in_turn(blocks_.this_cache(), destination, *held, nullptr);
    }

    bool keep(void* reserved) noexcept override {
        const auto held = take_reservation(reserved);
        if (held) {
            keep_in_turn(blocks_.this_cache(), *held);
        }
        return held.has_value();
    }

    bool withdraw(void* block) noexcept override {
        slab::held_block found;
        if (is_abandoned() || !blocks_.find_allocated(block, found)) {
            return false;
        }
        slab::thread_cache* const cache = blocks_.this_cache();
        bool freed = false;
        {
            const turn own(*this, cache);
            freed = free_found(*own, nullptr, found);
        }
        if (!freed) {
            blocks_.inspect().leave_refusal(block);
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

    void flush(const void* begin, std::uint64_t bytes) noexcept override {
        lanes_.domain().flush(begin, bytes, "heap.user.flush");
    }
    void drain() noexcept override { lanes_.domain().fence("heap.user.fence"); }

    void checkpoint() noexcept override { lanes_.checkpoint(); }
    bool settle() noexcept override { return lanes_.settle(); }
    std::vector<std::uint64_t> reserved() override { return reservations_.small_offsets(); }
    void cancel_all() noexcept override {
        while (const auto held = reservations_.remove_one()) {
            blocks_.release(blocks_.this_cache(), *held);
        }
    }
    void abandon() noexcept override {
        abandoned_.store(true, std::memory_order_release);
        blocks_.abandon();
    }
    const lane::lane_pool& lanes() const noexcept override { return lanes_; }
    [[nodiscard]] lane::lane_set<Domain>& lane_set() noexcept { return lanes_; }

    // lane::block_marks
    void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept override {
        blocks_.slabs().table().bits_of_line(line, bits);
    }
    bool mark(std::uint64_t offset, lane::block_word block, bool allocated) noexcept override {
        std::uint8_t* const found = blocks_.inspect().mark_of(offset, block);
        if (found != nullptr) {
            // A block whose freeing thread is gone stays `held` until the next open.
            std::atomic_ref(*found).store(allocated ? slab::live_mark::live : slab::live_mark::held,
                                          std::memory_order_release);
        }
        return found != nullptr;
    }

    // slab_log
    void slab_created(base::granule slab, const slab::size_class& kind, std::uint32_t type) noexcept override {
        change_slab(slab, {lane::block_kind::slab, kind.block_size, type}, {});
    }
    void slab_released(base::granule slab, const slab::size_class& kind, std::uint32_t type) noexcept override {
        change_slab(slab, {}, {lane::block_kind::slab, kind.block_size, type});
    }
    void slab_morphed(base::granule slab, unsigned from, unsigned to) noexcept override {
        change_slab(slab, slab::slab_word(to), slab::slab_word(from));
    }
    void old_blocks_written(base::granule /*slab*/) noexcept override {}  // records say which blocks live

private:
    using record = lane::record_on_media;
    static constexpr std::size_t batch_size = 32;

    /// This thread's lane; without one, the shared lane and its lock.
    class turn {
    public:
        turn(atomic_operations_of& of, const slab::thread_cache* cache) noexcept
            : of_(of), lane_(cache == nullptr ? nullptr : cache->own_lane) {
            if (lane_ == nullptr) [[unlikely]] {
                of.lanes_.shared_mutex().lock();
                lane_ = &of.lanes_.shared();
            }
        }
        turn(const turn&) = delete;
        turn& operator=(const turn&) = delete;
        ~turn() {
            if (lane_ == &of_.lanes_.shared()) [[unlikely]] {
                of_.lanes_.shared_mutex().unlock();
            }
        }
        [[nodiscard]] lane::lane& operator*() const noexcept { return *lane_; }

    private:
        atomic_operations_of& of_;
        lane::lane* lane_;
    };

    [[nodiscard]] static std::uint64_t load(const std::uint64_t& word) noexcept {
        return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
    }
    [[nodiscard]] std::uint64_t offset_of(const std::uint64_t& destination) const noexcept {
        return space_.offset(&destination).value;
    }
    [[nodiscard]] const void* target_of(const std::uint64_t& destination, std::uint64_t word) const noexcept {
        return reinterpret_cast<const void*>(
            segment::decode_pointer(reinterpret_cast<std::uintptr_t>(&destination), word));
    }
    [[nodiscard]] bool is_abandoned() noexcept;
    HF_HOT bool is_destination(const std::uint64_t& word) noexcept {
        const std::uint64_t offset = offset_of(word);
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
        if (wanted.zeroed) {
            zero(held);
        }
        return true;
    }
    void zero(const slab::held_block& held) noexcept {
        lanes_.domain().fill_zero(space_.address({held.offset}), held.bytes(), "heap.zero");
        lanes_.domain().flush(space_.address({held.offset}), held.bytes(), "heap.zero.flush");
        lanes_.domain().fence("heap.zero.fence");
    }

    /// The stamp that the destination will bear. At the first stamp of each half of the range the destination's line is
    /// written back; the fence of this call's record makes it durable before the next half begins (LANE-10).
    [[nodiscard]] std::uint16_t next_stamp(lane::lane& own, const std::uint64_t& destination) noexcept {
        constexpr std::uint16_t half = 1U << 15U;
        const auto stamp =
            static_cast<std::uint16_t>(segment::stamp_of(load(destination)) + (HF_MUTANT("heap.stamp.same") ? 0U : 1U));
        if (stamp % half == 0) [[unlikely]] {
            lanes_.start_write_back(own, &destination, "heap.stamp.flush");
        }
        return stamp;
    }
    [[nodiscard]] lane::lane_options with_marks(lane::lane_options options) noexcept {
        options.marks = this;
        return options;
    }
    /// Of several threads that free a block, one succeeds. Comes after the call has taken its time: a locked
    /// instruction waits for earlier non-temporal stores and would delay that.
    [[nodiscard]] bool claim(const slab::held_block& found) const noexcept {
        if (!found.is_small()) [[unlikely]] {
            return !found.is_by_node() || blocks_.nodes().claim(found);
        }
        std::uint8_t live = slab::live_mark::live;
        return !bitmaps_follow_ ||
               std::atomic_ref(*found.mark)
                   .compare_exchange_strong(live, slab::live_mark::freeing, std::memory_order_acq_rel);
    }
    void set(const slab::held_block& held) noexcept {
        if (!held.is_small()) {
            lanes_.domain().store(*held.place.word, held.place.set, "heap.entry.set");
            return;
        }
        if (!bitmaps_follow_) {
            lanes_.domain().fetch_or(*held.place.word, held.place.mask, "heap.bit.set");
        }
        std::atomic_ref(*held.mark).store(slab::live_mark::live, std::memory_order_release);
    }
    /// False: another thread freed it first. The block is `held` until release(), so that nobody gets it before
    /// complete() (HEAP-3).
    [[nodiscard]] bool clear(const slab::held_block& held) noexcept {
        if (held.is_by_node()) [[unlikely]] {
            if (!bitmaps_follow_) {
                lanes_.domain().fetch_and(*held.place.word, ~held.place.mask, "heap.bit.clear");
            }
            blocks_.nodes().clear(held);
            return true;
        }
        if (!held.is_small()) {
            return lanes_.domain().replace_if(*held.place.word, held.place.set,
                                              segment::encode({segment::extent_kind::reserved, {held.block.length}, 0}),
                                              "heap.entry.clear");
        }
        const bool cleared =
            bitmaps_follow_ ||  // claim() decided
            (lanes_.domain().fetch_and(*held.place.word, ~held.place.mask, "heap.bit.clear") & held.place.mask) != 0;
        if (cleared) {
            std::atomic_ref(*held.mark).store(slab::live_mark::held, std::memory_order_release);
        }
        return cleared;
    }
    /// A checkpoint writes back the line of this word.
    [[nodiscard]] const void* line_of(const slab::held_block& held) const noexcept {
        return bitmaps_follow_ && (held.is_small() || held.is_by_node()) ? lane::follows_marks(held.place.word)
                                                                         : held.place.word;
    }

    // The lane is returned before the allocator's locks are taken: a thread that makes a slab holds them when it takes
    // the lane.
    HF_HOT bool publish_in_turn(slab::thread_cache* cache, std::uint64_t& destination, const slab::held_block& held,
                                const slab::held_block* replaced) noexcept {
        const turn own(*this, cache);
        return publish_held(*own, destination, held, replaced);
    }
    void keep_in_turn(slab::thread_cache* cache, const slab::held_block& held) noexcept {
        const turn own(*this, cache);
        keep_held(*own, held);
    }
    HF_HOT bool free_and_release(std::uint64_t* destination, const slab::held_block& found) noexcept {
        slab::thread_cache* const cache = blocks_.this_cache();
        bool freed = false;
        {
            const turn own(*this, cache);
            freed = free_found(*own, destination, found);
        }
        return finish_free(cache, found, freed);
    }
    /// False if `replaced` was freed meanwhile.
    HF_HOT bool publish_held(lane::lane& own, std::uint64_t& destination, const slab::held_block& held,
                             const slab::held_block* replaced) noexcept;
    void keep_held(lane::lane& own, const slab::held_block& held) noexcept;
    HF_HOT bool free_found(lane::lane& own, std::uint64_t* destination, const slab::held_block& found) noexcept;
    HF_HOT bool finish_free(slab::thread_cache* cache, const slab::held_block& found, bool freed) noexcept {
        if (!freed) [[unlikely]] {
            blocks_.inspect().leave_refusal(space_.address({found.offset}));
            return false;
        }
        blocks_.release(cache, found);
        return true;
    }
    void change_slab(base::granule slab, lane::block_word made, lane::block_word gone) noexcept;

    segment::space_view space_;
    slab::block_allocator& blocks_;
    lane::lane_set<Domain> lanes_;
    reservations reservations_;
    const bool bitmaps_follow_;  ///< checkpoints write them from the marks; else each call does
    std::atomic<bool> abandoned_{false};
};

}  // namespace holdfast::heap

#include "heap/atomic_operations_steps.hpp"
