// How threads of a workload pass destinations on to each other.
#pragma once

#include <sched.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

/// Spins, then lets others run: the machine may have fewer cores than threads.
template <class Condition>
void wait_until(Condition holds) {
    constexpr unsigned spins = 256;
    for (unsigned tries = 0; !holds(); ++tries) {
        if (tries < spins) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        } else {
            ::sched_yield();
        }
    }
}

/// A bounded queue from one thread to one other. What the consumer looks at (front) counts as in the queue until pop.
template <class Item>
class handing_queue {
public:
    /// The capacity is rounded up to a power of two.
    explicit handing_queue(std::size_t capacity) : items_(std::bit_ceil(capacity)), mask_(items_.size() - 1) {}

    void push(Item item) {
        if (producer_.own - producer_.seen_of_other == items_.size()) {
            wait_until([this] {
                producer_.seen_of_other = popped_.count.load(std::memory_order_acquire);
                return producer_.own - producer_.seen_of_other < items_.size();
            });
        }
        items_[producer_.own & mask_] = item;
        pushed_.count.store(++producer_.own, std::memory_order_release);
    }
    [[nodiscard]] Item front() {
        if (consumer_.own == consumer_.seen_of_other) {
            wait_until([this] {
                consumer_.seen_of_other = pushed_.count.load(std::memory_order_acquire);
                return consumer_.own != consumer_.seen_of_other;
            });
        }
        return items_[consumer_.own & mask_];
    }
    void pop() { popped_.count.store(++consumer_.own, std::memory_order_release); }

private:
    struct alignas(64) shared_count {
        std::atomic<std::uint64_t> count{0};
    };
    /// Its own count, and what it last saw of the other's: most calls touch no line that the other writes.
    struct alignas(64) side {
        std::uint64_t own = 0;
        std::uint64_t seen_of_other = 0;
    };
    std::vector<Item> items_;
    std::size_t mask_;
    shared_count pushed_;
    shared_count popped_;
    side producer_;
    side consumer_;
};

/// How many threads have had a set of slots; the next one waits for its number.
struct alignas(64) turn {
    std::atomic<std::uint64_t> passed{0};
};

}  // namespace bench
