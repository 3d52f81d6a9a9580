#pragma once

#include <thread>

#include "base/checked.hpp"
#include "lane/lane_set.hpp"

namespace holdfast::lane {

template <persist::persistence_domain Domain>
void lane_set<Domain>::wait(unsigned tries) noexcept {
    constexpr unsigned patience = 64;
    if (base::give_others_a_turn()) {  // the crash tests alone
    } else if (tries < patience) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));  // the other thread sleeps, or has ended
    }
    auto& waits = checkpointed_.waits;
    std::atomic_ref<std::uint64_t>(waits).fetch_add(1, std::memory_order_relaxed);
}

/// Returns T'. `lanes` may have records up to it, and `reached_` are the completed ones of each.
template <persist::persistence_domain Domain>
std::uint64_t lane_set<Domain>::time_of_checkpoint(std::uint64_t& lanes) noexcept {
    // A call announces itself before it takes its time, so each call with a time up to this one is announced: also
    // those of lanes made meanwhile, for the lanes are counted after the clock was read.
    std::uint64_t time = clock_.now();
    barrier_.see_announcements();
    lanes = lane_count_.load(std::memory_order_acquire);
    // Announcements are read first, so a call that completes between counts as one of both. A line that several lanes
    // touched is written back once, so both are read before the first line is.
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const std::uint64_t announced = lanes_[i]->announced.load(std::memory_order_acquire);
        if (announced != 0 && !HF_MUTANT("lane.checkpoint.in_flight")) {
            time = std::min(time, announced);
        }
    }
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *lanes_[i];
        reached_[i] = HF_MUTANT("lane.checkpoint.incomplete") ? each.sequence.load(std::memory_order_acquire)
                                                              : each.completed.load(std::memory_order_acquire);
    }
    return HF_MUTANT("lane.checkpoint.late_clock") ? std::max(time, clock_.now()) : time;
}

/// Returns how many of `records` it has gone through, or all of them where it cannot go on now.
template <persist::persistence_domain Domain>
std::uint64_t lane_set<Domain>::write_back(const lane& of, std::uint64_t records) noexcept {
    touched_lines before{};  // neighbouring records often touch the same lines
    std::uint64_t done = 0;
    for (; done < records && running_.next < reached_[of.index]; ++done, ++running_.next) {
        const slot_descriptor& descriptor = of.descriptors[(running_.next + 1) & of.slot_mask];
        if (descriptor.time > running_.time) {
            break;
        }
        for (std::size_t i = 0; i < descriptor.lines.size(); ++i) {
            const void* const line = descriptor.lines[i];
            if (line != nullptr && line != before[i] && lines_.insert(line)) {
                if (does_follow_states(line)) {
                    base::mutex* held = nullptr;
                    if (!follow_states(line, &held)) {
                        lines_.clear();  // it has this line, which is for a later step
                        return records;
                    }
                }
                flush_line(line);
            }
        }
        before = descriptor.lines;
    }
    return done;
}

/// Fixes T' and the records to pass. False where T' is not newer than the last one. `owner` may be null.
template <persist::persistence_domain Domain>
bool lane_set<Domain>::begin_checkpoint(const lane* owner) noexcept {
    running_.owner = nullptr;
    if (!by_clock()) {
        return false;
    }
    std::uint64_t lanes = 0;
    std::uint64_t time = time_of_checkpoint(lanes);
    if (owner != nullptr && ahead_.works(*owner)) {
        time = std::min(time, ahead_.time_written_back(*owner, lanes, reached_));
    }
    if (time <= time_.load(std::memory_order_relaxed)) {
        return false;
    }
    std::uint64_t completed = 0;
    std::uint64_t pending = 0;
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *lanes_[i];
        completed += reached_[i];
        if (each.ahead != nullptr) {
            reached_[i] = last_record_at(each, each.voided.load(std::memory_order_relaxed), reached_[i], time);
        }
        pending += reached_[i] - std::min(written_back(each), reached_[i]);
    }
    if (completed >= completed_before_ + last_lines_.size()) {
        last_lines_ = {};  // records alone took so many lines
    }
    completed_before_ = completed;
    lines_.clear();
    if (HF_MUTANT("lane.checkpoint.time_before_lines")) {
        write_time(time);
    }
    running_ = {owner, time, lanes, 0, std::min(written_back(*lanes_[0]), reached_[0]), 0, pending, 0};
    return true;
}

/// Whether records became void.
template <persist::persistence_domain Domain>
bool lane_set<Domain>::advance_checkpoint(std::uint64_t records) noexcept {
    const std::uint64_t begin = spans_.now();
    while (running_.at < running_.lanes) {
        const lane& of = *lanes_[running_.at];
        const std::uint64_t first = running_.next;
        records -= write_back(of, records);
        std::atomic_ref(helped_).store(helped_ + running_.next - first, std::memory_order_relaxed);
        if (records == 0) {
            break;
        }
        reached_[of.index] = running_.next;
        running_.passed += running_.next - of.voided.load(std::memory_order_relaxed);
        if (++running_.at < running_.lanes) {
            running_.next = std::min(written_back(*lanes_[running_.at]), reached_[running_.at]);
        }
    }
    const bool ended = running_.at == running_.lanes;
    if (ended) {
        running_.owner = nullptr;
        if (running_.passed != 0) {
            end_checkpoint();
        }
    }
    note_checkpoint_time(spans_.now() - begin);
    return ended && running_.passed != 0;
}

template <persist::persistence_domain Domain>
bool lane_set<Domain>::is_healthy() noexcept {
    if constexpr (requires { domain_.has_failed(); }) {
        if (log_ != nullptr && domain_.has_failed()) {
            try {
                log_->fail(domain_.failure());
            } catch (const std::bad_alloc&) {
                log_->fail({});
            }
        }
        return log_ == nullptr || !log_->has_failed();
    }
    return true;
}

template <persist::persistence_domain Domain>
void lane_set<Domain>::end_checkpoint() noexcept {
    const auto void_them = [this]() HF_REQUIRES(checkpoint_mutex_) {
        for (std::uint64_t i = 0; i < running_.lanes; ++i) {
            lanes_[i]->voided.store(reached_[i], std::memory_order_release);
        }
    };
    if (HF_MUTANT("lane.checkpoint.void_before_time")) {
        void_them();
    }
    domain_.fence("lane.checkpoint.fence");
    if (!is_healthy()) {
        return;  // these lines may be lost, so their records stay
    }
    write_time(running_.time);
    if (!is_healthy()) {
        return;
    }
    void_them();
    if constexpr (may_log<Domain>) {
        if (log_ != nullptr) {
            log_->release();
        }
    }
    note_checkpoint(process_crashes_only ? 0 : 2);
}

/// Only checkpoints and owners ahead of them store to these words.
template <persist::persistence_domain Domain>
bool lane_set<Domain>::follow_states(const void* address, base::mutex** held) noexcept {
    auto* const line = reinterpret_cast<std::uint64_t*>(
        base::align_down(reinterpret_cast<std::uintptr_t>(address), base::cache_line_size));
    const auto number = reinterpret_cast<std::uintptr_t>(line) / base::cache_line_size;
    base::mutex& mutex = word_mutexes_[number % word_mutexes_.size()].mutex;
    if (!mutex.try_lock()) {
        return false;
    }
    *held = &mutex;
    std::array<std::uint64_t, base::cache_line_size / sizeof(std::uint64_t)> bits{};
    options_.states->bits_of_line(line, bits);
    for (std::size_t i = 0; i < bits.size(); ++i) {
        if (std::atomic_ref<std::uint64_t>(line[i]).load(std::memory_order_relaxed) != bits[i]) {
            domain_.store(line[i], bits[i], "lane.checkpoint.bits");
        }
    }
    *held = nullptr;
    mutex.unlock();
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

}  // namespace holdfast::lane
