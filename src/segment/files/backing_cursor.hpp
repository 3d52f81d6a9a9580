#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/backing.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/geometry.hpp"

namespace holdfast::segment {

struct backed_bytes {
    std::uint64_t bytes = 0;
    bool exact = true;  ///< false: a lower bound (persist::file_backing)
};

/// Ranges come in order of address and do not overlap: each file's extents are read once. The heap may be in use.
class backing_cursor {
public:
    backing_cursor(persist::storage& storage, const heap_paths& paths, geometry shape)
        : storage_(storage), paths_(paths), shape_(shape) {}

    /// Counts bytes that have space on disk. `end` is at most the frontier.
    base::result<backed_bytes> count(base::heap_offset begin, base::heap_offset end);

private:
    base::result<void> load(std::uint64_t segment);

    persist::storage& storage_;
    const heap_paths& paths_;
    geometry shape_;
    std::uint64_t loaded_ = ~std::uint64_t{0};  ///< that backing_ describes
    persist::file_backing backing_;
    std::size_t next_ = 0;
};

}  // namespace holdfast::segment
