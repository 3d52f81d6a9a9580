// The programs that test durability `atomic`: every short program over an alphabet of steps, from several starts; long
// random programs; dangerous sequences by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/atomic/atomic_explorer.hpp"

namespace holdfast::simulator {

/// The steps of exhaustive programs.
[[nodiscard]] const std::vector<step>& step_alphabet();

struct atomic_start {
    std::string name;
    std::vector<step> setup;
    bool settled = true;
    std::uint16_t stamp = 0;
};
[[nodiscard]] const std::vector<atomic_start>& atomic_starts();

[[nodiscard]] atomic_report explore_programs(const atomic_setting& setting, const atomic_effort& effort,
                                             const atomic_start& start, const step& first, std::size_t length);

struct named_program {
    std::string name;
    atomic_program program;
};
/// The hard sequences of one thread (docs/atomic-protocol.md), and those that only one mutant needs.
[[nodiscard]] const std::vector<named_program>& named_programs();

/// With space that goes back at once and heaps that become shorter: dangerous programs, every short program over an
/// alphabet of their own, and pairs of threads.
[[nodiscard]] atomic_report explore_space(atomic_setting setting, const atomic_effort& effort, std::size_t length,
                                          unsigned preemptions);

/// Heaps of two nodes: what a thread of the one frees is the other's, and a thread there merges it.
[[nodiscard]] atomic_report explore_nodes(atomic_setting setting, const atomic_effort& effort, std::size_t length);

/// Three lanes with more pending records on one destination than there are stamps.
[[nodiscard]] atomic_report explore_lap_of_stamps();

/// Groups: every short program of them beside calls on destinations, from a number of starts.
[[nodiscard]] std::size_t group_starts();
[[nodiscard]] atomic_report explore_groups(const atomic_setting& setting, const atomic_effort& effort,
                                           std::size_t start, std::size_t length);
/// Groups of two threads, and random programs.
[[nodiscard]] atomic_report explore_groups_of_two(const atomic_setting& setting, const atomic_effort& effort,
                                                  unsigned preemptions, std::uint64_t random_programs);

/// Every program of two threads; the first dies at each of its steps in turn.
[[nodiscard]] atomic_report explore_deaths(const atomic_setting& setting, const atomic_effort& effort);

/// Programs of two threads: hard sequences that need two, and others that share lines, blocks and rings.
[[nodiscard]] const std::vector<concurrent_program>& concurrent_programs();

}  // namespace holdfast::simulator
