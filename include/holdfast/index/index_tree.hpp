// An open index as a tree: the chain of leaves on media and the nodes in DRAM that lead to them, changed together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/index/chain_walk.hpp>
#include <holdfast/index/index_load.hpp>
#include <holdfast/index/inner_tree.hpp>
#include <holdfast/index/leaf_chain.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_tree {
public:
    using types = index_types<Key, Value, Order>;
    using bound = typename types::bound;
    using chain_type = leaf_chain<Key, Value, Order>;
    using inner = typename types::inner;
    using layout = typename types::layout;
    using leaf = typename types::leaf;
    using media_type = index_media<Key, Value, Order>;
    using node_tree = inner_tree<Key, Value, Order>;
    using found_leaf = typename node_tree::found_leaf;

    /// Throws error(corrupt).
    index_tree(manager& heap, std::string_view name, index_head_on_media& head) : chain_(heap, name, head) {
        chain_walk<Key, Value, Order> walk(chain_, nodes_.leaf_pool());
        const std::vector<leaf*> leaves = walk.walk();
        chain_.check_left_overs(leaves);
        nodes_.use(nodes_.build(leaves));
        if (!heap.read_only()) {
            if (walk.hints_are_wrong()) {
                chain_.mend_hints(leaves);
            }
            if constexpr (types::text_keys) {
                chain_.clear_dead_texts(leaves);
            }
            try {
                chain_.free_left_overs();
            } catch (const std::bad_alloc& /*the next open or clear() frees them*/) {
            }
        }
    }
    index_tree(const index_tree&) = delete;
    index_tree& operator=(const index_tree&) = delete;
    ~index_tree() = default;

    [[nodiscard]] const media_type& media() const noexcept { return chain_.media(); }
    [[nodiscard]] const chain_type& chain() const noexcept { return chain_; }
    [[nodiscard]] const node_tree& nodes() const noexcept { return nodes_; }

    [[nodiscard]] found_leaf descend_to(const Key& key, std::uint8_t print) const {
        return nodes_.descend_to(media().order().bound_of(key), print);
    }
    /// Else reads the leaf, and the caller looks again.
    [[nodiscard]] bool is_warm(const found_leaf& at) const {
        if (!at.node->cold.load(std::memory_order_acquire)) [[likely]] {
            return true;
        }
        if (at.node->lock.lock_if(at.version)) {
            const write_guard hold(at.node->lock);
            if (at.node->cold.load(std::memory_order_relaxed)) {
                static_cast<void>(media().warm(*at.node));
            }
        }
        return false;
    }

    static constexpr std::size_t few_entries = layout::slots / 8;  ///< a leaf with fewer looks for a neighbour

    /// The caller has the leaf's lock, and looks the key up again. Throws error(limit) where its keys have one hash.
    void split(leaf& full, const Key& key) {
        const typename chain_type::order sorted = media().sort_live(full);
        std::size_t stay = 0;
        typename node_tree::new_separator between(chain_.part(full, sorted, media().order().bound_of(key), stay));
        node_reservation<leaf> leaves(nodes_.leaf_pool(), 1);
        node_reservation<inner> inners = nodes_.reserve_inner_nodes();
        typename node_tree::path steps;
        steps.reserve(node_tree::most_levels);

        const std::span<const std::uint8_t> moved(sorted.slot.data() + stay, sorted.count - stay);
        const typename chain_type::order places = chain_type::places_of(full, moved);
        std::uint64_t* const made = chain_.split_off(full.media(), moved, places, between.low());

        leaf* const node = leaves.take();
        node->lock.lock();  // an earlier life may have left it in a directory
        const write_guard node_guard(node->lock);
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
        const auto structure = nodes_.lock_structure();
        nodes_.find_path(between.low(), steps);
        nodes_.insert_behind(steps, node, between.release(), inners);
        nodes_.grow_directory();
    }

    /// After a removal, if both fit well.
    void merge(const bound& place) {
        const auto structure = nodes_.lock_structure();
        typename node_tree::path steps = nodes_.path_to(place);
        if (steps.empty()) {
            return;
        }
        if (steps.back().node->count.load(std::memory_order_relaxed) == 0) {
            nodes_.refill(steps);
            steps = nodes_.path_to(place);
        }
        if (steps.empty() || steps.back().node->count.load(std::memory_order_relaxed) == 0) {
            return;
        }
        inner& parent = *steps.back().node;
        const std::size_t at = steps.back().child;
        nodes_.reserve_removal();
        if ((at < parent.count.load(std::memory_order_relaxed) && unite(parent, at)) ||
            (at > 0 && unite(parent, at - 1))) {
            nodes_.refill(steps);
        }
    }

    /// Where it throws, nothing has changed.
    void clear() {
        media().refuse_read_only();
        chain_.free_left_overs();
        node_reservation<leaf> leaves(nodes_.leaf_pool(), 1);
        auto directory = nodes_.prepare_directory(1);
        std::uint64_t* const made = chain_.clear();
        leaf* const node = chain_walk<Key, Value, Order>::as_node(leaves.take(), made);
        if constexpr (Order::by_hash) {
            node->set(0, ~std::uint64_t{0});
        }
        nodes_.use({node, 0, std::move(directory)});
        chain_.free_or_leave();
    }

    /// Frees all but the head.
    void free_all() {
        clear();
        chain_.free_last_leaf();
    }

    /// Into an empty index. Where it throws, the index is empty.
    template <class Source>
    void load(Source&& source) {
        media().refuse_read_only();
        chain_.free_left_overs();
        std::uint64_t* last = nullptr;
        try {
            last = chain_load<Key, Value, Order>(chain_).append_all(source);
        } catch (...) {
            chain_.free_or_leave();
            throw;
        }
        if (last == nullptr) {
            return;
        }
        std::uint64_t* const begin = types::target(&media().head().cleared);
        typename node_tree::tree loaded;
        try {
            loaded = nodes_.build(chain_walk<Key, Value, Order>(chain_, nodes_.leaf_pool()).walk_from(begin));
            chain_.link(begin, last);
        } catch (...) {
            if (loaded.root != nullptr) {
                nodes_.recycle_all(loaded.root);
            }
            chain_.free_or_leave();
            throw;
        }
        nodes_.use(std::move(loaded));
        chain_.free_or_leave();
    }

private:
    /// False where it cannot be now.
    [[nodiscard]] bool unite(inner& parent, std::size_t at) {
        leaf& left = static_cast<leaf&>(*parent.child(at));
        leaf& right = static_cast<leaf&>(*parent.child(at + 1));
        if (!left.lock.try_lock()) {
            return false;
        }
        write_guard left_guard(left.lock);
        if (!right.lock.try_lock()) {
            return false;
        }
        write_guard right_guard(right.lock);
        for (leaf* const each : {&left, &right}) {
            if (each->cold.load(std::memory_order_relaxed)) {
                static_cast<void>(media().warm(*each));
            }
        }
        if (left.count() + right.count() > layout::slots * 5 / 8) {
            return false;
        }
        chain_.unite(left, right);
        if constexpr (Order::by_hash) {
            left.set(left.first(), right.last());
        }
        nodes_.remove_behind(parent, at);
        right.forget();
        right_guard.unlock();
        left_guard.unlock();
        nodes_.leaf_pool().give(&right);
        return true;
    }

    chain_type chain_;
    node_tree nodes_;
};

}  // namespace holdfast::detail
