// Containers of nodes that never get a node of another heap. Boost's swap(), merge(), splice() and insert() of nodes
// ignore the allocators, and would damage both heaps. Here swap() moves the elements one by one then, and the others
// throw.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <boost/container/container_fwd.hpp>
#include <holdfast/detail/needs_cxx20.hpp>
#include <holdfast/detail/runtime.hpp>
#include <holdfast/detail/spare_element.hpp>

namespace holdfast::detail {

/// Within one heap: Base's swap(). Between two heaps: moves each element to the other one; if that throws, the
/// containers have their elements, but for those that could not be moved back.
template <class Base, class Container>
void swap_containers(Container& a, Container& b) {
    if (a.get_allocator() == b.get_allocator()) {
        static_cast<Base&>(a).swap(b);
        return;
    }
    const auto of_a = a.get_allocator();
    Container for_b(std::move(a), b.get_allocator());
    try {
        Container for_a(std::move(b), of_a);
        static_cast<Base&>(a).swap(for_a);  // NOLINT(bugprone-use-after-move): what is left of it goes to for_a
    } catch (...) {
        a = std::move(for_b);
        throw;
    }
    static_cast<Base&>(b).swap(for_b);  // NOLINT(bugprone-use-after-move): what is left of it goes to for_b
}

/// Throws error(invalid_argument) where the allocators differ.
template <class Container, class Nodes>
void expect_one_heap(const Container& to, const Nodes& from) {
    if (!(to.get_allocator() == from.get_allocator())) [[unlikely]] {
        std::uint64_t key = 0;
        if constexpr (requires { to.get_allocator().key(); }) {
            key = to.get_allocator().key();
        }
        throw_nodes_of_another_heap(key, typeid(Container).name());
    }
}

template <class T>
inline constexpr bool is_deque = false;
template <class T, class Allocator, class Options>
inline constexpr bool is_deque<boost::container::deque<T, Allocator, Options>> = true;

template <class Base>
class heap_bound : public Base {
public:
    using typename Base::allocator_type;
    using typename Base::const_iterator;
    using typename Base::value_type;

    using Base::Base;
    heap_bound()
        requires std::is_default_constructible_v<allocator_type>
    = default;
    heap_bound(const heap_bound&) = default;
    heap_bound(heap_bound&&) = default;
    heap_bound(const heap_bound& other, const allocator_type& of) : Base(static_cast<const Base&>(other), of) {}
    heap_bound(heap_bound&& other, const allocator_type& of) : Base(static_cast<Base&&>(other), of) {}
    heap_bound& operator=(const heap_bound&) = default;
    heap_bound& operator=(heap_bound&&) = default;
    heap_bound& operator=(std::initializer_list<value_type> values) {
        Base::operator=(values);
        return *this;
    }
    ~heap_bound() = default;

    void swap(heap_bound& other) { swap_containers<Base>(*this, other); }
    friend void swap(heap_bound& a, heap_bound& b) { a.swap(b); }

    // What is inserted may be an element, which Boost's deque moves away before it reads it.
    using Base::emplace;
    using Base::insert;
    template <class... Args>
    auto emplace(const_iterator position, Args&&... args)
        requires is_deque<Base>
    {
        spare_element<value_type, typename Base::stored_allocator_type> made(this->get_stored_allocator(),
                                                                             std::forward<Args>(args)...);
        return Base::emplace(position, std::move(*made.get()));
    }
    auto insert(const_iterator position, const value_type& value)
        requires is_deque<Base>
    {
        return emplace(position, value);
    }
    auto insert(const_iterator position, typename Base::size_type count, const value_type& value)
        requires is_deque<Base>
    {
        spare_element<value_type, typename Base::stored_allocator_type> copied(this->get_stored_allocator(), value);
        return Base::insert(position, count, *copied.get());
    }

    template <class Other, class... More>
    void merge(Other&& other, More&&... more) {
        expect_one_heap(*this, other);
        Base::merge(std::forward<Other>(other), std::forward<More>(more)...);
    }
    template <class Other, class... More>
    void splice(const_iterator position, Other&& other, More&&... more) {
        expect_one_heap(*this, other);
        Base::splice(position, std::forward<Other>(other), std::forward<More>(more)...);
    }
    template <class Other, class... More>
    void splice_after(const_iterator position, Other&& other, More&&... more) {
        expect_one_heap(*this, other);
        Base::splice_after(position, std::forward<Other>(other), std::forward<More>(more)...);
    }
};

/// Base: Boost's map, set, multimap or multiset.
template <class Base>
class heap_bound_tree : public heap_bound<Base> {
    using container = heap_bound<Base>;

public:
    using typename Base::allocator_type;
    using typename Base::const_iterator;
    using typename Base::node_type;
    using typename Base::value_type;

    using container::container;
    heap_bound_tree()
        requires std::is_default_constructible_v<allocator_type>
    = default;
    heap_bound_tree(const heap_bound_tree&) = default;
    heap_bound_tree(heap_bound_tree&&) = default;
    heap_bound_tree(const heap_bound_tree& other, const allocator_type& of) : container(other, of) {}
    heap_bound_tree(heap_bound_tree&& other, const allocator_type& of)
        : container(static_cast<container&&>(other), of) {}
    heap_bound_tree& operator=(const heap_bound_tree&) = default;
    heap_bound_tree& operator=(heap_bound_tree&&) = default;
    heap_bound_tree& operator=(std::initializer_list<value_type> values) {
        container::operator=(values);
        return *this;
    }
    ~heap_bound_tree() = default;

    friend void swap(heap_bound_tree& a, heap_bound_tree& b) { a.swap(b); }

    using Base::insert;
    auto insert(node_type&& inserted) {
        expect_own(inserted);
        return Base::insert(std::move(inserted));
    }
    auto insert(const_iterator hint, node_type&& inserted) {
        expect_own(inserted);
        return Base::insert(hint, std::move(inserted));
    }

private:
    void expect_own(const node_type& inserted) const {
        if (!inserted.empty()) {
            expect_one_heap(*this, inserted);
        }
    }
};

}  // namespace holdfast::detail
