// Blocks with their destinations, in every durability. A destination is a `ptr` word in the heap: a root word, or in an
// allocated block. It never points to memory that is free or belongs to another allocation. Other effects of a crash
// depend on the durability.
//
// Thread safety: any number of threads; one operation at a time on one destination.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "heap/operations/group_operations.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::heap {

enum class operation_result : std::uint8_t { done, nothing_to_do, failed };

/// After a failure nothing has changed; block_allocator::last_failure() says why.
class destination_operations {
public:
    destination_operations() = default;
    destination_operations(const destination_operations&) = delete;
    destination_operations& operator=(const destination_operations&) = delete;
    virtual ~destination_operations() = default;

    [[nodiscard]] virtual void* allocate_to(std::uint64_t& destination, const block_request& wanted) noexcept = 0;
    /// Frees the destination's block and nulls the destination. Null: nothing_to_do.
    [[nodiscard]] virtual operation_result free_from(std::uint64_t& destination) noexcept = 0;
    /// Copies the destination's block durably to a new one, points the destination there and frees the old one. Type 0
    /// keeps the type. Where the destination is null, it is allocate_to().
    [[nodiscard]] virtual void* reallocate_to(std::uint64_t& destination, const block_request& wanted) noexcept = 0;

    /// A crash or a close frees it unless it was published.
    [[nodiscard]] virtual void* reserve(const block_request& wanted) noexcept = 0;
    /// Points the destination to a reserved block, whose content the caller has persisted.
    [[nodiscard]] virtual bool publish(std::uint64_t& destination, void* reserved) noexcept = 0;
    [[nodiscard]] virtual bool cancel(void* reserved) noexcept = 0;

    /// Returns how many were done; the first failure ends it.
    [[nodiscard]] virtual std::size_t allocate_batch(std::span<std::uint64_t* const> destinations,
                                                     const block_request& wanted) noexcept = 0;
    [[nodiscard]] virtual std::size_t free_batch(std::span<std::uint64_t* const> destinations) noexcept = 0;

    /// For transactions.
    [[nodiscard]] virtual group_operations& groups() noexcept = 0;

    /// Small blocks that are reserved or held. May throw std::bad_alloc.
    [[nodiscard]] virtual std::vector<std::uint64_t> reserved() = 0;
    /// While no thread is in a call.
    virtual void cancel_all() noexcept = 0;
    /// In a child of fork: every later call fails.
    virtual void abandon() noexcept = 0;
};

/// Without memory they hold the code alone.
[[nodiscard]] base::failure refused_destination(const std::uint64_t& word, std::uint64_t offset,
                                                std::uint64_t end) noexcept;
[[nodiscard]] base::failure refused_reservation(const void* address) noexcept;
/// A group frees the block twice.
[[nodiscard]] base::failure refused_free(const void* address) noexcept;
[[nodiscard]] base::failure refused_child() noexcept;

[[nodiscard]] inline std::uint64_t load_word(const std::uint64_t& destination) noexcept {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(destination)).load(std::memory_order_acquire);
}

/// `word`: not null, loaded from the destination.
[[nodiscard]] inline void* target_of(const std::uint64_t& destination, std::uint64_t word) noexcept {
    return reinterpret_cast<void*>(segment::decode_pointer(reinterpret_cast<std::uintptr_t>(&destination), word));
}

/// Whether a block that is reallocated stays where it is: whole pages that are long enough, and not twice as long.
[[nodiscard]] bool can_stay(const slab::held_block& old, const void* address, const block_request& wanted) noexcept;
/// `wanted`, and a quarter more if a block of `usable` bytes grows beyond a slab.
[[nodiscard]] std::uint64_t bytes_with_room(std::uint64_t usable, std::uint64_t wanted) noexcept;

}  // namespace holdfast::heap
