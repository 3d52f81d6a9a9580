// The FPTree (I. Oukid et al., SIGMOD 2016) whose entries lead to blocks of 128 bytes, over any persistent allocator:
// what PAllocator (VLDB 2017, 6.5: keys are strings) and PMAlloc (TOCS 2024, 8.5: pairs) measure their allocators by.
// An insertion allocates a block, a removal frees one. Leaves lie in the allocator's memory, inner nodes in DRAM.
//
// Threads: a lock for each 64th of the range of keys, where the paper has transactional memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "indexes/dram_map.hpp"
#include "support/random.hpp"

namespace fptree {

inline constexpr std::size_t block_bytes = 128;
inline constexpr std::size_t slots = 56;  ///< so that fingerprints and bitmap fill a line
inline constexpr std::size_t part_bits = 6;
inline constexpr std::size_t parts = std::size_t{1} << part_bits;

enum class kind {
    strings,  ///< a block is a key of 128 bytes, the entry has the value
    pairs,    ///< a block is a key and what belongs to it, the entry has the key
};

/// Key number n: drawn evenly, in the order of what it is drawn from.
struct key_of {
    explicit key_of(std::uint64_t number) : word(bench::mix(number)) {
        for (std::size_t i = 0; i < 16; ++i) {
            text[i] = "0123456789abcdef"[word >> (60 - 4 * i) & 15U];
        }
        std::memset(text.data() + 16, 'k', block_bytes - 16);
    }
    [[nodiscard]] std::size_t part() const noexcept { return word >> (64 - part_bits); }

    std::uint64_t word;
    std::array<char, block_bytes> text;
};

/// One thread at a time, unless it is said otherwise. `link<T>` leads to a T in the memory; zero bytes lead nowhere.
template <class Memory>
concept tree_memory =
    requires(Memory memory, typename Memory::template link<std::byte>& link,
             const typename Memory::template link<std::byte>& other, std::size_t bytes, const void* place) {
        /// Durably, the link with the block, and by any number of threads.
        memory.allocate(link, bytes);
        memory.release(link);
        { memory.target(other) } -> std::same_as<std::byte*>;
        memory.assign(link, other);
        memory.clear(link);
        /// Written back and fenced.
        memory.persist(place, bytes);
    };

template <class Memory>
struct leaf;
template <class Memory>
struct entry {
    typename Memory::template link<std::byte> block{};
    std::uint64_t word = 0;  ///< of strings the value, of pairs the key
};
template <class Memory>
struct leaf {
    std::array<std::uint8_t, slots> prints{};
    std::uint64_t bitmap = 0;
    std::array<entry<Memory>, slots> entries{};
    typename Memory::template link<leaf> next{};
};
template <class Memory>
struct tree_root {
    typename Memory::template link<leaf<Memory>> first{};
    typename Memory::template link<leaf<Memory>> split{};  ///< the micro log: the leaf that is split
    typename Memory::template link<leaf<Memory>> made{};   ///< and the new one
};

/// Of one part of the range of keys.
template <class Memory, kind Kind>
class tree_part {
public:
    void open(Memory& memory, tree_root<Memory>& root) {
        memory_ = &memory;
        root_ = &root;
        inner_.emplace(separator{}, make_leaf(root.first));
    }
    bool insert(const key_of& key, std::uint64_t value) {
        const std::lock_guard held(lock_);
        leaf<Memory>* to = leaf_of(key);
        if (slot_of(*to, key) != slots) {
            return false;
        }
        if (std::popcount(to->bitmap) == slots) {
            split(*to);
            to = leaf_of(key);
        }
        const auto slot = static_cast<std::size_t>(std::countr_one(to->bitmap));
        entry<Memory>& made = to->entries[slot];
        memory_->allocate(made.block, block_bytes);
        std::byte* const block = memory_->target(made.block);
        if constexpr (Kind == kind::strings) {
            std::memcpy(block, key.text.data(), block_bytes);
            made.word = value;
        } else {
            std::memset(block, 'p', block_bytes);
            std::memcpy(block, &key.word, sizeof key.word);
            std::memcpy(block + sizeof key.word, &value, sizeof value);
            made.word = key.word;
        }
        memory_->persist(block, block_bytes);
        memory_->persist(&made.word, sizeof made.word);
        to->prints[slot] = print_of(key);
        memory_->persist(&to->prints[slot], 1);
        to->bitmap |= std::uint64_t{1} << slot;
        memory_->persist(&to->bitmap, sizeof to->bitmap);
        return true;
    }
    bool remove(const key_of& key) {
        const std::lock_guard held(lock_);
        leaf<Memory>* const from = leaf_of(key);
        const std::size_t slot = slot_of(*from, key);
        if (slot == slots) {
            return false;
        }
        from->bitmap &= ~(std::uint64_t{1} << slot);
        memory_->persist(&from->bitmap, sizeof from->bitmap);
        memory_->release(from->entries[slot].block);
        return true;
    }
    /// 0 where the key is not there: no value is 0.
    [[nodiscard]] std::uint64_t find(const key_of& key) {
        const std::lock_guard held(lock_);
        const leaf<Memory>* const in = leaf_of(key);
        const std::size_t slot = slot_of(*in, key);
        if (slot == slots) {
            return 0;
        }
        std::uint64_t value = in->entries[slot].word;
        if constexpr (Kind == kind::pairs) {
            std::memcpy(&value, memory_->target(in->entries[slot].block) + sizeof key.word, sizeof value);
        }
        return value;
    }
    [[nodiscard]] std::uint64_t count() const {
        std::uint64_t found = 0;
        for (const auto& [low, each] : inner_) {
            found += static_cast<std::uint64_t>(std::popcount(each->bitmap));
        }
        return found;
    }

private:
    /// Of inner nodes; the empty one is before all keys.
    using separator = std::conditional_t<Kind == kind::strings, std::array<char, block_bytes>, std::uint64_t>;

    static const separator& separator_of(const key_of& key) {
        if constexpr (Kind == kind::strings) {
            return key.text;
        } else {
            return key.word;
        }
    }
    [[nodiscard]] separator separator_of(const entry<Memory>& of) const {
        if constexpr (Kind == kind::strings) {
            separator text;
            std::memcpy(text.data(), memory_->target(of.block), block_bytes);
            return text;
        } else {
            return of.word;
        }
    }
    [[nodiscard]] static std::uint8_t print_of(const key_of& key) noexcept {
        return static_cast<std::uint8_t>(bench::mix(key.word));
    }
    [[nodiscard]] leaf<Memory>* leaf_of(const key_of& key) const {
        return std::prev(inner_.upper_bound(separator_of(key)))->second;
    }
    [[nodiscard]] bool is_equal(const entry<Memory>& one, const key_of& key) const {
        if constexpr (Kind == kind::strings) {
            return std::memcmp(memory_->target(one.block), key.text.data(), block_bytes) == 0;
        } else {
            return one.word == key.word;
        }
    }
    [[nodiscard]] std::size_t slot_of(const leaf<Memory>& in, const key_of& key) const {
        const std::uint8_t print = print_of(key);
        for (std::uint64_t bits = in.bitmap; bits != 0; bits &= bits - 1) {
            const auto slot = static_cast<std::size_t>(std::countr_zero(bits));
            if (in.prints[slot] == print && is_equal(in.entries[slot], key)) {
                return slot;
            }
        }
        return slots;
    }
    leaf<Memory>* make_leaf(typename Memory::template link<leaf<Memory>>& destination) {
        memory_->allocate(destination, sizeof(leaf<Memory>));
        leaf<Memory>* const made = ::new (static_cast<void*>(memory_->target(destination))) leaf<Memory>();
        memory_->persist(made, sizeof *made);
        return made;
    }
    void split(leaf<Memory>& full) {
        memory_->lead_to(root_->split, &full);
        memory_->persist(&root_->split, sizeof root_->split);
        leaf<Memory>* const made = make_leaf(root_->made);
        std::array<separator, slots> keys;
        std::transform(full.entries.begin(), full.entries.end(), keys.begin(),
                       [this](const entry<Memory>& each) { return separator_of(each); });
        std::array<separator, slots> sorted = keys;
        std::nth_element(sorted.begin(), sorted.begin() + slots / 2, sorted.end());
        const separator& middle = sorted[slots / 2];
        std::uint64_t upper = 0;
        for (std::size_t i = 0; i < slots; ++i) {
            if (keys[i] >= middle) {
                upper |= std::uint64_t{1} << i;
                memory_->assign(made->entries[i].block, full.entries[i].block);
                made->entries[i].word = full.entries[i].word;
                made->prints[i] = full.prints[i];
            }
        }
        memory_->assign(made->next, full.next);
        made->bitmap = upper;
        memory_->persist(made, sizeof *made);
        full.bitmap &= ~upper;
        memory_->persist(&full.bitmap, sizeof full.bitmap);
        for (std::uint64_t bits = upper; bits != 0; bits &= bits - 1) {
            memory_->clear(full.entries[static_cast<std::size_t>(std::countr_zero(bits))].block);
        }
        memory_->assign(full.next, root_->made);
        memory_->persist(&full.entries, sizeof full - offsetof(leaf<Memory>, entries));
        memory_->clear(root_->made);
        memory_->clear(root_->split);
        memory_->persist(root_, sizeof *root_);
        inner_.emplace(middle, made);
    }

    std::mutex lock_;
    Memory* memory_ = nullptr;
    tree_root<Memory>* root_ = nullptr;
    indexes::dram_map<separator, leaf<Memory>*> inner_;
};

/// Thread-safe but for its end.
template <class Memory, kind Kind>
class tree {
public:
    explicit tree(Memory& memory) {
        auto* const roots = memory.template make_roots<tree_root<Memory>>(parts);
        for (std::size_t i = 0; i < parts; ++i) {
            parts_[i].open(memory, roots[i]);
        }
    }
    bool insert(std::uint64_t number) {
        const key_of key(number);
        return parts_[key.part()].insert(key, number);
    }
    bool remove(std::uint64_t number) {
        const key_of key(number);
        return parts_[key.part()].remove(key);
    }
    [[nodiscard]] std::uint64_t find(std::uint64_t number) {
        const key_of key(number);
        return parts_[key.part()].find(key);
    }
    [[nodiscard]] std::uint64_t count() const {
        std::uint64_t found = 0;
        for (const auto& each : parts_) {
            found += each.count();
        }
        return found;
    }

private:
    std::array<tree_part<Memory, Kind>, parts> parts_;
};

}  // namespace fptree
