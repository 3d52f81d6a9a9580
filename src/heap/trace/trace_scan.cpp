#include "heap/trace/trace_scan.hpp"

#include <cstring>

#include "segment/format/pointer_format.hpp"

namespace holdfast::heap {

namespace {

/// Split into the registers that the processor has.
using lanes [[gnu::vector_size(64)]] = std::uint64_t;
static_assert(sizeof(lanes) == scan_group * sizeof(std::uint64_t));

/// `end` is below 2^63, so a distance x is below `end` iff neither x nor end - 1 - x has its highest bit set: one bit
/// of the conjunction of eight words says whether none is.
[[gnu::always_inline]] inline std::uint64_t scan(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                                 const scan_limits& limits) noexcept {
    constexpr std::uint64_t step = sizeof(std::uint64_t);
    const std::uint64_t last = limits.end - 1;
    std::uint64_t from = offset - segment::pointer_distance_bias;
    const lanes each{0, step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 7 * step};
    std::uint64_t found = 0;
    for (std::uint64_t group = 0; group < groups; ++group, from += sizeof(lanes)) {
        lanes some;
        std::memcpy(&some, words + group * scan_group, sizeof some);
        const lanes target = (some & segment::pointer_distance_mask) + (each + from);
        lanes outside = target | (last - target);
        if (limits.raw) {
            const lanes distance = some - limits.address;
            outside &= distance | (last - distance);
        }
        // Folding halves takes three conjunctions instead of seven.
        outside &= __builtin_shufflevector(outside, outside, 4, 5, 6, 7, 0, 1, 2, 3);
        outside &= __builtin_shufflevector(outside, outside, 2, 3, 0, 1, 6, 7, 4, 5);
        const std::uint64_t none = outside[0] & outside[1];
        found |= (~none >> 63U) << group;
    }
    return found;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t scan_avx2(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                                const scan_limits& limits) noexcept {
    return scan(words, groups, offset, limits);
}
#endif

}  // namespace

std::uint64_t scan_anywhere(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                            const scan_limits& limits) noexcept {
    return scan(words, groups, offset, limits);
}

scan_function fastest_scan() noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0) {
        return scan_avx2;
    }
#endif
    return scan_anywhere;
}

}  // namespace holdfast::heap
