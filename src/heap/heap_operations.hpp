// The calls of an open heap on its blocks, in its durability.
//
// Invariants:
//   HEAP-7: durability() and the operations change together: when a heap is opened, closed, or abandoned by a child of
//           fork. Nothing is inferred from pointers that are null.
//   HEAP-8: fast_path() serves calls only if nothing else must see them: the heap is open for writing, in durability
//           `commit` or `collect`, not hardened, without a free filter, and not abandoned.
//
// Thread safety: any number of threads may call the functions on blocks and use destinations(); all else runs alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/result.hpp"
#include "heap/atomic/atomic_operations.hpp"
#include "heap/block_operations.hpp"
#include "heap/destination_operations.hpp"
#include "heap/device_pins.hpp"
#include "heap/heap_parts.hpp"

namespace holdfast::heap {

enum class durability_kind : std::uint8_t { commit = 1, collect = 2, atomic = 3 };

class heap_operations : public heap_parts {
public:
    /// Durability `commit`, without destinations.
    explicit heap_operations(std::unique_ptr<segment::heap_files> files);

    /// `commit` for a heap that is closed or opened read-only.
    [[nodiscard]] durability_kind durability() const noexcept { return durability_; }

    /// Null on failure; last_failure() of this thread says why.
    [[nodiscard]] void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type = 0) noexcept {
        if (!is_direct_) {
            return operations_->allocate(bytes, alignment, type);
        }
        return type == 0 ? blocks().allocate(bytes, alignment) : blocks().allocate_typed(bytes, alignment, type);
    }
    [[nodiscard]] static const base::failure& last_failure() noexcept { return slab::block_allocator::last_failure(); }
    /// False, and nothing changed, where it is not allocated.
    [[nodiscard]] bool try_deallocate(void* address) noexcept {
        if (keep_back_) [[unlikely]] {
            return free_filtered(address);
        }
        return free_at_once(address);
    }
    /// Past the free filter.
    [[nodiscard]] bool free_at_once(void* address) noexcept {
        return is_direct_ ? blocks().try_free(address) : operations_->deallocate(address);
    }
    /// Fails with bad_address, and changes nothing, where no allocated block begins.
    base::result<void> deallocate(void* address);
    /// The filter sees every free of an allocated block, in the freeing thread. True: it keeps the block, and calls
    /// free_at_once() later. It must not throw. Empty: no filter. No other thread uses the heap.
    using free_filter = std::function<bool(void*)>;
    void set_free_filter(free_filter filter) noexcept {
        keep_back_ = std::move(filter);
        find_fast_path();
    }
    base::result<std::uint64_t> usable_size(const void* address) { return blocks().inspect().usable_size(address); }
    base::result<std::uint32_t> type_of(const void* address) { return blocks().inspect().type_of(address); }
    [[nodiscard]] bool all_free() { return blocks().inspect().all_free(); }
    bool follow_this_thread() noexcept { return !read_only() && blocks().small().follow_this_thread(); }

    [[nodiscard]] device_pins& pins() noexcept { return pins_; }
    /// What a commit waits for (slab/calls/change_gate.hpp); null where a commit drops no page.
    [[nodiscard]] slab::change_gate* changes() noexcept {
        return durability_ == durability_kind::commit ? &slab::changes_of(blocks()) : nullptr;
    }
    /// Null if the heap is open read-only.
    [[nodiscard]] destination_operations* destinations() noexcept { return destinations_; }
    [[nodiscard]] atomic_operations* atomic() noexcept { return atomic_; }
    /// For small blocks. Where HEAP-8 forbids it, the path of no heap, which serves no call.
    [[nodiscard]] const slab::fast_path* fast_path() const noexcept { return fast_path_; }
    void keep(const slab::held_block& held) noexcept {
        if (is_direct_) {
            blocks().keep(held);
        } else {
            operations_->keep(held);
        }
    }
    /// For block_allocator::resize_pages(): no record or flush must say the new length.
    [[nodiscard]] bool can_resize_in_place() const noexcept { return is_direct_; }
    /// Fails with poisoned once a sync of a commit, a close or a call has failed.
    [[nodiscard]] base::result<void> check_health() {
        HF_TRY(files().session().check_health());
        return atomic_ == nullptr ? base::result<void>() : atomic_->lanes().check_health();
    }
    /// See lane_pool::settle().
    [[nodiscard]] bool settle() noexcept { return atomic_ == nullptr || atomic_->settle(); }

    /// For the program's data: flush() starts a write-back, drain() waits for this thread's.
    void flush(const void* begin, std::uint64_t bytes) noexcept {
        if (!is_direct_) {
            operations_->flush(begin, bytes);
        }
    }
    void drain() noexcept {
        if (!is_direct_) {
            operations_->drain();
        }
    }
    void persist(const void* begin, std::uint64_t bytes) noexcept {
        flush(begin, bytes);
        drain();
    }

protected:
    ~heap_operations() = default;

    void write_back() noexcept { operations_->write_back(); }
    /// After the files are closed.
    void stop() noexcept;

private:
    friend class heap_forks;
    friend class heap_opening;

    // Opening, in this order, after recovery.
    base::result<void> start_atomic(std::uint64_t lane_slots);
    base::result<void> start_collect();
    /// Before any thread allocates.
    void harden();
    /// After the blocks are opened, before one is handed out.
    base::result<void> start_guards();
    void start_destinations();
    void find_fast_path() noexcept;

    /// For a child of fork without a copy of the heap: every later call fails.
    void abandon() noexcept;
    /// For a child of fork that has one.
    void continue_directly();

    [[nodiscard]] bool free_filtered(void* address) noexcept;
    void use(block_operations& chosen) noexcept;
    void own(std::unique_ptr<block_operations> chosen) noexcept;

    device_pins pins_{*this};
    free_filter keep_back_;
    direct_operations direct_;
    std::unique_ptr<block_operations> owned_;
    std::unique_ptr<destination_operations> ordered_;  ///< of durability `commit` and `collect`
    struct {
        atomic_operations* of = nullptr;
        bool operator()() const noexcept { return of == nullptr || of->settle(); }
    } settle_;
    // For the fast path.
    block_operations* operations_ = &direct_;
    atomic_operations* atomic_ = nullptr;
    destination_operations* destinations_ = nullptr;
    const slab::fast_path* fast_path_ = &slab::fast_path::of_no_heap();
    durability_kind durability_ = durability_kind::commit;
    bool is_direct_ = true;
};

/// Stored zeros are as durable as what the program stores itself.
enum class zeros { stored, durable };
/// Makes a block zero that nobody else uses, within a change (changes()). Takes no memory for pages that are zero
/// already.
void zero(heap_operations& of, void* block, std::uint64_t bytes, zeros kind) noexcept;

}  // namespace holdfast::heap
