// The invariants of an ordered_index (index_core.hpp), one function each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/index_load.hpp>

namespace holdfast::detail {

template <class Key, class Value, class Order>
class index_check : public index_load<Key, Value, Order> {
    using base = index_load<Key, Value, Order>;

public:
    using base::base;
    using typename base::bound;
    using typename base::inner;
    using typename base::key_words;
    using typename base::layout;
    using typename base::leaf;
    using typename base::value_words;

    [[nodiscard]] std::vector<std::string> check() {
        this->refuse_closed();
        std::vector<std::string> problems;
        const std::vector<leaf*> nodes = this->leaves_in_order();
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

protected:
    ~index_check() = default;

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
            if (before == nullptr ? base::has_low(words) : !base::has_low(words) || base::next_of(before) != words) {
                problems.emplace_back("IDX-1: a leaf does not follow the one before");
                return;
            }
            if (before != nullptr && base::has_low(before) && !(base::low_of(before) < base::low_of(words))) {
                problems.emplace_back("IDX-1: low keys do not ascend");
            }
            if (base::target(words + leaf_previous) != before) {
                problems.emplace_back("IDX-1: the hint `previous` leads to another leaf");
            }
            if constexpr (Order::by_hash) {
                const std::uint64_t* const next = base::next_of(words);
                if (each->first() != (before == nullptr ? 0 : base::low_of(words)) ||
                    each->last() != (next == nullptr ? ~std::uint64_t{0} : base::low_of(next) - 1)) {
                    problems.emplace_back("IDX-8: the hashes of a leaf are not those between two low ones");
                }
            }
            before = words;
        }
        if (before == nullptr || base::next_of(before) != nullptr || base::target(&this->head_.last) != before) {
            problems.emplace_back("IDX-1: the last leaf is not the head's");
        }
    }
    // IDX-2 to IDX-7.
    void check_leaf(const leaf& of, std::set<const void*>& blocks, std::vector<std::string>& problems) const {
        leaf fresh;
        fresh.words.store(of.media());
        static_cast<void>(this->warm(fresh));  // IDX-2, IDX-3, IDX-4, IDX-6
        std::set<decltype(bytes_of(std::declval<Key>()))> keys;
        for (std::size_t slot = 0; slot < layout::slots; ++slot) {
            if (!of.cold.load() && (of.is_live(slot) != fresh.is_live(slot) ||
                                    (of.is_live(slot) && of.print(slot) != fresh.print(slot)))) {
                problems.emplace_back("IDX-7: what is kept of a leaf differs from it");
            }
            if (!fresh.is_live(slot)) {
                continue;
            }
            if (!keys.insert(bytes_of(base::key_at(of.media(), slot))).second) {
                problems.emplace_back("IDX-5: a key is twice in a leaf");
            }
            check_blocks(of.media(), slot, blocks, problems);
        }
    }
    static void check_blocks(const std::uint64_t* words, std::size_t slot, std::set<const void*>& blocks,
                             std::vector<std::string>& problems) {
        const auto note = [&](std::size_t i) {
            if (!blocks.insert(base::target(words + layout::word_of(slot, i))).second) {
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
        check_below(this->root_.load(), level, 0, problems);
        if (level != this->height_.load()) {
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
                const bound low = base::low_of(static_cast<const leaf*>(first)->media());
                const bound here = at.separators[i - 1].get();
                if (low < here || here < low) {
                    problems.emplace_back("IDX-8: a separator is not the low key behind it");
                }
            }
            check_below(at.child(i), height, depth + 1, problems);
        }
    }
};

}  // namespace holdfast::detail
