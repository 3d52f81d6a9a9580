#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace holdfast::segment {

/// Counted from the begin of a mapping.
struct byte_range {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
};

base::result<void> show_range_to_child(std::byte* address, std::uint64_t bytes, bool shown);

/// Replaces the mapping by memory of this process with the content of `ranges`, and zeros.
base::result<void> replace_by_copy(std::byte* address, std::uint64_t bytes, std::span<const byte_range> ranges);

}  // namespace holdfast::segment
