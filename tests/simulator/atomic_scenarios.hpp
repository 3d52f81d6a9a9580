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

/// Programs of two threads: those of PROTOCOL's list that need them, and others that share lines, blocks and rings.
[[nodiscard]] const std::vector<concurrent_program>& concurrent_programs();

}  // namespace holdfast::simulator
