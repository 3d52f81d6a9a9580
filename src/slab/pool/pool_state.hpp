// What the parts of a slab pool share, and what the pool asks of those above it: a gate, and a log.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.hpp"
#include "extent/extent.hpp"
#include "lane/lane_format.hpp"
#include "segment/format/space.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/pool/pinned_blocks.hpp"
#include "slab/pool/slab_table.hpp"

namespace holdfast::slab {

struct thread_cache;

/// What a commit closes while it reads what the pool changes on media. calls/gates.hpp does it: it knows the threads,
/// of which the pool knows nothing. Thread-safe.
class gate_of_pool {
public:
    gate_of_pool() = default;
    gate_of_pool(const gate_of_pool&) = delete;
    gate_of_pool& operator=(const gate_of_pool&) = delete;

    struct entry {
        thread_cache* of = nullptr;
        bool is_first = false;  ///< else the thread is inside already
    };
    /// Waits while a commit runs.
    [[nodiscard]] virtual entry enter_pool() noexcept = 0;
    virtual void leave_pool(const entry& entered) noexcept = 0;

protected:
    ~gate_of_pool() = default;
};

class [[nodiscard]] pool_call {
public:
    explicit pool_call(gate_of_pool& gate) noexcept : gate_(gate), entered_(gate.enter_pool()) {}
    pool_call(const pool_call&) = delete;
    pool_call& operator=(const pool_call&) = delete;
    ~pool_call() { gate_.leave_pool(entered_); }

private:
    gate_of_pool& gate_;
    gate_of_pool::entry entered_;
};

[[nodiscard]] lane::block_word slab_word(slab_kind kind) noexcept;

/// Makes durable what must precede a change of a slab, in durabilities `atomic` and `collect`. Implemented by heap/.
/// After a failed sync no later call of the heap succeeds, so only the first function answers.
class slab_log {
public:
    slab_log() = default;
    slab_log(const slab_log&) = delete;
    slab_log& operator=(const slab_log&) = delete;
    virtual ~slab_log() = default;

    /// Writes a durable record, then header and page entry. False: a sync has failed, and nothing was stored.
    [[nodiscard]] virtual bool slab_created(base::granule slab, const size_class& size,
                                            std::uint32_t type) noexcept = 0;
    /// Writes a durable record, then the page entry of a reserved extent.
    virtual void slab_released(base::granule slab, const size_class& size, std::uint32_t type) noexcept = 0;
    /// Writes a durable record, then the header.
    virtual void slab_morphed(base::granule slab, slab_kind from, slab_kind to) noexcept = 0;
    /// Older blocks of a morphed slab are gone. In durability `collect`, makes their bits durable before others take
    /// their place.
    virtual void old_blocks_written(base::granule slab) noexcept = 0;
};

/// A class is idle when so many slabs of others were wanted since one of its blocks was.
inline constexpr std::uint64_t idle_after = 32;

/// Thread-safe.
class slab_demand {
public:
    void reset() noexcept { set_space_short(false); }
    void note_wanted() noexcept { wanted_.fetch_add(1, std::memory_order_relaxed); }
    /// The time by which classes become idle.
    [[nodiscard]] std::uint64_t now() const noexcept { return wanted_.load(std::memory_order_relaxed); }
    /// Space ran out, and no slab was made since.
    [[nodiscard]] bool is_space_short() const noexcept { return space_is_short_.load(std::memory_order_relaxed); }
    void set_space_short(bool is_short) noexcept { space_is_short_.store(is_short, std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> wanted_{0};
    std::atomic<bool> space_is_short_{false};
};

struct alignas(base::cache_line_size) scan_cursor {
    std::atomic<std::uint64_t> at{0};
};

/// Constant after open(), except for what is thread-safe.
struct pool_state {
    pool_state(segment::space_view of_heap, extent::extent_allocator& extents_of_heap,
               gate_of_pool& of_commits) noexcept
        : space(of_heap), extents(extents_of_heap), gate(of_commits) {}

    segment::space_view space;
    extent::extent_allocator& extents;
    gate_of_pool& gate;
    slab_log* log = nullptr;
    bool tracks_changes = true;  ///< slabs are clean after write_bitmaps()
    bool traced = false;
    /// Blocks may be put back to what they were (block_undo.hpp): slabs neither go nor change their class.
    std::atomic<bool> keeps_slabs{false};
    slab_table table;    ///< thread-safe
    pinned_blocks pins;  ///< thread-safe
    slab_demand demand;  ///< thread-safe

    /// In durability `commit`, nobody else sees a store before the commit.
    [[nodiscard]] bool is_private() const noexcept { return log == nullptr && tracks_changes && !traced; }
    [[nodiscard]] base::granule end() const noexcept { return {extents.frontier().value / base::pages_per_granule}; }
    [[nodiscard]] std::uint32_t node_of(base::granule slab) const noexcept {
        return extents.node_of(base::first_page(slab));
    }
    [[nodiscard]] std::uint32_t node_of_arena(unsigned arena) const noexcept { return arena % extents.nodes(); }
    [[nodiscard]] std::uint64_t granules_of_node(std::uint32_t node) const noexcept {
        const std::uint64_t all = end().value;
        const std::uint32_t nodes = extents.nodes();
        if (nodes == 1) {
            return all;
        }
        const std::uint64_t segment = space.shape().granules();
        const std::uint64_t whole = all / segment;
        return (whole + nodes - 1 - node) / nodes * segment + (whole % nodes == node ? all % segment : 0);
    }
    [[nodiscard]] base::granule nth_of_node(std::uint32_t node, std::uint64_t nth) const noexcept {
        const std::uint64_t segment = space.shape().granules();
        return {(nth / segment * extents.nodes() + node) * segment + nth % segment};
    }
};

}  // namespace holdfast::slab
