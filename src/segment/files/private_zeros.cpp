#include "segment/files/private_zeros.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/units.hpp"

namespace holdfast::segment {

namespace {

using base::page_size;

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

}  // namespace holdfast::segment
