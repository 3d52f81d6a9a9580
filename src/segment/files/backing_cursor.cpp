#include "segment/files/backing_cursor.hpp"

#include <algorithm>

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

}  // namespace holdfast::segment
