// bulk_load(): leaves are made beside an index and become it in one step.
//
// A source (index_sources.hpp) gives the entries in the order of their bounds, and says where leaves end:
//   leaf_takes()       how many entries the next leaf takes at most; 0: none is left
//   next(entry)        the next one, valid until the following call; false after the last
//   low_bound(key)     of a leaf that begins with this key
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <holdfast/index/leaf_chain.hpp>

namespace holdfast::detail {

/// Makes leaves, to which head.cleared leads until they are the index.
template <class Key, class Value, class Order>
class chain_load {
    using types = index_types<Key, Value, Order>;
    using image = typename types::image;
    using key_words = typename types::key_words;
    using layout = typename types::layout;

public:
    explicit chain_load(const leaf_chain<Key, Value, Order>& chain) : media_(chain.media()) {}

    /// The last leaf, or null where the source has no entries.
    template <class Source>
    [[nodiscard]] std::uint64_t* append_all(Source& source) {
        std::uint64_t* last = nullptr;
        while (add_leaves(last, source)) {
        }
        return last;
    }

private:
    /// In one transaction. False after the last entry.
    template <class Source>
    [[nodiscard]] bool add_leaves(std::uint64_t*& last, Source& source) {
        constexpr std::size_t at_a_time = types::has_blocks ? 1 : 16;
        transaction tx(media_.heap());
        std::uint64_t* made = last;
        bool more = true;
        for (std::size_t i = 0; i < at_a_time && more; ++i) {
            more = add_leaf(tx, last, made, source);
        }
        tx.commit();
        last = made;
        return more;
    }
    /// `before`: `last` before the transaction. False after the last entry.
    template <class Source>
    [[nodiscard]] bool add_leaf(transaction& tx, const std::uint64_t* before, std::uint64_t*& last, Source& source) {
        const std::size_t most = source.leaf_takes();
        std::pair<Key, Value> entry;
        if (most == 0 || !source.next(entry)) {
            return false;
        }
        auto* const words = static_cast<std::uint64_t*>(tx.allocate(layout::bytes));
        image made;
        made.fill(0);
        made[leaf_kind] = index_leaf_magic;
        if (last != nullptr) {
            made[leaf_kind] |= leaf_has_low;
            made[leaf_previous] = word_of_target(words + leaf_previous, last);
            leaf_chain<Key, Value, Order>::put_low(tx, made, words, source.low_bound(entry.first));
        }
        free_slots<layout> places;
        std::size_t count = 0;
        do {
            media_.refuse_long(entry.first);
            media_.refuse_long(entry.second);
            const std::uint8_t print = fingerprint<Key>(entry.first);
            const std::size_t slot = places.take_for(print);
            put_field(tx, made, words, slot, 0, entry.first);
            put_field(tx, made, words, slot, key_words::words, entry.second);
            types::set_entry(made.data(), slot, print);
        } while (++count < most && source.next(entry));
        std::memcpy(words, made.data(), sizeof made);
        append(tx, before, last, words);
        return true;
    }
    void append(transaction& tx, const std::uint64_t* before, std::uint64_t*& last, std::uint64_t* words) {
        std::uint64_t& link = last == nullptr ? media_.head().cleared : last[leaf_next];
        if (last == before) {
            tx.store(link, word_of_target(&link, words));
        } else {
            link = word_of_target(&link, words);  // in a block of this transaction
        }
        last = words;
    }
    template <class T>
    static void put_field(transaction& tx, image& made, const std::uint64_t* to, std::size_t slot, std::size_t from,
                          const T& value) {
        if constexpr (is_index_text<T>) {
            const std::size_t at = layout::word_of(slot, from);
            made[at] = word_of_target(to + at, make_text(tx, value));
        } else {
            const auto encoded = index_words<T>::encode(value);
            for (std::size_t i = 0; i < encoded.size(); ++i) {
                made[layout::word_of(slot, from + i)] = encoded[i];
            }
        }
    }

    const index_media<Key, Value, Order>& media_;
};

}  // namespace holdfast::detail
