// A byte in DRAM for each block of a loaded slab. Its holder finds free blocks by looking at 64 states at once, so a
// free need not tell it. Commits and checkpoints write the live bitmaps from the states.
//
// Frees by threads of other nodes are merged, as from PMAlloc's shadow bitmaps (6.2); those of this node are not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__SANITIZE_THREAD__)
#define HF_STATES_ONE_BY_ONE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HF_STATES_ONE_BY_ONE 1
#endif
#endif
#if defined(__SSE2__) && !defined(HF_STATES_ONE_BY_ONE)
#include <emmintrin.h>
#endif

namespace holdfast::slab {

namespace block_state {
inline constexpr std::uint8_t free = 0;        ///< the holder of the slab may hand it out
inline constexpr std::uint8_t live = 1;        ///< the user holds it
inline constexpr std::uint8_t freeing = 2;     ///< still live: the record of its free is on its way
inline constexpr std::uint8_t held = 4;        ///< not live, and not handed out: on its way, or reserved
inline constexpr std::uint8_t overlapped = 8;  ///< overlaps an older block that may be live
/// Only its owner may free it (pinned_blocks.hpp): a search for `live` refuses it.
inline constexpr std::uint8_t pinned = live | 16;
}  // namespace block_state

inline constexpr std::size_t states_a_word = 64;

/// Loads with acquire and compares, in one instruction on x86.
template <class Word>
[[nodiscard]] inline bool holds(const Word& word, Word value) noexcept {
#if defined(__x86_64__) && !defined(HF_STATES_ONE_BY_ONE)
    bool so = false;
    if constexpr (sizeof(Word) == 1) {
        asm volatile("cmpb %2, %1" : "=@cce"(so) : "m"(word), "iq"(value) : "memory");
    } else {
        static_assert(sizeof(Word) == 8);
        asm volatile("cmpq %2, %1" : "=@cce"(so) : "m"(word), "er"(value) : "memory");
    }
    return so;
#else
    return std::atomic_ref(const_cast<Word&>(word)).load(std::memory_order_acquire) == value;
#endif
}

namespace detail {

[[nodiscard]] inline std::uint64_t load_states(const std::uint8_t* states) noexcept {
#if defined(HF_STATES_ONE_BY_ONE)
    std::uint64_t eight = 0;  // the sanitizer pairs only accesses of one size
    for (unsigned i = 0; i < 8; ++i) {
        eight |=
            std::uint64_t{
                std::atomic_ref<std::uint8_t>(const_cast<std::uint8_t&>(states[i])).load(std::memory_order_acquire)}
            << (8 * i);
    }
    return eight;
#else
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(const_cast<std::uint8_t*>(states)))
        .load(std::memory_order_acquire);
#endif
}

/// Gathers the lowest bits of 64 bytes by multiplication.
template <class Of>
[[nodiscard]] inline std::uint64_t gather_states(const std::uint8_t* states, Of of) noexcept {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 8; ++i) {
        const std::uint64_t lowest = of(load_states(states + std::size_t{8} * i)) & 0x0101010101010101;
        bits |= (lowest * 0x0102040810204080 >> 56U) << (8 * i);
    }
    return bits;
}

}  // namespace detail

#if defined(__SSE2__) && !defined(HF_STATES_ONE_BY_ONE)
namespace detail {
/// Bits of the bytes whose highest bit is set in what `of` makes of them.
template <class Of>
[[nodiscard]] inline std::uint64_t bits_of_bytes(const std::uint8_t* states, Of of) noexcept {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 4; ++i) {
        // Loads are in order; the fence below is for the compiler.
        const __m128i some = _mm_load_si128(reinterpret_cast<const __m128i*>(states) + i);
        bits |= std::uint64_t{static_cast<std::uint16_t>(_mm_movemask_epi8(of(some)))} << (16 * i);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    return bits;
}
[[nodiscard]] inline std::uint64_t equal_states(const std::uint8_t* states, std::uint8_t wanted) noexcept {
    const __m128i all = _mm_set1_epi8(static_cast<char>(wanted));
    return bits_of_bytes(states, [all](__m128i some) { return _mm_cmpeq_epi8(some, all); });
}
}  // namespace detail
#endif

/// States begin at a multiple of 64.
[[nodiscard]] inline std::uint64_t live_bits_of(const std::uint8_t* states) noexcept {
#if defined(__SSE2__) && !defined(HF_STATES_ONE_BY_ONE)
    // The two lowest bits of each byte become its highest.
    return detail::bits_of_bytes(
        states, [](__m128i some) { return _mm_or_si128(_mm_slli_epi16(some, 7), _mm_slli_epi16(some, 6)); });
#else
    return detail::gather_states(states, [](std::uint64_t eight) { return eight | eight >> 1U; });
#endif
}

[[nodiscard]] inline std::uint64_t free_bits_of(const std::uint8_t* states) noexcept {
#if defined(__SSE2__) && !defined(HF_STATES_ONE_BY_ONE)
    return detail::equal_states(states, block_state::free);
#else
    return ~detail::gather_states(states,
                                  [](std::uint64_t eight) { return eight | eight >> 1U | eight >> 2U | eight >> 3U; });
#endif
}

[[nodiscard]] inline std::uint64_t overlapped_bits_of(const std::uint8_t* states) noexcept {
#if defined(__SSE2__) && !defined(HF_STATES_ONE_BY_ONE)
    return detail::equal_states(states, block_state::overlapped);
#else
    return detail::gather_states(states, [](std::uint64_t eight) { return eight >> 3U; });
#endif
}

/// Without an option for the instruction, compilers call a function for std::popcount.
[[nodiscard]] constexpr unsigned count_bits(std::uint64_t bits) noexcept {
    bits -= bits >> 1U & 0x5555555555555555;
#if defined(__GNUC__)
    if (!std::is_constant_evaluated()) {
        asm("" : "+r"(bits));  // hides the pattern from the compiler
    }
#endif
    bits = (bits & 0x3333333333333333) + (bits >> 2U & 0x3333333333333333);
    bits = (bits + (bits >> 4U)) & 0x0f0f0f0f0f0f0f0f;
    return static_cast<unsigned>(bits * 0x0101010101010101 >> 56U);
}

[[nodiscard]] inline std::uint32_t count_free(const std::uint8_t* states, std::size_t words) noexcept {
#if defined(__SSE2__) && !defined(HF_STATES_ONE_BY_ONE)
    const __m128i zero = _mm_setzero_si128();
    __m128i sums = zero;
    for (std::size_t word = 0; word < words; ++word) {
        const auto* const some = reinterpret_cast<const __m128i*>(states + word * states_a_word);
        __m128i found = _mm_cmpeq_epi8(_mm_load_si128(some), zero);  // -1 for each
        for (unsigned i = 1; i < 4; ++i) {
            found = _mm_add_epi8(found, _mm_cmpeq_epi8(_mm_load_si128(some + i), zero));
        }
        sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_sub_epi8(zero, found), zero));
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(sums) + _mm_cvtsi128_si32(_mm_srli_si128(sums, 8)));
#else
    std::uint32_t found = 0;
    for (std::size_t word = 0; word < words; ++word) {
        found += count_bits(free_bits_of(states + word * states_a_word));
    }
    return found;
#endif
}

}  // namespace holdfast::slab
