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

#include <holdfast/detail/index_open.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_load : public index_open<Key, Value, Order> {
    using base = index_open<Key, Value, Order>;

public:
    using base::base;
    using typename base::image;
    using typename base::key_words;
    using typename base::layout;
    using typename base::tree;

protected:
    ~index_load() = default;

    /// Into an empty index. Where it throws, the index is empty.
    template <class Source>
    void load(Source&& source) {
        this->refuse_read_only();
        this->free_left_overs();
        std::uint64_t* last = nullptr;  // of those made so far; head.cleared leads to the first
        try {
            while (add_leaves(last, source)) {
            }
        } catch (...) {
            this->free_or_leave();
            throw;
        }
        if (last == nullptr) {
            return;
        }
        std::uint64_t* const begin = base::target(&this->head_.cleared);
        tree loaded{};
        try {
            loaded = this->tree_of(begin);
            this->link(begin, last);
        } catch (...) {
            if (loaded.root != nullptr) {
                this->give_back_all(loaded.root);
            }
            this->free_or_leave();
            throw;
        }
        this->forget_nodes();
        this->use(std::move(loaded));
        this->free_or_leave();
    }

private:
    /// In one transaction. False after the last entry.
    template <class Source>
    [[nodiscard]] bool add_leaves(std::uint64_t*& last, Source& source) {
        constexpr std::size_t at_a_time = base::has_blocks ? 1 : 16;
        transaction tx(this->heap_);
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
            base::put_low(tx, made, words, source.low_bound(entry.first));
        }
        free_slots<layout> places;
        std::size_t count = 0;
        do {
            this->refuse_long(entry.first);
            this->refuse_long(entry.second);
            const std::uint8_t print = fingerprint<Key>(entry.first);
            const std::size_t slot = places.take_for(print);
            put_field(tx, made, words, slot, 0, entry.first);
            put_field(tx, made, words, slot, key_words::words, entry.second);
            base::set_entry(made.data(), slot, print);
        } while (++count < most && source.next(entry));
        std::memcpy(words, made.data(), sizeof made);
        append(tx, before, last, words);
        return true;
    }
    void append(transaction& tx, const std::uint64_t* before, std::uint64_t*& last, std::uint64_t* words) {
        std::uint64_t& link = last == nullptr ? this->head_.cleared : last[leaf_next];
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
            made[at] = word_of_target(to + at, base::make_text(tx, value));
        } else {
            const auto encoded = index_words<T>::encode(value);
            for (std::size_t i = 0; i < encoded.size(); ++i) {
                made[layout::word_of(slot, from + i)] = encoded[i];
            }
        }
    }
};

}  // namespace holdfast::detail
