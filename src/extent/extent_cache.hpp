// Caches of free extents, one for each arena, so that threads seldom meet at the index's lock.
//
// A cached extent is `reserved` on media, so it is free after a crash. It keeps its length, so an allocation may get up
// to an eighth more than it asked for. A caller that needs the index to know all free space (a commit, a search for the
// last space) calls flush().
//
// Before the heap grows, the index asks for all that caches hold (extent_allocator::set_reclaim_callback), so it grows
// only where all free space, united, has no room. An extent that was not needed for a whole period goes back to the
// index: decay does not see what is cached, and an idle arena would keep its space for ever.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/thread_annotations.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"

namespace holdfast::extent {

/// Shorter extents come only from requests with an alignment; longer ones are rare.
inline constexpr base::pages least_cached{4};
inline constexpr base::pages most_cached{256};

/// A stack for each length of extents. Thread-safe.
class alignas(base::cache_line_size) extent_cache {
public:
    /// Extents of one length: as many as a program may free in a row. Unused room takes no memory.
    static constexpr std::size_t depth = 4096;
    /// Enough to unite neighbours, and to take the index's lock seldom.
    static constexpr std::size_t evicted_at_once = 64;
    static constexpr std::size_t most_refilled = 16;

    extent_cache() = default;
    extent_cache(const extent_cache&) = delete;
    extent_cache& operator=(const extent_cache&) = delete;
    ~extent_cache() = default;

    /// Empties the cache. Fails with out_of_memory.
    [[nodiscard]] base::result<void> reset();

    /// Takes the shortest extent of `wanted` pages to an eighth more; the youngest among equals. Where there is none,
    /// `refill` says how many the caller should fetch: more each time that the length is missing again.
    [[nodiscard]] std::optional<extent> take(base::pages wanted, std::size_t& refill) noexcept;

    /// False where there are too many of its length: some must leave first.
    [[nodiscard]] bool put(const extent& added) noexcept;
    using evicted_extents = std::array<extent, evicted_at_once>;
    [[nodiscard]] std::size_t take_oldest(base::pages length, evicted_extents& out) noexcept;

    /// Takes out any extents. 0: the cache is empty.
    [[nodiscard]] std::size_t take_any(std::span<extent> out) noexcept;
    /// Takes out extents that were not needed since begin_period(), the oldest first. 0: there are no more.
    [[nodiscard]] std::size_t take_idle(std::span<extent> out) noexcept;
    void begin_period() noexcept;

    [[nodiscard]] base::pages total() const noexcept;
    /// For messages: looks at all.
    [[nodiscard]] bool contains(base::pages start) const noexcept;
    /// May throw std::bad_alloc.
    void append_to(std::vector<extent>& out) const;

private:
    static constexpr std::size_t lengths = most_cached.value - least_cached.value + 1;
    static constexpr std::size_t words = (lengths + 63) / 64;

    [[nodiscard]] std::uint64_t& slot(std::size_t index, std::size_t position) const noexcept HF_REQUIRES(mutex_) {
        return starts_[index * depth + position];
    }
    [[nodiscard]] std::size_t next_used(std::size_t from) const noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] std::size_t take_oldest(std::size_t index, std::size_t most, std::span<extent> out) noexcept
        HF_REQUIRES(mutex_);
    void removed(std::size_t index, std::size_t some) noexcept HF_REQUIRES(mutex_);

    mutable base::brief_mutex mutex_;
    base::sparse_table<std::uint64_t> starts_ HF_GUARDED_BY(mutex_);  ///< first pages; for each length `depth`
    std::array<std::uint64_t, words> used_ HF_GUARDED_BY(mutex_){};   ///< a bit for each length that has some
    std::array<std::uint16_t, lengths> counts_ HF_GUARDED_BY(mutex_){};
    std::array<std::uint16_t, lengths> idle_ HF_GUARDED_BY(mutex_){};  ///< the least of counts_ in this period
    base::pages total_ HF_GUARDED_BY(mutex_){};
    base::pages missed_ HF_GUARDED_BY(mutex_){};    ///< the length that take() missed last
    std::size_t refill_ HF_GUARDED_BY(mutex_) = 1;  ///< how many were fetched for it
};

/// Thread-safe from start() until stop(), between which caching is on.
class extent_caches {
public:
    explicit extent_caches(extent_allocator& extents) noexcept : extents_(extents) {}
    extent_caches(const extent_caches&) = delete;
    extent_caches& operator=(const extent_caches&) = delete;
    ~extent_caches() { stop(); }

    /// Comes before any thread uses the heap. Fails with out_of_memory. Arena i belongs to node i mod
    /// extent_allocator::nodes().
    [[nodiscard]] base::result<void> start(unsigned arenas);
    /// What is cached becomes free when the heap is opened again.
    void stop() noexcept {
        arenas_ = 0;
        extents_.set_reclaim_callback({});
    }
    /// No length is cached where free memory goes back at once.
    [[nodiscard]] bool keeps(base::pages length) const noexcept {
        return arenas_ != 0 && length >= least_cached && length <= most_cached && !extents_.fades_at_once();
    }

    /// A reserved extent of at least `wanted` pages, for which keeps() holds. Nothing where there is no space:
    /// extent_allocator::allocate() then says why.
    [[nodiscard]] std::optional<extent> take(unsigned arena, base::pages wanted) noexcept;
    /// Takes only the youngest cached extent, if it lies at a multiple of `alignment`. Fetches nothing.
    [[nodiscard]] std::optional<extent> take_aligned(unsigned arena, base::pages wanted,
                                                     base::pages alignment) noexcept;
    void put(unsigned arena, const extent& freed) noexcept;
    void flush() noexcept;

    [[nodiscard]] base::pages total() const noexcept;
    [[nodiscard]] bool contains(base::pages start) const noexcept;
    /// Appends a sentence for each cached extent that breaks EXT-9. Other threads stand still. May throw
    /// std::bad_alloc.
    void check(std::vector<std::string>& problems) const;

private:
    [[nodiscard]] std::optional<extent> fetch(unsigned arena, base::pages wanted, std::size_t refill) noexcept;
    void replace_oldest(extent_cache& cache, const extent& added) noexcept;
    [[nodiscard]] unsigned arena_of(unsigned arena, base::pages start) const noexcept;
    void keep(extent_cache& cache, const extent& added) noexcept;
    void release_idle(std::uint64_t now) noexcept;

    extent_allocator& extents_;
    std::unique_ptr<extent_cache[]> caches_;
    unsigned arenas_ = 0;  ///< 0: off
    std::atomic<std::uint64_t> period_end_{0};
    base::mutex releasing_;
    unsigned scan_cursor_ HF_GUARDED_BY(releasing_) = 0;  ///< whose idle extents are released next
    struct fetching {
        extent_caches* from;
        void operator()() const noexcept { from->flush(); }
    } fetch_{this};
};

}  // namespace holdfast::extent
