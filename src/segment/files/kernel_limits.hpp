// What the kernel lets this process have: memory, and mappings. And the files in which it says so.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "persist/descriptor.hpp"

namespace holdfast::segment {

/// Calls `each` for the parts of a file of the kernel, which has no length of its own, as they are read. Not by a
/// stream: opening one waits for the C library's list of streams, whose holder may run code of the program that waits
/// for this heap.
template <class Each>
void read_parts(const char* path, Each each) {
    const persist::descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> text;  // NOLINT(*-member-init): written where it is read
    for (ssize_t got = 1; file.valid() && got != 0;) {
        got = ::read(file.get(), text.data(), text.size());
        if (got > 0) {
            each(std::span<const char>(text.data(), static_cast<std::size_t>(got)));
        } else if (got < 0 && errno != EINTR) {
            return;
        }
    }
}

/// Where the kernel tells, for tests.
struct memory_sources {
    std::string meminfo = "/proc/meminfo";
    std::string groups = "/proc/self/cgroup";
    std::string mounts = "/proc/self/mountinfo";
};

/// What this process may still take before the kernel has none, or ends it: by the machine's memory and swap, and by
/// each control group that it is in (versions 1 and 2). The page cache counts as free, because the kernel can drop it.
/// In bytes; all ones where the kernel does not say. May throw std::bad_alloc.
[[nodiscard]] std::uint64_t available_memory(const memory_sources& from = {});

/// A heap should have at most so many ranges with mappings of their own: at the kernel's limit (vm.max_map_count) mmap
/// fails in an arbitrary place.
[[nodiscard]] std::uint64_t most_mapped_ranges() noexcept;

/// Takes some 30 ms where it is true.
[[nodiscard]] bool half_of_mappings_in_use() noexcept;

/// Fails where the growth to `after` segments would come near the limit. Asks the kernel only where there are many.
base::result<void> check_mappings(std::uint64_t before, std::uint64_t after);

}  // namespace holdfast::segment
