// How a heap is created or opened, what it promises after a crash, and the traits of an allocation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

class offline_heap;

struct create_only_t {};
struct open_only_t {};
struct open_or_create_t {};
struct open_read_only_t {};
/// Creates the heap's directory. error(already_exists) where anything is at the path; error(not_found) where the
/// directory above does not exist.
inline constexpr create_only_t create_only{};
/// For reading and writing. error(not_found) where nothing is there; error(locked) where another process, or this one,
/// has it open.
inline constexpr open_only_t open_only{};
/// If several processes do this at once, one creates the heap, and the others get error(locked) until it has closed it.
inline constexpr open_or_create_t open_or_create{};
/// Changes nothing on media; error(locked) where a writer has the heap open. Stores go to private pages and are lost at
/// the close; allocation fails with error(read_only). A crashed heap is recovered in memory.
inline constexpr open_read_only_t open_read_only{};

#define HOLDFAST_HAS_ATOMIC 1

/// What the heap promises after a crash. Each open may choose another durability.
///
///   - commit: after a crash or a power loss, on any file system, the heap is as the last manager::commit() left it
///     (Metall).
///   - atomic: every allocation and every free that has returned survives, a block and its destination together
///     (PAllocator, PMA, PMAlloc-LOG). Each call costs one durable record and one fence.
///   - collect: no call writes a record. After a crash, what the roots and the objects reach is allocated, and the rest
///     is free (Makalu, PMAlloc-GC).
///
/// atomic and collect cover crashes of the process. atomic covers a power loss in the domains `dax`, `eadr` and `disk`,
/// collect in `dax` and `eadr`. Programs make stores outside of transactions durable by manager::persist().
enum class durability : std::uint8_t { commit = 1, collect = 2, atomic = 3 };

/// Zero means the default. The open of an existing heap ignores options marked "Create".
struct open_options {
    holdfast::durability durability = holdfast::durability::commit;
    /// Bytes of addresses for the user space, which the open heap cannot outgrow: a power of two, at most 2^46.
    /// Default: that of its creation; else the larger of 1 TiB and four times the heap's size, or less where the
    /// process may not reserve so much.
    std::uint64_t reservation = 0;
    /// Create: user bytes of one segment file, a power of two from 2 MiB to 64 GiB. Default 256 MiB.
    std::uint64_t segment_size = 0;
    /// Limit of the user space in bytes; an allocation beyond it fails with no_space. The heap keeps it, from its next
    /// commit or close on, until it is opened for writing with another one. Default: the heap's limit; a new heap has
    /// none but the reservation.
    std::uint64_t maximum_size = 0;
    /// Map the heap's base exactly here (2 MiB aligned) or fail with address_taken. Null: anywhere.
    void* base_address = nullptr;
    /// Create: every open maps the heap at the same address, so raw pointers into it stay valid, or fails with
    /// address_taken and says what occupies the range.
    bool same_address = false;
    /// Open: reads the whole heap, and compares pages with their checksums. manager::last_comparison() counts them.
    bool verify = false;
    /// Durability `commit`: the destructor and close() commit.
    bool commit_on_close = true;
    /// In `atomic` and `collect`: how far a store must travel to be durable.
    enum class domain_choice : std::uint8_t {
        detect,      ///< dax or eadr where the file system has it; else disk in `atomic`, page-cache in `collect` and
                     ///< with accept_process_crash_only
        emulated,    ///< the instructions of dax on any file system, for tests; covers no power loss
        page_cache,  ///< crashes of the process alone
        disk,        ///< durability `atomic` on any file system: a call returns when its record was synced
    };
    domain_choice domain = domain_choice::detect;
    /// An open in the domain page-cache fails with error(promise_unavailable) unless this is set. Set, it makes
    /// page-cache also the domain of `atomic` on ordinary file systems: calls take nanoseconds, not the time of a write
    /// to the disk.
    bool accept_process_crash_only = false;
    /// A heap that was open in the domain page-cache or emulated when the machine stopped may have lost any of its
    /// stores: its open, also for reading, fails with error(promise_unavailable) unless this is set. Its files are
    /// whole where the machine was shut down in order. Where power failed, check() says whether the heap is sound, and
    /// nothing says so of the program's data.
    bool accept_machine_restart = false;
    /// Recovery from a crash in durability `collect`: as collect_options::marking::precise; blocks of other types are
    /// read conservatively. All registered layouts must be complete: a block that only an unregistered pointer reaches
    /// is freed. Of visitors, those that before_trace registers count.
    bool precise_recovery = false;
    /// Recovery from a crash in durability `collect`: is called before the trace, to restore roots that the heap does
    /// not hold and to register visitors (offline_heap.hpp). An exception ends the open, which throws it; nothing was
    /// freed, and the next open traces again. It must not open this heap.
    std::function<void(offline_heap&)> before_trace{};
    /// How long freed memory may keep its space on disk. The share that may stay falls in steps of 50 ms (smootherstep,
    /// PMAlloc 2.2); after this time all of it is holes in the files. Below 50 ms: at once; above an hour: an hour;
    /// negative: never. Durability `commit`: with the next commit() after that. A heap created with a size keeps that
    /// space while its creator has it open.
    std::chrono::milliseconds decay{10'000};
    /// Create: directories, one for each node of the machine that has processors, in the kernel's order: mounts of the
    /// node's persistent memory, or tmpfs. The heap makes a directory of its own in each; segment i lies in number i
    /// modulo their count, and a thread allocates from segments of its own node first. "" stands for the heap's
    /// directory, where all segments lie by default.
    std::vector<std::string> node_directories{};
    /// Pages of 2 MiB for allocated memory, where the file system has them: fewer page faults and TLB misses.
    enum class page_choice : std::uint8_t {
        advise,   ///< `atomic`, `collect`: advises their use (MADV_HUGEPAGE)
        none,     ///< advises against it: least memory where little of a heap is touched
        at_once,  ///< `atomic`: collapses the pages by which the heap grows (MADV_COLLAPSE, Linux 6.1), also where the
                  ///< file system gives small pages (tmpfs without huge=); `commit`: advises their use there; the first
                  ///< touch then clears 2 MiB
    };
    page_choice huge_pages = page_choice::advise;
    /// Defends against a faulty or attacked program; the heap on media is as any other. Of two threads that free one
    /// block at once, exactly one succeeds. A freed block of up to 16 KiB is not handed out before its thread has freed
    /// 1,024 others or 256 KiB, or ends. Which free block comes next is random. Each new slab of such blocks is
    /// followed by a guard range of 64 KiB, while there is room and the process has mappings left: a store there is a
    /// SIGSEGV (and a load, except in durability `atomic` in other domains than page-cache).
    /// heap_statistics::guard_ranges counts them. Costs time in every call, and about twice the space of small blocks
    /// (docs/decisions/0018-hardened-heaps.md).
    bool hardened = false;
    /// Create: every block begins a cache line (64 bytes), and its usable size is a multiple of 64, so a store to one
    /// block, or its flush, never takes the line of another (docs/decisions/0019-cache-lines.md).
    bool separate_cache_lines = false;
    /// For tests: looks for transactions that break their rules (transaction.hpp): words that two open transactions
    /// have, stores to an opened object instead of its copy, objects in free memory, copies used after the end. open(),
    /// store() and commit() throw error(concurrent_modification), error(bad_address) or error(invalid_argument) then;
    /// what an abort finds, and stores to copies after the end, go to the error handler, these when the thread begins
    /// its next transaction or ends. Messages name type and offset. Costs a lock and a look at the block for each
    /// opened object.
    bool check_transactions = false;
};

struct allocation_traits {
    std::size_t alignment = 0;  ///< bytes: a power of two up to 2 MiB; 0: 16, or 8 for less than 16 bytes
    bool zeroed = false;        ///< all usable bytes; with a destination: durably, before anything points to the block
    /// A number for the kind of object: below 2^20, 0 for none, else error(invalid_argument). The heap keeps it with
    /// the block, for manager::type_of(), for_each_block() and precise tracing. Small blocks of each type and size
    /// class have slabs (64 KiB) of their own: use types for kinds with many objects.
    std::uint32_t type = 0;
};

struct block_info {
    void* address = nullptr;
    std::size_t size = 0;    ///< usable bytes
    std::uint32_t type = 0;  ///< allocation_traits::type
};

}  // namespace holdfast
