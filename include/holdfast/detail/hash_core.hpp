// The data of a hash table, and the changes that keep it sound.
//
// Invariants:
// - Each node is in the chain of its key's hash (hash_chains::index_of()); the occupancy counts the nodes.
// - Where keys are unique, no two nodes have equal keys; in a multi table nodes with equal keys follow each other.
// - The nodes and the array of buckets come from the allocator and are freed with the table.
// - The members and their order are data on media: the classes that are built on this one add no member.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <holdfast/detail/hash_chains.hpp>
#include <holdfast/detail/hash_handle.hpp>
#include <holdfast/detail/hash_node.hpp>
#include <holdfast/detail/hash_occupancy.hpp>

namespace holdfast::detail {

/// As cheap as reading a stored hash.
template <class Key, class Hash>
inline constexpr bool hashes_quickly =
    (std::is_arithmetic_v<Key> || std::is_enum_v<Key>)&&std::is_nothrow_invocable_v<const Hash&, const Key&>;

template <class Hash, class Equal>
concept transparent_pair = requires {
    typename Hash::is_transparent;
    typename Equal::is_transparent;
};

template <class Allocator>
using hash_bucket_allocator = typename std::allocator_traits<Allocator>::template rebind_alloc<hash_link>;

/// With the link behind the buckets (hash_chains::adopt()).
template <class Allocator>
[[nodiscard]] hash_link* allocate_hash_buckets(Allocator& allocator, std::size_t count) {
    hash_bucket_allocator<Allocator> links(allocator);
    return std::to_address(links.allocate(count + 1));
}

template <class Allocator>
void free_hash_buckets(Allocator& allocator, hash_link* array, std::size_t count) noexcept {
    if (array != nullptr) {
        hash_bucket_allocator<Allocator> links(allocator);
        using pointer = typename std::allocator_traits<hash_bucket_allocator<Allocator>>::pointer;
        links.deallocate(std::pointer_traits<pointer>::pointer_to(*array), count + 1);
    }
}

/// Traits: key_type, value_type, is_multi, key_of(value).
template <class Traits, class Hash, class Equal, class Allocator>
class hash_core {
protected:
    using element_traits = Traits;
    using node = hash_node<typename Traits::value_type, !hashes_quickly<typename Traits::key_type, Hash>>;
    using node_owner = hash_node_owner<node, Allocator>;
    static constexpr bool is_multi = Traits::is_multi;
    static constexpr bool iterates_constants = std::is_same_v<typename Traits::key_type, typename Traits::value_type>;
    static constexpr bool finds_by_any_type = transparent_pair<Hash, Equal>;

public:
    using key_type = typename Traits::key_type;
    using value_type = typename Traits::value_type;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using hasher = Hash;
    using key_equal = Equal;
    using allocator_type = Allocator;
    using iterator = hash_iterator<node, iterates_constants>;
    using const_iterator = hash_iterator<node, true>;
    using node_type = hash_node_handle<Traits, node, Allocator>;
    /// Where the element is and, where keys are unique, whether it is new.
    using insertion = std::conditional_t<is_multi, iterator, std::pair<iterator, bool>>;

    hash_core()
        requires std::is_default_constructible_v<Allocator>
    = default;
    explicit hash_core(const Allocator& allocator) noexcept : allocator_(allocator) {}
    hash_core(const Hash& hash, const Equal& equal, const Allocator& allocator)
        : hash_(hash), equal_(equal), allocator_(allocator) {}
    /// The functions and the maximal load factor of `model`.
    hash_core(const hash_core& model, const Allocator& allocator) : hash_core(model.hash_, model.equal_, allocator) {
        occupancy_.set_max_factor(model.occupancy_.max_factor(), 0);
    }
    hash_core(hash_core&& other) noexcept : hash_(other.hash_), equal_(other.equal_), allocator_(other.allocator_) {
        steal(other);
    }
    hash_core(const hash_core&) = delete;
    hash_core& operator=(const hash_core&) = delete;
    ~hash_core() {
        destroy_nodes();
        free_hash_buckets(allocator_, chains_.buckets(), chains_.count());
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_; }
    [[nodiscard]] hasher hash_function() const { return hash_; }
    [[nodiscard]] key_equal key_eq() const { return equal_; }

    /// To at least so many buckets, and enough for the elements.
    void rehash(size_type buckets) {
        const size_type count = occupancy_.rehashed(buckets);
        if (count != chains_.count()) {
            change_buckets(count);
        }
    }
    void reserve(size_type elements) {
        if (!occupancy_.fits(elements)) {
            rehash(occupancy_.buckets_for(elements));
        }
    }
    void clear() noexcept {
        destroy_nodes();
        chains_.clear();
        occupancy_.remove_all();
    }

protected:
    [[nodiscard]] const hash_chains<node>& chains() const noexcept { return chains_; }
    [[nodiscard]] const hash_occupancy& occupancy() const noexcept { return occupancy_; }
    void set_max_load(float factor) noexcept { occupancy_.set_max_factor(factor, chains_.count()); }

    [[nodiscard]] static const key_type& key_of(const node* of) noexcept { return Traits::key_of(of->value); }
    template <class K>
    [[nodiscard]] std::size_t hash_of(const K& key) const {
        return hash_(key);
    }
    [[nodiscard]] std::size_t hash_of_node(const node* of) const {
        if constexpr (node::keeps_hash) {
            return of->hash;
        } else {
            return hash_of(key_of(of));
        }
    }
    [[nodiscard]] node* first_node() const noexcept { return occupancy_.size() == 0 ? nullptr : chains_.first(); }
    template <class K>
    [[nodiscard]] node* find_node(const K& key, std::size_t hash) const {
        if (occupancy_.size() == 0) {
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
    /// The first node with another key behind `found`, the first with this key; or null.
    template <class K>
    [[nodiscard]] node* behind_equals(node* found, const K& key) const {
        node* behind = found->following();
        if constexpr (is_multi) {
            while (behind != nullptr && equal_(key_of(behind), key)) {
                behind = behind->following();
            }
        }
        return behind;
    }
    template <class K>
    [[nodiscard]] node* last_equal(const K& key, std::size_t hash) const {
        node* last = find_node(key, hash);
        for (node* next = last; next != nullptr && equal_(key_of(next), key); next = next->following()) {
            last = next;
        }
        return last;
    }

    template <class... Args>
    [[nodiscard]] node_owner make_node(Args&&... args) {
        expect_writable(allocator_);
        return own_node(make_hash_node<node>(allocator_, std::forward<Args>(args)...));
    }
    [[nodiscard]] node_owner own_node(node* owned) noexcept { return {allocator_, owned}; }
    /// For one more element: insert_node() does not throw then.
    void make_room() {
        if (occupancy_.is_full()) {
            change_buckets(occupancy_.grown(chains_.count()));
        }
    }
    /// `equal`: null, or in a multi table the node with the same key to link behind.
    insertion insert_node(node_owner& made, std::size_t hash, node* equal) {
        make_room();
        node* const added = made.release();
        if constexpr (node::keeps_hash) {
            added->hash = hash;
        }
        if (is_multi && equal != nullptr) {
            chains_.link_behind(equal, added);
        } else {
            chains_.link_first(added, hash);
        }
        occupancy_.add_one();
        if constexpr (is_multi) {
            return iterator(added);
        } else {
            return {iterator(added), true};
        }
    }
    /// The node stays constructed. Result: as hash_chains::unlink().
    bool unlink(node* taken) noexcept {
        occupancy_.remove_one();
        return chains_.unlink(taken, hash_of_node(taken));
    }
    void destroy_node(node* destroyed) noexcept { destroy_hash_node(allocator_, destroyed); }
    node* erase_node(node* taken) noexcept {
        node* const next = taken->following();
        if (unlink(taken) && next != nullptr) {
            // Erasing the first element again and again stays linear in total.
            chains_.skip_to(hash_of_node(next));
        }
        destroy_node(taken);
        return next;
    }

    /// This table is empty and has no buckets.
    void steal(hash_core& other) noexcept {
        swap(chains_, other.chains_);
        occupancy_.take(other.occupancy_);
    }
    /// The allocators are equal.
    void swap_contents(hash_core& other) noexcept {
        using std::swap;
        swap(chains_, other.chains_);
        swap(occupancy_, other.occupancy_);
        swap(hash_, other.hash_);
        swap(equal_, other.equal_);
    }

private:
    /// `count` may be 0 where there are no nodes.
    void change_buckets(size_type count) {
        hash_link* const before = chains_.buckets();
        const size_type count_before = chains_.count();
        hash_link* fresh = nullptr;
        if (count != 0) {
            expect_writable(allocator_);  // a copy may lie elsewhere
            fresh = allocate_hash_buckets(allocator_, count);
        }
        chains_.adopt(fresh, count);
        occupancy_.set_buckets(count);
        for (size_type i = 0; i < count_before; ++i) {
            if (before[i]) {
                chains_.template relink<is_multi>(std::addressof(*before[i]),
                                                  [this](const node* of) { return hash_of_node(of); });
            }
        }
        free_hash_buckets(allocator_, before, count_before);
    }
    void destroy_nodes() noexcept {
        for (node* one = first_node(); one != nullptr;) {
            node* const next = one->following();
            destroy_node(one);
            one = next;
        }
    }

    hash_chains<node> chains_;
    hash_occupancy occupancy_;
    [[no_unique_address]] Hash hash_;
    [[no_unique_address]] Equal equal_;
    [[no_unique_address]] Allocator allocator_;
};

}  // namespace holdfast::detail
