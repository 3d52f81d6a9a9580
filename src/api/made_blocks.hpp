// The blocks that a transaction has made. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "api/heap_life.hpp"
#include "base/hot.hpp"
#include "heap/operations/group_operations.hpp"

namespace holdfast::detail {

struct made_block {
    std::byte* block;
    std::size_t bytes;
    std::size_t dropped_in;  ///< freed again in the transaction of this depth; 0: kept
};

class made_blocks {
public:
    /// Searched one by one.
    static constexpr std::size_t few = 16;

    /// Null where the address lies in none.
    [[nodiscard]] HF_HOT made_block* find(const std::byte* address) {
        if (all_.size() > few) [[unlikely]] {
            return find_by_index(address);
        }
        for (made_block& each : all_) {
            if (static_cast<std::size_t>(address - each.block) < each.bytes) {
                return &each;
            }
        }
        return nullptr;
    }
    /// Null where the heap refuses: its last failure says why. May throw std::bad_alloc. All blocks are of the heap of
    /// `life`, which lies at `base`.
    [[nodiscard]] std::byte* make(heap::group_operations& of, const heap_life::watch& life, std::byte* base,
                                  const heap::block_request& wanted);
    /// Freed again in the transaction of this depth, from 1.
    void drop(made_block& block, std::size_t depth) noexcept;
    /// The transaction of the depth after this one belongs to that of this one.
    void limit_drops(std::size_t depth) noexcept;
    /// In the transactions beyond this depth nothing was freed.
    void undo_drops(std::size_t depth) noexcept;
    /// By the commit.
    [[nodiscard]] std::span<const slab::held_block> kept();
    /// The kept blocks are allocated now; the others go back.
    void forget_kept(heap::group_operations& of) noexcept;
    void free_last(heap::group_operations& of) noexcept;
    void free_all(heap::group_operations& of) noexcept;
    /// The heap has the block back already.
    void forget_last() noexcept;
    void clear() noexcept;

    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
    [[nodiscard]] auto begin() noexcept { return all_.begin(); }
    [[nodiscard]] auto end() noexcept { return all_.end(); }
    [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
    [[nodiscard]] auto end() const noexcept { return all_.end(); }

private:
    [[nodiscard]] made_block* find_by_index(const std::byte* address);
    void index_last();

    std::vector<made_block> all_;
    std::size_t deepest_drop_ = 0;             ///< no block of all_ was freed in a deeper transaction
    heap_life::watch held_in_;                 ///< of held_
    std::shared_ptr<heap::held_blocks> held_;  ///< of all_, one by one
    std::map<const std::byte*, std::size_t, std::greater<>> by_address_;  ///< where there are more than a few
    std::vector<slab::held_block> kept_;
};

}  // namespace holdfast::detail
