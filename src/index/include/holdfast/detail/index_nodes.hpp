// The nodes of an ordered_index in DRAM: inner nodes, which lead to leaves, and what is kept of each leaf beside it.
// They are rebuilt at each open. Not for users.
//
// Readers may look at a node while a writer changes it, and at one that was taken out of the tree: so all that they
// read is atomic, and the memory of a node stays a node of its kind until the index is closed (node_pool).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/index_format.hpp>
#include <holdfast/detail/index_lock.hpp>
#include <holdfast/detail/index_words.hpp>

namespace holdfast::detail {

struct index_node {
    alignas(64) version_lock lock;
    const bool is_leaf;

    explicit index_node(bool leaf) noexcept : is_leaf(leaf) {}
};

/// What parts two children: a key, inline or as a text that lives until readers are gone.
template <class Key>
struct separator_word {
    using held = Key;
    [[nodiscard]] Key get() const noexcept {
        typename index_words<Key>::array from;
        for (std::size_t i = 0; i < from.size(); ++i) {
            from[i] = words[i].load(std::memory_order_relaxed);
        }
        return index_words<Key>::decode(from);
    }
    [[nodiscard]] Key raw() const noexcept { return get(); }
    void set(const Key& key) noexcept {
        const auto to = index_words<Key>::encode(key);
        for (std::size_t i = 0; i < to.size(); ++i) {
            words[i].store(to[i], std::memory_order_relaxed);
        }
    }
    std::array<std::atomic<std::uint64_t>, index_words<Key>::words> words{};
};
template <>
struct separator_word<std::string_view> {
    using held = const std::string*;
    [[nodiscard]] std::string_view get() const noexcept { return *text.load(std::memory_order_acquire); }
    [[nodiscard]] held raw() const noexcept { return text.load(std::memory_order_relaxed); }
    void set(held to) noexcept { text.store(to, std::memory_order_release); }
    std::atomic<held> text{nullptr};
};
template <class Key>
using held_separator = typename separator_word<Key>::held;
[[nodiscard]] inline std::string_view key_of_separator(const std::string* held) noexcept { return *held; }
template <class Key>
[[nodiscard]] const Key& key_of_separator(const Key& held) noexcept {
    return held;
}

template <class Key>
struct inner_node : index_node {
    static constexpr std::size_t most = 64;  ///< separators

    inner_node() noexcept : index_node(false) {}

    std::atomic<std::uint32_t> count{0};  ///< separators; one child more
    std::array<separator_word<Key>, most> separators{};
    std::array<std::atomic<index_node*>, most + 1> children{};

    /// How many separators are not larger than the key (`or_equal`), or smaller: the child that leads on.
    template <class Wanted>
    [[nodiscard]] std::size_t find(const Wanted& key, bool or_equal) const noexcept {
        std::size_t first = 0;
        std::size_t left = count.load(std::memory_order_acquire);
        left = left > most ? 0 : left;  // of no state that counts
        while (left > 0) {
            const std::size_t half = left / 2;
            const auto here = separators[first + half].get();
            const bool right = or_equal ? !(key < here) : here < key;
            first = right ? first + half + 1 : first;
            left = right ? left - half - 1 : half;
        }
        return first;
    }
    [[nodiscard]] index_node* child(std::size_t i) const noexcept {
        return children[i].load(std::memory_order_acquire);
    }
    /// For a writer: a separator and the child behind it.
    void insert(std::size_t at, held_separator<Key> separator, index_node* behind) noexcept {
        const std::size_t old = count.load(std::memory_order_relaxed);
        for (std::size_t i = old; i > at; --i) {
            separators[i].set(separators[i - 1].raw());
            children[i + 1].store(child(i), std::memory_order_release);
        }
        separators[at].set(separator);
        children[at + 1].store(behind, std::memory_order_release);
        count.store(static_cast<std::uint32_t>(old + 1), std::memory_order_release);
    }
    void remove(std::size_t at) noexcept {
        const std::size_t old = count.load(std::memory_order_relaxed);
        for (std::size_t i = at; i + 1 < old; ++i) {
            separators[i].set(separators[i + 1].raw());
            children[i + 1].store(child(i + 2), std::memory_order_release);
        }
        count.store(static_cast<std::uint32_t>(old - 1), std::memory_order_release);
    }
};

/// A leaf: where it is in the heap, and what finding a key in it needs. `cold`: the rest was not read yet since the
/// open.
template <class Layout>
struct leaf_node : index_node {
    static constexpr std::size_t print_words = (Layout::slots + 7) / 8;
    static constexpr std::size_t bit_words = (Layout::slots + 63) / 64;

    leaf_node() noexcept : index_node(true) {}

    std::atomic<bool> cold{true};
    std::atomic<bool> ordered{false};  ///< `order` is that of the live entries
    std::atomic<std::uint64_t*> words{nullptr};
    std::array<std::atomic<std::uint64_t>, bit_words> live{};
    std::array<std::atomic<std::uint64_t>, print_words> prints{};
    std::array<std::atomic<std::uint64_t>, print_words> order{};  ///< slots, by their keys

    [[nodiscard]] std::uint64_t* media() const noexcept { return words.load(std::memory_order_acquire); }
    [[nodiscard]] std::size_t count() const noexcept {
        std::size_t sum = 0;
        for (const auto& each : live) {
            sum += static_cast<std::size_t>(std::popcount(each.load(std::memory_order_relaxed)));
        }
        return sum;
    }
    [[nodiscard]] bool is_live(std::size_t slot) const noexcept {
        return (live[slot / 64].load(std::memory_order_relaxed) >> (slot % 64) & 1U) != 0;
    }
    /// Layout::slots where none is free.
    [[nodiscard]] std::size_t free_slot() const noexcept {
        for (std::size_t i = 0; i < bit_words; ++i) {
            const std::uint64_t word = ~live[i].load(std::memory_order_relaxed);
            if (word != 0) {
                const std::size_t slot = i * 64 + static_cast<std::size_t>(std::countr_zero(word));
                return slot < Layout::slots ? slot : Layout::slots;
            }
        }
        return Layout::slots;
    }
    void set_live(std::size_t slot, bool is) noexcept {
        std::atomic<std::uint64_t>& word = live[slot / 64];
        const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
        const std::uint64_t old = word.load(std::memory_order_relaxed);
        word.store(is ? old | bit : old & ~bit, std::memory_order_relaxed);
        ordered.store(false, std::memory_order_relaxed);
    }
    void set_print(std::size_t slot, std::uint8_t print) noexcept { set_byte(prints, slot, print); }
    [[nodiscard]] std::uint8_t print(std::size_t slot) const noexcept { return byte(prints, slot); }
    void set_order(std::size_t rank, std::size_t slot) noexcept {
        set_byte(order, rank, static_cast<std::uint8_t>(slot));
    }
    /// The slot of that rank; below Layout::slots also where it is of no state that counts.
    [[nodiscard]] std::size_t slot_of_rank(std::size_t rank) const noexcept {
        const std::size_t slot = byte(order, rank);
        return slot < Layout::slots ? slot : 0;
    }
    /// Slots among 8 * i .. 8 * i + 7 that are live and whose fingerprint this may be: bit 7 of byte j for slot j.
    [[nodiscard]] std::uint64_t candidates(std::size_t i, std::uint64_t repeated) const noexcept {
        constexpr std::uint64_t low = 0x7f7f'7f7f'7f7f'7f7fU;
        const std::uint64_t differ = prints[i].load(std::memory_order_relaxed) ^ repeated;
        return ~(((differ & low) + low) | differ | low);  // exactly the bytes that are 0
    }
    void forget() noexcept {
        cold.store(true, std::memory_order_relaxed);
        ordered.store(false, std::memory_order_relaxed);
        for (auto& each : live) {
            each.store(0, std::memory_order_relaxed);
        }
    }

private:
    using bytes = std::array<std::atomic<std::uint64_t>, print_words>;
    static void set_byte(bytes& of, std::size_t at, std::uint8_t value) noexcept {
        std::atomic<std::uint64_t>& word = of[at / 8];
        const std::size_t shift = at % 8 * 8;
        const std::uint64_t old = word.load(std::memory_order_relaxed);
        word.store((old & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{value} << shift, std::memory_order_relaxed);
    }
    [[nodiscard]] static std::uint8_t byte(const bytes& of, std::size_t at) noexcept {
        return static_cast<std::uint8_t>(of[at / 8].load(std::memory_order_relaxed) >> (at % 8 * 8));
    }
};

/// Nodes of one kind. What is given back is given out again, and freed with the pool alone.
///
/// Thread safety: all functions by any number of threads.
template <class Node>
class node_pool {
public:
    /// take() will not fail so many times. Throws std::bad_alloc.
    void reserve(std::size_t count) {
        const std::lock_guard lock(mutex_);
        if (free_.size() < reserved_ + count) {
            const std::size_t made = std::max({std::size_t{64}, reserved_ + count, total_ / 4});
            chunks_.reserve(chunks_.size() + 1);
            total_ += made;
            free_.reserve(total_);  // so that give() does not throw
            chunks_.push_back(std::make_unique<Node[]>(made));
            for (std::size_t i = 0; i < made; ++i) {
                free_.push_back(&chunks_.back()[made - 1 - i]);
            }
        }
        reserved_ += count;
    }
    /// One of the reserved ones.
    [[nodiscard]] Node* take() noexcept {
        const std::lock_guard lock(mutex_);
        --reserved_;
        Node* const taken = free_.back();
        free_.pop_back();
        return taken;
    }
    void cancel(std::size_t count) noexcept {
        const std::lock_guard lock(mutex_);
        reserved_ -= count;
    }
    void give(Node* unused) noexcept {
        const std::lock_guard lock(mutex_);
        free_.push_back(unused);
    }
    [[nodiscard]] std::size_t bytes() const noexcept {
        const std::lock_guard lock(mutex_);
        return total_ * sizeof(Node);
    }
    [[nodiscard]] std::size_t in_use() const noexcept {
        const std::lock_guard lock(mutex_);
        return total_ - free_.size();
    }

private:
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Node[]>> chunks_;
    std::vector<Node*> free_;
    std::size_t total_ = 0;
    std::size_t reserved_ = 0;
};

/// Reservations of a pool that are given back in the destructor where they were not used.
template <class Node>
class node_reservation {
public:
    node_reservation(node_pool<Node>& pool, std::size_t count) : pool_(pool), left_(count) { pool.reserve(count); }
    node_reservation(const node_reservation&) = delete;
    node_reservation& operator=(const node_reservation&) = delete;
    ~node_reservation() { pool_.cancel(left_); }
    [[nodiscard]] Node* take() noexcept {
        --left_;
        return pool_.take();
    }

private:
    node_pool<Node>& pool_;
    std::size_t left_;
};

}  // namespace holdfast::detail
