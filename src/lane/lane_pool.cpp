#include <algorithm>
#include <bit>
#include <chrono>
#include <new>
#include <optional>
#include <thread>

#include "lane/lane_set.hpp"

namespace holdfast::lane {

lane_pool::lane_pool(segment::space_view space, segment::lane_area& area, const lane_options& options)
    : space_(space),
      area_(area),
      options_(options),
      ring_slots_(options.order == record_order::in_flight ? std::min(options.slots, in_flight_slots) : options.slots),
      clock_(options.clock),
      spans_(options.clock) {
    clock_.start(HF_MUTANT("lane.clock.start") ? 0 : options.checkpoint_time + 1);
    time_.store(options.checkpoint_time, std::memory_order_relaxed);
}

base::result<void> lane_pool::open() {
    const base::scoped_lock lock(lanes_mutex_);
    HF_TRY(open_head());
    if (make_lane() == nullptr) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        return what;
    }
    const base::scoped_lock alone(checkpoint_mutex_);
    publish_counters();
    return {};
}

/// A log has rings in DRAM, and its files are there before the head leads to them.
base::result<void> lane_pool::open_head() {
    const bool logs = options_.order == record_order::logged;
    const std::uint64_t least = logs ? 0 : 1;
    HF_TRY(area_.grow_lanes(lanes_file_size(least, options_.slots)));
    log::mark begin;
    if (logs) {
        begin.checksum = options_.log_chain;
        HF_TRY(open_log(begin));
    }
    sealed_lanes_ = std::max(options_.lane_count.value_or(0), least);
    if (!options_.lane_count) {
        write_head(new_head({options_.checkpoint_time, begin}, sealed_lanes_, options_.heap_key));
        return {};
    }
    if (*options_.lane_count < least) {
        seal_lane_count(least);
    }
    if (logs) {
        seal_checkpoint({options_.checkpoint_time + 1, begin});
    }
    return {};
}

base::result<void> lane_pool::open_log(const log::mark& begin) {
    const log_source source{area_.log(), options_.heap_key, options_.incarnation};
    auto made = record_log::create(source, begin, {lanes_, lane_count_}, options_.log_records);
    if (!made) {
        if (made.error().code == base::failure_code::no_space) {
            made.error().hint = segment::hint_without_room_for_lanes;
        }
        return std::move(made).error();
    }
    log_ = std::move(made).value();
    return {};
}

base::result<void> lane_pool::check_health() const {
    if (log_ == nullptr || !log_->has_failed()) {
        return {};
    }
    base::failure what = log_->failure();
    what.code = base::failure_code::poisoned;
    what.hint = "no call was acknowledged since; close the heap and open it again";
    return what;
}

/// Null where there is no lane or no memory left.
lane* lane_pool::make_lane() noexcept {
    const std::uint64_t index = lane_count_.load(std::memory_order_relaxed);
    if (index == maximum_lanes) {
        return nullptr;
    }
    std::unique_ptr<lane> made;
    try {
        made = std::make_unique<lane>();
        made->owned_descriptors = std::make_unique<slot_descriptor[]>(ring_slots_);
        if (log_ != nullptr) {
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
    if (log_ != nullptr) {
        made->slots = made->owned_slots.get();
    } else {
        std::byte* const begin = area_.lanes() + lanes_at + index * lane_size(options_.slots);
        made->header = reinterpret_cast<lane_header_on_media*>(begin);
        made->slots = reinterpret_cast<record_on_media*>(begin + lane_header_size);
    }
    made->descriptors = made->owned_descriptors.get();
    made->slot_mask = ring_slots_ - 1;
    made->seed = seed_of(options_.heap_key, options_.incarnation, log_ != nullptr ? 0 : index);
    // Above all recorded times. In order `in_flight`, sequences continue where the lane's last user stopped:
    // `completed` on media is never ahead of them.
    made->last_time = HF_MUTANT("lane.clock.start") ? 0 : options_.checkpoint_time + 1;
    if (options_.order == record_order::in_flight && made->header->completed > largest_sequence) {
        // The file meant nothing when the heap was opened, or replay would have refused the number.
        std::atomic_ref(made->header->completed).store(0, std::memory_order_relaxed);
    }
    made->first_sequence = first_sequence_of(*made);
    made->sequence.store(made->first_sequence, std::memory_order_relaxed);
    made->completed.store(made->first_sequence, std::memory_order_relaxed);
    made->voided.store(made->first_sequence, std::memory_order_relaxed);
    made->logged.store(made->first_sequence, std::memory_order_relaxed);
    made->log_claimed = made->first_sequence;
    made->free_until = log_ != nullptr ? made->first_sequence : 0;
    lanes_[index] = std::move(made);
    lane_count_.store(index + 1, std::memory_order_release);
    return lanes_[index].get();
}

std::uint64_t lane_pool::first_sequence_of(const lane& made) const noexcept {
    switch (options_.order) {
        case record_order::in_flight: return HF_MUTANT("lane.first_sequence") ? 0 : made.header->completed;
        case record_order::logged: return made.index << log_lane_shift;
        default: return 0;
    }
}

lane* lane_pool::acquire(unsigned machine_node) noexcept {
    const base::scoped_lock lock(lanes_mutex_);
    const unsigned own = group_of_threads(machine_node);
    if (lane* const found = find_or_make(own)) {
        return found;
    }
    // A lane of another node is slower.
    for (unsigned group = 0; group < segment::maximum_nodes; ++group) {
        if (lane* const found = take_free(group)) {
            return found;
        }
    }
    return options_.files == 1 ? nullptr : make_lanes(lane_count_.load(std::memory_order_relaxed) + 1);
}

lane* lane_pool::move(lane& given, unsigned machine_node) noexcept {
    drop_checkpoint_of(given);
    const base::scoped_lock lock(lanes_mutex_);
    const unsigned own = group_of_threads(machine_node);
    lane* const found = group_of(given.index) == own ? nullptr : find_or_make(own);
    if (found == nullptr) {
        return &given;
    }
    keep(given);
    return found;
}

/// Memory of its own node matters more than few lanes.
lane* lane_pool::find_or_make(unsigned group) noexcept {
    if (lane* const found = take_free(group)) {
        return found;
    }
    std::uint64_t index = lane_count_.load(std::memory_order_relaxed);
    while (group_of(index) != group) {
        ++index;  // lanes of other nodes, for later threads
    }
    return make_lanes(index + 1);
}

/// Later threads get all but the last. Null where not all can be made.
lane* lane_pool::make_lanes(std::uint64_t count) noexcept {
    if (!extend(count)) {
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

lane* lane_pool::take_free(unsigned group) noexcept {
    lane* const found = first_free_[group];
    if (found != nullptr) {
        first_free_[group] = found->next_free;
    }
    return found;
}

void lane_pool::keep(lane& unused) noexcept {
    close_window(unused);
    lane*& first = first_free_[group_of(unused.index)];
    unused.next_free = first;
    first = &unused;
}

/// First the files grow, then the number is in force, then records come (LANE-25).
bool lane_pool::extend(std::uint64_t wanted) noexcept {
    const auto seal = [this, wanted]() HF_REQUIRES(lanes_mutex_) {
        if (wanted > sealed_lanes_) {
            seal_lane_count(wanted);
            sealed_lanes_ = wanted;
        }
    };
    if (wanted > maximum_lanes) {
        return false;
    }
    if (log_ != nullptr) {
        return true;  // a ring in DRAM needs no place on media
    }
    if (HF_MUTANT("lane.count.before_growth")) {
        seal();
    }
    try {
        if (!area_.grow_lanes(lanes_file_size(wanted, options_.slots))) {
            return false;
        }
    } catch (const std::bad_alloc&) {
        return false;
    }
    seal();
    return true;
}

bool lane_pool::settle() noexcept {
    constexpr unsigned tries = 16;
    const std::uint64_t lanes = lane_count_.load(std::memory_order_acquire);
    std::array<std::uint64_t, maximum_lanes> recorded;
    for (std::uint64_t i = 0; i < lanes; ++i) {
        recorded[i] = lanes_[i]->sequence.load(std::memory_order_acquire);
    }
    const bool by_clock = is_by_clock(options_.order);
    std::optional<lanes_ahead::steps> steps;  // that may have begun before all was void
    const auto is_settled = [&] {
        for (std::uint64_t i = 0; i < lanes; ++i) {
            const auto& void_until = by_clock ? lanes_[i]->voided : lanes_[i]->completed;
            if (void_until.load(std::memory_order_acquire) < recorded[i]) {
                return false;
            }
        }
        if (!steps) {
            steps = ahead_.running();
        }
        return ahead_.have_ended(*steps);
    };
    for (unsigned tried = 0; tried < tries; ++tried) {
        if (is_settled()) {
            return true;
        }
        if (!check_health()) {
            return false;
        }
        if (by_clock) {
            checkpoint();
        }
        if (!base::give_others_a_turn()) {
            wait_for_calls(tried);
        }
    }
    return is_settled();
}

/// Where there is a log, calls end when the disk has written their records. All tries of settle() together wait for 40
/// ms.
void lane_pool::wait_for_calls(unsigned tried) const noexcept {
    constexpr unsigned yields = 4;
    if (log_ == nullptr || tried < yields) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(std::chrono::microseconds(10) * (1U << (tried - yields)));
    }
}

void lane_pool::drop_checkpoint_of(const lane& given) noexcept {
    const base::scoped_lock lock(checkpoint_mutex_);
    if (running_.owner == &given) {
        running_.owner = nullptr;
    }
}

void lane_pool::put_back(lane& given) noexcept {
    const base::scoped_lock lock(lanes_mutex_);
    keep(given);
}

namespace {

/// Other threads read it at any time.
void add(std::uint64_t& counter, std::uint64_t value) noexcept {
    std::atomic_ref<std::uint64_t> all(counter);
    all.store(all.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

}  // namespace

void lane_pool::note_checkpoint_time(std::uint64_t ticks) noexcept {
    add(checkpoint_ticks_, ticks);
    if (ticks > longest_checkpoint_ticks_) {
        add(longest_checkpoint_ticks_, ticks - longest_checkpoint_ticks_);
    }
}

void lane_pool::note_checkpoint(unsigned fences) noexcept {
    add(checkpointed_.fences, fences);
    add(checkpointed_.checkpoints, 1);
}

lane_statistics lane_pool::statistics() const noexcept {
    const auto read = [](const std::uint64_t& counter) {
        return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(counter)).load(std::memory_order_relaxed);
    };
    lane_statistics sum;
    std::uint64_t ticks = 0;
    std::uint64_t longest = 0;
    sum.lanes = lane_count_.load(std::memory_order_acquire);
    for (std::uint64_t i = 0; i < sum.lanes; ++i) {
        sum.records += lanes_[i]->sequence.load(std::memory_order_relaxed) - lanes_[i]->first_sequence;
        sum.fences += lanes_[i]->fences.load(std::memory_order_relaxed);
        sum.flushed_lines += lanes_[i]->flushed_lines.load(std::memory_order_relaxed);
        if (const write_back_ahead* const ahead = lanes_[i]->ahead.get()) {
            sum.reflushes += ahead->reflushes.load(std::memory_order_relaxed);
            ticks += ahead->ticks.load(std::memory_order_relaxed);
            longest = std::max(longest, ahead->longest_ticks.load(std::memory_order_relaxed));
        }
    }
    sum.fences += read(checkpointed_.fences);
    sum.flushed_lines += read(checkpointed_.flushed_lines);
    sum.reflushes += read(checkpointed_.reflushes);
    sum.checkpoints = read(checkpointed_.checkpoints);
    sum.checkpoint_ns = spans_.nanoseconds(read(checkpoint_ticks_) + ticks);
    sum.longest_checkpoint_ns = spans_.nanoseconds(std::max(read(longest_checkpoint_ticks_), longest));
    sum.helped = read(helped_);
    sum.waits = read(checkpointed_.waits);
    sum.media_bytes = (sum.records + sum.flushed_lines) * base::cache_line_size +
                      sum.checkpoints * sizeof(sealed_on_media<checkpoint_on_media>);
    return sum;
}

}  // namespace holdfast::lane
