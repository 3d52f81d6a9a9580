#include <algorithm>
#include <chrono>
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
    clock_.start(options.checkpoint_time + 1);
    checkpoints_.time.store(options.checkpoint_time, std::memory_order_relaxed);
}

base::result<void> lane_pool::open() {
    HF_TRY_ASSIGN(const std::uint64_t sealed, open_head());
    if (!lanes_.open(sealed)) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        return what;
    }
    const base::scoped_lock alone(checkpoints_.mutex);
    publish_counters();
    return {};
}

lane* lane_pool::acquire(unsigned machine_node) noexcept {
    return lanes_.acquire(machine_node, [this](std::uint64_t count) { seal_lane_count(count); });
}

lane* lane_pool::move(lane& given, unsigned machine_node) noexcept {
    checkpoints_.drop(given);
    return lanes_.move(given, machine_node, [this](std::uint64_t count) { seal_lane_count(count); });
}

/// Returns the number of lanes in force. A log has rings in DRAM, and its files are there before the head leads to
/// them.
base::result<std::uint64_t> lane_pool::open_head() {
    const bool logs = options_.order == record_order::logged;
    const std::uint64_t least = logs ? 0 : 1;
    HF_TRY(area_.grow_lanes(lanes_file_size(least, options_.slots)));
    log::mark begin;
    if (logs) {
        begin.checksum = options_.log_chain;
        HF_TRY(open_log(begin));
    }
    const std::uint64_t sealed = std::max(options_.lane_count.value_or(0), least);
    if (!options_.lane_count) {
        write_head(new_head({options_.checkpoint_time, begin}, sealed, options_.heap_key));
        return sealed;
    }
    if (*options_.lane_count < least) {
        seal_lane_count(least);
    }
    if (logs) {
        seal_checkpoint({options_.checkpoint_time + 1, begin});
    }
    return sealed;
}

base::result<void> lane_pool::open_log(const log::mark& begin) {
    const log_source source{area_.log(), options_.heap_key, options_.incarnation};
    auto made = record_log::create(source, begin, lanes_.view(), options_.log_records);
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

bool lane_pool::wait_until_obsolete() noexcept {
    constexpr unsigned tries = 16;
    const std::uint64_t lanes = lanes_.count();
    std::array<std::uint64_t, maximum_lanes> recorded;
    for (std::uint64_t i = 0; i < lanes; ++i) {
        recorded[i] = lanes_[i].sequence.load(std::memory_order_acquire);
    }
    const bool by_clock = is_by_clock(options_.order);
    std::optional<lanes_ahead::steps> steps;  // that may have begun before all was obsolete
    const auto all_are_obsolete = [&] {
        for (std::uint64_t i = 0; i < lanes; ++i) {
            const auto& obsolete_until = by_clock ? lanes_[i].obsolete : lanes_[i].completed;
            if (obsolete_until.load(std::memory_order_acquire) < recorded[i]) {
                return false;
            }
        }
        if (!steps) {
            steps = ahead_.running();
        }
        return ahead_.have_ended(*steps);
    };
    for (unsigned tried = 0; tried < tries; ++tried) {
        if (all_are_obsolete()) {
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
    return all_are_obsolete();
}

/// Where there is a log, calls end when the disk has written their records. All tries of wait_until_obsolete() together
/// wait for 40 ms.
void lane_pool::wait_for_calls(unsigned tried) const noexcept {
    constexpr unsigned yields = 4;
    if (log_ == nullptr || tried < yields) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(std::chrono::microseconds(10) * (1U << (tried - yields)));
    }
}

lane_statistics lane_pool::statistics() const noexcept {
    lane_statistics sum;
    sum.lanes = lanes_.count();
    std::uint64_t ticks = 0;
    std::uint64_t longest = 0;
    for (std::uint64_t i = 0; i < sum.lanes; ++i) {
        const lane& each = lanes_[i];
        sum.records += each.sequence.load(std::memory_order_relaxed) - each.first_sequence;
        sum.fences += each.fences.load(std::memory_order_relaxed);
        sum.flushed_lines += each.flushed_lines.load(std::memory_order_relaxed);
        if (const write_back_ahead* const ahead = each.ahead.get()) {
            sum.reflushes += ahead->reflushes.load(std::memory_order_relaxed);
            ticks += ahead->ticks.load(std::memory_order_relaxed);
            longest = std::max(longest, ahead->longest_ticks.load(std::memory_order_relaxed));
        }
    }
    const checkpoint_progress::counters counted = checkpoints_.counted();
    sum.fences += counted.fences;
    sum.flushed_lines += counted.flushed_lines;
    sum.reflushes += counted.reflushes;
    sum.checkpoints = counted.checkpoints;
    sum.checkpoint_ns = spans_.nanoseconds(counted.ticks + ticks);
    sum.longest_checkpoint_ns = spans_.nanoseconds(std::max(counted.longest_ticks, longest));
    sum.helped = counted.helped;
    sum.waits = counted.waits;
    sum.media_bytes = (sum.records + sum.flushed_lines) * base::cache_line_size +
                      sum.checkpoints * sizeof(sealed_on_media<checkpoint_on_media>);
    return sum;
}

}  // namespace holdfast::lane
