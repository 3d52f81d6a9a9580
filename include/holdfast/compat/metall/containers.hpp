// metall::container over a Holdfast heap. All hash tables are holdfast::unordered_map and its kin: open addressing
// (unordered_flat_map) would move elements, and Boost's keeps raw pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <queue>
#include <stack>
#include <utility>
#include <vector>

#include <holdfast/compat/metall/manager.hpp>
#include <holdfast/compat/metall/utility.hpp>
#include <holdfast/containers.hpp>

namespace holdfast::compat::metall::container {

using holdfast::basic_string;
using holdfast::deque;
using holdfast::flat_map;
using holdfast::flat_multimap;
using holdfast::flat_multiset;
using holdfast::flat_set;
using holdfast::forward_list;
using holdfast::list;
using holdfast::map;
using holdfast::multimap;
using holdfast::multiset;
using holdfast::set;
using holdfast::stable_vector;
using holdfast::string;
using holdfast::u16string;
using holdfast::u32string;
using holdfast::u8string;
using holdfast::unordered_map;
using holdfast::unordered_multimap;
using holdfast::unordered_multiset;
using holdfast::unordered_set;
using holdfast::vector;
using holdfast::wstring;

template <class Outer, class... Inner>
using scoped_allocator_adaptor = boost::container::scoped_allocator_adaptor<Outer, Inner...>;
template <class T>
using fallback_allocator = holdfast::fallback_allocator<T>;

template <class Key, class T, class Hash = hash<Key>, class Equal = equal_to<Key>,
          class Allocator = allocator<std::pair<const Key, T>>>
using unordered_flat_map = holdfast::unordered_map<Key, T, Hash, Equal, Allocator>;
template <class Key, class T, class Hash = hash<Key>, class Equal = equal_to<Key>,
          class Allocator = allocator<std::pair<const Key, T>>>
using unordered_node_map = holdfast::unordered_map<Key, T, Hash, Equal, Allocator>;
template <class Key, class Hash = hash<Key>, class Equal = equal_to<Key>, class Allocator = allocator<Key>>
using unordered_flat_set = holdfast::unordered_set<Key, Hash, Equal, Allocator>;
template <class Key, class Hash = hash<Key>, class Equal = equal_to<Key>, class Allocator = allocator<Key>>
using unordered_node_set = holdfast::unordered_set<Key, Hash, Equal, Allocator>;

template <class T, class Container = deque<T>>
using stack = std::stack<T, Container>;
template <class T, class Container = deque<T>>
using queue = std::queue<T, Container>;
template <class T, class Container = vector<T>, class Compare = std::less<typename Container::value_type>>
using priority_queue = std::priority_queue<T, Container, Compare>;

/// Elements lie in banks by the hash of their keys, each an ordered map. All maps of the type share the locks of the
/// banks, as in Metall: an editor must not touch another one.
///
/// Thread safety: insert(), edit() and scoped_edit() by any number of threads. Iteration, find(), count() and size()
/// while no thread edits.
template <class Key, class T, class Compare = std::less<Key>, class Hash = std::hash<Key>,
          class Allocator = std::allocator<std::pair<const Key, T>>, int Banks = 1024>
class concurrent_map {
    using bank_type = map<Key, T, Compare, Allocator>;
    using bank_allocator =
        scoped_allocator_adaptor<typename std::allocator_traits<Allocator>::template rebind_alloc<bank_type>>;
    using banks_type = vector<bank_type, bank_allocator>;

public:
    using key_type = Key;
    using mapped_type = T;
    using value_type = typename bank_type::value_type;
    using size_type = std::size_t;
    using allocator_type = Allocator;

    class const_iterator {
    public:
        using iterator_category = std::forward_iterator_tag;
        using value_type = typename concurrent_map::value_type;
        using difference_type = std::ptrdiff_t;
        using pointer = const value_type*;
        using reference = const value_type&;

        const_iterator() = default;
        reference operator*() const { return *position_; }
        pointer operator->() const { return &*position_; }
        const_iterator& operator++() {
            ++position_;
            skip_ends();
            return *this;
        }
        const_iterator operator++(int) {
            const_iterator before{*this};
            ++*this;
            return before;
        }
        friend bool operator==(const const_iterator& a, const const_iterator& b) {
            return a.bank_ == b.bank_ && (a.bank_ == a.last_ || a.position_ == b.position_);
        }

    private:
        friend class concurrent_map;
        const_iterator(const bank_type* bank, const bank_type* last) : bank_(bank), last_(last) {
            if (bank_ != last_) {
                position_ = bank_->begin();
                skip_ends();
            }
        }
        void skip_ends() {
            while (bank_ != last_ && position_ == bank_->end()) {
                if (++bank_ != last_) {
                    position_ = bank_->begin();
                }
            }
        }
        const bank_type* bank_ = nullptr;
        const bank_type* last_ = nullptr;
        typename bank_type::const_iterator position_{};
    };

    explicit concurrent_map(const Allocator& allocator = Allocator()) : banks_(Banks, allocator) {}

    size_type count(const Key& key) const { return banks_[bank_of(key)].count(key); }
    size_type size() const {
        size_type sum = 0;
        for (const bank_type& bank : banks_) {
            sum += bank.size();
        }
        return sum;
    }
    bool insert(value_type&& value) {
        const std::size_t bank = bank_of(value.first);
        const auto lock = utility::mutex::mutex_lock<Banks>(bank);
        return banks_[bank].insert(std::move(value)).second;
    }
    bool insert(const value_type& value) { return insert(value_type(value)); }
    /// The element, made where there is none, and the lock on it.
    std::pair<T&, std::unique_lock<std::mutex>> scoped_edit(const Key& key) {
        const std::size_t bank = bank_of(key);
        auto lock = utility::mutex::mutex_lock<Banks>(bank);
        return {banks_[bank].try_emplace(key).first->second, std::move(lock)};
    }
    /// scoped_edit() by a function.
    template <class Editor>
    void edit(const Key& key, Editor&& editor) {
        const auto locked = scoped_edit(key);
        std::forward<Editor>(editor)(locked.first);
    }
    const_iterator cbegin() const { return {banks_.data(), banks_.data() + banks_.size()}; }
    const_iterator cend() const { return {banks_.data() + banks_.size(), banks_.data() + banks_.size()}; }
    const_iterator begin() const { return cbegin(); }
    const_iterator end() const { return cend(); }
    const_iterator find(const Key& key) const {
        const bank_type& bank = banks_[bank_of(key)];
        const auto found = bank.find(key);
        if (found == bank.end()) {
            return cend();
        }
        const_iterator position = cend();
        position.bank_ = &bank;
        position.position_ = found;
        return position;
    }
    allocator_type get_allocator() const { return allocator_type(banks_.get_allocator()); }

private:
    static std::size_t bank_of(const Key& key) { return static_cast<std::size_t>(Hash{}(key)) % Banks; }

    banks_type banks_;
};

}  // namespace holdfast::compat::metall::container
