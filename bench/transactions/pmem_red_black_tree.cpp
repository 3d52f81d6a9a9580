#include "transactions/pmem_maps.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ

#include <vector>

namespace transactions {

namespace {

class red_black_tree final : public maps::map {
public:
    red_black_tree(const pmem_pool& pool, pmem_tree_head& head) : pool_(pool), head_(head) {}

    bool insert(std::uint64_t key, std::uint64_t value) override {
        node* const found = descend(key);
        pool_.transact([&] {
            if (found != nullptr) {
                pool_.store(found->value, value);
                return;
            }
            node* const made = pool_.make<node>({key, value, way_.empty() ? 0U : 1U, {}});
            link(way_.size(), made);
            mend_red();
        });
        return found == nullptr;
    }
    std::optional<std::uint64_t> remove(std::uint64_t key) override {
        node* const found = descend(key);
        if (found == nullptr) {
            return std::nullopt;
        }
        const std::uint64_t value = found->value;
        pool_.transact([&] { remove(found); });
        return value;
    }
    std::optional<std::uint64_t> look_up(std::uint64_t key) const override {
        const auto* at = pool_.at<node>(head_.root);
        while (at != nullptr && at->key != key) {
            at = child(at, at->key < key ? 1 : 0);
        }
        return at == nullptr ? std::nullopt : std::optional(at->value);
    }
    bool for_each(const visitor& visit) const override { return for_each(pool_.at<node>(head_.root), visit); }

private:
    struct node {
        std::uint64_t key;
        std::uint64_t value;
        std::uint64_t is_red;
        PMEMoid child[2];
    };
    struct step {
        node* from;
        unsigned side;
    };

    [[nodiscard]] static bool is_red(const node* at) noexcept { return at != nullptr && at->is_red != 0; }
    [[nodiscard]] node* child(const node* of, unsigned side) const noexcept { return pool_.at<node>(of->child[side]); }

    bool for_each(const node* at, const visitor& visit) const {
        return at == nullptr ||
               (for_each(child(at, 0), visit) && visit(at->key, at->value) && for_each(child(at, 1), visit));
    }
    node* descend(std::uint64_t key) {
        way_.clear();
        auto* at = pool_.at<node>(head_.root);
        while (at != nullptr && at->key != key) {
            way_.push_back({at, at->key < key ? 1U : 0U});
            at = child(at, way_.back().side);
        }
        return at;
    }
    /// Lets what stands at the end of the first `depth` steps lead to the target.
    void link(std::size_t depth, const node* target) {
        if (depth == 0) {
            pool_.open(head_).root = pool_.id_of(target);
        } else {
            pool_.open(*way_[depth - 1].from).child[way_[depth - 1].side] = pool_.id_of(target);
        }
    }
    /// Lets the child on that side rise above `top`. The end of the first `depth` steps leads to `top`.
    node* rotate(std::size_t depth, node* top, unsigned side) {
        node* const risen = child(top, side);
        pool_.open(*top).child[side] = risen->child[1 - side];
        pool_.open(*risen).child[1 - side] = pool_.id_of(top);
        link(depth, risen);
        return risen;
    }
    void mend_red() {
        for (std::size_t depth = way_.size(); depth >= 2 && is_red(way_[depth - 1].from); depth -= 2) {
            node* const above = way_[depth - 1].from;
            const auto [top, side] = way_[depth - 2];
            node* const uncle = child(top, 1 - side);
            pool_.open(*top).is_red = 1;
            if (!is_red(uncle)) {
                if (way_[depth - 1].side != side) {
                    rotate(depth - 1, above, 1 - side);
                }
                rotate(depth - 2, top, side)->is_red = 0;
                return;
            }
            pool_.open(*above).is_red = 0;
            pool_.open(*uncle).is_red = 0;
            if (depth == 2) {
                top->is_red = 0;
            }
        }
    }
    void remove(node* found) {
        node* gone = found;
        if (found->child[0].off != 0 && found->child[1].off != 0) {
            way_.push_back({found, 1});
            for (gone = child(found, 1); gone->child[0].off != 0; gone = child(gone, 0)) {
                way_.push_back({gone, 0});
            }
            pool_.open(*found).key = gone->key;
            found->value = gone->value;
        }
        node* const below = child(gone, gone->child[0].off != 0 ? 0 : 1);
        link(way_.size(), below);
        if (is_red(below)) {
            pool_.open(*below).is_red = 0;
        } else if (!is_red(gone)) {
            mend_black();
        }
        pool_.free(gone);
    }
    void mend_black() {
        for (; !way_.empty(); way_.pop_back()) {
            const auto [top, side] = way_.back();
            node* sibling = child(top, 1 - side);
            if (is_red(sibling)) {
                rotate(way_.size() - 1, top, 1 - side);
                sibling->is_red = 0;
                top->is_red = 1;
                way_.back().from = sibling;
                way_.push_back({top, side});
                sibling = child(top, 1 - side);
            }
            node* const far = child(sibling, 1 - side);
            if (!is_red(far) && !is_red(child(sibling, side))) {
                pool_.open(*sibling).is_red = 1;
                if (is_red(top)) {
                    pool_.open(*top).is_red = 0;
                    return;
                }
                continue;
            }
            if (is_red(far)) {
                pool_.open(*far).is_red = 0;
            } else {
                link_inner(top, sibling, side);
            }
            node* const risen = rotate(way_.size() - 1, top, 1 - side);
            risen->is_red = top->is_red;
            top->is_red = 0;
            return;
        }
    }
    /// Lets the sibling's child that is near rise above it, below `top`.
    void link_inner(node* top, node* sibling, unsigned side) {
        node* const near = child(sibling, side);
        pool_.open(*sibling).child[side] = near->child[1 - side];
        pool_.open(*near).child[1 - side] = pool_.id_of(sibling);
        pool_.open(*top).child[1 - side] = pool_.id_of(near);
    }

    const pmem_pool& pool_;
    pmem_tree_head& head_;
    std::vector<step> way_;  ///< from the root to what is changed; its memory is kept
};

}  // namespace

std::unique_ptr<maps::map> make_red_black_tree(const pmem_pool& pool, pmem_tree_head& head) {
    return std::make_unique<red_black_tree>(pool, head);
}

}  // namespace transactions

#endif
