#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

struct file_range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    constexpr bool operator==(const file_range&) const = default;
};

struct file_backing {
    std::vector<file_range> ranges;  ///< sorted, neither empty nor adjacent, up to the end of the file
    /// False: the file system has reserved more space, and does not say where (tmpfs).
    bool exact = true;
};

/// The ranges that have space, written or only reserved; the whole file without a descriptor (a model), or where the
/// file system knows no holes.
[[nodiscard]] base::result<file_backing> backing_of(file& of);

/// Whether a load from a hole through a mapping takes space (a SIGBUS where none is left): tmpfs, and overlayfs, which
/// may lie on one.
[[nodiscard]] base::result<bool> reading_takes_space(file& of);
/// Whether a store through a shared mapping may take space for a whole folio: ext4 and XFS. DAX mappings have no page
/// cache.
[[nodiscard]] base::result<bool> stores_fill_folios(file& of);

/// Whether SEEK_DATA leaves out space that was reserved and never stored to, and nothing else: file systems whose pages
/// are those of the kernel's page cache, and where that was tried.
[[nodiscard]] base::result<bool> tells_reserved_space(file& of);

}  // namespace holdfast::persist
