// The slabs of a heap and who owns them: takes blocks out and puts them back, in batches, for the caches of threads.
//
// A bin is one class in one arena: a lock, and the list of its slabs that have free blocks. A slab belongs to the bin
// that made or loaded it; blocks return to their slab under the lock of its owner, whoever returns them. A slab without
// a block out goes back to the extents; each bin keeps one, so that a program that frees and allocates one block does
// not make and unmake a slab each time.
//
// Blocks with a type number lie in slabs of their own, one type each, with one bin for each type and class. No thread
// caches them: they are taken and put back one by one.
//
// After open(), slabs are known by their state byte alone ("unloaded"). A bin that needs blocks, or a free of one of
// its blocks, loads a slab: reads its live bitmap into a twin. So opening costs one byte and one header a slab.
//
// Locks are taken in this order: bin, unclaimed, the extent layer's; that of the typed bins alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "base/thread_annotations.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "segment/space.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_table.hpp"

namespace holdfast::slab {

inline constexpr unsigned maximum_arenas = 64;

/// Durability `atomic`: what the life of a slab needs before its page entry may change. Implemented by heap/.
class slab_log {
public:
    slab_log() = default;
    slab_log(const slab_log&) = delete;
    slab_log& operator=(const slab_log&) = delete;
    virtual ~slab_log() = default;

    /// Writes a durable record, then the slab's header and its page entry.
    virtual void slab_created(base::granule slab, const size_class& kind, std::uint32_t type) noexcept = 0;
    /// Writes a durable record; then the page entry says that the extent is reserved.
    virtual void slab_released(base::granule slab, const size_class& kind, std::uint32_t type) noexcept = 0;
};

/// Blocks are named by their offset from the heap's base in bytes. Thread-safe, but for reset() and record().
class slab_pool {
public:
    /// `guard`, where there is one, vouches for the bitmaps of slabs that were there before.
    slab_pool(segment::space_view space, extent::extent_allocator& extents, segment::bitmap_guard* guard) noexcept
        : space_(space), extents_(extents), guard_(guard) {}
    slab_pool(const slab_pool&) = delete;
    slab_pool& operator=(const slab_pool&) = delete;
    ~slab_pool() = default;

    /// Forgets everything; makes one arena a core, as many on each node. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> reset();
    /// From now on slabs come and go through the log.
    void set_log(slab_log* log) noexcept { log_ = log; }
    /// A slab that open() found; its header is read and, where it breaks an invariant, the slab quarantined. May throw
    /// std::bad_alloc.
    void record(base::granule found) HF_NO_THREAD_SAFETY_ANALYSIS;

    /// A multiple of extent_allocator::nodes(): arena i is one of node i mod that number.
    [[nodiscard]] unsigned arenas() const noexcept { return arenas_; }
    /// Which arena a thread on this node of a machine of so many uses, as the `turn`-th.
    [[nodiscard]] unsigned arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept;
    [[nodiscard]] const slab_table& table() const noexcept { return table_; }
    [[nodiscard]] slab_table& table() noexcept { return table_; }

    /// Takes at least one and at most out.size() blocks: of the arena's own slabs, of unloaded ones, of a new one. With
    /// a type: of the slabs with that type, and the arena does not matter. Fails as extent_allocator::allocate() does.
    /// May throw std::bad_alloc.
    [[nodiscard]] base::result<std::size_t> take(unsigned arena, unsigned class_index, std::uint32_t type,
                                                 std::span<std::uint64_t> out);
    /// The same when space has run out: from any slab of any arena. 0 where there is no free block of the class (and
    /// type) at all.
    [[nodiscard]] std::size_t take_anywhere(unsigned class_index, std::uint32_t type,
                                            std::span<std::uint64_t> out) noexcept;
    /// Puts blocks without a type that were taken, and are not live, back. The order of the span is changed.
    void give(unsigned class_index, std::span<std::uint64_t> offsets) noexcept;
    /// The same for one with a type.
    void give_typed(unsigned class_index, std::uint32_t type, std::uint64_t offset) noexcept;

    /// Loads an unloaded slab for the arena; afterwards it is loaded or quarantined. Does nothing to another slab.
    void load(base::granule unloaded, unsigned arena) noexcept;
    /// `corrupt` where the slab's live bitmap is not what was committed; cheap after the first time.
    [[nodiscard]] base::result<void> admit(base::granule slab) const {
        return guard_ == nullptr ? base::result<void>() : guard_->admit(slab);
    }
    /// For checks: bitmap_guard::has_bitmap().
    [[nodiscard]] bool has_bitmap(base::granule of) const { return guard_ == nullptr || guard_->has_bitmap(of); }
    /// Gives all slabs without a block out back to the extents, unloaded ones too.
    void release_empty() noexcept;

private:
    friend class slab_checker;

    struct alignas(base::cache_line_size) bin {
        base::mutex mutex;
        unsigned class_index = 0;
        unsigned arena = 0;
        std::uint32_t type = 0;
        std::uint32_t head HF_GUARDED_BY(mutex) = 0;   ///< granule + 1; slabs with free blocks
        std::uint32_t spare HF_GUARDED_BY(mutex) = 0;  ///< granule + 1; the one slab in the list that is empty
    };
    /// Of all slabs with one type and class. Lives until reset().
    struct typed_bin : bin {
        std::vector<std::uint32_t> waiting HF_GUARDED_BY(mutex);  ///< granules found at open; those loaded since stay
        typed_bin* next = nullptr;                                ///< in the list of all
    };
    /// The slabs of one class without a type, on one node, that are not loaded yet, found by their state bytes from the
    /// cursor on.
    struct unclaimed {
        base::mutex mutex;
        std::uint64_t cursor HF_GUARDED_BY(mutex) = 0;
        std::uint64_t count HF_GUARDED_BY(mutex) = 0;
    };

    [[nodiscard]] bin& bin_of(unsigned arena, unsigned class_index) const noexcept {
        return bins_[arena * class_count + class_index];
    }
    [[nodiscard]] unclaimed& unclaimed_of(std::uint32_t node, unsigned class_index) const noexcept {
        return unclaimed_[node * class_count + class_index];
    }
    [[nodiscard]] std::uint32_t node_of(base::granule slab) const noexcept {
        return extents_.node_of(base::first_page(slab));
    }
    /// Null where no such slab was ever there.
    [[nodiscard]] typed_bin* find_typed_bin(unsigned class_index, std::uint32_t type) noexcept
        HF_EXCLUDES(typed_mutex_);
    [[nodiscard]] typed_bin& typed_bin_of(unsigned class_index, std::uint32_t type) HF_EXCLUDES(typed_mutex_);
    [[nodiscard]] std::size_t take_all_of(bin& from, std::span<std::uint64_t> out) noexcept;
    void release_empty_of(bin& owner) noexcept;
    void link(bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    void unlink(bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] std::size_t take_listed(bin& from, std::span<std::uint64_t> out) noexcept HF_REQUIRES(from.mutex);
    [[nodiscard]] std::size_t take_from(bin& from, base::granule slab, std::span<std::uint64_t> out) noexcept
        HF_REQUIRES(from.mutex);
    void give_one(bin& owner, std::uint64_t offset) noexcept HF_REQUIRES(owner.mutex);
    void settle_empty(bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    void release(bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] base::result<void> create(bin& owner) HF_REQUIRES(owner.mutex);
    [[nodiscard]] base::result<void> back_bitmap(base::granule slab) const noexcept;
    [[nodiscard]] bool admitted(base::granule slab) const noexcept;
    void write_header(base::granule slab, const size_class& kind, std::uint32_t type) const noexcept;
    [[nodiscard]] bool load_next(bin& owner) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] bool load_next_typed(typed_bin& owner) noexcept HF_REQUIRES(owner.mutex);
    void load_typed(base::granule unloaded, unsigned class_index) noexcept;
    void load_into(bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);

    segment::space_view space_;
    extent::extent_allocator& extents_;
    segment::bitmap_guard* guard_;
    slab_log* log_ = nullptr;
    slab_table table_;
    unsigned arenas_ = 0;
    std::uint64_t recorded_end_ = 0;  ///< granules; no unloaded slab at or beyond it
    std::unique_ptr<bin[]> bins_;
    std::unique_ptr<unclaimed[]> unclaimed_;
    base::mutex typed_mutex_;
    std::unordered_map<std::uint64_t, std::unique_ptr<typed_bin>> typed_bins_ HF_GUARDED_BY(typed_mutex_);
    std::atomic<typed_bin*> first_typed_{nullptr};  ///< a list that only grows: walked without the lock
};

}  // namespace holdfast::slab
