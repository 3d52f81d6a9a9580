// Durability `atomic`: each operation is one durable record and one fence. After a crash it is complete or absent: its
// block, its destination and the block that it replaced.
//
// Thread safety: any number of threads; one operation at a time on one destination.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "heap/operations/block_operations.hpp"
#include "heap/operations/destination_operations.hpp"
#include "lane/lane_set.hpp"
#include "persist/domain.hpp"
#include "segment/files/zero_pages.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// Each operation of a batch is atomic; the batch shares its fences.
class atomic_operations : public destination_operations {
public:
    /// For calls that give no destination.
    [[nodiscard]] virtual block_operations& on_blocks() noexcept = 0;
    /// The program keeps track of it.
    [[nodiscard]] virtual void* allocate(const block_request& wanted) noexcept = 0;

    /// Marks it allocated, without a destination.
    [[nodiscard]] virtual bool keep(void* reserved) noexcept = 0;
    /// Its memory is not reused before cancel().
    [[nodiscard]] virtual bool withdraw(void* block) noexcept = 0;

    virtual void checkpoint() noexcept = 0;
    /// See lane_pool::wait_until_obsolete().
    [[nodiscard]] virtual bool wait_until_obsolete() noexcept = 0;
    [[nodiscard]] virtual const lane::lane_pool& lanes() const noexcept = 0;
};

/// `options` is complete but for `states`. `memory`, for the domain disk, outlives the result.
base::result<std::unique_ptr<atomic_operations>> make_atomic_operations(
    persist::domain_kind domain, persist::mapped_sync& memory, segment::space_view space, segment::lane_area& area,
    slab::block_allocator& blocks, const lane::lane_options& options, const segment::zero_pages& zeros);

}  // namespace holdfast::heap
