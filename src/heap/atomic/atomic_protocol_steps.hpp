// Members of atomic_protocol; included by atomic_protocol.hpp alone.
#pragma once

#include "heap/atomic/atomic_protocol.hpp"

namespace holdfast::heap {

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
        {HF_MUTANT("heap.publish.destination_line") ? nullptr : &destination,
         HF_MUTANT("heap.publish.block_line") ? nullptr : block_states_.line_of(held),
         replaced == nullptr || HF_MUTANT("heap.publish.replaced_line") ? nullptr : block_states_.line_of(*replaced)});
    if (HF_MUTANT("heap.publish.stores_first")) {
        lanes_.domain().store(destination, segment::encode_pointer(offset_of(destination), held.offset, stamp),
                              "mutant.store");
    }
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
    lanes_.append(*own, made, {HF_MUTANT("heap.keep.line") ? nullptr : block_states_.line_of(held), nullptr, nullptr});
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
    lanes_.append(*own, made,
                  {HF_MUTANT("heap.free.destination_line") ? nullptr : destination,
                   HF_MUTANT("heap.free.block_line") ? nullptr : block_states_.line_of(found), nullptr});
    if (HF_MUTANT("heap.free.stores_first") && destination != nullptr) {
        lanes_.domain().store(*destination, segment::null_pointer(stamp), "mutant.store");
    }
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
        lanes_.append(*own, made,
                      {HF_MUTANT("heap.batch.allocate_lines") ? nullptr : &destination,
                       HF_MUTANT("heap.batch.block_lines") ? nullptr : block_states_.line_of(held[i]), nullptr});
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
        lanes_.append(*own, made,
                      {HF_MUTANT("heap.batch.free_lines") ? nullptr : destinations[i],
                       HF_MUTANT("heap.batch.freed_block_lines") ? nullptr : block_states_.line_of(found[i]), nullptr});
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
    recorded.type = HF_MUTANT("heap.slab.type") ? 0 : made.type;
    recorded.upper = !HF_MUTANT("heap.slab.half") && made.upper;
    record change{.checksum = 0,
                  .sequence = 0,
                  .time = 0,
                  .destination = lane::nowhere,
                  .allocated = create ? offset : lane::nowhere,
                  .allocated_block = create ? lane::encode(recorded) : 0,
                  .freed = release && !(create && HF_MUTANT("heap.slab.morphed")) ? offset : lane::nowhere,
                  .freed_block = release ? lane::encode(gone) : 0};
    const lane_guard own(lanes_, blocks_.this_cache());
    lanes_.prepare(*own, 1);
    lanes_.announce(*own);
    lanes_.append(*own, change,
                  {HF_MUTANT("heap.slab.entry_line") ? nullptr : block_states_.line_of_entry(place.word),
                   create && !HF_MUTANT("heap.slab.header_line") ? &space_.slab_header(slab) : nullptr, nullptr});
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

}  // namespace holdfast::heap
