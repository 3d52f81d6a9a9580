// Where a file has space on its file system, and where it has holes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

/// Bytes [begin, end) of a file.
struct file_range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    constexpr bool operator==(const file_range&) const = default;
};

struct file_backing {
    std::vector<file_range> ranges;  ///< sorted, neither empty nor touching, up to the end of the file
    /// Off: at least these are backed. The file system has reserved more than it has content for, and does not tell
    /// where (tmpfs).
    bool exact = true;
};

/// Reserved space counts, whether it was ever written or not. A file without descriptor (a model of one) is all backed,
/// and so is one on a file system that knows no holes.
[[nodiscard]] base::result<file_backing> backing_of(file& of);

}  // namespace holdfast::persist
