// How the lanes of a heap are opened.
#pragma once

#include <cstdint>
#include <optional>

#include "lane/clock.hpp"
#include "lane/lane.hpp"
#include "lane/lane_format.hpp"

namespace holdfast::lane {

inline constexpr std::uint64_t largest_log = ~std::uint64_t{0};

struct lane_options {
    std::uint64_t heap_key = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t slots = default_slots;
    record_order order = record_order::clock;
    std::uint64_t checkpoint_time = 0;  ///< in force; no record on media is newer
    /// In force. Nothing: no record counts, and open() writes a new head.
    std::optional<std::uint64_t> lane_count;
    block_states* states = nullptr;  ///< or null; in order `clock`, checkpoints store bitmaps from them
    record_clock::source clock =
        has_invariant_counter() ? record_clock::source::processor : record_clock::source::memory;
    std::uint64_t log_chain = 0;              ///< order `logged`: a random number
    std::uint64_t log_records = largest_log;  ///< that the log holds at most
    unsigned files = 1;                       ///< lane k lies in file k mod files; at most segment::maximum_nodes
    unsigned machine_nodes = 1;               ///< the memory of file f belongs to node f mod machine_nodes
    std::uint64_t lanes_for_ahead = 5;        ///< with so many, each writes back ahead; that of all threads is one
};

}  // namespace holdfast::lane
