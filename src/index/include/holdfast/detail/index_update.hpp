// Changes of entries: one record and one fence in durability `atomic` if key and value have one word each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>

#include <holdfast/detail/index_structure.hpp>

namespace holdfast::detail {

enum class put_mode : std::uint8_t { insert, update, upsert };

template <class Key, class Value, class Order>
class index_update : public index_structure<Key, Value, Order> {
    using base = index_structure<Key, Value, Order>;

public:
    using base::base;
    using typename base::key_words;
    using typename base::layout;
    using typename base::leaf;
    using typename base::value_words;

    /// Whether the key was there.
    bool put(const Key& key, const Value& value, put_mode mode) {
        this->refuse_read_only();
        refuse_long(key);
        refuse_long(value);
        const typename base::section inside(this->grace_);
        const std::uint8_t print = fingerprint<Key>(key);
        for (;;) {
            const auto at = this->descend_to(key, print);
            if (!this->is_warm(at) || !at.node->lock.lock_if(at.version)) {
                continue;
            }
            const write_hold hold(at.node->lock);
            const std::size_t found = base::find_slot(*at.node, key, print);
            if (found != layout::slots) {
                if (mode != put_mode::insert) {
                    replace(*at.node, found, value);
                }
                return true;
            }
            if (mode == put_mode::update) {
                return false;
            }
            const std::size_t free = at.node->free().slot_for(print);
            if (free != layout::slots) {
                add(*at.node, free, key, value, print);
                return false;
            }
            this->split(*at.node, key);
        }
    }

    /// Whether the key was there.
    bool remove(const Key& key) {
        this->refuse_read_only();
        bool is_sparse = false;
        {
            const typename base::section inside(this->grace_);
            const std::uint8_t print = fingerprint<Key>(key);
            for (;;) {
                const auto at = this->descend_to(key, print);
                if (!this->is_warm(at) || !at.node->lock.lock_if(at.version)) {
                    continue;
                }
                const write_hold hold(at.node->lock);
                const std::size_t found = base::find_slot(*at.node, key, print);
                if (found == layout::slots) {
                    return false;
                }
                take_out(*at.node, found);
                const std::size_t count = at.node->count();
                is_sparse = count < base::few_entries && count % between_merges == 0;
                break;
            }
        }
        if (is_sparse) {
            try {
                this->merge(this->order_.bound_of(key));
            } catch (const std::bad_alloc& /*later*/) {  // the key is removed all the same
            }
        }
        return true;
    }

protected:
    ~index_update() = default;

    template <class T>
    void refuse_long(const T& value) const {
        if constexpr (is_index_text<T>) {
            if (value.size() > longest_index_text) {
                throw_index_argument(this->heap_, "bytes of a key or value", std::to_string(value.size()),
                                     "at most " + std::to_string(longest_index_text));
            }
        }
    }

private:
    static constexpr std::size_t between_merges = 4;  ///< removals from a leaf of few entries

    /// By their places in the leaf.
    class changed_words {
    public:
        explicit changed_words(std::uint64_t* of) noexcept : words_(of) {}
        void set(std::size_t at, std::uint64_t value) noexcept {
            values_[count_] = value;
            places_[count_++] = at;
        }
        /// One run if that takes no more records: the words between keep their values.
        void store(manager& heap) {
            std::size_t first = places_[0];
            std::size_t last = first;
            for (std::size_t i = 1; i < count_; ++i) {
                first = std::min(first, places_[i]);
                last = std::max(last, places_[i]);
            }
            std::array<std::uint64_t, most> run;
            for (std::size_t i = first; i <= last; ++i) {
                run[i - first] = load_word(words_ + i);
            }
            for (std::size_t i = 0; i < count_; ++i) {
                run[places_[i] - first] = values_[i];
            }
            const word_run all{words_ + first, {run.data(), last - first + 1}};
            heap.store_words({&all, 1});
        }
        /// In the order of set(): a kill leaves any prefix of the stores.
        void store_in_order(manager& heap) {
            std::array<word_run, most> runs;
            for (std::size_t i = 0; i < count_; ++i) {
                runs[i] = {words_ + places_[i], {&values_[i], 1}};
            }
            heap.store_words({runs.data(), count_});
        }
        void store_in(transaction& tx) {
            for (std::size_t i = 0; i < count_; ++i) {
                tx.store(words_[places_[i]], values_[i]);
            }
        }

    private:
        static constexpr std::size_t most = layout::cell_words + 1;
        std::uint64_t* words_;
        std::array<std::uint64_t, most> values_{};
        std::array<std::size_t, most> places_{};
        std::size_t count_ = 0;
    };

    template <class T>
    static void encode(changed_words& to, std::uint64_t* words, std::size_t slot, std::size_t from, const T& value,
                       transaction* tx) {
        if constexpr (is_index_text<T>) {
            const std::size_t at = layout::word_of(slot, from);
            to.set(at, word_of_target(words + at, base::make_text(*tx, value)));
        } else {
            const auto encoded = index_words<T>::encode(value);
            for (std::size_t i = 0; i < encoded.size(); ++i) {
                to.set(layout::word_of(slot, from + i), encoded[i]);
            }
        }
    }

    void add(leaf& to, std::size_t slot, const Key& key, const Value& value, std::uint8_t print) {
        std::uint64_t* const words = to.media();
        const std::size_t header_place = layout::header_of(layout::cell_of(slot));
        const std::uint64_t header = with_entry(to.header_of(layout::cell_of(slot)), layout::entry_of(slot), print);
        if (this->in_order_) {
            store_header(words, slot, without_entry(base::header_at(words, slot), layout::entry_of(slot)));
        }
        changed_words changed(words);
        if constexpr (base::has_blocks) {
            transaction tx(this->heap_);
            encode(changed, words, slot, 0, key, &tx);
            encode(changed, words, slot, key_words::words, value, &tx);
            if (!this->in_order_) {
                changed.set(header_place, header);
            }
            changed.store_in(tx);
            tx.commit();
            if (this->in_order_) {
                store_header(words, slot, header);
            }
        } else {
            encode(changed, words, slot, 0, key, nullptr);
            encode(changed, words, slot, key_words::words, value, nullptr);
            changed.set(header_place, header);
            if (this->in_order_) {
                changed.store_in_order(this->heap_);
            } else {
                changed.store(this->heap_);
            }
        }
        to.set_print(slot, print);
        to.set_live(slot, true);
    }
    void store_header(std::uint64_t* words, std::size_t slot, std::uint64_t header) {
        if (base::header_at(words, slot) != header) {
            const word_run run{words + layout::header_of(layout::cell_of(slot)), {&header, 1}};
            this->heap_.store_words({&run, 1});
        }
    }
    void replace(leaf& in, std::size_t slot, const Value& value) {
        std::uint64_t* const words = in.media();
        changed_words changed(words);
        if constexpr (value_words::is_block) {
            transaction tx(this->heap_);
            void* const old = base::target(words + layout::word_of(slot, key_words::words));
            encode(changed, words, slot, key_words::words, value, &tx);
            changed.store_in(tx);
            tx.free(old);
            tx.commit();
        } else {
            encode(changed, words, slot, key_words::words, value, nullptr);
            changed.store(this->heap_);
        }
    }
    void take_out(leaf& from, std::size_t slot) {
        std::uint64_t* const words = from.media();
        const std::uint64_t header = without_entry(from.header_of(layout::cell_of(slot)), layout::entry_of(slot));
        if constexpr (base::has_blocks) {
            if (this->in_order_) {
                const std::uint64_t before = base::header_at(words, slot);
                store_header(words, slot, header);
                try {
                    free_fields(words, slot, nullptr);
                } catch (...) {
                    store_header(words, slot, before);  // without memory
                    throw;
                }
            } else {
                free_fields(words, slot, &header);
            }
        } else {
            store_header(words, slot, header);
        }
        from.set_live(slot, false);
    }
    /// `header`: H, where it changes with the blocks.
    void free_fields(std::uint64_t* words, std::size_t slot, const std::uint64_t* header) {
        transaction tx(this->heap_);
        changed_words changed(words);
        free_field(tx, changed, words, slot, 0, key_words::is_block);
        free_field(tx, changed, words, slot, key_words::words, value_words::is_block);
        if (header != nullptr) {
            changed.set(layout::header_of(layout::cell_of(slot)), *header);
        }
        changed.store_in(tx);
        tx.commit();
    }
    /// Nulls the pointer, too: tracing finds no way to free memory.
    static void free_field(transaction& tx, changed_words& changed, const std::uint64_t* words, std::size_t slot,
                           std::size_t i, bool is_block) {
        if (is_block) {
            const std::size_t at = layout::word_of(slot, i);
            tx.free(base::target(words + at));
            changed.set(at, 0);
        }
    }
};

}  // namespace holdfast::detail
