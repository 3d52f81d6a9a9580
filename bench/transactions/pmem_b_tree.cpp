#include "transactions/pmem_maps.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ

#include <algorithm>
#include <iterator>
#include <vector>

namespace transactions {

namespace {

class b_tree final : public maps::map {
public:
    b_tree(const pmem_pool& pool, pmem_tree_head& head) : pool_(pool), head_(head) {}

    bool insert(std::uint64_t key, std::uint64_t value) override {
        item* const found = descend(key);
        pool_.transact([&] {
            if (found != nullptr) {
                pool_.store(found->value, value);
            } else {
                add({key, value});
            }
        });
        return found == nullptr;
    }
    std::optional<std::uint64_t> remove(std::uint64_t key) override {
        item* const found = descend(key);
        if (found == nullptr) {
            return std::nullopt;
        }
        const std::uint64_t value = found->value;
        pool_.transact([&] { take(found); });
        return value;
    }
    std::optional<std::uint64_t> look_up(std::uint64_t key) const override {
        const auto* at = pool_.at<node>(head_.root);
        for (std::uint64_t left = head_.height; left > 0; --left) {
            const std::size_t index = index_of(*at, key);
            if (index < at->count && at->items[index].key == key) {
                return at->items[index].value;
            }
            at = left > 1 ? child(at, index) : nullptr;
        }
        return std::nullopt;
    }
    bool for_each(const visitor& visit) const override {
        return head_.height == 0 || for_each(pool_.at<node>(head_.root), head_.height, visit);
    }

private:
    static constexpr std::size_t most_items = 7;
    static constexpr std::size_t least_items = 3;

    struct item {
        std::uint64_t key;
        std::uint64_t value;
    };
    struct node {
        std::uint64_t count;
        item items[most_items];
    };
    struct inner_node : node {
        PMEMoid children[most_items + 1];
    };
    struct step {
        node* at;
        std::size_t index;
    };

    [[nodiscard]] static std::size_t index_of(const node& at, std::uint64_t key) noexcept {
        std::size_t index = 0;
        while (index < at.count && at.items[index].key < key) {
            ++index;
        }
        return index;
    }
    [[nodiscard]] static PMEMoid* children(node* of) noexcept { return static_cast<inner_node*>(of)->children; }
    [[nodiscard]] node* child(const node* of, std::size_t index) const noexcept {
        return pool_.at<node>(static_cast<const inner_node*>(of)->children[index]);
    }
    [[nodiscard]] bool is_leaf(std::size_t level) const noexcept { return level + 1 == head_.height; }
    node* open(node* at, bool leaf) const {
        return leaf ? &pool_.open(*at) : &pool_.open(static_cast<inner_node&>(*at));
    }

    bool for_each(const node* at, std::uint64_t height, const visitor& visit) const {
        for (std::size_t i = 0; i <= at->count; ++i) {
            if ((height > 1 && !for_each(child(at, i), height - 1, visit)) ||
                (i < at->count && !visit(at->items[i].key, at->items[i].value))) {
                return false;
            }
        }
        return true;
    }
    item* descend(std::uint64_t key) {
        way_.clear();
        auto* at = pool_.at<node>(head_.root);
        for (std::size_t level = 0; level < head_.height; ++level) {
            const std::size_t index = index_of(*at, key);
            way_.push_back({at, index});
            if (index < at->count && at->items[index].key == key) {
                return &at->items[index];
            }
            at = is_leaf(level) ? nullptr : child(at, index);
        }
        return nullptr;
    }

    /// Into a node that is open and has room; `behind` follows the item, where it has a place.
    static void put(node* into, std::size_t index, const item& added, PMEMoid behind) {
        std::move_backward(into->items + index, into->items + into->count, into->items + into->count + 1);
        into->items[index] = added;
        ++into->count;
        if (behind.off != 0) {
            PMEMoid* const all = children(into);
            std::move_backward(all + index + 1, all + into->count, all + into->count + 1);
            all[index + 1] = behind;
        }
    }
    static void take(node* from, std::size_t index, bool leaf, std::size_t with) {
        std::move(from->items + index + 1, from->items + from->count, from->items + index);
        if (!leaf) {
            PMEMoid* const all = children(from);
            std::move(all + index + with + 1, all + from->count + 1, all + index + with);
        }
        --from->count;
    }

    void add(item added) {
        PMEMoid behind{0, 0};
        for (std::size_t level = way_.size(); level-- > 0;) {
            const bool leaf = is_leaf(level);
            const std::size_t index = way_[level].index;
            node* const at = open(way_[level].at, leaf);
            if (at->count < most_items) {
                put(at, index, added, behind);
                return;
            }
            node* const made = leaf ? pool_.make<node>({}) : pool_.make<inner_node>({});
            const item middle = at->items[least_items];
            std::copy(at->items + least_items + 1, at->items + most_items, made->items);
            if (!leaf) {
                std::copy(children(at) + least_items + 1, children(at) + most_items + 1, children(made));
            }
            at->count = made->count = least_items;
            const bool is_less = index <= least_items;
            put(is_less ? at : made, is_less ? index : index - least_items - 1, added, behind);
            added = middle;
            behind = pool_.id_of(made);
        }
        pool_.open(head_);
        node* const root = behind.off == 0 ? pool_.make<node>({}) : pool_.make<inner_node>({});
        if (behind.off != 0) {
            children(root)[0] = head_.root;
        }
        put(root, 0, added, behind);
        head_.root = pool_.id_of(root);
        ++head_.height;
    }
    void take(item* found) {
        std::size_t gone = way_.back().index;
        if (way_.size() < head_.height) {
            open(way_.back().at, false);
            for (std::size_t last = gone; way_.size() < head_.height; last = way_.back().index) {
                node* const next = child(way_.back().at, last);
                way_.push_back({next, next->count});
            }
            gone = way_.back().at->count - 1;
            *found = way_.back().at->items[gone];
        }
        take(open(way_.back().at, true), gone, true, 1);
        for (std::size_t level = way_.size() - 1; level > 0 && way_[level].at->count < least_items; --level) {
            node* const parent = open(way_[level - 1].at, false);
            const std::size_t index = way_[level - 1].index;
            if (borrow(parent, index, is_leaf(level))) {
                return;
            }
            join(parent, index < parent->count ? index : index - 1, is_leaf(level));
        }
        if (node* const root = way_[0].at; root->count == 0) {
            pool_.open(head_);
            head_.root = head_.height == 1 ? PMEMoid{0, 0} : children(root)[0];
            --head_.height;
            pool_.free(root);
        }
    }
    bool borrow(node* parent, std::size_t index, bool leaf) {
        node* const here = child(parent, index);
        if (node* const lesser = index > 0 ? child(parent, index - 1) : nullptr;
            lesser != nullptr && lesser->count > least_items) {
            open(here, leaf);
            open(lesser, leaf);
            put(here, 0, parent->items[index - 1], {0, 0});
            if (!leaf) {
                PMEMoid* const all = children(here);
                std::move_backward(all, all + here->count, all + here->count + 1);
                all[0] = children(lesser)[lesser->count];
            }
            parent->items[index - 1] = lesser->items[--lesser->count];
            return true;
        }
        if (node* const greater = index < parent->count ? child(parent, index + 1) : nullptr;
            greater != nullptr && greater->count > least_items) {
            open(here, leaf);
            open(greater, leaf);
            put(here, here->count, parent->items[index], leaf ? PMEMoid{0, 0} : children(greater)[0]);
            parent->items[index] = greater->items[0];
            take(greater, 0, leaf, 0);
            return true;
        }
        return false;
    }
    void join(node* parent, std::size_t index, bool leaf) {
        node* const lesser = open(child(parent, index), leaf);
        node* const greater = child(parent, index + 1);
        lesser->items[lesser->count] = parent->items[index];
        std::copy(greater->items, greater->items + greater->count, lesser->items + lesser->count + 1);
        if (!leaf) {
            std::copy(children(greater), children(greater) + greater->count + 1, children(lesser) + lesser->count + 1);
        }
        lesser->count += 1 + greater->count;
        take(parent, index, false, 1);
        pool_.free(greater);
    }

    const pmem_pool& pool_;
    pmem_tree_head& head_;
    std::vector<step> way_;  ///< from the root to what is changed; its memory is kept
};

}  // namespace

std::unique_ptr<maps::map> make_b_tree(const pmem_pool& pool, pmem_tree_head& head) {
    return std::make_unique<b_tree>(pool, head);
}

}  // namespace transactions

#endif
