// Which operations serve the calls of an open heap, as its durability asks for them, and how they begin and end.
//
// Invariants:
//   HEAP-7: durability() and the operations change together: when a heap is opened, closed, or abandoned by a child of
//           fork. Nothing is inferred from pointers that are null.
//
// Thread safety: any number of threads may ask; what begins or ends operations runs alone.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "heap/atomic/atomic_operations.hpp"
#include "heap/operations/block_operations.hpp"
#include "heap/operations/destination_operations.hpp"

namespace holdfast::heap {

class heap_operations;

enum class durability_kind : std::uint8_t { commit = 1, collect = 2, atomic = 3 };

class chosen_operations {
public:
    /// Those of durability `commit`, without destinations.
    explicit chosen_operations(heap_operations& heap) noexcept;

    /// `commit` for a heap that is closed or opened read-only.
    [[nodiscard]] durability_kind durability() const noexcept { return durability_; }
    [[nodiscard]] block_operations& on_blocks() const noexcept { return *operations_; }
    /// Calls may go to the allocator without them (HEAP-4).
    [[nodiscard]] bool is_direct() const noexcept { return is_direct_; }
    /// Null if the heap is open read-only.
    [[nodiscard]] destination_operations* destinations() const noexcept { return destinations_; }
    /// Null in the other durabilities.
    [[nodiscard]] atomic_operations* atomic() const noexcept { return atomic_; }

    // Opening, in this order, after recovery.
    base::result<void> start_atomic(std::uint64_t lane_slots);
    base::result<void> start_collect();
    /// Before any thread allocates.
    void harden();
    /// After the blocks are opened, before one is handed out.
    base::result<void> start_guards();
    void start_destinations();

    /// After the files are closed.
    void stop() noexcept;
    /// For a child of fork without a copy of the heap: every later call fails.
    void abandon() noexcept;
    /// For a child of fork that has one.
    void continue_directly();

private:
    void use(block_operations& chosen) noexcept;
    void own(std::unique_ptr<block_operations> chosen) noexcept;

    heap_operations& heap_;
    direct_operations direct_;
    std::unique_ptr<block_operations> owned_;
    std::unique_ptr<atomic_operations> of_atomic_;
    std::unique_ptr<destination_operations> ordered_;  ///< of durability `commit` and `collect`
    struct {
        atomic_operations* of = nullptr;
        bool operator()() const noexcept { return of == nullptr || of->wait_until_obsolete(); }
    } written_back_check_;
    block_operations* operations_ = &direct_;
    atomic_operations* atomic_ = nullptr;
    destination_operations* destinations_ = nullptr;
    durability_kind durability_ = durability_kind::commit;
    bool is_direct_ = true;
};

}  // namespace holdfast::heap
