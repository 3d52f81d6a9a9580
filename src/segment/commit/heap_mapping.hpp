// User space and metadata, mapped from the segment files or memory. No function checks the invariants:
//
//   MAP-1: user space [0, frontier) is mapped readable and writable, except for what protect() has taken; beyond the
//     frontier nothing is accessible. Its pages have space on disk, except for those that give_back() took, new pages
//     that a growth did not reserve (the `skipped` ones of grow_beyond(), and those from backed_end() on), and those
//     that reserves_at_commit() leaves to the commit. reserve_again() reserves the first two kinds.
//   MAP-2: pages below the committed frontier are mappings of their files; pages beyond it are zeroed memory until the
//     commit that writes them to their files. A committed page that the kernel refused to map stays memory, lies beyond
//     the adopted frontier, and counts as changed.
//   MAP-3: pages that a device stores to (committer::keep()) are never dropped or mapped anew while that is so. Where
//     they were memory at their first commit they stay memory below the adopted frontier: memory_below().
//
// So adopted() <= committed() <= frontier(), except while a commit or a shrink lowers the frontier.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/commit/folio_policy.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/commit/write_watch.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/heap_options.hpp"
#include "segment/files/holes.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

/// frontier(), before_hole() and page_access are thread-safe. Callers serialise the functions that map and unmap.
class heap_mapping final : public page_access {
public:
    heap_mapping(const heap_location& location, hole_cover& cover) noexcept : location_(location), cover_(cover) {}

    /// Fewer addresses than wanted where the process may have no more, but for a reservation that `options` ask for.
    base::result<void> reserve(const mapping_options& options, const superblock_on_media& superblock);
    /// For a mapping of the same hold: it takes these addresses, where nothing of this one is left.
    void leave_addresses() {
        location_.directories()->addresses = kept_addresses{std::move(range_), view_.reservation(), objects_room_};
    }
    /// Shared pages, before anything is mapped.
    base::result<void> split_folios(std::uint64_t frontier_bytes) const;

    [[nodiscard]] const space_view& view() const noexcept { return view_; }
    [[nodiscard]] std::span<std::byte> objects_area() const noexcept { return {objects_area_, objects_room_}; }
    [[nodiscard]] base::pages frontier() const noexcept {
        return base::pages{__atomic_load_n(&frontier_.value, __ATOMIC_ACQUIRE)};
    }
    void set_frontier(base::pages end) noexcept { __atomic_store_n(&frontier_.value, end.value, __ATOMIC_RELEASE); }
    [[nodiscard]] base::pages committed() const noexcept { return committed_; }
    [[nodiscard]] base::pages adopted() const noexcept { return adopted_; }
    [[nodiscard]] std::uint64_t segment_count(base::pages frontier) const noexcept {
        return base::divide_up(frontier.value, view_.shape().pages());
    }

    base::result<void> map_committed(base::pages frontier);
    base::result<void> apply_overlay(const log_content& overlay);
    /// Of a page by its place in the files (heap_format.hpp), and back.
    [[nodiscard]] std::byte* address_of(std::uint64_t place) const noexcept;
    [[nodiscard]] std::uint64_t place_at(const std::byte* page) const noexcept;
    base::result<void> map_fresh(base::pages from, base::pages to);
    /// Shared pages: maps files whose space up to `to` was just reserved. The committed end is `to` then; on failure it
    /// stays.
    base::result<void> map_grown(base::pages to);
    /// map_grown() could not be made durable: the committed end is `to` again.
    void withdraw_growth(base::pages to) noexcept { committed_ = to; }
    void adopt_growth() noexcept { adopted_ = committed_; }
    /// Shared pages: the mappings stay until remove_beyond().
    void lower(base::pages to) noexcept;
    /// Best effort.
    void unmap_user(base::pages to, base::pages from) noexcept;
    void unmap_metadata(std::uint64_t segment) noexcept;
    /// After this map_adopted() maps the files in the place of memory.
    void commit_frontier() noexcept;
    /// But not of the pages `kept`. May throw std::bad_alloc.
    base::result<void> map_adopted(const free_runs& kept);
    [[nodiscard]] const free_runs& memory_below() const noexcept { return memory_below_; }
    enum class reading : std::uint8_t { ahead, page_by_page };
    /// How the kernel reads pages of user space from the files. No mapping changes meanwhile.
    void set_reading(reading how) noexcept;
    [[nodiscard]] write_watch& watch() noexcept { return watch_; }
    /// Comes before the pages become a hole.
    base::result<void> before_hole(persist::file& file, std::uint64_t segment, std::uint64_t first,
                                   std::uint64_t count) {
        return folios_.part(file, segment, first, count);
    }

    // A commit that replaces memory by a mapping (MAP-2) gives access back: its caller must protect the ranges between
    // adopted() before and after it again. copy_for_child() gives back all.
    base::result<void> protect(base::pages start, base::pages length, rights left) override;
    base::result<void> unprotect(base::pages start, base::pages length) override;
    [[nodiscard]] std::uint64_t most_ranges() const override;

    base::result<void> show_to_child(bool shown) const;
    /// In a child of fork, whatever other threads of the parent were doing: the memory goes. No other call follows.
    void leave_to_parent() noexcept {
        const address_range gone = std::move(range_);
        watch_.close_in_child();
    }
    /// In a child of fork: copies of the extents `used`, the bitmaps of `slabs` and the other tables replace the
    /// mappings.
    base::result<void> copy_for_child(const free_runs& used, std::span<const base::granule> slabs);

private:
    base::result<void> take_addresses(kept_addresses left, const superblock_on_media& superblock);
    base::result<void> reserve_range(std::uint64_t user, std::byte* base, const geometry& shape,
                                     std::uint64_t objects_now);
    base::result<void> map_segment(std::uint64_t index, std::uint64_t from_page, bool fresh = false,
                                   const free_runs& kept = {});
    base::result<void> map_user_pages(persist::file& file, base::pages first, base::pages end, bool fresh);
    base::result<void> map_let_go(const free_runs& kept);
    void place(std::uint64_t index, std::byte* address, std::uint64_t bytes, bool fresh) const noexcept;

    const heap_location& location_;
    hole_cover& cover_;
    write_watch watch_;  ///< goes after range_
    huge_pages user_pages_ = huge_pages::advise;
    reading reading_ = reading::ahead;
    address_range range_;
    space_view view_;
    std::byte* objects_area_ = nullptr;
    std::uint64_t objects_room_ = 0;
    base::pages frontier_{};
    base::pages committed_{};
    base::pages adopted_{};
    free_runs memory_below_;  ///< MAP-3
    folio_policy folios_{location_.sharing(), view_};
};

}  // namespace holdfast::segment
