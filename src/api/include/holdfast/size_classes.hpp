// The sizes of small blocks, which all heaps have; those that separate cache lines use the multiples of 64 alone.
#pragma once

#include <cstdint>
#include <vector>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

/// A size of small blocks: a request gets a block of the smallest class that holds it at its alignment.
struct size_class_information {
    std::uint64_t block_size = 0;        ///< bytes
    std::uint64_t smallest_request = 0;  ///< bytes: one more than the class before holds
    std::uint64_t alignment = 0;         ///< of every block: the largest power of two that divides its size
    std::uint64_t blocks_a_slab = 0;     ///< that fit in 64 KiB
    std::uint64_t blocks_a_part = 0;     ///< at least so many does a thread keep at hand at once
};

/// All size classes in order of size. What is larger than the last is a block of whole pages. May throw std::bad_alloc.
[[nodiscard]] std::vector<size_class_information> size_classes();

}  // namespace holdfast
