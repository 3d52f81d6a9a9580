// What the calls on blocks do in one durability.
//
// Invariants:
//   HEAP-4: where direct_operations are chosen, allocate and free may go to the allocator without them.
//   HEAP-5: after a failure nothing has changed, and block_allocator::last_failure() says why.
//
// Thread safety: any number of threads, except write_back().
#pragma once

#include <cstdint>

#include "slab/slab.hpp"

namespace holdfast::heap {

class block_operations {
public:
    block_operations() = default;
    block_operations(const block_operations&) = delete;
    block_operations& operator=(const block_operations&) = delete;
    virtual ~block_operations() = default;

    /// `type` 0: none. Null on failure.
    [[nodiscard]] virtual void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept = 0;
    [[nodiscard]] virtual bool deallocate(void* block) noexcept = 0;
    /// Of several threads that free one block at once, one succeeds.
    [[nodiscard]] virtual bool deallocate_exactly(void* block) noexcept = 0;
    /// Marks a block of block_allocator::hold() allocated: durably, if media must know it before a pointer.
    virtual void keep(const slab::held_block& held) noexcept = 0;
    virtual void flush(const void* begin, std::uint64_t bytes) noexcept = 0;
    virtual void drain() noexcept = 0;
    /// For a sync, a copy or a clean close: the bitmaps become right. No other thread is in a call.
    virtual void write_back() noexcept = 0;
};

/// Durability `commit`, and `collect` on the page cache, where a killed process loses no store.
class direct_operations final : public block_operations {
public:
    explicit direct_operations(slab::block_allocator& blocks) noexcept : blocks_(blocks) {}

    void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept override {
        return type == 0 ? blocks_.allocate(bytes, alignment) : blocks_.allocate_typed(bytes, alignment, type);
    }
    bool deallocate(void* block) noexcept override { return blocks_.try_free(block); }
    bool deallocate_exactly(void* block) noexcept override { return blocks_.free_exactly(block); }
    void keep(const slab::held_block& held) noexcept override { blocks_.keep(held); }
    void flush(const void* /*begin*/, std::uint64_t /*bytes*/) noexcept override {}
    void drain() noexcept override {}
    void write_back() noexcept override { blocks_.slabs().write_bitmaps(); }

private:
    slab::block_allocator& blocks_;
};

}  // namespace holdfast::heap
