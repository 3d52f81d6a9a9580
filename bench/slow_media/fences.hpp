// Media that answer later than DRAM: each fence of persistent memory (`sfence`) takes at least as many nanoseconds as
// HOLDFAST_FENCE_NS in the environment says; the processor waits while the lines of the fence are on their way.
// Included before all else in the preset slow-media, in whose files a fence is this one; what users build has no such
// hook. Loads are not slower: caches hide them or not, as ever.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

#include <emmintrin.h>
#include <x86intrin.h>

namespace holdfast_slow_media {

/// As many ticks of the processor's counter; 0 where nothing is asked for.
inline std::uint64_t ticks_of_environment() {
    const char* const text = std::getenv("HOLDFAST_FENCE_NS");
    const double wanted = text == nullptr ? 0 : std::atof(text);
    if (wanted <= 0) {
        return 0;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t first = __rdtsc();
    std::chrono::duration<double, std::nano> taken{};
    while (taken < std::chrono::milliseconds(5)) {
        taken = std::chrono::steady_clock::now() - start;
    }
    return static_cast<std::uint64_t>(wanted * static_cast<double>(__rdtsc() - first) / taken.count());
}
inline const std::uint64_t ticks = ticks_of_environment();

inline void wait() noexcept {
    if (ticks != 0) {
        const std::uint64_t start = __rdtsc();
        while (__rdtsc() - start < ticks) {
        }
    }
}
inline void fence() noexcept {
    _mm_sfence();
    wait();
}

}  // namespace holdfast_slow_media

#define _mm_sfence() ::holdfast_slow_media::fence()
