// The objects file of an open heap, mapped at [begin(), begin() + size()).
//
//   - adopted_size() <= committed_size() <= size(). Up to adopted_size() the bytes are a mapping of the file, beyond it
//     memory (MAP-2). With shared pages the three are equal.
//   - The file has space on disk for size() bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/holes.hpp"
#include "segment/files/superblock_of_files.hpp"

namespace holdfast::segment {

/// Callers serialise grow(); the rest runs at an open, in a commit or in a child of fork.
class objects_file {
public:
    objects_file(const heap_location& location, superblock_of_files& superblock, hole_cover& cover) noexcept
        : location_(location), superblock_(superblock), cover_(cover) {}
    objects_file(const objects_file&) = delete;
    objects_file& operator=(const objects_file&) = delete;
    ~objects_file() = default;

    void set_area(std::span<std::byte> area) noexcept {
        begin_ = area.data();
        room_ = area.size();
    }
    [[nodiscard]] std::byte* begin() const noexcept { return begin_; }
    /// Thread-safe.
    [[nodiscard]] std::uint64_t size() const noexcept { return __atomic_load_n(&size_, __ATOMIC_ACQUIRE); }
    [[nodiscard]] std::uint64_t committed_size() const noexcept { return committed_size_; }
    [[nodiscard]] std::uint64_t adopted_size() const noexcept { return adopted_size_; }

    base::result<void> map_committed();
    /// New bytes read as zero.
    base::result<void> grow(std::uint64_t bytes);
    /// Of a reader: the writer has committed so many.
    base::result<void> follow_growth(std::uint64_t bytes);
    /// After this map_adopted() maps the file in the place of memory.
    void commit_size() noexcept { committed_size_ = size_; }
    base::result<void> map_adopted();
    /// Cuts off what a crash left, durably.
    base::result<void> remove_leftovers() const;
    /// Erases, durably, the checksums of pages that changed without them. Comes before the file is mapped.
    base::result<void> forget_checksums() const;
    base::result<void> sync() const;

    base::result<void> show_to_child(bool shown) const;
    base::result<void> copy_for_child();

private:
    void set_size(std::uint64_t bytes) noexcept { __atomic_store_n(&size_, bytes, __ATOMIC_RELEASE); }
    base::result<void> map_from(std::uint64_t from);

    const heap_location& location_;
    superblock_of_files& superblock_;
    hole_cover& cover_;
    std::byte* begin_ = nullptr;
    std::uint64_t room_ = 0;
    std::uint64_t size_ = 0;
    std::uint64_t committed_size_ = 0;
    std::uint64_t adopted_size_ = 0;
};

}  // namespace holdfast::segment
