// The hash table behind unordered_map, unordered_set and their multi variants.
//
// Separate chaining: elements never move, as the standard promises. Nodes store the results of a hash function that may
// throw, so growing does not call it. hash_core has all data; hash_lookup, hash_buckets, hash_modifiers and this class,
// for whole tables, build on it.
//
// Invariants: a table that was moved from has no elements; elements lie in the heap of their table's allocator; an
// assignment that throws leaves the table that it assigns to as it was.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>

#include <holdfast/detail/hash_buckets.hpp>
#include <holdfast/detail/hash_core.hpp>
#include <holdfast/detail/hash_lookup.hpp>
#include <holdfast/detail/hash_modifiers.hpp>

namespace holdfast::detail {

template <class Traits, class Hash, class Equal, class Allocator>
using hash_interface = hash_modifiers<hash_buckets<hash_lookup<hash_core<Traits, Hash, Equal, Allocator>>>>;

template <class Traits, class Hash, class Equal, class Allocator>
class hash_table : public hash_interface<Traits, Hash, Equal, Allocator> {
    using base = hash_interface<Traits, Hash, Equal, Allocator>;
    using allocator_traits = std::allocator_traits<Allocator>;

protected:
    using base::is_multi;
    using typename base::node;
    using typename base::node_owner;

public:
    using typename base::size_type;
    using typename base::value_type;

    hash_table()
        requires std::is_default_constructible_v<Allocator>
    = default;
    explicit hash_table(const Allocator& allocator) noexcept : base(allocator) {}
    explicit hash_table(size_type buckets, const Allocator& allocator) : hash_table(buckets, {}, {}, allocator) {}
    hash_table(size_type buckets, const Hash& hash, const Allocator& allocator)
        : hash_table(buckets, hash, {}, allocator) {}
    explicit hash_table(size_type buckets, const Hash& hash = Hash(), const Equal& equal = Equal(),
                        const Allocator& allocator = Allocator())
        : base(hash, equal, allocator) {
        if (buckets != 0) {
            this->rehash(buckets);
        }
    }
    template <std::input_iterator Iterator>
    hash_table(Iterator first, Iterator last, const Allocator& allocator)
        : hash_table(first, last, 0, {}, {}, allocator) {}
    template <std::input_iterator Iterator>
    hash_table(Iterator first, Iterator last, size_type buckets = 0, const Hash& hash = Hash(),
               const Equal& equal = Equal(), const Allocator& allocator = Allocator())
        : hash_table(buckets, hash, equal, allocator) {
        this->insert(first, last);
    }
    hash_table(std::initializer_list<value_type> values, const Allocator& allocator)
        : hash_table(values.begin(), values.end(), allocator) {}
    hash_table(std::initializer_list<value_type> values, size_type buckets = 0, const Hash& hash = Hash(),
               const Equal& equal = Equal(), const Allocator& allocator = Allocator())
        : hash_table(values.begin(), values.end(), buckets, hash, equal, allocator) {}
    hash_table(const hash_table& other)
        : hash_table(other, allocator_traits::select_on_container_copy_construction(other.get_allocator())) {}
    hash_table(const hash_table& other, const Allocator& allocator) : base(other, allocator) { copy_elements(other); }
    hash_table(hash_table&& other) noexcept : base(std::move(other)) {}
    hash_table(hash_table&& other, const Allocator& allocator) : base(other, allocator) { take_over(other); }
    ~hash_table() = default;

    hash_table& operator=(const hash_table& other) {
        if (this != &other) {
            hash_table copy(other, this->get_allocator());
            this->swap_contents(copy);
        }
        return *this;
    }
    /// Between two heaps: moves the elements one by one.
    hash_table& operator=(hash_table&& other) {
        if (this != &other) {
            hash_table moved(std::move(other), this->get_allocator());
            this->swap_contents(moved);
        }
        return *this;
    }
    hash_table& operator=(std::initializer_list<value_type> values) {
        hash_table copy(values, 0, this->hash_function(), this->key_eq(), this->get_allocator());
        copy.max_load_factor(this->max_load_factor());
        this->swap_contents(copy);
        return *this;
    }
    void swap(hash_table& other) {
        if (this->get_allocator() == other.get_allocator()) {
            this->swap_contents(other);
        } else {
            hash_table mine(std::move(*this), other.get_allocator());
            try {
                hash_table theirs(std::move(other), this->get_allocator());
                this->swap_contents(theirs);
            } catch (...) {
                *this = std::move(mine);
                throw;
            }
            other.swap_contents(mine);  // NOLINT(bugprone-use-after-move): it is empty now
        }
    }
    /// Moves the nodes whose keys may be added; between two heaps none. Where it throws, each element is in one of the
    /// tables.
    template <class OtherTraits, class OtherHash, class OtherEqual>
    void merge(hash_table<OtherTraits, OtherHash, OtherEqual, Allocator>& other) {
        if (static_cast<void*>(&other) == this || !(other.get_allocator() == this->get_allocator())) {
            return;
        }
        for (auto i = other.begin(); i != other.end();) {
            const auto here = i++;
            const auto& key = Traits::key_of(*here);
            const std::size_t hash = this->hash_of(key);
            node* const found = this->find_node(key, hash);
            if (is_multi || found == nullptr) {
                this->make_room();  // before the element leaves the other table
                node_owner owner = this->own_node(other.extract(here).release());
                this->insert_node(owner, hash, found);
            }
        }
    }
    template <class OtherTraits, class OtherHash, class OtherEqual>
    void merge(hash_table<OtherTraits, OtherHash, OtherEqual, Allocator>&& other) {
        merge(other);
    }

private:
    void take_over(hash_table& other) {
        if (this->get_allocator() == other.get_allocator()) {
            this->steal(other);
            return;
        }
        this->reserve(other.size());
        for (node* one = other.first_node(); one != nullptr; one = one->following()) {
            append(std::move(one->value), other.hash_of_node(one));
        }
        other.clear();
    }
    void copy_elements(const hash_table& other) {
        this->reserve(other.size());
        for (node* one = other.first_node(); one != nullptr; one = one->following()) {
            append(std::as_const(one->value), other.hash_of_node(one));
        }
    }
    /// In the order of another table: the key is new, or that of the element before.
    template <class Value>
    void append(Value&& value, std::size_t hash) {
        node* const equal = is_multi ? this->last_equal(Traits::key_of(value), hash) : nullptr;
        node_owner made = this->make_node(std::forward<Value>(value));
        this->insert_node(made, hash, equal);
    }
};

}  // namespace holdfast::detail
