// Splits and merges of leaves. Each is one group of records; in durability `collect`, stores of which a kill may leave
// any prefix: so a bit of H is stored after the words of its entry.
//
// A split writes the new leaf, then `next` of the old one: from then on the new one's low key bounds the old leaf, and
// the moved entries are not live there. A merge writes copies of the right leaf's entries into free slots of the left
// one, where they are not live yet, then `next`. Of entries with texts as keys, a split also clears the bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/index_inner.hpp>

namespace holdfast::detail {

/// For a test of indexes with this type of values, which must find what a kill in the midst then leaves.
template <class Value>
inline constexpr bool splits_clear_before_they_link = false;

template <class Key, class Value, class Order>
class index_structure : public index_inner<Key, Value, Order> {
    using base = index_inner<Key, Value, Order>;

public:
    using base::base;
    using typename base::bound;
    using typename base::inner;
    using typename base::key_words;
    using typename base::layout;
    using typename base::leaf;
    using typename base::value_words;

protected:
    ~index_structure() = default;

    using image = std::array<std::uint64_t, layout::words>;
    using order = typename base::slots_in_order;
    static constexpr std::size_t few_entries = layout::slots / 8;  ///< a leaf with fewer looks for a neighbour

    /// The caller has the leaf's lock, and looks the key up again. Throws error(limit) where its keys have one hash.
    void split(leaf& full, const Key& key) {
        const order sorted = this->sort_live(full);
        std::uint64_t* const words = full.media();
        std::size_t stay = 0;
        typename base::new_separator between(part(full, sorted, this->order_.bound_of(key), stay));
        node_reservation<leaf> leaves(this->leaf_pool_, 1);
        node_reservation<inner> inners(this->inner_pool_, this->height_.load(std::memory_order_relaxed) + 3);
        typename base::path steps;
        steps.reserve(base::most_levels);

        const std::span<const std::uint8_t> moved(sorted.slot.data() + stay, sorted.count - stay);
        const order places = places_of(full, moved);
        std::uint64_t* const made = make_leaf(words, moved, places, between.low());

        leaf* const node = leaves.take();
        node->lock.lock();  // an earlier life may have left it in a directory
        const write_hold node_hold(node->lock);
        node->forget();
        for (std::size_t i = 0; i < moved.size(); ++i) {
            node->set_print(places.slot[i], full.print(moved[i]));
            node->set_live(places.slot[i], true);
            full.set_live(moved[i], false);
        }
        node->words.store(made, std::memory_order_release);
        node->cold.store(false, std::memory_order_release);
        if constexpr (Order::by_hash) {
            node->set(between.low(), full.last());
            full.set(full.first(), between.low() - 1);
        }
        const std::lock_guard structure(this->structure_mutex_);
        index_node* at = this->root_.load(std::memory_order_relaxed);
        while (!at->is_leaf) {  // as path_to(), which may fail
            auto* const inside = static_cast<inner*>(at);
            steps.push_back({inside, inside->find(between.low(), true)});
            at = inside->child(steps.back().child);
        }
        this->insert_behind(steps, node, between.release(), inners);
        if constexpr (Order::by_hash) {
            this->directory_.grow(this->leaf_pool_.in_use());
        }
    }

    /// After a removal, if both fit well.
    void merge(const bound& place) {
        const std::lock_guard structure(this->structure_mutex_);
        typename base::path steps = this->path_to(place);
        if (steps.empty()) {
            return;
        }
        if (steps.back().node->count.load(std::memory_order_relaxed) == 0) {
            this->refill(steps);
            steps = this->path_to(place);
        }
        if (steps.empty() || steps.back().node->count.load(std::memory_order_relaxed) == 0) {
            return;
        }
        inner& parent = *steps.back().node;
        const std::size_t at = steps.back().child;
        this->grace_.reserve();
        if ((at < parent.count.load(std::memory_order_relaxed) && unite(parent, at)) ||
            (at > 0 && unite(parent, at - 1))) {
            this->refill(steps);
        }
    }

    static void set_entry(std::uint64_t* image_words, std::size_t slot, std::uint8_t print) noexcept {
        std::uint64_t& header = image_words[layout::header_of(layout::cell_of(slot))];
        header = with_entry(header, layout::entry_of(slot), print);
    }

    /// A new block, or the last retired leaf (`reused`).
    struct leaf_memory {
        std::uint64_t* words;
        bool reused;
    };

private:
    /// `stay` entries stay, and the new leaf begins with the result. `wanted` comes next.
    [[nodiscard]] bound part(const leaf& full, const order& sorted, const bound& wanted, std::size_t& stay) const {
        const std::uint64_t* const words = full.media();
        const auto at = [&](std::size_t rank) { return this->bound_at(words, sorted.slot[rank]); };
        if constexpr (Order::by_hash) {
            return part_hashes(full, sorted.count, at, stay);
        } else {
            const bool ascending = base::next_of(words) == nullptr && at(sorted.count - 1) < wanted;
            stay = ascending ? sorted.count : sorted.count / 2;
            const bound first = ascending ? wanted : at(stay);
            if constexpr (base::text_bounds) {
                return shortest_between(at(stay - 1), first);
            } else {
                return first;
            }
        }
    }
    /// The next bit of the hashes parts them, so that entries of the directory are not parted; where it would leave a
    /// leaf nearly empty, the hash in the middle does.
    template <class At>
    [[nodiscard]] std::uint64_t part_hashes(const leaf& full, std::size_t count, const At& at,
                                            std::size_t& stay) const {
        const std::uint64_t half = full.first() + (full.last() - full.first()) / 2 + 1;
        while (stay < count && at(stay) < half) {
            ++stay;
        }
        if (stay >= count / 4 && stay <= count - count / 4) {
            return half;
        }
        stay = count / 2;
        while (stay < count && at(stay - 1) == at(stay)) {
            ++stay;
        }
        if (stay == count) {
            for (stay = count / 2; stay > 0 && at(stay - 1) == at(stay);) {
                --stay;
            }
        }
        if (stay == 0) {
            throw_index_limit(this->heap_, this->name_);
        }
        return at(stay);
    }
    /// `made`: an image of the leaf at `to`.
    static void copy_entry(std::uint64_t* made, const std::uint64_t* to, std::size_t slot, const std::uint64_t* from,
                           std::size_t old) noexcept {
        for (std::size_t i = 0; i < layout::entry_words; ++i) {
            const std::size_t here = layout::word_of(slot, i);
            const std::uint64_t* const there = from + layout::word_of(old, i);
            const bool is_pointer = i < key_words::words ? key_words::is_block : value_words::is_block;
            made[here] = is_pointer ? word_of_target(to + here, base::target(there)) : load_word(there);
        }
        set_entry(made, slot, print_of(base::header_at(from, old), layout::entry_of(old)));
    }

    [[nodiscard]] static order places_of(const leaf& from, std::span<const std::uint8_t> moved) noexcept {
        order places;
        free_slots<layout> left;
        for (const std::uint8_t slot : moved) {
            places.slot[places.count++] = static_cast<std::uint8_t>(left.take_for(from.print(slot)));
        }
        return places;
    }
    /// Lets the old leaf's `next` lead to a new one. Returns its words.
    [[nodiscard]] std::uint64_t* make_leaf(std::uint64_t* old, std::span<const std::uint8_t> moved, const order& places,
                                           const bound& low) {
        std::unique_lock retired(this->retired_mutex_, std::defer_lock);
        transaction tx(this->heap_);
        const leaf_memory memory = take_memory(tx, retired);
        std::uint64_t* const to = memory.words;
        std::uint64_t* const next = base::next_of(old);
        image made;
        made.fill(0);
        for (std::size_t i = 0; i < moved.size(); ++i) {
            copy_entry(made.data(), to, places.slot[i], old, moved[i]);
        }
        made[leaf_kind] = index_leaf_magic | leaf_has_low;
        made[leaf_next] = word_of_target(to + leaf_next, next);
        made[leaf_previous] = word_of_target(to + leaf_previous, old);
        put_low(tx, made, to, low);
        if (memory.reused) {
            take_retired(tx);
            if constexpr (base::text_bounds) {
                tx.free(base::target(to + leaf_low));
            }
            for (std::size_t i = 0; i < made.size(); ++i) {
                if (load_word(to + i) != made[i]) {
                    tx.store(to[i], made[i]);
                }
            }
        } else {
            std::memcpy(to, made.data(), sizeof made);
        }
        std::uint64_t& hint = next == nullptr ? this->head_.last : next[leaf_previous];
        const std::array<std::uint64_t, 2> values{word_of_target(old + leaf_next, to), word_of_target(&hint, to)};
        const std::array<word_run, 2> links{word_run{old + leaf_next, {&values[0], 1}},
                                            word_run{&hint, {&values[1], 1}}};
        if (this->in_order_) {
            tx.commit();
            const auto clear = [&] {
                if constexpr (base::text_keys) {  // word by word, without memory: nothing may fail from here on
                    drop_moved(old, moved, [this](std::uint64_t& place, std::uint64_t value) {
                        const word_run run{&place, {&value, 1}};
                        this->heap_.store_words({&run, 1});
                    });
                }
            };
            if constexpr (splits_clear_before_they_link<Value>) {
                clear();
            }
            this->heap_.store_words(links);
            if constexpr (!splits_clear_before_they_link<Value>) {
                clear();
            }
        } else {
            tx.store(old[leaf_next], values[0]);
            tx.store(hint, values[1]);
            if constexpr (base::text_keys) {
                drop_moved(old, moved, [&tx](std::uint64_t& place, std::uint64_t value) { tx.store(place, value); });
            }
            tx.commit();
            if (memory.reused) {
                this->retired_.pop_back();
            }
        }
        return to;
    }
    /// To see that an entry has moved, its text, which goes with the new leaf's entry, would be read.
    template <class Store>
    static void drop_moved(std::uint64_t* old, std::span<const std::uint8_t> moved, const Store& store) {
        std::array<std::uint64_t, layout::cells> headers;
        for (std::size_t cell = 0; cell < layout::cells; ++cell) {
            headers[cell] = load_word(old + layout::header_of(cell));
        }
        for (const std::uint8_t slot : moved) {
            std::uint64_t& header = headers[layout::cell_of(slot)];
            header = without_entry(header, layout::entry_of(slot));
        }
        for (std::size_t cell = 0; cell < layout::cells; ++cell) {
            if (headers[cell] != load_word(old + layout::header_of(cell))) {
                store(old[layout::header_of(cell)], headers[cell]);
            }
        }
    }
    /// Changes the list with the transaction, or before it where a kill may leave a part: a block for tracing to free.
    void take_retired(transaction& tx) {
        std::uint64_t& list = this->head_.retired;
        const std::uint64_t rest = word_of_target(&list, base::next_of(this->retired_.back()));
        if (this->in_order_) {
            const word_run run{&list, {&rest, 1}};
            this->heap_.store_words({&run, 1});
            this->retired_.pop_back();
        } else {
            tx.store(list, rest);
        }
    }
    [[nodiscard]] leaf_memory take_memory(transaction& tx, std::unique_lock<std::mutex>& retired) {
        retired.lock();
        if (!this->retired_.empty()) {
            return {this->retired_.back(), true};
        }
        retired.unlock();
        return {static_cast<std::uint64_t*>(tx.allocate(layout::bytes)), false};
    }

protected:
    static void put_low(transaction& tx, image& made, const std::uint64_t* to, const bound& low) {
        if constexpr (base::text_bounds) {
            made[leaf_low] = word_of_target(to + leaf_low, make_text(tx, low));
        } else {
            const auto encoded = base::bound_words::encode(low);
            std::copy(encoded.begin(), encoded.end(), made.begin() + leaf_low);
        }
    }
    [[nodiscard]] static void* make_text(transaction& tx, std::string_view text) {
        auto* const block = static_cast<char*>(tx.allocate(index_text_header + text.size()));
        const std::uint64_t length = text.size();
        std::memcpy(block, &length, sizeof length);
        if (!text.empty()) {  // else data may be null
            std::memcpy(block + index_text_header, text.data(), text.size());
        }
        return block;
    }

private:
    /// False where it cannot be now.
    [[nodiscard]] bool unite(inner& parent, std::size_t at) {
        leaf& left = static_cast<leaf&>(*parent.child(at));
        leaf& right = static_cast<leaf&>(*parent.child(at + 1));
        if (!left.lock.try_lock()) {
            return false;
        }
        write_hold left_hold(left.lock);
        if (!right.lock.try_lock()) {
            return false;
        }
        write_hold right_hold(right.lock);
        for (leaf* const each : {&left, &right}) {
            if (each->cold.load(std::memory_order_relaxed)) {
                static_cast<void>(this->warm(*each));
            }
        }
        if (left.count() + right.count() > layout::slots * 5 / 8) {
            return false;
        }
        move_entries(left, right);
        if constexpr (Order::by_hash) {
            left.set(left.first(), right.last());
        }
        this->retire(base::remove_behind(parent, at));
        right.forget();
        right_hold.unlock();
        left_hold.unlock();
        this->leaf_pool_.give(&right);
        return true;
    }
    void move_entries(leaf& left, leaf& right) {
        std::uint64_t* const to = left.media();
        std::uint64_t* const from = right.media();
        image made;
        for (std::size_t i = 0; i < made.size(); ++i) {
            made[i] = load_word(to + i);
        }
        drop_dead(left, made);
        std::vector<std::pair<std::size_t, std::size_t>> moves;
        moves.reserve(right.count());
        if (this->in_order_) {
            std::vector<word_run> bits;
            add_runs(bits, to, made, words_of::headers);
            this->heap_.store_words(bits);  // a kill must not leave a bit with a mixed entry
        }
        free_slots<layout> places = left.free();
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            if (right.is_live(slot)) {
                const std::size_t place = places.take_for(right.print(slot));
                copy_entry(made.data(), to, place, from, slot);
                moves.emplace_back(place, slot);
            }
        }
        store_union(to, from, made);
        for (const auto& [here, there] : moves) {
            left.set_print(here, right.print(there));
            left.set_live(here, true);
        }
    }

protected:
    /// Those that moved away would be live again with a larger bound.
    static void drop_dead(const leaf& of, image& made) noexcept {
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            std::uint64_t& header = made[layout::header_of(layout::cell_of(slot))];
            if (has_entry(header, layout::entry_of(slot)) && !of.is_live(slot)) {
                header = without_entry(header, layout::entry_of(slot));
            }
        }
    }

private:
    enum class words_of : std::uint8_t { all, entries, headers };
    static void add_runs(std::vector<word_run>& runs, std::uint64_t* to, const image& made, words_of wanted) {
        const auto differs = [&](std::size_t i) {
            const bool is_header = (i - layout::first_cell) % layout::cell_words == layout::header_within;
            return made[i] != load_word(to + i) &&
                   (wanted == words_of::all || is_header == (wanted == words_of::headers));
        };
        for (std::size_t i = layout::first_cell; i < made.size(); ++i) {
            const std::size_t begin = i;
            while (i < made.size() && differs(i)) {
                ++i;
            }
            if (i > begin) {
                runs.push_back({to + begin, {made.data() + begin, i - begin}});
            }
        }
    }
    /// Stores the entries, takes the right leaf out of the chain, then keeps it for a split.
    void store_union(std::uint64_t* to, std::uint64_t* from, const image& made) {
        const std::lock_guard retired(this->retired_mutex_);
        this->retired_.reserve(this->retired_.size() + 1);
        std::vector<word_run> runs;
        runs.reserve(2 * layout::cells + 4);
        if (this->in_order_) {  // an entry's bit comes after its words
            add_runs(runs, to, made, words_of::entries);
            add_runs(runs, to, made, words_of::headers);
        } else {
            add_runs(runs, to, made, words_of::all);
        }
        std::uint64_t* const next = base::next_of(from);
        std::uint64_t& hint = next == nullptr ? this->head_.last : next[leaf_previous];
        const std::array<std::uint64_t, 4> values{word_of_target(to + leaf_next, next), word_of_target(&hint, to),
                                                  word_of_target(from + leaf_next, base::target(&this->head_.retired)),
                                                  word_of_target(&this->head_.retired, from)};
        runs.push_back({to + leaf_next, {&values[0], 1}});
        runs.push_back({&hint, {&values[1], 1}});
        runs.push_back({from + leaf_next, {&values[2], 1}});
        runs.push_back({&this->head_.retired, {&values[3], 1}});
        this->heap_.store_words(runs);
        this->retired_.push_back(from);
    }
};

}  // namespace holdfast::detail
