// What manager::for_each_extent() tells of an extent.
#pragma once

#include <cstdint>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

enum class extent_kind : std::uint8_t {
    free = 1,
    block = 2,     ///< one block of whole pages; huge above 16 MiB
    slab = 3,      ///< 64 KiB of small blocks of one size
    roots = 4,     ///< the 512 roots: the first 64 KiB
    reserved = 5,  ///< a block of reserve(), or withdrawn from use: free after a crash
};

/// A run of pages. The extents cover the user space without gaps or overlaps.
struct extent_info {
    std::uint64_t offset = 0;  ///< from the heap's base
    std::uint64_t bytes = 0;
    extent_kind kind = extent_kind::free;
    std::uint32_t block_size = 0;   ///< of a slab: bytes of each block; 0: damaged, or freed during the walk
    std::uint32_t blocks = 0;       ///< of a slab: how many fit
    std::uint32_t live_blocks = 0;  ///< of a slab: how many are allocated
    /// With space in the file system, written or reserved; the rest are holes.
    std::uint64_t backed_bytes = 0;
    /// Off: a lower bound, because tmpfs does not tell where space is reserved but never written.
    bool backed_exactly = true;
};

}  // namespace holdfast
