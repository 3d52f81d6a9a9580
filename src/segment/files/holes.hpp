// Holes in a heap's files: how much of a range has space on disk, and zeros of a reader's own over what has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/backing.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

struct backed_bytes {
    std::uint64_t bytes = 0;
    bool exact = true;  ///< false: a lower bound (persist::file_backing)
};

/// Ranges come in order of address and do not overlap: each file's extents are read once. The heap may be in use.
class backing_cursor {
public:
    backing_cursor(persist::storage& storage, const heap_paths& paths, geometry shape)
        : storage_(storage), paths_(paths), shape_(shape) {}

    /// Counts bytes that have space on disk. `end` is at most the frontier.
    base::result<backed_bytes> count(base::heap_offset begin, base::heap_offset end);

private:
    base::result<void> load(std::uint64_t segment);

    persist::storage& storage_;
    const heap_paths& paths_;
    geometry shape_;
    std::uint64_t loaded_ = ~std::uint64_t{0};  ///< that backing_ describes
    persist::file_backing backing_;
    std::size_t next_ = 0;
};

struct mapped_window {
    std::byte* address;
    std::uint64_t offset;
    std::uint64_t size;
};

/// A reader of a copied heap must not take space, but reading a hole does so on some file systems (tmpfs): it maps
/// zeros of its own over holes. Runs while the heap is opened, in one thread.
class hole_cover {
public:
    hole_cover() = default;
    hole_cover(const hole_cover&) = delete;
    hole_cover& operator=(const hole_cover&) = delete;
    ~hole_cover() = default;

    void require() noexcept { required_ = true; }
    [[nodiscard]] bool is_required() const noexcept { return required_; }
    /// `limit` where there are too many holes. Does nothing unless it is_required() and reading takes space.
    base::result<void> cover(persist::file& file, std::span<const mapped_window> windows);

private:
    std::uint64_t covered_ = 0;  ///< each a mapping
    bool required_ = false;
};

}  // namespace holdfast::segment
