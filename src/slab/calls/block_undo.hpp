// What brings blocks back to an earlier moment, for transactions that are aborted (decision 38).
//
// The allocator goes forward: slabs that were made stay, and slabs that are there neither go nor change their class
// while a level is open (pool_state::keeps_slabs). So the states of small blocks are all that is to be put back, and no
// call that allocates or frees small blocks takes notice. Blocks of whole pages are listed, and are freed when the last
// level has ended: until then they are `reserved` on media, which is free after a crash.
//
//   - Neither roll_back(), keep() nor carry_out() needs memory.
//   - A block that is freed at the level that took it is freed at once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/function_ref.hpp"
#include "base/mutex.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "slab/pool/layout.hpp"

namespace holdfast::slab {

class slab_pool;
struct cache_group;

class block_undo {
public:
    block_undo(slab_pool& pool, extent::extent_allocator& extents, cache_group& caches) noexcept
        : pool_(pool), extents_(extents), caches_(caches) {}
    block_undo(const block_undo&) = delete;
    block_undo& operator=(const block_undo&) = delete;
    ~block_undo() = default;

    // --- for one thread at a time ---

    /// Opens a level, to which roll_back() returns. May throw std::bad_alloc.
    void begin();
    /// Ends the last level: what was done since belongs to the one before. Where it was the only one, as carry_out().
    void keep() noexcept;
    /// Ends the last level: blocks are as they were at its begin(). The commit gate is closed. Pins that came since are
    /// gone, and those that went come back after it. `reserved`: is called for a block that was allocated then, and may
    /// have been reserved since; it gives the reservation up. `removed`: for a small block that goes.
    void roll_back(base::function_ref<void(std::uint64_t offset)> reserved,
                   base::function_ref<void(std::uint64_t offset, std::uint64_t bytes)> removed) noexcept;
    /// Before bitmaps are written while one level alone is open: remembers what they say. May throw std::bad_alloc.
    void note_bitmaps();
    /// Ends all levels: nothing is rolled back any more, and deferred frees are done.
    void carry_out() noexcept;
    /// There was no memory to defer a free: the outermost level must be rolled back.
    [[nodiscard]] bool has_failed() noexcept HF_EXCLUDES(mutex_);
    [[nodiscard]] std::size_t levels() const noexcept { return count_.load(std::memory_order_relaxed); }

    // --- of blocks of whole pages, by any thread ---

    [[nodiscard]] bool is_open() const noexcept { return levels() != 0; }
    /// False: there is no memory.
    [[nodiscard]] bool note_taken(base::pages start) noexcept HF_EXCLUDES(mutex_);
    void forget_taken(base::pages start) noexcept HF_EXCLUDES(mutex_);
    /// A block that was reserved before is allocated.
    void note_kept(base::pages start) noexcept HF_EXCLUDES(mutex_);
    /// The last level has taken it.
    [[nodiscard]] bool has_taken(base::pages start) noexcept HF_EXCLUDES(mutex_);
    enum class freeing {
        at_once,   ///< the caller frees the block
        deferred,  ///< it is no block any more
        refused,   ///< no block begins there
    };
    [[nodiscard]] freeing free(base::pages start) noexcept HF_EXCLUDES(mutex_);

private:
    using bits = std::array<std::uint64_t, bitmap_words>;
    /// Of a slab: words from `first` on, which lie in level::words from `at` on. All others are zero.
    struct saved_slab {
        base::granule slab;
        std::uint32_t first;
        std::uint32_t count;
        std::size_t at;
    };
    struct level {
        std::vector<saved_slab> slabs;  ///< those that were not clean, sorted
        std::vector<std::uint64_t> words;
        std::set<std::uint64_t> taken;  ///< first pages
        std::map<std::uint64_t, extent::extent> freed;
        bool has_failed = false;
    };
    /// The live blocks of a slab.
    struct live_blocks {
        base::granule slab;
        std::size_t first;
        std::span<const std::uint64_t> words;
        [[nodiscard]] std::uint64_t operator[](std::size_t word) const noexcept {
            return word - first < words.size() ? words[word - first] : 0;
        }
    };

    void save(base::granule slab, level& to) const;
    [[nodiscard]] bits on_media(base::granule slab) const noexcept;
    void for_each_slab(const level& to, base::function_ref<void(const live_blocks&)> each) const noexcept;
    void find_reserved(const live_blocks& to, base::function_ref<void(std::uint64_t)> reserved) const noexcept;
    void restore(const live_blocks& to, base::function_ref<void(std::uint64_t, std::uint64_t)> removed) noexcept;
    void release(const extent::extent& freed, segment::extent_kind kind) noexcept;
    void keep_room(level& of) noexcept HF_REQUIRES(mutex_);

    slab_pool& pool_;
    extent::extent_allocator& extents_;
    cache_group& caches_;
    std::atomic<std::size_t> count_{0};
    base::mutex mutex_;
    std::vector<level> levels_ HF_GUARDED_BY(mutex_);
    // Of levels that have ended: the next one needs as much memory again.
    std::vector<saved_slab> spare_slabs_ HF_GUARDED_BY(mutex_);
    std::vector<std::uint64_t> spare_words_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::slab
