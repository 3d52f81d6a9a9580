// Insertion, removal and extraction of single elements of a hash table.
//
// An insertion is strongly exception-safe: hashing, comparing, allocating, constructing and growing come before
// linking, which does not throw. Removal does not throw where hash and comparison do not.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>

#include <holdfast/detail/hash_handle.hpp>
#include <holdfast/detail/heap_bound.hpp>

namespace holdfast::detail {

template <class Core>
class hash_modifiers : public Core {
protected:
    using Core::is_multi;
    using typename Core::node;
    using typename Core::node_owner;

public:
    using typename Core::const_iterator;
    using typename Core::insertion;
    using typename Core::iterator;
    using typename Core::key_type;
    using typename Core::node_type;
    using typename Core::size_type;
    using typename Core::value_type;
    using insert_return_type = hash_insert_result<iterator, node_type>;
    using Core::Core;

    insertion insert(const value_type& value) { return insert_value(value); }
    insertion insert(value_type&& value) { return insert_value(std::move(value)); }
    iterator insert(const_iterator /*hint*/, const value_type& value) { return place_of(insert(value)); }
    iterator insert(const_iterator /*hint*/, value_type&& value) { return place_of(insert(std::move(value))); }
    template <std::input_iterator Iterator>
    void insert(Iterator first, Iterator last) {
        if constexpr (std::forward_iterator<Iterator>) {
            if (this->empty()) {
                this->reserve(static_cast<size_type>(std::distance(first, last)));
            }
        }
        for (; first != last; ++first) {
            emplace(*first);
        }
    }
    void insert(std::initializer_list<value_type> values) { insert(values.begin(), values.end()); }
    template <class... Args>
    insertion emplace(Args&&... args) {
        node_owner made = this->make_node(std::forward<Args>(args)...);
        const std::size_t hash = this->hash_of(this->key_of(made.get()));
        node* const found = this->find_node(this->key_of(made.get()), hash);
        if constexpr (!is_multi) {
            if (found != nullptr) {
                return {iterator(found), false};
            }
        }
        return this->insert_node(made, hash, found);
    }
    template <class... Args>
    iterator emplace_hint(const_iterator /*hint*/, Args&&... args) {
        return place_of(emplace(std::forward<Args>(args)...));
    }
    /// An empty handle inserts nothing. Throws error(invalid_argument) for a node of another heap; where it throws, the
    /// handle keeps the node.
    auto insert(node_type&& handle) {
        using result = std::conditional_t<is_multi, iterator, insert_return_type>;
        if (handle.empty()) {
            return result{};
        }
        expect_one_heap(*this, handle);
        const auto& key = this->key_of(handle.peek());
        const std::size_t hash = this->hash_of(key);
        node* const found = this->find_node(key, hash);
        if constexpr (!is_multi) {
            if (found != nullptr) {
                return result{iterator(found), false, std::move(handle)};
            }
        }
        this->make_room();
        node_owner owner = this->own_node(handle.release());
        if constexpr (is_multi) {
            return this->insert_node(owner, hash, found);
        } else {
            return result{this->insert_node(owner, hash, nullptr).first, true, {}};
        }
    }
    iterator insert(const_iterator /*hint*/, node_type&& handle) {
        if constexpr (is_multi) {
            return insert(std::move(handle));
        } else {
            auto told = insert(std::move(handle));
            handle = std::move(told.node);
            return told.position;
        }
    }

    iterator erase(const_iterator position) { return iterator(this->erase_node(position.node())); }
    iterator erase(iterator position)
        requires(!std::is_same_v<iterator, const_iterator>)
    {
        return iterator(this->erase_node(position.node()));
    }
    iterator erase(const_iterator first, const_iterator last) {
        while (first != last) {
            first = erase(first);
        }
        return iterator(last.node());
    }
    size_type erase(const key_type& key) { return erase_key(key); }
    template <class K>
        requires(Core::finds_by_any_type && !std::is_convertible_v<const K&, const_iterator> &&
                 !std::is_convertible_v<const K&, iterator>)
    size_type erase(const K& key) {
        return erase_key(key);
    }
    [[nodiscard]] node_type extract(const_iterator position) {
        node* const taken = position.node();
        this->unlink(taken);
        return node_type(taken, this->get_allocator());
    }
    [[nodiscard]] node_type extract(const key_type& key) {
        node* const found = this->find_node(key, this->hash_of(key));
        return found != nullptr ? extract(const_iterator(found)) : node_type{};
    }

private:
    [[nodiscard]] static iterator place_of(const insertion& told) noexcept {
        if constexpr (is_multi) {
            return told;
        } else {
            return told.first;
        }
    }
    template <class Value>
    insertion insert_value(Value&& value) {
        const auto& key = Core::element_traits::key_of(value);
        const std::size_t hash = this->hash_of(key);
        node* const found = this->find_node(key, hash);
        if constexpr (!is_multi) {
            if (found != nullptr) {
                return {iterator(found), false};
            }
        }
        this->make_room();  // if it throws, the value is the caller's
        node_owner made = this->make_node(std::forward<Value>(value));
        return this->insert_node(made, hash, found);
    }
    /// `key` may lie in an erased element: all its uses come before the first erasure.
    template <class K>
    size_type erase_key(const K& key) {
        const auto [first, last] = this->template range_of<const_iterator>(key);
        const auto erased = static_cast<size_type>(std::distance(first, last));
        node* next = first.node();
        for (size_type left = erased; left > 0; --left) {
            node* const taken = next;
            next = left > 1 ? taken->following() : nullptr;
            this->unlink(taken);
            this->destroy_node(taken);
        }
        return erased;
    }
};

}  // namespace holdfast::detail
