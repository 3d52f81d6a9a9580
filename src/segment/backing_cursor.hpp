// How much of a range of user space its segment files have space for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/backing.hpp"
#include "persist/storage.hpp"
#include "segment/geometry.hpp"
#include "segment/transaction.hpp"

namespace holdfast::segment {

struct backed_bytes {
    std::uint64_t bytes = 0;
    bool exact = true;  ///< off: at least so many (persist::file_backing)
};

/// Answers for ranges in order of address, none of which overlap; reads each file's extents once. The heap may be in
/// use: an answer is what the file system said when the segment was reached.
class backing_cursor {
public:
    backing_cursor(persist::storage& storage, const heap_paths& paths, geometry shape)
        : storage_(storage), paths_(paths), shape_(shape) {}

    /// Of the user space [begin, end), below the frontier.
    base::result<backed_bytes> count(base::heap_offset begin, base::heap_offset end);

private:
    base::result<void> load(std::uint64_t segment);

    persist::storage& storage_;
    const heap_paths& paths_;
    geometry shape_;
    std::uint64_t loaded_ = ~std::uint64_t{0};  ///< the segment that backing_ is of
    persist::file_backing backing_;
    std::size_t next_ = 0;  ///< ranges before this one end before what was asked last
};

}  // namespace holdfast::segment
