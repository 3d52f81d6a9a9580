// The steps of an operation in durability `atomic`, in the order of docs/atomic-protocol.md, "A call".
//
// Invariants:
//   HEAP-1: between lane_set::announce() and complete() no lock is taken and nothing is allocated.
//   HEAP-2: before the fence of its record, an operation stores to no destination and no metadata.
//   HEAP-20: the lane is returned before the allocator's locks are taken: a thread that makes a slab holds them when it
//            takes the lane.
//
// Thread safety: any number of threads; one operation at a time on one destination.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/hot.hpp"
#include "heap/atomic/atomic_block_states.hpp"
#include "heap/operations/destination_operations.hpp"
#include "heap/ordered/destination_word.hpp"
#include "lane/effects.hpp"
#include "lane/lane_set.hpp"
#include "segment/format/pointer_format.hpp"
#include "segment/format/space.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

struct group_changes {
    std::span<const slab::held_block> allocated;
    std::span<slab::held_block> freed;  ///< another thread freed it first: its offset becomes lane::nowhere
    std::span<const data_piece> data;
    [[nodiscard]] std::size_t block_records() const noexcept { return std::max(allocated.size(), freed.size()); }
    [[nodiscard]] std::size_t records() const noexcept {
        return block_records() + std::max<std::size_t>(data.size(), 1);
    }
};

/// `cache` is the calling thread's, or null. Blocks of results that freed nothing are as they were. On a disk a call is
/// also false where its record did not become durable: the heap is poisoned, and its memory is as it was.
template <persist::persistence_domain Domain>
class atomic_protocol final : public slab::slab_log {
public:
    static constexpr std::size_t batch_size = 32;

    atomic_protocol(Domain domain, segment::space_view space, segment::lane_area& area, slab::block_allocator& blocks,
                    const lane::lane_options& options)
        : space_(space),
          blocks_(blocks),
          block_states_(blocks, options.order),
          lanes_(std::move(domain), space, area, with_block_states(options)) {}

    [[nodiscard]] lane::lane_set<Domain>& lanes() noexcept { return lanes_; }
    [[nodiscard]] const lane::lane_set<Domain>& lanes() const noexcept { return lanes_; }

    /// Marks the block allocated, lets the destination point to it, and frees `replaced`, which may be null. False if
    /// `replaced` was freed meanwhile.
    HF_HOT bool publish(slab::thread_cache* cache, std::uint64_t& destination, const slab::held_block& held,
                        const slab::held_block* replaced) noexcept;
    /// Marks the block allocated, without a destination.
    [[nodiscard]] bool keep(slab::thread_cache* cache, const slab::held_block& held) noexcept;
    /// Frees the block, and nulls a destination. False if the block was freed meanwhile.
    HF_HOT bool free(slab::thread_cache* cache, std::uint64_t* destination, const slab::held_block& found) noexcept;
    /// publish() for up to batch_size destinations, with one fence.
    [[nodiscard]] bool publish_batch(slab::thread_cache* cache, std::span<std::uint64_t* const> destinations,
                                     std::span<const slab::held_block> held) noexcept;
    /// free() with one fence. `null`: those left out. `freed`: those whose block was not freed meanwhile.
    void free_batch(slab::thread_cache* cache, std::span<std::uint64_t* const> destinations,
                    std::span<const slab::held_block> found, std::span<const bool> null,
                    std::span<bool> freed) noexcept;

    /// Allocates, frees and stores all of it with one fence, or nothing: false if a block of `freed` was freed
    /// meanwhile. At most largest_group() records. HasBlocks: whether there are any.
    template <bool HasBlocks>
    [[nodiscard]] HF_HOT bool commit_group(slab::thread_cache* cache, const group_changes& changes) noexcept;
    /// For more records: they are written to `payload`, which has room for them and is held until the group is
    /// obsolete.
    [[nodiscard]] bool commit_with_payload(slab::thread_cache* cache, const group_changes& changes,
                                           const slab::held_block& payload) noexcept;
    [[nodiscard]] std::uint64_t largest_group() const noexcept {
        return std::min(lanes_.largest_batch(), lane::largest_group);
    }

    // slab_log
    bool slab_created(base::granule slab, const slab::size_class& kind, std::uint32_t type) noexcept override {
        return change_slab(slab, {lane::block_kind::slab, kind.block_size, type}, {});
    }
    void slab_released(base::granule slab, const slab::size_class& kind, std::uint32_t type) noexcept override {
        static_cast<void>(change_slab(slab, {}, {lane::block_kind::slab, kind.block_size, type}));
    }
    void slab_morphed(base::granule slab, slab::slab_kind from, slab::slab_kind to) noexcept override {
        static_cast<void>(change_slab(slab, slab::slab_word(to), slab::slab_word(from)));
    }
    void old_blocks_written(base::granule /*slab*/) noexcept override {}  // records say which blocks live

private:
    using record = lane::record_on_media;

    /// The thread's lane, or the shared one and its lock.
    class lane_guard {
    public:
        lane_guard(lane::lane_set<Domain>& of, const slab::thread_cache* cache) noexcept
            : of_(of), lane_(cache == nullptr ? nullptr : cache->own_lane) {
            if (lane_ == nullptr) [[unlikely]] {
                of.shared_mutex().lock();
                lane_ = &of.shared();
            }
        }
        lane_guard(const lane_guard&) = delete;
        lane_guard& operator=(const lane_guard&) = delete;
        ~lane_guard() {
            if (lane_ == &of_.shared()) [[unlikely]] {
                of_.shared_mutex().unlock();
            }
        }
        [[nodiscard]] lane::lane& operator*() const noexcept { return *lane_; }

    private:
        lane::lane_set<Domain>& of_;
        lane::lane* lane_;
    };

    [[nodiscard]] lane::lane_options with_block_states(lane::lane_options options) noexcept {
        options.states = &block_states_;
        return options;
    }
    [[nodiscard]] std::uint64_t offset_of(const std::uint64_t& destination) const noexcept {
        return space_.offset(&destination).value;
    }
    /// At the first stamp of each half of the range the destination's line is written back, durable by the fence of
    /// this record before the next half begins (LANE-10).
    [[nodiscard]] std::uint16_t next_stamp(lane::lane& own, const std::uint64_t& destination) noexcept {
        constexpr std::uint16_t half = 1U << 15U;
        const auto stamp = static_cast<std::uint16_t>(segment::stamp_of(load_word(destination)) + 1U);
        if (stamp % half == 0) [[unlikely]] {
            lanes_.start_write_back(own, &destination, "heap.stamp.flush");
        }
        return stamp;
    }
    [[nodiscard]] bool change_slab(base::granule slab, lane::block_word made, lane::block_word gone) noexcept;
    [[nodiscard]] HF_HOT bool claim_all(std::span<const slab::held_block> freed) noexcept;
    [[nodiscard]] HF_HOT static record record_of(const slab::held_block* made, const slab::held_block* gone) noexcept;
    [[nodiscard]] HF_HOT static record record_of(const data_piece& piece, std::uint64_t group) noexcept;
    HF_HOT void append_blocks(lane::lane& own, const group_changes& changes) noexcept;
    HF_HOT void append_data(lane::lane& own, const group_changes& changes) noexcept;
    HF_HOT void append_data(lane::lane& own, const data_piece& piece, std::uint64_t group) noexcept;
    HF_HOT void store_data(std::span<const data_piece> data) noexcept;
    HF_HOT void change_states(const group_changes& changes) noexcept;
    void put(std::byte*& to, record made, std::uint64_t flags) noexcept;

    segment::space_view space_;
    slab::block_allocator& blocks_;
    atomic_block_states block_states_;
    lane::lane_set<Domain> lanes_;
};

}  // namespace holdfast::heap

#include "heap/atomic/atomic_protocol_group.hpp"
#include "heap/atomic/atomic_protocol_steps.hpp"
