// A red-black tree (Guibas, Sedgewick 1978) whose nodes know no parents: a change keeps the way from the root instead,
// so that a rotation stores fewer words.
#pragma once

#include <cstddef>

#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "map.hpp"

namespace maps {

class red_black_tree final : public checked_map {
public:
    /// Opens or makes the map of that name.
    red_black_tree(holdfast::manager& heap, const char* name);

    bool insert(std::uint64_t key, std::uint64_t value) override;
    std::optional<std::uint64_t> remove(std::uint64_t key) override;
    [[nodiscard]] std::optional<std::uint64_t> look_up(std::uint64_t key) const override;
    bool for_each(const visitor& visit) const override;  // NOLINT(modernize-use-nodiscard)
    [[nodiscard]] std::string problem() const override;
    [[nodiscard]] std::uint64_t block_count() const override;

private:
    struct node {
        std::uint64_t key = 0;
        std::uint64_t value = 0;
        std::uint64_t is_red = 0;
        holdfast::ptr<node> child[2];  ///< of lesser keys, of greater keys
    };
    struct head {
        holdfast::ptr<node> root;
    };
    class way;

    [[nodiscard]] static bool is_red(const node* at) noexcept { return at != nullptr && at->is_red != 0; }
    /// Where the key is: its node, or null; `to` leads to the node above that place.
    [[nodiscard]] node* find(std::uint64_t key, way& to) const;
    /// Lets what stands at the end of the first `depth` steps lead to `target`.
    void set_child(holdfast::transaction& tx, const way& to, std::size_t depth, node* target);
    /// The node at the end of the way is red, and the one above may be, too.
    void mend_red(holdfast::transaction& tx, const way& to);
    /// Ways to leaves through the end of this way have one black node less than others.
    void mend_black(holdfast::transaction& tx, way& to);

    holdfast::manager& heap_;
    head& head_;
};

}  // namespace maps
