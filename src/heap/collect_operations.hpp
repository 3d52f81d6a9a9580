// Durability `collect`: makes slab headers and the page entries of slabs and whole-page blocks durable, nothing else.
// Tracing finds which blocks live. (Makalu, chapter 5: headers are persisted, the rest is rebuilt.)
//
// At every moment the extents on media are disjoint: an entry is durable before anything of its extent is handed out,
// and durably withdrawn before its pages are reused. Recovery trusts these entries alone (extent_allocator::recover).
// On the page cache a killed process loses no store, and the allocator is used directly.
//
// Thread safety: any number of threads, except write_back().
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "extent/extent.hpp"
#include "persist/domain.hpp"
#include "segment/space.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// After a failure nothing has changed, and block_allocator::last_failure() says why.
class collect_operations {
public:
    collect_operations() = default;
    collect_operations(const collect_operations&) = delete;
    collect_operations& operator=(const collect_operations&) = delete;
    virtual ~collect_operations() = default;

    [[nodiscard]] virtual void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept = 0;
    [[nodiscard]] virtual bool deallocate(void* block) noexcept = 0;
    /// Marks a block of block_allocator::hold() allocated; whole pages durably.
    virtual void keep(const slab::held_block& held) noexcept = 0;
    /// For the program's data: flush() starts a write-back, drain() waits for those of this thread.
    virtual void flush(const void* begin, std::uint64_t bytes) noexcept = 0;
    virtual void drain() noexcept = 0;
    /// For a clean close: bitmaps and page entries become right and durable. No other thread is in a call.
    virtual void write_back() noexcept = 0;
};

/// Null on the page cache. `extents` and `blocks` outlive the result.
base::result<std::unique_ptr<collect_operations>> make_collect_operations(persist::domain_kind domain,
                                                                          segment::space_view space,
                                                                          extent::extent_allocator& extents,
                                                                          slab::block_allocator& blocks);

}  // namespace holdfast::heap
