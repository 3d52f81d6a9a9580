// The files, extents, blocks, objects and types of an open heap.
//
// Invariants:
//   HEAP-6: the parts live and die together, and each refers only to those above it in the list of members.
//
// Thread safety: objects() and types() need object_mutex(); the parts have their own rules.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "extent/extent.hpp"
#include "heap/objects/object_directory.hpp"
#include "heap/objects/type_registry.hpp"
#include "segment/heap_files.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// Words at the beginning of the heap (files().view().base()) that hold a `ptr`.
inline constexpr std::uint64_t root_count = 512;

class heap_parts {
public:
    /// The extents and blocks are not open yet.
    explicit heap_parts(std::unique_ptr<segment::heap_files> files);

    [[nodiscard]] segment::heap_files& files() noexcept { return *files_; }
    [[nodiscard]] const segment::heap_files& files() const noexcept { return *files_; }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return extents_; }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    [[nodiscard]] object_directory& objects() noexcept { return objects_; }
    [[nodiscard]] type_registry& types() noexcept { return types_; }
    [[nodiscard]] std::recursive_mutex& object_mutex() noexcept { return object_mutex_; }

    [[nodiscard]] std::uint64_t key() const noexcept { return files_->superblock().heap_key; }
    /// Created so: no two blocks share a cache line.
    [[nodiscard]] bool separates_cache_lines() const noexcept {
        return (files_->superblock().flags & segment::flag_separate_lines) != 0;
    }
    [[nodiscard]] bool read_only() const noexcept { return !files_->location().is_writer(); }
    /// Fails with `wrong_process` in a child of fork.
    [[nodiscard]] base::result<void> check_process() const { return files_->location().check_process(); }
    /// Fails with `unsupported` in a heap without files.
    [[nodiscard]] base::result<void> refuse_scratch() const;

protected:
    ~heap_parts() = default;
    /// The other parts must go before the files do.
    [[nodiscard]] std::unique_ptr<segment::heap_files> take_files() noexcept { return std::move(files_); }
    [[nodiscard]] bool has_files() const noexcept { return files_ != nullptr; }

private:
    std::unique_ptr<segment::heap_files> files_;
    extent::extent_allocator extents_;
    slab::block_allocator blocks_;
    object_directory objects_;
    type_registry types_;
    std::recursive_mutex object_mutex_;
};

/// Usable bytes; 0 where no allocated block begins there.
[[nodiscard]] std::uint64_t block_size_at(heap_parts& of, std::uint64_t offset);

}  // namespace holdfast::heap
