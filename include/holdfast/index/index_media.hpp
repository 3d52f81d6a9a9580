// An index on media: its head, its leaves, and what reads and checks their words. Leaves of an index are chained
// (leaf_chain.hpp); the inner nodes, which lead to them, are in DRAM alone (inner_tree.hpp).
//
// Invariants of the media, which check() looks at:
//   IDX-1: from head.first on, `next` leads through all leaves; their low keys ascend, and the first has none.
//   IDX-2: a word H has bits of entries alone, and fingerprints of entries that are there alone.
//   IDX-3: no key of a leaf is smaller than its low key.
//   IDX-4: the fingerprint of an entry is that of its key.
//   IDX-5: no key is twice among the live entries of a leaf.
//   IDX-6: a key or value of any length lies in an allocated block that holds it, and no two entries share a block.
//   IDX-9: the lists head.cleared and head.retired end, and have no leaf of the chain.
// Of DRAM:
//   IDX-7: a leaf_node that is not cold has the live entries of its leaf, and their fingerprints.
//   IDX-8: the inner nodes lead to the leaves in the order of the chain, and part them by their low keys.
//
//
// Locks. A leaf's words on media change under the lock of its leaf_node, but `previous` under that of the leaf before.
// Inner nodes change under the mutex of inner_tree and their own locks. A thread that has a leaf's lock may wait for
// that mutex, then for that of the retired leaves; one that has the mutex of inner_tree only tries leaves' locks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <holdfast/index/index_format.hpp>
#include <holdfast/index/index_nodes.hpp>
#include <holdfast/index/index_order.hpp>
#include <holdfast/index/index_support.hpp>
#include <holdfast/index/index_words.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast::detail {

/// The types of an index, and what reads the words of its leaves.
template <class Key, class Value, class Order>
struct index_types {
    using key_words = index_words<Key>;
    using value_words = index_words<Value>;
    using bound = typename Order::bound;
    using bound_words = index_words<bound>;
    using layout = leaf_layout<key_words::words, value_words::words, bound_words::words>;
    using inner = inner_node<bound>;
    using leaf = leaf_node<layout, typename Order::range>;
    using owned_key = typename key_words::owned;
    using owned_value = typename value_words::owned;
    using separator = held_separator<bound>;

    static constexpr bool has_blocks = key_words::is_block || value_words::is_block;
    static constexpr bool text_keys = key_words::is_block;
    static constexpr bool text_bounds = bound_words::is_block;
    static constexpr index_shape shape{key_words::words, value_words::words, key_words::is_block, value_words::is_block,
                                       key_words::bytes, value_words::bytes, Order::by_hash};
    using image = std::array<std::uint64_t, layout::words>;  ///< of a leaf

    [[nodiscard]] static Key key_at(const std::uint64_t* words, std::size_t slot) noexcept {
        if constexpr (text_keys) {
            return text_at(words + layout::word_of(slot, 0));
        } else {
            typename key_words::array from;
            for (std::size_t i = 0; i < from.size(); ++i) {
                from[i] = load_word(words + layout::word_of(slot, i));
            }
            return key_words::decode(from);
        }
    }
    [[nodiscard]] static Value value_at(const std::uint64_t* words, std::size_t slot) noexcept {
        if constexpr (value_words::is_block) {
            return text_at(words + layout::word_of(slot, key_words::words));
        } else {
            typename value_words::array from;
            for (std::size_t i = 0; i < from.size(); ++i) {
                from[i] = load_word(words + layout::word_of(slot, key_words::words + i));
            }
            return value_words::decode(from);
        }
    }
    [[nodiscard]] static std::uint64_t header_at(const std::uint64_t* words, std::size_t slot) noexcept {
        return load_word(words + layout::header_of(layout::cell_of(slot)));
    }
    [[nodiscard]] static std::uint64_t* next_of(const std::uint64_t* words) noexcept {
        return target(words + leaf_next);
    }
    [[nodiscard]] static bool has_low(const std::uint64_t* words) noexcept {
        return (load_word(words + leaf_kind) & leaf_has_low) != 0;
    }
    [[nodiscard]] static bound low_of(const std::uint64_t* words) noexcept {
        if constexpr (text_bounds) {
            return text_at(words + leaf_low);
        } else {
            return bound_words::load(words + leaf_low);
        }
    }
    [[nodiscard]] static std::uint64_t* target(const std::uint64_t* place) noexcept {
        return reinterpret_cast<std::uint64_t*>(target_of_word(place, load_word(place)));
    }
    [[nodiscard]] static const index_text_on_media* block_at(const std::uint64_t* place) noexcept {
        return reinterpret_cast<const index_text_on_media*>(target(place));
    }
    /// The word was checked, or written by this process.
    [[nodiscard]] static std::string_view text_at(const std::uint64_t* place) noexcept {
        const index_text_on_media* const block = block_at(place);
        return {reinterpret_cast<const char*>(block) + index_text_header, block->length};
    }

    // IDX-2.
    [[nodiscard]] static bool is_header(std::uint64_t header) noexcept {
        constexpr std::uint64_t bits = (std::uint64_t{1} << layout::per_cell) - 1;
        std::uint64_t allowed = header & bits;
        for (std::size_t i = 0; i < layout::per_cell; ++i) {
            if (has_entry(header, i)) {
                allowed |= std::uint64_t{0xff} << (8 * (i + 1));
            }
        }
        return (header & ~allowed) == 0;
    }
    /// layout::slots where there is none.
    [[nodiscard]] static std::size_t find_slot(const leaf& of, const Key& key, std::uint8_t print) noexcept {
        const std::uint64_t* const words = of.media();
        const auto candidates = of.live_with(print);
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            for (std::uint64_t found = candidates[i]; found != 0; found &= found - 1) {
                const std::size_t slot = 64 * i + static_cast<std::size_t>(std::countr_zero(found));
                if (equal_keys(key_at(words, slot), key)) {
                    return slot;
                }
            }
        }
        return layout::slots;
    }
    static void prefetch_words(const std::uint64_t* words) noexcept {
        constexpr std::size_t line = 8;
        for (std::size_t i = 0; i < layout::words; i += line) {
            __builtin_prefetch(words + i);
        }
    }
    [[nodiscard]] static std::uint64_t* make_empty_leaf(transaction& tx) {
        auto* const made = static_cast<std::uint64_t*>(tx.allocate(layout::bytes));
        std::memset(made, 0, layout::bytes);
        made[leaf_kind] = index_leaf_magic;
        return made;
    }
    static void set_entry(std::uint64_t* image_words, std::size_t slot, std::uint8_t print) noexcept {
        std::uint64_t& header = image_words[layout::header_of(layout::cell_of(slot))];
        header = with_entry(header, layout::entry_of(slot), print);
    }
};

/// An open index's heap and head, and what is checked of its words when they are read.
template <class Key, class Value, class Order>
class index_media {
public:
    using types = index_types<Key, Value, Order>;
    using bound = typename types::bound;
    using key_words = typename types::key_words;
    using value_words = typename types::value_words;
    using layout = typename types::layout;
    using leaf = typename types::leaf;

    /// Makes the first leaf of a new index. Throws error(corrupt), also where the shape is that of another index.
    index_media(manager& heap, std::string_view name, index_head_on_media& head)
        : heap_(heap),
          life_(watch_of(heap)),
          name_(name),
          head_(head),
          in_order_(heap.durability() == durability::collect),
          waits_for_disk_(heap.durability() == durability::atomic && heap.domain() == "disk") {
        if (head.magic != index_magic) {
            corrupt("magic of the head", hexadecimal(head.magic), hexadecimal(index_magic));
        }
        if (head.shape == 0 && !heap.read_only()) {
            make_first_leaf();
        }
        order_ = Order(checked_seed());
    }
    index_media(const index_media&) = delete;
    index_media& operator=(const index_media&) = delete;

    [[nodiscard]] manager& heap() const noexcept { return heap_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] index_head_on_media& head() const noexcept { return head_; }
    [[nodiscard]] const Order& order() const noexcept { return order_; }
    /// In durability `collect` a kill leaves any prefix of a transaction's stores.
    [[nodiscard]] bool in_order() const noexcept { return in_order_; }

    /// A transaction returns when the disk has its record.
    [[nodiscard]] bool waits_for_disk() const noexcept { return waits_for_disk_; }

    /// Throws error(corrupt).
    [[noreturn]] void corrupt(std::string_view field, std::string_view found, std::string_view expected) const {
        throw_corrupt_index(heap_, name_, field, found, expected);
    }
    /// The leaf that a word leads to; null for null.
    [[nodiscard]] std::uint64_t* checked_leaf(const std::uint64_t* place) const {
        std::uint64_t* const found = types::target(place);
        if (found == nullptr) {
            return nullptr;
        }
        if (room_at(found) < layout::bytes || (load_word(found + leaf_kind) & ~leaf_has_low) != index_leaf_magic)
            [[unlikely]] {
            corrupt("IDX-1, a pointer to a leaf", address_text(heap_, found), "a leaf");
        }
        if constexpr (types::text_bounds) {
            if (types::has_low(found)) {
                check_text(found + leaf_low);
            }
        }
        return found;
    }
    /// Bytes of its allocated block; 0 where none begins there.
    [[nodiscard]] std::uint64_t room_at(const void* block) const {
        try {
            return block == nullptr ? 0 : heap_.usable_size(block);
        } catch (const error& /*no block*/) {
            return 0;
        }
    }
    void check_text(const std::uint64_t* place) const {
        const index_text_on_media* const block = types::block_at(place);
        const std::uint64_t room = room_at(block);
        if (room < index_text_header || block->length > room - index_text_header) {
            corrupt("IDX-6, a pointer to a text", address_text(heap_, block), "a block that holds it");
        }
    }
    /// Under the leaf's lock. Returns whether entries have moved away.
    bool warm(leaf& of) const {
        bool has_dead = false;
        const std::uint64_t* const words = of.media();
        const std::uint64_t* const next = checked_leaf(words + leaf_next);
        std::array<std::uint64_t, leaf::bit_words> live{};
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            const std::uint64_t header = types::header_at(words, slot);
            const std::size_t entry = layout::entry_of(slot);
            if (entry == 0 && !types::is_header(header)) {
                corrupt("IDX-2, a cell", hexadecimal(header), "bits and fingerprints of its entries");
            }
            if (!has_entry(header, entry)) {
                continue;
            }
            if constexpr (types::text_keys) {
                check_text(words + layout::word_of(slot, 0));
            }
            const Key key = types::key_at(words, slot);
            const bound place = order_.bound_of(key);
            if (types::has_low(words) && place < types::low_of(words)) {
                corrupt("IDX-3, a key of a leaf", "one below its low key", "none");
            }
            if (next != nullptr && !(place < types::low_of(next))) {
                has_dead = true;
                continue;
            }
            if (print_of(header, entry) != fingerprint<Key>(key)) {
                corrupt("IDX-4, a fingerprint", hexadecimal(print_of(header, entry)), "that of its key");
            }
            if constexpr (value_words::is_block) {
                check_text(words + layout::word_of(slot, key_words::words));
            }
            live[slot / 64] |= std::uint64_t{1} << (slot % 64);
            of.set_print(slot, print_of(header, entry));
        }
        for (std::size_t i = 0; i < live.size(); ++i) {
            of.live[i].store(live[i], std::memory_order_relaxed);
        }
        of.ordered.store(false, std::memory_order_relaxed);
        of.cold.store(false, std::memory_order_release);
        return has_dead;
    }
    void refuse_closed() const {
        if (!life_.goes_on()) [[unlikely]] {
            throw_closed_index(name_);
        }
    }
    void refuse_read_only() const {
        refuse_closed();
        if (heap_.read_only()) [[unlikely]] {
            throw_read_only_index(heap_, name_);
        }
    }

    struct slots_in_order {
        std::array<std::uint8_t, layout::slots> slot;
        std::size_t count = 0;
    };
    /// Under the leaf's lock.
    [[nodiscard]] slots_in_order sort_live(const leaf& of) const {
        struct entry {
            bound place;
            std::uint8_t slot;
        };
        std::array<entry, layout::slots> entries;
        const std::uint64_t* const words = of.media();
        slots_in_order sorted;
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            if (of.is_live(slot)) {
                entries[sorted.count++] = {bound_at(words, slot), static_cast<std::uint8_t>(slot)};
            }
        }
        std::sort(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(sorted.count),
                  [](const entry& a, const entry& b) { return a.place < b.place; });
        for (std::size_t i = 0; i < sorted.count; ++i) {
            sorted.slot[i] = entries[i].slot;
        }
        return sorted;
    }
    void put_in_order(leaf& of) const {
        const slots_in_order sorted = sort_live(of);
        for (std::size_t i = 0; i < sorted.count; ++i) {
            of.set_order(i, sorted.slot[i]);
        }
        of.ordered.store(true, std::memory_order_relaxed);
    }
    [[nodiscard]] bound bound_at(const std::uint64_t* words, std::size_t slot) const noexcept {
        return order_.bound_of(types::key_at(words, slot));
    }
    template <class T>
    void refuse_long(const T& value) const {
        if constexpr (is_index_text<T>) {
            if (value.size() > longest_index_text) {
                throw_index_argument(heap_, "bytes of a key or value", std::to_string(value.size()),
                                     "at most " + std::to_string(longest_index_text));
            }
        }
    }

private:
    void make_first_leaf() {
        index_head_on_media& head = head_;
        transaction tx(heap_);
        std::uint64_t* const made = types::make_empty_leaf(tx);
        tx.store(head.first, word_of_target(&head.first, made));
        tx.store(head.last, word_of_target(&head.last, made));
        std::uint64_t word = encode(types::shape);
        if constexpr (Order::by_hash) {
            const std::uint64_t seed = head.seed != 0 ? head.seed : random_index_seed();
            tx.store(head.seed, seed);
            word = with_seed(word, seed);
        }
        if (!in_order_) {
            tx.store(head.shape, word);
            tx.commit();
            return;
        }
        tx.commit();  // comes last: a kill may leave any prefix of the stores
        const word_run run{&head.shape, {&word, 1}};
        heap_.store_words({&run, 1});
    }
    /// Of the hash.
    [[nodiscard]] std::uint64_t checked_seed() const {
        const std::uint64_t found = head_.shape;
        const bool has_seed = Order::by_hash && (found & index_has_seed) != 0;
        const std::uint64_t seed = has_seed ? head_.seed : 0;
        const std::uint64_t expected = has_seed ? with_seed(encode(types::shape), seed) : encode(types::shape);
        if (found != expected && found != 0) {  // 0: there is none, and the heap is open read-only
            corrupt("shape of the head", hexadecimal(found), hexadecimal(expected));
        }
        return seed;
    }

    manager& heap_;
    heap_watch life_;  ///< of heap_, which may be gone
    std::string name_;
    index_head_on_media& head_;
    Order order_;
    bool in_order_;
    bool waits_for_disk_;
};

}  // namespace holdfast::detail
