// Uses-allocator construction: an element that takes an allocator gets that of its container, so that containers of
// containers lie in one heap. Both halves of a pair are elements. Nothing is added where the program passes an
// allocator itself or the element takes none. Not for users.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/container/detail/pair.hpp>
#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast::detail {

/// std::pair, and the pair of Boost's flat containers.
template <class T>
concept pair_like = requires(T& pair) {
    typename T::first_type;
    typename T::second_type;
    pair.first;
    pair.second;
};

template <class T, class Allocator>
struct reaches_allocator : std::uses_allocator<T, Allocator> {};
template <pair_like T, class Allocator>
struct reaches_allocator<T, Allocator>
    : std::bool_constant<reaches_allocator<std::remove_const_t<typename T::first_type>, Allocator>::value ||
                         reaches_allocator<std::remove_const_t<typename T::second_type>, Allocator>::value> {};

/// Whether a T is constructed from the arguments and then the allocator. False where an argument is an allocator
/// already: two allocators would fit the constructors that containers have for two iterators.
template <class T, class Allocator, class... Args>
inline constexpr bool takes_allocator_last =
    std::conjunction_v<std::uses_allocator<T, Allocator>,
                       std::negation<std::disjunction<std::is_convertible<Args, Allocator>...>>,
                       std::is_constructible<T, Args..., const Allocator&>>;

template <class T, class Allocator, class... Args>
void construct_with(const Allocator& allocator, T* target, Args&&... args);

/// Constructs both halves; destroys the first one if the second one throws.
template <class T, class First, class Second>
void construct_halves(T* target, First&& construct_first, Second&& construct_second) {
    using first_type = std::remove_const_t<typename T::first_type>;
    using second_type = std::remove_const_t<typename T::second_type>;
    auto* const first = const_cast<first_type*>(std::addressof(target->first));
    construct_first(first);
    try {
        construct_second(const_cast<second_type*>(std::addressof(target->second)));
    } catch (...) {
        std::destroy_at(first);
        throw;
    }
}

template <class T, class Allocator, class Tuple>
auto construct_from_tuple(const Allocator& allocator, Tuple& arguments) {
    return [&allocator, &arguments](T* target) {
        std::apply([&](auto&&... args) { construct_with(allocator, target, std::forward<decltype(args)>(args)...); },
                   std::move(arguments));
    };
}

template <pair_like T, class Allocator>
void construct_pair(const Allocator& allocator, T* target) {
    const auto construct_half = [&](auto* half) { construct_with(allocator, half); };
    construct_halves(target, construct_half, construct_half);
}
template <pair_like T, class Allocator, class... Firsts, class... Seconds>
void construct_pair(const Allocator& allocator, T* target, std::piecewise_construct_t /*tag*/,
                    std::tuple<Firsts...> first, std::tuple<Seconds...> second) {
    construct_halves(target, construct_from_tuple<std::remove_const_t<typename T::first_type>>(allocator, first),
                     construct_from_tuple<std::remove_const_t<typename T::second_type>>(allocator, second));
}
template <pair_like T, class Allocator, class Key, class... Args>
void construct_pair(const Allocator& allocator, T* target, boost::container::try_emplace_t /*tag*/, Key&& key,
                    Args&&... args) {
    construct_halves(
        target, [&](auto* half) { construct_with(allocator, half, std::forward<Key>(key)); },
        [&](auto* half) { construct_with(allocator, half, std::forward<Args>(args)...); });
}
template <pair_like T, class Allocator, class Pair>
    requires pair_like<std::remove_cvref_t<Pair>>
void construct_pair(const Allocator& allocator, T* target, Pair&& pair) {
    construct_halves(
        target, [&](auto* half) { construct_with(allocator, half, std::forward<Pair>(pair).first); },
        [&](auto* half) { construct_with(allocator, half, std::forward<Pair>(pair).second); });
}
template <pair_like T, class Allocator, class First, class Second>
void construct_pair(const Allocator& allocator, T* target, First&& first, Second&& second) {
    construct_halves(
        target, [&](auto* half) { construct_with(allocator, half, std::forward<First>(first)); },
        [&](auto* half) { construct_with(allocator, half, std::forward<Second>(second)); });
}

// A narrowing conversion of a caller's argument must not be reported here, where the caller cannot mend it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

/// Constructs a T from the arguments and, where T takes it, the allocator: after them, or before them behind
/// std::allocator_arg.
template <class T, class Allocator, class... Args>
void construct_with(const Allocator& allocator, T* target, Args&&... args) {
    void* const place = const_cast<void*>(static_cast<const volatile void*>(target));
    if constexpr (pair_like<T> && reaches_allocator<T, Allocator>::value &&
                  requires { construct_pair(allocator, target, std::forward<Args>(args)...); }) {
        construct_pair(allocator, target, std::forward<Args>(args)...);
    } else if constexpr (takes_allocator_last<T, Allocator, Args...>) {
        ::new (place) T(std::forward<Args>(args)..., allocator);
    } else if constexpr (std::uses_allocator_v<T, Allocator> &&
                         std::is_constructible_v<T, std::allocator_arg_t, const Allocator&, Args...>) {
        ::new (place) T(std::allocator_arg, allocator, std::forward<Args>(args)...);
    } else {
        ::new (place) T(std::forward<Args>(args)...);
    }
}

#pragma GCC diagnostic pop

}  // namespace holdfast::detail
