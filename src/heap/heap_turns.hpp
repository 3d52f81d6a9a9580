// Turns of an open heap that processes share (segment/files/heap_turns.hpp), for the thread that has its process's
// turn; no other uses the heap.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "heap/heap.hpp"

namespace holdfast::heap {

class turns_of_heap {
public:
    /// Another process had the turn since `old` was read: the heap as it is now, at the addresses that it had. It is
    /// `old` itself where no table of the heap has changed. Null on failure.
    static base::result<std::unique_ptr<engine>> follow(std::unique_ptr<engine> old, const engine_options& options);
    /// The turn is given away: from now on every change is refused, as in a heap opened read-only.
    static void rest(engine& heap) noexcept;
    static base::result<void> wake(engine& heap);
};

}  // namespace holdfast::heap
