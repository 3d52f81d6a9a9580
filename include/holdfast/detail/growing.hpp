// A vector whose elements survive a growth that fails. Boost's moves its elements to the new memory before it
// constructs the new ones, and loses them where that throws (the disk is full).
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>

#include <boost/container/container_fwd.hpp>
#include <holdfast/detail/heap_bound.hpp>
#include <holdfast/detail/needs_cxx20.hpp>
#include <holdfast/detail/spare_element.hpp>

namespace holdfast::detail {

/// A range of these may be read twice. Those of Boost 1.74's flat containers say so by their category alone.
template <class Iterator>
concept reread_iterator =
    std::forward_iterator<Iterator> ||
    std::derived_from<typename std::iterator_traits<Iterator>::iterator_category, std::forward_iterator_tag>;

/// Base: boost::container::vector or small_vector. Where push_back(), emplace_back(), resize(), and insert() and
/// emplace() of one element throw, the vector is as it was, if moves within one heap do not throw; so does insert() of
/// several elements at the end.
template <class Base>
class growing : public Base {
public:
    using typename Base::allocator_type;
    using typename Base::const_iterator;
    using typename Base::iterator;
    using typename Base::reference;
    using typename Base::size_type;
    using typename Base::value_type;

    using Base::Base;
    growing()
        requires std::is_default_constructible_v<allocator_type>
    = default;
    growing(const growing&) = default;
    growing(growing&&) = default;
    growing(const growing& other, const allocator_type& allocator) : Base(static_cast<const Base&>(other), allocator) {}
    growing(growing&& other, const allocator_type& allocator) : Base(static_cast<Base&&>(other), allocator) {}
    growing& operator=(const growing&) = default;
    growing& operator=(growing&&) = default;
    growing& operator=(std::initializer_list<value_type> values) {
        Base::operator=(values);
        return *this;
    }
    ~growing() = default;

    void swap(growing& other) { swap_containers<Base>(*this, other); }
    friend void swap(growing& a, growing& b) { a.swap(b); }

    void push_back(const value_type& value) { emplace_back(value); }
    void push_back(value_type&& value) {
        if constexpr (!never_throws<value_type&&>) {
            if (this->size() == this->capacity()) {
                spare made(this->get_stored_allocator(), std::move(value));
                or_restore(value, made, [&] { Base::emplace_back(std::move(*made.get())); });
                return;
            }
        }
        Base::emplace_back(std::move(value));
    }
    template <class... Args>
    reference emplace_back(Args&&... args) {
        if constexpr (!never_throws<Args...>) {
            if (this->size() == this->capacity()) {
                spare made(this->get_stored_allocator(), std::forward<Args>(args)...);
                return Base::emplace_back(std::move(*made.get()));
            }
        }
        return Base::emplace_back(std::forward<Args>(args)...);
    }
    /// An argument may be an element of this vector, which Boost's moves away before it reads it.
    template <class... Args>
    iterator emplace(const_iterator position, Args&&... args) {
        spare made(this->get_stored_allocator(), std::forward<Args>(args)...);
        return Base::emplace(position, std::move(*made.get()));
    }
    iterator insert(const_iterator position, const value_type& value) { return emplace(position, value); }
    iterator insert(const_iterator position, value_type&& value) {
        spare made(this->get_stored_allocator(), std::move(value));
        return or_restore(value, made, [&] { return Base::emplace(position, std::move(*made.get())); });
    }
    iterator insert(const_iterator position, size_type count, const value_type& value) {
        const bool grows = !never_throws<const value_type&> && must_grow(count);
        spare copied(this->get_stored_allocator(), value);
        return Base::insert(grows ? grow(position, count) : position, count, *copied.get());
    }
    template <reread_iterator Iterator>
    iterator insert(const_iterator position, Iterator first, Iterator last) {
        const auto count = static_cast<size_type>(std::distance(first, last));
        if constexpr (std::forward_iterator<Iterator>) {
            if (never_throws<std::iter_reference_t<Iterator>>) {
                return Base::insert(position, first, last);
            }
        }
        if (!must_grow(count)) {
            return Base::insert(position, first, last);
        }
        return Base::insert(grow(position, count), first, last);
    }
    template <std::input_iterator Iterator>
        requires(!reread_iterator<Iterator>)
    iterator insert(const_iterator position, Iterator first, Iterator last) {
        const auto index = position - this->cbegin();
        for (auto at = index; first != last; ++first, ++at) {
            emplace(this->cbegin() + at, *first);
        }
        return this->begin() + index;
    }
    iterator insert(const_iterator position, std::initializer_list<value_type> values) {
        return insert(position, values.begin(), values.end());
    }
    void resize(size_type count) {
        if (count > this->size() && !never_throws<> && must_grow(count - this->size())) {
            grow(this->cend(), count - this->size());
        }
        Base::resize(count);
    }
    void resize(size_type count, const value_type& value) {
        if (count > this->size()) {
            insert(this->cend(), count - this->size(), value);
        } else {
            Base::resize(count);
        }
    }

private:
    using spare = spare_element<value_type, typename Base::stored_allocator_type>;

    template <class... Args>
    static constexpr bool never_throws = std::conjunction_v<std::is_trivially_copy_constructible<value_type>,
                                                            std::is_nothrow_constructible<value_type, Args...>>;

    /// Where a moved value found no room, the caller has it again.
    template <class Call>
    static auto or_restore(value_type& value, spare& made, Call&& call) {
        try {
            return std::forward<Call>(call)();
        } catch (...) {
            if constexpr (std::is_move_assignable_v<value_type>) {
                value = std::move(*made.get());
            }
            throw;
        }
    }
    [[nodiscard]] bool must_grow(size_type count) const noexcept { return count > this->capacity() - this->size(); }
    /// At least doubles the room; returns the new position.
    const_iterator grow(const_iterator position, size_type count) {
        const auto index = position - this->cbegin();
        const size_type most = this->max_size();
        if (count > most - this->size()) {
            boost::container::throw_length_error("holdfast::vector");
        }
        const size_type doubled = this->capacity() > most / 2 ? most : 2 * this->capacity();
        this->reserve(this->size() + count > doubled ? this->size() + count : doubled);
        return this->cbegin() + index;
    }
};

}  // namespace holdfast::detail
