#pragma once

#include <string_view>

#include <holdfast/manager.hpp>

#include "output.hpp"

namespace holdfast_cli {

[[nodiscard]] std::string_view last_durability(const holdfast::lane_information& lanes);

[[nodiscard]] json as_json_object(const holdfast::lane_information& lanes);
/// Prints nothing for a heap that was never open in durability `atomic`.
void print_lanes(const holdfast::lane_information& lanes);

/// Of the writer that has the heap open; null where the lanes do not have them.
[[nodiscard]] json counters_of(const holdfast::lane_information& lanes);
void print_counters(const holdfast::lane_information& lanes);

/// What the recovery of this heap, open read-only, did in memory; the next writer does it on media. Null without one.
[[nodiscard]] json recovery_of(const holdfast::manager& heap);
void print_recovery(const holdfast::manager& heap);

}  // namespace holdfast_cli
