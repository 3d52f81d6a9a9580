// The leaves of an index in DRAM, made from the chain on media by two threads that come from both ends; a leaf is read
// at its first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/index/inner_tree.hpp>
#include <holdfast/index/leaf_chain.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class chain_walk {
    using types = index_types<Key, Value, Order>;
    using leaf = typename types::leaf;
    using chain = leaf_chain<Key, Value, Order>;

public:
    chain_walk(const chain& of, node_pool<leaf>& nodes) : chain_(of), media_(of.media()), nodes_(nodes) {}

    /// The leaves of the index. Throws error(corrupt).
    [[nodiscard]] std::vector<leaf*> walk() {
        constexpr std::size_t alone = 4096;  // fewer leaves are not worth a thread
        walk_state ahead;
        std::uint64_t* at = chain_.first();
        if (at == nullptr || types::has_low(at)) {
            media_.corrupt("IDX-1, the first leaf", at == nullptr ? "none" : "one with a low key", "one without");
        }
        at = walk_ahead(ahead, at, nullptr, alone);
        hints_are_wrong_ = ahead.has_wrong_hint;
        if (at == nullptr) {
            nodes_.cancel(std::exchange(ahead.reserved, 0));
            return std::move(ahead.nodes);
        }
        walk_state back;
        {
            const std::jthread other([&] { walk_back(back, ahead); });
            at = walk_ahead(ahead, at, &back, ~std::size_t{0});
        }
        join(ahead, back);
        static_cast<void>(walk_ahead(ahead, chain_.following(ahead.nodes.back()->media()), nullptr, ~std::size_t{0}));
        nodes_.cancel(ahead.reserved + back.reserved);
        hints_are_wrong_ = ahead.has_wrong_hint || back.is_broken;
        return std::move(ahead.nodes);
    }
    /// Those from a leaf on. Where it throws, they are given back.
    [[nodiscard]] std::vector<leaf*> walk_from(std::uint64_t* begin) {
        walk_state own;
        try {
            static_cast<void>(walk_ahead(own, begin, nullptr, ~std::size_t{0}));
        } catch (...) {
            for (leaf* const each : own.nodes) {
                nodes_.give(each);
            }
            nodes_.cancel(own.reserved);
            throw;
        }
        nodes_.cancel(own.reserved);
        return std::move(own.nodes);
    }
    /// That walk() has seen.
    [[nodiscard]] bool hints_are_wrong() const noexcept { return hints_are_wrong_; }

    [[nodiscard]] static leaf* as_node(leaf* made, std::uint64_t* words) noexcept {
        made->forget();
        made->words.store(words, std::memory_order_release);
        return made;
    }

private:
    struct walk_state {
        std::vector<leaf*> nodes;
        std::atomic<const std::uint64_t*> at{nullptr};  ///< a leaf that was passed
        bool is_broken = false;                         ///< of the walk from the end, by hints
        std::size_t reserved = 0;                       ///< nodes
        bool has_wrong_hint = false;                    ///< that the walk from the begin has seen
    };
    static constexpr std::size_t between_checks = 64;

    [[nodiscard]] leaf* next_node(walk_state& own, std::uint64_t* words) {
        if (own.reserved == 0) {
            nodes_.reserve(between_checks);
            own.reserved = between_checks;
        }
        --own.reserved;
        return as_node(nodes_.take(), words);
    }
    /// Returns where it stopped; null: at the end.
    [[nodiscard]] std::uint64_t* walk_ahead(walk_state& own, std::uint64_t* at, const walk_state* other,
                                            std::size_t most) {
        for (std::size_t i = 1; at != nullptr && i <= most; ++i) {
            own.nodes.push_back(next_node(own, at));
            if (other != nullptr && i % between_checks == 0) {
                own.at.store(at, std::memory_order_release);
                const std::uint64_t* const met = other->at.load(std::memory_order_acquire);
                if (met != nullptr && !chain::is_before(at, met)) {
                    return at;
                }
            }
            std::uint64_t* const next = chain_.following(at);
            own.has_wrong_hint =
                own.has_wrong_hint || types::target(next == nullptr ? &media_.head().last : next + leaf_previous) != at;
            at = next;
        }
        return at;
    }
    /// Hints, which a crash may have left old, are compared with `next`.
    void walk_back(walk_state& own, const walk_state& other) noexcept {
        try {
            std::uint64_t* at = media_.checked_leaf(&media_.head().last);
            own.is_broken = at == nullptr || types::next_of(at) != nullptr;
            for (std::size_t i = 1; !own.is_broken; ++i) {
                own.nodes.push_back(next_node(own, at));
                if (i % between_checks == 0) {
                    own.at.store(at, std::memory_order_release);
                    const std::uint64_t* const met = other.at.load(std::memory_order_acquire);
                    if (met != nullptr && !chain::is_before(met, at)) {
                        return;
                    }
                }
                std::uint64_t* const before = media_.checked_leaf(at + leaf_previous);
                own.is_broken = before == nullptr || types::next_of(before) != at || !chain::is_before(before, at);
                at = before;
            }
        } catch (const std::exception& /*the walk ahead says what it is*/) {
            own.is_broken = true;
        }
    }
    /// What only the walk from the end has found.
    void join(walk_state& ahead, walk_state& back) {
        const std::uint64_t* const reached = ahead.nodes.back()->media();
        std::size_t fresh = 0;  // of back.nodes, in descending order
        while (fresh < back.nodes.size() && chain::is_before(reached, back.nodes[fresh]->media())) {
            ++fresh;
        }
        const bool fits = fresh > 0 && types::next_of(reached) == back.nodes[fresh - 1]->media();
        for (std::size_t i = back.nodes.size(); i-- > 0;) {
            if (fits && i < fresh) {
                ahead.nodes.push_back(back.nodes[i]);
            } else {
                nodes_.give(back.nodes[i]);
            }
        }
    }

    const chain& chain_;
    const index_media<Key, Value, Order>& media_;
    node_pool<leaf>& nodes_;
    bool hints_are_wrong_ = false;
};

}  // namespace holdfast::detail
