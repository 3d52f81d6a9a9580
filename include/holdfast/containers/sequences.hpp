// Sequences in a heap: Boost's containers with holdfast::allocator, under the names of the standard library.
//
//     auto* numbers = heap.construct<holdfast::vector<int>>("numbers")(heap.get_allocator<int>());
//
// Thread safety and complexity are Boost.Container's. A move or a swap between two heaps moves the elements one by one.
// Nodes of another heap (merge(), splice(), insert()) are refused with error(invalid_argument).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>

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

/// Doubles the capacity. Boost's factor of 8/5 copies half as much again, and saves little memory with size classes.
using vector_options =
    boost::container::vector_options_t<boost::container::growth_factor<boost::container::growth_factor_100>>;

}  // namespace detail

/// boost::container::vector, but push_back(), emplace_back(), resize(), and insert() and emplace() of one element
/// change nothing where they throw. vector<bool> has one byte for each bool.
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
/// Boost's slist, which knows its size.
template <class T, class Allocator = allocator<T>>
using forward_list = detail::heap_bound<boost::container::slist<T, Allocator>>;
/// A vector whose elements never move.
template <class T, class Allocator = allocator<T>>
using stable_vector = detail::heap_bound<boost::container::stable_vector<T, Allocator>>;
/// Keeps up to N elements inside itself, with the allocator of a heap.
template <class T, std::size_t N, class Allocator = allocator<T>>
class small_vector : public detail::growing<boost::container::small_vector<T, N, Allocator>> {
    using base = detail::growing<boost::container::small_vector<T, N, Allocator>>;
    using inner_allocator = typename base::allocator_type;

public:
    using allocator_type = Allocator;
    using typename base::size_type;

    using base::operator=;
    small_vector()
        requires std::is_default_constructible_v<Allocator>
    = default;
    explicit small_vector(const Allocator& of) : base(inner_allocator(of)) {}
    small_vector(size_type count, const Allocator& of) : base(count, inner_allocator(of)) {}
    small_vector(size_type count, const T& value, const Allocator& of) : base(count, value, inner_allocator(of)) {}
    template <std::input_iterator Iterator>
    small_vector(Iterator first, Iterator last, const Allocator& of) : base(first, last, inner_allocator(of)) {}
    small_vector(std::initializer_list<T> values, const Allocator& of) : base(values, inner_allocator(of)) {}
    small_vector(const small_vector&) = default;
    small_vector(small_vector&&) = default;
    small_vector(const small_vector& other, const Allocator& of) : base(other, inner_allocator(of)) {}
    /// Boost's would take the other's memory, whatever its allocator.
    small_vector(small_vector&& other, const Allocator& of) : base(inner_allocator(of)) {
        if (other.get_allocator() == of) {
            base::operator=(static_cast<base&&>(other));
        } else {
            this->assign(std::make_move_iterator(other.begin()), std::make_move_iterator(other.end()));
        }
    }
    small_vector& operator=(const small_vector&) = default;
    small_vector& operator=(small_vector&&) = default;
    ~small_vector() = default;

    [[nodiscard]] Allocator get_allocator() const { return Allocator(base::get_allocator()); }
    void swap(small_vector& other) {
        detail::swap_containers<boost::container::small_vector<T, N, Allocator>>(*this, other);
    }
    friend void swap(small_vector& a, small_vector& b) { a.swap(b); }
};

namespace container {
using holdfast::deque;
using holdfast::forward_list;
using holdfast::list;
using holdfast::small_vector;
using holdfast::stable_vector;
using holdfast::vector;
}  // namespace container

}  // namespace holdfast
