// Refuses containers that keep raw pointers although their allocator hands out fancy ones, by the names of their nodes,
// which are all that an allocator sees.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/version.hpp>
#if BOOST_VERSION >= 108100  // the first that has them
#include <boost/unordered/unordered_flat_map_fwd.hpp>
#include <boost/unordered/unordered_flat_set_fwd.hpp>
#endif
#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

class segment_manager;
template <class T, class SegmentManager = segment_manager>
class allocator;
template <class T>
class fallback_allocator;

namespace detail {

/// The compiler's name of T, with other text behind it: compare the beginning.
template <class T>
[[nodiscard]] consteval std::string_view printed_name() noexcept {
    std::string_view name{__PRETTY_FUNCTION__};
    name.remove_prefix(name.find("T = ") + 4);
    return name;
}

/// Of the template std::`name`, also in libstdc++'s inline namespace.
template <class T>
[[nodiscard]] consteval bool is_std_instance(std::string_view name) noexcept {
    std::string_view printed = printed_name<T>();
    if (!printed.starts_with("std::")) {
        return false;
    }
    printed.remove_prefix(5);
    if (printed.starts_with("__cxx11::")) {
        printed.remove_prefix(9);
    }
    return printed.starts_with(name) && printed.substr(name.size()).starts_with('<');
}

/// For allocator<T>: fails to compile where T, which may be incomplete, has the name of a node of libstdc++'s
/// containers. A library whose nodes hold fancy pointers names them otherwise.
template <class T>
struct refuse_raw_nodes {
    static_assert(
        !is_std_instance<T>("_Rb_tree_node"),
        "holdfast: std::map, std::set and their multi variants keep raw pointers, which do not survive remapping: use "
        "holdfast::map, holdfast::set, holdfast::multimap or holdfast::multiset");
    static_assert(!is_std_instance<T>("_List_node"),
                  "holdfast: std::list keeps raw pointers, which do not survive remapping: use holdfast::list");
    static_assert(
        !is_std_instance<T>("_Fwd_list_node"),
        "holdfast: std::forward_list keeps raw pointers, which do not survive remapping: use holdfast::forward_list");
    static_assert(
        !is_std_instance<T>("__detail::_Hash_node"),
        "holdfast: std::unordered_map, std::unordered_set and their multi variants keep raw pointers, which do not "
        "survive remapping: use holdfast::unordered_map, holdfast::unordered_set or their multi variants");
    static_assert(
        !is_std_instance<T>("_Sp_counted_ptr_inplace"),
        "holdfast: std::shared_ptr keeps raw pointers and a virtual table, which do not survive remapping: keep the "
        "object in the heap under a name and refer to it with holdfast::ptr");
    static constexpr bool passed = true;
};

template <class...>
inline constexpr bool always_false = false;

template <class T>
struct refuse_std_string {
    static_assert(always_false<T>,
                  "holdfast: std::basic_string turns its allocator's pointers into raw ones: use holdfast::string or "
                  "holdfast::basic_string");
};
template <class T>
struct refuse_bit_vector {
    static_assert(
        always_false<T>,
        "holdfast: std::vector<bool> keeps raw pointers, which do not survive remapping: use holdfast::vector<bool>");
};
template <class T>
struct refuse_flat_table {
    static_assert(
        always_false<T>,
        "holdfast: boost::unordered_flat_map and boost::unordered_flat_set keep raw pointers, which do not survive "
        "remapping: use holdfast::unordered_map or holdfast::unordered_set");
};

}  // namespace detail
}  // namespace holdfast

// These containers take fancy pointers, keep raw ones, and allocate no type that would reveal them, so their instances
// with our allocators are refused by specialisation.
template <class Char, class Traits, class SegmentManager>
class std::basic_string<Char, Traits, holdfast::allocator<Char, SegmentManager>>
    : holdfast::detail::refuse_std_string<SegmentManager> {};
template <class Char, class Traits>
class std::basic_string<Char, Traits, holdfast::fallback_allocator<Char>> : holdfast::detail::refuse_std_string<Char> {
};
template <class SegmentManager>
class std::vector<bool, holdfast::allocator<bool, SegmentManager>>
    : holdfast::detail::refuse_bit_vector<SegmentManager> {};

#if BOOST_VERSION >= 108100
namespace boost::unordered {

template <class Key, class T, class Hash, class Equal, class Value, class SegmentManager>
class unordered_flat_map<Key, T, Hash, Equal, holdfast::allocator<Value, SegmentManager>>
    : holdfast::detail::refuse_flat_table<Value> {};
template <class Key, class Hash, class Equal, class Value, class SegmentManager>
class unordered_flat_set<Key, Hash, Equal, holdfast::allocator<Value, SegmentManager>>
    : holdfast::detail::refuse_flat_table<Value> {};
template <class Key, class T, class Hash, class Equal, class Value>
class unordered_flat_map<Key, T, Hash, Equal, holdfast::fallback_allocator<Value>>
    : holdfast::detail::refuse_flat_table<Value> {};
template <class Key, class Hash, class Equal, class Value>
class unordered_flat_set<Key, Hash, Equal, holdfast::fallback_allocator<Value>>
    : holdfast::detail::refuse_flat_table<Value> {};

}  // namespace boost::unordered
#endif
