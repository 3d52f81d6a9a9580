// What a child of fork has of a heap that its parent goes on using: a copy in its own memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "segment/heap_files.hpp"

namespace holdfast::segment {

namespace {

using base::page_size;
using base::pages;

/// Bytes of a mapping, from its begin on.
struct byte_range {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
};

/// Replaces [address, address + bytes) by memory of this process with the content of the ranges, and zeros.
base::result<void> replace_by_copy(std::byte* address, std::uint64_t bytes, std::span<const byte_range> ranges) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return base::os_failure(errno, "mmap", {});
    }
    for (const byte_range& range : ranges) {
        std::memcpy(static_cast<std::byte*>(memory) + range.begin, address + range.begin, range.length);
    }
    if (::mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) == MAP_FAILED) {
        const int os_error = errno;
        ::munmap(memory, bytes);
        return base::os_failure(os_error, "mremap", {});
    }
    return {};
}

}  // namespace

/// Calls `each` with the address and size of each range that is mapped shared, except for the lanes.
template <class Each>
base::result<void> heap_files::for_each_shared_range(Each each) const {
    HF_TRY(each(view_.base(), base::to_bytes(frontier_)));
    for (std::uint64_t i = 0; i < segment_count(frontier_); ++i) {
        HF_TRY(each(view_.metadata_of(i), view_.shape().metadata_size()));
    }
    return objects_size_ == 0 ? base::result<void>() : each(objects_, objects_size_);
}

base::result<void> heap_files::show_to_child(bool shown) const {
    if (!shared()) {
        return {};
    }
    return for_each_shared_range([shown](std::byte* address, std::uint64_t bytes) -> base::result<void> {
        if (::madvise(address, bytes, shown ? MADV_DOFORK : MADV_DONTFORK) != 0) {
            return base::os_failure(errno, "madvise", {});
        }
        return {};
    });
}

base::result<void> heap_files::continue_in_child(const free_runs& used, std::span<const base::granule> slabs) {
    if (shared()) {
        const geometry& shape = view_.shape();
        std::vector<byte_range> ranges;
        for (const auto& [start, length] : used) {
            ranges.push_back({base::offset_of(start).value, base::to_bytes(length)});
        }
        HF_TRY(replace_by_copy(view_.base(), base::to_bytes(frontier_), ranges));
        auto slab = slabs.begin();
        for (std::uint64_t i = 0; i < segment_count(frontier_); ++i) {
            const std::uint64_t here = std::min(shape.pages(), frontier_.value - i * shape.pages());
            ranges.assign({{shape.slab_headers_at(), here / base::pages_per_granule * slab_header_size},
                           {shape.page_entries_at(), here * page_entry_size}});
            for (; slab != slabs.end() && slab->value < (i + 1) * shape.granules(); ++slab) {
                ranges.push_back({shape.bitmaps_at() + slab->value % shape.granules() * bitmap_size, bitmap_size});
            }
            HF_TRY(replace_by_copy(view_.metadata_of(i), shape.metadata_size(), ranges));
        }
        if (objects_size_ != 0) {
            const byte_range all{0, objects_size_};
            HF_TRY(replace_by_copy(objects_, objects_size_, std::span(&all, 1)));
        }
        sharing_ = page_sharing::private_pages;
        hold_.reset();  // the parent still has it open and holds its locks
    }
    scratch_ = true;
    owner_ = ::getpid();
    return {};
}

}  // namespace holdfast::segment
