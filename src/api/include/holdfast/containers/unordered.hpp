// Hash tables that work in a heap: those of Boost.Unordered with one node an element. (Its open-addressing ones keep
// raw pointers and are refused at compile time.)
//
// The hash function is part of what is kept: see hash.hpp. With string keys, find and count take std::string_view or a
// literal.
#pragma once

#include <utility>

#include <boost/unordered_map.hpp>
#include <boost/unordered_set.hpp>
#include <holdfast/allocator.hpp>
#include <holdfast/hash.hpp>

namespace holdfast {

template <class Key, class T, class Hash = hash<Key>, class Equal = equal_to<Key>,
          class Allocator = allocator<std::pair<const Key, T>>>
using unordered_map = boost::unordered_map<Key, T, Hash, Equal, Allocator>;
template <class Key, class T, class Hash = hash<Key>, class Equal = equal_to<Key>,
          class Allocator = allocator<std::pair<const Key, T>>>
using unordered_multimap = boost::unordered_multimap<Key, T, Hash, Equal, Allocator>;
template <class Key, class Hash = hash<Key>, class Equal = equal_to<Key>, class Allocator = allocator<Key>>
using unordered_set = boost::unordered_set<Key, Hash, Equal, Allocator>;
template <class Key, class Hash = hash<Key>, class Equal = equal_to<Key>, class Allocator = allocator<Key>>
using unordered_multiset = boost::unordered_multiset<Key, Hash, Equal, Allocator>;

namespace container {
using holdfast::unordered_map;
using holdfast::unordered_multimap;
using holdfast::unordered_multiset;
using holdfast::unordered_set;
}  // namespace container

}  // namespace holdfast
