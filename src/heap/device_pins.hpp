// Memory that devices store to by its physical pages: io_uring's fixed buffers, RDMA, CUDA.
//
// Invariants:
//   HEAP-24: a range is pinned only within one allocated block, and no free, resize or destroy takes that block before
//            its last range is unpinned.
//   HEAP-25: in durability `commit`, the committer keeps exactly the pages of pinned ranges (MAP-3).
//
// Under object_mutex(), which a commit has, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.hpp"

namespace holdfast::heap {

class heap_operations;

class device_pins {
public:
    explicit device_pins(heap_operations& heap) noexcept : heap_(heap) {}
    device_pins(const device_pins&) = delete;
    device_pins& operator=(const device_pins&) = delete;

    /// Fails with bad_address where the range is not within one allocated block, with read_only and wrong_process. One
    /// range may be pinned several times. May throw std::bad_alloc; then nothing has changed.
    base::result<void> pin(const void* begin, std::uint64_t bytes);
    /// Fails with bad_address where exactly this range is not pinned. May throw std::bad_alloc.
    base::result<void> unpin(const void* begin, std::uint64_t bytes);
    [[nodiscard]] bool has_block(std::uint64_t offset) const noexcept { return blocks_.contains(offset); }
    /// Offsets of the blocks that have pinned ranges. May throw std::bad_alloc.
    [[nodiscard]] std::vector<std::uint64_t> blocks() const;

private:
    struct pinned_block {
        std::uint64_t ranges = 0;
        bool is_object = false;  ///< pinned in the allocator already
    };

    [[nodiscard]] base::result<std::uint64_t> find_block(std::uint64_t offset, std::uint64_t bytes) const;
    [[nodiscard]] base::failure refused(std::uint64_t offset, std::uint64_t bytes, const char* found,
                                        const char* expected) const;
    [[nodiscard]] base::result<void> check_writer(const char* operation) const;
    void keep_pages();

    heap_operations& heap_;
    std::multimap<std::uint64_t, std::uint64_t> ranges_;  ///< offset, bytes
    std::map<std::uint64_t, pinned_block> blocks_;
};

}  // namespace holdfast::heap
