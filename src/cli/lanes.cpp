#include "lanes.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace holdfast_cli {

std::string_view last_durability(const holdfast::lane_information& lanes) { return lanes.last_durability; }

json as_json_object(const holdfast::lane_information& lanes) {
    return {{"count", lanes.lanes},     {"slots", lanes.slots},
            {"order", lanes.order},     {"incarnations", lanes.incarnations},
            {"pending", lanes.pending}, {"checkpoint_clock", lanes.checkpoint_clock}};
}

void print_lanes(const holdfast::lane_information& lanes) {
    if (lanes.incarnations == 0) {
        return;
    }
    print_line("lanes", fmt::format("{} of {} records, order: {}", lanes.lanes, lanes.slots, lanes.order));
    print_line("incarnations", fmt::format("{} (openings in durability atomic)", lanes.incarnations));
    print_line("last checkpoint", lanes.checkpoint_clock == 0
                                      ? std::string("none")
                                      : fmt::format("at {} of the heap's clock", lanes.checkpoint_clock));
}

namespace {

std::vector<std::pair<std::string_view, std::uint64_t>> numbers_of(const holdfast::protocol_counters& counters) {
    return {{"durable_records", counters.durable_records},
            {"fences", counters.fences},
            {"lines_flushed", counters.lines_flushed},
            {"reflushes", counters.reflushes},
            {"media_bytes", counters.media_bytes},
            {"checkpoints", counters.checkpoints},
            {"checkpoint_ns", counters.checkpoint_ns},
            {"longest_checkpoint_ns", counters.longest_checkpoint_ns},
            {"waits", counters.waits},
            {"lanes", counters.lanes}};
}

}  // namespace

json counters_of(const holdfast::lane_information& lanes) {
    if (!lanes.writer) {
        return nullptr;
    }
    json object{{"process", lanes.writer->process}, {"alive", lanes.writer->alive}};
    for (const auto& [name, value] : numbers_of(lanes.writer->counters)) {
        object[std::string(name)] = value;
    }
    return object;
}

void print_counters(const holdfast::lane_information& lanes) {
    if (!lanes.writer) {
        print_line("counters", "in that process: manager::counters(), hf_get_counters()");
        return;
    }
    print_line("counters", fmt::format("of process {}, which {}; as of its last checkpoint", lanes.writer->process,
                                       lanes.writer->alive ? "is alive" : "has ended"));
    for (const auto& [name, value] : numbers_of(lanes.writer->counters)) {
        print_line(name, fmt::format("{}", value));
    }
}

json recovery_of(const holdfast::manager& heap) {
    if (!heap.lanes().pending) {
        return nullptr;
    }
    const holdfast::recovery_report report = heap.last_recovery();
    return {{"lanes", report.lanes},
            {"pending_records", report.pending},
            {"replayed_words", report.replayed},
            {"rolled_back_records", report.rolled_back},
            {"time_ns", report.time_ns}};
}

void print_recovery(const holdfast::manager& heap) {
    if (heap.lanes().pending) {
        const holdfast::recovery_report report = heap.last_recovery();
        print_line("recovery",
                   fmt::format("{} record{} pending, {} word{} to rewrite, {} record{} cut off; {:.3f} ms",
                               report.pending, report.pending == 1 ? "" : "s", report.replayed,
                               report.replayed == 1 ? "" : "s", report.rolled_back, report.rolled_back == 1 ? "" : "s",
                               static_cast<double>(report.time_ns) / 1e6));
    }
}

}  // namespace holdfast_cli
