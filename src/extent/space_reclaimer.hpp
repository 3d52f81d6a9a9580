// Space on disk goes back (EXT-8) only from pages that no thread can allocate meanwhile: they are a reserved extent, or
// the caller says that none was allocated. No lock of the map is held while the file system works, except where the
// heap becomes shorter.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/function_ref.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/decay.hpp"
#include "extent/disk_space.hpp"
#include "extent/extent_map.hpp"
#include "extent/heap_end.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

/// 16 MiB. Their space goes back with the free, beyond segment::space_growth::may_linger().
inline constexpr base::pages huge_length{16 * base::mebibyte / base::page_size};

/// Thread-safe.
class space_reclaimer {
public:
    space_reclaimer(base::mutex& lock, extent_map& map, disk_space& disk, heap_end& end, extent_decay& decay,
                    segment::space_growth& growth) noexcept
        : mutex_(lock), map_(map), end_(end), decay_(decay), disk_(disk), growth_(growth) {}
    space_reclaimer(const space_reclaimer&) = delete;
    space_reclaimer& operator=(const space_reclaimer&) = delete;
    ~space_reclaimer() = default;

    /// No space goes back while `written_back` is false: something recorded so far will still be written back. In
    /// durability `atomic` a checkpoint's flush of a line in a hole takes disk space, and is a SIGBUS where there is
    /// none. Comes before the first free; `written_back` must outlive this object.
    void set_written_back_check(base::function_ref<bool()> written_back) noexcept {
        disk_.set_written_back_check(written_back);
    }
    /// Comes before the first free. May throw std::bad_alloc.
    void set_decay(std::uint64_t total_ns, extent_decay::clock_function clock);

    /// Gives back at most `most` extents; true where more have decayed. Does nothing where a commit gives back.
    bool decay(std::uint64_t most) noexcept;
    /// Extents of any age, the oldest first, until `wanted` pages went back or the file system fails. Returns the pages
    /// given back; 0 where a commit gives back.
    [[nodiscard]] base::result<base::pages> give_back(base::pages wanted);
    /// Comes after a free, without a lock. `huge`: a reserved extent to give back and then to free, or none. `due`: a
    /// step of the decay is over. Does a little only.
    void after_free(const free_index::run& huge, bool due) noexcept;

    /// Free pages have space, and a step of the decay is over.
    [[nodiscard]] bool is_due() const noexcept;
    /// For a commit: the free extents that have decayed or are huge; with `all`, every one that may have space. May
    /// throw std::bad_alloc.
    [[nodiscard]] std::vector<extent> to_give_back(bool all);
    /// The extents were not allocated meanwhile.
    void gave_back(const std::vector<extent>& gone) noexcept;

    /// Cuts the free extent at the heap's end off, except for `keep` pages. `written_back`, asked under the lock:
    /// nothing that a recovery reads refers to free space. Returns the pages by which the heap became shorter; 0 where
    /// it cannot.
    [[nodiscard]] base::result<base::pages> shrink(base::pages keep, base::function_ref<bool()> written_back);
    /// unshrink() where the commit failed.
    [[nodiscard]] base::pages shrink_for_commit(base::pages keep) noexcept;
    void unshrink() noexcept;

    /// Calls `each` under the lock for extents that may have space, the oldest first; after open() for all, in order of
    /// address.
    void for_each_backed(extent_visitor each) const;
    [[nodiscard]] base::pages backed_free_pages() const;

private:
    [[nodiscard]] bool give_back_reserved(const free_index::run& taken) noexcept;
    [[nodiscard]] bool give_back_oldest(bool decayed_only) noexcept HF_REQUIRES(giving_back_);

    base::mutex& mutex_;
    extent_map& map_ HF_GUARDED_BY(mutex_);
    heap_end& end_ HF_GUARDED_BY(mutex_);
    extent_decay& decay_ HF_GUARDED_BY(mutex_);
    disk_space& disk_;  ///< needs no lock
    segment::space_growth& growth_;
    std::atomic<bool> behind_{false};  ///< more has decayed than was given back
    base::pages given_back_ HF_GUARDED_BY(mutex_){};
    base::mutex giving_back_;  ///< taken before mutex_
};

}  // namespace holdfast::extent
