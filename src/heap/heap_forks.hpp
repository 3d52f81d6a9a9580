// What a child of fork does with a heap that its parent has open.
//
// Invariants:
//   HEAP-11: a child without a copy of the heap's memory changes nothing in it: every call fails with `wrong_process`.
//            A child has a copy after prepare() in the parent; after continue_in_child() the two are independent.
//   HEAP-27: a child without a copy of the parts in memory that threads share (lists, caches, extents) destroys nothing
//            of them: at the fork any thread of the parent may have been in the middle of a change.
//
// Thread safety: no other thread is in a call of the heap.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "heap/heap_operations.hpp"

namespace holdfast::heap {

/// Where the thread was that forks.
enum class fork_point {
    between_calls,
    within_a_call,  ///< in a signal handler, with locks of its own held and lists half changed
};

class heap_forks {
public:
    explicit heap_forks(heap_operations& heap) noexcept : heap_(heap) {}

    /// Children continue a copy of this heap (scratch, or durability `collect`).
    void keep_in_children() noexcept { keeps_children_ = true; }
    /// Before fork().
    base::result<void> prepare() { return heap_.files().show_to_child(true); }
    /// In the parent, after the child has its copy.
    void resume() noexcept;
    /// In the child. After a failure it must not touch the heap.
    base::result<void> continue_in_child(fork_point forked = fork_point::between_calls);
    /// Durability `atomic` and `collect`: every later call fails.
    void abandon_in_child() noexcept;
    /// engine::leave_to_parent().
    void leave_to_parent() noexcept;

private:
    void find_used(segment::free_runs& used, std::vector<base::granule>& slabs) const;
    /// As find_used(), by no lock and no list of extents: all but guard ranges, which cannot be read.
    void take_all(segment::free_runs& used, std::vector<base::granule>& slabs) const;
    /// The parts of `runs` that have space in the files: a load from a hole may take space for it.
    [[nodiscard]] base::result<segment::free_runs> without_holes(const segment::free_runs& runs) const;

    heap_operations& heap_;
    bool keeps_children_ = false;
};

}  // namespace holdfast::heap
