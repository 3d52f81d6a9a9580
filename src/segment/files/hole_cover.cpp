#include "segment/files/hole_cover.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.hpp"
#include "persist/backing.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/mapping_limit.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;

}  // namespace

base::result<void> hole_cover::cover(persist::file& file, std::span<const mapped_window> windows) {
    if (!required_) {
        return {};
    }
    HF_TRY_ASSIGN(const bool takes_space, persist::reading_takes_space(file));
    if (!takes_space) {
        return {};
    }
    HF_TRY_ASSIGN(const persist::file_backing backing, persist::backing_of(file));
    const std::uint64_t most = most_mapped_ranges();
    for (const mapped_window& window : windows) {
        const std::uint64_t end = window.offset + window.size;
        auto next = std::ranges::upper_bound(backing.ranges, window.offset, {}, &persist::file_range::end);
        for (std::uint64_t at = window.offset; at < end;) {
            const bool inside = next != backing.ranges.end() && next->begin < end;
            const std::uint64_t hole_end = inside ? base::align_down(std::max(at, next->begin), page_size) : end;
            if (at < hole_end) {
                if (++covered_ > most) {
                    return failure{failure_code::limit,
                                   file.path(),
                                   "holes",
                                   fmt::format("more than {}", most),
                                   "at most as many, each a mapping",
                                   "the heap was copied without the space that it had reserved; open it for writing "
                                   "once, which reserves it",
                                   0};
                }
                HF_TRY(map_zeroed(window.address + (at - window.offset), hole_end - at, false));
            }
            at = inside ? std::min(end, base::align_up(next->end, page_size)) : end;
            next += inside ? 1 : 0;
        }
    }
    return {};
}

}  // namespace holdfast::segment
