// holdfast::hash, equal_to, less: the defaults of Holdfast's associative containers.
//
// The hash function is part of the data of a stored hash table. For integers, enumerations, floating point, strings,
// pairs, tuples and std::optional it is defined here and never changes. Other types have boost::hash, which finds
// hash_value(const T&) next to T: write that, and do not change it while a heap uses it. Boost's own (std::array,
// vectors, std::variant) may change with its version. All string types of one character type hash and compare alike, so
// look-up takes a std::string_view or a literal.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/container/string.hpp>
#include <boost/container_hash/hash.hpp>
#include <holdfast/detail/refused.hpp>
#include <holdfast/ptr.hpp>

namespace holdfast {

namespace detail {

inline constexpr std::uint64_t hash_first = 0x9E3779B97F4A7C15U;
inline constexpr std::uint64_t hash_second = 0xC2B2AE3D27D4EB4FU;

/// Combines the halves of the 128-bit product by exclusive or. Source: wyhash.
[[nodiscard]] inline std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) noexcept {
    __extension__ using wide = unsigned __int128;
    const wide product = static_cast<wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

template <class Word>
[[nodiscard]] std::uint64_t hash_load(const unsigned char* bytes) noexcept {
    Word word;
    std::memcpy(&word, bytes, sizeof(word));
    return word;
}

/// 1 to 7 bytes as a word. The parts overlap; the size, which is hashed as well, keeps the results distinct.
[[nodiscard]] inline std::uint64_t hash_load_short(const unsigned char* bytes, std::size_t count) noexcept {
    if (count >= 4) {
        return hash_load<std::uint32_t>(bytes) | hash_load<std::uint32_t>(bytes + count - 4) << 32;
    }
    return std::uint64_t{bytes[0]} | std::uint64_t{bytes[count / 2]} << 8 | std::uint64_t{bytes[count - 1]} << 16;
}

/// In memory order, little endian on all supported architectures. The two constants may be a secret.
[[nodiscard]] inline std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t first = hash_first,
                                              std::uint64_t second = hash_second) noexcept {
    static_assert(std::endian::native == std::endian::little);
    const auto* bytes = static_cast<const unsigned char*>(data);
    std::uint64_t state = size * first ^ second;
    std::size_t left = size;
    for (; left >= 16; left -= 16, bytes += 16) {
        state = hash_mix(hash_load<std::uint64_t>(bytes) ^ first, hash_load<std::uint64_t>(bytes + 8) ^ state);
    }
    if (left >= 8) {
        state = hash_mix(hash_load<std::uint64_t>(bytes) ^ second, hash_load<std::uint64_t>(bytes + left - 8) ^ state);
    } else if (left != 0) {
        state = hash_mix(hash_load_short(bytes, left) ^ second, state);
    }
    return hash_mix(state ^ first, second);
}

template <class T>
struct string_traits {
    static constexpr bool is_string = false;
};
template <class Char, class Traits>
struct string_traits<std::basic_string_view<Char, Traits>> {
    static constexpr bool is_string = true;
    using view = std::basic_string_view<Char, Traits>;
};
template <class Char, class Traits, class Allocator>
struct string_traits<std::basic_string<Char, Traits, Allocator>> : string_traits<std::basic_string_view<Char, Traits>> {
};
template <class Char, class Traits, class Allocator>
struct string_traits<boost::container::basic_string<Char, Traits, Allocator>>
    : string_traits<std::basic_string_view<Char, Traits>> {};

template <class T>
concept string_like = string_traits<T>::is_string;
template <string_like T>
using view_of = typename string_traits<T>::view;

/// A Boost string converts only to deduced types.
template <class View, class T>
[[nodiscard]] View to_view(const T& text) noexcept {
    if constexpr (string_like<T>) {
        return View{text.data(), text.size()};
    } else {
        return View{text};
    }
}
template <class T, class View>
concept viewable = std::is_same_v<View, typename string_traits<T>::view> || std::is_convertible_v<const T&, View>;

}  // namespace detail

template <class T>
struct hash : boost::hash<T> {};

template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
struct hash<T> {
    /// The value itself: hash_chains::index_of() spreads it over the buckets.
    [[nodiscard]] std::size_t operator()(T value) const noexcept { return static_cast<std::size_t>(value); }
};

template <class T>
    requires std::is_floating_point_v<T>
struct hash<T> {
    /// 0.0 and -0.0 hash alike, a long double as a double.
    [[nodiscard]] std::size_t operator()(T value) const noexcept {
        const auto number = static_cast<double>(value);
        return detail::hash_mix(std::bit_cast<std::uint64_t>(number == 0 ? 0.0 : number) ^ detail::hash_first,
                                detail::hash_second);
    }
};

/// Takes any string, view or literal of the character type.
template <detail::string_like T>
struct hash<T> {
    using is_transparent = void;
    template <class Text>
        requires detail::viewable<Text, detail::view_of<T>>
    [[nodiscard]] std::size_t operator()(const Text& text) const noexcept {
        const auto view = detail::to_view<detail::view_of<T>>(text);
        return detail::hash_bytes(view.data(), view.size() * sizeof(typename detail::view_of<T>::value_type));
    }
};

template <class... Parts>
struct hash<std::tuple<Parts...>> {
    [[nodiscard]] std::size_t operator()(const std::tuple<Parts...>& value) const {
        return std::apply(of_parts, value);
    }
    [[nodiscard]] static std::size_t of_parts(const Parts&... part) {
        std::uint64_t state = detail::hash_second;
        ((state = combine(state, hash<Parts>{}(part))), ...);
        return state;
    }

private:
    [[nodiscard]] static std::uint64_t combine(std::uint64_t state, std::uint64_t next) noexcept {
        return detail::hash_mix(state ^ detail::hash_first, next ^ detail::hash_second) + state;
    }
};

template <class A, class B>
struct hash<std::pair<A, B>> {
    [[nodiscard]] std::size_t operator()(const std::pair<A, B>& value) const {
        return hash<std::tuple<A, B>>::of_parts(value.first, value.second);
    }
};

template <class T>
struct hash<std::optional<T>> {
    [[nodiscard]] std::size_t operator()(const std::optional<T>& value) const {
        return value.has_value() ? detail::hash_mix(hash<T>{}(*value) ^ detail::hash_first, detail::hash_second) : 0;
    }
};

template <class T>
struct hash<ptr<T>> {
    static_assert(
        detail::always_false<T>,
        "holdfast: a pointer hashes to another value after remapping: use holdfast::map, or what it points to, as key");
};

/// As std::equal_to; transparent for strings.
template <class T>
struct equal_to : std::equal_to<T> {};
template <detail::string_like T>
struct equal_to<T> {
    using is_transparent = void;
    template <class A, class B>
        requires(detail::viewable<A, detail::view_of<T>> && detail::viewable<B, detail::view_of<T>>)
    [[nodiscard]] bool operator()(const A& a, const B& b) const noexcept {
        return detail::to_view<detail::view_of<T>>(a) == detail::to_view<detail::view_of<T>>(b);
    }
};

/// As std::less; transparent for strings. holdfast::ptr compares by address, alike at every mapping of a heap.
template <class T>
struct less : std::less<T> {};
template <detail::string_like T>
struct less<T> {
    using is_transparent = void;
    template <class A, class B>
        requires(detail::viewable<A, detail::view_of<T>> && detail::viewable<B, detail::view_of<T>>)
    [[nodiscard]] bool operator()(const A& a, const B& b) const noexcept {
        return detail::to_view<detail::view_of<T>>(a) < detail::to_view<detail::view_of<T>>(b);
    }
};

}  // namespace holdfast
