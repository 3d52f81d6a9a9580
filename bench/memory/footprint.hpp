// What a heap takes besides its blocks: memory of the process, and space on media.
#pragma once

#include <cstdint>
#include <filesystem>

namespace bench {

struct resident_memory {
    std::uint64_t anonymous = 0;  ///< bytes of pages that are this process's alone: no file has them
    std::uint64_t of_files = 0;   ///< bytes of mapped pages of files, of the page cache
};
/// Of this process, as /proc/self/smaps says. Throws std::runtime_error.
[[nodiscard]] resident_memory resident_memory_now();

struct heap_space {
    std::uint64_t charged = 0;   ///< by the file system, for all files
    std::uint64_t metadata = 0;  ///< of it: all but the user part of the segment files
    bool by_extents = false;     ///< the file system listed the extents; else all user space is taken as charged
};
/// `segment_size`: bytes of the user part of each segment file; `user_bytes`: of all of them, for file systems that
/// list no extents. Throws std::system_error.
[[nodiscard]] heap_space space_of_heap(const std::filesystem::path& heap, std::uint64_t segment_size,
                                       std::uint64_t user_bytes);

}  // namespace bench
