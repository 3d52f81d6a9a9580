// A heap of durability `atomic` on anonymous memory, of which every write to the media is noted.
#pragma once

#include <cstdint>
#include <span>

#include "base/sparse_table.hpp"
#include "extent/extent.hpp"
#include "extent/fake_space.hpp"
#include "flush_trace/recording_domain.hpp"
#include "heap/atomic/atomic_operations_of.hpp"
#include "slab/slab.hpp"

namespace holdfast::flush_trace {

/// Where a write went: the parts of a heap that lie apart.
enum class heap_part : std::uint8_t { lanes, metadata, user };
struct place {
    heap_part part = heap_part::lanes;
    std::uint64_t offset = 0;
};

class traced_heap final : public segment::lane_area {
public:
    /// `destinations` words to allocate to. The trace begins behind this. Throws std::runtime_error.
    traced_heap(media_trace& trace, std::size_t destinations);
    ~traced_heap() override;

    void allocate(std::size_t destination, std::uint64_t bytes);
    void release(std::size_t destination);
    /// Of the page entry of the block that the destination leads to.
    [[nodiscard]] std::uint64_t entry_line(std::size_t destination) const noexcept;
    [[nodiscard]] place place_of(const media_write& written) const noexcept;
    /// Bytes of a part that are in use, for the scale of a plot.
    [[nodiscard]] std::uint64_t extent_of(heap_part part) const noexcept;

    [[nodiscard]] std::byte* lanes() const noexcept override { return static_cast<std::byte*>(lanes_.address()); }
    [[nodiscard]] std::uint64_t lanes_size() const noexcept override { return lanes_size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override;

private:
    [[nodiscard]] std::uint64_t metadata_bytes() const noexcept;

    extent::fake_space space_;
    base::sparse_memory lanes_;
    std::uint64_t lanes_size_ = 0;
    extent::extent_allocator extents_;
    slab::block_allocator blocks_;
    heap::atomic_operations_of<recording_domain> operations_;
    std::span<std::uint64_t> destinations_;
};

}  // namespace holdfast::flush_trace
