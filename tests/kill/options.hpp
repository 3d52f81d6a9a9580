// The command line that crash tests share: of the observer, and of the victims that it starts.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::test {

struct run_options {
    std::uint64_t cycles = 0;  ///< --cycles N
    std::uint64_t seed = 0;    ///< --seed N; random by default
    std::string memory_directory = "/dev/shm";
    std::string disk_directory = ".";
};

/// Of this run.
[[nodiscard]] const run_options& options() noexcept;

/// main(): a victim where the command line says so, else GoogleTest.
int crash_test_main(int count, char** arguments, std::uint64_t default_cycles);

}  // namespace holdfast::test
