#include <fmt/format.h>

#include "api/manager_core.hpp"
#include "base/units.hpp"

namespace holdfast {

using base::failure;
using base::failure_code;

void* detail::manager_core::allocate(std::size_t bytes, std::size_t alignment, std::uint32_t type) {
    if (bytes == 0) {
        throw_failure(
            failure{failure_code::invalid_argument, path(), "size of an allocation", "0", "at least 1", {}, 0});
    }
    if (!base::is_power_of_two(alignment) || alignment > segment::region_size) {
        throw_failure(failure{failure_code::invalid_argument,
                              path(),
                              "alignment",
                              fmt::format("{}", alignment),
                              "a power of two, at most 2 MiB",
                              {},
                              0});
    }
    refuse_read_only(engine(), "allocate");
    void* const block = engine().allocate(bytes, alignment, type);
    if (block == nullptr) {
        throw_allocation_failure(heap::engine::last_failure(), path());
    }
    return block;
}

void detail::manager_core::deallocate(void* address) {
    refuse_read_only(engine(), "deallocate");
    free_or_throw(engine(), address);
}

namespace {

/// The alignment that malloc gives.
std::size_t alignment_for(std::size_t bytes) noexcept { return bytes >= 16 ? 16 : 8; }

}  // namespace

segment_manager::segment_manager(detail::manager_core& heap) noexcept : key_(heap.engine().key()), heap_(&heap) {}

void* segment_manager::allocate(size_type bytes) const { return heap_->allocate(bytes, alignment_for(bytes), 0); }

void* segment_manager::allocate(size_type bytes, const std::nothrow_t& /*nothrow*/) const noexcept {
    return bytes != 0 && heap_->is_open() && !heap_->engine().read_only()
               ? heap_->engine().allocate(bytes, alignment_for(bytes))
               : nullptr;
}

void* segment_manager::allocate_aligned(size_type bytes, size_type alignment) const {
    return heap_->allocate(bytes, alignment, 0);
}

void segment_manager::deallocate(void* address) const {
    if (address != nullptr) {
        heap_->deallocate(address);
    }
}

segment_manager::size_type segment_manager::get_size() const {
    return base::to_bytes(heap_->engine().files().frontier());
}

segment_manager::size_type segment_manager::get_free_memory() const {
    return value_or_throw(heap_->engine().inspection().free_bytes());
}

}  // namespace holdfast
