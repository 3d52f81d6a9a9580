// The parts of an open heap (files, extents, blocks, objects, types), and the calls on its blocks in its durability.
//
// Invariants:
//   HEAP-6: the parts live and die together, and each refers only to those above it in the list of members.
//   HEAP-8: fast_path() serves calls only if nothing else must see them: the heap is open for writing, in durability
//           `commit` or `collect`, not hardened, without a free filter, and not abandoned.
//
// Thread safety: any number of threads may call the functions on blocks and use destinations(); objects() and types()
// need object_mutex(); the parts have their own rules; all else runs alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "extent/extent.hpp"
#include "heap/chosen_operations.hpp"
#include "heap/device_pins.hpp"
#include "heap/objects/object_directory.hpp"
#include "heap/objects/type_registry.hpp"
#include "segment/heap_files.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// Words at the beginning of the heap (files().view().base()) that hold a `ptr`.
inline constexpr std::uint64_t root_count = 512;

class heap_parts {
public:
    /// The extents and blocks are not open yet.
    explicit heap_parts(std::unique_ptr<segment::heap_files> files);

    [[nodiscard]] segment::heap_files& files() noexcept { return *files_; }
    [[nodiscard]] const segment::heap_files& files() const noexcept { return *files_; }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return extents_; }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    [[nodiscard]] object_directory& objects() noexcept { return objects_; }
    [[nodiscard]] type_registry& types() noexcept { return types_; }
    [[nodiscard]] std::recursive_mutex& object_mutex() noexcept { return object_mutex_; }

    [[nodiscard]] std::uint64_t key() const noexcept { return files_->superblock().heap_key; }
    /// Created so: no two blocks share a cache line.
    [[nodiscard]] bool separates_cache_lines() const noexcept {
        return (files_->superblock().flags & segment::flag_separate_lines) != 0;
    }
    [[nodiscard]] bool read_only() const noexcept { return !files_->location().is_writer(); }
    /// Fails with `wrong_process` in a child of fork.
    [[nodiscard]] base::result<void> check_process() const { return files_->location().check_process(); }
    /// Fails with `unsupported` in a heap without files.
    [[nodiscard]] base::result<void> refuse_scratch() const;

protected:
    ~heap_parts() = default;
    /// The other parts must go before the files do.
    [[nodiscard]] std::unique_ptr<segment::heap_files> take_files() noexcept { return std::move(files_); }
    [[nodiscard]] bool has_files() const noexcept { return files_ != nullptr; }

private:
    std::unique_ptr<segment::heap_files> files_;
    extent::extent_allocator extents_;
    slab::block_allocator blocks_;
    object_directory objects_;
    type_registry types_;
    std::recursive_mutex object_mutex_;
};

/// Usable bytes; 0 where no allocated block begins there.
[[nodiscard]] std::uint64_t block_size_at(heap_parts& of, std::uint64_t offset);

class heap_operations : public heap_parts {
public:
    /// Durability `commit`, without destinations.
    explicit heap_operations(std::unique_ptr<segment::heap_files> files);

    /// `commit` for a heap that is closed or opened read-only.
    [[nodiscard]] durability_kind durability() const noexcept { return chosen_.durability(); }

    /// Null on failure; last_failure() of this thread says why.
    [[nodiscard]] void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type = 0) noexcept {
        if (!chosen_.is_direct()) {
            return chosen_.on_blocks().allocate(bytes, alignment, type);
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
        return chosen_.is_direct() ? blocks().try_free(address) : chosen_.on_blocks().deallocate(address);
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

    [[nodiscard]] device_pins& pins() noexcept { return pins_; }
    /// What a commit waits for (slab/calls/gates.hpp); null where a commit drops no page.
    [[nodiscard]] slab::change_gate* changes() noexcept {
        return durability() == durability_kind::commit ? &slab::changes_of(blocks()) : nullptr;
    }
    /// Null if the heap is open read-only.
    [[nodiscard]] destination_operations* destinations() noexcept { return chosen_.destinations(); }
    [[nodiscard]] atomic_operations* atomic() noexcept { return chosen_.atomic(); }
    /// For small blocks. Where HEAP-8 forbids it, the path of no heap, which serves no call.
    [[nodiscard]] const slab::fast_path* fast_path() const noexcept { return fast_path_; }
    void keep(const slab::held_block& held) noexcept {
        if (chosen_.is_direct()) {
            blocks().keep(held);
        } else {
            chosen_.on_blocks().keep(held);
        }
    }
    /// For block_allocator::resize_pages(): no record or flush must say the new length.
    [[nodiscard]] bool can_resize_in_place() const noexcept { return chosen_.is_direct(); }
    /// Fails with poisoned once a sync of a commit, a close or a call has failed.
    [[nodiscard]] base::result<void> check_health() {
        HF_TRY(files().session().check_health());
        return atomic() == nullptr ? base::result<void>() : atomic()->lanes().check_health();
    }

    /// For the program's data: flush() starts a write-back, drain() waits for this thread's.
    void flush(const void* begin, std::uint64_t bytes) noexcept {
        if (!chosen_.is_direct()) {
            chosen_.on_blocks().flush(begin, bytes);
        }
    }
    void drain() noexcept {
        if (!chosen_.is_direct()) {
            chosen_.on_blocks().drain();
        }
    }
    void persist(const void* begin, std::uint64_t bytes) noexcept {
        flush(begin, bytes);
        drain();
    }

protected:
    ~heap_operations() = default;

    [[nodiscard]] chosen_operations& chosen() noexcept { return chosen_; }

private:
    friend class heap_forks;
    friend class heap_opening;

    void find_fast_path() noexcept;

    /// For a child of fork without a copy of the heap: every later call fails.
    void abandon() noexcept;
    [[nodiscard]] bool free_filtered(void* address) noexcept;

    device_pins pins_{*this};
    free_filter keep_back_;
    chosen_operations chosen_;
    const slab::fast_path* fast_path_ = &slab::fast_path::of_no_heap();
};

/// Stored zeros are as durable as what the program stores itself.
enum class zeros { stored, durable };
/// Makes a block zero that nobody else uses, within a change (changes()). Takes no memory for pages that are zero
/// already.
void zero(heap_operations& of, void* block, std::uint64_t bytes, zeros kind) noexcept;

}  // namespace holdfast::heap
