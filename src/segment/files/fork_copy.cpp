#include "segment/files/fork_copy.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace holdfast::segment {

base::result<void> show_range_to_child(std::byte* address, std::uint64_t bytes, bool shown) {
    if (::madvise(address, bytes, shown ? MADV_DOFORK : MADV_DONTFORK) != 0) {
        return base::os_failure(errno, "madvise", {});
    }
    return {};
}

base::result<void> replace_by_copy(std::byte* address, std::uint64_t bytes, std::span<const byte_range> ranges) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return base::os_failure(errno, "mmap", {});
    }
    for (const byte_range& range : ranges) {
        std::memcpy(static_cast<std::byte*>(memory) + range.begin, address + range.begin, range.length);
    }
    if (::mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) == MAP_FAILED) {
        const int os_error = errno;
        ::munmap(memory, bytes);
        return base::os_failure(os_error, "mremap", {});
    }
    return {};
}

}  // namespace holdfast::segment
