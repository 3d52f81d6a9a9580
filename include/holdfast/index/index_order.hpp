// What orders the leaves of an index: the keys of an ordered_index, or hashes of the keys of a hash_index.
//
//   bound          what parts two leaves: a leaf has the keys whose bounds are not below its low bound
//   range          what a leaf_node knows of its bounds
//   directory      the short way to a leaf
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <holdfast/index/index_nodes.hpp>
#include <holdfast/hash.hpp>

namespace holdfast::detail {

template <class Key>
struct order_of_keys {
    using bound = Key;
    static constexpr bool by_hash = false;
    order_of_keys() = default;
    explicit order_of_keys(std::uint64_t /*seed*/) noexcept {}
    [[nodiscard]] const Key& bound_of(const Key& key) const noexcept { return key; }

    struct range {
        void close() noexcept {}
    };
    struct directory {
        struct prepared {};
        [[nodiscard]] prepared prepare(std::size_t /*leaves*/) const noexcept { return {}; }
        void use(prepared /*made*/) noexcept {}
        [[nodiscard]] std::size_t bytes() const noexcept { return 0; }
    };
};

/// A leaf's hashes, `first` to `last`. It changes under the leaf's lock.
class hash_range {
public:
    [[nodiscard]] bool contains(std::uint64_t hash) const noexcept {
        return hash >= first() && hash <= last_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t first() const noexcept { return first_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t last() const noexcept { return last_.load(std::memory_order_relaxed); }
    void set(std::uint64_t first, std::uint64_t last) noexcept {
        first_.store(first, std::memory_order_relaxed);
        last_.store(last, std::memory_order_relaxed);
    }
    void close() noexcept { set(1, 0); }

private:
    std::atomic<std::uint64_t> first_{1};
    std::atomic<std::uint64_t> last_{0};
};

/// The directory of extendible hashing: the first bits of a hash lead to the leaf. It holds what look-ups have found,
/// so an entry may be missing or out of date: the leaf's range decides. It doubles with the leaves. Readers may look at
/// smaller tables, which stay until the next use() and together take no more memory than the last one.
///
/// Thread safety: entry(), note() and bytes() by any number of threads; grow() by one at a time; use() alone.
class hash_directory {
public:
    struct table {
        explicit table(unsigned of)
            : bits(of), memory(sizeof(child_link) << of), links(static_cast<child_link*>(memory.begin())) {
            std::uninitialized_value_construct_n(links, std::size_t{1} << of);
        }
        unsigned bits;
        node_memory memory;
        child_link* links;
    };
    using prepared = std::unique_ptr<table>;

    /// For so many leaves. Throws std::bad_alloc.
    [[nodiscard]] prepared prepare(std::size_t leaves) {
        tables_.reserve(1);
        return std::make_unique<table>(bits_for(leaves));
    }
    void use(prepared made) noexcept {
        now_.store(nullptr, std::memory_order_relaxed);
        tables_.clear();
        bytes_.store(sizeof(child_link) << made->bits, std::memory_order_relaxed);
        tables_.push_back(std::move(made));  // room is reserved
        now_.store(tables_.back().get(), std::memory_order_release);
    }
    /// Without memory it stays as it is.
    void grow(std::size_t leaves) noexcept {
        const table& old = *now_.load(std::memory_order_relaxed);
        const unsigned bits = bits_for(leaves);
        if (bits <= old.bits + 1) {
            return;
        }
        try {
            add(bits);
        } catch (const std::bad_alloc& /*slower*/) {
        }
    }
    [[nodiscard]] const child_link& entry(std::uint64_t hash) const noexcept {
        const table& in = *now_.load(std::memory_order_acquire);
        return in.links[hash >> (64 - in.bits)];
    }
    /// If the leaf has all hashes of that entry.
    void note(std::uint64_t hash, index_node* leaf, std::uint64_t first, std::uint64_t last) noexcept {
        const table& in = *now_.load(std::memory_order_acquire);
        const unsigned shift = 64 - in.bits;
        const std::uint64_t begin = hash >> shift << shift;
        const std::uint64_t end = begin | ((std::uint64_t{1} << shift) - 1);
        if (begin >= first && end <= last) {
            in.links[hash >> shift].set(leaf);
        }
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

private:
    /// Four to eight entries a leaf.
    [[nodiscard]] static unsigned bits_for(std::size_t leaves) noexcept {
        return static_cast<unsigned>(std::bit_width(leaves)) + 2;
    }
    void add(unsigned bits) {
        auto made = std::make_unique<table>(bits);
        if (const table* const old = now_.load(std::memory_order_relaxed); old != nullptr) {
            for (std::size_t i = 0; i < std::size_t{1} << bits; ++i) {
                made->links[i].set(old->links[i >> (bits - old->bits)]);
            }
        }
        tables_.push_back(std::move(made));
        bytes_.fetch_add(sizeof(child_link) << bits, std::memory_order_relaxed);
        now_.store(tables_.back().get(), std::memory_order_release);
    }

    std::atomic<const table*> now_{nullptr};
    left_to_parent<std::vector<std::unique_ptr<table>>> tables_;
    std::atomic<std::size_t> bytes_{0};
};

template <class Key>
class order_of_hashes {
public:
    using bound = std::uint64_t;
    static constexpr bool by_hash = true;
    order_of_hashes() = default;
    /// 0: no secret, as in older indexes.
    explicit order_of_hashes(std::uint64_t seed) noexcept
        : first_(hash_first ^ hash_mix(seed, hash_second)), second_(hash_second ^ hash_mix(seed, hash_first)) {}
    /// On media, so it never changes. Its bits are not those of the fingerprint.
    [[nodiscard]] std::uint64_t bound_of(const Key& key) const noexcept {
        if constexpr (is_index_text<Key>) {
            return hash_mix(hash_bytes(key.data(), key.size(), first_, second_) ^ first_, second_);
        } else if constexpr (index_words<Key>::words == 1) {
            return hash_mix(index_words<Key>::encode(key)[0] ^ first_, second_);
        } else {
            const auto words = index_words<Key>::encode(key);
            return hash_mix(hash_bytes(words.data(), sizeof words, first_, second_) ^ first_, second_);
        }
    }
    using range = hash_range;
    using directory = hash_directory;

private:
    std::uint64_t first_ = hash_first;
    std::uint64_t second_ = hash_second;
};

}  // namespace holdfast::detail
