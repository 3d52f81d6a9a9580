// Frees of blocks of whole pages by threads on another node of the machine than the extent's, its *home* (PMAlloc 6.3,
// decision 51).
//
// Such a free writes only memory of its own node: a *shadow* of the page entry, a word in a table of that node, which
// is also the link of the node's list of freed extents. Until a merge, the page entry says that the extent is used, so
// a query reads entry and shadows. A merge takes the lists of all nodes for one home, makes the entries `reserved`, and
// hands the extents to its caller.
//
// Of several threads that free an extent at once, one succeeds. A thread elsewhere claims its node's shadow by a locked
// instruction, then reads all other shadows and the entry. A thread that writes the entry itself makes it `reserved` by
// a locked instruction, then reads all shadows, and gives way to each: is_taken(). The extent then belongs to the node
// with the shadow, whose merge finds the entry reserved.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "extent/free_index.hpp"
#include "extent/page_entries.hpp"

namespace holdfast::extent {

/// How a merge changes page entries. In durability `collect` an entry must be durably withdrawn before its extent is
/// used anew.
class entry_writer {
public:
    entry_writer() = default;
    entry_writer(const entry_writer&) = delete;
    entry_writer& operator=(const entry_writer&) = delete;
    virtual ~entry_writer() = default;
    /// False where the word is not `expected`.
    [[nodiscard]] virtual bool replace(std::uint64_t& word, std::uint64_t expected, std::uint64_t wanted) noexcept = 0;
    /// What was replaced is durable on return.
    virtual void make_durable() noexcept = 0;
};

/// Thread-safe, except for reset(), set_writer() and check().
class remote_extents {
public:
    static constexpr std::uint32_t no_node = ~0U;
    /// When a node has freed so many extents, or pages (256 MiB), of a home, its own threads merge: none at home did.
    static constexpr std::uint64_t late_extents = 1024;
    static constexpr std::uint64_t late_pages = 256 * base::mebibyte / base::page_size;

    explicit remote_extents(const page_entries& entries) noexcept : entries_(entries) {}
    remote_extents(const remote_extents&) = delete;
    remote_extents& operator=(const remote_extents&) = delete;
    ~remote_extents() = default;

    /// Active with several nodes, unless the system refuses the addresses. May throw std::bad_alloc.
    void reset(const node_layout& layout);
    [[nodiscard]] bool active() const noexcept { return nodes_ > 1; }
    [[nodiscard]] std::uint32_t home_of(base::pages start) const noexcept { return layout_.node_of(start); }
    /// Whether a thread of that node leaves the entry to a merge.
    [[nodiscard]] bool is_remote(std::uint32_t node, base::pages start) const noexcept {
        return active() && node != no_node && home_of(start) != node;
    }
    /// Null: merges store to the entries. It outlives this object or is removed with null.
    void set_writer(entry_writer* writer) noexcept { writer_ = writer; }

    // Only while active. Steps of a free on another node, in this order:

    /// False where no used extent starts there, or another thread frees it. A thread at home that changes the entry
    /// itself may claim it, too, until it has.
    [[nodiscard]] bool claim(std::uint32_t node, base::pages start) noexcept;
    void unclaim(std::uint32_t node, base::pages start) noexcept;
    /// The block is no longer live, and no merge frees it yet.
    void clear(std::uint32_t node, base::pages start) noexcept;
    /// As clear(), of the node that has claimed the extent. False: there is none.
    [[nodiscard]] bool clear_claimed(base::pages start) noexcept;
    /// True where a merge of the home is overdue.
    [[nodiscard]] bool release(std::uint32_t node, base::pages start, base::pages length) noexcept;

    /// Whether that node has cleared the block, and not released it.
    [[nodiscard]] bool is_cleared(std::uint32_t node, base::pages start) const noexcept;
    /// Whether a thread elsewhere frees the extent, or has. Waits for those that are about to decide.
    [[nodiscard]] bool is_taken(base::pages start) const noexcept;
    /// Whether the block is no longer live, whatever its entry says.
    [[nodiscard]] bool is_gone(base::pages start) const noexcept;
    /// Such an extent is reserved. Also while not active.
    void show(extent& found) const noexcept {
        if (found.kind == segment::extent_kind::used && active() && is_gone(found.start)) {
            found = {found.start, found.length, segment::extent_kind::reserved};
        }
    }

    /// Takes extents that other nodes have freed. They are reserved, and the caller's. 0: there are none.
    [[nodiscard]] std::size_t take(std::uint32_t home, std::span<extent> out) noexcept;
    /// Pages that wait for a merge; while threads free, some of the last ones may not be counted yet, or still be.
    [[nodiscard]] base::pages waiting(std::uint32_t home) const noexcept;
    [[nodiscard]] base::pages waiting() const noexcept;
    [[nodiscard]] std::uint64_t merged() const noexcept;

    /// Marks what this thread writes as of a merge, for tests.
    class [[nodiscard]] merging {
    public:
        merging() noexcept { ++depth(); }
        merging(const merging&) = delete;
        merging& operator=(const merging&) = delete;
        ~merging() { --depth(); }
        [[nodiscard]] static bool is_on() noexcept { return depth() != 0; }

    private:
        [[nodiscard]] static unsigned& depth() noexcept;
    };
    template <class Each>
    void for_each_range(std::uint32_t node, Each each) const {
        const node_side& side = sides_[node];
        each(&side.shadows[0], &side.shadows[0] + side.shadows.size());
        each(&side.lists[0], &side.lists[0] + side.lists.size());
    }
    void check(std::vector<std::string>& problems, base::pages frontier) const;

private:
    struct alignas(base::cache_line_size) freed_list {
        std::atomic<std::uint64_t> head;  ///< as a link
        std::atomic<std::uint64_t> extents;
        std::atomic<std::uint64_t> pages;
    };
    /// Its node's threads touch this memory first, so it lies on that node.
    struct node_side {
        base::sparse_table<std::uint64_t> shadows;  ///< by page
        base::sparse_table<freed_list> lists;       ///< by home
    };
    struct alignas(base::cache_line_size) home_side {
        base::mutex mutex;
        std::uint64_t next HF_GUARDED_BY(mutex) = 0;  ///< a link: the rest of the list that is taken
        std::uint32_t node HF_GUARDED_BY(mutex) = 0;  ///< whose list that is
        std::atomic<std::uint64_t> merged{0};
    };

    [[nodiscard]] std::atomic_ref<std::uint64_t> shadow(std::uint32_t node, base::pages start) const noexcept {
        return std::atomic_ref<std::uint64_t>(sides_[node].shadows[start.value]);
    }
    [[nodiscard]] bool is_alone(std::uint32_t node, base::pages start) const noexcept;
    [[nodiscard]] bool next_list(std::uint32_t home, home_side& of) noexcept HF_REQUIRES(of.mutex);
    [[nodiscard]] std::optional<extent> take_one(std::uint32_t node, base::pages start) noexcept;

    const page_entries& entries_;
    node_layout layout_;
    std::uint32_t nodes_ = 1;
    std::vector<node_side> sides_;
    std::unique_ptr<home_side[]> homes_;
    entry_writer* writer_ = nullptr;
};

}  // namespace holdfast::extent
