// What this process may still take before the kernel has none, or ends it: by the machine's memory and swap, and by
// each control group that it is in (versions 1 and 2). The page cache counts as free, because the kernel can drop it.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::segment {

/// Where the kernel tells, for tests.
struct memory_sources {
    std::string meminfo = "/proc/meminfo";
    std::string groups = "/proc/self/cgroup";
    std::string mounts = "/proc/self/mountinfo";
};

/// In bytes; all ones where the kernel does not say. May throw std::bad_alloc.
[[nodiscard]] std::uint64_t available_memory(const memory_sources& from = {});

}  // namespace holdfast::segment
