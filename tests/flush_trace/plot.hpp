// The picture of a trace, as PMAlloc's figure 3: the number of the write from left to right, its address upwards.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "flush_trace/traced_heap.hpp"

namespace holdfast::flush_trace {

struct plot_panel {
    std::string title;
    std::size_t first = 0;  ///< of the writes shown
    std::size_t last = 0;   ///< one beyond
};

/// An SVG document that needs nothing else. Each panel has a band for user space, metadata and lanes, each with its own
/// scale.
[[nodiscard]] std::string draw_trace(const traced_heap& heap, const std::vector<media_write>& writes,
                                     const std::vector<plot_panel>& panels);

/// "number,kind,part,offset", a line a write.
[[nodiscard]] std::string list_trace(const traced_heap& heap, const std::vector<media_write>& writes);

}  // namespace holdfast::flush_trace
