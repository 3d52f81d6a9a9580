// Opening an ordered_index: its inner nodes are made from the chain of leaves, by two threads that come from both ends;
// the leaves themselves are read when they are first used. Also what needs the index alone: clear() and bulk_load().
// Not for users.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/detail/index_update.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_open : public index_update<Key, Value, Order> {
    using base = index_update<Key, Value, Order>;

public:
    using base::base;
    using typename base::image;
    using typename base::inner;
    using typename base::key_words;
    using typename base::layout;
    using typename base::leaf;
    using typename base::separator;
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
        const std::vector<leaf*> leaves = walk();
        build(leaves);
        if (!this->heap_.read_only()) {
            mend_hints(leaves);
            if constexpr (base::text_keys) {
                clear_dead_texts();
            }
            free_left_overs();
        }
    }

    void clear() {
        this->refuse_read_only();
        free_left_overs();
        transaction tx(this->heap_);
        std::uint64_t* const made = make_leaf_alone(tx);
        start_with(tx, made, made, this->first());
        tx.commit();
        forget_nodes();
        build({add_node(made)});
        free_left_overs();
    }

    /// Takes sorted entries into an empty index. `next(key, value)` gives one at a time; false at the end.
    template <class Next>
    void bulk_load(Next&& next) {
        this->refuse_read_only();
        free_left_overs();
        chain made;
        try {
            while (add_leaves(made, next)) {
            }
        } catch (...) {
            free_left_overs();
            throw;
        }
        if (made.last == nullptr) {
            return;
        }
        std::uint64_t* const begin = base::target(&this->head_.cleared);
        if (this->in_order_) {  // a kill must not leave two ways to the chain
            const std::uint64_t nothing = 0;
            const word_run run{&this->head_.cleared, {&nothing, 1}};
            this->heap_.store_words({&run, 1});
        }
        transaction tx(this->heap_);
        start_with(tx, begin, made.last, this->first());
        tx.commit();
        forget_nodes();
        build(walk());
        free_left_overs();
    }

    /// Frees all but the head; the index is not used again.
    void free_all() {
        clear();
        transaction tx(this->heap_);
        tx.free(first());
        tx.store(this->head_.shape, 0);
        tx.store(this->head_.first, 0);
        tx.store(this->head_.last, 0);
        tx.commit();
    }

protected:
    ~index_open() = default;

    [[nodiscard]] std::uint64_t* first() const { return this->checked_leaf(&this->head_.first); }

    /// The leaves in the order of their keys.
    [[nodiscard]] std::vector<leaf*> leaves_in_order() const {
        std::vector<leaf*> all;
        add_leaves_below(this->root_.load(), all);
        return all;
    }

private:
    static constexpr std::size_t slots_filled = layout::slots * 9 / 10;  ///< by bulk_load()

    /// Throws error(corrupt) where it is that of another index.
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
    /// While all texts are still there.
    void clear_dead_texts() {
        std::uint64_t& mark = this->head_.may_have_dead_texts;
        if (mark != 0) {
            for (leaf* const each : leaves_in_order()) {
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

    // --- making leaves ---

    /// A leaf without entries and low key, in a transaction.
    [[nodiscard]] static std::uint64_t* make_leaf_alone(transaction& tx) {
        auto* const made = static_cast<std::uint64_t*>(tx.allocate(layout::bytes));
        std::memset(made, 0, layout::bytes);
        made[leaf_kind] = index_leaf_magic;
        return made;
    }
    /// The index becomes the chain; what it was is left to be freed. A kill within, in durability `collect`, leaves
    /// what `first` says, and tracing frees the rest.
    void start_with(transaction& tx, std::uint64_t* first, std::uint64_t* last, std::uint64_t* old) {
        index_head_on_media& head = this->head_;
        tx.store(head.first, word_of_target(&head.first, first));
        tx.store(head.last, word_of_target(&head.last, last));
        tx.store(head.cleared, word_of_target(&head.cleared, old));
    }
    void make_first_leaf() {
        index_head_on_media& head = this->head_;
        if (this->heap_.read_only()) {
            unmade_.assign(layout::words, 0);  // as the leaf that an open for writing will make
            unmade_[leaf_kind] = index_leaf_magic;
            return;
        }
        transaction tx(this->heap_);
        std::uint64_t* const made = make_leaf_alone(tx);
        tx.store(head.first, word_of_target(&head.first, made));
        tx.store(head.last, word_of_target(&head.last, made));
        std::uint64_t shape = encode(base::shape);
        if constexpr (Order::by_hash) {
            const std::uint64_t seed = head.seed != 0 ? head.seed : random_index_seed();
            tx.store(head.seed, seed);
            shape = with_seed(shape, seed);
        }
        if (!this->in_order_) {
            tx.store(head.shape, shape);
            tx.commit();
            return;
        }
        tx.commit();  // what makes the rest count comes last: a kill may leave any prefix of the stores
        const word_run run{&head.shape, {&shape, 1}};
        this->heap_.store_words({&run, 1});
    }

    /// Leaves that bulk_load() has made so far; head.cleared leads to the first.
    struct chain {
        std::uint64_t* last = nullptr;
        std::optional<typename base::owned_key> largest;
    };
    /// Adds some leaves in one transaction. False after the last entry.
    template <class Next>
    [[nodiscard]] bool add_leaves(chain& to, Next& next) {
        constexpr std::size_t at_a_time = base::has_blocks ? 1 : 16;
        transaction tx(this->heap_);
        chain made = to;
        bool more = true;
        for (std::size_t i = 0; i < at_a_time && more; ++i) {
            more = add_leaf(tx, to, made, next);
        }
        tx.commit();
        to = std::move(made);
        return more;
    }
    template <class Next>
    [[nodiscard]] bool add_leaf(transaction& tx, const chain& before, chain& to, Next& next) {
        std::uint64_t* words = nullptr;
        image made;
        made.fill(0);
        std::size_t count = 0;
        free_slots<layout> places;
        std::pair<Key, Value> entry;
        bool more = true;
        while (count < slots_filled && (more = next(entry))) {
            this->refuse_long(entry.first);
            this->refuse_long(entry.second);
            if (to.largest && !(Key(*to.largest) < entry.first)) {
                throw_index_argument(this->heap_, "keys of bulk_load", "one that is not larger than that before it",
                                     "ascending keys");
            }
            if (count == 0) {
                words = static_cast<std::uint64_t*>(tx.allocate(layout::bytes));
                made[leaf_kind] = index_leaf_magic;
                if (to.last != nullptr) {
                    made[leaf_kind] |= leaf_has_low;
                    made[leaf_previous] = word_of_target(words + leaf_previous, to.last);
                    base::put_low(tx, made, words, this->order_.bound_of(entry.first));
                }
            }
            const std::uint8_t print = fingerprint<Key>(entry.first);
            const std::size_t slot = places.take_for(print);
            put_field(tx, made, words, slot, 0, entry.first);
            put_field(tx, made, words, slot, key_words::words, entry.second);
            base::set_entry(made.data(), slot, print);
            to.largest = typename base::owned_key(entry.first);
            ++count;
        }
        if (words != nullptr) {
            std::memcpy(words, made.data(), sizeof made);
            append(tx, before, to, words);
        }
        return more;
    }
    void append(transaction& tx, const chain& before, chain& to, std::uint64_t* words) {
        if (to.last == nullptr) {
            tx.store(this->head_.cleared, word_of_target(&this->head_.cleared, words));
        } else if (to.last == before.last) {
            tx.store(to.last[leaf_next], word_of_target(to.last + leaf_next, words));
        } else {
            to.last[leaf_next] = word_of_target(to.last + leaf_next, words);  // a block of this transaction
        }
        to.last = words;
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

    // --- walking the chain ---

    struct walk_state {
        std::vector<leaf*> nodes;
        std::atomic<const std::uint64_t*> at{nullptr};  ///< a leaf that it has passed
        bool is_broken = false;                         ///< of the walk from the end, which follows hints
        std::size_t reserved = 0;                       ///< nodes
        bool has_wrong_hint = false;                    ///< that the walk from the begin has seen
    };
    static constexpr std::size_t between_looks = 64;

    [[nodiscard]] leaf* add_node(std::uint64_t* words) {
        this->leaf_pool_.reserve(1);
        return fill_node(words);
    }
    [[nodiscard]] leaf* fill_node(std::uint64_t* words) noexcept {
        leaf* const made = this->leaf_pool_.take();
        made->forget();
        made->words.store(words, std::memory_order_release);
        return made;
    }
    [[nodiscard]] leaf* next_node(walk_state& own, std::uint64_t* words) {
        if (own.reserved == 0) {
            this->leaf_pool_.reserve(between_looks);
            own.reserved = between_looks;
        }
        --own.reserved;
        return fill_node(words);
    }
    /// Whether `a` lies before `b` in the order of keys.
    [[nodiscard]] static bool is_before(const std::uint64_t* a, const std::uint64_t* b) noexcept {
        if (!base::has_low(b)) {
            return false;
        }
        if constexpr (Order::by_hash) {
            return (base::has_low(a) ? base::low_of(a) : 0) < base::low_of(b);
        } else {
            return !base::has_low(a) || base::low_of(a) < base::low_of(b);
        }
    }
    /// The leaf behind, or null (IDX-1).
    [[nodiscard]] std::uint64_t* following(const std::uint64_t* words) const {
        std::uint64_t* const next = this->checked_leaf(words + leaf_next);
        if (next != nullptr && !is_before(words, next)) {
            this->corrupt("IDX-1, the low key of a leaf", "one that is not larger than that of the leaf before",
                          "ascending keys");
        }
        return next;
    }
    [[nodiscard]] std::vector<leaf*> walk() {
        constexpr std::size_t alone = 4096;  // fewer leaves are not worth a thread
        walk_state ahead;
        std::uint64_t* at = unmade_.empty() ? first() : unmade_.data();
        if (at == nullptr || base::has_low(at)) {
            this->corrupt("IDX-1, the first leaf", at == nullptr ? "none" : "one with a low key", "one without");
        }
        at = walk_ahead(ahead, at, nullptr, alone);
        hints_are_wrong_ = ahead.has_wrong_hint;
        if (at == nullptr) {
            this->leaf_pool_.cancel(std::exchange(ahead.reserved, 0));
            return std::move(ahead.nodes);
        }
        walk_state back;
        {
            const std::jthread other([&] { walk_back(back, ahead); });
            at = walk_ahead(ahead, at, &back, ~std::size_t{0});
        }
        join(ahead, back);
        static_cast<void>(walk_ahead(ahead, following(ahead.nodes.back()->media()), nullptr, ~std::size_t{0}));
        this->leaf_pool_.cancel(ahead.reserved + back.reserved);
        hints_are_wrong_ = ahead.has_wrong_hint || back.is_broken;
        return std::move(ahead.nodes);
    }
    /// Returns where it stopped: null at the end of the chain.
    [[nodiscard]] std::uint64_t* walk_ahead(walk_state& own, std::uint64_t* at, const walk_state* other,
                                            std::size_t most) {
        for (std::size_t i = 1; at != nullptr && i <= most; ++i) {
            own.nodes.push_back(next_node(own, at));
            if (other != nullptr && i % between_looks == 0) {
                own.at.store(at, std::memory_order_release);
                const std::uint64_t* const met = other->at.load(std::memory_order_acquire);
                if (met != nullptr && !is_before(at, met)) {
                    return at;
                }
            }
            std::uint64_t* const next = following(at);
            own.has_wrong_hint =
                own.has_wrong_hint || base::target(next == nullptr ? &this->head_.last : next + leaf_previous) != at;
            at = next;
        }
        return at;
    }
    /// Follows hints, of which a crash may have left old ones; each is compared with `next`.
    void walk_back(walk_state& own, const walk_state& other) noexcept {
        try {
            std::uint64_t* at = this->checked_leaf(&this->head_.last);
            own.is_broken = at == nullptr || base::next_of(at) != nullptr;
            for (std::size_t i = 1; !own.is_broken; ++i) {
                own.nodes.push_back(next_node(own, at));
                if (i % between_looks == 0) {
                    own.at.store(at, std::memory_order_release);
                    const std::uint64_t* const met = other.at.load(std::memory_order_acquire);
                    if (met != nullptr && !is_before(met, at)) {
                        return;
                    }
                }
                std::uint64_t* const before = this->checked_leaf(at + leaf_previous);
                own.is_broken = before == nullptr || base::next_of(before) != at || !is_before(before, at);
                at = before;
            }
        } catch (const std::exception& /*the walk ahead says what it is*/) {
            own.is_broken = true;
        }
    }
    /// Durability `collect`: a kill between two stores leaves old hints.
    void mend_hints(const std::vector<leaf*>& leaves) {
        if (!hints_are_wrong_) {
            return;
        }
        const auto mend = [this](std::uint64_t& hint, const std::uint64_t* to) {
            const std::uint64_t wanted = word_of_target(&hint, to);
            if (load_word(&hint) != wanted) {
                const word_run run{&hint, {&wanted, 1}};
                this->heap_.store_words({&run, 1});
            }
        };
        for (std::size_t i = 1; i < leaves.size(); ++i) {
            mend(leaves[i]->media()[leaf_previous], leaves[i - 1]->media());
        }
        mend(this->head_.last, leaves.back()->media());
    }
    /// Takes over what the walk from the end has found and the one from the begin has not.
    void join(walk_state& ahead, walk_state& back) {
        const std::uint64_t* const reached = ahead.nodes.back()->media();
        std::size_t fresh = 0;  // of back.nodes, which come in descending order
        while (fresh < back.nodes.size() && is_before(reached, back.nodes[fresh]->media())) {
            ++fresh;
        }
        const bool fits = fresh > 0 && base::next_of(reached) == back.nodes[fresh - 1]->media();
        for (std::size_t i = back.nodes.size(); i-- > 0;) {
            if (fits && i < fresh) {
                ahead.nodes.push_back(back.nodes[i]);
            } else {
                this->leaf_pool_.give(back.nodes[i]);
            }
        }
    }

    // --- inner nodes ---

    [[nodiscard]] separator separator_of(const leaf& behind) const {
        return typename base::new_separator(base::low_of(behind.media())).release();
    }
    void build(const std::vector<leaf*>& leaves) {
        std::vector<index_node*> children(leaves.begin(), leaves.end());
        std::vector<separator> between;
        between.reserve(leaves.size());
        for (std::size_t i = 1; i < leaves.size(); ++i) {
            between.push_back(separator_of(*leaves[i]));
        }
        if constexpr (Order::by_hash) {
            for (std::size_t i = 0; i < leaves.size(); ++i) {
                leaves[i]->set(i == 0 ? 0 : between[i - 1], i + 1 < leaves.size() ? between[i] - 1 : ~std::uint64_t{0});
            }
        }
        this->directory_.reset(leaves.size());
        std::size_t height = 0;
        for (; children.size() > 1; ++height) {
            build_level(children, between);
        }
        this->height_.store(height);
        this->root_.store(children.front(), std::memory_order_release);
    }
    /// Replaces nodes by their parents, and what parts nodes by what parts parents.
    void build_level(std::vector<index_node*>& children, std::vector<separator>& between) {
        constexpr std::size_t wanted = inner::most * 3 / 4;
        const std::size_t parents = (children.size() + wanted - 1) / wanted;
        std::vector<index_node*> above;
        std::vector<separator> above_between;
        above.reserve(parents);
        above_between.reserve(parents);
        this->inner_pool_.reserve(parents);
        for (std::size_t p = 0; p < parents; ++p) {
            const std::size_t begin = children.size() * p / parents;
            const std::size_t end = children.size() * (p + 1) / parents;
            inner* const made = this->inner_pool_.take();
            for (std::size_t i = begin; i < end; ++i) {
                made->children[i - begin].set(children[i]);
                if (i > begin) {
                    made->separators[i - begin - 1].set(between[i - 1]);
                }
            }
            made->count.store(static_cast<std::uint32_t>(end - begin - 1), std::memory_order_release);
            above.push_back(made);
            if (end < children.size()) {
                above_between.push_back(between[end - 1]);
            }
        }
        children = std::move(above);
        between = std::move(above_between);
    }
    void add_leaves_below(index_node* node, std::vector<leaf*>& all) const {
        if (node->is_leaf) {
            all.push_back(static_cast<leaf*>(node));
            return;
        }
        const auto& at = static_cast<const inner&>(*node);
        for (std::size_t i = 0; i <= at.count.load(std::memory_order_relaxed); ++i) {
            add_leaves_below(at.child(i), all);
        }
    }
    /// Gives back all nodes; no other thread uses the index.
    void forget_nodes() noexcept {
        index_node* const root = this->root_.exchange(nullptr);
        base::free_texts(root);
        give_back(root);
    }
    void give_back(index_node* node) noexcept {
        if (node->is_leaf) {
            this->leaf_pool_.give(static_cast<leaf*>(node));
            return;
        }
        auto* const at = static_cast<inner*>(node);
        for (std::size_t i = 0; i <= at->count.load(std::memory_order_relaxed); ++i) {
            give_back(at->child(i));
        }
        this->inner_pool_.give(at);
    }

    // --- what is left to be freed ---

    void free_left_overs() {
        while (free_some(this->head_.cleared, true)) {
        }
        while (free_some(this->head_.retired, false)) {
        }
        this->retired_.clear();
    }
    /// Frees the first leaves of a list, with their entries where they are the leaf's own. False at its end.
    [[nodiscard]] bool free_some(std::uint64_t& list, bool with_entries) {
        constexpr std::size_t at_a_time = base::has_blocks ? 1 : 16;
        std::uint64_t* at = this->checked_leaf(&list);
        if (at == nullptr) {
            return false;
        }
        transaction tx(this->heap_);
        for (std::size_t i = 0; i < at_a_time && at != nullptr; ++i) {
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
        return true;
    }
    void free_entries(transaction& tx, const std::uint64_t* words, const std::uint64_t* next) const {
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            if (!has_entry(base::header_at(words, slot), layout::entry_of(slot))) {
                continue;
            }
            if constexpr (key_words::is_block) {
                this->check_text(words + layout::word_of(slot, 0));
            }
            if (next != nullptr && !(this->bound_at(words, slot) < base::low_of(next))) {
                continue;  // the next leaf's
            }
            if constexpr (key_words::is_block) {
                tx.free(base::target(words + layout::word_of(slot, 0)));
            }
            if constexpr (value_words::is_block) {
                tx.free(base::target(words + layout::word_of(slot, key_words::words)));
            }
        }
    }

    bool hints_are_wrong_ = false;
    std::vector<std::uint64_t> unmade_;  ///< the first leaf of an index without one, in a heap open read-only
};

}  // namespace holdfast::detail
