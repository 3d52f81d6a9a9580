// malloc and its family for a whole process, on one heap: what the exported functions (exports.cpp) do.
//
// The heap is one without files (segment/heap_files.hpp), or, where a path is given, one of durability `collect` that
// other programs can look at afterwards. Before open(), after close(), inside the allocator's own code and in threads
// whose thread-local storage is gone, memory comes from an arena of its own (internal_arena.hpp); free() tells the
// blocks apart by their addresses.
//
// fork: the child goes on with a copy of the heap that is its own. Of a heap without files that is what fork() does by
// itself; of one with a path the child copies what is allocated while its parent waits, and writes nothing to the
// parent's files. Other threads are kept out of the allocator meanwhile.
//
// All functions are thread-safe and never throw or abort, but for what is said at open() and fork.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::drop_in {

/// What malloc promises of every block.
inline constexpr std::size_t malloc_alignment = 16;

struct settings {
    std::string path;            ///< of the heap; "": one without files. "%p" stands for the id of the process
    std::uint64_t capacity = 0;  ///< most bytes of user space; 0: no limit
    bool statistics = false;     ///< close() says what there was, on the standard error
    bool hardened = false;       ///< heap::engine_options::hardened
};
/// From the environment: HOLDFAST_MALLOC_HEAP, HOLDFAST_MALLOC_SIZE (bytes; K, M, G, T behind the number),
/// HOLDFAST_MALLOC_HARDENED and HOLDFAST_MALLOC_STATS (anything but 0).
[[nodiscard]] settings settings_from_environment();

/// Once, before there are other threads. Where the heap at the path cannot be had, a line on the standard error says
/// why, and the heap is one without files; where another process has it open that goes without saying: a program's
/// children inherit its environment. What is allocated in a heap that was there, and its roots and objects do not
/// reach, is freed. False: there is no heap at all, and the arena serves everything.
bool open(const settings& wanted) noexcept;
/// Closes the heap at the path, so that it is clean; what is freed later is ignored. Threads may still run.
void close() noexcept;

/// At a multiple of 16 and of `alignment` (a power of two up to 2 MiB); 0 bytes are a block, too. Null, and errno
/// ENOMEM, where there is none.
[[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = malloc_alignment) noexcept;
[[nodiscard]] void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept;
/// As realloc() of glibc: to 0 bytes it frees, and returns null.
[[nodiscard]] void* reallocate(void* block, std::size_t bytes) noexcept;
/// What is no block changes nothing; the first one is named on the standard error. Keeps errno.
void free(void* block) noexcept;
/// 0 where it is no block.
[[nodiscard]] std::size_t usable_size(void* block) noexcept;
/// Whether the block is one of the heap, and not of the arena. For tests.
[[nodiscard]] bool is_in_heap(const void* block) noexcept;

}  // namespace holdfast::drop_in
