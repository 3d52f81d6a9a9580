// Page entries and slab headers are verified at open, live bitmaps at their first use (SEG-3).
#pragma once

#include <cstdint>
#include <vector>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "persist/backing.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

class live_bitmaps final : public bitmap_verifier {
public:
    live_bitmaps(const heap_location& location, const heap_mapping& mapping, segment_files& segments) noexcept
        : location_(location), mapping_(mapping), segments_(segments) {}

    /// `has_checksums`: the checksums of pages count.
    base::result<void> verify_tables(bool has_checksums);

    base::result<void> admit(base::granule position) override;
    base::result<void> back(base::granule position, slab_is use) override;
    [[nodiscard]] bool has_bitmap(base::granule position) override;
    /// Comes before a recovery stores to the bitmap: a loss of power may have undone what back() reserved, which is not
    /// synced on a disk, and a store to a hole of a full disk is a SIGBUS. Asks for space only where the file has a
    /// hole. Fails as back() does.
    base::result<void> back_again(base::granule position);
    base::result<void> admit_all();
    /// Other bitmaps are mapped.
    void admit_none();
    /// The heap has so many segments from here on.
    void forget_beyond(std::uint64_t segments);

private:
    [[nodiscard]] std::uint64_t pages_of_segment() const noexcept;
    base::result<void> verify_mapped_page(std::uint64_t segment, std::uint64_t metadata_page) const;

    const heap_location& location_;
    const heap_mapping& mapping_;
    segment_files& segments_;
    base::mutex admitted_mutex_;
    std::vector<bool> admitted_ HF_GUARDED_BY(admitted_mutex_);  ///< by bitmap page
    base::mutex backed_mutex_;
    std::uint64_t examined_segment_ HF_GUARDED_BY(backed_mutex_) = ~std::uint64_t{0};
    persist::file_backing examined_ HF_GUARDED_BY(backed_mutex_);  ///< of that segment's file
    std::vector<bool> backed_ HF_GUARDED_BY(backed_mutex_);        ///< by bitmap page
};

}  // namespace holdfast::segment
