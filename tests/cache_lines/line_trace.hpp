// Which cache lines the threads of a program write and others touch: what costs nothing on two cores, and most of the
// time on many. Of all memory but stacks, each access of a call is noted: pages are taken away, and a fault names the
// address, after which the instruction runs alone.
//
// Calls of several threads are traced in turn, so lines that two of them write are found by what they touch, not by
// luck. System calls that are given memory other than that of stacks fail meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace holdfast::cache_lines {

/// A line that one thread has written and another one has touched.
struct shared_line {
    std::uintptr_t line = 0;
    std::uint64_t writes = 0;
    std::uint64_t reads = 0;
    std::uint64_t foreign = 0;  ///< accesses that found the line changed by another thread since their thread's last
    std::uintptr_t written_by = 0;  ///< an instruction
};

struct traced_calls {
    std::uint64_t calls = 0;
    std::uint64_t accesses = 0;
    std::uint64_t writes = 0;
    std::uint64_t locked = 0;  ///< instructions with a lock on the bus
    /// Where caches are coherent, each moves a line from another core.
    std::uint64_t transfers = 0;
    std::vector<shared_line> shared;  ///< most transfers first
    bool all_noted = true;

    [[nodiscard]] double transfers_a_call() const noexcept {
        return calls == 0 ? 0 : static_cast<double>(transfers) / static_cast<double>(calls);
    }
    /// The worst lines, with the code that writes them.
    [[nodiscard]] std::string describe() const;
};

/// Makes what a thread calls again and again; called in that thread.
using make_calls = std::function<std::function<void()>(unsigned thread)>;

struct trace_plan {
    unsigned threads = 2;
    unsigned warm_calls = 1000;  ///< not traced, of each thread
    unsigned calls = 100;        ///< traced, of each thread
    unsigned at_a_time = 1;      ///< of one thread, before it is the next one's turn
    std::size_t line = 64;       ///< or 128, for processors that fetch lines in pairs
};

/// The calls must not throw.
[[nodiscard]] traced_calls trace(const trace_plan& plan, const make_calls& make);

}  // namespace holdfast::cache_lines
