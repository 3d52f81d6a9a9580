// Hash tables in a heap, with the interface of the standard ones. Elements never move: a holdfast::ptr to one is valid
// until it is erased. docs/decisions/0005-hash-tables-of-our-own.md says why they are not Boost's.
//
// The hash function is part of the stored data (hash.hpp). With string keys, look-up and erase take a std::string_view
// or a literal.
//
// Thread safety: several threads may read; one that changes the table is alone. Durability `commit`: changes are part
// of the next commit(). In `atomic` and `collect` the program must persist() its data, and a crash within a call may
// leave the table inconsistent.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#include <holdfast/allocator.hpp>
#include <holdfast/detail/hash_table.hpp>
#include <holdfast/hash.hpp>

namespace holdfast {

namespace detail {

template <class Key, class T, bool IsMulti>
struct hash_map_traits {
    using key_type = Key;
    using value_type = std::pair<const Key, T>;
    static constexpr bool is_multi = IsMulti;
    template <class A, class B>
    [[nodiscard]] static const A& key_of(const std::pair<A, B>& value) noexcept {
        return value.first;
    }
};
template <class Key, bool IsMulti>
struct hash_set_traits {
    using key_type = Key;
    using value_type = Key;
    static constexpr bool is_multi = IsMulti;
    [[nodiscard]] static const Key& key_of(const Key& value) noexcept { return value; }
};

/// Whether both hold the same elements, in any order.
template <class Table>
[[nodiscard]] bool equal_tables(const Table& a, const Table& b) {
    if (a.size() != b.size()) {
        return false;
    }
    for (auto i = a.begin(); i != a.end();) {
        const auto& key = Table::traits::key_of(*i);
        const auto mine = a.equal_range(key);
        const auto theirs = b.equal_range(key);
        if (!std::is_permutation(mine.first, mine.second, theirs.first, theirs.second)) {
            return false;
        }
        i = mine.second;
    }
    return true;
}

template <class Table, class Predicate>
typename Table::size_type erase_elements_if(Table& table, Predicate predicate) {
    const auto before = table.size();
    for (auto i = table.begin(); i != table.end();) {
        i = predicate(*i) ? table.erase(i) : std::next(i);
    }
    return before - table.size();
}

[[noreturn]] inline void throw_no_such_key() { throw std::out_of_range("holdfast::unordered_map::at: no such key"); }

}  // namespace detail

// Part of the type names in heaps: a change of layout gets another number.
inline namespace layout_1 {

template <class Key, class T, class Hash = hash<Key>, class Equal = equal_to<Key>,
          class Allocator = allocator<std::pair<const Key, T>>>
class unordered_map : public detail::hash_table<detail::hash_map_traits<Key, T, false>, Hash, Equal, Allocator> {
    using table = detail::hash_table<detail::hash_map_traits<Key, T, false>, Hash, Equal, Allocator>;

public:
    using traits = detail::hash_map_traits<Key, T, false>;
    using mapped_type = T;
    using table::insert;
    using table::table;
    using typename table::const_iterator;
    using typename table::insertion;
    using typename table::iterator;
    using typename table::value_type;
    unordered_map() = default;
    using table::operator=;

    template <class Pair>
        requires(std::is_constructible_v<value_type, Pair &&> && !std::is_same_v<std::remove_cvref_t<Pair>, value_type>)
    insertion insert(Pair&& value) {
        return this->emplace(std::forward<Pair>(value));
    }
    template <class... Args>
    std::pair<iterator, bool> try_emplace(const Key& key, Args&&... args) {
        return emplace_at(key, std::forward<Args>(args)...);
    }
    template <class... Args>
    std::pair<iterator, bool> try_emplace(Key&& key, Args&&... args) {
        return emplace_at(std::move(key), std::forward<Args>(args)...);
    }
    template <class... Args>
    iterator try_emplace(const_iterator /*hint*/, const Key& key, Args&&... args) {
        return try_emplace(key, std::forward<Args>(args)...).first;
    }
    template <class... Args>
    iterator try_emplace(const_iterator /*hint*/, Key&& key, Args&&... args) {
        return try_emplace(std::move(key), std::forward<Args>(args)...).first;
    }
    template <class Value>
    std::pair<iterator, bool> insert_or_assign(const Key& key, Value&& value) {
        return assign_at(key, std::forward<Value>(value));
    }
    template <class Value>
    std::pair<iterator, bool> insert_or_assign(Key&& key, Value&& value) {
        return assign_at(std::move(key), std::forward<Value>(value));
    }
    template <class Value>
    iterator insert_or_assign(const_iterator /*hint*/, const Key& key, Value&& value) {
        return assign_at(key, std::forward<Value>(value)).first;
    }
    template <class Value>
    iterator insert_or_assign(const_iterator /*hint*/, Key&& key, Value&& value) {
        return assign_at(std::move(key), std::forward<Value>(value)).first;
    }
    /// T must be constructible without arguments or from the allocator.
    T& operator[](const Key& key) { return emplace_at(key).first->second; }
    T& operator[](Key&& key) { return emplace_at(std::move(key)).first->second; }
    /// Throws std::out_of_range.
    [[nodiscard]] T& at(const Key& key) { return element(key); }
    [[nodiscard]] const T& at(const Key& key) const { return element(key); }
    template <class K>
        requires detail::transparent_pair<Hash, Equal>
    [[nodiscard]] T& at(const K& key) {
        return element(key);
    }
    template <class K>
        requires detail::transparent_pair<Hash, Equal>
    [[nodiscard]] const T& at(const K& key) const {
        return element(key);
    }

    friend void swap(unordered_map& a, unordered_map& b) { a.swap(b); }
    [[nodiscard]] friend bool operator==(const unordered_map& a, const unordered_map& b) {
        return detail::equal_tables(a, b);
    }
    template <class Predicate>
    friend auto erase_if(unordered_map& map, Predicate predicate) {
        return detail::erase_elements_if(map, predicate);
    }

private:
    template <class K, class... Args>
    std::pair<iterator, bool> emplace_at(K&& key, Args&&... args) {
        const std::size_t hash = this->hash_of(key);
        if (auto* const found = this->find_node(key, hash); found != nullptr) {
            return {iterator(found), false};
        }
        this->make_room();  // if it throws, the arguments are the caller's
        auto made = this->make_node(std::piecewise_construct, std::forward_as_tuple(std::forward<K>(key)),
                                    std::forward_as_tuple(std::forward<Args>(args)...));
        return this->insert_node(made, hash, nullptr);
    }
    template <class K, class Value>
    std::pair<iterator, bool> assign_at(K&& key, Value&& value) {
        auto told = emplace_at(std::forward<K>(key), std::forward<Value>(value));
        if (!told.second) {
            told.first->second = std::forward<Value>(value);
        }
        return told;
    }
    template <class K>
    [[nodiscard]] T& element(const K& key) const {
        auto* const found = this->find_node(key, this->hash_of(key));
        if (found == nullptr) {
            detail::throw_no_such_key();
        }
        return found->value.second;
    }
};

template <class Key, class T, class Hash = hash<Key>, class Equal = equal_to<Key>,
          class Allocator = allocator<std::pair<const Key, T>>>
class unordered_multimap : public detail::hash_table<detail::hash_map_traits<Key, T, true>, Hash, Equal, Allocator> {
    using table = detail::hash_table<detail::hash_map_traits<Key, T, true>, Hash, Equal, Allocator>;

public:
    using traits = detail::hash_map_traits<Key, T, true>;
    using mapped_type = T;
    using table::insert;
    using table::table;
    using typename table::iterator;
    using typename table::value_type;
    unordered_multimap() = default;
    using table::operator=;

    template <class Pair>
        requires(std::is_constructible_v<value_type, Pair &&> && !std::is_same_v<std::remove_cvref_t<Pair>, value_type>)
    iterator insert(Pair&& value) {
        return this->emplace(std::forward<Pair>(value));
    }

    friend void swap(unordered_multimap& a, unordered_multimap& b) { a.swap(b); }
    [[nodiscard]] friend bool operator==(const unordered_multimap& a, const unordered_multimap& b) {
        return detail::equal_tables(a, b);
    }
    template <class Predicate>
    friend auto erase_if(unordered_multimap& map, Predicate predicate) {
        return detail::erase_elements_if(map, predicate);
    }
};

template <class Key, class Hash = hash<Key>, class Equal = equal_to<Key>, class Allocator = allocator<Key>>
class unordered_set : public detail::hash_table<detail::hash_set_traits<Key, false>, Hash, Equal, Allocator> {
    using table = detail::hash_table<detail::hash_set_traits<Key, false>, Hash, Equal, Allocator>;

public:
    using traits = detail::hash_set_traits<Key, false>;
    using table::table;
    unordered_set() = default;
    using table::operator=;

    friend void swap(unordered_set& a, unordered_set& b) { a.swap(b); }
    [[nodiscard]] friend bool operator==(const unordered_set& a, const unordered_set& b) {
        return detail::equal_tables(a, b);
    }
    template <class Predicate>
    friend auto erase_if(unordered_set& set, Predicate predicate) {
        return detail::erase_elements_if(set, predicate);
    }
};

template <class Key, class Hash = hash<Key>, class Equal = equal_to<Key>, class Allocator = allocator<Key>>
class unordered_multiset : public detail::hash_table<detail::hash_set_traits<Key, true>, Hash, Equal, Allocator> {
    using table = detail::hash_table<detail::hash_set_traits<Key, true>, Hash, Equal, Allocator>;

public:
    using traits = detail::hash_set_traits<Key, true>;
    using table::table;
    unordered_multiset() = default;
    using table::operator=;

    friend void swap(unordered_multiset& a, unordered_multiset& b) { a.swap(b); }
    [[nodiscard]] friend bool operator==(const unordered_multiset& a, const unordered_multiset& b) {
        return detail::equal_tables(a, b);
    }
    template <class Predicate>
    friend auto erase_if(unordered_multiset& set, Predicate predicate) {
        return detail::erase_elements_if(set, predicate);
    }
};

}  // namespace layout_1

namespace container {
using holdfast::unordered_map;
using holdfast::unordered_multimap;
using holdfast::unordered_multiset;
using holdfast::unordered_set;
}  // namespace container

}  // namespace holdfast
