// When an open heap verifies its metadata: page entries and slab headers at open, live bitmaps when they are first
// used, everything when it is asked to.
#include <fmt/format.h>

#include "segment/heap_files.hpp"
#include "segment/page_sums.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;

failure damaged(const std::string& path, std::string field, std::uint32_t found, std::uint32_t expected) {
    return failure{
        failure_code::corrupt,  path, std::move(field), fmt::format("{:#x}", found), fmt::format("{:#x}", expected),
        "metadata was damaged", 0};
}

}  // namespace

// SEG-3: a page of the metadata tables matches its checksum until this process changes it.
base::result<void> heap_files::verify_mapped_page(std::uint64_t segment, std::uint64_t metadata_page) const {
    const geometry& shape = view_.shape();
    const std::byte* const metadata = view_.metadata_of(segment);
    const sum_place place = place_of_sum(shape.pages() + metadata_page);
    const auto* const sums =
        reinterpret_cast<const std::uint32_t*>(metadata + shape.checksums_at() + place.checksum_page * page_size);
    const std::uint32_t expected = sums[place.entry];
    if (expected == 0) {
        return {};
    }
    const std::uint32_t found = base::page_checksum({metadata + metadata_page * page_size, page_size});
    if (found != expected) {
        return damaged(paths_.segment(segment), fmt::format("checksum of page {}", shape.pages() + metadata_page),
                       found, expected);
    }
    return {};
}

base::result<void> heap_files::verify_tables() {
    if ((superblock_.flags & flag_stale_sums) != 0) {
        return {};  // no sum counts; the allocating layers check what they read
    }
    const geometry& shape = view_.shape();
    const std::uint64_t segments = segment_count(frontier_);
    for (std::uint64_t segment = 0; segment < segments; ++segment) {
        const std::byte* const checksums = view_.metadata_of(segment) + shape.checksums_at();
        const std::uint64_t first = place_of_sum(shape.pages()).checksum_page;
        for (std::uint64_t i = first; i < shape.checksum_pages(); ++i) {
            const std::span sums(reinterpret_cast<const std::uint32_t*>(checksums + i * page_size),
                                 checksums_per_page + 1);
            if (sums.back() != 0 && sums.back() != own_sum(sums)) {
                return damaged(paths_.segment(segment), fmt::format("checksum of checksum page {}", i), own_sum(sums),
                               sums.back());
            }
        }
        for (std::uint64_t page = 0; page < shape.bitmaps_at() / page_size; ++page) {
            HF_TRY(verify_mapped_page(segment, page));
        }
    }
    const base::scoped_lock lock(admitted_mutex_);
    admitted_.assign(segments * ((shape.checksums_at() - shape.bitmaps_at()) / page_size), false);
    return {};
}

base::result<void> heap_files::admit(base::granule position) {
    const geometry& shape = view_.shape();
    const std::uint64_t segment = position.value / shape.granules();
    const std::uint64_t page = position.value % shape.granules() * bitmap_size / page_size;
    const std::uint64_t pages = (shape.checksums_at() - shape.bitmaps_at()) / page_size;
    const std::uint64_t index = segment * pages + page;
    // The lock is held while the page is verified: a second caller may change the page as soon as it gets the lock.
    const base::scoped_lock lock(admitted_mutex_);
    if (index >= admitted_.size() || admitted_[index]) {
        return {};
    }
    HF_TRY(verify_mapped_page(segment, shape.bitmaps_at() / page_size + page));
    admitted_[index] = true;
    return {};
}

base::result<void> heap_files::admit_all() {
    const std::uint64_t granules = segment_count(frontier_) * view_.shape().granules();
    constexpr std::uint64_t granules_a_page = page_size / bitmap_size;
    for (std::uint64_t granule = 0; granule < granules; granule += granules_a_page) {
        HF_TRY(admit({granule}));
    }
    return {};
}

}  // namespace holdfast::segment
