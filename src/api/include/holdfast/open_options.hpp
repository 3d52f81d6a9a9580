// How a heap is created or opened, and what may be said of an allocation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

struct create_only_t {};
struct open_only_t {};
struct open_or_create_t {};
struct open_read_only_t {};
/// Creates a heap, whose directory is made, and none above it: error(not_found) names the one that is missing.
/// error(already_exists) where anything is at the path already: nothing is overwritten.
inline constexpr create_only_t create_only{};
/// Opens a heap for reading and writing; error(not_found) where nothing is there.
inline constexpr open_only_t open_only{};
/// Opens a heap, or creates it where nothing is. Of processes that come at once one creates; the others open what it
/// made when it has closed it, and before that get error(locked).
inline constexpr open_or_create_t open_or_create{};
/// Opens a heap without the right to change it on media. Stores go to private pages and vanish; allocation fails.
inline constexpr open_read_only_t open_read_only{};

/// The library has the durability `atomic`.
#define HOLDFAST_HAS_ATOMIC 1

/// What the heap promises after a crash; DESIGN section 1.
enum class durability : std::uint8_t { commit = 1, collect = 2, atomic = 3 };

/// How to create or open a heap. Zero means the default.
struct open_options {
    holdfast::durability durability = holdfast::durability::commit;
    /// Bytes of virtual addresses: a power of two, at most 2^46. Default: the larger of 1 TiB and four times the heap's
    /// size.
    std::uint64_t reservation = 0;
    /// Create: user bytes of one segment file, a power of two from 2 MiB to 64 GiB. Default 256 MiB.
    std::uint64_t segment_size = 0;
    /// Limit of the user space in bytes; an allocation beyond fails with no_space. The heap keeps it from its next
    /// commit on, or where it was changed from its close on, until it is opened for writing with another. Default: that
    /// which the heap has; of a new one, none but the reservation.
    std::uint64_t maximum_size = 0;
    /// Map the heap's base exactly here (2 MiB aligned) or fail with address_taken. Null: anywhere.
    void* base_address = nullptr;
    /// Create: the heap is mapped at the same address for ever, so raw pointers into it stay valid; an open where the
    /// range is taken fails with address_taken and says who occupies it.
    bool same_address = false;
    /// Open: compare every page that has a checksum with it before returning (reads the whole heap);
    /// manager::last_comparison() says how many these were.
    bool verify = false;
    /// The destructor and close() commit. Off: they leave the last commit as it is. (In durability `atomic` and
    /// `collect` there is nothing to leave: what was stored is the heap.)
    bool commit_on_close = true;
    /// Durability `atomic` and `collect`: how far a store must travel to be durable.
    enum class domain_choice : std::uint8_t {
        detect,      ///< as the file system says: dax, eadr or page-cache
        emulated,    ///< as dax in every instruction, on any file system: for tests and benchmarks, no power loss
        page_cache,  ///< crashes of the process alone
    };
    domain_choice domain = domain_choice::detect;
    /// Durability `atomic` or `collect` in the domain page-cache covers crashes of the process, no power loss; unless
    /// this says that the caller knows, opening it is error(promise_unavailable).
    bool accept_process_crash_only = false;
    /// After a crash in durability `collect`: only what registered types call a pointer is one, so that numbers that
    /// look like pointers keep nothing (collect_options::marking::precise). Blocks of types that the heap does not
    /// know, and of none, are read conservatively. The program says so at the open, for only it knows that its types
    /// are all registered as they are.
    bool precise_recovery = false;
    /// How long freed memory may keep its space on disk: it fades, and after this time all of it is a hole in a file.
    /// Zero: at once; negative: never. Durability `commit`: with the next commit() after that. A heap that was created
    /// with a size keeps that space as long as its creator has it open.
    std::chrono::milliseconds decay{10'000};
    /// Create: directories, one for each node of the machine that has processors, in the kernel's order: mounts of the
    /// node's persistent memory, or tmpfs. Segments lie in them by turns, and a thread allocates from those of its own
    /// node first. The heap makes a directory of its own in each; "": in the heap's directory. Default: all segments
    /// are files in the heap's directory.
    std::vector<std::string> node_directories{};
    /// Pages of 2 MiB for what is allocated, where the file system has them: fewer page faults and misses of the TLB.
    enum class page_choice : std::uint8_t {
        advise,   ///< the kernel is told that they are welcome
        none,     ///< it is told that they are not: least memory for heaps that are used here and there
        at_once,  ///< durability `atomic`: the heap puts together what it grows by (MADV_COLLAPSE, Linux 6.1), even
                  ///< where the file system (tmpfs without huge=) has small pages
    };
    page_choice huge_pages = page_choice::advise;
    /// Against what a faulty or attacked program does with freed blocks, while the heap is open for writing; the heap
    /// on media is as any other. Of two threads that free one block at once exactly one succeeds. A block of up to 16
    /// KiB that was freed is not handed out again before its thread has freed 1,024 others, or 256 KiB, or ends. Which
    /// free block comes next is random. Behind a slab of such blocks that is made meanwhile lie 64 KiB that the process
    /// cannot touch: a store there is a SIGSEGV (a load, too, but in durability `atomic` in other domains than
    /// page_cache), as long as there is room and the process has mappings left; statistics() counts these guard ranges.
    /// Costs time in every call, and twice the space of small blocks while it is open
    /// (docs/decisions/0018-hardened-heaps.md).
    bool hardened = false;
    /// Create: for ever, no two blocks have bytes in one cache line (64 bytes), so that a store to one block, or its
    /// flush, never takes the line of another. Every block begins a line, and its usable size is a multiple of 64
    /// bytes: one of 8 bytes takes 64 (docs/decisions/0019-cache-lines.md).
    bool separate_cache_lines = false;
};

/// What to allocate, besides its size.
struct allocation_traits {
    std::size_t alignment = 0;  ///< a power of two up to 2 MiB; 0: 16, below 16 bytes 8
    bool zeroed = false;        ///< durably, before anything points to it
    /// What the program calls the block: a number below 2^20, 0 for none (else error(invalid_argument)). The heap keeps
    /// it as long as the block, for type_of() and for_each_block(). Small blocks of a type have slabs (64 KiB) of their
    /// own, for each size class: types are for kinds of objects, of which there are many.
    std::uint32_t type = 0;
};

/// An allocated block.
struct block_info {
    void* address = nullptr;
    std::size_t size = 0;    ///< usable bytes
    std::uint32_t type = 0;  ///< allocation_traits::type
};

}  // namespace holdfast
