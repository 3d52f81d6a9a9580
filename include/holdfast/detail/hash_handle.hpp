// Nodes outside a table, and the handles that extract() returns.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <holdfast/detail/hash_node.hpp>

namespace holdfast::detail {

template <class Node, class Allocator>
using hash_node_allocator = typename std::allocator_traits<Allocator>::template rebind_alloc<Node>;

/// Frees a node that has no value.
template <class Node, class Allocator>
void free_hash_node(Allocator& allocator, Node* freed) noexcept {
    hash_node_allocator<Node, Allocator> nodes(allocator);
    using pointer = typename std::allocator_traits<hash_node_allocator<Node, Allocator>>::pointer;
    freed->~Node();
    nodes.deallocate(std::pointer_traits<pointer>::pointer_to(*freed), 1);
}

template <class Node, class Allocator>
void destroy_hash_node(Allocator& allocator, Node* destroyed) noexcept {
    std::allocator_traits<Allocator>::destroy(allocator, std::addressof(destroyed->value));
    free_hash_node(allocator, destroyed);
}

template <class Node, class Allocator, class... Args>
[[nodiscard]] Node* make_hash_node(Allocator& allocator, Args&&... args) {
    hash_node_allocator<Node, Allocator> nodes(allocator);
    auto* const made = ::new (static_cast<void*>(std::to_address(nodes.allocate(1)))) Node;
    try {
        std::allocator_traits<Allocator>::construct(allocator, std::addressof(made->value),
                                                    std::forward<Args>(args)...);
    } catch (...) {
        free_hash_node(allocator, made);
        throw;
    }
    return made;
}

/// Destroys a node that is in no table, unless it was released.
template <class Node, class Allocator>
class hash_node_owner {
public:
    hash_node_owner(Allocator& allocator, Node* owned) noexcept : allocator_(allocator), owned_(owned) {}
    hash_node_owner(const hash_node_owner&) = delete;
    hash_node_owner& operator=(const hash_node_owner&) = delete;
    ~hash_node_owner() {
        if (owned_ != nullptr) {
            destroy_hash_node(allocator_, owned_);
        }
    }
    [[nodiscard]] Node* get() const noexcept { return owned_; }
    [[nodiscard]] Node* release() noexcept { return std::exchange(owned_, nullptr); }

private:
    Allocator& allocator_;
    Node* owned_;
};

/// What extract() returns. Lives in the process, not in the heap.
template <class Traits, class Node, class Allocator>
class hash_node_handle {
public:
    using key_type = typename Traits::key_type;
    using value_type = typename Traits::value_type;
    using allocator_type = Allocator;

    hash_node_handle() noexcept = default;
    hash_node_handle(Node* owned, const Allocator& allocator) : owned_(owned), allocator_(allocator) {}
    /// Between tables with unique keys and their multi variants.
    template <class OtherTraits>
    explicit hash_node_handle(hash_node_handle<OtherTraits, Node, Allocator>&& other)
        : hash_node_handle(other.empty() ? hash_node_handle{} : hash_node_handle{other.peek(), other.get_allocator()}) {
        static_cast<void>(other.release());
    }
    hash_node_handle(hash_node_handle&& other) noexcept
        : owned_(std::exchange(other.owned_, nullptr)), allocator_(std::exchange(other.allocator_, std::nullopt)) {}
    hash_node_handle& operator=(hash_node_handle&& other) noexcept {
        hash_node_handle taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~hash_node_handle() {
        if (owned_ != nullptr) {
            destroy_hash_node(*allocator_, owned_);
        }
    }

    [[nodiscard]] bool empty() const noexcept { return owned_ == nullptr; }
    explicit operator bool() const noexcept { return !empty(); }
    [[nodiscard]] allocator_type get_allocator() const { return *allocator_; }
    [[nodiscard]] value_type& value() const noexcept
        requires std::is_same_v<key_type, value_type>
    {
        return owned_->value;
    }
    /// May be changed while the node is in no table.
    [[nodiscard]] key_type& key() const noexcept
        requires(!std::is_same_v<key_type, value_type>)
    {
        return const_cast<key_type&>(owned_->value.first);
    }
    [[nodiscard]] auto& mapped() const noexcept
        requires(!std::is_same_v<key_type, value_type>)
    {
        return owned_->value.second;
    }
    void swap(hash_node_handle& other) noexcept {
        std::swap(owned_, other.owned_);
        // An allocator need not be assignable.
        auto kept = allocator_;
        allocator_.reset();
        if (other.allocator_) {
            allocator_.emplace(*other.allocator_);
        }
        other.allocator_.reset();
        if (kept) {
            other.allocator_.emplace(*kept);
        }
    }
    friend void swap(hash_node_handle& a, hash_node_handle& b) noexcept { a.swap(b); }

    [[nodiscard]] Node* peek() const noexcept { return owned_; }
    [[nodiscard]] Node* release() noexcept {
        allocator_.reset();
        return std::exchange(owned_, nullptr);
    }

private:
    Node* owned_ = nullptr;
    std::optional<Allocator> allocator_;
};

template <class Iterator, class Handle>
struct hash_insert_result {
    Iterator position;
    bool inserted = false;
    Handle node;
};

}  // namespace holdfast::detail
