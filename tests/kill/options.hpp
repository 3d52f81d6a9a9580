// The command line of crash tests, for the observer and the victims that it starts.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::test {

struct run_options {
    std::uint64_t cycles = 0;   ///< --cycles N
    std::uint64_t seed = 0;     ///< --seed N; random by default
    std::uint64_t readers = 1;  ///< --readers N; of turns_kill_test, at most 8
    std::string memory_directory = "/dev/shm";
    std::string disk_directory = ".";
};

[[nodiscard]] const run_options& options() noexcept;

/// main(): runs as a victim if the command line says so, else runs GoogleTest.
int crash_test_main(int count, char** arguments, std::uint64_t default_cycles);

}  // namespace holdfast::test
