// The sizes of small blocks in all heaps; with open_options::separate_cache_lines only multiples of 64.
#pragma once

#include <cstdint>
#include <vector>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

/// A request gets a block of the smallest class that holds it at its alignment.
struct size_class_information {
    std::uint64_t block_size = 0;        ///< bytes
    std::uint64_t smallest_request = 0;  ///< bytes, at an alignment of 8 or less
    std::uint64_t alignment = 0;         ///< the largest power of two that divides the size
    std::uint64_t blocks_a_slab = 0;     ///< in 64 KiB
    std::uint64_t blocks_a_part = 0;     ///< at least, in the part of a slab that a thread takes
};

/// In order of size; larger blocks consist of whole pages. May throw std::bad_alloc.
[[nodiscard]] std::vector<size_class_information> size_classes();

}  // namespace holdfast
