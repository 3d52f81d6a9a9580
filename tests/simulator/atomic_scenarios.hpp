// What the tests of durability `atomic` run: every short program over an alphabet of steps, from several starts; long
// random ones; and the sequences that once looked dangerous, each by its name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/atomic_laboratory.hpp"

namespace holdfast::simulator {

/// All steps that the exhaustive programs are made of.
[[nodiscard]] const std::vector<step>& step_alphabet();

struct atomic_start {
    std::string name;
    std::vector<step> setup;
    bool settled = true;
    std::uint16_t stamp = 0;
};
[[nodiscard]] const std::vector<atomic_start>& atomic_starts();

/// Every program of up to `length` steps that begins with the one step.
[[nodiscard]] atomic_report explore_programs(const atomic_setting& setting, const atomic_effort& effort,
                                             const atomic_start& start, const step& first, std::size_t length);

struct named_program {
    std::string name;
    atomic_program program;
};
/// The hard sequences of one thread (docs/atomic-protocol.md), and those that only one mutant needs.
[[nodiscard]] const std::vector<named_program>& named_programs();

/// Programs of space that goes back at once, and of heaps that are shortened: those that look dangerous, every short
/// one over an alphabet of their own, and two threads.
[[nodiscard]] atomic_report explore_space(atomic_setting setting, const atomic_effort& effort, std::size_t length,
                                          unsigned preemptions);

/// Three lanes with more pending records on one destination than there are stamps.
[[nodiscard]] atomic_report explore_lap_of_stamps();

/// Every program of two threads, of which the first dies at its step of each number.
[[nodiscard]] atomic_report explore_deaths(const atomic_setting& setting, const atomic_effort& effort);

/// Programs of two threads: the hard sequences that need them, and others that share lines, blocks and rings.
[[nodiscard]] const std::vector<concurrent_program>& concurrent_programs();

}  // namespace holdfast::simulator
