// Links, nodes and iterators of a hash table.
//
// A bucket is a link: null, or the first node of its chain. The last node links to its own bucket, by an odd address
// (the end mark), so an iterator is one pointer and finds the next bucket without the table or a hash. The link behind
// the last bucket holds an end mark, where iteration ends. Each copy of a ptr encodes and decodes, so a link is decoded
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>

#include <holdfast/persistable.hpp>
#include <holdfast/ptr.hpp>

namespace holdfast::detail {

using hash_link = ptr<std::byte>;

/// The address of a chain's bucket, made odd.
[[nodiscard]] inline std::byte* hash_end_mark(hash_link* bucket) noexcept {
    return reinterpret_cast<std::byte*>(bucket) + 1;
}
[[nodiscard]] inline bool is_hash_end_mark(const std::byte* target) noexcept {
    return (reinterpret_cast<std::uintptr_t>(target) & 1U) != 0;
}
[[nodiscard]] inline hash_link* bucket_of_end_mark(std::byte* target) noexcept {
    return reinterpret_cast<hash_link*>(target - 1);
}

struct hash_kept {
    std::size_t hash;
    [[nodiscard]] bool may_be(std::size_t wanted) const noexcept { return hash == wanted; }
};
struct hash_not_kept {
    [[nodiscard]] static bool may_be(std::size_t /*wanted*/) noexcept { return true; }
};

/// KeepsHash: the node stores its hash, because hashing again is slow or may throw.
template <class Value, bool KeepsHash>
struct hash_node : std::conditional_t<KeepsHash, hash_kept, hash_not_kept> {
    using value_type = Value;
    static constexpr bool keeps_hash = KeepsHash;

    hash_node() noexcept {}  // NOLINT(modernize-use-equals-default): the value is constructed by the allocator
    hash_node(const hash_node&) = delete;
    hash_node& operator=(const hash_node&) = delete;
    ~hash_node() {}  // NOLINT(modernize-use-equals-default): and destroyed by it

    [[nodiscard]] static hash_node* at(std::byte* target) noexcept { return reinterpret_cast<hash_node*>(target); }
    [[nodiscard]] std::byte* as_target() noexcept { return reinterpret_cast<std::byte*>(this); }

    /// In iteration order; null at the end.
    [[nodiscard]] hash_node* following() noexcept {
        std::byte* target = std::addressof(*next);
        if (is_hash_end_mark(target)) {
            hash_link* bucket = bucket_of_end_mark(target);
            do {
                ++bucket;
            } while (!*bucket);
            target = std::addressof(**bucket);
        }
        return is_hash_end_mark(target) ? nullptr : at(target);
    }

    hash_link next;
    union {
        Value value;
    };
};

/// A node is persistable if its value is, which allocator<hash_node<V>> asks.
template <class Value, bool KeepsHash>
struct parts<hash_node<Value, KeepsHash>> : part_list<Value> {};

/// One pointer, null at the end, which may be stored in the heap. A rehash invalidates it.
template <class Node, bool IsConst>
class hash_iterator {
public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = typename Node::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = std::conditional_t<IsConst, const value_type*, value_type*>;
    using reference = std::conditional_t<IsConst, const value_type&, value_type&>;

    hash_iterator() noexcept = default;
    explicit hash_iterator(Node* node) noexcept : node_(node) {}
    template <bool OtherIsConst>
        requires(IsConst && !OtherIsConst)
    hash_iterator(const hash_iterator<Node, OtherIsConst>& other) noexcept  // NOLINT(google-explicit-constructor)
        : node_(other.node()) {}

    [[nodiscard]] reference operator*() const noexcept { return node_->value; }
    [[nodiscard]] pointer operator->() const noexcept { return std::addressof(node_->value); }
    hash_iterator& operator++() noexcept {
        node_ = node_->following();
        return *this;
    }
    hash_iterator operator++(int) noexcept {
        hash_iterator before{*this};
        ++*this;
        return before;
    }
    [[nodiscard]] friend bool operator==(const hash_iterator& a, const hash_iterator& b) noexcept {
        return a.node_ == b.node_;
    }
    [[nodiscard]] Node* node() const noexcept { return node_.get(); }

private:
    ptr<Node> node_;
};

/// Over one bucket. Not for the heap: it holds a raw pointer.
template <class Node, bool IsConst>
class hash_local_iterator {
public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = typename Node::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = std::conditional_t<IsConst, const value_type*, value_type*>;
    using reference = std::conditional_t<IsConst, const value_type&, value_type&>;

    hash_local_iterator() noexcept = default;
    explicit hash_local_iterator(const hash_link* bucket) noexcept
        : node_(bucket != nullptr && *bucket ? Node::at(bucket->get()) : nullptr) {}
    template <bool OtherIsConst>
        requires(IsConst && !OtherIsConst)
    // NOLINTNEXTLINE(google-explicit-constructor): as for every iterator of the standard
    hash_local_iterator(const hash_local_iterator<Node, OtherIsConst>& other) noexcept : node_(other.node()) {}

    [[nodiscard]] reference operator*() const noexcept { return node_->value; }
    [[nodiscard]] pointer operator->() const noexcept { return std::addressof(node_->value); }
    hash_local_iterator& operator++() noexcept {
        std::byte* const target = std::addressof(*node_->next);
        node_ = is_hash_end_mark(target) ? nullptr : Node::at(target);
        return *this;
    }
    hash_local_iterator operator++(int) noexcept {
        hash_local_iterator before{*this};
        ++*this;
        return before;
    }
    [[nodiscard]] friend bool operator==(const hash_local_iterator&, const hash_local_iterator&) noexcept = default;
    [[nodiscard]] Node* node() const noexcept { return node_; }

private:
    Node* node_ = nullptr;
};

}  // namespace holdfast::detail

template <class Node, bool IsConst>
struct holdfast::persistable<holdfast::detail::hash_local_iterator<Node, IsConst>> : std::false_type {};
