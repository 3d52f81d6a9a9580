// The buckets of a hash table and their chains.
//
// Invariants: the number of buckets is 0 or a power of two; one more link behind them is an end mark; all buckets
// before first_ are empty.
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
    /// The high bits of hash times 2^64 / phi: even the identity is a good enough hash, and doubling splits each bucket
    /// into two neighbours.
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
    /// The node does not change. True where its bucket was the first one with nodes and is empty now: skip_to() of the
    /// next node then saves searches.
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
        // A few empty buckets at each removal, so that first() need not pass all at once.
        for (int step = 0; step < 8 && first_ < count_ && !buckets()[first_]; ++step) {
            ++first_;
        }
        return true;
    }
    /// All buckets before that of the hash are empty.
    void skip_to(std::size_t hash) noexcept { first_ = std::max(first_, index_of(hash)); }
    void clear() noexcept {
        if (buckets_) {
            std::fill_n(buckets(), count_, nullptr);
        }
        first_ = count_;
    }
    /// `fresh`: count + 1 uninitialised links, or none for count 0. The caller frees the old array.
    void adopt(hash_link* fresh, std::size_t count) noexcept {
        buckets_ = fresh;
        count_ = first_ = count;
        if (count != 0) {
            std::uninitialized_value_construct_n(fresh, count + 1);
            fresh[count] = hash_end_mark(fresh + count);
            shift_ = static_cast<std::uint32_t>(64 - std::countr_zero(count));
        }
    }
    /// `target`: a chain of the old array. KeepsOrder: nodes that share a bucket again keep their order.
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
