// What a transaction does to blocks and words of the heap, all or nothing: it holds blocks while it runs, and commits
// them as one group with what it frees and stores.
//
// Thread safety: any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "heap/operations/held_blocks.hpp"
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

/// After a failure nothing has changed; block_allocator::last_failure() says why.
class group_operations {
public:
    group_operations() = default;
    group_operations(const group_operations&) = delete;
    group_operations& operator=(const group_operations&) = delete;

    /// Chooses a block for a group. A list of new_list() remembers it until a group has made it, or release(); a crash
    /// or a close frees it.
    [[nodiscard]] virtual bool hold(const block_request& wanted, slab::held_block& held) noexcept = 0;
    /// Does nothing in a child of fork, and after a failed sync.
    virtual void release(const slab::held_block& held) noexcept = 0;
    /// May throw std::bad_alloc.
    [[nodiscard]] std::shared_ptr<held_blocks> new_list() { return held_lists_.make(changes()); }
    /// What a commit waits for; null where a commit drops no page.
    [[nodiscard]] virtual slab::change_gate* changes() noexcept = 0;
    [[nodiscard]] virtual bool commit(const group_request& changes) noexcept = 0;
    /// A record holds two blocks, one made and one freed, or one piece of data.
    [[nodiscard]] virtual std::uint64_t largest() const noexcept = 0;

    /// Small blocks that lists hold. May throw std::bad_alloc.
    void list_small(std::vector<std::uint64_t>& offsets) { held_lists_.list_small(offsets); }
    /// While no thread is in a call: what lists hold is free.
    void release_all(base::function_ref<void(const slab::held_block&)> release) { held_lists_.release_all(release); }

protected:
    ~group_operations() = default;

private:
    held_block_lists held_lists_;
};

}  // namespace holdfast::heap
