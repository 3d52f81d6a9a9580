// The leaves of an index on media, chained by `next`: what splits, unites, clears and frees them. Each split and merge
// is one group of records; in durability `collect`, stores of which a kill may leave any prefix: so a bit of H is
// stored after the words of its entry.
//
// A split writes the new leaf, then `next` of the old one: from then on the new one's low key bounds the old leaf, and
// the moved entries are not live there. A merge writes copies of the right leaf's entries into free slots of the left
// one, where they are not live yet, then `next`. Of entries with texts as keys, a split also clears the bits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/index/index_media.hpp>
#include <holdfast/index/leaf_entries.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast::detail {

/// For a test of indexes with this type of values, which must find what a kill in the midst then leaves.
template <class Value>
inline constexpr bool splits_clear_before_they_link = false;

template <class Key, class Value, class Order>
class leaf_chain {
public:
    using types = index_types<Key, Value, Order>;
    using bound = typename types::bound;
    using image = typename types::image;
    using key_words = typename types::key_words;
    using layout = typename types::layout;
    using leaf = typename types::leaf;
    using value_words = typename types::value_words;
    using order = typename index_media<Key, Value, Order>::slots_in_order;

    /// Throws error(corrupt).
    leaf_chain(manager& heap, std::string_view name, index_head_on_media& head) : media_(heap, name, head) {
        if (head.shape == 0) {  // of an empty index in a heap open read-only
            unmade_ = std::make_unique<std::uint64_t[]>(layout::words);
            unmade_[leaf_kind] = index_leaf_magic;
        }
    }
    leaf_chain(const leaf_chain&) = delete;
    leaf_chain& operator=(const leaf_chain&) = delete;
    ~leaf_chain() = default;

    [[nodiscard]] const index_media<Key, Value, Order>& media() const noexcept { return media_; }
    [[nodiscard]] std::size_t retired_leaves() const {
        const std::lock_guard lock(retired_mutex_);
        return retired_.size();
    }

    // Walking:

    [[nodiscard]] std::uint64_t* first() const {
        return unmade_ == nullptr ? media_.checked_leaf(&media_.head().first) : unmade_.get();
    }
    [[nodiscard]] static bool is_before(const std::uint64_t* a, const std::uint64_t* b) noexcept {
        if (!types::has_low(b)) {
            return false;
        }
        if constexpr (Order::by_hash) {
            return (types::has_low(a) ? types::low_of(a) : 0) < types::low_of(b);
        } else {
            return !types::has_low(a) || types::low_of(a) < types::low_of(b);
        }
    }
    /// Null at the end (IDX-1).
    [[nodiscard]] std::uint64_t* following(const std::uint64_t* words) const {
        std::uint64_t* const next = media_.checked_leaf(words + leaf_next);
        if (next != nullptr && !is_before(words, next)) {
            media_.corrupt("IDX-1, the low key of a leaf", "one that is not larger than that of the leaf before",
                           "ascending keys");
        }
        return next;
    }

    // Splits:

    /// `stay` entries stay, and the new leaf begins with the result. `wanted` comes next.
    [[nodiscard]] bound part(const leaf& full, const order& sorted, const bound& wanted, std::size_t& stay) const {
        const std::uint64_t* const words = full.media();
        const auto at = [&](std::size_t rank) { return media_.bound_at(words, sorted.slot[rank]); };
        if constexpr (Order::by_hash) {
            return part_hashes(full, sorted.count, at, stay);
        } else {
            const bool ascending = types::next_of(words) == nullptr && at(sorted.count - 1) < wanted;
            stay = ascending ? sorted.count : sorted.count / 2;
            const bound first = ascending ? wanted : at(stay);
            if constexpr (types::text_bounds) {
                return shortest_between(at(stay - 1), first);
            } else {
                return first;
            }
        }
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
    [[nodiscard]] std::uint64_t* split_off(std::uint64_t* old, std::span<const std::uint8_t> moved, const order& places,
                                           const bound& low) {
        std::unique_lock retired(retired_mutex_, std::defer_lock);
        transaction tx(media_.heap());
        const leaf_memory memory = take_memory(tx, retired);
        std::uint64_t* const to = memory.words;
        std::uint64_t* const next = types::next_of(old);
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
            if constexpr (types::text_bounds) {
                tx.free(types::target(to + leaf_low));
            }
            for (std::size_t i = 0; i < made.size(); ++i) {
                if (load_word(to + i) != made[i]) {
                    tx.store(to[i], made[i]);
                }
            }
        } else {
            std::memcpy(to, made.data(), sizeof made);
        }
        std::uint64_t& hint = next == nullptr ? media_.head().last : next[leaf_previous];
        const std::array<std::uint64_t, 2> values{word_of_target(old + leaf_next, to), word_of_target(&hint, to)};
        const std::array<word_run, 2> links{word_run{old + leaf_next, {&values[0], 1}},
                                            word_run{&hint, {&values[1], 1}}};
        if (media_.in_order()) {
            tx.commit();
            const auto clear = [&] {
                if constexpr (types::text_keys) {  // word by word, without memory: nothing may fail from here on
                    drop_moved(old, moved, [this](std::uint64_t& place, std::uint64_t value) {
                        const word_run run{&place, {&value, 1}};
                        media_.heap().store_words({&run, 1});
                    });
                }
            };
            if constexpr (splits_clear_before_they_link<Value>) {
                clear();
            }
            media_.heap().store_words(links);
            if constexpr (!splits_clear_before_they_link<Value>) {
                clear();
            }
        } else {
            tx.store(old[leaf_next], values[0]);
            tx.store(hint, values[1]);
            if constexpr (types::text_keys) {
                drop_moved(old, moved, [&tx](std::uint64_t& place, std::uint64_t value) { tx.store(place, value); });
            }
            tx.commit();
            if (memory.reused) {
                retired_.pop_back();
            }
        }
        return to;
    }

    // Merges:

    void unite(leaf& left, leaf& right) {
        std::uint64_t* const to = left.media();
        std::uint64_t* const from = right.media();
        image made;
        for (std::size_t i = 0; i < made.size(); ++i) {
            made[i] = load_word(to + i);
        }
        drop_dead(left, made);
        std::vector<std::pair<std::size_t, std::size_t>> moves;
        moves.reserve(right.count());
        if (media_.in_order()) {
            std::vector<word_run> bits;
            add_runs(bits, to, made, words_of::headers);
            media_.heap().store_words(bits);  // a kill must not leave a bit with a mixed entry
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

    // Opening, filling and clearing:

    /// IDX-9. Throws error(corrupt): a damaged list would free what the index has.
    void check_left_overs(const std::vector<leaf*>& leaves) const {
        if (media_.head().cleared == 0 && media_.head().retired == 0) {
            return;
        }
        std::vector<const std::uint64_t*> known;
        known.reserve(leaves.size());
        for (const leaf* const each : leaves) {
            known.push_back(each->media());
        }
        std::ranges::sort(known, std::less<>());
        for (const std::uint64_t* const list : {&media_.head().cleared, &media_.head().retired}) {
            const std::uint64_t* behind = nullptr;  // follows in jumps that double (Brent), so a circle ends
            std::uint64_t steps = 0;
            for (const std::uint64_t* at = media_.checked_leaf(list); at != nullptr;
                 at = media_.checked_leaf(at + leaf_next)) {
                if (at == behind || std::ranges::binary_search(known, at, std::less<>())) {
                    media_.corrupt("IDX-9, a list of leaves to be freed", address_text(media_.heap(), at),
                                   "no leaf of the index, and each leaf once");
                }
                if (std::has_single_bit(++steps)) {
                    behind = at;
                }
            }
        }
    }
    /// Comes while all texts are still there.
    void clear_dead_texts(const std::vector<leaf*>& leaves) {
        std::uint64_t& mark = media_.head().may_have_dead_texts;
        if (mark != 0) {
            for (leaf* const each : leaves) {
                if (media_.warm(*each)) {
                    clear_dead(*each);
                }
            }
        }
        const std::uint64_t wanted = media_.in_order() ? 1 : 0;
        if (mark != wanted) {
            const word_run run{&mark, {&wanted, 1}};
            media_.heap().store_words({&run, 1});
            media_.heap().persist(&mark, sizeof mark);
        }
    }
    /// Durability `collect`: a kill leaves old ones.
    void mend_hints(const std::vector<leaf*>& leaves) {
        const auto mend = [this](std::uint64_t& hint, const std::uint64_t* to) {
            const std::uint64_t wanted = word_of_target(&hint, to);
            if (load_word(&hint) != wanted) {
                const word_run run{&hint, {&wanted, 1}};
                media_.heap().store_words({&run, 1});
            }
        };
        for (std::size_t i = 1; i < leaves.size(); ++i) {
            mend(leaves[i]->media()[leaf_previous], leaves[i - 1]->media());
        }
        mend(media_.head().last, leaves.back()->media());
    }
    /// Returns the only leaf, which is empty. Where it throws, nothing has changed.
    [[nodiscard]] std::uint64_t* clear() {
        transaction tx(media_.heap());
        std::uint64_t* const made = types::make_empty_leaf(tx);
        start_with(tx, made, made, first());
        tx.commit();
        return made;
    }
    /// After clear(): frees all but the head.
    void free_last_leaf() {
        transaction tx(media_.heap());
        tx.free(first());
        tx.store(media_.head().shape, 0);
        tx.store(media_.head().first, 0);
        tx.store(media_.head().last, 0);
        tx.commit();
    }
    /// A chain of head.cleared becomes the index.
    void link(std::uint64_t* begin, std::uint64_t* last) {
        if (media_.in_order()) {  // a kill must not leave two ways to the chain
            const std::uint64_t nothing = 0;
            const word_run run{&media_.head().cleared, {&nothing, 1}};
            media_.heap().store_words({&run, 1});
        }
        transaction tx(media_.heap());
        start_with(tx, begin, last, first());
        tx.commit();
    }

    /// After a change. What cannot be freed now waits for the next call or open.
    void free_or_leave() {
        try {
            free_left_overs();
        } catch (const std::exception& /*later*/) {
        }
    }

    void free_left_overs() {
        while (free_some(media_.head().cleared, true)) {
        }
        while (free_some(media_.head().retired, false)) {
        }
    }

    static void put_low(transaction& tx, image& made, const std::uint64_t* to, const bound& low) {
        if constexpr (types::text_bounds) {
            made[leaf_low] = word_of_target(to + leaf_low, make_text(tx, low));
        } else {
            const auto encoded = types::bound_words::encode(low);
            std::copy(encoded.begin(), encoded.end(), made.begin() + leaf_low);
        }
    }

private:
    /// A new block, or the last retired leaf (`reused`).
    struct leaf_memory {
        std::uint64_t* words;
        bool reused;
    };

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
            throw_index_limit(media_.heap(), media_.name());
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
            made[here] = is_pointer ? word_of_target(to + here, types::target(there)) : load_word(there);
        }
        types::set_entry(made, slot, print_of(types::header_at(from, old), layout::entry_of(old)));
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
        std::uint64_t& list = media_.head().retired;
        const std::uint64_t rest = word_of_target(&list, types::next_of(retired_.back()));
        if (media_.in_order()) {
            const word_run run{&list, {&rest, 1}};
            media_.heap().store_words({&run, 1});
            retired_.pop_back();
        } else {
            tx.store(list, rest);
        }
    }
    [[nodiscard]] leaf_memory take_memory(transaction& tx, std::unique_lock<std::mutex>& retired) {
        retired.lock();
        if (!retired_.empty()) {
            return {retired_.back(), true};
        }
        retired.unlock();
        return {static_cast<std::uint64_t*>(tx.allocate(layout::bytes)), false};
    }

    /// Those that moved away would be live again with a larger bound.
    static void drop_dead(const leaf& of, image& made) noexcept {
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            std::uint64_t& header = made[layout::header_of(layout::cell_of(slot))];
            if (has_entry(header, layout::entry_of(slot)) && !of.is_live(slot)) {
                header = without_entry(header, layout::entry_of(slot));
            }
        }
    }

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
        const std::lock_guard retired(retired_mutex_);
        retired_.reserve(retired_.size() + 1);
        std::vector<word_run> runs;
        runs.reserve(2 * layout::cells + 4);
        if (media_.in_order()) {  // an entry's bit comes after its words
            add_runs(runs, to, made, words_of::entries);
            add_runs(runs, to, made, words_of::headers);
        } else {
            add_runs(runs, to, made, words_of::all);
        }
        std::uint64_t* const next = types::next_of(from);
        std::uint64_t& hint = next == nullptr ? media_.head().last : next[leaf_previous];
        const std::array<std::uint64_t, 4> values{
            word_of_target(to + leaf_next, next), word_of_target(&hint, to),
            word_of_target(from + leaf_next, types::target(&media_.head().retired)),
            word_of_target(&media_.head().retired, from)};
        runs.push_back({to + leaf_next, {&values[0], 1}});
        runs.push_back({&hint, {&values[1], 1}});
        runs.push_back({from + leaf_next, {&values[2], 1}});
        runs.push_back({&media_.head().retired, {&values[3], 1}});
        media_.heap().store_words(runs);
        retired_.push_back(from);
    }
    void clear_dead(const leaf& of) {
        std::uint64_t* const words = of.media();
        image made;
        for (std::size_t i = 0; i < made.size(); ++i) {
            made[i] = load_word(words + i);
        }
        drop_dead(of, made);
        transaction tx(media_.heap());
        for (std::size_t i = 0; i < made.size(); ++i) {
            if (made[i] != load_word(words + i)) {
                tx.store(words[i], made[i]);
            }
        }
        tx.commit();
    }

    /// The index becomes the chain; what it was is left to be freed. After a kill, in durability `collect`, `first`
    /// says what the index is, and tracing frees the rest.
    void start_with(transaction& tx, std::uint64_t* first, std::uint64_t* last, std::uint64_t* old) {
        index_head_on_media& head = media_.head();
        tx.store(head.first, word_of_target(&head.first, first));
        tx.store(head.last, word_of_target(&head.last, last));
        tx.store(head.cleared, word_of_target(&head.cleared, old));
    }
    /// With their own entries if wanted. False at the list's end.
    [[nodiscard]] bool free_some(std::uint64_t& list, bool with_entries) {
        std::uint64_t* const first = media_.checked_leaf(&list);
        if (first == nullptr) {
            return false;
        }
        try {
            free_leaves(list, first, with_entries);
        } catch (const std::bad_alloc&) {
            if (!with_entries || !types::has_blocks) {
                throw;
            }
            free_entries_apart(first);  // the records of a large transaction need memory
            free_leaves(list, first, with_entries);
        }
        return true;
    }
    void free_leaves(std::uint64_t& list, std::uint64_t* at, bool with_entries) {
        constexpr std::size_t at_a_time = types::has_blocks ? 1 : 16;
        transaction tx(media_.heap());
        std::size_t freed = 0;
        for (; freed < at_a_time && at != nullptr; ++freed) {
            std::uint64_t* const next = media_.checked_leaf(at + leaf_next);
            if (with_entries && types::has_blocks) {
                free_entries(tx, at, next);
            }
            if constexpr (types::text_bounds) {
                if (types::has_low(at)) {
                    tx.free(types::target(at + leaf_low));
                }
            }
            tx.free(at);
            at = next;
        }
        tx.store(list, word_of_target(&list, at));
        tx.commit();
        if (!with_entries) {  // no split may use a retired leaf that is freed
            retired_.resize(retired_.size() - std::min(freed, retired_.size()));
        }
    }
    /// A transaction for each cell.
    void free_entries_apart(std::uint64_t* words) const {
        const std::uint64_t* const next = media_.checked_leaf(words + leaf_next);
        for (std::size_t first = 0; first < layout::slots; first += layout::per_cell) {
            transaction tx(media_.heap());
            for (std::size_t slot = first; slot < first + layout::per_cell; ++slot) {
                free_entry(tx, words, slot, next);
            }
            tx.store(words[layout::header_of(layout::cell_of(first))], 0);
            tx.commit();
        }
    }
    void free_entries(transaction& tx, const std::uint64_t* words, const std::uint64_t* next) const {
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            free_entry(tx, words, slot, next);
        }
    }
    void free_entry(transaction& tx, const std::uint64_t* words, std::size_t slot, const std::uint64_t* next) const {
        if (!has_entry(types::header_at(words, slot), layout::entry_of(slot))) {
            return;
        }
        if constexpr (key_words::is_block) {
            media_.check_text(words + layout::word_of(slot, 0));
        }
        if (next != nullptr && !(media_.bound_at(words, slot) < types::low_of(next))) {
            return;
        }
        if constexpr (key_words::is_block) {
            tx.free(types::target(words + layout::word_of(slot, 0)));
        }
        if constexpr (value_words::is_block) {
            tx.free(types::target(words + layout::word_of(slot, key_words::words)));
        }
    }

    index_media<Key, Value, Order> media_;
    mutable std::mutex retired_mutex_;
    left_to_parent<std::vector<std::uint64_t*>> retired_;  ///< those of head.retired, which is the last one
    std::unique_ptr<std::uint64_t[]> unmade_;              ///< of an empty index in a heap open read-only
};

}  // namespace holdfast::detail
