// How the commands show what durability `atomic` keeps on media.
#pragma once

#include <string_view>

#include <holdfast/manager.hpp>

#include "output.hpp"

namespace holdfast_cli {

/// That the last writer worked in.
[[nodiscard]] std::string_view last_durability(const holdfast::lane_information& lanes);

[[nodiscard]] json as_json_object(const holdfast::lane_information& lanes);
/// Nothing for a heap that never was opened in durability `atomic`.
void print_lanes(const holdfast::lane_information& lanes);

/// The writer that has the heap open, and what its calls have cost; null where it says nothing.
[[nodiscard]] json counters_of(const holdfast::lane_information& lanes);
void print_counters(const holdfast::lane_information& lanes);

/// What the recovery of this heap, opened read-only, did in memory and the next writer will do on media; null where
/// there is nothing to recover.
[[nodiscard]] json recovery_of(const holdfast::manager& heap);
void print_recovery(const holdfast::manager& heap);

}  // namespace holdfast_cli
