// The buckets of a hash table and the chains that hang on them: linking and unlinking of nodes, nothing about memory,
// hashing or keys. Not for users.
//
// Invariants: the number of buckets is a power of two, or 0; one link more lies behind them, and is an end mark. All
// buckets before first_ are empty.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <holdfast/detail/hash_node.hpp>

namespace holdfast::detail {

template <class Node>
class hash_chains {
public:
    [[nodiscard]] hash_link* buckets() const noexcept { return buckets_.get(); }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    /// From the high bits of hash times 2^64 / phi: the identity will do as a hash, and where the number of buckets
    /// doubles, a bucket becomes two neighbours.
    [[nodiscard]] std::size_t index_of(std::size_t hash) const noexcept {
        constexpr std::uint64_t two_to_64_by_phi = 0x9E3779B97F4A7C15U;
        return static_cast<std::size_t>((std::uint64_t{hash} * two_to_64_by_phi) >> shift_);
    }
    /// Needs at least one node.
    [[nodiscard]] Node* first() const noexcept {
        const hash_link* bucket = buckets() + first_;
        while (!*bucket) {
            ++bucket;
        }
        return Node::at(std::addressof(**bucket));
    }
    void link_first(Node* added, std::size_t hash) noexcept {
        const std::size_t index = index_of(hash);
        hash_link& bucket = buckets()[index];
        if (bucket) {
            added->next = bucket;
        } else {
            added->next = hash_end_mark(&bucket);
            first_ = std::min(first_, index);
        }
        bucket = added->as_target();
    }
    static void link_behind(Node* before, Node* added) noexcept {
        added->next = before->next;
        before->next = added->as_target();
    }
    /// Takes the node out of its chain; it stays as it is. True where its bucket was the first with nodes, and has none
    /// left: then skip_to() spares others the way to the next.
    bool unlink(Node* taken, std::size_t hash) noexcept {
        hash_link* const bucket = buckets() + index_of(hash);
        hash_link* before = bucket;
        while (std::addressof(**before) != taken->as_target()) {
            before = &Node::at(std::addressof(**before))->next;
        }
        std::byte* const next = std::addressof(*taken->next);
        if (before != bucket || !is_hash_end_mark(next)) {
            *before = next;
            return false;
        }
        *bucket = nullptr;
        if (bucket != buckets() + first_) {
            return false;
        }
        // A little of the way here, so that first() after many removals in any order has not all of it to go.
        for (int step = 0; step < 8 && first_ < count_ && !buckets()[first_]; ++step) {
            ++first_;
        }
        return true;
    }
    /// All buckets before that of the hash were seen to be empty.
    void skip_to(std::size_t hash) noexcept { first_ = std::max(first_, index_of(hash)); }
    /// Forgets all nodes.
    void clear() noexcept {
        if (buckets_) {
            std::fill_n(buckets(), count_, nullptr);
        }
        first_ = count_;
    }
    /// Goes over to an array of count + 1 uninitialised links, or to none; the caller frees the one before.
    void adopt(hash_link* fresh, std::size_t count) noexcept {
        buckets_ = fresh;
        count_ = first_ = count;
        if (count != 0) {
            std::uninitialized_value_construct_n(fresh, count + 1);
            fresh[count] = hash_end_mark(fresh + count);
            shift_ = static_cast<std::uint32_t>(64 - std::countr_zero(count));
        }
    }
    /// A whole chain of another array. Where KeepsOrder, nodes that meet in a bucket again are in the order they were.
    template <bool KeepsOrder, class HashOf>
    void relink(std::byte* target, const HashOf& hash_of) noexcept {
        if constexpr (KeepsOrder) {
            std::byte* reversed = hash_end_mark(buckets());  // any end will do
            while (!is_hash_end_mark(target)) {
                Node* const moved = Node::at(target);
                target = std::addressof(*moved->next);
                moved->next = reversed;
                reversed = moved->as_target();
            }
            target = reversed;
        }
        while (!is_hash_end_mark(target)) {
            Node* const moved = Node::at(target);
            target = std::addressof(*moved->next);
            link_first(moved, hash_of(moved));
        }
    }
    friend void swap(hash_chains& a, hash_chains& b) noexcept {
        using std::swap;
        swap(a.buckets_, b.buckets_);
        swap(a.count_, b.count_);
        swap(a.first_, b.first_);
        swap(a.shift_, b.shift_);
    }

private:
    ptr<hash_link> buckets_;
    std::size_t count_ = 0;
    std::size_t first_ = 0;
    std::uint32_t shift_ = 63;
};

}  // namespace holdfast::detail
