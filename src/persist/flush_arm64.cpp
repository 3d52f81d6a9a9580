#if defined(__aarch64__)

#include <sys/auxv.h>

#include <cstring>

#include "base/assert.hpp"
#include "base/units.hpp"
#include "persist/flush.hpp"

namespace holdfast::persist {

namespace {

constexpr unsigned long has_cvap = 1UL << 16U;  // HWCAP_DCPOP, which older headers do not name

std::uintptr_t line_size() noexcept {
    static const std::uintptr_t bytes = [] {
        std::uint64_t cache_type = 0;
        asm("mrs %0, ctr_el0" : "=r"(cache_type));
        return std::uintptr_t{4} << ((cache_type >> 16U) & 0xFU);  // DminLine: log2 of the words of 4 bytes
    }();
    return bytes;
}

// dc cvap as `sys`: the assembler needs no flag for a newer architecture.
void cvap_line(std::uintptr_t line) noexcept { asm volatile("sys #3, c7, c12, #1, %0" ::"r"(line) : "memory"); }
void civac_line(std::uintptr_t line) noexcept { asm volatile("dc civac, %0" ::"r"(line) : "memory"); }

template <void (*Line)(std::uintptr_t) noexcept>
void flush_range(const void* begin, std::size_t bytes) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const auto end = address + bytes;
    const auto step = line_size();
    for (auto line = base::align_down(address, step); line < end; line += step) {
        Line(line);
    }
}

}  // namespace

bool is_available(flush_method method) noexcept {
    switch (method) {
        case flush_method::dc_cvap: return (::getauxval(AT_HWCAP) & has_cvap) != 0;
        case flush_method::dc_civac: return true;
        default: return false;
    }
}

flush_method best_flush_method() noexcept {
    return is_available(flush_method::dc_cvap) ? flush_method::dc_cvap : flush_method::dc_civac;
}

flush_function flush_with(flush_method method) noexcept {
    HF_ASSERT(is_available(method));
    return method == flush_method::dc_cvap ? &flush_range<cvap_line> : &flush_range<civac_line>;
}

void drain() noexcept { asm volatile("dsb sy" ::: "memory"); }

void copy_around_cache(void* target, const void* source, std::size_t bytes) noexcept {
    static const flush_function flush = flush_with(best_flush_method());
    HF_ASSERT(base::is_aligned(reinterpret_cast<std::uintptr_t>(target), sizeof(std::uint64_t)));
    std::memcpy(target, source, bytes);
    flush(target, bytes);
}

}  // namespace holdfast::persist

#endif
