// Frees of small blocks by threads on another node of the machine than the block's (PMAlloc 6.2, decision 17).
//
// Such a free writes only memory of its own node: a *shadow* of the block's state, a byte in a table of that node, and,
// for the first in a slab, a link in the node's list. Until a merge the state says that the block is live, so a query
// reads state and shadows. A *merge*, under the lock of the block's node (its home), takes the lists of all nodes and
// makes blocks with a shadow free by their states.
//
// Of several threads of other nodes that free a block at once, one succeeds. A thread claims its node's shadow by a
// locked instruction, then reads all other shadows, and the state, sequentially consistent: of two that claim at once
// at least one sees the other. Where both do, the lower node waits until the other has withdrawn. In durability
// `atomic` a thread at home claims the state in the same way, and gives way to every shadow.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/pool/block_states.hpp"

namespace holdfast::slab {

class slab_table;
class slab_upkeep;

namespace shadow {
inline constexpr std::uint8_t none = 0;
inline constexpr std::uint8_t claiming = 1;  ///< still live: a thread checks whether it alone frees the block
inline constexpr std::uint8_t freeing = 2;   ///< still live: the record of the free is on its way
inline constexpr std::uint8_t held = 4;      ///< not live, and no merge frees it yet: durability `atomic`
inline constexpr std::uint8_t freed = 8;     ///< not live; the next merge makes it free
}  // namespace shadow

struct block_at {
    base::granule slab{};
    slab_kind kind;
    std::uint8_t* state = nullptr;
    unsigned node = 0;  ///< of the acting thread; no_node: it writes states on any node
};

/// Thread-safe, except for start() and check().
class remote_frees {
public:
    static constexpr unsigned no_node = ~0U;
    /// merge_if_due() merges when so many slabs (4 MiB) have shadows.
    static constexpr std::uint32_t epoch = 64;
    /// When so many of a node have, its own threads merge: none at home did.
    static constexpr std::uint32_t late_epoch = 16 * epoch;

    remote_frees() = default;
    remote_frees(const remote_frees&) = delete;
    remote_frees& operator=(const remote_frees&) = delete;
    ~remote_frees() = default;

    /// Active with several nodes, unless the system refuses the addresses: then frees write states on any node. `table`
    /// was reset, and `upkeep` is of its pool. May throw std::bad_alloc.
    void start(slab_upkeep& upkeep, slab_table& table, unsigned nodes, std::uint64_t granules_a_segment);
    [[nodiscard]] bool active() const noexcept { return nodes_ > 1; }
    [[nodiscard]] unsigned nodes() const noexcept { return nodes_; }
    [[nodiscard]] unsigned home_of(base::granule slab) const noexcept {
        return by_turns(static_cast<std::uint32_t>(slab.value >> segment_shift_));
    }
    [[nodiscard]] unsigned node_of_arena(unsigned arena) const noexcept { return by_turns(arena); }

    // Only while active:

    [[nodiscard]] bool is_live(const block_at& block) const noexcept;
    /// Refused, and nothing is changed, where the block is not live. Of threads that free one block at once, at least
    /// one of them at home, more than one may succeed.
    enum class outcome : std::uint8_t { refused, at_home, elsewhere };
    [[nodiscard]] outcome free(const block_at& block) noexcept;
    /// Steps of a free that the caller makes durable. Of all threads that claim a block exactly one succeeds. No lock
    /// is taken.
    [[nodiscard]] bool claim(const block_at& block) noexcept;
    void unclaim(const block_at& block) noexcept;
    /// The block is no longer live, and not handed out.
    void clear(const block_at& block) noexcept;
    void release(const block_at& block) noexcept;
    /// The cleared block's state becomes `held`, wherever it lies.
    void hold(const block_at& block) noexcept;
    /// A merge, not the caller, counts frees of this block.
    [[nodiscard]] bool is_remote(const block_at& block) const noexcept {
        return block.node != no_node && home_of(block.slab) != block.node;
    }

    /// Takes locks of bins.
    void merge(unsigned home) noexcept;
    void merge_all() noexcept;
    void merge_if_due(unsigned home) noexcept;
    /// The blocks of a word that other nodes have freed. Must be read before the block states.
    [[nodiscard]] std::uint64_t freed_bits(base::granule slab, slab_kind kind, std::size_t word) const noexcept;

    struct counters {
        std::uint64_t merges = 0;
        std::uint64_t slabs = 0;
        std::uint64_t blocks = 0;
    };
    [[nodiscard]] counters merged() const noexcept;
    [[nodiscard]] static bool is_merging() noexcept;
    template <class Each>
    void for_each_range(unsigned node, Each each) const {
        const node_side& side = sides_[node];
        for (const shadow_table& table : side.tables) {
            each(&table.shadows[0], &table.shadows[0] + table.shadows.size());
        }
        each(&side.next[0], &side.next[0] + side.next.size());
        each(&side.lists[0], &side.lists[0] + side.lists.size());
    }

    /// SLAB-14: a block with a shadow is live by its state; exactly one node has a shadow of it, and that is not the
    /// home; its slab is in the list of that node. Threads must stand still; checks the slabs of [0, end).
    void check(std::vector<std::string>& problems, base::granule end) const;

private:
    struct shadow_table {
        base::sparse_table<std::uint8_t> shadows;
        std::uint64_t stride = 0;
    };
    struct alignas(base::cache_line_size) slab_list {
        std::atomic<std::uint32_t> head;   ///< granule + 1
        std::atomic<std::uint32_t> slabs;  ///< may be too large by a few
    };
    /// Its node's threads touch this memory first, so it lies on that node.
    struct node_side {
        std::vector<shadow_table> tables;
        base::sparse_table<std::uint32_t> next;  ///< by granule: `none`, `last`, `entering`, or granule + 1
        base::sparse_table<slab_list> lists;
    };
    struct alignas(base::cache_line_size) home_side {
        base::mutex mutex;
        std::atomic<std::uint64_t> merges{0};
        std::atomic<std::uint64_t> slabs{0};
        std::atomic<std::uint64_t> blocks{0};
    };
    static constexpr std::uint32_t none = 0;
    static constexpr std::uint32_t last = ~std::uint32_t{0};
    static constexpr std::uint32_t entering = last - 1;

    /// index mod nodes_, without a division (D. Lemire, O. Kaser, N. Kurz: Faster remainder by direct computation).
    [[nodiscard]] unsigned by_turns(std::uint32_t index) const noexcept {
        __extension__ using product = unsigned __int128;
        return static_cast<unsigned>(product{reciprocal_ * index} * nodes_ >> 64U);
    }
    [[nodiscard]] bool map(unsigned nodes);
    [[nodiscard]] std::uint8_t* shadow_of(unsigned node, slab_kind kind, const std::uint8_t* state) const noexcept {
        return reinterpret_cast<std::uint8_t*>(reinterpret_cast<std::uintptr_t>(state) +
                                               distances_[node * slab_kind::count + kind.index()]);
    }
    [[nodiscard]] bool has_shadow(const block_at& block, unsigned home) const noexcept;
    [[nodiscard]] bool claim_shadow(const block_at& block, unsigned home) noexcept;
    [[nodiscard]] bool is_alone(const block_at& block, unsigned home) const noexcept;
    void note(unsigned node, unsigned home, base::granule slab) noexcept;
    void merge_when_late(unsigned node, unsigned home) noexcept;
    void merge_locked(unsigned home) noexcept;
    void merge_slab(unsigned node, base::granule slab, home_side& home) noexcept;
    struct merged_blocks {
        std::uint32_t freed = 0;
        bool unfinished = false;
    };
    [[nodiscard]] merged_blocks merge_kind(unsigned node, base::granule slab, slab_kind kind) noexcept;
    void check_kind(std::vector<std::string>& problems, base::granule slab, slab_kind kind) const;

    slab_upkeep* upkeep_ = nullptr;
    slab_table* table_ = nullptr;
    unsigned nodes_ = 1;
    unsigned segment_shift_ = 0;
    std::uint64_t reciprocal_ = 0;  ///< 2^64 / nodes, rounded up
    std::vector<node_side> sides_;
    std::unique_ptr<home_side[]> homes_;
    std::vector<std::uintptr_t> distances_;  ///< by node and kind: from a state to its shadow
};

}  // namespace holdfast::slab
