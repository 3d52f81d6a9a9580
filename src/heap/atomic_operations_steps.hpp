// Members of atomic_operations_of; included by atomic_operations_of.hpp alone.
#pragma once

#include "heap/atomic_operations_of.hpp"

namespace holdfast::heap {

template <persist::persistence_domain Domain>
bool atomic_operations_of<Domain>::is_abandoned() noexcept {
    if (!abandoned_.load(std::memory_order_relaxed)) [[likely]] {
        return false;
    }
    blocks_.leave(refused_child());
    return true;
}

template <persist::persistence_domain Domain>
void atomic_operations_of<Domain>::refuse_destination(const std::uint64_t& word) noexcept {
    if (is_abandoned()) {
        return;
    }
    blocks_.leave(refused_destination(word, offset_of(word), blocks_.end_offset()));
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
bool atomic_operations_of<Domain>::publish_held(lane::lane& own, std::uint64_t& destination,
                                                const slab::held_block& held,
                                                const slab::held_block* replaced) noexcept {
    const std::uint16_t stamp = next_stamp(own, destination);
    record made{.checksum = 0,
                .sequence = 0,
                .time = 0,
                .destination = lane::encode_destination(offset_of(destination), stamp),
                .allocated = held.offset,
                .allocated_block = lane::encode(held.block),
                .freed = replaced == nullptr ? lane::nowhere : replaced->offset,
                .freed_block = replaced == nullptr ? 0 : lane::encode(replaced->block)};
    lanes_.prepare(own, 1);
    lanes_.announce(own);
    if (replaced != nullptr && !claim(*replaced)) [[unlikely]] {
        lanes_.complete(own);
        return false;
    }
    lanes_.append(own, made,
                  {HF_MUTANT("heap.publish.destination_line") ? nullptr : &destination,
                   HF_MUTANT("heap.publish.block_line") ? nullptr : line_of(held),
                   replaced == nullptr || HF_MUTANT("heap.publish.replaced_line") ? nullptr : line_of(*replaced)});
    if (HF_MUTANT("heap.publish.stores_first")) {
        lanes_.domain().store(destination, segment::encode_pointer(offset_of(destination), held.offset, stamp),
                              "mutant.store");
    }
    lanes_.fence(own);
    lanes_.domain().store(destination, segment::encode_pointer(offset_of(destination), held.offset, stamp),
                          "heap.destination");
    set(held);
    if (replaced != nullptr) {
        static_cast<void>(clear(*replaced));
    }
    lanes_.complete(own);
    return true;
}

template <persist::persistence_domain Domain>
void atomic_operations_of<Domain>::keep_held(lane::lane& own, const slab::held_block& held) noexcept {
    record made{.checksum = 0,
                .sequence = 0,
                .time = 0,
                .destination = lane::nowhere,
                .allocated = held.offset,
                .allocated_block = lane::encode(held.block),
                .freed = lane::nowhere,
                .freed_block = 0};
    lanes_.prepare(own, 1);
    lanes_.announce(own);
    lanes_.append(own, made, {HF_MUTANT("heap.keep.line") ? nullptr : line_of(held), nullptr, nullptr});
    lanes_.fence(own);
    set(held);
    lanes_.complete(own);
}

template <persist::persistence_domain Domain>
bool atomic_operations_of<Domain>::free_found(lane::lane& own, std::uint64_t* destination,
                                              const slab::held_block& found) noexcept {
    const std::uint16_t stamp = destination == nullptr ? std::uint16_t{0} : next_stamp(own, *destination);
    record made{.checksum = 0,
                .sequence = 0,
                .time = 0,
                .destination =
                    destination == nullptr ? lane::nowhere : lane::encode_destination(offset_of(*destination), stamp),
                .allocated = lane::nowhere,
                .allocated_block = 0,
                .freed = found.offset,
                .freed_block = lane::encode(found.block)};
    lanes_.prepare(own, 1);
    lanes_.announce(own);
    if (!claim(found)) [[unlikely]] {
        lanes_.complete(own);
        return false;
    }
    lanes_.append(own, made,
                  {HF_MUTANT("heap.free.destination_line") ? nullptr : destination,
                   HF_MUTANT("heap.free.block_line") ? nullptr : line_of(found), nullptr});
    if (HF_MUTANT("heap.free.stores_first") && destination != nullptr) {
        lanes_.domain().store(*destination, segment::null_pointer(stamp), "mutant.store");
    }
    lanes_.fence(own);
    if (destination != nullptr) {
        lanes_.domain().store(*destination, segment::null_pointer(stamp), "heap.destination");
    }
    const bool freed = clear(found);
    lanes_.complete(own);
    return freed;
}

template <persist::persistence_domain Domain>
std::size_t atomic_operations_of<Domain>::allocate_batch(std::span<std::uint64_t* const> destinations,
                                                         const block_request& wanted) noexcept {
    std::size_t done = 0;
    while (done < destinations.size()) {
        std::array<slab::held_block, batch_size> held;
        std::array<std::uint16_t, batch_size> stamps;
        const std::size_t some = std::min<std::size_t>(
            {batch_size, destinations.size() - done, static_cast<std::size_t>(lanes_.largest_batch())});
        std::size_t ready = 0;
        slab::thread_cache* const cache = blocks_.this_cache();
        while (ready < some && is_destination(*destinations[done + ready]) && hold(cache, wanted, held[ready])) {
            ++ready;
        }
        if (ready != 0) {
            const turn own(*this, cache);
            for (std::size_t i = 0; i < ready; ++i) {
                stamps[i] = next_stamp(*own, *destinations[done + i]);
            }
            lanes_.prepare(*own, ready);
            lanes_.announce(*own);
            for (std::size_t i = 0; i < ready; ++i) {
                std::uint64_t& destination = *destinations[done + i];
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
                               HF_MUTANT("heap.batch.block_lines") ? nullptr : line_of(held[i]), nullptr});
            }
            lanes_.fence(*own);
            for (std::size_t i = 0; i < ready; ++i) {
                std::uint64_t& destination = *destinations[done + i];
                lanes_.domain().store(destination,
                                      segment::encode_pointer(offset_of(destination), held[i].offset, stamps[i]),
                                      "heap.destination");
                set(held[i]);
            }
            lanes_.complete(*own);
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
        std::array<std::uint16_t, batch_size> stamps;
        std::array<bool, batch_size> freed{};
        std::array<bool, batch_size> null;
        const std::size_t some = std::min<std::size_t>(
            {batch_size, destinations.size() - done, static_cast<std::size_t>(lanes_.largest_batch())});
        std::size_t ready = 0;
        for (; ready < some && is_destination(*destinations[done + ready]); ++ready) {
            const std::uint64_t word = load(*destinations[done + ready]);
            null[ready] = segment::is_null_pointer(word);
            if (!null[ready] && !blocks_.find_allocated(target_of(*destinations[done + ready], word), found[ready])) {
                break;
            }
        }
        slab::thread_cache* const cache = blocks_.this_cache();
        if (ready != 0) {
            const turn own(*this, cache);
            for (std::size_t i = 0; i < ready; ++i) {
                stamps[i] = null[i] ? std::uint16_t{0} : next_stamp(*own, *destinations[done + i]);
            }
            lanes_.prepare(*own, ready);
            lanes_.announce(*own);
            // All claims come before the first record: a locked instruction waits for earlier non-temporal stores.
            for (std::size_t i = 0; i < ready; ++i) {
                freed[i] = !null[i] && claim(found[i]);
            }
            for (std::size_t i = 0; i < ready; ++i) {
                if (!freed[i]) {
                    continue;
                }
                record made{.checksum = 0,
                            .sequence = 0,
                            .time = 0,
                            .destination = lane::encode_destination(offset_of(*destinations[done + i]), stamps[i]),
                            .allocated = lane::nowhere,
                            .allocated_block = 0,
                            .freed = found[i].offset,
                            .freed_block = lane::encode(found[i].block)};
                lanes_.append(*own, made,
                              {HF_MUTANT("heap.batch.free_lines") ? nullptr : destinations[done + i],
                               HF_MUTANT("heap.batch.freed_block_lines") ? nullptr : line_of(found[i]), nullptr});
            }
            lanes_.fence(*own);
            for (std::size_t i = 0; i < ready; ++i) {
                if (freed[i]) {
                    lanes_.domain().store(*destinations[done + i], segment::null_pointer(stamps[i]),
                                          "heap.destination");
                    freed[i] = clear(found[i]);
                }
            }
            lanes_.complete(*own);
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

/// Creates, releases or morphs a slab. The absent one of `made` and `gone` has kind `none`.
template <persist::persistence_domain Domain>
void atomic_operations_of<Domain>::change_slab(base::granule slab, lane::block_word made,
                                               lane::block_word gone) noexcept {
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
    const turn own(*this, blocks_.this_cache());
    lanes_.prepare(*own, 1);
    lanes_.announce(*own);
    lanes_.append(*own, change,
                  {HF_MUTANT("heap.slab.entry_line") ? nullptr : place.word,
                   create && !HF_MUTANT("heap.slab.header_line") ? &space_.slab_header(slab) : nullptr, nullptr});
    lanes_.fence(*own);
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
}

}  // namespace holdfast::heap
