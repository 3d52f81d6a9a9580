// What durability `collect` makes durable: slab headers, and the page entries of slabs and of blocks of whole pages,
// when they appear and before they vanish. Nothing else: which blocks live is what tracing finds.
//
// What media say is then a set of extents of which no two overlap, whatever the moment: an entry is durable before
// anything is given out of its extent, and withdrawn durably before its pages can be another's. Recovery believes these
// entries alone (extent_allocator::recover). Where a killed process loses no store (the page cache), all of it holds
// without this, and the allocator is used directly. (Makalu, chapter 5: headers are persisted, the rest is rebuilt.)
//
// Thread safety: all functions by any number of threads.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "extent/extent.hpp"
#include "persist/domain.hpp"
#include "segment/space.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// On failure: null or false, nothing is changed, and block_allocator::last_failure() says why.
class collect_operations {
public:
    collect_operations() = default;
    collect_operations(const collect_operations&) = delete;
    collect_operations& operator=(const collect_operations&) = delete;
    virtual ~collect_operations() = default;

    [[nodiscard]] virtual void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept = 0;
    [[nodiscard]] virtual bool deallocate(void* block) noexcept = 0;
    /// Marks a block of block_allocator::hold() allocated: durably, where it is whole pages.
    virtual void keep(const slab::held_block& held) noexcept = 0;
    /// The user's data: starts a write-back; waits for all that this thread started.
    virtual void flush(const void* begin, std::uint64_t bytes) noexcept = 0;
    virtual void drain() noexcept = 0;
    /// Bitmaps and page entries say what the program holds, durably: what a clean close needs. Other threads stand
    /// still.
    virtual void write_back() noexcept = 0;
};

/// For the domain of an open heap: null where stores need no help, on the page cache. `extents` and `blocks` live
/// longer than what is returned.
base::result<std::unique_ptr<collect_operations>> make_collect_operations(persist::domain_kind domain,
                                                                          segment::space_view space,
                                                                          extent::extent_allocator& extents,
                                                                          slab::block_allocator& blocks);

}  // namespace holdfast::heap
