// Each arena caches free extents, so that threads seldom meet at the index's lock. On media they are `reserved`, so a
// crash frees them. They keep their length, so an allocation may get an eighth more than it asked for.
//
// Before the heap grows, the index takes all that caches hold. An extent that was not needed for a whole period goes
// back: decay does not see what is cached.
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
#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"

namespace holdfast::extent {

/// Shorter ones come only from requests with an alignment; longer ones are rare.
inline constexpr base::pages least_cached{4};
inline constexpr base::pages most_cached{256};

/// A stack for each length. Thread-safe.
class alignas(base::cache_line_size) extent_cache {
public:
    /// As many as a program may free in a row. Unused room takes no memory.
    static constexpr std::size_t depth = 4096;
    /// Enough to unite neighbours, and to take the index's lock seldom.
    static constexpr std::size_t evicted_at_once = 64;
    static constexpr std::size_t most_refilled = 16;

    extent_cache() = default;
    extent_cache(const extent_cache&) = delete;
    extent_cache& operator=(const extent_cache&) = delete;
    ~extent_cache() = default;

    /// Fails with out_of_memory.
    [[nodiscard]] base::result<void> reset();

    /// Takes the shortest extent of `wanted` pages to an eighth more; the youngest among equals. Nothing: fetch
    /// `refill`, more at each miss of the length.
    [[nodiscard]] std::optional<extent> take(base::pages wanted, std::size_t& refill) noexcept;

    /// False where there are too many of its length.
    [[nodiscard]] bool put(const extent& added) noexcept;
    using evicted_extents = std::array<extent, evicted_at_once>;
    [[nodiscard]] std::size_t take_oldest(base::pages length, evicted_extents& out) noexcept;

    [[nodiscard]] std::size_t take_any(std::span<extent> out) noexcept;
    /// Takes extents that were not needed since begin_period(), the oldest first.
    [[nodiscard]] std::size_t take_idle(std::span<extent> out) noexcept;
    void begin_period() noexcept;

    [[nodiscard]] base::pages total() const noexcept;
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
    base::sparse_table<std::uint64_t> starts_ HF_GUARDED_BY(mutex_);
    std::array<std::uint64_t, words> used_ HF_GUARDED_BY(mutex_){};
    std::array<std::uint16_t, lengths> counts_ HF_GUARDED_BY(mutex_){};
    std::array<std::uint16_t, lengths> idle_ HF_GUARDED_BY(mutex_){};  ///< the least in this period
    base::pages total_ HF_GUARDED_BY(mutex_){};
    base::pages missed_ HF_GUARDED_BY(mutex_){};
    std::size_t refill_ HF_GUARDED_BY(mutex_) = 1;
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
    void stop() noexcept {
        arenas_ = 0;
        extents_.set_reclaim_callback({});
    }
    [[nodiscard]] bool keeps(base::pages length) const noexcept {
        return arenas_ != 0 && length >= least_cached && length <= most_cached && !extents_.decays_at_once();
    }

    /// Returns a reserved extent, if keeps(wanted). Nothing: extent_allocator::allocate() says why.
    [[nodiscard]] std::optional<extent> take(unsigned arena, base::pages wanted) noexcept;
    /// Takes the youngest cached extent, if it is aligned. Fetches nothing.
    [[nodiscard]] std::optional<extent> take_aligned(unsigned arena, base::pages wanted,
                                                     base::pages alignment) noexcept;
    void put(unsigned arena, const extent& freed) noexcept;
    /// Once a period, releases idle extents of all arenas, whose own threads may be gone. A little at a time, `times`
    /// as much: true where more is to be done.
    bool age(std::uint64_t now, unsigned times) noexcept;
    /// Merges first, of every home.
    void flush() noexcept;
    /// What other nodes have freed of this home comes to the caches, or is free: for threads of that home, whose
    /// `arena` it is, before they take more, and for others where none did. Also while caching is off.
    void merge(unsigned arena, std::uint32_t home) noexcept;

    [[nodiscard]] base::pages total() const noexcept;
    [[nodiscard]] bool contains(base::pages start) const noexcept;
    /// Appends a sentence for each breach of EXT-9. Other threads stand still. May throw std::bad_alloc.
    void check(std::vector<std::string>& problems) const;

private:
    [[nodiscard]] std::optional<extent> fetch(unsigned arena, base::pages wanted, std::size_t refill) noexcept;
    void replace_oldest(extent_cache& cache, const extent& added) noexcept;
    [[nodiscard]] unsigned arena_of(unsigned arena, base::pages start) const noexcept;
    void keep(extent_cache& cache, const extent& added) noexcept;
    void release_some(std::uint64_t now) noexcept HF_REQUIRES(releasing_);
    void merge_what_waits() noexcept HF_REQUIRES(releasing_);

    extent_allocator& extents_;
    std::unique_ptr<extent_cache[]> caches_;
    unsigned arenas_ = 0;  ///< 0: off
    std::atomic<std::uint64_t> period_end_{0};
    base::mutex releasing_;
    unsigned scan_cursor_ HF_GUARDED_BY(releasing_) = 0;
    std::uint64_t merged_before_ HF_GUARDED_BY(releasing_) = 0;  ///< by the end of the last period
    struct fetching {
        extent_caches* from;
        void operator()() const noexcept { from->flush(); }
    } fetch_{this};
};

}  // namespace holdfast::extent
