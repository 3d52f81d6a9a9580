#include "red_black_tree.hpp"

#include <array>
#include <stdexcept>

namespace maps {

/// Steps from the root downwards: a node, and the side on which it is left.
class red_black_tree::way {
public:
    struct step {
        node* from;
        unsigned side;
    };

    [[nodiscard]] std::size_t length() const noexcept { return length_; }
    [[nodiscard]] step& operator[](std::size_t i) { return steps_[i]; }
    [[nodiscard]] const step& operator[](std::size_t i) const { return steps_[i]; }
    void push(step next) {
        if (length_ == steps_.size()) {
            throw std::runtime_error("a red-black tree is deeper than one can be");
        }
        steps_[length_++] = next;
    }
    void pop() noexcept { --length_; }

private:
    static constexpr std::size_t most = 2 * 64;  ///< twice the logarithm of the number of nodes

    std::array<step, most> steps_;
    std::size_t length_ = 0;
};

red_black_tree::red_black_tree(holdfast::manager& heap, const char* name)
    : heap_(heap), head_(*heap.find_or_construct<head>(name)()) {}

red_black_tree::node* red_black_tree::find(std::uint64_t key, way& to) const {
    node* at = head_.root.get();
    while (at != nullptr && at->key != key) {
        const unsigned side = at->key < key ? 1 : 0;
        to.push({at, side});
        at = at->child[side].get();
    }
    return at;
}

std::optional<std::uint64_t> red_black_tree::look_up(std::uint64_t key) const {
    const node* at = head_.root.get();
    while (at != nullptr && at->key != key) {
        at = at->child[at->key < key ? 1 : 0].get();
    }
    return at == nullptr ? std::nullopt : std::optional(at->value);
}

bool red_black_tree::insert(std::uint64_t key, std::uint64_t value) {
    way to;
    node* const found = find(key, to);
    heap_.transact([&](holdfast::transaction& tx) {
        if (found != nullptr) {
            tx.store(found->value, value);
            return;
        }
        auto* const made = tx.make<node>();
        made->key = key;
        made->value = value;
        made->is_red = to.length() == 0 ? 0 : 1;
        set_child(tx, to, to.length(), made);
        mend_red(tx, to);
    });
    return found == nullptr;
}

std::optional<std::uint64_t> red_black_tree::remove(std::uint64_t key) {
    way to;
    node* const found = find(key, to);
    if (found == nullptr) {
        return std::nullopt;
    }
    const std::uint64_t value = found->value;
    heap_.transact([&](holdfast::transaction& tx) {
        node* gone = found;
        if (found->child[0] != nullptr && found->child[1] != nullptr) {
            to.push({found, 1});
            gone = found->child[1].get();
            while (gone->child[0] != nullptr) {
                to.push({gone, 0});
                gone = gone->child[0].get();
            }
            node& replaced = tx.open(*found);  // by the next greater key, whose node goes instead
            replaced.key = gone->key;
            replaced.value = gone->value;
        }
        node* const below = (gone->child[0] != nullptr ? gone->child[0] : gone->child[1]).get();
        set_child(tx, to, to.length(), below);
        if (is_red(below)) {
            tx.open(*below).is_red = 0;
        } else if (!is_red(gone)) {
            mend_black(tx, to);
        }
        tx.destroy(gone);
    });
    return value;
}

void red_black_tree::set_child(holdfast::transaction& tx, const way& to, std::size_t depth, node* target) {
    if (depth == 0) {
        tx.store(head_.root, target);
    } else {
        tx.open(*to[depth - 1].from).child[to[depth - 1].side] = target;
    }
}

// What is read from nodes themselves, and not from their copies, this transaction has not changed before.

void red_black_tree::mend_red(holdfast::transaction& tx, const way& to) {
    for (std::size_t depth = to.length(); depth >= 2 && is_red(to[depth - 1].from); depth -= 2) {
        const auto [middle, inner] = to[depth - 1];
        const auto [top, side] = to[depth - 2];
        node& above = tx.open(*middle);
        node& highest = tx.open(*top);
        node* const uncle = highest.child[1 - side].get();
        if (is_red(uncle)) {
            above.is_red = 0;
            tx.open(*uncle).is_red = 0;
            highest.is_red = depth == 2 ? 0 : 1;  // the root stays black
            continue;
        }
        node* risen = middle;
        if (inner != side) {
            risen = above.child[inner].get();
            node& copy = tx.open(*risen);
            above.child[inner] = copy.child[side];
            copy.child[side] = middle;
        }
        node& copy = tx.open(*risen);
        highest.child[side] = copy.child[1 - side];
        copy.child[1 - side] = top;
        copy.is_red = 0;
        highest.is_red = 1;
        set_child(tx, to, depth - 2, risen);
        return;
    }
}

void red_black_tree::mend_black(holdfast::transaction& tx, way& to) {
    for (; to.length() > 0; to.pop()) {
        const auto [top, side] = to[to.length() - 1];
        bool top_is_red = is_red(top);
        node* sibling = top->child[1 - side].get();
        if (is_red(sibling)) {  // it rises above `top`, and leaves a black child as the new sibling
            node& copy = tx.open(*sibling);
            node& highest = tx.open(*top);
            node* const nephew = copy.child[side].get();
            highest.child[1 - side] = nephew;
            copy.child[side] = top;
            copy.is_red = 0;
            highest.is_red = 1;
            set_child(tx, to, to.length() - 1, sibling);
            to[to.length() - 1].from = sibling;
            to.push({top, side});
            sibling = nephew;
            top_is_red = true;
        }
        node* const near = sibling->child[side].get();
        node* const far = sibling->child[1 - side].get();
        if (!is_red(near) && !is_red(far)) {
            tx.open(*sibling).is_red = 1;
            if (top_is_red) {
                tx.open(*top).is_red = 0;
                return;
            }
            continue;
        }
        node& highest = tx.open(*top);
        node* risen = sibling;
        if (is_red(far)) {
            tx.open(*far).is_red = 0;
        } else {
            node& above = tx.open(*sibling);
            node& copy = tx.open(*near);
            above.child[side] = copy.child[1 - side];
            copy.child[1 - side] = sibling;
            risen = near;
        }
        node& copy = tx.open(*risen);
        highest.child[1 - side] = copy.child[side];
        copy.child[side] = top;
        copy.is_red = top_is_red ? 1 : 0;
        highest.is_red = 0;
        set_child(tx, to, to.length() - 1, risen);
        return;
    }
}

bool red_black_tree::for_each(const visitor& visit) const {
    way to;
    const node* at = head_.root.get();
    while (at != nullptr || to.length() > 0) {
        for (; at != nullptr; at = at->child[0].get()) {
            to.push({const_cast<node*>(at), 0});
        }
        at = to[to.length() - 1].from;
        to.pop();
        if (!visit(at->key, at->value)) {
            return false;
        }
        at = at->child[1].get();
    }
    return true;
}

std::uint64_t red_black_tree::block_count() const { return count(); }

std::string red_black_tree::problem() const {
    struct checker {
        std::optional<std::uint64_t> last{};
        std::string found{};

        void fail(const node* at, const char* what) {
            found = found.empty() ? "key " + std::to_string(at->key) + ": " + what : found;
        }
        /// The black nodes on each way to a leaf.
        unsigned visit(const node* at, unsigned depth) {
            if (at == nullptr) {
                return 0;
            }
            if (depth == 2 * 64) {
                fail(at, "deeper than a red-black tree can be");
                return 0;
            }
            const unsigned left = visit(at->child[0].get(), depth + 1);
            if (last && *last >= at->key) {
                fail(at, "out of order");
            }
            last = at->key;
            if (visit(at->child[1].get(), depth + 1) != left) {
                fail(at, "ways with more and with fewer black nodes");
            }
            if (is_red(at) && (is_red(at->child[0].get()) || is_red(at->child[1].get()))) {
                fail(at, "red, below it red");
            }
            return left + (is_red(at) ? 0 : 1);
        }
    };
    checker check;
    check.visit(head_.root.get(), 0);
    if (is_red(head_.root.get())) {
        check.fail(head_.root.get(), "the root is red");
    }
    return check.found;
}

}  // namespace maps
