// The states of an open heap to which its transactions go back, in durability `commit` (decision 38): the last is that
// of the innermost transaction.
//
// Invariants:
//   HEAP-26: at a savepoint every page that differs from the last commit has a copy (page_savepoints), and every slab
//            that differs from its bitmap.
//
// For one thread at a time, except for note_made() and note_gone() under object_mutex().
#pragma once

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "heap/heap_operations.hpp"
#include "heap/heap_space.hpp"
#include "segment/commit/page_savepoints.hpp"
#include "slab/pool/pinned_blocks.hpp"

namespace holdfast::heap {

class savepoints {
public:
    savepoints(heap_operations& heap, heap_space& space) noexcept;
    savepoints(const savepoints&) = delete;
    savepoints& operator=(const savepoints&) = delete;
    ~savepoints() = default;

    /// What is left of small blocks that an abort removes: bytes with this value. Best effort, as there is not always
    /// memory for it.
    static constexpr unsigned char gone = 0xdb;
    void fill_what_goes() noexcept { fills_ = true; }
    [[nodiscard]] bool any() const noexcept { return !levels_.empty(); }
    /// May throw std::bad_alloc.
    base::result<void> begin(segment::memory_is memory = segment::memory_is::unknown);
    /// Forgets the last one: what came since belongs to the one before. Needs no memory.
    void keep() noexcept;
    /// Goes back to the last one, and forgets it. Needs no memory.
    void roll_back() noexcept;
    /// Commits the heap. With savepoints there is exactly one: the heap goes back to it where the commit fails, except
    /// where only the next open tells what is durable (poisoned). None is left. May throw std::bad_alloc.
    base::result<segment::commit_statistics> commit();
    /// Without savepoints. True: the present state was taken, and finish() of the committer makes it durable; threads
    /// may go on. False: it is durable.
    base::result<bool> commit_later();
    /// So many pages were copied since the last commit, several times perhaps.
    [[nodiscard]] std::uint64_t copied_pages() const noexcept { return pages_.copied_pages(); }

    // The directory has got an object, or lost it. Only with savepoints.
    /// The next call of one of the two below needs no memory. May throw std::bad_alloc.
    void make_room();
    void note_made(std::uint64_t offset) noexcept { note({offset, false, {}}); }
    /// `pin`: of its block; it comes back with it.
    void note_gone(std::uint64_t offset, slab::pin_place pin) noexcept { note({offset, true, std::move(pin)}); }

private:
    struct changed_object {
        std::uint64_t offset = 0;
        bool is_gone = false;
        slab::pin_place pin;
    };
    struct level {
        std::list<changed_object> objects;
    };

    void note(changed_object&& changed) noexcept {
        room_.front() = std::move(changed);
        levels_.back().objects.splice(levels_.back().objects.end(), room_, room_.begin());
    }
    void unpin_made(level& last) noexcept;
    void pin_gone(level& last) noexcept;
    void forget_all() noexcept;
    /// Of a page of the heap or of the directory of objects: hardened heaps guard free pages.
    [[nodiscard]] bool has_access(const std::byte* page) const noexcept;

    heap_operations& heap_;
    heap_space& space_;
    segment::page_savepoints pages_;
    std::vector<level> levels_;
    std::list<changed_object> room_;
    bool fills_ = false;
};

}  // namespace holdfast::heap
