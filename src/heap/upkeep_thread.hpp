// A thread that gives free memory back while the program rests (jemalloc's background thread). Else the threads that
// allocate and free do it, and nobody does where they stop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

#include "base/atomic.hpp"
#include "base/function_ref.hpp"
#include "slab/pool/slab_upkeep.hpp"

namespace holdfast::heap {

/// Not thread-safe.
class upkeep_thread {
public:
    /// For durability `atomic` and `collect`; in `commit` a commit gives back. `decay_ns`: extent::decay_curve. The
    /// allocator must outlive this object. May throw std::system_error or std::bad_alloc.
    upkeep_thread(slab::slab_upkeep& of, std::uint64_t decay_ns);
    upkeep_thread(const upkeep_thread&) = delete;
    upkeep_thread& operator=(const upkeep_thread&) = delete;
    /// Waits for the thread. A child of fork has none, and leaks this object.
    ~upkeep_thread();

    /// In nanoseconds.
    static constexpr std::uint64_t period = 250'000'000;

    /// What such a thread does: calls `give_back` each period until it is false, or the word is no longer 0. Sleeps
    /// `periods` after the last use of the heap, until the next.
    static void run(slab::upkeep_alarm& alarm, std::uint64_t periods, const base::atomic<std::uint32_t>& ends,
                    base::function_ref<bool()> give_back) noexcept;
    /// Until all that was freed has decayed.
    [[nodiscard]] static constexpr std::uint64_t periods_for(std::uint64_t decay_ns) noexcept {
        // Slabs and cached extents first wait until they were not needed for a while, one after the other.
        constexpr std::uint64_t before_decay_ns = 4'000'000'000;
        constexpr std::uint64_t longest_decay_ns = 3'600'000'000'000;
        return (std::min(decay_ns, longest_decay_ns) + before_decay_ns) / period;
    }

private:
    slab::slab_upkeep& of_;
    base::atomic<std::uint32_t> ends_{0};
    std::thread thread_;
};

}  // namespace holdfast::heap
