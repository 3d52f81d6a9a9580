// The inner nodes of an index, which are in DRAM alone, and the pools of all its nodes. Readers go on while one thread
// changes inner nodes under lock_structure().
//
// A node is locked while it changes, together with its parent where separators move between the two, so that a reader
// that came through the parent sees a version change. A node that leaves the tree has a new version before it is used
// again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/index/index_media.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class inner_tree {
public:
    using types = index_types<Key, Value, Order>;
    using bound = typename types::bound;
    using inner = typename types::inner;
    using layout = typename types::layout;
    using leaf = typename types::leaf;
    using separator = typename types::separator;

    inner_tree() = default;
    inner_tree(const inner_tree&) = delete;
    inner_tree& operator=(const inner_tree&) = delete;
    ~inner_tree() {
        if (made_in_ == process_identity()) {  // else other threads of the parent may have been changing it
            free_texts(root_.load());
        }
    }

    /// Where separators are no texts.
    struct no_section {
        explicit no_section(grace_periods& /*of*/) noexcept {}
    };
    using section = std::conditional_t<types::text_bounds, grace_periods::section, no_section>;

    /// For a section, within which a call reads separators.
    [[nodiscard]] grace_periods& grace() const noexcept { return grace_; }

    // Descents:

    struct found_leaf {
        leaf* node;
        std::uint64_t version;
    };
    struct leaf_bounds {
        std::optional<separator> low;
        std::optional<separator> high;
    };

    /// Fetches the cell where that entry is likely to lie together with the leaf's fingerprints.
    [[nodiscard]] found_leaf descend_to(const bound& place, std::uint8_t print) const {
        const auto fetch = [header = layout::header_of(layout::likely_cell(print))](const std::uint64_t* words) {
            constexpr std::size_t beside = layout::cell_words <= 8 ? layout::cell_words / 2 : 0;
            __builtin_prefetch(words + header - beside);
            __builtin_prefetch(words + header + beside);
        };
        if constexpr (Order::by_hash) {
            const child_link& link = directory_.entry(place);
            if (index_node* const node = link.node.load(std::memory_order_acquire); node != nullptr) [[likely]] {
                fetch(link.words.load(std::memory_order_relaxed));
                prefetch_node(node);
                const std::uint64_t version = node->lock.version();
                if (auto* const of = static_cast<leaf*>(node); of->contains(place)) [[likely]] {
                    return {of, version};
                }
            }
        }
        const found_leaf found = walk_down([&](const inner& at) { return at.find(place, true); }, nullptr, fetch);
        if constexpr (Order::by_hash) {
            const std::uint64_t first = found.node->first();
            const std::uint64_t last = found.node->last();
            if (found.node->lock.is_still(found.version)) {
                directory_.note(place, found.node, first, last);
            }
        }
        return found;
    }

    /// `choose` gives the child, `fetch` fetches lines of the leaf on media.
    template <class Choose, class Fetch>
    [[nodiscard]] found_leaf walk_down(Choose&& choose, leaf_bounds* bounds, Fetch&& fetch) const {
        for (;;) {
            index_node* node = root_.load(std::memory_order_acquire);
            std::uint64_t version = node->lock.version();
            bool whole = root_.load(std::memory_order_acquire) == node;
            if (bounds != nullptr) {
                *bounds = {};
            }
            while (whole && !node->is_leaf) {
                const inner& at = static_cast<const inner&>(*node);
                const std::size_t i = choose(at);
                index_node* const child = at.child(i);
                const std::uint64_t* const words = at.children[i].words.load(std::memory_order_relaxed);
                if (bounds != nullptr) {
                    note_bounds(at, i, *bounds);
                }
                whole = at.lock.is_still(version);
                if (whole) {
                    if (words != nullptr) {
                        fetch(words);
                    }
                    prefetch_node(child);
                    const std::uint64_t next = child->lock.version();
                    whole = at.lock.is_still(version);
                    node = child;
                    version = next;
                }
            }
            if (whole) [[likely]] {
                return {static_cast<leaf*>(node), version};
            }
        }
    }
    [[nodiscard]] std::vector<leaf*> leaves_in_order() const {
        std::vector<leaf*> all;
        add_leaves_below(root_.load(), all);
        return all;
    }
    [[nodiscard]] const index_node* root() const noexcept { return root_.load(); }

    // Numbers:

    [[nodiscard]] std::size_t height() const noexcept { return height_.load(); }  ///< levels of inner nodes
    [[nodiscard]] std::size_t inner_nodes() const { return inner_pool_.in_use(); }
    [[nodiscard]] std::size_t bytes() const { return inner_pool_.bytes() + leaf_pool_.bytes() + directory_.bytes(); }

    // Changes, by who has the structure's lock:

    [[nodiscard]] std::unique_lock<std::mutex> lock_structure() const { return std::unique_lock(structure_mutex_); }
    [[nodiscard]] node_pool<leaf>& leaf_pool() noexcept { return leaf_pool_; }
    /// For one insert_behind().
    [[nodiscard]] node_reservation<inner> reserve_inner_nodes() {
        return node_reservation<inner>(inner_pool_, height_.load(std::memory_order_relaxed) + 3);
    }

    struct step {
        inner* node;
        std::size_t child;
    };
    /// From the root to the parent of a leaf.
    using path = std::vector<step>;

    /// Released to a node, or freed.
    class new_separator {
    public:
        explicit new_separator(const bound& low) {
            if constexpr (types::text_bounds) {
                text_ = std::make_unique<const std::string>(low);
            } else {
                text_ = low;
            }
        }
        [[nodiscard]] bound low() const noexcept {
            if constexpr (types::text_bounds) {
                return *text_;
            } else {
                return text_;
            }
        }
        [[nodiscard]] separator release() noexcept {
            if constexpr (types::text_bounds) {
                return text_.release();
            } else {
                return text_;
            }
        }

    private:
        std::conditional_t<types::text_bounds, std::unique_ptr<const std::string>, bound> text_{};
    };

    static constexpr std::size_t most_levels = 24;  ///< with a quarter of the separators: 16^24 leaves

    [[nodiscard]] path path_to(const bound& place) const {
        path steps;
        steps.reserve(most_levels);
        find_path(place, steps);
        return steps;
    }
    /// Cannot fail: `steps` has room for most_levels.
    void find_path(const bound& place, path& steps) const noexcept {
        index_node* node = root_.load(std::memory_order_relaxed);
        while (!node->is_leaf) {
            auto* const at = static_cast<inner*>(node);
            steps.push_back({at, at->find(place, true)});
            node = at->child(steps.back().child);
        }
    }

    /// Cannot fail: nodes are reserved, and find_path() made the path.
    void insert_behind(path& steps, index_node* behind, separator between, node_reservation<inner>& spare) noexcept {
        std::array<inner*, most_levels> held;
        std::size_t holding = 0;
        while (!steps.empty()) {
            const step at = steps.back();
            steps.pop_back();
            at.node->lock.lock();
            held[holding++] = at.node;
            if (at.node->count.load(std::memory_order_relaxed) < inner::most) {
                at.node->insert(at.child, between, behind);
                break;
            }
            inner* const upper = spare.take();
            const separator up = split_inner(*at.node, *upper);
            const std::size_t middle = at.node->count.load(std::memory_order_relaxed);
            if (at.child <= middle) {
                at.node->insert(at.child, between, behind);
            } else {
                upper->insert(at.child - middle - 1, between, behind);
            }
            between = up;
            behind = upper;
            if (steps.empty()) {
                grow_root(between, behind, spare);
            }
        }
        if (holding == 0) {
            grow_root(between, behind, spare);
        }
        while (holding > 0) {
            held[--holding]->lock.unlock();
        }
    }

    /// After an insertion. Without memory it stays as it is.
    void grow_directory() noexcept {
        if constexpr (Order::by_hash) {
            directory_.grow(leaf_pool_.in_use());
        }
    }
    /// For one remove_behind(). Throws std::bad_alloc.
    void reserve_removal() { grace_.reserve(); }
    /// Its separator is freed once no reader looks at it.
    void remove_behind(inner& parent, std::size_t at) noexcept {
        parent.lock.lock();
        [[maybe_unused]] const separator unused = parent.separators[at].raw();
        parent.remove(at);
        parent.lock.unlock();
        if constexpr (types::text_bounds) {
            grace_.retire(std::unique_ptr<const std::string>(unused));
        }
    }

    /// Where a path's last node has few children, it gets some of a neighbour's, or the two are united; then its
    /// parents.
    void refill(const path& steps) {
        constexpr std::size_t few = inner::most / 4;
        for (std::size_t level = steps.size(); level-- > 1;) {
            const step& parent = steps[level - 1];
            if (steps[level].node->count.load(std::memory_order_relaxed) >= few ||
                parent.node->count.load(std::memory_order_relaxed) == 0) {
                break;
            }
            share(*parent.node, parent.child == 0 ? 0 : parent.child - 1);
        }
        for (auto* root = root_.load(std::memory_order_relaxed); !root->is_leaf;) {
            auto* const top = static_cast<inner*>(root);
            if (top->count.load(std::memory_order_relaxed) != 0) {
                break;
            }
            root = top->child(0);
            root_.store(root, std::memory_order_release);
            height_.fetch_sub(1, std::memory_order_relaxed);
            discard(*top);
        }
    }

    // Building, while no other thread uses the index:

    using directory = typename Order::directory::prepared;
    struct tree {
        index_node* root = nullptr;
        std::size_t height = 0;
        directory directory_of_leaves;
    };
    /// Throws std::bad_alloc.
    [[nodiscard]] directory prepare_directory(std::size_t leaves) { return directory_.prepare(leaves); }
    /// Takes the leaves; where it throws, they are given back.
    [[nodiscard]] tree build(const std::vector<leaf*>& leaves) {
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
            tree made{nullptr, 0, directory_.prepare(leaves.size())};
            for (; children.size() > 1; ++made.height) {
                build_level(children, between);
            }
            made.root = children.front();
            return made;
        } catch (...) {
            if constexpr (types::text_bounds) {
                for (const std::string* const each : between) {
                    static_cast<void>(std::unique_ptr<const std::string>(each));
                }
            }
            if (children.empty()) {
                for (leaf* const each : leaves) {
                    recycle(each);
                }
            }
            for (index_node* const each : children) {
                recycle_all(each);
            }
            throw;
        }
    }
    /// Replaces the tree that there was.
    void use(tree made) noexcept {
        if (index_node* const old = root_.exchange(nullptr); old != nullptr) {
            recycle_all(old);
        }
        directory_.use(std::move(made.directory_of_leaves));
        height_.store(made.height);
        root_.store(made.root, std::memory_order_release);
    }
    /// Also the texts of separators.
    void recycle_all(index_node* root) noexcept {
        free_texts(root);
        recycle(root);
    }

private:
    static void note_bounds(const inner& at, std::size_t i, leaf_bounds& bounds) {
        if (i > 0) {
            bounds.low = at.separators[i - 1].raw();
        }
        if (i < at.count.load(std::memory_order_relaxed) && i < inner::most) {
            bounds.high = at.separators[i].raw();
        }
    }
    /// Returns what parts the two.
    [[nodiscard]] static separator split_inner(inner& full, inner& upper) noexcept {
        constexpr std::size_t middle = inner::most / 2;
        constexpr std::size_t moved = inner::most - middle - 1;
        for (std::size_t i = 0; i < moved; ++i) {
            upper.separators[i].set(full.separators[middle + 1 + i].raw());
        }
        for (std::size_t i = 0; i <= moved; ++i) {
            upper.children[i].set(full.children[middle + 1 + i]);
        }
        upper.count.store(moved, std::memory_order_release);
        full.count.store(middle, std::memory_order_release);
        return full.separators[middle].raw();
    }
    void grow_root(separator between, index_node* behind, node_reservation<inner>& spare) noexcept {
        inner* const top = spare.take();
        top->separators[0].set(between);
        top->children[0].set(root_.load(std::memory_order_relaxed));
        top->children[1].set(behind);
        top->count.store(1, std::memory_order_release);
        root_.store(top, std::memory_order_release);
        height_.fetch_add(1, std::memory_order_relaxed);
    }
    /// Makes one of two neighbours, or lets both have as many children.
    void share(inner& parent, std::size_t left) {
        inner& a = static_cast<inner&>(*parent.child(left));
        inner& b = static_cast<inner&>(*parent.child(left + 1));
        std::vector<separator> between;
        std::vector<index_node*> children;
        between.reserve(2 * inner::most + 1);
        children.reserve(2 * inner::most + 2);
        gather(a, between, children);
        between.push_back(parent.separators[left].raw());
        gather(b, between, children);
        const bool one = between.size() <= inner::most * 3 / 4;
        const std::size_t in_a = one ? between.size() : (between.size() - 1) / 2;
        parent.lock.lock();
        a.lock.lock();
        b.lock.lock();
        fill(a, {between.data(), in_a}, children.data());
        if (one) {
            parent.remove(left);
        } else {
            parent.separators[left].set(between[in_a]);
            fill(b, {between.data() + in_a + 1, between.size() - in_a - 1}, children.data() + in_a + 1);
        }
        b.lock.unlock();
        a.lock.unlock();
        parent.lock.unlock();
        if (one) {
            inner_pool_.give(&b);
        }
    }
    static void gather(const inner& from, std::vector<separator>& between, std::vector<index_node*>& children) {
        const std::size_t count = from.count.load(std::memory_order_relaxed);
        for (std::size_t i = 0; i <= count; ++i) {
            children.push_back(from.child(i));
            if (i < count) {
                between.push_back(from.separators[i].raw());
            }
        }
    }
    static void fill(inner& to, std::span<const separator> between, index_node* const* children) noexcept {
        for (std::size_t i = 0; i <= between.size(); ++i) {
            to.children[i].set(children[i]);
            if (i < between.size()) {
                to.separators[i].set(between[i]);
            }
        }
        to.count.store(static_cast<std::uint32_t>(between.size()), std::memory_order_release);
    }
    void discard(inner& unused) noexcept {
        unused.lock.lock();
        unused.lock.unlock();
        inner_pool_.give(&unused);
    }

    /// No reader looks at them.
    static void free_texts(index_node* node) noexcept {
        if constexpr (types::text_bounds) {
            if (node == nullptr || node->is_leaf) {
                return;
            }
            const auto& at = static_cast<const inner&>(*node);
            const std::size_t count = at.count.load(std::memory_order_relaxed);
            for (std::size_t i = 0; i <= count; ++i) {
                free_texts(at.child(i));
                if (i < count) {
                    static_cast<void>(std::unique_ptr<const std::string>(at.separators[i].raw()));
                }
            }
        }
    }
    [[nodiscard]] static separator separator_of(const leaf& behind) {
        return new_separator(types::low_of(behind.media())).release();
    }
    /// Replaces nodes, and what parts them, by their parents. Where it throws, nothing has changed.
    void build_level(std::vector<index_node*>& children, std::vector<separator>& between) {
        constexpr std::size_t wanted = inner::most * 3 / 4;
        const std::size_t parents = (children.size() + wanted - 1) / wanted;
        std::vector<index_node*> above;
        std::vector<separator> above_between;
        above.reserve(parents);
        above_between.reserve(parents);
        inner_pool_.reserve(parents);
        for (std::size_t p = 0; p < parents; ++p) {
            const std::size_t begin = children.size() * p / parents;
            const std::size_t end = children.size() * (p + 1) / parents;
            inner* const made = inner_pool_.take();
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
    void recycle(index_node* node) noexcept {
        if (node->is_leaf) {
            leaf_pool_.give(static_cast<leaf*>(node));
            return;
        }
        auto* const at = static_cast<inner*>(node);
        for (std::size_t i = 0; i <= at->count.load(std::memory_order_relaxed); ++i) {
            recycle(at->child(i));
        }
        inner_pool_.give(at);
    }

    mutable node_pool<inner> inner_pool_;
    mutable node_pool<leaf> leaf_pool_;
    mutable grace_periods grace_;
    mutable typename Order::directory directory_;
    std::atomic<index_node*> root_{nullptr};
    mutable std::mutex structure_mutex_;
    std::atomic<std::size_t> height_{0};  ///< of inner nodes
    std::uint64_t made_in_ = process_identity();
};

}  // namespace holdfast::detail
