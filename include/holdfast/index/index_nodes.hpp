// The nodes of an ordered_index in DRAM, rebuilt at each open. Readers may look at a node while a writer changes it,
// and at one that has left the tree: so all that they read is atomic, and memory of a node stays a node of its kind
// until the index is closed (node_pool).
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
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/index/index_format.hpp>
#include <holdfast/index/index_lock.hpp>
#include <holdfast/index/index_support.hpp>
#include <holdfast/index/index_words.hpp>

namespace holdfast::detail {

struct index_node {
    alignas(64) version_lock lock;
    const bool is_leaf;
    std::atomic<std::uint64_t*> words{nullptr};  ///< of a leaf, on media

    explicit index_node(bool leaf) noexcept : is_leaf(leaf) {}
};

inline void prefetch_node(const index_node* node) noexcept {
    const auto* const lines = reinterpret_cast<const char*>(node);
    __builtin_prefetch(lines + 64);
    __builtin_prefetch(lines + 128);
}

/// A key that parts two children, inline or as a text.
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

/// A child and, to be fetched with it, the words of a leaf. A reader that does not lock may find those of two different
/// leaves.
struct child_link {
    std::atomic<index_node*> node{nullptr};
    std::atomic<const std::uint64_t*> words{nullptr};

    void set(index_node* to) noexcept {
        words.store(to->words.load(std::memory_order_relaxed), std::memory_order_relaxed);
        node.store(to, std::memory_order_release);
    }
    void set(const child_link& as) noexcept {
        words.store(as.words.load(std::memory_order_relaxed), std::memory_order_relaxed);
        node.store(as.node.load(std::memory_order_acquire), std::memory_order_release);
    }
};

template <class Key>
struct inner_node : index_node {
    static constexpr std::size_t most = 64;  ///< separators

    inner_node() noexcept : index_node(false) {}

    std::atomic<std::uint32_t> count{0};  ///< of separators; children are one more
    std::array<separator_word<Key>, most> separators{};
    std::array<child_link, most + 1> children{};

    /// How many are smaller than the key, or not larger (`or_equal`).
    template <class Wanted>
    [[nodiscard]] std::size_t find(const Wanted& key, bool or_equal) const noexcept {
        std::size_t first = 0;
        std::size_t left = count.load(std::memory_order_acquire);
        left = left > most ? 0 : left;  // a torn state
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
        return children[i].node.load(std::memory_order_acquire);
    }
    void insert(std::size_t at, held_separator<Key> separator, index_node* behind) noexcept {
        const std::size_t old = count.load(std::memory_order_relaxed);
        for (std::size_t i = old; i > at; --i) {
            separators[i].set(separators[i - 1].raw());
            children[i + 1].set(children[i]);
        }
        separators[at].set(separator);
        children[at + 1].set(behind);
        count.store(static_cast<std::uint32_t>(old + 1), std::memory_order_release);
    }
    void remove(std::size_t at) noexcept {
        const std::size_t old = count.load(std::memory_order_relaxed);
        for (std::size_t i = at; i + 1 < old; ++i) {
            separators[i].set(separators[i + 1].raw());
            children[i + 1].set(children[i + 2]);
        }
        count.store(static_cast<std::uint32_t>(old - 1), std::memory_order_release);
    }
};

template <class Layout>
struct free_slots {
    std::array<std::uint64_t, (Layout::slots + 63) / 64> taken{};

    [[nodiscard]] bool is_taken(std::size_t slot) const noexcept { return (taken[slot / 64] >> (slot % 64) & 1U) != 0; }
    void take(std::size_t slot) noexcept { taken[slot / 64] |= std::uint64_t{1} << (slot % 64); }
    /// Layout::slots where none is free.
    [[nodiscard]] std::size_t slot_for(std::uint8_t print) const noexcept {
        const std::size_t likely = Layout::likely_cell(print) * Layout::per_cell;
        for (std::size_t slot = likely; slot < likely + Layout::per_cell; ++slot) {
            if (!is_taken(slot)) {
                return slot;
            }
        }
        for (std::size_t i = 0; i < taken.size(); ++i) {
            if (taken[i] != ~std::uint64_t{0}) {
                const std::size_t slot = i * 64 + static_cast<std::size_t>(std::countr_one(taken[i]));
                return std::min(slot, Layout::slots);
            }
        }
        return Layout::slots;
    }
    std::size_t take_for(std::uint8_t print) noexcept {
        const std::size_t slot = slot_for(print);
        take(slot);
        return slot;
    }
};

/// A leaf's place, and what finding a key in it needs. `cold`: not read since the open.
template <class Layout, class Range>
struct leaf_node : index_node, Range {
    static constexpr std::size_t print_words = (Layout::slots + 15) / 16 * 2;  // an even number
    static constexpr std::size_t bit_words = (Layout::slots + 63) / 64;

    leaf_node() noexcept : index_node(true) {}

    std::atomic<bool> cold{true};
    std::atomic<bool> ordered{false};  ///< `order` is right
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
    [[nodiscard]] free_slots<Layout> free() const noexcept {
        free_slots<Layout> all;
        for (std::size_t i = 0; i < bit_words; ++i) {
            all.taken[i] = live[i].load(std::memory_order_relaxed);
        }
        return all;
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
    /// Below Layout::slots even in a torn state.
    [[nodiscard]] std::size_t slot_of_rank(std::size_t rank) const noexcept {
        const std::size_t slot = byte(order, rank);
        return slot < Layout::slots ? slot : 0;
    }
    using slot_bits = std::array<std::uint64_t, bit_words>;
    [[nodiscard]] slot_bits live_with(std::uint8_t print) const noexcept {
        slot_bits found{};
        for (std::size_t i = 0; i < print_words; i += 2) {
            const std::uint64_t bits = equal_bytes(prints[i].load(std::memory_order_relaxed),
                                                   prints[i + 1].load(std::memory_order_relaxed), print);
            found[i / 8] |= bits << (i % 8 * 8);
        }
        for (std::size_t i = 0; i < bit_words; ++i) {
            found[i] &= live[i].load(std::memory_order_relaxed);
        }
        return found;
    }
    /// H with live entries alone.
    [[nodiscard]] std::uint64_t header_of(std::size_t cell) const noexcept {
        std::uint64_t header = 0;
        for (std::size_t i = 0; i < Layout::per_cell; ++i) {
            const std::size_t slot = cell * Layout::per_cell + i;
            if (is_live(slot)) {
                header = with_entry(header, i, print(slot));
            }
        }
        return header;
    }
    void forget() noexcept {
        cold.store(true, std::memory_order_relaxed);
        this->close();
        ordered.store(false, std::memory_order_relaxed);
        for (auto& each : live) {
            each.store(0, std::memory_order_relaxed);
        }
    }

private:
    using bytes = std::array<std::atomic<std::uint64_t>, print_words>;
    /// Bit i: byte i is `wanted`.
    [[nodiscard]] static std::uint64_t equal_bytes(std::uint64_t low, std::uint64_t high,
                                                   std::uint8_t wanted) noexcept {
        const std::uint64_t repeated = wanted * 0x0101'0101'0101'0101U;
#if defined(__SSE2__)
        using two_words = long long __attribute__((vector_size(16)));
        using sixteen_bytes = char __attribute__((vector_size(16)));
        const two_words prints_of = {static_cast<long long>(low), static_cast<long long>(high)};
        const two_words same = {static_cast<long long>(repeated), static_cast<long long>(repeated)};
        const auto equal = reinterpret_cast<sixteen_bytes>(prints_of) == reinterpret_cast<sixteen_bytes>(same);
        return static_cast<std::uint16_t>(__builtin_ia32_pmovmskb128(reinterpret_cast<sixteen_bytes>(equal)));
#else
        return zero_bytes(low ^ repeated) | zero_bytes(high ^ repeated) << 8U;
#endif
    }
    /// Bit i: byte i is 0.
    [[nodiscard]] static std::uint64_t zero_bytes(std::uint64_t word) noexcept {
        constexpr std::uint64_t low = 0x7f7f'7f7f'7f7f'7f7fU;
        const std::uint64_t top = ~(((word & low) + low) | word | low);  // bit 7 of exactly the bytes that are 0
        return (top >> 7U) * 0x0102'0408'1020'4080U >> 56U;
    }
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

/// What is given back is given out again, and freed with the pool alone. Thread-safe.
template <class Node>
class node_pool {
public:
    /// For so many calls of take(). Throws std::bad_alloc.
    void reserve(std::size_t count) {
        const std::lock_guard lock(mutex_);
        if (free_.size() < reserved_ + count) {
            const std::size_t made = std::max({std::size_t{64}, reserved_ + count, total_ / 4});
            chunks_.reserve(chunks_.size() + 1);
            free_.reserve(total_ + made);  // so that give() does not throw
            auto* const nodes = static_cast<Node*>(chunks_.emplace_back(made * sizeof(Node)).begin());
            std::uninitialized_default_construct_n(nodes, made);
            for (std::size_t i = made; i > 0; --i) {
                free_.push_back(nodes + i - 1);
            }
            total_ += made;
        }
        reserved_ += count;
    }
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
    static_assert(std::is_trivially_destructible_v<Node>);
    left_to_parent<std::vector<node_memory>> chunks_;
    left_to_parent<std::vector<Node*>> free_;
    std::size_t total_ = 0;
    std::size_t reserved_ = 0;
};

/// Gives unused reservations back.
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
