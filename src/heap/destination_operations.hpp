// Blocks with their destinations: the face that every durability has an implementation of. Durability `atomic`:
// atomic_operations.hpp; `commit` and `collect`: ordered_destinations.hpp.
//
// A destination is a `ptr` word in the heap: a root, or in an allocated block. Whatever the durability, a destination
// never leads to memory that is free or another's; what else a crash leaves is the durability's to say.
//
// Thread safety: all functions by any number of threads; one operation at a time on one destination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/failure.hpp"

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
class destination_operations {
public:
    destination_operations() = default;
    destination_operations(const destination_operations&) = delete;
    destination_operations& operator=(const destination_operations&) = delete;
    virtual ~destination_operations() = default;

    /// A block, and the destination points to it.
    [[nodiscard]] virtual void* allocate_to(std::uint64_t& destination, const block_request& wanted) noexcept = 0;
    /// The block that the destination points to is free, and the destination null. Null already: nothing_to_do.
    [[nodiscard]] virtual operation_result free_from(std::uint64_t& destination) noexcept = 0;
    /// Another block with the content of the one that the destination points to (durably), which is free then. It has
    /// the old one's type where none is asked for. Null: allocate_to().
    [[nodiscard]] virtual void* reallocate_to(std::uint64_t& destination, const block_request& wanted) noexcept = 0;

    /// A block that is nobody's: gone after a crash and after a close, until publish().
    [[nodiscard]] virtual void* reserve(const block_request& wanted) noexcept = 0;
    /// The destination points to the reserved block. Its content is durable before: the caller's persist().
    [[nodiscard]] virtual bool publish(std::uint64_t& destination, void* reserved) noexcept = 0;
    [[nodiscard]] virtual bool cancel(void* reserved) noexcept = 0;

    /// Does the operation for each in turn. Answers how many were done: less than all where the next one failed.
    [[nodiscard]] virtual std::size_t allocate_batch(std::span<std::uint64_t* const> destinations,
                                                     const block_request& wanted) noexcept = 0;
    [[nodiscard]] virtual std::size_t free_batch(std::span<std::uint64_t* const> destinations) noexcept = 0;

    /// Offsets of the small blocks that are reserved. May throw std::bad_alloc.
    [[nodiscard]] virtual std::vector<std::uint64_t> reserved() = 0;
    /// Reserved blocks go back. Before the heap is closed; no thread is in a call.
    virtual void cancel_all() noexcept = 0;
    /// In a child of fork: every call fails from here on.
    virtual void abandon() noexcept = 0;
};

/// Failures of these calls, in every durability. They may lack words where memory is short.
[[nodiscard]] base::failure refused_destination(const std::uint64_t& word, std::uint64_t offset,
                                                std::uint64_t end) noexcept;
[[nodiscard]] base::failure refused_reservation(const void* address) noexcept;
[[nodiscard]] base::failure refused_child() noexcept;

}  // namespace holdfast::heap
