// Sequences in a heap: Boost's containers with holdfast::allocator, under the names of the standard library.
//
//     auto* numbers = heap.construct<holdfast::vector<int>>("numbers")(heap.get_allocator<int>());
//
// Thread safety and complexity are those of Boost.Container. A move or a swap between two heaps moves the elements one
// by one. Nodes of another heap (merge(), splice()) are refused with error(invalid_argument).
#pragma once

#include <cstddef>

#include <boost/container/deque.hpp>
#include <boost/container/list.hpp>
#include <boost/container/slist.hpp>
#include <boost/container/small_vector.hpp>
#include <boost/container/stable_vector.hpp>
#include <boost/container/vector.hpp>
#include <holdfast/allocator.hpp>
#include <holdfast/detail/growing.hpp>
#include <holdfast/detail/heap_bound.hpp>

namespace holdfast {

namespace detail {

/// Doubles the capacity. Boost's default factor of 8/5 copies about half as much again, and saves little memory where
/// blocks come in size classes.
using vector_options =
    boost::container::vector_options_t<boost::container::growth_factor<boost::container::growth_factor_100>>;

}  // namespace detail

/// boost::container::vector, and stronger: push_back(), emplace_back(), resize(), and insert() and emplace() of one
/// element leave the elements as they were where they throw. vector<bool> holds bools of one byte each; it is no bit
/// vector.
template <class T, class Allocator = allocator<T>>
class vector : public detail::growing<boost::container::vector<T, Allocator, detail::vector_options>> {
    using base = detail::growing<boost::container::vector<T, Allocator, detail::vector_options>>;

public:
    using base::base;
    using base::operator=;
};
template <class T, class Allocator = allocator<T>>
using deque = detail::heap_bound<boost::container::deque<T, Allocator>>;
template <class T, class Allocator = allocator<T>>
using list = detail::heap_bound<boost::container::list<T, Allocator>>;
/// A singly linked list that knows its size (Boost's slist).
template <class T, class Allocator = allocator<T>>
using forward_list = detail::heap_bound<boost::container::slist<T, Allocator>>;
/// A vector whose elements never move.
template <class T, class Allocator = allocator<T>>
using stable_vector = detail::heap_bound<boost::container::stable_vector<T, Allocator>>;
/// A vector that keeps up to N elements inside itself. Its allocator has a type of its own, constructed explicitly:
/// small_vector<int, 8> v(small_vector<int, 8>::allocator_type(heap.get_allocator<int>())).
template <class T, std::size_t N, class Allocator = allocator<T>>
using small_vector = detail::growing<boost::container::small_vector<T, N, Allocator>>;

namespace container {
using holdfast::deque;
using holdfast::forward_list;
using holdfast::list;
using holdfast::small_vector;
using holdfast::stable_vector;
using holdfast::vector;
}  // namespace container

}  // namespace holdfast
