// Iteration, size and look-up by key in a hash table. Elements with equal keys form one range; the end, and the result
// of a vain search, are the null iterator.
#pragma once

#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

namespace holdfast::detail {

template <class Core>
class hash_lookup : public Core {
protected:
    using typename Core::node;

public:
    using typename Core::const_iterator;
    using typename Core::difference_type;
    using typename Core::iterator;
    using typename Core::key_type;
    using typename Core::size_type;
    using typename Core::value_type;
    using reference = value_type&;
    using const_reference = const value_type&;
    using pointer = typename std::allocator_traits<typename Core::allocator_type>::pointer;
    using const_pointer = typename std::allocator_traits<typename Core::allocator_type>::const_pointer;
    using Core::Core;

    /// Linear in size() + bucket_count() for the whole table.
    [[nodiscard]] iterator begin() noexcept { return iterator(this->first_node()); }
    [[nodiscard]] const_iterator begin() const noexcept { return const_iterator(this->first_node()); }
    [[nodiscard]] const_iterator cbegin() const noexcept { return begin(); }
    [[nodiscard]] iterator end() noexcept { return {}; }
    [[nodiscard]] const_iterator end() const noexcept { return {}; }
    [[nodiscard]] const_iterator cend() const noexcept { return {}; }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] size_type size() const noexcept { return this->occupancy().size(); }
    [[nodiscard]] size_type max_size() const noexcept {
        return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(node);
    }

    [[nodiscard]] iterator find(const key_type& key) { return iterator(node_of(key)); }
    [[nodiscard]] const_iterator find(const key_type& key) const { return const_iterator(node_of(key)); }
    [[nodiscard]] bool contains(const key_type& key) const { return node_of(key) != nullptr; }
    [[nodiscard]] size_type count(const key_type& key) const { return count_key(key); }
    [[nodiscard]] std::pair<iterator, iterator> equal_range(const key_type& key) { return range_of<iterator>(key); }
    [[nodiscard]] std::pair<const_iterator, const_iterator> equal_range(const key_type& key) const {
        return range_of<const_iterator>(key);
    }
    template <class K>
        requires(Core::finds_by_any_type)
    [[nodiscard]] iterator find(const K& key) {
        return iterator(node_of(key));
    }
    template <class K>
        requires(Core::finds_by_any_type)
    [[nodiscard]] const_iterator find(const K& key) const {
        return const_iterator(node_of(key));
    }
    template <class K>
        requires(Core::finds_by_any_type)
    [[nodiscard]] bool contains(const K& key) const {
        return node_of(key) != nullptr;
    }
    template <class K>
        requires(Core::finds_by_any_type)
    [[nodiscard]] size_type count(const K& key) const {
        return count_key(key);
    }
    template <class K>
        requires(Core::finds_by_any_type)
    [[nodiscard]] std::pair<iterator, iterator> equal_range(const K& key) {
        return range_of<iterator>(key);
    }
    template <class K>
        requires(Core::finds_by_any_type)
    [[nodiscard]] std::pair<const_iterator, const_iterator> equal_range(const K& key) const {
        return range_of<const_iterator>(key);
    }

protected:
    template <class Iterator, class K>
    [[nodiscard]] std::pair<Iterator, Iterator> range_of(const K& key) const {
        node* const found = node_of(key);
        if (found == nullptr) {
            return {};
        }
        return {Iterator(found), Iterator(this->behind_equals(found, key))};
    }

private:
    template <class K>
    [[nodiscard]] node* node_of(const K& key) const {
        return this->find_node(key, this->hash_of(key));
    }
    template <class K>
    [[nodiscard]] size_type count_key(const K& key) const {
        const auto [first, last] = range_of<const_iterator>(key);
        return static_cast<size_type>(std::distance(first, last));
    }
};

}  // namespace holdfast::detail
