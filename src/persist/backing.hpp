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

/// Whether to load from a hole through a mapping may take space from the file system, and be a SIGBUS where there is
/// none: tmpfs, and overlayfs, which may stand on one.
[[nodiscard]] base::result<bool> reading_takes_space(file& of);
/// Whether a store through a shared mapping may take space for more than its page, for all of a folio of the page
/// cache, and the file system tells all its holes: ext4 and XFS. (Not through DAX, which has no page cache.)
[[nodiscard]] base::result<bool> stores_fill_folios(file& of);

}  // namespace holdfast::persist
