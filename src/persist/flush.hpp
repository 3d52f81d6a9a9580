// Writing cache lines back to media: the instructions of this processor, chosen when the program runs.
//
// Nothing here depends on what the compiler was told about the processor: the instructions are emitted by hand and
// executed only where the processor says that it has them. (Valgrind of Debian 12 reports neither clwb nor clflushopt,
// and dies on both; it is then given clflush.)
// Thread safety: all functions may be called from all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace holdfast::persist {

/// The ways to write a line back. The first that the processor has is the one to use.
enum class flush_method : std::uint8_t {
    clwb,        ///< x86-64: writes back, may keep the line cached; complete after sfence
    clflushopt,  ///< x86-64: writes back and evicts; complete after sfence
    clflush,     ///< x86-64: as clflushopt, one line after the other
    dc_cvap,     ///< arm64: cleans to the point of persistence; complete after dsb
    dc_civac,    ///< arm64: cleans and invalidates to the point of coherency; complete after dsb
};

[[nodiscard]] std::string_view to_string(flush_method method) noexcept;

/// Whether this processor has the instruction.
[[nodiscard]] bool is_available(flush_method method) noexcept;

/// The best that this processor has.
[[nodiscard]] flush_method best_flush_method() noexcept;

/// Starts the write-back of all lines that hold a byte of the range. Not complete before drain() in the same thread.
using flush_function = void (*)(const void* begin, std::size_t bytes) noexcept;

/// The function that uses the given method, which is_available().
[[nodiscard]] flush_function flush_with(flush_method method) noexcept;

/// Waits until all write-backs and non-temporal stores of this thread have reached the persistence domain.
#if defined(__x86_64__)
inline void drain() noexcept {
    asm volatile("" ::: "memory");
    _mm_sfence();
}
#else
void drain() noexcept;
#endif

/// Copies `bytes` (a multiple of 8) between ranges that are aligned to 8 and do not overlap, around the cache where the
/// processor can, else through it with a write-back. Complete after drain() in the same thread. Any subset of the
/// 8-byte words may be on media before.
void copy_around_cache(void* target, const void* source, std::size_t bytes) noexcept;

/// The same for one whole line at a multiple of 64: what a durable record costs. Word by word, for a wider load could
/// not be served from the stores that made the words, and would wait for these, and so for the fence before them.
inline void copy_line_around_cache(void* target, const std::uint64_t (&words)[8]) noexcept {
#if defined(__x86_64__)
    auto* const to = static_cast<long long*>(target);
    for (std::size_t i = 0; i < 8; ++i) {
        _mm_stream_si64(to + i, static_cast<long long>(words[i]));
    }
#else
    copy_around_cache(target, words, sizeof words);
#endif
}

}  // namespace holdfast::persist
