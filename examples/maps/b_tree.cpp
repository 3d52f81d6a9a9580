#include "b_tree.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>

namespace maps {

/// Nodes from the root downwards, with the index of the item or of the child that was chosen in each.
class b_tree::way {
public:
    struct step {
        node* at;
        std::size_t index;
    };

    [[nodiscard]] std::size_t length() const noexcept { return length_; }
    [[nodiscard]] const step& operator[](std::size_t i) const { return steps_[i]; }
    void push(node* at, std::size_t index) {
        if (length_ == steps_.size()) {
            throw std::runtime_error("a B-tree is deeper than one can be");
        }
        steps_[length_++] = {at, index};
    }

private:
    std::array<step, 32> steps_;  // four children each: 2^64 leaves
    std::size_t length_ = 0;
};

b_tree::b_tree(holdfast::manager& heap, const char* name) : heap_(heap), head_(*heap.find_or_construct<head>(name)()) {}

std::size_t b_tree::index_of(const node& at, std::uint64_t key) noexcept {
    std::size_t index = 0;
    while (index < at.count && at.items[index].key < key) {
        ++index;
    }
    return index;
}

b_tree::item* b_tree::find(std::uint64_t key, way& to) const {
    node* at = head_.root.get();
    for (std::size_t level = 0; level < head_.height; ++level) {
        const std::size_t index = index_of(*at, key);
        to.push(at, index);
        if (index < at->count && at->items[index].key == key) {
            return &at->items[index];
        }
        if (!is_leaf(level)) {
            at = static_cast<inner_node*>(at)->children[index].get();
        }
    }
    return nullptr;
}

std::optional<std::uint64_t> b_tree::look_up(std::uint64_t key) const {
    const node* at = head_.root.get();
    for (std::size_t level = 0; level < head_.height; ++level) {
        const std::size_t index = index_of(*at, key);
        if (index < at->count && at->items[index].key == key) {
            return at->items[index].value;
        }
        if (!is_leaf(level)) {
            at = static_cast<const inner_node*>(at)->children[index].get();
        }
    }
    return std::nullopt;
}

bool b_tree::insert(std::uint64_t key, std::uint64_t value) {
    way to;
    item* const found = find(key, to);
    heap_.transact([&](holdfast::transaction& tx) {
        if (found != nullptr) {
            tx.store(found->value, value);
        } else {
            put_upwards(tx, to, {key, value});
        }
    });
    return found == nullptr;
}

std::optional<std::uint64_t> b_tree::remove(std::uint64_t key) {
    way to;
    item* const found = find(key, to);
    if (found == nullptr) {
        return std::nullopt;
    }
    const std::uint64_t value = found->value;
    heap_.transact([&](holdfast::transaction& tx) {
        const auto [holder, index] = to[to.length() - 1];
        std::size_t gone = index;
        if (!is_leaf(to.length() - 1)) {  // the greatest of the lesser items takes its place
            const node* at = holder;
            while (to.length() < head_.height) {
                const std::size_t last = at == holder ? index : at->count;
                node* const child = static_cast<const inner_node*>(at)->children[last].get();
                to.push(child, child->count);
                at = child;
            }
            gone = at->count - 1;
            open(tx, holder, false).items[index] = at->items[gone];
        }
        take(open(tx, to[to.length() - 1].at, true), gone, true);
        refill(tx, to);
    });
    return value;
}

b_tree::node& b_tree::open(holdfast::transaction& tx, node* at, bool is_leaf) const {
    return is_leaf ? tx.open(*at) : tx.open(static_cast<inner_node&>(*at));
}

void b_tree::put(node& into, std::size_t index, const item& added, node* behind) {
    std::move_backward(into.items + index, into.items + into.count, into.items + into.count + 1);
    into.items[index] = added;
    ++into.count;
    if (behind != nullptr) {
        auto& children = static_cast<inner_node&>(into).children;
        std::move_backward(children + index + 1, children + into.count, children + into.count + 1);
        children[index + 1] = behind;
    }
}

void b_tree::take(node& from, std::size_t index, bool is_leaf, std::size_t child) {
    std::move(from.items + index + 1, from.items + from.count, from.items + index);
    if (!is_leaf) {
        auto& children = static_cast<inner_node&>(from).children;
        std::move(children + index + child + 1, children + from.count + 1, children + index + child);
    }
    --from.count;
}

b_tree::node* b_tree::split(holdfast::transaction& tx, node* full, bool is_leaf, std::size_t index, item& added,
                            node* behind) {
    node* const made = is_leaf ? tx.make<node>() : tx.make<inner_node>();
    node& lesser = open(tx, full, is_leaf);
    const item middle = lesser.items[least_items];
    std::copy(lesser.items + least_items + 1, lesser.items + most_items, made->items);
    if (!is_leaf) {
        auto& children = static_cast<inner_node&>(lesser).children;
        std::copy(children + least_items + 1, std::end(children), static_cast<inner_node*>(made)->children);
    }
    lesser.count = made->count = least_items;
    if (index <= least_items) {
        put(lesser, index, added, behind);
    } else {
        put(*made, index - least_items - 1, added, behind);
    }
    added = middle;
    return made;
}

void b_tree::put_upwards(holdfast::transaction& tx, const way& to, item added) {
    node* behind = nullptr;
    for (std::size_t level = to.length(); level-- > 0;) {
        const auto [at, index] = to[level];
        if (at->count < most_items) {
            put(open(tx, at, is_leaf(level)), index, added, behind);
            return;
        }
        behind = split(tx, at, is_leaf(level), index, added, behind);
    }
    head& grown = tx.open(head_);
    node* root = nullptr;
    if (behind == nullptr) {
        root = tx.make<node>();
    } else {
        auto* const made = tx.make<inner_node>();
        made->children[0] = grown.root;
        root = made;
    }
    put(*root, 0, added, behind);
    grown.root = root;
    ++grown.height;
}

void b_tree::refill(holdfast::transaction& tx, const way& to) {
    for (std::size_t level = to.length(); level-- > 0;) {
        const bool leaf = is_leaf(level);
        const node& here = open(tx, to[level].at, leaf);
        if (level == 0) {
            if (here.count == 0) {
                head& shrunk = tx.open(head_);
                shrunk.root = leaf ? nullptr : static_cast<const inner_node&>(here).children[0].get();
                --shrunk.height;
                tx.destroy(to[0].at);
            }
            return;
        }
        if (here.count >= least_items) {
            return;
        }
        const std::size_t index = to[level - 1].index;
        auto& parent = static_cast<inner_node&>(open(tx, to[level - 1].at, false));
        if (borrow(tx, parent, index, leaf)) {
            return;
        }
        join(tx, parent, index < parent.count ? index : index - 1, leaf);
    }
}

bool b_tree::borrow(holdfast::transaction& tx, inner_node& parent, std::size_t index, bool is_leaf) {
    node& here = open(tx, parent.children[index].get(), is_leaf);
    if (index > 0 && parent.children[index - 1]->count > least_items) {
        node& lesser = open(tx, parent.children[index - 1].get(), is_leaf);
        item& between = parent.items[index - 1];
        put(here, 0, between, nullptr);
        if (!is_leaf) {
            auto& children = static_cast<inner_node&>(here).children;
            std::move_backward(children, children + here.count, children + here.count + 1);
            children[0] = static_cast<inner_node&>(lesser).children[lesser.count];
        }
        between = lesser.items[--lesser.count];
        return true;
    }
    if (index < parent.count && parent.children[index + 1]->count > least_items) {
        node& greater = open(tx, parent.children[index + 1].get(), is_leaf);
        item& between = parent.items[index];
        put(here, here.count, between, is_leaf ? nullptr : static_cast<inner_node&>(greater).children[0].get());
        between = greater.items[0];
        take(greater, 0, is_leaf, 0);
        return true;
    }
    return false;
}

void b_tree::join(holdfast::transaction& tx, inner_node& parent, std::size_t index, bool is_leaf) {
    node& lesser = open(tx, parent.children[index].get(), is_leaf);
    node* const gone = parent.children[index + 1].get();
    const node& greater = open(tx, gone, is_leaf);
    lesser.items[lesser.count] = parent.items[index];
    std::copy(greater.items, greater.items + greater.count, lesser.items + lesser.count + 1);
    if (!is_leaf) {
        const auto& children = static_cast<const inner_node&>(greater).children;
        std::copy(children, children + greater.count + 1, static_cast<inner_node&>(lesser).children + lesser.count + 1);
    }
    lesser.count += 1 + greater.count;
    take(parent, index, false);
    tx.destroy(gone);
}

/// A walk through all items in their order.
struct b_tree::walk {
    const visitor& visit;
    std::string broken{};
    std::optional<std::uint64_t> last{};
    std::uint64_t nodes = 0;

    bool fail(const node* at, const char* what) {
        broken = "a node of " + std::to_string(at->count) + " items" + what;
        return false;
    }
    bool item_of(const node* at, std::size_t i) {
        if (last && *last >= at->items[i].key) {
            return fail(at, ": out of order");
        }
        last = at->items[i].key;
        return visit(at->items[i].key, at->items[i].value);
    }
    /// `height`: of the tree below `at`, with it. False where a rule is broken or the visitor has ended it.
    bool node_of(const node* at, std::uint64_t height, bool is_root) {
        if (at->count > most_items || at->count < (is_root ? 1 : least_items)) {
            return fail(at, "");
        }
        ++nodes;
        for (std::size_t i = 0; i <= at->count; ++i) {
            if (height > 1 && !node_of(static_cast<const inner_node*>(at)->children[i].get(), height - 1, false)) {
                return false;
            }
            if (i < at->count && !item_of(at, i)) {
                return false;
            }
        }
        return true;
    }
};

bool b_tree::go(walk& through) const {
    return head_.height == 0 || through.node_of(head_.root.get(), head_.height, true);
}

bool b_tree::for_each(const visitor& visit) const {
    walk all{visit};
    return go(all);
}

std::string b_tree::problem() const {
    const visitor nothing = [](std::uint64_t /*key*/, std::uint64_t /*value*/) { return true; };
    walk all{nothing};
    go(all);
    return all.broken;
}

std::uint64_t b_tree::block_count() const {
    const visitor nothing = [](std::uint64_t /*key*/, std::uint64_t /*value*/) { return true; };
    walk all{nothing};
    go(all);
    return all.nodes;
}

}  // namespace maps
