#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

/// Bytes [begin, end).
struct file_range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    constexpr bool operator==(const file_range&) const = default;
};

struct file_backing {
    std::vector<file_range> ranges;  ///< sorted, neither empty nor adjacent, up to the end of the file
    /// False: `ranges` is a lower bound. The file system has reserved more space than it has content for, and does not
    /// tell where (tmpfs).
    bool exact = true;
};

/// The ranges that have space, written or only reserved. Without a descriptor (a model), or without holes in the file
/// system, that is the whole file.
[[nodiscard]] base::result<file_backing> backing_of(file& of);

/// Whether a load from a hole through a mapping takes space, and is a SIGBUS where there is none: on tmpfs, and on
/// overlayfs, which may lie on a tmpfs.
[[nodiscard]] base::result<bool> reading_takes_space(file& of);
/// Whether a store through a shared mapping may take space for a whole folio instead of one page, on a file system that
/// tells all its holes: ext4 and XFS. DAX mappings have no page cache and do not.
[[nodiscard]] base::result<bool> stores_fill_folios(file& of);

}  // namespace holdfast::persist
