// malloc and its family for a whole process, on one heap (docs/malloc.md). A separate arena (internal_arena.hpp) serves
// calls before open(), after close(), from the allocator's own code, and in threads whose thread-local storage is gone.
// free() tells the blocks apart by their addresses.
//
// After a fork, the child goes on with its own copy of the heap, which fork() makes of a heap without files. From a
// heap with a path the child copies what is allocated while its parent waits, and writes nothing to the parent's files.
//
// All functions are thread-safe. None throws but settings_from_environment(). None ends the process, except for a child
// of fork that cannot have its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::drop_in {

/// In bytes.
inline constexpr std::size_t malloc_alignment = 16;

struct settings {
    std::string path;            ///< "": no files. "%p" stands for the process id
    std::uint64_t capacity = 0;  ///< bytes of user space at most; 0: no limit
    bool statistics = false;     ///< close() prints them on standard error
    bool hardened = false;       ///< heap::engine_options::hardened
    bool upkeep_thread = false;  ///< heap::upkeep_thread
};
/// Reads HOLDFAST_MALLOC_HEAP, HOLDFAST_MALLOC_SIZE (bytes; K, M, G or T behind the number), HOLDFAST_MALLOC_HARDENED,
/// HOLDFAST_MALLOC_STATS and HOLDFAST_MALLOC_UPKEEP_THREAD (anything but 0). May throw std::bad_alloc.
[[nodiscard]] settings settings_from_environment();

/// Comes once, before there are other threads. Where the heap at the path cannot be had, the heap has no files, and
/// standard error says why, unless another process has it open. In a heap that was there, what roots and objects do not
/// reach is freed. False: the arena serves everything.
bool open(const settings& wanted) noexcept;
/// Makes the heap at the path clean; later frees are ignored. One without files goes on serving. Threads may still run.
void close() noexcept;

/// Allocates at a multiple of 16 and of `alignment` (a power of two up to 2 MiB). 0 bytes are a block, too. Null, with
/// errno ENOMEM, on failure.
[[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) noexcept;
[[nodiscard]] void* allocate(std::size_t bytes) noexcept;
[[nodiscard]] void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept;
/// 0 bytes free the block and return null, as in glibc.
[[nodiscard]] void* reallocate(void* block, std::size_t bytes) noexcept;
/// An address that is no block changes nothing; the first is named on standard error. Keeps errno.
void free(void* block) noexcept;
/// In bytes; 0 where the address is no block.
[[nodiscard]] std::size_t usable_size(void* block) noexcept;
/// For tests.
[[nodiscard]] bool is_in_heap(const void* block) noexcept;

}  // namespace holdfast::drop_in
