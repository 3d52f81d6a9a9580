// Where durability `atomic` writes when big blocks come and go: DBMStest on a domain that notes every line that goes to
// the media, in its order (PMAlloc, TOCS 2024, figures 2 and 3). Counts, so every run finds the same.
//
// It looks below the public API, for the domain is a parameter of the layer heap; so it stands among the tests.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "allocators/large_workloads.hpp"
#include "command_line/command_line.hpp"
#include "flush_trace/media_buffers.hpp"
#include "flush_trace/plot.hpp"
#include "flush_trace/recording_domain.hpp"
#include "flush_trace/traced_heap.hpp"
#include "support/report.hpp"

namespace holdfast::flush_trace {
namespace {

constexpr std::size_t figure_writes = 1'000;
constexpr std::uint64_t near_lines = 4;
constexpr std::size_t reflush_distance = 4;

struct options {
    bench::common_options common;
    std::size_t writes = 200'000;
    std::size_t objects = 5'000;
    std::string svg;
    std::string csv;
};

/// What run_dbmstest() asks of a caller and of a field, over a traced heap. Ends by an exception of its own.
struct trace_is_full {};

struct traced_caller {
    traced_heap& heap;
    const media_trace& trace;
    std::vector<noted_call>& calls;
    void allocate(const std::size_t& destination, std::size_t bytes) const {
        stop_when_full();
        heap.allocate(destination, bytes);
        note(heap.entry_line(destination));
    }
    void release(const std::size_t& destination) const {
        stop_when_full();
        const std::uint64_t entry = heap.entry_line(destination);
        heap.release(destination);
        note(entry);
    }
    static void touch_ends(const std::size_t& /*destination*/, std::size_t /*bytes*/) noexcept {}

private:
    void note(std::uint64_t entry) const {
        if (!trace.full()) {
            calls.push_back({.writes = trace.writes().size(), .entry_line = entry});
        }
    }
    void stop_when_full() const {
        if (trace.full()) {
            throw trace_is_full{};
        }
    }
};

struct traced_field {
    const bench::allocation_run& settings;
    std::vector<std::size_t>& numbers;
    [[nodiscard]] const bench::allocation_run& run() const noexcept { return settings; }
    [[nodiscard]] std::span<std::size_t> part(unsigned /*thread*/, std::size_t count) const noexcept {
        return std::span(numbers).first(count);
    }
};

/// Of the writes [first, last).
struct pattern {
    std::size_t writes = 0;
    std::size_t records = 0;
    std::size_t sequential = 0;  ///< the line of the write before, or one of the next four
    std::size_t written_back = 0;
    std::size_t back_sequential = 0;  ///< of these
    std::size_t reflushed = 0;        ///< one of the four lines before
};

pattern pattern_of(const std::vector<media_write>& writes, std::size_t first, std::size_t last) {
    pattern found;
    for (std::size_t i = first; i < last; ++i) {
        const std::uint64_t line = writes[i].line;
        const bool is_back = writes[i].kind == write_kind::write_back;
        const bool is_near = i > first && line - writes[i - 1].line <= near_lines;
        const auto recent =
            std::span(writes).subspan(i - std::min(i - first, reflush_distance), std::min(i - first, reflush_distance));
        ++found.writes;
        found.records += writes[i].kind == write_kind::record ? 1U : 0U;
        found.written_back += is_back ? 1U : 0U;
        found.sequential += is_near ? 1U : 0U;
        found.back_sequential += is_back && is_near ? 1U : 0U;
        found.reflushed +=
            std::any_of(recent.begin(), recent.end(), [line](const auto& one) { return one.line == line; }) ? 1U : 0U;
    }
    return found;
}

double percent(std::size_t part, std::size_t all) {
    return all == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(all);
}

bench::row row_of(const std::string& name, const pattern& found) {
    return {bench::label("writes", name),
            bench::count("lines", found.writes),
            bench::count("records", found.records),
            bench::count("written_back", found.written_back),
            bench::number("sequential_percent", percent(found.sequential, found.writes)),
            bench::number("sequential_of_written_back_percent", percent(found.back_sequential, found.written_back)),
            bench::number("reflushed_percent", percent(found.reflushed, found.writes))};
}

void write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) {
        throw std::runtime_error(path + " cannot be written");
    }
}

/// PMAlloc's log saves 28 and 45 % of the time of flushes, those of its write-ahead log included.
void report_bookkeeping(bench::report& out, const bookkeeping& found, std::size_t calls) {
    constexpr double least_saved = 28;
    const auto row = [&](const char* name, std::uint64_t writes) {
        return bench::row{bench::label("bookkeeping", name), bench::count("buffers_written", writes),
                          bench::number("buffers_a_call", static_cast<double>(writes) / static_cast<double>(calls)),
                          bench::number("saved_percent", 100 - percent(writes, found.in_place))};
    };
    out.table("buffers of 256 bytes that go to the media",
              {row("records, entries in place with each call", found.in_place),
               row("records, and a log of entries", found.by_log), row("ours", found.ours)});
    out.goal_at_least("buffers saved against entries in place", 100 - percent(found.ours, found.in_place), least_saved,
                      "%");
}

/// Runs until the trace is full.
void run_until_full(traced_heap& heap, const media_trace& trace, const bench::allocation_run& settings,
                    std::vector<std::size_t>& numbers, std::vector<noted_call>& calls) {
    traced_caller caller{heap, trace, calls};
    traced_field field{settings, numbers};
    try {
        for (;;) {
            bench::run_dbmstest(caller, field, 0, std::uint64_t{1} << 40U);
        }
    } catch (const trace_is_full&) {
        return;
    }
}

/// The second: a checkpoint of a heap that has lived, in the middle of the trace.
std::vector<plot_panel> panels_of(const std::vector<media_write>& writes) {
    const std::size_t shown = std::min(figure_writes, writes.size());
    const auto is_back = [](const media_write& one) { return one.kind == write_kind::write_back; };
    const auto middle = writes.begin() + static_cast<std::ptrdiff_t>(writes.size() / 2);
    const auto record = std::find_if_not(middle, writes.end(), is_back);
    const auto at = static_cast<std::size_t>(std::find_if(record, writes.end(), is_back) - writes.begin());
    const std::size_t first = std::min(at - std::min(at, shown / 5), writes.size() - shown);
    return {{fmt::format("the first {} writes", shown), 0, shown},
            {fmt::format("{} writes round a checkpoint", shown), first, first + shown}};
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.writes = 20'000;
        chosen.objects = 500;
    }
    bench::allocation_run settings;
    settings.workload = "dbmstest";
    settings.dbms_objects = chosen.objects;
    settings.seed = chosen.common.seed;
    bench::report out("flush_trace_bench", chosen.common);
    out.begin({{"writes", chosen.writes}, {"dbms_objects", chosen.objects}});
    std::vector<std::size_t> numbers(bench::dbms_slots(settings));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = i;
    }
    media_trace trace(chosen.writes);
    traced_heap heap(trace, numbers.size());
    std::vector<noted_call> calls;
    run_until_full(heap, trace, settings, numbers, calls);
    const auto& writes = trace.writes();
    const pattern whole = pattern_of(writes, 0, writes.size());
    const auto panels = panels_of(writes);
    std::vector<bench::row> rows;
    rows.reserve(panels.size() + 1);
    for (const plot_panel& panel : panels) {
        rows.push_back(row_of(panel.title, pattern_of(writes, panel.first, panel.last)));
    }
    rows.push_back(row_of("all", whole));
    out.table("lines that go to the media, in their order", rows);
    report_bookkeeping(
        out,
        bookkeeping_of(writes, calls,
                       [&](const media_write& one) { return heap.place_of(one).part != heap_part::user; }),
        calls.size());
    out.goal_at_most("lines written again at a distance < 4", percent(whole.reflushed, whole.writes), 0, "%");
    if (whole.records == 0 || whole.written_back == 0) {
        throw std::logic_error("the trace has no records, or no checkpoint: nothing was traced");
    }
    if (!chosen.svg.empty()) {
        write_file(chosen.svg, draw_trace(heap, writes, panels));
    }
    if (!chosen.csv.empty()) {
        write_file(chosen.csv, list_trace(heap, writes));
    }
    std::uint64_t checksum = 0;
    for (const media_write& one : writes) {
        const place where = heap.place_of(one);
        checksum = bench::mix(checksum ^ where.offset ^ static_cast<std::uint64_t>(where.part) << 60U);
    }
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace
}  // namespace holdfast::flush_trace

int main(int argc, char** argv) {
    holdfast::flush_trace::options chosen;
    holdfast_programs::command_line app(
        "Where durability atomic writes: the lines that go to the media, in their order");
    chosen.common.declare(app);
    app.add_option("--writes", chosen.writes, "Lines to trace").show_default().range(10'000U, 1U << 27U);
    app.add_option("--dbms-objects", chosen.objects, "Blocks that an iteration allocates")
        .show_default()
        .range(10U, 10'000U);
    app.add_option("--svg", chosen.svg, "Picture to write");
    app.add_option("--csv", chosen.csv, "List of the lines to write");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return holdfast::flush_trace::run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "flush_trace_bench: {}\n", failure.what());
        return 1;
    }
}
