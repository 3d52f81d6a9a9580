#include "segment/files/address_range.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "persist/descriptor.hpp"
#include "persist/domain.hpp"

// Since Linux 6.1.
#if !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25
#endif
// Since Linux 5.14.
#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;

constexpr int reserve_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// MAP_FAILED, or addresses that no core dump has a part for.
void* reserve(void* at, std::uint64_t bytes, int more_flags) noexcept {
    void* const reserved = ::mmap(at, bytes, PROT_NONE, reserve_flags | more_flags, -1, 0);
    if (reserved != MAP_FAILED) {
        static_cast<void>(::madvise(reserved, bytes, MADV_DONTDUMP));
    }
    return reserved;
}

/// As /proc/self/maps names it.
std::string occupant(std::uintptr_t begin, std::uintptr_t end) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t from = 0;
        std::uintptr_t to = 0;
        char dash = 0;
        std::istringstream words(line);
        words >> std::hex >> from >> dash >> to;
        if (from < end && to > begin) {
            std::string rest;
            std::getline(words, rest);
            const auto name = rest.find_last_of(' ');
            const std::string what =
                name == std::string::npos || name + 1 == rest.size() ? "anonymous memory" : rest.substr(name + 1);
            return fmt::format("{:#x}-{:#x} {}", from, to, what);
        }
    }
    return "a mapping of this process, or outside the user's address space";
}

failure mapping_failure(int os_error, std::string_view operation, std::string_view path) {
    failure what = base::os_failure(os_error, operation, path);
    if (os_error == ENOMEM) {
        what.code = failure_code::limit;
        what.hint = "the process may be out of mappings (vm.max_map_count) or of address space (ulimit -v)";
    } else if (os_error == EAGAIN) {
        what.code = failure_code::limit;
        what.hint = "the process locks its memory (mlockall), and may lock no more (ulimit -l)";
    }
    return what;
}

failure mapping_failure(std::string_view operation, std::string_view path) {
    return mapping_failure(errno, operation, path);
}

failure no_addresses(int os_error, std::uint64_t bytes) {
    failure what = mapping_failure(os_error, "reserve addresses", {});
    what.found = fmt::format("{} bytes asked for", bytes);
    return what;
}

/// mmap() at a fixed address takes the old pages away before it asks the file system; a failure must leave them.
base::result<void> map_over(std::byte* address, std::uint64_t bytes, int flags, int fd, std::uint64_t offset,
                            std::string_view path) {
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) {
        return mapping_failure("mmap", path);
    }
    if ((flags & MAP_PRIVATE) != 0) {
        keep_from_merging(static_cast<std::byte*>(mapped), bytes);
    }
    if (::mremap(mapped, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) == MAP_FAILED) {
        failure what = mapping_failure("mremap", path);
        ::munmap(mapped, bytes);
        return what;
    }
    return {};
}

}  // namespace

address_range::address_range(address_range&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), size_(std::exchange(other.size_, 0)) {}

address_range& address_range::operator=(address_range&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(size_, other.size_);
    return *this;
}

address_range::~address_range() {
    if (begin_ != nullptr) {
        ::munmap(begin_, size_);
    }
}

base::result<address_range> address_range::anywhere(std::uint64_t bytes, std::uint64_t aligned_at,
                                                    std::uint64_t alignment) {
    void* const raw = reserve(nullptr, bytes + alignment, 0);
    if (raw == MAP_FAILED) {
        return no_addresses(errno, bytes);
    }
    auto* const start = static_cast<std::byte*>(raw);
    const auto key = reinterpret_cast<std::uintptr_t>(start) + aligned_at;
    const std::uint64_t before = base::align_up(key, alignment) - key;
    if (before != 0) {
        ::munmap(start, before);
    }
    if (alignment - before != 0) {
        ::munmap(start + before + bytes, alignment - before);
    }
    return address_range(start + before, bytes);
}

base::result<address_range> address_range::exactly(std::byte* begin, std::uint64_t bytes) {
    // begin_ == nullptr means that there is no range.
    void* const raw = begin == nullptr ? nullptr : reserve(begin, bytes, MAP_FIXED_NOREPLACE);
    if (raw != nullptr && raw == begin) {
        return address_range(begin, bytes);
    }
    const int os_error = raw == MAP_FAILED ? errno : EEXIST;
    if (os_error == ENOMEM) {
        HF_TRY(try_to_reserve(bytes));  // else they lie outside the user's address space
    }
    if (raw != MAP_FAILED && raw != nullptr) {
        ::munmap(raw, bytes);  // an old kernel takes the address for a hint
    }
    const auto from = reinterpret_cast<std::uintptr_t>(begin);
    return failure{failure_code::address_taken,
                   {},
                   "address range",
                   occupant(from, from + bytes),
                   fmt::format("{:#x}-{:#x} free", from, from + bytes),
                   "open it at another address or free the range",
                   os_error == EEXIST ? 0 : os_error};
}

base::result<void> try_to_reserve(std::uint64_t bytes) {
    // Writable, which a system that does not overcommit counts.
    const auto tried = base::sparse_memory::map(bytes, "addresses");
    return tried ? base::result<void>() : no_addresses(tried.error().os_error, bytes);
}

base::result<void> map_file(std::byte* address, std::uint64_t bytes, int fd, std::uint64_t offset,
                            const std::string& path, page_sharing sharing) {
    int flags = 0;
    switch (sharing) {
        case page_sharing::private_pages: flags = MAP_PRIVATE | MAP_NORESERVE; break;
        case page_sharing::shared_pages: flags = MAP_SHARED; break;
        case page_sharing::shared_sync: flags = persist::synchronous_mapping_flags(); break;
    }
    HF_TRY(map_over(address, bytes, flags, fd, offset, path));
    if (sharing != page_sharing::private_pages && ::madvise(address, bytes, MADV_DONTFORK) != 0) {
        return mapping_failure("madvise(MADV_DONTFORK)", path);
    }
    return {};
}

base::result<void> map_zeroed(std::byte* address, std::uint64_t bytes, bool huge_pages) {
    HF_TRY(map_over(address, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, {}));
    if (huge_pages) {
        ::madvise(address, bytes, MADV_HUGEPAGE);
    }
    return {};
}

void choose_pages(std::byte* address, std::uint64_t bytes, huge_pages wanted, bool fresh) noexcept {
    ::madvise(address, bytes, wanted == huge_pages::none ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    if (fresh && wanted == huge_pages::at_once) {
        ::madvise(address, bytes, MADV_COLLAPSE);
    }
}

void keep_from_merging(std::byte* address, std::uint64_t bytes) noexcept {
    static_cast<void>(::madvise(address, bytes, MADV_UNMERGEABLE));  // fails where the kernel merges nothing
}

void populate(std::byte* address, std::uint64_t bytes) noexcept { ::madvise(address, bytes, MADV_POPULATE_WRITE); }

void keep_pages_small(std::byte* address, std::uint64_t bytes) noexcept {
    ::madvise(address, bytes, MADV_NOHUGEPAGE);
    ::madvise(address, bytes, MADV_RANDOM);
}

void read_page_by_page(std::byte* address, std::uint64_t bytes, bool on) noexcept {
    ::madvise(address, bytes, on ? MADV_RANDOM : MADV_NORMAL);
}

void read_ahead(std::byte* address, std::uint64_t bytes) noexcept { ::madvise(address, bytes, MADV_WILLNEED); }

base::result<void> unmap(std::byte* address, std::uint64_t bytes) {
    void* const mapped = reserve(address, bytes, MAP_FIXED);
    return mapped == MAP_FAILED ? base::result<void>(mapping_failure("mmap", {})) : base::result<void>();
}

base::result<void> set_rights(std::byte* address, std::uint64_t bytes, page_rights wanted) {
    const int protection = wanted == page_rights::none   ? PROT_NONE
                           : wanted == page_rights::read ? PROT_READ
                                                         : PROT_READ | PROT_WRITE;
    return ::mprotect(address, bytes, protection) != 0 ? base::result<void>(mapping_failure("mprotect", {}))
                                                       : base::result<void>();
}

base::result<void> try_to_drop_private_pages(std::byte* address, std::uint64_t bytes) {
    return ::madvise(address, bytes, MADV_DONTNEED) != 0 ? base::result<void>(mapping_failure("madvise", {}))
                                                         : base::result<void>();
}

void drop_private_pages(std::byte* address, std::uint64_t bytes) noexcept { ::madvise(address, bytes, MADV_DONTNEED); }

void drop_private_pages(std::span<const std::span<std::byte>> ranges) noexcept {
#ifdef SYS_process_madvise
    constexpr std::size_t few = 4;  // two system calls more than one for each
    // After a fork, an older descriptor means the parent process.
    const persist::descriptor self(ranges.size() <= few ? -1
                                                        : static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    while (self.valid() && !ranges.empty()) {
        std::array<iovec, 1024> batch;  // not cleared
        const std::size_t count = std::min(ranges.size(), batch.size());
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < count; ++i) {
            batch[i] = {ranges[i].data(), ranges[i].size()};
            bytes += ranges[i].size();
        }
        const long done = ::syscall(SYS_process_madvise, self.get(), batch.data(), count, MADV_DONTNEED, 0);
        if (done != static_cast<long>(bytes)) {
            break;  // an older kernel; dropping pages twice does no harm
        }
        ranges = ranges.subspan(count);
    }
#endif
    for (const auto& range : ranges) {
        drop_private_pages(range.data(), range.size());
    }
}

}  // namespace holdfast::segment
