// Uses-allocator construction: an element, or half of a pair, that takes an allocator gets that of its container, so
// containers of containers lie in one heap. Nothing is added where the program passes an allocator or the element takes
// none; such an element is refused where an allocator in it is of another heap.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <boost/container/detail/pair.hpp>
#include <holdfast/detail/needs_cxx20.hpp>
#include <holdfast/detail/runtime.hpp>

namespace holdfast::detail {

/// std::pair, or that of Boost's flat containers.
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

/// Boost's trees inherit from their allocator, and are none.
template <class Argument, class Allocator>
struct passes_allocator : std::bool_constant<std::is_convertible_v<Argument, Allocator> &&
                                             !std::uses_allocator_v<std::remove_cvref_t<Argument>, Allocator>> {};

/// False where an argument is an allocator already: two would fit the constructors that containers have for two
/// iterators.
template <class T, class Allocator, class... Args>
inline constexpr bool takes_allocator_last =
    std::conjunction_v<std::uses_allocator<T, Allocator>,
                       std::negation<std::disjunction<passes_allocator<Args, Allocator>...>>,
                       std::is_constructible<T, Args..., const Allocator&>>;

// The caller cannot mend a narrowing conversion here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

/// A container in T, as a member or a tuple's element, has at least a key and a pointer.
template <class T>
inline constexpr bool may_hold_allocator =
    std::is_class_v<T> && !std::is_trivially_copy_constructible_v<T> && alignof(T) >= alignof(std::uint64_t) &&
    sizeof(T) >= 2 * sizeof(std::uint64_t);

template <class T, class... Args>
inline constexpr bool is_from_its_own_type = false;
template <class T, class Source>
inline constexpr bool is_from_its_own_type<T, Source> = std::is_same_v<T, std::remove_cvref_t<Source>>;

/// For a T that takes no allocator. Throws error(invalid_argument) where an allocator in it is of another heap, whose
/// memory would stay behind. What is copied or moved is looked at before, and stays whole.
template <class T, class... Args>
void construct_as_passed(std::uint64_t heap_key, T* target, Args&&... args) {
    if constexpr (may_hold_allocator<T> && is_from_its_own_type<T, Args...>) {
        if ((is_of_another_heap(heap_key, args) || ...)) [[unlikely]] {
            throw_element_of_another_heap(heap_key, typeid(T).name());
        }
    }
    ::new (const_cast<void*>(static_cast<const volatile void*>(target))) T(std::forward<Args>(args)...);
    if constexpr (may_hold_allocator<T> && !is_from_its_own_type<T, Args...>) {
        if (is_of_another_heap(heap_key, *target)) [[unlikely]] {
            std::destroy_at(target);
            throw_element_of_another_heap(heap_key, typeid(T).name());
        }
    }
}

template <class T, class Allocator, class... Args>
void construct_with(const Allocator& allocator, T* target, Args&&... args);

/// Destroys the first half if the second throws.
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

/// An allocator that T takes comes last, or first behind std::allocator_arg.
template <class T, class Allocator, class... Args>
void construct_with(const Allocator& allocator, T* target, Args&&... args) {
    [[maybe_unused]] void* const place = const_cast<void*>(static_cast<const volatile void*>(target));
    if constexpr (pair_like<T> && reaches_allocator<T, Allocator>::value &&
                  requires { construct_pair(allocator, target, std::forward<Args>(args)...); }) {
        construct_pair(allocator, target, std::forward<Args>(args)...);
    } else if constexpr (takes_allocator_last<T, Allocator, Args...>) {
        ::new (place) T(std::forward<Args>(args)..., allocator);
    } else if constexpr (std::uses_allocator_v<T, Allocator> &&
                         std::is_constructible_v<T, std::allocator_arg_t, const Allocator&, Args...>) {
        ::new (place) T(std::allocator_arg, allocator, std::forward<Args>(args)...);
    } else {
        construct_as_passed(allocator.key(), target, std::forward<Args>(args)...);
    }
}

#pragma GCC diagnostic pop

}  // namespace holdfast::detail
