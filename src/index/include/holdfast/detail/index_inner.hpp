// Changes of the inner nodes of an ordered_index, under structure_mutex_, while readers go on.
//
// A node is locked while it changes, together with its parent where separators move between the two, so that a reader
// that came through the parent sees a version change. A node that leaves the tree has a new version before it is used
// again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/index_search.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_inner : public index_search<Key, Value, Order> {
    using base = index_search<Key, Value, Order>;

public:
    using base::base;
    using typename base::bound;
    using typename base::inner;
    using typename base::leaf;
    using typename base::separator;

    index_inner(const index_inner&) = delete;
    index_inner& operator=(const index_inner&) = delete;

protected:
    ~index_inner() {
        if (this->retired_.is_own()) {
            free_texts(this->root_.load());
        }
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
            if constexpr (base::text_bounds) {
                text_ = std::make_unique<const std::string>(low);
            } else {
                text_ = low;
            }
        }
        [[nodiscard]] bound low() const noexcept {
            if constexpr (base::text_bounds) {
                return *text_;
            } else {
                return text_;
            }
        }
        [[nodiscard]] separator release() noexcept {
            if constexpr (base::text_bounds) {
                return text_.release();
            } else {
                return text_;
            }
        }

    private:
        std::conditional_t<base::text_bounds, std::unique_ptr<const std::string>, bound> text_{};
    };

    /// The caller has structure_mutex_.
    [[nodiscard]] path path_to(const bound& place) const {
        path steps;
        index_node* node = this->root_.load(std::memory_order_relaxed);
        while (!node->is_leaf) {
            auto* const at = static_cast<inner*>(node);
            steps.push_back({at, at->find(place, true)});
            node = at->child(steps.back().child);
        }
        return steps;
    }

    /// Cannot fail: nodes are reserved, and path_to() made the path.
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

    [[nodiscard]] static separator remove_behind(inner& parent, std::size_t at) noexcept {
        parent.lock.lock();
        const separator gone = parent.separators[at].raw();
        parent.remove(at);
        parent.lock.unlock();
        return gone;
    }
    /// Once no reader looks at it. grace_.reserve() came before.
    void retire(separator gone) noexcept {
        if constexpr (base::text_bounds) {
            this->grace_.retire(std::unique_ptr<const std::string>(gone));
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
        for (auto* root = this->root_.load(std::memory_order_relaxed); !root->is_leaf;) {
            auto* const top = static_cast<inner*>(root);
            if (top->count.load(std::memory_order_relaxed) != 0) {
                break;
            }
            root = top->child(0);
            this->root_.store(root, std::memory_order_release);
            this->height_.fetch_sub(1, std::memory_order_relaxed);
            discard(*top);
        }
    }

    static constexpr std::size_t most_levels = 24;  ///< with a quarter of the separators: 16^24 leaves

private:
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
        top->children[0].set(this->root_.load(std::memory_order_relaxed));
        top->children[1].set(behind);
        top->count.store(1, std::memory_order_release);
        this->root_.store(top, std::memory_order_release);
        this->height_.fetch_add(1, std::memory_order_relaxed);
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
            this->inner_pool_.give(&b);
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
        this->inner_pool_.give(&unused);
    }

protected:
    /// No reader looks at them.
    static void free_texts(index_node* node) noexcept {
        if constexpr (base::text_bounds) {
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
};

}  // namespace holdfast::detail
