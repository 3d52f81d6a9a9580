// The workloads, the same for all backends. Each is one thread's part; it leaves all destinations null and returns how
// many calls it made (an allocation is one, a free is one).
//
// Threadtest, prod-con and Larson measure PMAlloc and its forerunners (PMAlloc, TOCS 2024, section 8); what differs is
// said beside each.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "allocators/allocation_run.hpp"
#include "allocators/callers.hpp"
#include "allocators/handing_over.hpp"
#include "allocators/large_workloads.hpp"
#include "allocators/sizes.hpp"
#include "allocators/space_workloads.hpp"
#include "applications/application.hpp"
#include "support/random.hpp"

namespace bench {

/// What the threads of a run share.
template <class Destination>
class allocation_field {
public:
    /// `look` is called while all threads rest, with the bytes that live.
    allocation_field(const allocation_run& run, Destination* first,
                     std::function<void(resting, std::uint64_t)> look = {})
        : run_(run),
          demand_(demand_of(run)),
          first_(first),
          look_(std::move(look)),
          resting_(static_cast<std::ptrdiff_t>(run.threads)),
          answers_(run.threads) {
        for (unsigned i = 0; i < (run.threads + 1) / 2; ++i) {
            queues_.emplace_back(run.queue);
        }
        turns_ = std::vector<turn>(run.threads);
    }
    /// Between two passes, while no thread runs.
    void reset() {
        for (turn& one : turns_) {
            one.passed.store(0, std::memory_order_relaxed);
        }
    }
    [[nodiscard]] const allocation_run& run() const noexcept { return run_; }
    [[nodiscard]] Destination* first() const noexcept { return first_; }
    /// The destinations of one thread; `count` of them, the rest fills the last cache line.
    [[nodiscard]] std::span<Destination> part(unsigned thread, std::size_t count) const noexcept {
        return {first_ + std::size_t{thread} * demand_.destinations_a_thread, count};
    }
    [[nodiscard]] std::span<Destination> all() const noexcept { return {first_, demand_.destinations}; }
    [[nodiscard]] handing_queue<Destination*>& queue_of(unsigned thread) { return queues_[thread / 2]; }
    [[nodiscard]] turn& turn_of(std::size_t set) { return turns_[set]; }
    /// All threads come here and rest while one looks.
    void all_rest(unsigned thread, resting when, std::uint64_t live_bytes) {
        live_bytes_.fetch_add(live_bytes, std::memory_order_relaxed);
        resting_.arrive_and_wait();
        if (thread == 0) {
            look_(when, live_bytes_.exchange(0, std::memory_order_relaxed));
        }
        resting_.arrive_and_wait();
    }
    /// The checksum of an application's answer, of the thread's last pass.
    [[nodiscard]] std::uint64_t& answer_of(unsigned thread) { return answers_[thread]; }

private:
    const allocation_run& run_;
    allocation_demand demand_;
    Destination* first_;
    std::deque<handing_queue<Destination*>> queues_;
    std::vector<turn> turns_;
    std::function<void(resting, std::uint64_t)> look_;
    std::barrier<> resting_;
    std::atomic<std::uint64_t> live_bytes_{0};
    std::vector<std::uint64_t> answers_;
};

/// Allocates into one destination and frees it, in turn for the thread's destinations.
template <class Caller, class Field>
std::uint64_t run_pair(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    const auto own = field.part(thread, field.run().destinations);
    const std::size_t size = field.run().size;
    const std::uint64_t pairs = std::max<std::uint64_t>(calls / 2, 1);
    std::size_t next = 0;
    for (std::uint64_t i = 0; i < pairs; ++i) {
        caller.allocate(own[next], size);
        caller.release(own[next]);
        next = next + 1 == own.size() ? 0 : next + 1;
    }
    return pairs * 2;
}

/// Allocates into many destinations with one call and frees them with one. Each block counts as a call.
template <class Caller, class Field>
std::uint64_t run_batch(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    using destination = typename Caller::destination;
    const std::size_t size = field.run().size;
    std::vector<destination*> many;
    for (destination& one : field.part(thread, field.run().batch)) {
        many.push_back(&one);
    }
    const std::uint64_t rounds = std::max<std::uint64_t>(calls / (2 * many.size()), 1);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        caller.allocate_batch(many, size);
        caller.release_batch(many);
    }
    return rounds * 2 * many.size();
}

/// Threadtest: allocates all of `own`, frees all, again and again. Touch: blocks are large, and touched.
template <bool Touch, class Caller, class Destination>
std::uint64_t allocate_and_free_all(Caller& caller, std::span<Destination> own, std::size_t size, std::uint64_t calls) {
    const std::uint64_t rounds = std::max<std::uint64_t>(calls / (2 * own.size()), 1);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        for (auto& one : own) {
            caller.allocate(one, size);
            if constexpr (Touch) {
                caller.touch_ends(one, size);
            }
        }
        for (auto& one : own) {
            caller.release(one);
        }
    }
    return rounds * 2 * own.size();
}

/// PAllocator's figure 12: allocates all of `own` with random sizes, frees all, again and again.
template <class Caller, class Destination>
std::uint64_t allocate_random_sizes(Caller& caller, std::span<Destination> own, const random_sizes& sizes,
                                    random_source random, std::uint64_t calls) {
    const std::uint64_t rounds = std::max<std::uint64_t>(calls / (2 * own.size()), 1);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        for (auto& one : own) {
            const std::size_t size = sizes.draw(random);
            caller.allocate(one, size);
            caller.touch_ends(one, size);
        }
        for (auto& one : own) {
            caller.release(one);
        }
    }
    return rounds * 2 * own.size();
}

/// Producer and consumer, in pairs of threads: one allocates, the other frees what comes through the queue. One thread
/// alone does both in turn, a free half a queue behind its allocation.
template <class Caller, class Field>
std::uint64_t run_prod_con(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    auto& queue = field.queue_of(thread);
    const std::size_t size = field.run().size;
    const auto own = field.part(thread - thread % 2, 2 * field.run().queue);
    std::size_t next = 0;
    const auto produce = [&] {
        caller.allocate(own[next], size);
        queue.push(&own[next]);
        next = next + 1 == own.size() ? 0 : next + 1;
    };
    const auto consume = [&] {
        caller.release(*queue.front());
        queue.pop();
    };
    if (field.run().threads == 1) {
        const std::uint64_t objects = std::max<std::uint64_t>(calls / 2, 1);
        const std::uint64_t ahead = std::min<std::uint64_t>(objects, field.run().queue / 2);
        for (std::uint64_t i = 0; i < ahead; ++i) {
            produce();
        }
        for (std::uint64_t i = ahead; i < objects; ++i) {
            produce();
            consume();
        }
        for (std::uint64_t i = 0; i < ahead; ++i) {
            consume();
        }
        return objects * 2;
    }
    for (std::uint64_t i = 0; i < calls; ++i) {
        if (thread % 2 == 0) {
            produce();
        } else {
            consume();
        }
    }
    return calls;
}

/// Larson: a thread frees a random one of its slots and allocates a block into it, of 64 to 256 B (larson-small), 1 to
/// 4 KiB (larson-medium), 64 to 256 KiB (larson-256k) or 32 to 512 KiB. After so many steps, its slots go to another
/// thread. Larson's server starts a thread for them; here they go round among the threads, each of which waits only for
/// the one before it, so that neither starting threads nor a barrier is measured.
template <size_range Sizes, bool Large, class Caller, class Field>
std::uint64_t run_larson(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    const allocation_run& run = field.run();
    random_source random(mix(run.seed + thread));
    const auto fill = [&caller, &random](auto& slot) {
        const std::size_t size = random.between(Sizes.least, Sizes.greatest);
        caller.allocate(slot, size);
        if constexpr (Large) {
            caller.touch_ends(slot, size);
        }
    };
    const std::size_t count = Large ? run.large_slots : run.slots;
    const std::uint64_t fills = 2 * std::uint64_t{count};
    const std::uint64_t steps = calls > fills + 2 ? (calls - fills) / 2 : 1;
    const std::uint64_t turns = (steps + run.handover_steps - 1) / run.handover_steps;
    std::uint64_t left = steps;
    for (std::uint64_t number = 0; number < turns; ++number) {
        const std::size_t set = static_cast<std::size_t>((thread + number) % run.threads);
        const auto slots = field.part(static_cast<unsigned>(set), count);
        auto& passed = field.turn_of(set).passed;
        wait_until([&] { return passed.load(std::memory_order_acquire) == number; });
        if (number == 0) {
            for (auto& slot : slots) {
                fill(slot);
            }
        }
        const std::uint64_t now = std::min<std::uint64_t>(left, run.handover_steps);
        for (std::uint64_t i = 0; i < now; ++i) {
            auto& slot = slots[random.below(slots.size())];
            caller.release(slot);
            fill(slot);
        }
        left -= now;
        if (number + 1 == turns) {
            for (auto& slot : slots) {
                caller.release(slot);
            }
        }
        passed.store(number + 1, std::memory_order_release);
    }
    return steps * 2 + fills;
}

/// Shbench, after descriptions of MicroQuill's: sizes of 1 to 1,000 B, more small ones, and long-lived blocks among
/// short-lived ones. A thread replaces a random block by another: half of the time one of the first 64th of its slots,
/// three eighths of the time of the next eighth, else any of the rest.
template <class Caller, class Field>
std::uint64_t run_shbench(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    const auto slots = field.part(thread, field.run().shbench_slots);
    const std::size_t young = std::max<std::size_t>(slots.size() / 64, 1);
    const std::size_t middle = std::max<std::size_t>(slots.size() / 8, 1);
    random_source random(mix(field.run().seed + thread));
    const auto draw_slot = [&] {
        const std::uint64_t lifetime = random.below(8);
        if (lifetime < 4) {
            return random.below(young);
        }
        return lifetime < 7 ? young + random.below(middle)
                            : young + middle + random.below(slots.size() - young - middle);
    };
    for (auto& slot : slots) {
        caller.allocate(slot, draw_shbench_size(random));
    }
    const std::uint64_t filling = 2 * std::uint64_t{slots.size()};
    const std::uint64_t steps = calls > filling + 2 ? (calls - filling) / 2 : 1;
    for (std::uint64_t i = 0; i < steps; ++i) {
        auto& slot = slots[draw_slot()];
        caller.release(slot);
        caller.allocate(slot, draw_shbench_size(random));
    }
    for (auto& slot : slots) {
        caller.release(slot);
    }
    return steps * 2 + filling;
}

/// As shbench; then each thread frees all and is idle, and what is held is measured.
template <class Caller, class Field>
std::uint64_t run_idle_caches(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    field.all_rest(thread, resting::at_start, 0);
    const std::uint64_t made = run_shbench(caller, field, thread, calls);
    field.all_rest(thread, resting::at_end, 0);
    return made;
}

/// What an application sees of its thread's destinations.
template <class Caller>
class destination_memory final : public application_memory {
public:
    using destination = typename Caller::destination;

    destination_memory(Caller& caller, std::span<destination> own) : caller_(caller), own_(own) {}
    void* allocate(std::size_t which, std::size_t size) override {
        caller_.allocate(own_[which], size);
        return caller_.block(own_[which]);
    }
    void release(std::size_t which) override { caller_.release(own_[which]); }

private:
    Caller& caller_;
    std::span<destination> own_;
};

template <class Caller, class Field>
std::uint64_t run_application(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    const application& program = *find_application(field.run().workload);
    destination_memory<Caller> memory(caller, field.part(thread, program.demand(field.run()).blocks));
    const application_outcome outcome = program.work(memory, field.run(), thread, calls);
    field.answer_of(thread) = outcome.checksum;
    return outcome.calls;
}

template <class Caller, class Field>
std::uint64_t run_workload(workload_kind kind, Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    const allocation_run& run = field.run();
    switch (kind) {
        case workload_kind::threadtest:
            return allocate_and_free_all<false>(caller, field.part(thread, run.objects), run.size, calls);
        case workload_kind::latency_million:
            return allocate_and_free_all<false>(caller, field.part(thread, run.latency_blocks), run.size, calls);
        case workload_kind::threadtest_large:
            return allocate_and_free_all<true>(caller, field.part(thread, run.large_objects), threadtest_large_size,
                                               calls);
        case workload_kind::prod_con: return run_prod_con(caller, field, thread, calls);
        case workload_kind::larson_small: return run_larson<small_sizes, false>(caller, field, thread, calls);
        case workload_kind::larson_medium: return run_larson<medium_sizes, false>(caller, field, thread, calls);
        case workload_kind::larson_big: return run_larson<big_sizes, true>(caller, field, thread, calls);
        case workload_kind::larson_large: return run_larson<large_sizes, true>(caller, field, thread, calls);
        case workload_kind::random_sizes:
            return allocate_random_sizes(caller, field.part(thread, run.random_objects), random_sizes_of(run.workload),
                                         random_source(mix(run.seed + thread)), calls);
        case workload_kind::dbmstest: return run_dbmstest(caller, field, thread, calls);
        case workload_kind::batch: return run_batch(caller, field, thread, calls);
        case workload_kind::shbench: return run_shbench(caller, field, thread, calls);
        case workload_kind::fragmentation: return run_fragmentation(caller, field, thread);
        case workload_kind::idle_caches: return run_idle_caches(caller, field, thread, calls);
        case workload_kind::application: return run_application(caller, field, thread, calls);
        case workload_kind::transactions:
        case workload_kind::index: throw std::logic_error("it has a runner of its own");
        case workload_kind::pair:
        case workload_kind::latency: break;
    }
    return run_pair(caller, field, thread, calls);
}

}  // namespace bench
