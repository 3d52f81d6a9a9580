// The checkpoint of lane_set: included by lane_set.hpp alone.
#pragma once

#include <thread>

#include "lane/lane_set.hpp"

namespace holdfast::lane {

template <persist::persistence_domain Domain>
void lane_set<Domain>::wait(unsigned tries) noexcept {
    constexpr unsigned patience = 64;
    if (base::give_others_a_turn()) {  // the crash tests alone
    } else if (tries < patience) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));  // its thread sleeps, or died with the call
    }
    auto& waits = checkpointed_.waits;
    std::atomic_ref<std::uint64_t>(waits).fetch_add(1, std::memory_order_relaxed);
}

/// Under the lock of checkpoints.
inline void count_checkpoint(lane_statistics& counters, std::chrono::steady_clock::time_point begin) noexcept {
    const auto add = [](std::uint64_t& counter, std::uint64_t value) {
        std::atomic_ref<std::uint64_t> all(counter);
        all.store(all.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
    };
    const auto elapsed = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count());
    add(counters.fences, 2);
    add(counters.checkpoints, 1);
    add(counters.checkpoint_ns, elapsed);
    std::atomic_ref<std::uint64_t> longest(counters.longest_checkpoint_ns);
    longest.store(std::max(longest.load(std::memory_order_relaxed), elapsed), std::memory_order_relaxed);
}

template <persist::persistence_domain Domain>
bool lane_set<Domain>::checkpoint_locked() noexcept {
    if (options_.order == record_order::in_flight) {
        return false;
    }
    const auto begin = std::chrono::steady_clock::now();
    // Every call whose record has a time up to this one announced itself before it took that time.
    std::uint64_t time = clock_.now();
    barrier_.see_announcements();
    const std::uint64_t lanes = lane_count_.load(std::memory_order_acquire);
    if (!HF_MUTANT("lane.checkpoint.in_flight")) {
        for (std::uint64_t i = 0; i < lanes; ++i) {
            const std::uint64_t announced = lanes_[i]->announced.load(std::memory_order_acquire);
            time = announced != 0 ? std::min(time, announced) : time;
        }
    }
    if (HF_MUTANT("lane.checkpoint.late_clock")) {
        time = std::max(time, clock_.now());
    }
    if (time <= time_.load(std::memory_order_relaxed)) {
        return false;
    }
    lines_.clear();
    if (HF_MUTANT("lane.checkpoint.time_before_lines")) {
        write_time(time);
    }
    std::uint64_t passed = 0;
    std::uint64_t records = 0;
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *lanes_[i];
        const std::uint64_t completed = HF_MUTANT("lane.checkpoint.incomplete")
                                            ? each.sequence.load(std::memory_order_acquire)
                                            : each.completed.load(std::memory_order_acquire);
        std::uint64_t next = each.voided.load(std::memory_order_relaxed);
        records += completed;
        for (; next < completed; ++next) {
            const slot_twin& twin = each.twins[(next + 1) & each.slot_mask];
            if (twin.time > time) {
                break;
            }
            for (const void* line : twin.lines) {
                if (line != nullptr && lines_.insert(line)) {
                    flush_line(line);
                }
            }
        }
        passed += next - each.voided.load(std::memory_order_relaxed);
        reached_[i] = next;
    }
    if (passed == 0) {
        return false;
    }
    if (records >= records_seen_ + last_lines_.size()) {
        last_lines_ = {};  // so many lines of records were written since
    }
    records_seen_ = records;
    if (HF_MUTANT("lane.checkpoint.void_before_time")) {
        for (std::uint64_t i = 0; i < lanes; ++i) {
            lanes_[i]->voided.store(reached_[i], std::memory_order_release);
        }
    }
    domain_.fence("lane.checkpoint.fence");
    write_time(time);
    for (std::uint64_t i = 0; i < lanes; ++i) {
        lanes_[i]->voided.store(reached_[i], std::memory_order_release);
    }
    count_checkpoint(checkpointed_, begin);
    return true;
}

template <persist::persistence_domain Domain>
void lane_set<Domain>::flush_line(const void* address) noexcept {
    domain_.flush(address, 1, "lane.checkpoint.flush");
    const std::uint64_t line = reinterpret_cast<std::uintptr_t>(address) / base::cache_line_size;
    std::atomic_ref<std::uint64_t> flushed(checkpointed_.flushed_lines);
    const std::uint64_t before = flushed.load(std::memory_order_relaxed);
    if (std::find(last_lines_.begin(), last_lines_.end(), line) != last_lines_.end()) {
        std::atomic_ref<std::uint64_t> again(checkpointed_.reflushes);
        again.store(again.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    last_lines_[before % last_lines_.size()] = line;
    flushed.store(before + 1, std::memory_order_relaxed);
}

/// LANE-9: T is durable only after all lines that records up to T touched.
template <persist::persistence_domain Domain>
void lane_set<Domain>::write_time(std::uint64_t time) noexcept {
    const checkpoint_time_on_media sealed = sealed_time(time, options_.heap_key);
    // The copy that is not in force.
    auto* const copies = times();
    const bool first_in_force =
        is_sealed(copies[0], options_.heap_key) && copies[0].time == time_.load(std::memory_order_relaxed);
    const bool second = HF_MUTANT("lane.checkpoint.copy_in_force") ? !first_in_force : first_in_force;
    domain_.copy_nontemporal(&copies[second ? 1 : 0], &sealed, sizeof sealed, "lane.checkpoint.time.write");
    domain_.fence("lane.checkpoint.time.fence");
    time_.store(time, std::memory_order_release);
}

}  // namespace holdfast::lane
