// The containers of Boost.Container, but holdfast::vector, which keeps its elements where an insertion fails.
//
// Hash tables: boost::unordered_map and its kin take an allocator of a segment; holdfast::unordered_map is faster
// (docs/decisions/0005-hash-tables-of-our-own.md).
#pragma once

#include <boost/container/new_allocator.hpp>
#include <holdfast/compat/interprocess/allocators.hpp>
#include <holdfast/containers.hpp>

namespace holdfast::compat::interprocess {

using boost::container::basic_string;
using boost::container::deque;
using boost::container::flat_map;
using boost::container::flat_multimap;
using boost::container::flat_multiset;
using boost::container::flat_set;
using boost::container::list;
using boost::container::map;
using boost::container::multimap;
using boost::container::multiset;
using boost::container::set;
using boost::container::slist;
using boost::container::stable_vector;
using boost::container::string;
using boost::container::wstring;
template <class T, class Allocator = boost::container::new_allocator<T>>
using vector = holdfast::vector<T, Allocator>;

}  // namespace holdfast::compat::interprocess
