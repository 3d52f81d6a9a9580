// The invariants of an index (index_media.hpp), one function each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/index/index_tree.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_check {
    using types = index_types<Key, Value, Order>;
    using bound = typename types::bound;
    using inner = typename types::inner;
    using key_words = typename types::key_words;
    using layout = typename types::layout;
    using leaf = typename types::leaf;
    using value_words = typename types::value_words;

public:
    explicit index_check(const index_tree<Key, Value, Order>& of) : media_(of.media()), nodes_(of.nodes()) {}

    /// A line for each broken invariant.
    [[nodiscard]] std::vector<std::string> run() const {
        media_.refuse_closed();
        std::vector<std::string> problems;
        const std::vector<leaf*> nodes = nodes_.leaves_in_order();
        std::set<const void*> blocks;
        try {
            check_chain(nodes, problems);
            for (leaf* const each : nodes) {
                check_leaf(*each, blocks, problems);
            }
            check_inner(problems);
        } catch (const error& broken) {
            problems.emplace_back(broken.what());
        }
        return problems;
    }

private:
    [[nodiscard]] static auto bytes_of(const Key& key) {
        if constexpr (key_words::is_block) {
            return std::string(key);
        } else {
            return key_words::encode(key);
        }
    }
    // IDX-1, and the order of IDX-8.
    void check_chain(const std::vector<leaf*>& nodes, std::vector<std::string>& problems) const {
        const std::uint64_t* before = nullptr;
        for (const leaf* const each : nodes) {
            const std::uint64_t* const words = each->media();
            if (before == nullptr ? types::has_low(words) : !types::has_low(words) || types::next_of(before) != words) {
                problems.emplace_back("IDX-1: a leaf does not follow the one before");
                return;
            }
            if (before != nullptr && types::has_low(before) && !(types::low_of(before) < types::low_of(words))) {
                problems.emplace_back("IDX-1: low keys do not ascend");
            }
            if (types::target(words + leaf_previous) != before) {
                problems.emplace_back("IDX-1: the hint `previous` leads to another leaf");
            }
            if constexpr (Order::by_hash) {
                const std::uint64_t* const next = types::next_of(words);
                if (each->first() != (before == nullptr ? 0 : types::low_of(words)) ||
                    each->last() != (next == nullptr ? ~std::uint64_t{0} : types::low_of(next) - 1)) {
                    problems.emplace_back("IDX-8: the hashes of a leaf are not those between two low ones");
                }
            }
            before = words;
        }
        if (before == nullptr || types::next_of(before) != nullptr || types::target(&media_.head().last) != before) {
            problems.emplace_back("IDX-1: the last leaf is not the head's");
        }
    }
    // IDX-2 to IDX-7.
    void check_leaf(const leaf& of, std::set<const void*>& blocks, std::vector<std::string>& problems) const {
        leaf fresh;
        fresh.words.store(of.media());
        static_cast<void>(media_.warm(fresh));  // IDX-2, IDX-3, IDX-4, IDX-6
        std::set<decltype(bytes_of(std::declval<Key>()))> keys;
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            if (!of.cold.load() && (of.is_live(slot) != fresh.is_live(slot) ||
                                    (of.is_live(slot) && of.print(slot) != fresh.print(slot)))) {
                problems.emplace_back("IDX-7: what is kept of a leaf differs from it");
            }
            if (!fresh.is_live(slot)) {
                continue;
            }
            if (!keys.insert(bytes_of(types::key_at(of.media(), slot))).second) {
                problems.emplace_back("IDX-5: a key is twice in a leaf");
            }
            check_blocks(of.media(), slot, blocks, problems);
        }
    }
    static void check_blocks(const std::uint64_t* words, std::size_t slot, std::set<const void*>& blocks,
                             std::vector<std::string>& problems) {
        const auto note = [&](std::size_t i) {
            if (!blocks.insert(types::target(words + layout::word_of(slot, i))).second) {
                problems.emplace_back("IDX-6: two entries share a block");
            }
        };
        if constexpr (key_words::is_block) {
            note(0);
        }
        if constexpr (value_words::is_block) {
            note(key_words::words);
        }
    }
    // IDX-8.
    void check_inner(std::vector<std::string>& problems) const {
        std::size_t level = 0;
        check_below(nodes_.root(), level, 0, problems);
        if (level != nodes_.height()) {
            problems.emplace_back("IDX-8: the height is wrong");
        }
    }
    void check_below(const index_node* node, std::size_t& height, std::size_t depth,
                     std::vector<std::string>& problems) const {
        if (node->is_leaf) {
            if (height != 0 && height != depth) {
                problems.emplace_back("IDX-8: leaves lie at different depths");
            }
            height = depth;
            return;
        }
        const auto& at = static_cast<const inner&>(*node);
        const std::size_t count = at.count.load();
        for (std::size_t i = 0; i <= count; ++i) {
            if (i > 0) {
                const index_node* first = at.child(i);
                while (!first->is_leaf) {
                    first = static_cast<const inner*>(first)->child(0);
                }
                const bound low = types::low_of(static_cast<const leaf*>(first)->media());
                const bound here = at.separators[i - 1].get();
                if (low < here || here < low) {
                    problems.emplace_back("IDX-8: a separator is not the low key behind it");
                }
            }
            check_below(at.child(i), height, depth + 1, problems);
        }
    }

    const index_media<Key, Value, Order>& media_;
    const inner_tree<Key, Value, Order>& nodes_;
};

}  // namespace holdfast::detail
