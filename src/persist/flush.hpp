// Instructions are chosen at run time, whatever processor the compiler targets. (Valgrind 3.19 reports neither clwb nor
// clflushopt and fails on both.) Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace holdfast::persist {

/// The best of each architecture first.
enum class flush_method : std::uint8_t {
    clwb,        ///< x86-64: may keep the line cached; complete after sfence
    clflushopt,  ///< x86-64: evicts; complete after sfence
    clflush,     ///< x86-64: evicts, one line after the other
    dc_cvap,     ///< arm64: cleans to the point of persistence; complete after dsb
    dc_civac,    ///< arm64: cleans and invalidates to the point of coherency; complete after dsb
};

[[nodiscard]] std::string_view to_string(flush_method method) noexcept;

[[nodiscard]] bool is_available(flush_method method) noexcept;

[[nodiscard]] flush_method best_flush_method() noexcept;

/// Starts to write back all lines that hold a byte of the range. Complete after drain() in the same thread.
using flush_function = void (*)(const void* begin, std::size_t bytes) noexcept;

[[nodiscard]] flush_function flush_with(flush_method method) noexcept;

/// Waits for all write-backs and non-temporal stores of this thread.
#if defined(__x86_64__)
inline void drain() noexcept {
    asm volatile("" ::: "memory");
    _mm_sfence();
}
#else
void drain() noexcept;
#endif

/// `bytes` is a multiple of 8, the ranges are aligned to 8 and do not overlap. Complete after drain() in the same
/// thread.
void copy_around_cache(void* target, const void* source, std::size_t bytes) noexcept;

/// Loads word by word: a wider load could not be forwarded from the stores of single words, so it would wait for them
/// and for the fence before them.
inline void copy_line_around_cache(void* target, const std::uint64_t (&words)[8]) noexcept {
#if defined(__x86_64__)
    auto* const to = static_cast<__m128i*>(target);
    for (std::size_t i = 0; i < 4; ++i) {
        _mm_stream_si128(
            to + i, _mm_set_epi64x(static_cast<long long>(words[2 * i + 1]), static_cast<long long>(words[2 * i])));
    }
#else
    copy_around_cache(target, words, sizeof words);
#endif
}

}  // namespace holdfast::persist
