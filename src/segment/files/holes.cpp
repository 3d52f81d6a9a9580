#include "segment/files/holes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.hpp"
#include "persist/backing.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/kernel_limits.hpp"

namespace holdfast::segment {

using base::heap_offset;
using base::result;

result<void> backing_cursor::load(std::uint64_t segment) {
    HF_TRY_ASSIGN(auto file, storage_.open(paths_.segment(segment), persist::access_mode::read_only));
    HF_TRY_ASSIGN(backing_, persist::backing_of(*file));
    loaded_ = segment;
    next_ = 0;
    return {};
}

result<backed_bytes> backing_cursor::count(heap_offset begin, heap_offset end) {
    backed_bytes found;
    for (std::uint64_t at = begin.value; at < end.value;) {
        const std::uint64_t segment = at / shape_.segment_size;
        const std::uint64_t start = segment * shape_.segment_size;
        const std::uint64_t upto = std::min(end.value, start + shape_.segment_size);
        if (segment != loaded_) {
            HF_TRY(load(segment));
        }
        found.exact = found.exact && backing_.exact;
        for (; next_ < backing_.ranges.size(); ++next_) {
            const persist::file_range& range = backing_.ranges[next_];
            const std::uint64_t from = std::max(range.begin + start, at);
            found.bytes += std::max(std::min(range.end + start, upto), from) - from;
            if (range.end + start > upto) {
                break;  // the next count needs this range, too
            }
        }
        at = upto;
    }
    return found;
}

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
