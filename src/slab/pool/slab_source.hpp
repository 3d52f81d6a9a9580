// Where slabs come from and go to: granules, headers and bitmaps on media, and guard ranges.
//
// - A granule is a reserved extent until its slab is complete, so after a crash it is free.
// - No slab is made or loaded before its bitmap has space on disk and is what was committed.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/format/space.hpp"
#include "slab/pool/guard_ranges.hpp"
#include "slab/pool/pool_state.hpp"

namespace holdfast::slab {

/// Thread-safe, except for start_guards(). For a slab that is there, the caller holds the lock of its bin.
class slab_source {
public:
    slab_source(pool_state& of, segment::bitmap_verifier* verifier) noexcept : of_(of), verifier_(verifier) {}
    slab_source(const slab_source&) = delete;
    slab_source& operator=(const slab_source&) = delete;
    ~slab_source() = default;

    /// The slab's state in DRAM is still `none`, or `quarantined` where it fails with corrupt; otherwise it fails as
    /// extent_allocator::allocate() does. May throw std::bad_alloc.
    [[nodiscard]] base::result<base::granule> make(unsigned class_index, std::uint32_t type, std::uint32_t node);
    /// The slab is in no list and has no block out. `backed`: it has space on disk.
    void release(base::granule slab, unsigned class_index, std::uint32_t type, bool backed) noexcept;
    [[nodiscard]] bool back(base::granule slab) noexcept;

    /// Fails as bitmap_verifier::back() does.
    [[nodiscard]] base::result<void> back_bitmap(base::granule slab,
                                                 segment::bitmap_verifier::slab_is use) const noexcept;
    /// `corrupt` where the bitmap is not what was committed. Cheap after the first call.
    [[nodiscard]] base::result<void> admit(base::granule slab) const {
        return verifier_ == nullptr ? base::result<void>() : verifier_->admit(slab);
    }
    [[nodiscard]] bool admits(base::granule slab) const noexcept;
    [[nodiscard]] bool has_bitmap(base::granule of) const { return verifier_ == nullptr || verifier_->has_bitmap(of); }

    /// New slabs get a guard range where there is room. Comes after the reset of the table. Fails as
    /// guard_ranges::start() does.
    [[nodiscard]] base::result<void> start_guards(segment::page_access& access, segment::page_access::rights left) {
        return guards_.start(access, left, of_.table.granules());
    }
    /// No other thread may be in a call, as in renew_guards().
    void free_guards() noexcept;
    void renew_guards(base::pages from, base::pages end) noexcept;
    [[nodiscard]] guard_ranges& guards() noexcept { return guards_; }
    [[nodiscard]] const guard_ranges& guards() const noexcept { return guards_; }

private:
    [[nodiscard]] base::result<void> back_new_bitmap(base::granule slab) const;
    [[nodiscard]] base::result<base::pages> take_granule(std::uint32_t node);
    [[nodiscard]] std::optional<base::pages> take_guarded(std::uint32_t node);
    bool free_reserved(base::granule position) noexcept;
    void free_guard_of(base::granule slab) noexcept;
    void write_header(base::granule slab, const size_class& size, std::uint32_t type) const noexcept;

    pool_state& of_;
    segment::bitmap_verifier* verifier_;
    guard_ranges guards_;
};

}  // namespace holdfast::slab
