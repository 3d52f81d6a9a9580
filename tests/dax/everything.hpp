// The guest's work with all subjects (subjects.hpp). Prints "hf there NAME NUMBER in DOMAIN problems COUNT" when one
// was opened, "hf did NAME NUMBER" behind operations, "hf all" before all work side by side.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::dax {

/// Kills a process with each subject twice, then works on all, until the machine dies.
int work_on_all(const std::string& directory, std::uint64_t seed);
int examine_all(const std::string& directory, std::uint64_t seed);

}  // namespace holdfast::dax
