#include "lane/lanes_ahead.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::lane {

namespace {

void add_one(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Records up to `end`.
void write_back_own(lane& own, std::uint64_t end, lanes_ahead::write_back_line write_back) noexcept {
    write_back_ahead& state = *own.ahead;
    touched_lines before{};
    while (state.next < end) {
        const touched_lines& lines = own.descriptors[++state.next & own.slot_mask].lines;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            if (lines[i] == nullptr || lines[i] == before[i] || !state.lines.insert(lines[i])) {
                continue;
            }
            if (!write_back(lines[i], &state.held)) {
                state.lines.clear();  // it has this line, which is for a later step
                --state.next;
                return;
            }
            add_one(own.flushed_lines);
            const std::uint64_t line = reinterpret_cast<std::uintptr_t>(lines[i]) / base::cache_line_size;
            if (std::ranges::find(state.last_lines, line) != state.last_lines.end()) {
                add_one(state.reflushes);
            }
            state.last_lines[state.flushes++ % state.last_lines.size()] = line;
        }
        before = lines;
    }
}

}  // namespace

bool lanes_ahead::work(lane& own, write_back_line write_back) const noexcept {
    if (!works(own)) {
        return false;
    }
    write_back_ahead& state = *own.ahead;
    if (state.until == state.durable.load(std::memory_order_relaxed)) {
        const std::uint64_t first = written_back(own);
        const std::uint64_t complete = own.sequence.load(std::memory_order_relaxed);
        if (complete - first >= ring_slots_ / 4) {
            state.next = first;
            state.until = complete;
            state.time = own.last_time;
            state.lines.clear();
        }
    }
    if (state.until != state.durable.load(std::memory_order_relaxed)) {
        const std::uint64_t begin = spans_.now();
        // Sequentially consistent, as the load of `obsolete` behind it: wait_until_obsolete() sees the step, or the
        // step what is obsolete.
        const std::uint64_t steps = state.steps.load(std::memory_order_relaxed);
        state.steps.exchange(steps + 1, std::memory_order_seq_cst);
        write_back_window(own, write_back);
        state.steps.store(steps + 2, std::memory_order_release);
        const std::uint64_t took = spans_.now() - begin;
        state.ticks.store(state.ticks.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
        if (took > state.longest_ticks.load(std::memory_order_relaxed)) {
            state.longest_ticks.store(took, std::memory_order_relaxed);
        }
    }
    return true;
}

std::uint64_t lanes_ahead::next_work(const lane& own) const noexcept {
    return own.ahead->until != own.ahead->durable.load(std::memory_order_relaxed)
               ? own.sequence.load(std::memory_order_relaxed) + records_between_steps()
               : written_back(own) + ring_slots_ / 4;
}

void lanes_ahead::write_back_window(lane& own, write_back_line write_back) const noexcept {
    write_back_ahead& state = *own.ahead;
    const std::uint64_t fences = own.fences.load(std::memory_order_relaxed);
    if (state.next != state.until) {
        // What is obsolete may be no memory any more.
        state.next = std::min(std::max(state.next, own.obsolete.load(std::memory_order_seq_cst)), state.until);
        write_back_own(own, std::min(state.until, state.next + 2 * records_between_steps()), write_back);
        state.fences = fences;
    }
    if (state.next == state.until && state.fences != fences) {
        state.durable_time.store(state.time, std::memory_order_release);
        state.durable.store(state.until, std::memory_order_release);
    }
}

std::uint64_t written_back(const lane& of) noexcept {
    const std::uint64_t obsolete = of.obsolete.load(std::memory_order_relaxed);
    return of.ahead == nullptr ? obsolete : std::max(obsolete, of.ahead->durable.load(std::memory_order_acquire));
}

std::uint64_t lanes_ahead::time_written_back(const lane& owner, std::uint64_t lanes,
                                             const std::array<std::uint64_t, maximum_lanes>& reached) const noexcept {
    const std::uint64_t wanted = std::min(owner.obsolete.load(std::memory_order_relaxed) + ring_slots_ / 8,
                                          owner.completed.load(std::memory_order_relaxed));
    const std::uint64_t least = owner.descriptors[wanted & owner.slot_mask].time;
    std::uint64_t time = ~std::uint64_t{0};
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *all_.lanes[i];
        if (each.ahead == nullptr || reached[i] <= written_back(each)) {
            continue;
        }
        time = std::min(time, std::max(least, each.ahead->durable_time.load(std::memory_order_acquire)));
    }
    return time;
}

std::uint64_t last_record_at(const lane& of, std::uint64_t first, std::uint64_t end, std::uint64_t time) noexcept {
    while (first != end) {
        const std::uint64_t middle = first + (end - first + 1) / 2;
        if (of.descriptors[middle & of.slot_mask].time <= time) {
            first = middle;
        } else {
            end = middle - 1;
        }
    }
    return first;
}

lanes_ahead::steps lanes_ahead::running() const noexcept {
    steps found{};
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::uint64_t i = 0; i < all_.count.load(std::memory_order_acquire); ++i) {
        const std::uint64_t step =
            all_.lanes[i]->ahead == nullptr ? 0 : all_.lanes[i]->ahead->steps.load(std::memory_order_acquire);
        found[i] = step % 2 == 0 ? 0 : step;
    }
    return found;
}

bool lanes_ahead::have_ended(const steps& some) const noexcept {
    for (std::uint64_t i = 0; i < all_.count.load(std::memory_order_acquire); ++i) {
        if (some[i] != 0 && all_.lanes[i]->ahead->steps.load(std::memory_order_acquire) == some[i]) {
            return false;
        }
    }
    return true;
}

void close_window(const lane& of) noexcept {
    if (of.ahead != nullptr) {
        if (base::mutex* const held = std::exchange(of.ahead->held, nullptr)) {
            held->unlock();
        }
        const std::uint64_t steps = of.ahead->steps.load(std::memory_order_relaxed);
        of.ahead->steps.store(steps + steps % 2, std::memory_order_release);
        of.ahead->until = of.ahead->durable.load(std::memory_order_relaxed);
    }
}

}  // namespace holdfast::lane
