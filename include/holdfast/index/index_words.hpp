#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include <holdfast/hash.hpp>
#include <holdfast/persistable.hpp>
#include <holdfast/ptr.hpp>

namespace holdfast::detail {

[[nodiscard]] inline std::uint64_t load_word(const std::uint64_t* place) noexcept {
    return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(place)).load(std::memory_order_relaxed);
}

/// The word was loaded from `place`.
[[nodiscard]] inline std::uintptr_t target_of_word(const std::uint64_t* place, std::uint64_t word) noexcept {
    const std::uint64_t distance = word & distance_mask;
    return distance == 0 ? 0 : reinterpret_cast<std::uintptr_t>(place) + distance - distance_bias;
}
/// Words of an index bear no stamps.
[[nodiscard]] inline std::uint64_t word_of_target(const std::uint64_t* place, const void* target) noexcept {
    return target == nullptr
               ? 0
               : reinterpret_cast<std::uintptr_t>(target) - reinterpret_cast<std::uintptr_t>(place) + distance_bias;
}

inline constexpr std::size_t longest_inline_key = 256;     ///< bytes
inline constexpr std::size_t longest_inline_value = 1024;  ///< bytes
/// A longer std::string_view is refused.
inline constexpr std::uint64_t longest_index_text = std::uint64_t{1} << 30U;

template <class T>
inline constexpr bool is_index_text = std::is_same_v<T, std::string_view>;

/// A type whose bytes are its value.
template <class T>
concept index_inline = std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && !std::is_pointer_v<T> &&
                       !is_index_text<T> && !is_instance<T, ptr>;
template <class T>
concept index_hash_key = is_index_text<T> || (index_inline<T> && std::has_unique_object_representations_v<T> &&
                                              sizeof(T) <= longest_inline_key);
template <class T>
concept index_key = index_hash_key<T> && requires(const T& a, const T& b) {
    { a < b } -> std::convertible_to<bool>;
};
template <class T>
concept index_value = is_index_text<T> || (index_inline<T> && sizeof(T) <= longest_inline_value);

/// Bytes behind an inline T are 0.
template <class T>
struct index_words {
    static constexpr bool is_block = false;
    static constexpr std::size_t words = (sizeof(T) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    static constexpr std::size_t bytes = sizeof(T);
    using array = std::array<std::uint64_t, words>;
    using owned = T;

    [[nodiscard]] static array encode(const T& value) noexcept {
        array to{};
        std::memcpy(to.data(), &value, sizeof value);
        return to;
    }
    [[nodiscard]] static T decode(const array& from) noexcept {
        T value;
        std::memcpy(static_cast<void*>(&value), from.data(), sizeof value);
        return value;
    }
    [[nodiscard]] static T load(const std::uint64_t* place) noexcept {
        array from;
        for (std::size_t i = 0; i < words; ++i) {
            from[i] = load_word(place + i);
        }
        return decode(from);
    }
};
template <>
struct index_words<std::string_view> {
    static constexpr bool is_block = true;
    static constexpr std::size_t words = 1;
    static constexpr std::size_t bytes = 0;
    using array = std::array<std::uint64_t, 1>;
    using owned = std::string;
};

template <class Key>
[[nodiscard]] bool equal_keys(const Key& a, const Key& b) noexcept {
    if constexpr (requires { a == b; }) {
        return a == b;
    } else if constexpr (requires { a < b; }) {
        return !(a < b) && !(b < a);
    } else {
        return index_words<Key>::encode(a) == index_words<Key>::encode(b);
    }
}

/// One byte, on media, so it never changes.
template <class Key>
[[nodiscard]] std::uint8_t fingerprint(const Key& key) noexcept {
    if constexpr (is_index_text<Key>) {
        return static_cast<std::uint8_t>(hash_bytes(key.data(), key.size()) >> 56U);
    } else if constexpr (index_words<Key>::words == 1) {
        return static_cast<std::uint8_t>(index_words<Key>::encode(key)[0] * hash_first >> 56U);
    } else {
        const auto words = index_words<Key>::encode(key);
        return static_cast<std::uint8_t>(hash_bytes(words.data(), sizeof words) >> 56U);
    }
}

/// Larger than `low` and at most `high`, where low < high: it parts two leaves.
[[nodiscard]] inline std::string_view shortest_between(std::string_view low, std::string_view high) noexcept {
    std::size_t same = 0;
    while (same < low.size() && low[same] == high[same]) {
        ++same;
    }
    return high.substr(0, same + 1);
}

}  // namespace holdfast::detail
