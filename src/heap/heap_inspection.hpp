// Numbers and broken invariants of an open heap.
//
// Invariants:
//   HEAP-14: an inspection changes nothing but caches: blocks, pointers and objects are as before.
//   HEAP-21: every root is null or points into the heap.
//   TYPE-4: in the first element of a block with a registered type, every `ptr` is null or points into the heap. How
//           many elements were made is unknown: words behind the first may hold anything.
//
// Thread safety: statistics() and check() run alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "heap/heap_operations.hpp"
#include "segment/files/holes.hpp"

namespace holdfast::heap {

struct engine_statistics {
    segment::file_statistics files;
    std::uint64_t reservation = 0;
    std::uint64_t user_bytes = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t allocated_blocks = 0;
    std::uint64_t largest_free_block = 0;
    std::uint64_t slabs = 0;
    std::uint64_t extents = 0;
    std::uint64_t guard_ranges = 0;
};

struct extent_state {
    extent::extent run;
    slab::slab_occupancy slab;  ///< zero unless the extent is a slab
    segment::backed_bytes backed;
};

class heap_inspection {
public:
    explicit heap_inspection(heap_operations& heap) noexcept : heap_(heap) {}

    base::result<engine_statistics> statistics();
    /// As in statistics(), without a look at files: for programs that ask before each insertion.
    base::result<std::uint64_t> free_bytes();
    /// In order of address. `each` may allocate and free, and may not see such changes.
    base::result<void> for_each_extent(base::function_ref<void(const extent_state&)> each);
    /// A line for each. `pages`: also SEG-2, the checksums of all pages.
    std::vector<std::string> check(bool pages);
    /// Of the last check() with `pages`, or of the open.
    [[nodiscard]] segment::page_comparison last_comparison() const {
        return compared_.value_or(heap_.files().compared());
    }

private:
    void check_pages(std::vector<std::string>& problems);
    void check_pointers(std::vector<std::string>& problems);

    heap_operations& heap_;
    std::optional<segment::page_comparison> compared_;
};

}  // namespace holdfast::heap
