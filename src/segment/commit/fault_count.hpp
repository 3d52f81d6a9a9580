// Page faults. Memory that is protected takes one at the first store to each of its pages, whoever of this process
// makes it, system calls included. So as many pages at most were stored to as there were faults.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace holdfast::segment {

[[nodiscard]] inline std::uint64_t faults_of(int whom) noexcept {
    rusage used{};
    ::getrusage(whom, &used);
    return static_cast<std::uint64_t>(used.ru_minflt) + static_cast<std::uint64_t>(used.ru_majflt);
}
[[nodiscard]] inline std::uint64_t faults_of_process() noexcept { return faults_of(RUSAGE_SELF); }
[[nodiscard]] inline std::uint64_t faults_of_thread() noexcept { return faults_of(RUSAGE_THREAD); }

}  // namespace holdfast::segment
