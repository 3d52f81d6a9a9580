// Durability `atomic`: allocation, freeing and everything between them as operations of one durable record and one
// fence. The face to engine; atomic_operations_of.hpp is the implementation for each persistence domain.
//
// A destination is a `ptr` word in the heap: a root, or in an allocated block. Each operation is there after a crash,
// or not there, as a whole: block, destination, and the block that it replaced.
//
// Thread safety: all functions by any number of threads; one operation at a time on one destination.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "lane/lane_set.hpp"
#include "persist/domain.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// What to allocate. Bytes > 0; alignment a power of two; type below segment::type_limit.
struct block_request {
    std::uint64_t bytes = 0;
    std::uint64_t alignment = 16;
    bool zeroed = false;     ///< durably, before the block is anybody's
    std::uint32_t type = 0;  ///< 0: none
};

enum class operation_result : std::uint8_t { done, nothing_to_do, failed };

/// On failure: null, false or `failed`, nothing is changed, and block_allocator::last_failure() says why.
class atomic_operations {
public:
    atomic_operations() = default;
    atomic_operations(const atomic_operations&) = delete;
    atomic_operations& operator=(const atomic_operations&) = delete;
    virtual ~atomic_operations() = default;

    /// A block, and the destination points to it.
    [[nodiscard]] virtual void* allocate_to(std::uint64_t& destination, const block_request& wanted) noexcept = 0;
    /// The block that the destination points to is free, and the destination null. Null already: nothing_to_do.
    [[nodiscard]] virtual operation_result free_from(std::uint64_t& destination) noexcept = 0;
    /// Another block with the content of the one that the destination points to (durably), which is free then. It has
    /// the old one's type where none is asked for. Null: allocate_to().
    [[nodiscard]] virtual void* reallocate_to(std::uint64_t& destination, const block_request& wanted) noexcept = 0;
    /// A block that nothing points to: the program's to keep track of.
    [[nodiscard]] virtual void* allocate(const block_request& wanted) noexcept = 0;
    [[nodiscard]] virtual bool deallocate(void* block) noexcept = 0;

    /// A block that is nobody's: gone after a crash, until publish().
    [[nodiscard]] virtual void* reserve(const block_request& wanted) noexcept = 0;
    /// The destination points to the reserved block. Its content is durable before: the caller's persist().
    [[nodiscard]] virtual bool publish(std::uint64_t& destination, void* reserved) noexcept = 0;
    [[nodiscard]] virtual bool cancel(void* reserved) noexcept = 0;
    /// Marks a reserved block allocated, and nothing points to it.
    [[nodiscard]] virtual bool keep(void* reserved) noexcept = 0;
    /// Frees a block, and reserves it: nobody gets its memory before cancel().
    [[nodiscard]] virtual bool withdraw(void* block) noexcept = 0;

    /// The same operation for each, atomic alone, with few fences. How many were done; less than all: the next failed.
    [[nodiscard]] virtual std::size_t allocate_batch(std::span<std::uint64_t* const> destinations,
                                                     const block_request& wanted) noexcept = 0;
    [[nodiscard]] virtual std::size_t free_batch(std::span<std::uint64_t* const> destinations) noexcept = 0;

    /// The user's data: starts a write-back; waits for all that this thread started; both.
    virtual void flush(const void* begin, std::uint64_t bytes) noexcept = 0;
    virtual void drain() noexcept = 0;

    virtual void checkpoint() noexcept = 0;
    /// lane_pool::settle().
    [[nodiscard]] virtual bool settle() noexcept = 0;
    /// Offsets of the small blocks that are reserved. May throw std::bad_alloc.
    [[nodiscard]] virtual std::vector<std::uint64_t> reserved() = 0;
    /// Reserved blocks go back. Before the heap is closed; no thread is in a call.
    virtual void cancel_all() noexcept = 0;
    /// In a child of fork: every call fails from here on.
    virtual void abandon() noexcept = 0;
    [[nodiscard]] virtual const lane::lane_pool& lanes() const noexcept = 0;
};

/// For the domain of an open heap. `options` is complete; the heap's lanes are replayed.
base::result<std::unique_ptr<atomic_operations>> make_atomic_operations(persist::domain_kind domain,
                                                                        segment::space_view space,
                                                                        segment::lane_area& area,
                                                                        slab::block_allocator& blocks,
                                                                        const lane::lane_options& options);

}  // namespace holdfast::heap
