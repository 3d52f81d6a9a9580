// The sizes of small blocks, the same for all heaps. Heaps with open_options::separate_cache_lines use only those that
// are multiples of 64.
#pragma once

#include <cstdint>
#include <vector>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

/// A request gets a block of the smallest class that holds it at its alignment.
struct size_class_information {
    std::uint64_t block_size = 0;        ///< bytes
    std::uint64_t smallest_request = 0;  ///< bytes: one more than the class before holds
    std::uint64_t alignment = 0;         ///< of every block: the largest power of two that divides its size
    std::uint64_t blocks_a_slab = 0;     ///< blocks in a slab of 64 KiB
    std::uint64_t blocks_a_part = 0;     ///< blocks, at least, in the part of a slab that one thread takes at a time
};

/// All size classes in order of size. A larger block consists of whole pages. May throw std::bad_alloc.
[[nodiscard]] std::vector<size_class_information> size_classes();

}  // namespace holdfast
