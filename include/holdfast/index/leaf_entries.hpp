// Changes of the entries of one leaf on media: one record and one fence in durability `atomic` if key and value have
// one word each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <holdfast/index/index_media.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast::detail {

enum class put_mode : std::uint8_t { insert, update, upsert };

/// A block for a key, a value or a low key of any length.
[[nodiscard]] inline void* make_text(transaction& tx, std::string_view text) {
    auto* const block =
        static_cast<char*>(tx.allocate(index_text_header + text.size(), {.alignment = index_text_header}));
    const std::uint64_t length = text.size();
    std::memcpy(block, &length, sizeof length);
    if (!text.empty()) {  // else data may be null
        std::memcpy(block + index_text_header, text.data(), text.size());
    }
    return block;
}

/// The caller has the leaf's lock.
template <class Key, class Value, class Order>
class leaf_entries {
    using types = index_types<Key, Value, Order>;
    using key_words = typename types::key_words;
    using value_words = typename types::value_words;
    using layout = typename types::layout;
    using leaf = typename types::leaf;

public:
    leaf_entries(const index_media<Key, Value, Order>& media, leaf& of) noexcept
        : media_(media), leaf_(of), words_(of.media()) {}

    /// Whether the key was there; nothing, and no change, where the leaf has no place for it.
    std::optional<bool> put(const Key& key, const Value& value, put_mode mode, std::uint8_t print) {
        const std::size_t found = types::find_slot(leaf_, key, print);
        if (found != layout::slots) {
            if (mode != put_mode::insert) {
                replace(found, value);
            }
            return true;
        }
        if (mode == put_mode::update) {
            return false;
        }
        const std::size_t free = leaf_.free().slot_for(print);
        if (free == layout::slots) {
            return std::nullopt;
        }
        add(free, key, value, print);
        return false;
    }
    void add(std::size_t slot, const Key& key, const Value& value, std::uint8_t print) {
        const std::size_t header_place = layout::header_of(layout::cell_of(slot));
        const std::uint64_t header = with_entry(leaf_.header_of(layout::cell_of(slot)), layout::entry_of(slot), print);
        if (media_.in_order()) {
            store_header(slot, without_entry(types::header_at(words_, slot), layout::entry_of(slot)));
        }
        changed_words changed(words_);
        if constexpr (types::has_blocks) {
            transaction tx(media_.heap());
            encode(changed, slot, 0, key, &tx);
            encode(changed, slot, key_words::words, value, &tx);
            if (!media_.in_order()) {
                changed.set(header_place, header);
            }
            changed.store_in(tx);
            tx.commit();
            if (media_.in_order()) {
                store_header(slot, header);
            }
        } else {
            encode(changed, slot, 0, key, nullptr);
            encode(changed, slot, key_words::words, value, nullptr);
            changed.set(header_place, header);
            if (media_.in_order()) {
                changed.store_in_order(media_.heap());
            } else {
                changed.store(media_.heap());
            }
        }
        leaf_.set_print(slot, print);
        leaf_.set_live(slot, true);
    }
    void replace(std::size_t slot, const Value& value) {
        changed_words changed(words_);
        if constexpr (value_words::is_block) {
            transaction tx(media_.heap());
            void* const old = types::target(words_ + layout::word_of(slot, key_words::words));
            encode(changed, slot, key_words::words, value, &tx);
            changed.store_in(tx);
            tx.free(old);
            tx.commit();
        } else {
            encode(changed, slot, key_words::words, value, nullptr);
            changed.store(media_.heap());
        }
    }
    void take_out(std::size_t slot) {
        const std::uint64_t header = without_entry(leaf_.header_of(layout::cell_of(slot)), layout::entry_of(slot));
        if constexpr (types::has_blocks) {
            if (media_.in_order()) {
                const std::uint64_t before = types::header_at(words_, slot);
                store_header(slot, header);
                try {
                    free_fields(slot, nullptr);
                } catch (...) {
                    store_header(slot, before);  // without memory
                    throw;
                }
            } else {
                free_fields(slot, &header);
            }
        } else {
            store_header(slot, header);
        }
        leaf_.set_live(slot, false);
    }

private:
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
    void encode(changed_words& to, std::size_t slot, std::size_t from, const T& value, transaction* tx) {
        if constexpr (is_index_text<T>) {
            const std::size_t at = layout::word_of(slot, from);
            to.set(at, word_of_target(words_ + at, make_text(*tx, value)));
        } else {
            const auto encoded = index_words<T>::encode(value);
            for (std::size_t i = 0; i < encoded.size(); ++i) {
                to.set(layout::word_of(slot, from + i), encoded[i]);
            }
        }
    }

    void store_header(std::size_t slot, std::uint64_t header) {
        if (types::header_at(words_, slot) != header) {
            const word_run run{words_ + layout::header_of(layout::cell_of(slot)), {&header, 1}};
            media_.heap().store_words({&run, 1});
        }
    }
    /// `header`: H, where it changes with the blocks.
    void free_fields(std::size_t slot, const std::uint64_t* header) {
        transaction tx(media_.heap());
        changed_words changed(words_);
        free_field(tx, changed, slot, 0, key_words::is_block);
        free_field(tx, changed, slot, key_words::words, value_words::is_block);
        if (header != nullptr) {
            changed.set(layout::header_of(layout::cell_of(slot)), *header);
        }
        changed.store_in(tx);
        tx.commit();
    }
    /// Nulls the pointer, too: tracing finds no way to free memory.
    void free_field(transaction& tx, changed_words& changed, std::size_t slot, std::size_t i, bool is_block) {
        if (is_block) {
            const std::size_t at = layout::word_of(slot, i);
            tx.free(types::target(words_ + at));
            changed.set(at, 0);
        }
    }

    const index_media<Key, Value, Order>& media_;
    leaf& leaf_;
    std::uint64_t* words_;
};

}  // namespace holdfast::detail
