#include "segment/files/private_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/under_qemu.hpp"
#include "base/units.hpp"
#include "segment/files/kernel_limits.hpp"

// Since Linux 5.7.
#if !defined(MREMAP_DONTUNMAP)
#define MREMAP_DONTUNMAP 4
#endif
// Since Linux 5.4.
#if !defined(MADV_COLD)
#define MADV_COLD 20
#endif

namespace holdfast::segment {

namespace {

using base::page_size;

bool starts_at_page(const std::byte* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) % page_size == 0;
}

/// Each look takes some time.
bool mappings_are_scarce() noexcept {
    constexpr std::uint32_t between_checks = 256;
    static std::atomic<std::uint32_t> calls{0};
    static std::atomic<bool> scarce{true};
    if (calls.fetch_add(1, std::memory_order_relaxed) % between_checks == 0) {
        scarce.store(half_of_mappings_in_use(), std::memory_order_relaxed);
    }
    return scarce.load(std::memory_order_relaxed);
}

/// The kernel refuses to let one mapping grow in place with ENOMEM. At the end of the heap's addresses it may do it.
bool is_one_mapping(std::byte* from, std::uint64_t bytes) noexcept {
    if (::mremap(from, bytes, bytes + page_size, 0) != MAP_FAILED) {
        ::munmap(from + bytes, page_size);
        return true;
    }
    return errno == ENOMEM;
}
/// Returns bytes from the begin on: whole pages.
std::uint64_t run_of_one_mapping(std::byte* from, std::uint64_t bytes) noexcept {
    if (is_one_mapping(from, bytes)) {
        return bytes;
    }
    std::uint64_t is_one = 0;
    for (std::uint64_t is_more = bytes / page_size; is_more - is_one > 1;) {
        const std::uint64_t half = is_one + (is_more - is_one) / 2;
        (is_one_mapping(from, half * page_size) ? is_one : is_more) = half;
    }
    return is_one * page_size;
}

/// `from` reads as zero then. The kernel would unmap `to` before it looks whether it can move `from`, so the pages go
/// by a place that it chooses. False, and nothing changed, where it cannot.
bool move_pages(std::byte* to, std::byte* from, std::uint64_t bytes) noexcept {
    constexpr int memory = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const anywhere = nullptr;
    void* const between = ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, anywhere);
    if (between == MAP_FAILED) {
        return false;
    }
    // A new mapping unites with those beside it.
    static_cast<void>(::mmap(from, bytes, PROT_READ | PROT_WRITE, memory | MAP_FIXED, -1, 0));
    if (::mremap(between, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
        // The kernel is out of memory of its own, and may have unmapped `to`.
        static_cast<void>(::mmap(to, bytes, PROT_READ | PROT_WRITE, memory | MAP_FIXED_NOREPLACE, -1, 0));
        std::memcpy(to, between, bytes);
        ::munmap(between, bytes);
    }
    return true;
}

/// Locked pages would lose their lock, and new ones would all get memory at once.
bool is_locked(std::byte* page) noexcept { return ::madvise(page, page_size, MADV_COLD) != 0; }

/// A move leaves the old place without memory, so that the next block there faults for each page. Where the new place
/// has memory, a copy is cheaper.
bool half_has_memory(std::byte* first_page, std::uint64_t bytes) noexcept {
    std::array<unsigned char, 1024> found{};
    const std::uint64_t pages = bytes / page_size;
    std::uint64_t with_memory = 0;
    for (std::uint64_t looked = 0; looked < pages && 2 * with_memory < pages;) {
        const std::uint64_t more = std::min<std::uint64_t>(found.size(), pages - looked);
        if (::mincore(first_page + looked * page_size, more * page_size, found.data()) != 0) {
            return false;
        }
        with_memory +=
            static_cast<std::uint64_t>(std::count_if(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(more),
                                                     [](unsigned char each) { return (each & 1U) != 0; }));
        looked += more;
    }
    return 2 * with_memory >= pages;
}

class runs_of_range {
public:
    runs_of_range(std::byte* from, std::uint64_t bytes) noexcept {
        while (bytes != 0 && count_ < lengths_.size()) {
            lengths_[count_] = run_of_one_mapping(from, bytes);
            from += lengths_[count_];
            bytes -= lengths_[count_++];
        }
        complete_ = bytes == 0;
    }
    /// False: so many that a copy is better.
    [[nodiscard]] bool complete() const noexcept { return complete_; }
    [[nodiscard]] const std::uint64_t* begin() const noexcept { return lengths_.data(); }
    [[nodiscard]] const std::uint64_t* end() const noexcept { return lengths_.data() + count_; }

private:
    static constexpr std::size_t most = 16;
    std::array<std::uint64_t, most> lengths_{};
    std::size_t count_ = 0;
    bool complete_ = false;
};

}  // namespace

void move_private_memory(std::byte* to, std::byte* from, std::uint64_t bytes) noexcept {
    // User mode of QEMU 7.2 takes `from` for unmapped afterwards.
    if (!base::under_qemu && bytes >= least_moved && starts_at_page(to) && starts_at_page(from) &&
        !half_has_memory(to, bytes) && !mappings_are_scarce() && !is_locked(from)) {
        const runs_of_range runs(from, base::align_down(bytes, page_size));
        for (const auto* run = runs.begin(); runs.complete() && run != runs.end() && move_pages(to, from, *run);
             ++run) {
            to += *run;
            from += *run;
            bytes -= *run;
        }
    }
    std::memcpy(to, from, bytes);
}

}  // namespace holdfast::segment

namespace holdfast::segment {

namespace {

/// The kernel refuses to drop locked pages.
void drop_or_store(std::byte* from, std::uint64_t bytes) noexcept {
    if (::madvise(from, bytes, MADV_DONTNEED) != 0) {
        std::memset(from, 0, bytes);
    }
}

/// Storing zeros where there is memory is faster than dropping it and taking it again. Other pages may be in swap, so
/// they are dropped.
void zero_asking(std::byte* from, std::uint64_t bytes) noexcept {
    std::array<unsigned char, 1024> in_memory{};
    while (bytes != 0) {
        const std::uint64_t asked = std::min(bytes, in_memory.size() * page_size);
        if (::mincore(from, asked, in_memory.data()) != 0) {
            drop_or_store(from, bytes);
            return;
        }
        const auto* const end = in_memory.data() + asked / page_size;
        for (const auto* page = in_memory.data(); page != end;) {
            const bool resident = (*page & 1U) != 0;
            const auto* const next = std::find_if(page, end, [&](unsigned char one) { return (one & 1U) != resident; });
            const std::uint64_t run = static_cast<std::uint64_t>(next - page) * page_size;
            if (resident) {
                std::memset(from, 0, run);
            } else {
                drop_or_store(from, run);
            }
            from += run;
            page = next;
        }
        bytes -= asked;
    }
}

/// False where the kernel does not say.
bool middle_in_memory(std::byte* from, std::uint64_t bytes) noexcept {
    unsigned char in_memory = 0;
    return ::mincore(from + base::align_down(bytes / 2, page_size), page_size, &in_memory) == 0 &&
           (in_memory & 1U) != 0;
}

}  // namespace

void zero_private_memory(std::byte* address, std::uint64_t bytes) noexcept {
    if (bytes < least_asked_about) {
        std::memset(address, 0, bytes);
        return;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::uint64_t head = base::align_up(begin, page_size) - begin;
    const std::uint64_t tail = (begin + bytes) % page_size;
    std::byte* const pages = address + head;
    const std::uint64_t whole = bytes - head - tail;
    std::memset(address, 0, head);
    std::memset(pages + whole, 0, tail);
    if (whole >= least_dropped) {
        drop_or_store(pages, whole);
    } else if (whole < least_asked_wholly && middle_in_memory(pages, whole)) {
        std::memset(pages, 0, whole);
    } else {
        zero_asking(pages, whole);
    }
}

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
