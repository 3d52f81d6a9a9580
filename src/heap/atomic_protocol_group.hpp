// Groups: what a transaction changes, as one. Members of atomic_protocol; included by atomic_protocol.hpp alone.
#pragma once

#include "heap/atomic_protocol.hpp"

namespace holdfast::heap {

/// Of several threads that free a block, one succeeds; where this is another one, no claim stays.
template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::claim_all(std::span<const slab::held_block> freed) noexcept {
    for (std::size_t i = 0; i < freed.size(); ++i) {
        if (!block_states_.claim(freed[i])) {
            while (i > 0) {
                block_states_.unclaim(freed[--i]);
            }
            return false;
        }
    }
    return true;
}

/// Blocks first, then data: the last record of a group is one of data, and may have none (LANE-29).
template <persist::persistence_domain Domain>
void atomic_protocol<Domain>::append_group(lane::lane& own, std::span<const slab::held_block> allocated,
                                           std::span<const slab::held_block> freed,
                                           std::span<const data_piece> data) noexcept {
    const std::size_t of_blocks = std::max(allocated.size(), freed.size());
    for (std::size_t i = 0; i < of_blocks; ++i) {
        const slab::held_block* const made = i < allocated.size() ? &allocated[i] : nullptr;
        const slab::held_block* const gone = i < freed.size() ? &freed[i] : nullptr;
        record changed{.checksum = 0,
                       .sequence = 0,
                       .time = 0,
                       .destination = lane::nowhere,
                       .allocated = made == nullptr ? lane::nowhere : made->offset,
                       .allocated_block = made == nullptr ? 0 : lane::encode(made->block),
                       .freed = gone == nullptr ? lane::nowhere : gone->offset,
                       .freed_block = gone == nullptr ? 0 : lane::encode(gone->block)};
        lanes_.append(own, changed,
                      {made == nullptr || HF_MUTANT("heap.group.made_line") ? nullptr : block_states_.line_of(*made),
                       gone == nullptr || HF_MUTANT("heap.group.freed_line") ? nullptr : block_states_.line_of(*gone),
                       nullptr},
                      lane::group_flag);
    }
    const std::size_t of_data = std::max<std::size_t>(data.size(), 1);
    for (std::size_t i = 0; i < of_data; ++i) {
        const data_piece piece = i < data.size() ? data[i] : data_piece{};
        const bool is_last = i + 1 == of_data;
        record stored{
            .checksum = 0,
            .sequence = 0,
            .time = 0,
            .destination = lane::encode(lane::data_place{piece.offset, piece.words, is_last ? of_blocks + of_data : 0}),
            .allocated = piece.values[0],
            .allocated_block = piece.values[1],
            .freed = piece.values[2],
            .freed_block = piece.values[3]};
        const std::byte* const first = piece.words == 0 ? nullptr : space_.address({piece.offset});
        const std::byte* const last =
            first == nullptr ? nullptr : first + (piece.words - 1) * sizeof(std::uint64_t);
        lanes_.append(own, stored,
                      {HF_MUTANT("heap.group.data_lines") ? nullptr : first,
                       HF_MUTANT("heap.group.second_line") ? nullptr : last, nullptr},
                      lane::group_flag | lane::data_flag | (is_last ? lane::last_flag : 0));
    }
}

template <persist::persistence_domain Domain>
bool atomic_protocol<Domain>::commit_group(slab::thread_cache* cache, std::span<const slab::held_block> allocated,
                                           std::span<const slab::held_block> freed,
                                           std::span<const data_piece> data) noexcept {
    const lane_guard own(lanes_, cache);
    lanes_.prepare(*own, std::max(allocated.size(), freed.size()) + std::max<std::size_t>(data.size(), 1));
    lanes_.announce(*own);
    if (!claim_all(freed)) {
        lanes_.complete(*own);
        return false;
    }
    const auto store_data = [this, data] {
        for (const data_piece& piece : data) {
            auto* const words = reinterpret_cast<std::uint64_t*>(space_.address({piece.offset}));
            for (std::uint64_t i = 0; i < piece.words; ++i) {
                lanes_.domain().store(words[i], piece.values[i], "heap.group.data");
            }
        }
    };
    append_group(*own, allocated, freed, data);
    if (HF_MUTANT("heap.group.stores_first")) {
        store_data();
    }
    lanes_.fence(*own);
    store_data();
    for (const slab::held_block& each : allocated) {
        block_states_.set(lanes_.domain(), each);
    }
    for (const slab::held_block& each : freed) {
        static_cast<void>(block_states_.clear(lanes_.domain(), each));
    }
    lanes_.complete(*own);
    return true;
}

}  // namespace holdfast::heap
