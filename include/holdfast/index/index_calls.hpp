// What ordered_index and hash_index share: the calls on single entries, and those that visit all leaves. Readers lock
// nothing where keys and values are inline; where a block may be freed, they keep writers out of one leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/index/index_check.hpp>
#include <holdfast/index/index_tree.hpp>
#include <holdfast/index/leaf_entries.hpp>
#include <holdfast/index/put_groups.hpp>

namespace holdfast {

struct index_statistics {
    std::uint64_t leaves = 0;
    std::uint64_t slots = 0;           ///< entries for which there is room
    std::uint64_t leaf_bytes = 0;      ///< in the heap, without keys and values of any length
    std::uint64_t retired_leaves = 0;  ///< freed by clear() and by the next open
    std::uint64_t inner_nodes = 0;
    std::uint64_t height = 0;      ///< levels of inner nodes
    std::uint64_t dram_bytes = 0;  ///< inner nodes, the directory, and what is kept of leaves
};

namespace detail {

template <class Key, class Value, class Order>
class index_calls {
public:
    using key_type = Key;
    using mapped_type = Value;
    using owned_key = typename index_types<Key, Value, Order>::owned_key;      ///< Key, or std::string
    using owned_value = typename index_types<Key, Value, Order>::owned_value;  ///< Value, or std::string
    using entry = std::pair<owned_key, owned_value>;

    index_calls(const index_calls&) = delete;
    index_calls& operator=(const index_calls&) = delete;

    /// False, and nothing changes, where the key is there. Throws error(read_only), as do all changes.
    bool insert(const Key& key, const Value& value) { return !put(key, value, put_mode::insert); }
    /// False where the key is not there.
    bool update(const Key& key, const Value& value) { return put(key, value, put_mode::update); }
    /// True where the key is new.
    bool upsert(const Key& key, const Value& value) { return !put(key, value, put_mode::upsert); }
    /// False where the key was not there.
    bool remove(const Key& key) {
        media().refuse_read_only();
        bool is_sparse = false;
        {
            const section inside(tree_.nodes().grace());
            const std::uint8_t print = fingerprint<Key>(key);
            for (;;) {
                const auto at = tree_.descend_to(key, print);
                if (!tree_.is_warm(at) || !at.node->lock.lock_if(at.version)) {
                    continue;
                }
                const write_guard hold(at.node->lock);
                const std::size_t found = types::find_slot(*at.node, key, print);
                if (found == layout::slots) {
                    return false;
                }
                leaf_entries<Key, Value, Order>(media(), *at.node).take_out(found);
                const std::size_t count = at.node->count();
                is_sparse = count < tree::few_entries && count % between_merges == 0;
                break;
            }
        }
        if (is_sparse) {
            try {
                tree_.merge(media().order().bound_of(key));
            } catch (const std::bad_alloc& /*later*/) {  // the key is removed all the same
            }
        }
        return true;
    }

    [[nodiscard]] std::optional<owned_value> find(const Key& key) const {
        media().refuse_closed();
        const section inside(tree_.nodes().grace());
        const std::uint8_t print = fingerprint<Key>(key);
        for (;;) {
            const found_leaf at = tree_.descend_to(key, print);
            if (!tree_.is_warm(at)) {
                continue;
            }
            if constexpr (types::has_blocks) {
                if (!at.node->lock.share_if(at.version)) {
                    continue;
                }
                const shared_guard hold(at.node->lock);
                const std::size_t slot = types::find_slot(*at.node, key, print);
                return slot == layout::slots ? std::nullopt
                                             : std::optional<owned_value>(types::value_at(at.node->media(), slot));
            } else {
                const std::uint64_t* const words = at.node->media();
                const std::size_t slot = types::find_slot(*at.node, key, print);
                std::optional<owned_value> found;
                if (slot != layout::slots) {
                    found = types::value_at(words, slot);
                }
                if (at.node->lock.is_still(at.version)) [[likely]] {
                    return found;
                }
            }
        }
    }
    [[nodiscard]] bool contains(const Key& key) const { return find(key).has_value(); }
    /// Looks at every leaf, and reads those that were not used since the open.
    [[nodiscard]] std::size_t size() const {
        std::size_t sum = 0;
        std::size_t some = 0;
        visit_leaves([&](const leaf& of, const bound* from) { some = count_from(of, from); },
                     [&] {
                         sum += some;
                         return true;
                     });
        return sum;
    }

    /// Numbers of one moment; splits and merges wait meanwhile.
    [[nodiscard]] index_statistics statistics() const {
        index_statistics all;
        const auto hold = tree_.nodes().lock_structure();
        all.leaves = tree_.nodes().leaves_in_order().size();
        all.slots = all.leaves * layout::slots;
        all.retired_leaves = tree_.chain().retired_leaves();
        all.leaf_bytes = (all.leaves + all.retired_leaves) * layout::bytes;
        all.inner_nodes = tree_.nodes().inner_nodes();
        all.height = tree_.nodes().height();
        all.dram_bytes = tree_.nodes().bytes();
        return all;
    }

    // No other thread uses the index in these.

    /// Removes all entries in one step, then frees their memory; a crash, or too little memory, leaves that to the next
    /// clear() or open. Where it throws, nothing has changed.
    void clear() { tree_.clear(); }
    /// A line for each broken invariant ("IDX-3: ...").
    [[nodiscard]] std::vector<std::string> check() { return index_check<Key, Value, Order>(tree_).run(); }

protected:
    using tree = index_tree<Key, Value, Order>;
    using types = index_types<Key, Value, Order>;
    using bound = typename types::bound;
    using inner = typename types::inner;
    using layout = typename types::layout;
    using leaf = typename types::leaf;
    using leaf_bounds = typename tree::node_tree::leaf_bounds;
    using found_leaf = typename tree::found_leaf;
    using section = typename tree::node_tree::section;

    /// `Stored`: the type of the named object.
    template <class Stored>
    index_calls(manager& heap, std::string_view name, Stored& head)
        : claim_(heap, name, &head), tree_(heap, name, head) {}
    ~index_calls() = default;

    template <class Stored>
    [[nodiscard]] static Stored& head_of(manager& heap, std::string_view name) {
        if (!heap.read_only()) {
            return *heap.find_or_construct<Stored>(name)();
        }
        auto* const found = heap.find<Stored>(name).first;
        if (found == nullptr) {
            throw_index_missing(heap, name);
        }
        return *found;
    }
    /// Frees the contents, then the head.
    template <class Stored, class Index>
    static bool destroy_index(manager& heap, std::string_view name) {
        if (heap.find<Stored>(name).first == nullptr) {
            return false;
        }
        Index(heap, name).tree_.free_all();
        return heap.destroy<Stored>(name);
    }

    [[nodiscard]] const tree& opened() const noexcept { return tree_; }
    [[nodiscard]] const index_media<Key, Value, Order>& media() const noexcept { return tree_.media(); }
    /// Into an empty index (index_load.hpp).
    template <class Source>
    void load(Source&& source) {
        tree_.load(source);
    }

    /// Reads all leaves in their order, each at one moment: `read(leaf, from)`, again where the leaf has changed
    /// meanwhile, then `take()`, until that returns false. `from`: null, or the bound below which a merge put entries
    /// that were read before.
    template <class Read, class Take>
    void visit_leaves(Read&& read, Take&& take) const {
        leaf_place place;
        while (!place.at_end) {
            if (read_leaf(place, read) && !take()) {
                return;
            }
        }
    }
    /// Whether a live entry is not below the bound, if any.
    [[nodiscard]] bool is_from(const leaf& of, std::size_t slot, const bound* from) const {
        return from == nullptr || !(media().bound_at(of.media(), slot) < *from);
    }

private:
    static constexpr std::size_t between_merges = 4;  ///< removals from a leaf of few entries

    struct leaf_place {
        std::optional<typename types::bound_words::owned> from;  ///< none: the first
        bool at_end = false;                                     ///< no leaf follows
    };

    /// Whether the key was there.
    bool put(const Key& key, const Value& value, put_mode mode) {
        media().refuse_read_only();
        media().refuse_long(key);
        media().refuse_long(value);
        const section inside(tree_.nodes().grace());
        if (media().waits_for_disk()) [[unlikely]] {
            return groups_(tree_, key, value, mode);
        }
        const std::uint8_t print = fingerprint<Key>(key);
        for (;;) {
            const auto at = tree_.descend_to(key, print);
            if (!tree_.is_warm(at) || !at.node->lock.lock_if(at.version)) {
                continue;
            }
            const write_guard hold(at.node->lock);
            leaf_entries<Key, Value, Order> entries(media(), *at.node);
            if (const std::optional<bool> was_there = entries.put(key, value, mode, print)) {
                return *was_there;
            }
            tree_.split(*at.node, key);
        }
    }

    [[nodiscard]] std::size_t count_from(const leaf& of, const bound* from) const {
        std::size_t sum = from == nullptr ? of.count() : 0;
        for (std::size_t slot = 0; from != nullptr && slot < layout::slots; ++slot) {
            sum += of.is_live(slot) && is_from(of, slot, from) ? 1U : 0U;
        }
        return sum;
    }
    /// The place moves on unless something has changed.
    template <class Read>
    [[nodiscard]] bool read_leaf(leaf_place& place, Read& read) const {
        media().refuse_closed();
        const section inside(tree_.nodes().grace());
        leaf_bounds bounds;
        const auto choose = [&](const inner& at) { return place.from ? at.find(bound(*place.from), true) : 0; };
        const found_leaf at = tree_.nodes().walk_down(choose, &bounds, types::prefetch_words);
        if (!tree_.is_warm(at)) {
            return false;
        }
        std::optional<bound> from;
        if (place.from && (!bounds.low || key_of_separator(*bounds.low) < bound(*place.from))) {
            from = bound(*place.from);
        }
        const bound* const known = from ? &*from : nullptr;
        if constexpr (types::has_blocks) {
            if (!at.node->lock.share_if(at.version)) {
                return false;
            }
            const shared_guard hold(at.node->lock);
            read(*at.node, known);
        } else {
            read(*at.node, known);
            if (!at.node->lock.is_still(at.version)) {
                return false;
            }
        }
        place.at_end = !bounds.high.has_value();
        if (bounds.high) {
            place.from = typename types::bound_words::owned(key_of_separator(*bounds.high));
        }
        return true;
    }

    index_claim claim_;
    tree tree_;
    put_groups<Key, Value, Order> groups_;
};

}  // namespace detail

}  // namespace holdfast
