// The inner nodes of an index, and its leaves in DRAM, made from the chain on media.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/detail/index_update.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_tree : public index_update<Key, Value, Order> {
    using base = index_update<Key, Value, Order>;

public:
    using base::base;
    using typename base::inner;
    using typename base::leaf;
    using typename base::separator;

protected:
    ~index_tree() = default;

    [[nodiscard]] std::uint64_t* first() const { return this->checked_leaf(&this->head_.first); }

    [[nodiscard]] std::vector<leaf*> leaves_in_order() const {
        std::vector<leaf*> all;
        add_leaves_below(this->root_.load(), all);
        return all;
    }

    // Walking the chain:

    struct walk_state {
        std::vector<leaf*> nodes;
        std::atomic<const std::uint64_t*> at{nullptr};  ///< a leaf that was passed
        bool is_broken = false;                         ///< of the walk from the end, by hints
        std::size_t reserved = 0;                       ///< nodes
        bool has_wrong_hint = false;                    ///< that the walk from the begin has seen
    };
    static constexpr std::size_t between_looks = 64;

    [[nodiscard]] static leaf* as_node(leaf* made, std::uint64_t* words) noexcept {
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
        return as_node(this->leaf_pool_.take(), words);
    }
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
    /// Null at the end (IDX-1).
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
    /// Returns where it stopped; null: at the end.
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
    /// Hints, which a crash may have left old, are compared with `next`.
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
    /// Durability `collect`: a kill leaves old ones.
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
    /// What only the walk from the end has found.
    void join(walk_state& ahead, walk_state& back) {
        const std::uint64_t* const reached = ahead.nodes.back()->media();
        std::size_t fresh = 0;  // of back.nodes, in descending order
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

    // Inner nodes:

    [[nodiscard]] separator separator_of(const leaf& behind) const {
        return typename base::new_separator(base::low_of(behind.media())).release();
    }
    struct tree {
        index_node* root;
        std::size_t height;
        typename Order::directory::prepared directory;
    };
    /// Takes the leaves; where it throws, they are given back.
    [[nodiscard]] tree make_tree(const std::vector<leaf*>& leaves) {
        std::vector<index_node*> children;
        std::vector<separator> between;
        try {
            children.assign(leaves.begin(), leaves.end());
            between.reserve(leaves.size());
            for (std::size_t i = 1; i < leaves.size(); ++i) {
                between.push_back(separator_of(*leaves[i]));
            }
            if constexpr (Order::by_hash) {
                for (std::size_t i = 0; i < leaves.size(); ++i) {
                    leaves[i]->set(i == 0 ? 0 : between[i - 1],
                                   i + 1 < leaves.size() ? between[i] - 1 : ~std::uint64_t{0});
                }
            }
            tree made{nullptr, 0, this->directory_.prepare(leaves.size())};
            for (; children.size() > 1; ++made.height) {
                build_level(children, between);
            }
            made.root = children.front();
            return made;
        } catch (...) {
            if constexpr (base::text_bounds) {
                for (const std::string* const each : between) {
                    static_cast<void>(std::unique_ptr<const std::string>(each));
                }
            }
            if (children.empty()) {
                for (leaf* const each : leaves) {
                    give_back(each);
                }
            }
            for (index_node* const each : children) {
                give_back_all(each);
            }
            throw;
        }
    }
    [[nodiscard]] tree tree_of(std::uint64_t* begin) {
        walk_state own;
        try {
            static_cast<void>(walk_ahead(own, begin, nullptr, ~std::size_t{0}));
        } catch (...) {
            for (leaf* const each : own.nodes) {
                give_back(each);
            }
            this->leaf_pool_.cancel(own.reserved);
            throw;
        }
        this->leaf_pool_.cancel(own.reserved);
        return make_tree(own.nodes);
    }
    void use(tree made) noexcept {
        this->directory_.use(std::move(made.directory));
        this->height_.store(made.height);
        this->root_.store(made.root, std::memory_order_release);
    }
    /// Replaces nodes, and what parts them, by their parents. Where it throws, nothing has changed.
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
    void forget_nodes() noexcept { give_back_all(this->root_.exchange(nullptr)); }
    /// Also the texts of separators.
    void give_back_all(index_node* root) noexcept {
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

    bool hints_are_wrong_ = false;
    std::vector<std::uint64_t> unmade_;  ///< of an empty index in a heap open read-only
};

}  // namespace holdfast::detail
