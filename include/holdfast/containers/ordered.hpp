// Ordered associative containers that work in a heap: trees (map, set) and sorted vectors (flat_map, flat_set).
//
// Look-up with string keys takes a std::string_view or a literal. Thread safety, complexity and moves between heaps: as
// sequences.hpp.
#pragma once

#include <utility>

#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>
#include <boost/container/map.hpp>
#include <boost/container/options.hpp>
#include <boost/container/set.hpp>
#include <holdfast/allocator.hpp>
#include <holdfast/containers/sequences.hpp>
#include <holdfast/hash.hpp>

namespace holdfast {

namespace detail {

/// The defaults, as part of the type names in heaps: older heaps have nodes with a word for the colour.
using tree_options =
    boost::container::tree_assoc_options_t<boost::container::tree_type<boost::container::red_black_tree>,
                                           boost::container::optimize_size<true>>;

}  // namespace detail

template <class Key, class T, class Compare = less<Key>, class Allocator = allocator<std::pair<const Key, T>>>
using map = detail::heap_bound_tree<boost::container::map<Key, T, Compare, Allocator, detail::tree_options>>;
template <class Key, class T, class Compare = less<Key>, class Allocator = allocator<std::pair<const Key, T>>>
using multimap = detail::heap_bound_tree<boost::container::multimap<Key, T, Compare, Allocator, detail::tree_options>>;
template <class Key, class Compare = less<Key>, class Allocator = allocator<Key>>
using set = detail::heap_bound_tree<boost::container::set<Key, Compare, Allocator, detail::tree_options>>;
template <class Key, class Compare = less<Key>, class Allocator = allocator<Key>>
using multiset = detail::heap_bound_tree<boost::container::multiset<Key, Compare, Allocator, detail::tree_options>>;

/// Small and fast to search; insertion is linear and invalidates iterators.
template <class Key, class T, class Compare = less<Key>, class Allocator = allocator<std::pair<Key, T>>>
using flat_map = boost::container::flat_map<Key, T, Compare, vector<std::pair<Key, T>, Allocator>>;
template <class Key, class T, class Compare = less<Key>, class Allocator = allocator<std::pair<Key, T>>>
using flat_multimap = boost::container::flat_multimap<Key, T, Compare, vector<std::pair<Key, T>, Allocator>>;
template <class Key, class Compare = less<Key>, class Allocator = allocator<Key>>
using flat_set = boost::container::flat_set<Key, Compare, vector<Key, Allocator>>;
template <class Key, class Compare = less<Key>, class Allocator = allocator<Key>>
using flat_multiset = boost::container::flat_multiset<Key, Compare, vector<Key, Allocator>>;

namespace container {
using holdfast::flat_map;
using holdfast::flat_multimap;
using holdfast::flat_multiset;
using holdfast::flat_set;
using holdfast::map;
using holdfast::multimap;
using holdfast::multiset;
using holdfast::set;
}  // namespace container

}  // namespace holdfast
