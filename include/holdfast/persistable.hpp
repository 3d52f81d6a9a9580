// Which types may be stored in a heap: holdfast::persistable<T>, which construct<T>() and every allocator check.
//
// Raw pointers, references, virtual tables, functions and objects of the operating system mean nothing to the next
// process, which maps the heap elsewhere. Types that visibly contain one do not compile; the members of a struct are
// for its author to check.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <holdfast/detail/refused.hpp>

namespace holdfast {

namespace detail {

enum class flaw {
    none,
    raw_pointer,        ///< also a reference or a view
    foreign_container,  ///< its allocator hands out raw pointers, as std::allocator does
    raw_container,      ///< keeps raw pointers with any allocator
    smart_pointer,      ///< std::unique_ptr to a raw pointer, std::shared_ptr, std::weak_ptr
    code,               ///< std::function, a pointer to a member function
    virtual_table,
    process,   ///< std::thread, std::future, std::any and others of one process
    declared,  ///< persistable<T> is specialised as false
};

template <class T, class... Outer>
[[nodiscard]] consteval flaw find_flaw() noexcept;

}  // namespace detail

/// Specialise it for your own types: as std::true_type to allow what would be refused (raw pointers in a heap created
/// with `same_address`), as std::false_type to refuse a type with unfit members:
///
///     template <> struct holdfast::persistable<node*> : std::true_type {};
template <class T>
struct persistable {
    using found_by_inspection = void;
    static constexpr bool value = detail::find_flaw<T>() == detail::flaw::none;
};
template <class T>
inline constexpr bool is_persistable_v = persistable<T>::value;

namespace detail {

template <class T, template <class...> class Template>
inline constexpr bool is_instance = false;
template <class... Args, template <class...> class Template>
inline constexpr bool is_instance<Template<Args...>, Template> = true;

/// Elements of arrays, halves of pairs, alternatives of variants.
template <class T>
struct parts {
    template <class... Outer>
    static consteval flaw find() noexcept {
        return flaw::none;
    }
};
template <class... Parts>
struct part_list {
    template <class... Outer>
    static consteval flaw find() noexcept {
        flaw first = flaw::none;
        static_cast<void>(((first = find_flaw<Parts, Outer...>(), first == flaw::none) && ...));
        return first;
    }
};
template <class T, std::size_t N>
struct parts<T[N]> : part_list<T> {};
template <class T, std::size_t N>
struct parts<std::array<T, N>> : part_list<T> {};
template <class A, class B>
struct parts<std::pair<A, B>> : part_list<A, B> {};
template <class... Parts>
struct parts<std::tuple<Parts...>> : part_list<Parts...> {};
template <class... Parts>
struct parts<std::variant<Parts...>> : part_list<Parts...> {};
template <class T>
struct parts<std::optional<T>> : part_list<T> {};

template <class T>
concept allocator_aware = requires {
    typename T::allocator_type;
    typename T::allocator_type::value_type;
};
template <class T>
concept has_elements = requires { typename T::value_type; };

/// As Boost's static_vector: its allocator never allocates.
template <class T>
concept keeps_elements_inside = requires { T::static_capacity; };

template <class T>
[[nodiscard]] consteval bool keeps_raw_pointers() noexcept {
    const std::string_view name = printed_name<T>();
    return name.starts_with("boost::unordered::unordered_flat_") ||
           name.starts_with("boost::unordered::unordered_node_");
}

template <class T>
[[nodiscard]] consteval bool is_view() noexcept {
    return is_std_instance<T>("basic_string_view") || is_std_instance<T>("span") ||
           is_instance<T, std::reference_wrapper>;
}

template <class T>
[[nodiscard]] consteval bool is_raw_smart_pointer() noexcept {
    if constexpr (is_instance<T, std::unique_ptr>) {
        return std::is_pointer_v<typename T::pointer>;
    } else {
        return is_instance<T, std::shared_ptr> || is_instance<T, std::weak_ptr>;
    }
}

template <class T>
[[nodiscard]] consteval bool belongs_to_process() noexcept {
    const std::string_view name = printed_name<T>();
    return is_std_instance<T>("promise") || is_std_instance<T>("future") || is_std_instance<T>("shared_future") ||
           name.starts_with("std::thread") || name.starts_with("std::jthread") || name.starts_with("std::any") ||
           name.starts_with("std::exception_ptr") || name.starts_with("std::__exception_ptr");
}

/// Without its elements and parts.
template <class T>
[[nodiscard]] consteval flaw own_flaw() noexcept {
    if constexpr (std::is_pointer_v<T> || std::is_reference_v<T> || is_view<T>()) {
        return flaw::raw_pointer;
    } else if constexpr (std::is_member_function_pointer_v<T> || is_instance<T, std::function>) {
        return flaw::code;
        // NOLINTNEXTLINE(bugprone-branch-clone): the last branch asks what only classes can answer
    } else if constexpr (!std::is_class_v<T>) {
        return flaw::none;
    } else if constexpr (is_raw_smart_pointer<T>()) {
        return flaw::smart_pointer;
    } else if constexpr (belongs_to_process<T>()) {
        return flaw::process;
    } else if constexpr (keeps_raw_pointers<T>()) {
        return flaw::raw_container;
    } else if constexpr (std::is_polymorphic_v<T>) {
        return flaw::virtual_table;
    } else if constexpr (allocator_aware<T> && !keeps_elements_inside<T>) {
        using pointer = typename std::allocator_traits<typename T::allocator_type>::pointer;
        return std::is_pointer_v<pointer> ? flaw::foreign_container : flaw::none;
    } else {
        return flaw::none;
    }
}

/// Outer: the types that T was found in; one that contains itself ends the search.
template <class T, class... Outer>
[[nodiscard]] consteval flaw find_flaw() noexcept {
    using plain = std::remove_cv_t<T>;
    if constexpr (!requires { typename persistable<plain>::found_by_inspection; }) {
        return persistable<plain>::value ? flaw::none : flaw::declared;
    } else if constexpr ((std::is_same_v<plain, Outer> || ...)) {
        return flaw::none;
    } else if constexpr (own_flaw<plain>() != flaw::none) {
        return own_flaw<plain>();
    } else if constexpr (allocator_aware<plain> && has_elements<plain>) {
        return find_flaw<typename plain::value_type, plain, Outer...>();
    } else {
        return parts<plain>::template find<plain, Outer...>();
    }
}

/// Fails to compile with a message for the flaw; the compiler's note names T.
template <class T>
[[nodiscard]] consteval bool require_persistable() noexcept {
    constexpr flaw found = find_flaw<T>();
    static_assert(found != flaw::raw_pointer,
                  "holdfast: raw pointers, references and views do not survive remapping: use holdfast::ptr<T> and "
                  "holdfast::string (or specialise holdfast::persistable<T> for heaps created with same_address)");
    static_assert(
        found != flaw::foreign_container,
        "holdfast: a container whose allocator hands out raw pointers keeps its elements outside the heap: use "
        "holdfast::vector, holdfast::string, holdfast::map, holdfast::unordered_map, ... with holdfast::allocator");
    static_assert(
        found != flaw::raw_container,
        "holdfast: this container keeps raw pointers, which do not survive remapping: use holdfast::unordered_map or "
        "holdfast::unordered_set");
    static_assert(
        found != flaw::smart_pointer,
        "holdfast: std::unique_ptr, std::shared_ptr and std::weak_ptr keep raw pointers, which do not survive "
        "remapping: use holdfast::ptr<T>");
    static_assert(
        found != flaw::code,
        "holdfast: functions lie at another address in the next run: keep a number or a name that says which one");
    static_assert(
        found != flaw::virtual_table,
        "holdfast: a polymorphic object points to its virtual table, which lies at another address in the next run: "
        "use std::variant, or specialise holdfast::persistable<T>");
    static_assert(found != flaw::process,
                  "holdfast: this object belongs to the running process and means nothing in the next one");
    static_assert(found != flaw::declared,
                  "holdfast: holdfast::persistable<T> says that this type cannot be kept in a heap");
    return true;
}

}  // namespace detail
}  // namespace holdfast
