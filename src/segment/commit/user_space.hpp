// Space on disk is reserved before it is handed out, so a full disk is an error here and never a SIGBUS later.
// Invariants: MAP-1 (heap_mapping.hpp), and
//
//   - A growth that fails leaves the frontier as it was.
//   - With shared pages, the superblock on media says the frontier, except while the end is in doubt: a write of the
//     superblock failed. Then nothing beyond the lower end is used, and no file between the two is removed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/commit/live_bitmaps.hpp"
#include "segment/commit/promised_space.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/files/zero_pages.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

class uncommitted_bound;

struct user_space_parts {
    const heap_location& location;
    heap_superblock& superblock;
    segment_files& segments;
    heap_mapping& mapping;
    live_bitmaps& bitmaps;
};

/// Thread safety: as space_growth. The other functions run at an open, or in a commit.
class user_space final : public space_growth {
public:
    explicit user_space(const user_space_parts& parts) noexcept;

    void set_bound(uncommitted_bound& bound) noexcept { bound_ = &bound; }
    /// In bytes.
    void set_limit(std::uint64_t capacity) noexcept { capacity_ = capacity; }

    [[nodiscard]] base::pages frontier() const noexcept override { return mapping_.frontier(); }
    base::result<base::pages> grow(base::pages wanted) override;
    base::result<base::pages> grow_beyond(base::pages skipped, base::pages wanted, base::pages most) override;
    [[nodiscard]] base::pages backed_end() const noexcept override { return backed_end_; }
    [[nodiscard]] base::pages made_from() const noexcept override { return made_from_; }
    [[nodiscard]] steps reserve_steps(base::pages at) const noexcept override;
    [[nodiscard]] base::result<void> admit(base::pages more) override;
    [[nodiscard]] bool has_room(base::pages wanted) const noexcept override;
    [[nodiscard]] bool gives_back_at_once() const noexcept override {
        return location_.shared() || location_.is_scratch();
    }
    /// Without files 64 MiB: who takes and frees such a block by turns would wait for the kernel's zeros.
    [[nodiscard]] base::pages may_linger() const noexcept override {
        return {location_.is_scratch() ? 64 * base::mebibyte / base::page_size : 0};
    }
    base::result<void> give_back(base::pages start, base::pages length) override;
    base::result<void> reserve_again(base::pages start, base::pages length) override;
    base::result<void> shrink(base::pages to) override;

    [[nodiscard]] zero_pages zeros() noexcept { return {location_, segments_, mapping_.view()}; }

    /// For commits (heap_location::reserves_at_commit()).
    [[nodiscard]] std::vector<page_run> promised() const;
    void forget_promised() noexcept { promised_.clear(); }
    /// Comes after a commit. Returns the pages given back. Best effort.
    std::uint64_t punch(const free_runs& holes) noexcept;
    /// Comes after the superblock says so. Best effort: the next open removes the rest.
    void remove_beyond(base::pages to, base::pages from) noexcept;
    /// Removes what an earlier remove_beyond() could not.
    base::result<void> clear_content_beyond();

private:
    [[nodiscard]] bool only_promises(base::pages start) const noexcept;
    base::result<void> begin_growth(base::pages wanted);
    [[nodiscard]] base::failure beyond_capacity(base::pages wanted) const;
    base::result<base::pages> grow_by(base::pages skipped, base::pages wanted, base::pages generous);
    base::result<void> reserve_growth(base::pages to, base::pages backed_from, base::pages backed_to);
    base::result<void> map_growth(base::pages to);
    base::result<void> grow_shared(base::pages to);
    void give_back_on_disk(base::pages from, base::pages to) noexcept;
    base::result<void> change_frontier(base::pages to, base::pages in_doubt);

    const heap_location& location_;
    heap_superblock& superblock_;
    segment_files& segments_;
    heap_mapping& mapping_;
    live_bitmaps& bitmaps_;
    uncommitted_bound* bound_ = nullptr;  ///< null: none
    std::uint64_t capacity_ = 0;          ///< bytes
    base::pages backed_end_{};
    base::pages made_from_{~std::uint64_t{0}};
    promised_space promised_;
    bool content_beyond_ = false;  ///< media may have content beyond the frontier
    bool end_in_doubt_ = false;    ///< shared: the frontier on media may differ
};

}  // namespace holdfast::segment
