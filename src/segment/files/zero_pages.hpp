// Which pages of the user space are zero already, in durability `atomic` and `collect`, whose pages are those of the
// files: a hole, and space that was reserved and never written, read as zero. To ask takes no memory; to store zeros
// would give every page some.
//
// Not for durability `commit`: its log may have an older content of a page whose file has a hole, and a recovery would
// bring that back unless the page is a part of a later commit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

/// Thread-safe for disjoint ranges.
class zero_pages {
public:
    zero_pages() noexcept = default;  ///< knows nothing
    zero_pages(const heap_location& location, segment_files& segments, const space_view& view) noexcept
        : location_(&location), segments_(&segments), view_(&view) {}

    using visitor = base::function_ref<void(std::byte*, std::uint64_t)>;
    /// Calls `each` with the parts of a block that may hold something, some of them twice where the files do not
    /// answer. The other parts are zero, and in the domain `disk` durably so.
    void for_each_other(std::byte* begin, std::uint64_t bytes, visitor each) const noexcept;

private:
    [[nodiscard]] bool is_asked_about(std::uint64_t bytes) const noexcept;
    base::result<void> ask(std::byte* begin, std::uint64_t pages, visitor each) const;
    base::result<void> ask_file(persist::file& file, std::uint64_t first, std::uint64_t count, std::byte* at,
                                visitor each) const;

    const heap_location* location_ = nullptr;
    segment_files* segments_ = nullptr;
    const space_view* view_ = nullptr;
};

}  // namespace holdfast::segment
