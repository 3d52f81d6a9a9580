// Durability `atomic`: allocation, freeing and everything between them as operations of one durable record and one
// fence. The face to engine; atomic_operations_of.hpp is the implementation for each persistence domain.
//
// Each operation is there after a crash, or not there, as a whole: block, destination, and the block that it replaced.
//
// Thread safety: all functions by any number of threads; one operation at a time on one destination.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "heap/destination_operations.hpp"
#include "lane/lane_set.hpp"
#include "persist/domain.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// Batches: each operation is atomic alone, with few fences for all.
class atomic_operations : public destination_operations {
public:
    /// A block that nothing points to: the program's to keep track of.
    [[nodiscard]] virtual void* allocate(const block_request& wanted) noexcept = 0;
    [[nodiscard]] virtual bool deallocate(void* block) noexcept = 0;

    /// Marks a reserved block allocated, and nothing points to it.
    [[nodiscard]] virtual bool keep(void* reserved) noexcept = 0;
    /// Frees a block, and reserves it: nobody gets its memory before cancel().
    [[nodiscard]] virtual bool withdraw(void* block) noexcept = 0;

    /// The user's data: starts a write-back; waits for all that this thread started; both.
    virtual void flush(const void* begin, std::uint64_t bytes) noexcept = 0;
    virtual void drain() noexcept = 0;

    virtual void checkpoint() noexcept = 0;
    /// lane_pool::settle().
    [[nodiscard]] virtual bool settle() noexcept = 0;
    [[nodiscard]] virtual const lane::lane_pool& lanes() const noexcept = 0;
};

/// For the domain of an open heap. `options` is complete; the heap's lanes are replayed.
base::result<std::unique_ptr<atomic_operations>> make_atomic_operations(persist::domain_kind domain,
                                                                        segment::space_view space,
                                                                        segment::lane_area& area,
                                                                        slab::block_allocator& blocks,
                                                                        const lane::lane_options& options);

}  // namespace holdfast::heap
