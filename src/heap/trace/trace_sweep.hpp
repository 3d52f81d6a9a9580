#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "heap/trace/trace.hpp"
#include "heap/trace/trace_map.hpp"
#include "heap/trace/trace_marker.hpp"

namespace holdfast::heap {

[[nodiscard]] inline std::uint64_t nanoseconds_since(std::chrono::steady_clock::time_point start) noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
}

struct trace_run {
    trace_run(const segment::space_view& of, const trace_options& wanted)
        : space(of), options(wanted), lines(wanted.most_lines), blocks(of) {}

    [[nodiscard]] base::result<void> read(const extent::extent_allocator& extents, base::pages frontier,
                                          const block_map::quarantine& quarantined = {});
    [[nodiscard]] base::result<void> mark(std::span<const std::uint64_t> objects, const type_registry& types);
    void count_reached(std::uint64_t count, std::uint64_t bytes) noexcept {
        report.blocks_reached += count;
        report.bytes_reached += count * bytes;
    }
    void count_freed(std::uint32_t type, std::uint64_t count, std::uint64_t bytes);
    [[nodiscard]] trace_report finish(std::chrono::steady_clock::time_point sweep_start);

    const segment::space_view& space;
    const trace_options& options;
    trace_lines lines;
    block_map blocks;
    trace_report report;
};

}  // namespace holdfast::heap
