// The hash table behind unordered_map, unordered_set and their multi variants. Not for users.
//
// Separate chaining: elements never move, as the standard containers promise. The number of buckets is a power of two
// (hash_chains::index_of()).
//
// A single insertion has strong exception safety: hashing, comparing, allocating, constructing and growing come first,
// linking comes last and does not throw. A hash function that may throw has its results stored in the nodes, so growing
// does not call it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include <holdfast/detail/hash_chains.hpp>
#include <holdfast/detail/hash_handle.hpp>
#include <holdfast/detail/hash_node.hpp>

namespace holdfast::detail {

/// Whether hashing a key again is as cheap as reading a stored hash.
template <class Key, class Hash>
inline constexpr bool hashes_quickly =
    (std::is_arithmetic_v<Key> || std::is_enum_v<Key>)&&std::is_nothrow_invocable_v<const Hash&, const Key&>;

template <class Hash, class Equal>
concept transparent_pair = requires {
    typename Hash::is_transparent;
    typename Equal::is_transparent;
};

/// Traits: key_type, value_type, is_multi, key_of(value).
template <class Traits, class Hash, class Equal, class Allocator>
class hash_table {
protected:
    using node = hash_node<typename Traits::value_type, !hashes_quickly<typename Traits::key_type, Hash>>;
    using allocator_traits = std::allocator_traits<Allocator>;
    using node_owner = hash_node_owner<node, Allocator>;
    using bucket_allocator = typename allocator_traits::template rebind_alloc<hash_link>;
    static constexpr bool is_multi = Traits::is_multi;
    static constexpr bool iterates_constants = std::is_same_v<typename Traits::key_type, typename Traits::value_type>;

public:
    using key_type = typename Traits::key_type;
    using value_type = typename Traits::value_type;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using hasher = Hash;
    using key_equal = Equal;
    using allocator_type = Allocator;
    using reference = value_type&;
    using const_reference = const value_type&;
    using pointer = typename allocator_traits::pointer;
    using const_pointer = typename allocator_traits::const_pointer;
    using iterator = hash_iterator<node, iterates_constants>;
    using const_iterator = hash_iterator<node, true>;
    using local_iterator = hash_local_iterator<node, iterates_constants>;
    using const_local_iterator = hash_local_iterator<node, true>;
    using node_type = hash_node_handle<Traits, node, Allocator>;
    using insert_return_type = hash_insert_result<iterator, node_type>;
    /// Result of an insertion: where the element is and, where keys are unique, whether it is new.
    using insertion = std::conditional_t<is_multi, iterator, std::pair<iterator, bool>>;

    hash_table()
        requires std::is_default_constructible_v<Allocator>
    = default;
    explicit hash_table(const Allocator& allocator) noexcept : allocator_(allocator) {}
    explicit hash_table(size_type buckets, const Allocator& allocator) : hash_table(buckets, {}, {}, allocator) {}
    hash_table(size_type buckets, const Hash& hash, const Allocator& allocator)
        : hash_table(buckets, hash, {}, allocator) {}
    explicit hash_table(size_type buckets, const Hash& hash = Hash(), const Equal& equal = Equal(),
                        const Allocator& allocator = Allocator())
        : hash_(hash), equal_(equal), allocator_(allocator) {
        if (buckets != 0) {
            rehash(buckets);
        }
    }
    template <std::input_iterator Iterator>
    hash_table(Iterator first, Iterator last, const Allocator& allocator)
        : hash_table(first, last, 0, {}, {}, allocator) {}
    template <std::input_iterator Iterator>
    hash_table(Iterator first, Iterator last, size_type buckets = 0, const Hash& hash = Hash(),
               const Equal& equal = Equal(), const Allocator& allocator = Allocator())
        : hash_table(buckets, hash, equal, allocator) {
        insert(first, last);
    }
    hash_table(std::initializer_list<value_type> values, const Allocator& allocator)
        : hash_table(values.begin(), values.end(), allocator) {}
    hash_table(std::initializer_list<value_type> values, size_type buckets = 0, const Hash& hash = Hash(),
               const Equal& equal = Equal(), const Allocator& allocator = Allocator())
        : hash_table(values.begin(), values.end(), buckets, hash, equal, allocator) {}
    hash_table(const hash_table& other)
        : hash_table(other, allocator_traits::select_on_container_copy_construction(other.allocator_)) {}
    hash_table(const hash_table& other, const Allocator& allocator)
        : hash_table(0, other.hash_, other.equal_, allocator) {
        max_load_ = other.max_load_;
        copy_elements(other);
    }
    hash_table(hash_table&& other) noexcept : hash_(other.hash_), equal_(other.equal_), allocator_(other.allocator_) {
        max_load_ = other.max_load_;
        steal(other);
    }
    hash_table(hash_table&& other, const Allocator& allocator) : hash_table(0, other.hash_, other.equal_, allocator) {
        max_load_ = other.max_load_;
        take_over(other);
    }
    ~hash_table() { release(); }

    hash_table& operator=(const hash_table& other) {
        if (this != &other) {
            hash_table copy(other, allocator_);
            swap_contents(copy);
        }
        return *this;
    }
    /// Between two heaps: moves the elements one by one.
    hash_table& operator=(hash_table&& other) {
        if (this != &other) {
            hash_table moved(std::move(other), allocator_);
            swap_contents(moved);
        }
        return *this;
    }
    hash_table& operator=(std::initializer_list<value_type> values) {
        hash_table copy(values, 0, hash_, equal_, allocator_);
        copy.max_load_factor(max_load_);
        swap_contents(copy);
        return *this;
    }
    void swap(hash_table& other) {
        if (allocator_ == other.allocator_) {
            swap_contents(other);
        } else {
            hash_table mine(std::move(*this), other.allocator_);
            hash_table theirs(std::move(other), allocator_);
            swap_contents(theirs);
            other.swap_contents(mine);  // NOLINT(bugprone-use-after-move): it is empty now
        }
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_; }
    [[nodiscard]] hasher hash_function() const { return hash_; }
    [[nodiscard]] key_equal key_eq() const { return equal_; }

    /// Iterating over the table is linear in size() + bucket_count().
    [[nodiscard]] iterator begin() noexcept { return iterator(first_node()); }
    [[nodiscard]] const_iterator begin() const noexcept { return const_iterator(first_node()); }
    [[nodiscard]] const_iterator cbegin() const noexcept { return begin(); }
    [[nodiscard]] iterator end() noexcept { return {}; }
    [[nodiscard]] const_iterator end() const noexcept { return {}; }
    [[nodiscard]] const_iterator cend() const noexcept { return {}; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] size_type size() const noexcept { return size_; }
    [[nodiscard]] size_type max_size() const noexcept {
        return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(node);
    }

    insertion insert(const value_type& value) { return insert_value(value); }
    insertion insert(value_type&& value) { return insert_value(std::move(value)); }
    iterator insert(const_iterator /*hint*/, const value_type& value) { return place_of(insert(value)); }
    iterator insert(const_iterator /*hint*/, value_type&& value) { return place_of(insert(std::move(value))); }
    template <std::input_iterator Iterator>
    void insert(Iterator first, Iterator last) {
        if constexpr (std::forward_iterator<Iterator>) {
            if (empty()) {
                reserve(static_cast<size_type>(std::distance(first, last)));
            }
        }
        for (; first != last; ++first) {
            emplace(*first);
        }
    }
    void insert(std::initializer_list<value_type> values) { insert(values.begin(), values.end()); }
    template <class... Args>
    insertion emplace(Args&&... args) {
        node_owner made = make_node(std::forward<Args>(args)...);
        const std::size_t hash = hash_of(key_of(made.get()));
        node* const found = find_node(key_of(made.get()), hash);
        if constexpr (!is_multi) {
            if (found != nullptr) {
                return {iterator(found), false};
            }
        }
        return insert_node(made, hash, found);
    }
    template <class... Args>
    iterator emplace_hint(const_iterator /*hint*/, Args&&... args) {
        return place_of(emplace(std::forward<Args>(args)...));
    }
    /// An empty handle inserts nothing. The handle must come from a table of the same heap.
    auto insert(node_type&& handle) {
        using result = std::conditional_t<is_multi, iterator, insert_return_type>;
        if (handle.empty()) {
            return result{};
        }
        node_owner owner(allocator_, handle.release());
        const std::size_t hash = hash_of(key_of(owner.get()));
        node* const found = find_node(key_of(owner.get()), hash);
        if constexpr (is_multi) {
            return insert_node(owner, hash, found);
        } else {
            if (found != nullptr) {
                return result{iterator(found), false, node_type(owner.release(), allocator_)};
            }
            return result{insert_node(owner, hash, nullptr).first, true, {}};
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

    void clear() noexcept {
        destroy_nodes();
        chains_.clear();
        size_ = 0;
    }
    iterator erase(const_iterator position) { return erase_node(position.node()); }
    iterator erase(iterator position)
        requires(!std::is_same_v<iterator, const_iterator>)
    {
        return erase_node(position.node());
    }
    iterator erase(const_iterator first, const_iterator last) {
        while (first != last) {
            first = erase(first);
        }
        return iterator(last.node());
    }
    size_type erase(const key_type& key) { return erase_key(key); }
    template <class K>
        requires(transparent_pair<Hash, Equal> && !std::is_convertible_v<const K&, const_iterator> &&
                 !std::is_convertible_v<const K&, iterator>)
    size_type erase(const K& key) {
        return erase_key(key);
    }
    [[nodiscard]] node_type extract(const_iterator position) {
        node* const taken = position.node();
        unlink(taken);
        return node_type(taken, allocator_);
    }
    [[nodiscard]] node_type extract(const key_type& key) {
        node* const found = find_node(key, hash_of(key));
        return found != nullptr ? extract(const_iterator(found)) : node_type{};
    }
    /// Moves the nodes whose keys may be added to this table. Between two heaps it moves none.
    template <class OtherTraits, class OtherHash, class OtherEqual>
    void merge(hash_table<OtherTraits, OtherHash, OtherEqual, Allocator>& other) {
        if (static_cast<void*>(&other) == this || !(other.get_allocator() == allocator_)) {
            return;
        }
        for (auto i = other.begin(); i != other.end();) {
            const auto here = i++;
            const auto& key = Traits::key_of(*here);
            if (is_multi || find_node(key, hash_of(key)) == nullptr) {
                insert(node_type(other.extract(here)));
            }
        }
    }
    template <class OtherTraits, class OtherHash, class OtherEqual>
    void merge(hash_table<OtherTraits, OtherHash, OtherEqual, Allocator>&& other) {
        merge(other);
    }

    [[nodiscard]] iterator find(const key_type& key) { return iterator(find_node(key, hash_of(key))); }
    [[nodiscard]] const_iterator find(const key_type& key) const {
        return const_iterator(find_node(key, hash_of(key)));
    }
    [[nodiscard]] bool contains(const key_type& key) const { return find_node(key, hash_of(key)) != nullptr; }
    [[nodiscard]] size_type count(const key_type& key) const { return count_key(key); }
    [[nodiscard]] std::pair<iterator, iterator> equal_range(const key_type& key) { return range_of<iterator>(key); }
    [[nodiscard]] std::pair<const_iterator, const_iterator> equal_range(const key_type& key) const {
        return range_of<const_iterator>(key);
    }
    // Look-up by any type that hash and comparison accept, where both are transparent.
    template <class K>
        requires transparent_pair<Hash, Equal>
    [[nodiscard]] iterator find(const K& key) {
        return iterator(find_node(key, hash_of(key)));
    }
    template <class K>
        requires transparent_pair<Hash, Equal>
    [[nodiscard]] const_iterator find(const K& key) const {
        return const_iterator(find_node(key, hash_of(key)));
    }
    template <class K>
        requires transparent_pair<Hash, Equal>
    [[nodiscard]] bool contains(const K& key) const {
        return find_node(key, hash_of(key)) != nullptr;
    }
    template <class K>
        requires transparent_pair<Hash, Equal>
    [[nodiscard]] size_type count(const K& key) const {
        return count_key(key);
    }
    template <class K>
        requires transparent_pair<Hash, Equal>
    [[nodiscard]] std::pair<iterator, iterator> equal_range(const K& key) {
        return range_of<iterator>(key);
    }
    template <class K>
        requires transparent_pair<Hash, Equal>
    [[nodiscard]] std::pair<const_iterator, const_iterator> equal_range(const K& key) const {
        return range_of<const_iterator>(key);
    }

    [[nodiscard]] size_type bucket_count() const noexcept { return chains_.count(); }
    [[nodiscard]] size_type max_bucket_count() const noexcept { return std::bit_floor(max_size()); }
    /// The table must have buckets.
    [[nodiscard]] size_type bucket(const key_type& key) const { return chains_.index_of(hash_of(key)); }
    [[nodiscard]] size_type bucket_size(size_type index) const noexcept {
        return static_cast<size_type>(std::distance(begin(index), end(index)));
    }
    [[nodiscard]] local_iterator begin(size_type index) noexcept { return local_iterator(chains_.buckets() + index); }
    [[nodiscard]] const_local_iterator begin(size_type index) const noexcept {
        return const_local_iterator(chains_.buckets() + index);
    }
    [[nodiscard]] const_local_iterator cbegin(size_type index) const noexcept { return begin(index); }
    [[nodiscard]] local_iterator end(size_type /*index*/) noexcept { return {}; }
    [[nodiscard]] const_local_iterator end(size_type /*index*/) const noexcept { return {}; }
    [[nodiscard]] const_local_iterator cend(size_type /*index*/) const noexcept { return {}; }
    [[nodiscard]] float load_factor() const noexcept {
        return chains_.count() == 0 ? 0.0F : static_cast<float>(size_) / static_cast<float>(chains_.count());
    }
    [[nodiscard]] float max_load_factor() const noexcept { return max_load_; }
    /// Ignores values that are not positive numbers.
    void max_load_factor(float load) {
        if (load > 0) {
            max_load_ = std::min(load, 1048576.0F);
            limit_ = limit_for(chains_.count());
        }
    }
    void rehash(size_type buckets) {
        const size_type wanted = std::max(buckets, buckets_for(size_));
        const size_type count = wanted == 0 ? 0 : std::bit_ceil(std::max(wanted, min_buckets));
        if (count != chains_.count()) {
            change_buckets(count);
        }
    }
    void reserve(size_type elements) {
        if (elements > limit_) {
            rehash(buckets_for(elements));
        }
    }

protected:
    static constexpr size_type min_buckets = 8;

    template <class... Args>
    [[nodiscard]] node_owner make_node(Args&&... args) {
        expect_writable(allocator_);
        return {allocator_, make_hash_node<node>(allocator_, std::forward<Args>(args)...)};
    }
    [[nodiscard]] static const key_type& key_of(const node* of) noexcept { return Traits::key_of(of->value); }
    template <class K>
    [[nodiscard]] std::size_t hash_of(const K& key) const {
        return hash_(key);
    }
    /// The first node with the key, or null.
    template <class K>
    [[nodiscard]] node* find_node(const K& key, std::size_t hash) const {
        if (size_ == 0) {
            return nullptr;
        }
        const hash_link& bucket = chains_.buckets()[chains_.index_of(hash)];
        if (!bucket) {
            return nullptr;
        }
        std::byte* target = std::addressof(*bucket);
        do {
            node* const candidate = node::at(target);
            if (candidate->may_be(hash) && equal_(key_of(candidate), key)) {
                return candidate;
            }
            target = std::addressof(*candidate->next);
        } while (!is_hash_end_mark(target));
        return nullptr;
    }
    /// Links the node, behind `equal` (a node with the same key) in a multi table where that is not null.
    insertion insert_node(node_owner& made, std::size_t hash, node* equal) {
        if (size_ >= limit_) {
            change_buckets(std::bit_ceil(std::max({min_buckets, buckets_for(size_ + 1), chains_.count() * 2})));
        }
        node* const added = made.release();
        if constexpr (node::keeps_hash) {
            added->hash = hash;
        }
        if (is_multi && equal != nullptr) {
            chains_.link_behind(equal, added);
        } else {
            chains_.link_first(added, hash);
        }
        ++size_;
        if constexpr (is_multi) {
            return iterator(added);
        } else {
            return {iterator(added), true};
        }
    }
    [[nodiscard]] static iterator place_of(const insertion& told) noexcept {
        if constexpr (is_multi) {
            return told;
        } else {
            return told.first;
        }
    }

private:
    template <class, class, class, class>
    friend class hash_table;

    [[nodiscard]] std::size_t hash_of_node(const node* of) const {
        if constexpr (node::keeps_hash) {
            return of->hash;
        } else {
            return hash_of(key_of(of));
        }
    }
    [[nodiscard]] size_type limit_for(size_type buckets) const noexcept {
        return static_cast<size_type>(static_cast<double>(max_load_) * static_cast<double>(buckets));
    }
    /// The buckets that so many elements need, not yet rounded to a power of two.
    [[nodiscard]] size_type buckets_for(size_type elements) const noexcept {
        return static_cast<size_type>(std::ceil(static_cast<double>(elements) / static_cast<double>(max_load_)));
    }
    [[nodiscard]] node* first_node() const noexcept { return size_ == 0 ? nullptr : chains_.first(); }
    /// Takes the node out of the table; it stays constructed. Result: as hash_chains::unlink().
    bool unlink(node* taken) noexcept {
        --size_;
        return chains_.unlink(taken, hash_of_node(taken));
    }
    iterator erase_node(node* taken) noexcept {
        node* const next = taken->following();
        if (unlink(taken) && next != nullptr) {
            // Keeps erasing the first element until the table is empty linear in total.
            chains_.skip_to(hash_of_node(next));
        }
        destroy_hash_node(allocator_, taken);
        return iterator(next);
    }
    /// `key` may lie in an element that is erased, so all uses of it come before the first erasure.
    template <class K>
    size_type erase_key(const K& key) {
        const auto [first, last] = range_of<const_iterator>(key);
        const auto erased = static_cast<size_type>(std::distance(first, last));
        node* next = first.node();
        for (size_type left = erased; left > 0; --left) {
            node* const taken = next;
            next = left > 1 ? taken->following() : nullptr;
            unlink(taken);
            destroy_hash_node(allocator_, taken);
        }
        return erased;
    }
    template <class Value>
    insertion insert_value(Value&& value) {
        const auto& key = Traits::key_of(value);
        const std::size_t hash = hash_of(key);
        node* const found = find_node(key, hash);
        if constexpr (!is_multi) {
            if (found != nullptr) {
                return {iterator(found), false};
            }
        }
        node_owner made = make_node(std::forward<Value>(value));
        return insert_node(made, hash, found);
    }
    template <class K>
    [[nodiscard]] size_type count_key(const K& key) const {
        const auto [first, last] = range_of<const_iterator>(key);
        return static_cast<size_type>(std::distance(first, last));
    }
    template <class Iterator, class K>
    [[nodiscard]] std::pair<Iterator, Iterator> range_of(const K& key) const {
        node* const found = find_node(key, hash_of(key));
        if (found == nullptr) {
            return {};
        }
        node* behind = found->following();
        if constexpr (is_multi) {
            while (behind != nullptr && equal_(key_of(behind), key)) {
                behind = behind->following();
            }
        }
        return {Iterator(found), Iterator(behind)};
    }

    /// Moves all nodes to `count` buckets; `count` may be 0 where there are no nodes.
    void change_buckets(size_type count) {
        hash_link* const before = chains_.buckets();
        const size_type count_before = chains_.count();
        hash_link* fresh = nullptr;
        if (count != 0) {
            expect_writable(allocator_);  // the copy below cannot tell which heap the table lies in
            bucket_allocator allocator(allocator_);
            fresh = std::to_address(allocator.allocate(count + 1));
        }
        chains_.adopt(fresh, count);
        limit_ = limit_for(count);
        for (size_type i = 0; i < count_before; ++i) {
            if (before[i]) {
                chains_.template relink<is_multi>(std::addressof(*before[i]),
                                                  [this](const node* of) { return hash_of_node(of); });
            }
        }
        free_buckets(before, count_before);
    }
    void free_buckets(hash_link* array, size_type count) noexcept {
        if (array != nullptr) {
            bucket_allocator allocator(allocator_);
            allocator.deallocate(
                std::pointer_traits<typename std::allocator_traits<bucket_allocator>::pointer>::pointer_to(*array),
                count + 1);
        }
    }
    void destroy_nodes() noexcept {
        for (node* one = first_node(); one != nullptr;) {
            node* const next = one->following();
            destroy_hash_node(allocator_, one);
            one = next;
        }
    }
    void release() noexcept {
        destroy_nodes();
        free_buckets(chains_.buckets(), chains_.count());
    }
    void swap_contents(hash_table& other) noexcept {
        using std::swap;
        swap(chains_, other.chains_);
        swap(size_, other.size_);
        swap(limit_, other.limit_);
        swap(max_load_, other.max_load_);
        swap(hash_, other.hash_);
        swap(equal_, other.equal_);
    }
    /// Takes the contents of `other`. This table is empty and has no buckets.
    void steal(hash_table& other) noexcept {
        using std::swap;
        swap(chains_, other.chains_);
        size_ = std::exchange(other.size_, 0);
        limit_ = std::exchange(other.limit_, 0);
    }
    void take_over(hash_table& other) {
        if (allocator_ == other.allocator_) {
            steal(other);
            return;
        }
        reserve(other.size_);
        for (node* one = other.first_node(); one != nullptr; one = one->following()) {
            append(std::move(one->value), other.hash_of_node(one));
        }
        other.clear();
    }
    void copy_elements(const hash_table& other) {
        reserve(other.size_);
        for (node* one = other.first_node(); one != nullptr; one = one->following()) {
            append(std::as_const(one->value), other.hash_of_node(one));
        }
    }
    /// Adds an element of another table, in that table's order. Its key is new here, or equal to that of the element
    /// before it.
    template <class Value>
    void append(Value&& value, std::size_t hash) {
        node* const equal = is_multi ? last_equal(Traits::key_of(value), hash) : nullptr;
        node_owner made = make_node(std::forward<Value>(value));
        insert_node(made, hash, equal);
    }
    template <class K>
    [[nodiscard]] node* last_equal(const K& key, std::size_t hash) const {
        node* last = find_node(key, hash);
        for (node* next = last; next != nullptr && equal_(key_of(next), key); next = next->following()) {
            last = next;
        }
        return last;
    }

    hash_chains<node> chains_;
    float max_load_ = 1.0F;
    size_type size_ = 0;
    size_type limit_ = 0;  ///< number of elements that fit without growing
    [[no_unique_address]] Hash hash_;
    [[no_unique_address]] Equal equal_;
    [[no_unique_address]] Allocator allocator_;
};

}  // namespace holdfast::detail
