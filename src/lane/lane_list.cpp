#include "lane/lane_list.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "lane/lanes_ahead.hpp"
#include "lane/record.hpp"

namespace holdfast::lane {

bool lane_list::open(std::uint64_t sealed) noexcept {
    const base::scoped_lock lock(mutex_);
    sealed_ = sealed;
    return make_lane() != nullptr;
}

/// Null where there is no lane or no memory left.
lane* lane_list::make_lane() noexcept {
    const std::uint64_t index = count_.load(std::memory_order_relaxed);
    if (index == maximum_lanes) {
        return nullptr;
    }
    std::unique_ptr<lane> made;
    try {
        made = std::make_unique<lane>();
        made->owned_descriptors = std::make_unique<slot_descriptor[]>(ring_slots_);
        if (is_logged()) {
            made->owned_slots = std::make_unique<record_on_media[]>(ring_slots_);
        } else if (is_by_clock(options_.order) && index != 0) {  // one thread's fence waits for no other's lines
            const std::uint64_t most_lines = ring_slots_ / 4 * touched_lines{}.size();
            made->ahead = std::make_unique<write_back_ahead>(
                static_cast<unsigned>(std::bit_width(most_lines + most_lines / 3 - 1)));
        }
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    made->index = index;
    if (is_logged()) {
        made->slots = made->owned_slots.get();
    } else {
        std::byte* const begin = area_.lanes() + lanes_at + index * lane_size(options_.slots);
        made->header = reinterpret_cast<lane_header_on_media*>(begin);
        made->slots = reinterpret_cast<record_on_media*>(begin + lane_header_size);
    }
    made->descriptors = made->owned_descriptors.get();
    made->slot_mask = ring_slots_ - 1;
    made->seed = seed_of(options_.heap_key, options_.incarnation, is_logged() ? 0 : index);
    // Above all recorded times. In order `in_flight`, sequences continue where the lane's last user stopped:
    // `completed` on media is never ahead of them.
    made->last_time = options_.checkpoint_time + 1;
    if (options_.order == record_order::in_flight && made->header->completed > largest_sequence) {
        // The file meant nothing when the heap was opened, or replay would have refused the number.
        std::atomic_ref(made->header->completed).store(0, std::memory_order_relaxed);
    }
    made->first_sequence = first_sequence_of(*made);
    made->sequence.store(made->first_sequence, std::memory_order_relaxed);
    made->completed.store(made->first_sequence, std::memory_order_relaxed);
    made->obsolete.store(made->first_sequence, std::memory_order_relaxed);
    made->logged.store(made->first_sequence, std::memory_order_relaxed);
    made->log_claimed = made->first_sequence;
    made->free_until = is_logged() ? made->first_sequence : 0;
    lanes_[index] = std::move(made);
    count_.store(index + 1, std::memory_order_release);
    return lanes_[index].get();
}

std::uint64_t lane_list::first_sequence_of(const lane& made) const noexcept {
    switch (options_.order) {
        case record_order::in_flight: return made.header->completed;
        case record_order::logged: return made.index << log_lane_shift;
        default: return 0;
    }
}

lane* lane_list::acquire(unsigned machine_node, seal_count seal) noexcept {
    const base::scoped_lock lock(mutex_);
    const unsigned own = group_of_threads(machine_node);
    if (lane* const found = find_or_make(own, seal)) {
        return found;
    }
    // A lane of another node is slower.
    for (unsigned group = 0; group < segment::maximum_nodes; ++group) {
        if (lane* const found = take_free(group)) {
            return found;
        }
    }
    return options_.files == 1 ? nullptr : make_lanes(count_.load(std::memory_order_relaxed) + 1, seal);
}

lane* lane_list::move(lane& given, unsigned machine_node, seal_count seal) noexcept {
    const base::scoped_lock lock(mutex_);
    const unsigned own = group_of_threads(machine_node);
    lane* const found = group_of(given.index) == own ? nullptr : find_or_make(own, seal);
    if (found == nullptr) {
        return &given;
    }
    keep(given);
    return found;
}

/// Memory of its own node matters more than few lanes.
lane* lane_list::find_or_make(unsigned group, seal_count seal) noexcept {
    if (lane* const found = take_free(group)) {
        return found;
    }
    std::uint64_t index = count_.load(std::memory_order_relaxed);
    while (group_of(index) != group) {
        ++index;  // lanes of other nodes, for later threads
    }
    return make_lanes(index + 1, seal);
}

/// Later threads get all but the last. Null where not all can be made.
lane* lane_list::make_lanes(std::uint64_t count, seal_count seal) noexcept {
    if (!extend(count, seal)) {
        return nullptr;
    }
    for (;;) {
        lane* const made = make_lane();
        if (made == nullptr || made->index + 1 == count) {
            return made;
        }
        keep(*made);
    }
}

lane* lane_list::take_free(unsigned group) noexcept {
    lane* const found = first_free_[group];
    if (found != nullptr) {
        first_free_[group] = found->next_free;
    }
    return found;
}

void lane_list::keep(lane& unused) noexcept {
    close_window(unused);
    lane*& first = first_free_[group_of(unused.index)];
    unused.next_free = first;
    first = &unused;
}

/// First the files grow, then the number is in force, then records come (LANE-25).
bool lane_list::extend(std::uint64_t wanted, seal_count seal) noexcept {
    const auto seal_wanted = [&]() HF_REQUIRES(mutex_) {
        if (wanted > sealed_) {
            seal(wanted);
            sealed_ = wanted;
        }
    };
    if (wanted > maximum_lanes) {
        return false;
    }
    if (is_logged()) {
        return true;  // a ring in DRAM needs no place on media
    }
    try {
        if (!area_.grow_lanes(lanes_file_size(wanted, options_.slots))) {
            return false;
        }
    } catch (const std::bad_alloc&) {
        return false;
    }
    seal_wanted();
    return true;
}

void lane_list::put_back(lane& given) noexcept {
    const base::scoped_lock lock(mutex_);
    keep(given);
}

}  // namespace holdfast::lane
