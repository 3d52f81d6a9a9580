// Opening: two threads come from both ends of the chain and make the inner nodes; a leaf is read at its first use. Also
// clear().
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/detail/index_tree.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_open : public index_tree<Key, Value, Order> {
    using base = index_tree<Key, Value, Order>;

public:
    using base::base;
    using typename base::image;
    using typename base::inner;
    using typename base::key_words;
    using typename base::layout;
    using typename base::leaf;
    using typename base::separator;
    using typename base::tree;
    using typename base::value_words;

    /// Throws error(corrupt).
    void open() {
        if (this->head_.magic != index_magic) {
            this->corrupt("magic of the head", hexadecimal(this->head_.magic), hexadecimal(index_magic));
        }
        if (this->head_.shape == 0) {
            make_first_leaf();
        }
        use_shape();
        const std::vector<leaf*> leaves = this->walk();
        check_left_overs(leaves);
        this->use(this->make_tree(leaves));
        if (!this->heap_.read_only()) {
            this->mend_hints(leaves);
            if constexpr (base::text_keys) {
                clear_dead_texts();
            }
            try {
                free_left_overs();
            } catch (const std::bad_alloc& /*the next open or clear() frees them*/) {
            }
        }
    }

    /// Where it throws, nothing has changed.
    void clear() {
        this->refuse_read_only();
        free_left_overs();
        node_reservation<leaf> leaves(this->leaf_pool_, 1);
        typename Order::directory::prepared directory = this->directory_.prepare(1);
        transaction tx(this->heap_);
        std::uint64_t* const made = make_leaf_alone(tx);
        start_with(tx, made, made, this->first());
        tx.commit();
        this->forget_nodes();
        leaf* const node = this->as_node(leaves.take(), made);
        if constexpr (Order::by_hash) {
            node->set(0, ~std::uint64_t{0});
        }
        this->use({node, 0, std::move(directory)});
        free_or_leave();
    }

    /// Frees all but the head.
    void free_all() {
        clear();
        transaction tx(this->heap_);
        tx.free(this->first());
        tx.store(this->head_.shape, 0);
        tx.store(this->head_.first, 0);
        tx.store(this->head_.last, 0);
        tx.commit();
    }

protected:
    ~index_open() = default;

    /// A chain of head.cleared becomes the index.
    void link(std::uint64_t* begin, std::uint64_t* last) {
        if (this->in_order_) {  // a kill must not leave two ways to the chain
            const std::uint64_t nothing = 0;
            const word_run run{&this->head_.cleared, {&nothing, 1}};
            this->heap_.store_words({&run, 1});
        }
        transaction tx(this->heap_);
        start_with(tx, begin, last, this->first());
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
        while (free_some(this->head_.cleared, true)) {
        }
        while (free_some(this->head_.retired, false)) {
        }
    }

private:
    /// Throws error(corrupt) where the shape is that of another index.
    void use_shape() {
        const std::uint64_t found = this->head_.shape;
        const bool has_seed = Order::by_hash && (found & index_has_seed) != 0;
        const std::uint64_t seed = has_seed ? this->head_.seed : 0;
        const std::uint64_t expected = has_seed ? with_seed(encode(base::shape), seed) : encode(base::shape);
        if (found != expected && found != 0) {  // 0: there is none, and the heap is open read-only
            this->corrupt("shape of the head", hexadecimal(found), hexadecimal(expected));
        }
        this->order_.set_seed(seed);
    }
    /// IDX-9. Throws error(corrupt): a damaged list would free what the index has.
    void check_left_overs(const std::vector<leaf*>& leaves) const {
        if (this->head_.cleared == 0 && this->head_.retired == 0) {
            return;
        }
        std::vector<const std::uint64_t*> known;
        known.reserve(leaves.size());
        for (const leaf* const each : leaves) {
            known.push_back(each->media());
        }
        std::ranges::sort(known, std::less<>());
        for (const std::uint64_t* const list : {&this->head_.cleared, &this->head_.retired}) {
            const std::uint64_t* behind = nullptr;  // follows in jumps that double (Brent), so a circle ends
            std::uint64_t steps = 0;
            for (const std::uint64_t* at = this->checked_leaf(list); at != nullptr;
                 at = this->checked_leaf(at + leaf_next)) {
                if (at == behind || std::ranges::binary_search(known, at, std::less<>())) {
                    this->corrupt("IDX-9, a list of leaves to be freed", address_text(this->heap_, at),
                                  "no leaf of the index, and each leaf once");
                }
                if (std::has_single_bit(++steps)) {
                    behind = at;
                }
            }
        }
    }
    /// Comes while all texts are still there.
    void clear_dead_texts() {
        std::uint64_t& mark = this->head_.may_have_dead_texts;
        if (mark != 0) {
            for (leaf* const each : this->leaves_in_order()) {
                if (this->warm(*each)) {
                    clear_dead(*each);
                }
            }
        }
        const std::uint64_t wanted = this->in_order_ ? 1 : 0;
        if (mark != wanted) {
            const word_run run{&mark, {&wanted, 1}};
            this->heap_.store_words({&run, 1});
            this->heap_.persist(&mark, sizeof mark);
        }
    }
    void clear_dead(const leaf& of) {
        std::uint64_t* const words = of.media();
        image made;
        for (std::size_t i = 0; i < made.size(); ++i) {
            made[i] = load_word(words + i);
        }
        base::drop_dead(of, made);
        transaction tx(this->heap_);
        for (std::size_t i = 0; i < made.size(); ++i) {
            if (made[i] != load_word(words + i)) {
                tx.store(words[i], made[i]);
            }
        }
        tx.commit();
    }

    // Making leaves:

    [[nodiscard]] static std::uint64_t* make_leaf_alone(transaction& tx) {
        auto* const made = static_cast<std::uint64_t*>(tx.allocate(layout::bytes));
        std::memset(made, 0, layout::bytes);
        made[leaf_kind] = index_leaf_magic;
        return made;
    }
    /// The index becomes the chain; what it was is left to be freed. After a kill, in durability `collect`, `first`
    /// says what the index is, and tracing frees the rest.
    void start_with(transaction& tx, std::uint64_t* first, std::uint64_t* last, std::uint64_t* old) {
        index_head_on_media& head = this->head_;
        tx.store(head.first, word_of_target(&head.first, first));
        tx.store(head.last, word_of_target(&head.last, last));
        tx.store(head.cleared, word_of_target(&head.cleared, old));
    }
    void make_first_leaf() {
        index_head_on_media& head = this->head_;
        if (this->heap_.read_only()) {
            this->unmade_.assign(layout::words, 0);  // as the leaf of an open for writing
            this->unmade_[leaf_kind] = index_leaf_magic;
            return;
        }
        transaction tx(this->heap_);
        std::uint64_t* const made = make_leaf_alone(tx);
        tx.store(head.first, word_of_target(&head.first, made));
        tx.store(head.last, word_of_target(&head.last, made));
        std::uint64_t word = encode(base::shape);
        if constexpr (Order::by_hash) {
            const std::uint64_t seed = head.seed != 0 ? head.seed : random_index_seed();
            tx.store(head.seed, seed);
            word = with_seed(word, seed);
        }
        if (!this->in_order_) {
            tx.store(head.shape, word);
            tx.commit();
            return;
        }
        tx.commit();  // comes last: a kill may leave any prefix of the stores
        const word_run run{&head.shape, {&word, 1}};
        this->heap_.store_words({&run, 1});
    }

    /// With their own entries if wanted. False at the list's end.
    [[nodiscard]] bool free_some(std::uint64_t& list, bool with_entries) {
        std::uint64_t* const first = this->checked_leaf(&list);
        if (first == nullptr) {
            return false;
        }
        try {
            free_leaves(list, first, with_entries);
        } catch (const std::bad_alloc&) {
            if (!with_entries || !base::has_blocks) {
                throw;
            }
            free_entries_apart(first);  // the records of a large transaction need memory
            free_leaves(list, first, with_entries);
        }
        return true;
    }
    void free_leaves(std::uint64_t& list, std::uint64_t* at, bool with_entries) {
        constexpr std::size_t at_a_time = base::has_blocks ? 1 : 16;
        transaction tx(this->heap_);
        std::size_t freed = 0;
        for (; freed < at_a_time && at != nullptr; ++freed) {
            std::uint64_t* const next = this->checked_leaf(at + leaf_next);
            if (with_entries && base::has_blocks) {
                free_entries(tx, at, next);
            }
            if constexpr (base::text_bounds) {
                if (base::has_low(at)) {
                    tx.free(base::target(at + leaf_low));
                }
            }
            tx.free(at);
            at = next;
        }
        tx.store(list, word_of_target(&list, at));
        tx.commit();
        if (!with_entries) {  // no split may use a retired leaf that is freed
            this->retired_.resize(this->retired_.size() - std::min(freed, this->retired_.size()));
        }
    }
    /// A transaction for each cell.
    void free_entries_apart(std::uint64_t* words) const {
        const std::uint64_t* const next = this->checked_leaf(words + leaf_next);
        for (std::size_t first = 0; first < layout::slots; first += layout::per_cell) {
            transaction tx(this->heap_);
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
        if (!has_entry(base::header_at(words, slot), layout::entry_of(slot))) {
            return;
        }
        if constexpr (key_words::is_block) {
            this->check_text(words + layout::word_of(slot, 0));
        }
        if (next != nullptr && !(this->bound_at(words, slot) < base::low_of(next))) {
            return;
        }
        if constexpr (key_words::is_block) {
            tx.free(base::target(words + layout::word_of(slot, 0)));
        }
        if constexpr (value_words::is_block) {
            tx.free(base::target(words + layout::word_of(slot, key_words::words)));
        }
    }
};

}  // namespace holdfast::detail
