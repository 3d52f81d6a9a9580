// What the command line of random_attack_test says.
#pragma once

#include <cstdint>

namespace holdfast::attack {

struct run_options {
    std::uint64_t seconds = 2;  ///< of each test
    std::uint64_t seed = 1;     ///< 0: a random one, which is printed
};
inline run_options chosen;

}  // namespace holdfast::attack
