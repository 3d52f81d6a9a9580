#include "lanes.hpp"

#include <fmt/format.h>

namespace holdfast_cli {

std::string_view last_durability(const holdfast::lane_information& lanes) {
    return lanes.last_writer_atomic ? "atomic" : "commit";
}

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
