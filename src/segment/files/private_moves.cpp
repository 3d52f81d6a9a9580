#include "segment/files/private_moves.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/under_qemu.hpp"
#include "base/units.hpp"
#include "segment/files/mapping_limit.hpp"

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
