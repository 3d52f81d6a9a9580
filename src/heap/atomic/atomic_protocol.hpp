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
#include "lane/effects.hpp"
#include "lane/lane_set.hpp"
#include "segment/format/heap_format.hpp"
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

// --- single operations ---

template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::publish(slab::thread_cache* cache, std::uint64_t& destination,
                                      const slab::held_block& held, const slab::held_block* replaced) noexcept {
    const lane_guard own(lanes_, cache);
    const std::uint16_t stamp = next_stamp(*own, destination);
    record made{.checksum = 0,
                .sequence = 0,
                .time = 0,
                .destination = lane::encode_destination(offset_of(destination), stamp),
                .allocated = held.offset,
                .allocated_block = lane::encode(held.block),
                .freed = replaced == nullptr ? lane::nowhere : replaced->offset,
                .freed_block = replaced == nullptr ? 0 : lane::encode(replaced->block)};
    lanes_.prepare(*own, 1);
    lanes_.announce(*own);
    if (replaced != nullptr && !block_states_.claim(*replaced)) [[unlikely]] {
        lanes_.cancel(*own);
        return false;
    }
    lanes_.append(
        *own, made,
        {&destination, block_states_.line_of(held), replaced == nullptr ? nullptr : block_states_.line_of(*replaced)});
    if (!lanes_.fence(*own)) [[unlikely]] {
        return false;
    }
    lanes_.domain().store(destination, segment::encode_pointer(offset_of(destination), held.offset, stamp),
                          "heap.destination");
    block_states_.set(lanes_.domain(), held);
    if (replaced != nullptr) {
        static_cast<void>(block_states_.clear(lanes_.domain(), *replaced));
    }
    lanes_.complete(*own);
    return true;
}

template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::keep(slab::thread_cache* cache, const slab::held_block& held) noexcept {
    const lane_guard own(lanes_, cache);
    record made{.checksum = 0,
                .sequence = 0,
                .time = 0,
                .destination = lane::nowhere,
                .allocated = held.offset,
                .allocated_block = lane::encode(held.block),
                .freed = lane::nowhere,
                .freed_block = 0};
    lanes_.prepare(*own, 1);
    lanes_.announce(*own);
    lanes_.append(*own, made, {block_states_.line_of(held), nullptr, nullptr});
    if (!lanes_.fence(*own)) [[unlikely]] {
        return false;
    }
    block_states_.set(lanes_.domain(), held);
    lanes_.complete(*own);
    return true;
}

template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::free(slab::thread_cache* cache, std::uint64_t* destination,
                                   const slab::held_block& found) noexcept {
    const lane_guard own(lanes_, cache);
    const std::uint16_t stamp = destination == nullptr ? std::uint16_t{0} : next_stamp(*own, *destination);
    record made{.checksum = 0,
                .sequence = 0,
                .time = 0,
                .destination =
                    destination == nullptr ? lane::nowhere : lane::encode_destination(offset_of(*destination), stamp),
                .allocated = lane::nowhere,
                .allocated_block = 0,
                .freed = found.offset,
                .freed_block = lane::encode(found.block)};
    lanes_.prepare(*own, 1);
    lanes_.announce(*own);
    if (!block_states_.claim(found)) [[unlikely]] {
        lanes_.cancel(*own);
        return false;
    }
    lanes_.append(*own, made, {destination, block_states_.line_of(found), nullptr});
    if (!lanes_.fence(*own)) [[unlikely]] {
        return false;
    }
    if (destination != nullptr) {
        lanes_.domain().store(*destination, segment::null_pointer(stamp), "heap.destination");
    }
    const bool freed = block_states_.clear(lanes_.domain(), found);
    lanes_.complete(*own);
    return freed;
}

template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::publish_batch(slab::thread_cache* cache, std::span<std::uint64_t* const> destinations,
                                            std::span<const slab::held_block> held) noexcept {
    const std::size_t count = held.size();
    std::array<std::uint16_t, batch_size> stamps;
    const lane_guard own(lanes_, cache);
    for (std::size_t i = 0; i < count; ++i) {
        stamps[i] = next_stamp(*own, *destinations[i]);
    }
    lanes_.prepare(*own, count);
    lanes_.announce(*own);
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t& destination = *destinations[i];
        record made{.checksum = 0,
                    .sequence = 0,
                    .time = 0,
                    .destination = lane::encode_destination(offset_of(destination), stamps[i]),
                    .allocated = held[i].offset,
                    .allocated_block = lane::encode(held[i].block),
                    .freed = lane::nowhere,
                    .freed_block = 0};
        lanes_.append(*own, made, {&destination, block_states_.line_of(held[i]), nullptr});
    }
    if (!lanes_.fence(*own)) [[unlikely]] {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t& destination = *destinations[i];
        lanes_.domain().store(destination, segment::encode_pointer(offset_of(destination), held[i].offset, stamps[i]),
                              "heap.destination");
        block_states_.set(lanes_.domain(), held[i]);
    }
    lanes_.complete(*own);
    return true;
}

template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::free_batch(slab::thread_cache* cache, std::span<std::uint64_t* const> destinations,
                                         std::span<const slab::held_block> found, std::span<const bool> null,
                                         std::span<bool> freed) noexcept {
    const std::size_t count = found.size();
    std::array<std::uint16_t, batch_size> stamps;
    const lane_guard own(lanes_, cache);
    for (std::size_t i = 0; i < count; ++i) {
        stamps[i] = null[i] ? std::uint16_t{0} : next_stamp(*own, *destinations[i]);
    }
    lanes_.prepare(*own, count);
    lanes_.announce(*own);
    // A locked instruction waits for earlier non-temporal stores, such as records.
    for (std::size_t i = 0; i < count; ++i) {
        freed[i] = !null[i] && block_states_.claim(found[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (!freed[i]) {
            continue;
        }
        record made{.checksum = 0,
                    .sequence = 0,
                    .time = 0,
                    .destination = lane::encode_destination(offset_of(*destinations[i]), stamps[i]),
                    .allocated = lane::nowhere,
                    .allocated_block = 0,
                    .freed = found[i].offset,
                    .freed_block = lane::encode(found[i].block)};
        lanes_.append(*own, made, {destinations[i], block_states_.line_of(found[i]), nullptr});
    }
    if (!lanes_.fence(*own)) [[unlikely]] {
        std::ranges::fill(freed, false);
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (freed[i]) {
            lanes_.domain().store(*destinations[i], segment::null_pointer(stamps[i]), "heap.destination");
            freed[i] = block_states_.clear(lanes_.domain(), found[i]);
        }
    }
    lanes_.complete(*own);
}

/// The absent one of `made` and `gone` has kind `none`.
template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::change_slab(base::granule slab, lane::block_word made, lane::block_word gone) noexcept {
    const std::uint64_t offset = base::offset_of(slab).value;
    const bool create = made.kind != lane::block_kind::none;
    const bool release = gone.kind != lane::block_kind::none;
    const lane::block_place place = lane::place_of(space_, offset, create ? made : gone);
    lane::block_word recorded = made;
    recorded.type = made.type;
    recorded.upper = made.upper;
    record change{.checksum = 0,
                  .sequence = 0,
                  .time = 0,
                  .destination = lane::nowhere,
                  .allocated = create ? offset : lane::nowhere,
                  .allocated_block = create ? lane::encode(recorded) : 0,
                  .freed = release ? offset : lane::nowhere,
                  .freed_block = release ? lane::encode(gone) : 0};
    const lane_guard own(lanes_, blocks_.this_cache());
    lanes_.prepare(*own, 1);
    lanes_.announce(*own);
    lanes_.append(*own, change,
                  {block_states_.line_of_entry(place.word), create ? &space_.slab_header(slab) : nullptr, nullptr});
    if (!lanes_.fence(*own)) [[unlikely]] {
        return false;
    }
    const auto store = [this](std::uint64_t& word, std::uint64_t value) {
        lanes_.domain().store(word, value, "heap.slab.header");
    };
    if (create && release) {
        lane::switch_slab_header(space_, offset, made, gone, store);
    } else if (create) {
        lane::store_slab_header(space_, offset, made, {}, store);
        lanes_.domain().store(*place.word, place.set, "heap.slab.entry");
    } else {
        lanes_.domain().store(*place.word,
                              segment::encode({segment::extent_kind::reserved, {base::pages_per_granule}, 0}),
                              "heap.slab.entry");
    }
    lanes_.complete(*own);
    return true;
}

// --- groups ---

/// False: another thread frees one, and no claim stays.
template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::claim_all(std::span<const slab::held_block> freed) noexcept {
    for (std::size_t i = 0; i < freed.size(); ++i) {
        if (!block_states_.claim_for_group(freed[i])) {
            while (i > 0) {
                block_states_.unclaim(freed[--i]);
            }
            return false;
        }
    }
    return true;
}

template <persist::persistence_domain Domain>
lane::record_on_media atomic_protocol<Domain>::record_of(const slab::held_block* made,
                                                         const slab::held_block* gone) noexcept {
    return {.checksum = 0,
            .sequence = 0,
            .time = 0,
            .destination = lane::nowhere,
            .allocated = made == nullptr ? lane::nowhere : made->offset,
            .allocated_block = made == nullptr ? 0 : lane::encode(made->block),
            .freed = gone == nullptr ? lane::nowhere : gone->offset,
            .freed_block = gone == nullptr ? 0 : lane::encode(gone->block)};
}

template <persist::persistence_domain Domain>
lane::record_on_media atomic_protocol<Domain>::record_of(const data_piece& piece, std::uint64_t group) noexcept {
    return {.checksum = 0,
            .sequence = 0,
            .time = 0,
            .destination = lane::encode(lane::data_place{piece.offset, piece.words, group}),
            .allocated = piece.values[0],
            .allocated_block = piece.values[1],
            .freed = piece.values[2],
            .freed_block = piece.values[3]};
}

template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::append_blocks(lane::lane& own, const group_changes& changes) noexcept {
    for (std::size_t i = 0; i < changes.block_records(); ++i) {
        const slab::held_block* const made = i < changes.allocated.size() ? &changes.allocated[i] : nullptr;
        const slab::held_block* const gone = i < changes.freed.size() ? &changes.freed[i] : nullptr;
        record changed = record_of(made, gone);
        lanes_.append(own, changed,
                      {made == nullptr ? nullptr : block_states_.line_of(*made),
                       gone == nullptr ? nullptr : block_states_.line_of(*gone), nullptr},
                      lane::group_flag);
    }
}

/// The last record of a group is one of data, and may have none (LANE-29).
template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::append_data(lane::lane& own, const group_changes& changes) noexcept {
    if (changes.data.empty()) [[unlikely]] {
        append_data(own, data_piece{}, changes.records());
        return;
    }
    for (const data_piece& piece : changes.data) {
        append_data(own, piece, &piece == &changes.data.back() ? changes.records() : 0);
    }
}

/// `group`: the number of its records, for the last one; else 0.
template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::append_data(lane::lane& own, const data_piece& piece, std::uint64_t group) noexcept {
    record stored = record_of(piece, group);
    lane::touched_lines lines{};
    if (piece.words != 0) {
        const std::byte* const first = space_.address({piece.offset});
        const std::byte* const last = first + (piece.words - 1) * sizeof(std::uint64_t);
        const bool in_two_lines = reinterpret_cast<std::uintptr_t>(first) / base::cache_line_size !=
                                  reinterpret_cast<std::uintptr_t>(last) / base::cache_line_size;
        lines = {first, in_two_lines ? last : nullptr, nullptr};
    }
    lanes_.append(own, stored, lines, lane::group_flag | lane::data_flag | (group != 0 ? lane::last_flag : 0));
}

template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::store_data(std::span<const data_piece> data) noexcept {
    for (const data_piece& piece : data) {
        auto* const words = reinterpret_cast<std::uint64_t*>(space_.address({piece.offset}));
        for (std::uint64_t i = 0; i < piece.words; ++i) {
            lanes_.domain().store(words[i], piece.values[i], "heap.group.data");
        }
    }
}

template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::change_states(const group_changes& changes) noexcept {
    for (const slab::held_block& each : changes.allocated) {
        block_states_.set(lanes_.domain(), each);
    }
    for (slab::held_block& each : changes.freed) {
        if (!block_states_.clear(lanes_.domain(), each)) {
            each.offset = lane::nowhere;
        }
    }
}

template <persist::persistence_domain Domain>
template <bool HasBlocks>
bool atomic_protocol<Domain>::commit_group(slab::thread_cache* cache, const group_changes& changes) noexcept {
    const lane_guard own(lanes_, cache);
    lanes_.prepare(*own, HasBlocks ? changes.records() : changes.data.size());
    lanes_.announce(*own);
    if constexpr (HasBlocks) {
        if (!claim_all(changes.freed)) {
            lanes_.cancel(*own);
            return false;
        }
        append_blocks(*own, changes);
    }
    append_data(*own, changes);
    if (!lanes_.fence(*own)) [[unlikely]] {
        return false;
    }
    store_data(changes.data);
    if constexpr (HasBlocks) {
        change_states(changes);
    }
    lanes_.complete(*own);
    return true;
}

template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::put(std::byte*& to, record made, std::uint64_t flags) noexcept {
    made.sequence = flags;
    lanes_.domain().copy_nontemporal(to, &made, sizeof made, "heap.payload.write");
    to += sizeof made;
}

/// Where a checkpoint makes records obsolete, blocks stay in the ring, whose descriptors have their lines. Data is
/// written back before the call is complete.
template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::commit_with_payload(slab::thread_cache* cache, const group_changes& changes,
                                                  const slab::held_block& payload) noexcept {
    const bool blocks_too = !lanes_.by_clock();
    std::byte* const begin = space_.address({payload.offset});
    std::byte* end = begin;
    for (std::size_t i = 0; blocks_too && i < changes.block_records(); ++i) {
        put(end,
            record_of(i < changes.allocated.size() ? &changes.allocated[i] : nullptr,
                      i < changes.freed.size() ? &changes.freed[i] : nullptr),
            lane::group_flag);
    }
    for (const data_piece& piece : changes.data) {
        put(end, record_of(piece, 0), lane::group_flag | lane::data_flag);
    }
    lanes_.domain().fence("heap.payload.fence");  // LANE-32
    const lane_guard own(lanes_, cache);
    const std::span records(reinterpret_cast<const record*>(begin), reinterpret_cast<const record*>(end));
    const std::uint64_t in_ring = (blocks_too ? 0 : changes.block_records()) + 1;
    record last{.checksum = 0,
                .sequence = 0,
                .time = 0,
                .destination = lane::encode(lane::data_place{0, lane::payload_marker, in_ring}),
                .allocated = payload.offset,
                .allocated_block = records.size(),
                .freed = lane::checksum_of(records, (*own).seed),
                .freed_block = 0};
    lanes_.prepare(*own, in_ring);
    lanes_.announce(*own);
    if (!claim_all(changes.freed)) {
        lanes_.cancel(*own);
        return false;
    }
    if (!blocks_too) {
        append_blocks(*own, changes);
    }
    lanes_.append(*own, last, {}, lane::group_flag | lane::data_flag | lane::last_flag);
    if (!lanes_.fence(*own)) [[unlikely]] {
        return false;
    }
    for (const record& each : records) {
        if (lane::has_flag(each, lane::data_flag)) {
            lanes_.effects().store_data(each);
            const lane::data_place stored = lane::decode_data(each.destination);
            lanes_.domain().flush(space_.address({stored.offset}), stored.words * sizeof(std::uint64_t),
                                  "heap.payload.write_back");
        }
    }
    lanes_.fence_data(*own, "heap.payload.data_fence");
    change_states(changes);
    lanes_.complete(*own);
    return true;
}

}  // namespace holdfast::heap
