// How a heap comes into being: its directory is taken, its first files are made, and the first commit names it a heap.
//
//   - Nothing is removed that is not a file of a heap without a superblock.
//   - The file superblock.new exists before any other file, until the first commit. Files of a heap with neither it nor
//     a superblock stay: the superblock was lost, or a restore has not come to it.
//   - A heap whose first commit failed leaves nothing behind, unless the process or the machine crashes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/heap_options.hpp"

namespace holdfast::segment {

/// That of the options, or the usual one: less where the process may have few addresses, or no file so long.
[[nodiscard]] std::uint64_t segment_size_of(const creation_options& options);

/// The superblock gets a uuid and a key of its own.
base::result<superblock_on_media> new_superblock(const creation_options& options);

/// Not thread-safe.
class heap_creation {
public:
    heap_creation(heap_location& location, heap_superblock& superblock) noexcept
        : location_(location), superblock_(superblock) {}
    heap_creation(const heap_creation&) = delete;
    heap_creation& operator=(const heap_creation&) = delete;
    /// Abandons a heap that is not on media.
    ~heap_creation();

    /// Holds and locks the directory, and removes the remains of an earlier creation.
    base::result<void> take_directory();
    base::result<void> make_nodes(std::span<const std::string> places);
    base::result<void> make_files();

private:
    base::result<bool> try_to_take_directory();
    base::result<void> lock_directory();
    base::result<void> check_empty(std::vector<std::string>& remains) const;
    base::result<void> remove_all(std::span<const std::string> names, persist::site where) const;
    base::result<void> mark() const;
    void abandon() noexcept;

    heap_location& location_;
    heap_superblock& superblock_;
    bool made_directory_ = false;  ///< nobody else has files in it
    bool owns_files_ = false;      ///< shown by a check under the lock
};

}  // namespace holdfast::segment
