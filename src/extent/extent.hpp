// The face of the layer extent: runs of 4 KiB pages.
//
// The page entries (segment_format.hpp) are the truth: the entry at the first page of each extent says how long it is
// and what it is for; all extents together tile the user space up to the frontier (EXT-1 to EXT-7). Everything else is
// an index in DRAM, rebuilt at open. Each change of an entry is one 8-byte store, in an order in which every prefix of
// the stores leaves a tiling of the space: entries inside an extent say nothing.
//
// Allocation is best fit, the lowest address among equals; a freed extent is united with its free neighbours at once;
// where nothing fits, the space grows, and a free extent at its end counts toward what is asked for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/thread_annotations.hpp"
#include "base/units.hpp"
#include "extent/extent_check.hpp"
#include "extent/free_index.hpp"
#include "segment/space.hpp"

namespace holdfast::extent {

/// The largest alignment, in pages: 2 MiB.
inline constexpr std::uint64_t maximum_alignment = segment::region_size / base::page_size;

/// Hands out and takes back extents of one heap. One of format() and open() comes first. Thread-safe.
class extent_allocator {
public:
    using visitor = base::function_ref<void(const extent&)>;

    extent_allocator(segment::space_view space, segment::space_growth& growth) noexcept
        : space_(space), growth_(growth) {}
    extent_allocator(const extent_allocator&) = delete;
    extent_allocator& operator=(const extent_allocator&) = delete;
    ~extent_allocator() = default;

    /// Writes the page entries of a new heap, whose first region the caller has grown: the roots, the rest free.
    [[nodiscard]] base::result<void> format();

    /// Reads the page entries of [0, frontier), checks EXT-1 to EXT-5 and builds the index; calls `each` for every
    /// extent, in order of address. Time: proportional to the number of extents. Writes nothing to the heap, unless
    /// extents are reserved: those become free. Fails with corrupt.
    [[nodiscard]] base::result<void> open(base::pages frontier, visitor each);
    [[nodiscard]] base::result<void> open(base::pages frontier);

    /// Called with the first page of a new extent before its page entry says that it exists: what the kind needs is
    /// written by then (a slab's header). It must not call this object.
    using preparation = base::function_ref<void(base::pages)>;

    /// An extent of `length` pages at a multiple of `alignment` (a power of two of pages, up to maximum_alignment).
    /// Fails with invalid_argument, with limit where the reservation is too small, and as space_growth::grow() does.
    /// `type`: of a used one, below segment::type_limit.
    [[nodiscard]] base::result<base::pages> allocate(base::pages length, base::pages alignment,
                                                     segment::extent_kind kind, std::uint32_t type = 0);
    [[nodiscard]] base::result<base::pages> allocate(base::pages length, base::pages alignment,
                                                     segment::extent_kind kind, preparation prepare);

    /// Frees the extent of that kind (used, slab or reserved) that starts there. Anything else fails with bad_address,
    /// and nothing is changed.
    [[nodiscard]] base::result<void> free(base::pages start, segment::extent_kind kind = segment::extent_kind::used);

    /// Durability `atomic`: the caller has written, after a durable record, that an extent which was `from` is reserved
    /// (withdrawn from use, to be freed), or that one which was reserved is `to`; the index follows.
    void changed_kind(segment::extent_kind from, segment::extent_kind to) noexcept;

    /// After a crash in durability `atomic`, or where a program left extents reserved: believes the page entries of
    /// used, slab and roots alone and writes all others anew; open() comes next. Time: proportional to the pages. Fails
    /// with corrupt where two extents overlap.
    [[nodiscard]] base::result<void> rebuild(base::pages frontier) const;

    /// The extent that starts at this page, if one does.
    [[nodiscard]] std::optional<segment::page_entry> find(base::pages start) const;
    /// The extent that contains this page; nothing beyond the frontier. Time: proportional to the extent's length / 64;
    /// for messages and conservative searches.
    [[nodiscard]] std::optional<extent> containing(base::pages page) const;

    /// The first page beyond the space that is tiled.
    [[nodiscard]] base::pages frontier() const noexcept { return {frontier_.load(std::memory_order_acquire)}; }
    /// Pages of the largest free extent.
    [[nodiscard]] base::pages largest_free() const;
    /// Pages of all free extents together.
    [[nodiscard]] base::pages free_pages() const;
    /// Number of extents of a kind.
    [[nodiscard]] std::uint64_t count(segment::extent_kind kind) const;

    /// Calls `each` for all extents (all free extents) in order of address. No lock is held meanwhile: `each` may
    /// allocate and free; extents that come or go during the walk may be missed.
    void for_each(visitor each) const;
    void for_each_free(visitor each) const;

    /// Appends a sentence for every invariant that does not hold. Other threads stand still.
    void check(std::vector<std::string>& problems) const;

private:
    [[nodiscard]] base::result<base::pages> allocate(base::pages length, base::pages alignment,
                                                     segment::page_entry wanted, preparation prepare);
    [[nodiscard]] std::uint64_t load(base::pages page) const noexcept;
    void store(base::pages page, segment::page_entry entry) const noexcept;
    void add(const extent& added) noexcept HF_REQUIRES(mutex_);
    void remove(const extent& removed) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool starts_at(base::pages page) const noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> reset() HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> grow_for(base::pages length, base::pages alignment) HF_REQUIRES(mutex_);
    void adopt(base::pages new_frontier) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] base::pages carve(const free_index::placement& place, segment::page_entry wanted, preparation prepare)
        HF_REQUIRES(mutex_);
    [[nodiscard]] std::optional<base::failure> refusal(base::pages start, segment::extent_kind kind) const
        HF_REQUIRES(mutex_);
    [[nodiscard]] std::size_t copy_some(base::pages& position, std::array<extent, 128>& some) const HF_EXCLUDES(mutex_);
    void check_interiors(const extent& of, std::vector<std::string>& problems) const;
    void check_index(const extent& of, std::vector<std::string>& problems) const HF_REQUIRES(mutex_);

    segment::space_view space_;
    segment::space_growth& growth_;
    std::atomic<std::uint64_t> frontier_{0};
    mutable base::mutex mutex_;
    free_index free_ HF_GUARDED_BY(mutex_);
    /// One bit a page: an extent starts here. Entries elsewhere are never believed, whatever media says.
    base::sparse_table<std::uint64_t> starts_ HF_GUARDED_BY(mutex_);
    std::array<std::uint64_t, 6> counts_ HF_GUARDED_BY(mutex_){};
};

}  // namespace holdfast::extent
