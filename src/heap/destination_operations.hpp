// Blocks with their destinations, in every durability. A destination is a `ptr` word in the heap: a root word, or in an
// allocated block. It never points to memory that is free or belongs to another allocation. Other effects of a crash
// depend on the durability.
//
// Thread safety: any number of threads; one operation at a time on one destination.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/failure.hpp"
#include "heap/held_blocks.hpp"
#include "lane/lane_format.hpp"

namespace holdfast::heap {

/// Bytes > 0; alignment a power of two; type below segment::type_limit.
struct block_request {
    std::uint64_t bytes = 0;
    std::uint64_t alignment = 16;
    bool zeroed = false;     ///< durably, before anything points to the block
    std::uint32_t type = 0;  ///< 0: none
};

/// Up to four successive words that a group stores.
struct data_piece {
    std::uint64_t offset = 0;  ///< from the heap's base, a multiple of 8
    std::uint64_t words = 0;
    std::array<std::uint64_t, lane::data_words> values{};
};

/// What a transaction changes, all or nothing. The spans live as long as the call.
struct group_request {
    std::span<const slab::held_block> made;  ///< of hold(); content is durable or in `data`
    std::span<void* const> freed;
    std::span<const data_piece> data;  ///< no word twice
};

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

    /// Chooses a block for a group. A list of new_list() remembers it until a group has made it, or release(); a crash
    /// or a close frees it.
    [[nodiscard]] virtual bool hold(const block_request& wanted, slab::held_block& held) noexcept = 0;
    /// Does nothing in a child of fork, and after a failed sync.
    virtual void release(const slab::held_block& held) noexcept = 0;
    /// May throw std::bad_alloc.
    [[nodiscard]] std::shared_ptr<held_blocks> new_list() { return held_lists_.make(changes()); }
    /// What a commit waits for; null where a commit drops no page.
    [[nodiscard]] virtual slab::change_gate* changes() noexcept = 0;
    [[nodiscard]] virtual bool commit_group(const group_request& changes) noexcept = 0;
    /// A record holds two blocks, one made and one freed, or one piece of data.
    [[nodiscard]] virtual std::uint64_t largest_group() const noexcept = 0;

    /// Small blocks that are reserved or held. May throw std::bad_alloc.
    [[nodiscard]] virtual std::vector<std::uint64_t> reserved() = 0;
    /// While no thread is in a call.
    virtual void cancel_all() noexcept = 0;
    /// In a child of fork: every later call fails.
    virtual void abandon() noexcept = 0;

protected:
    held_block_lists held_lists_;  // NOLINT(misc-non-private-member-variables-in-classes): of all implementations
};

/// Without memory they hold the code alone.
[[nodiscard]] base::failure refused_destination(const std::uint64_t& word, std::uint64_t offset,
                                                std::uint64_t end) noexcept;
[[nodiscard]] base::failure refused_reservation(const void* address) noexcept;
/// A group frees the block twice.
[[nodiscard]] base::failure refused_free(const void* address) noexcept;
[[nodiscard]] base::failure refused_child() noexcept;

}  // namespace holdfast::heap
