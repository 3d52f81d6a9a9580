// Members of atomic_protocol for groups; included by atomic_protocol.hpp alone.
#pragma once

#include "heap/atomic/atomic_protocol.hpp"

namespace holdfast::heap {

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
