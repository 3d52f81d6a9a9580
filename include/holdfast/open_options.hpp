// Options of heaps and of allocations, and what a heap promises after a crash.
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
/// error(already_exists) where anything is at the path; error(not_found) where the directory above is missing.
inline constexpr create_only_t create_only{};
/// For reading and writing. error(not_found) where nothing is there; error(locked) where another writer has it open,
/// or, unless in durability `commit`, a reader.
inline constexpr open_only_t open_only{};
/// Of several processes, one creates the heap; the others get error(locked) until it has closed it.
inline constexpr open_or_create_t open_or_create{};
/// Changes nothing of the heap on media. Beside a writer in durability `commit` it shows the last commit, and goes on
/// by manager::refresh() (docs/readers.md); error(locked) beside another writer. Stores are lost at the close;
/// allocation fails with error(read_only). A crashed heap is recovered in memory.
inline constexpr open_read_only_t open_read_only{};

#define HOLDFAST_HAS_ATOMIC 1

/// What the heap promises after a crash. Each open may choose another durability.
///
///   - commit: after a crash or a power loss, on any file system, the heap is as the last manager::commit() left it
///     (Metall).
///   - atomic: every allocation and free that has returned survives, a block and its destination together, by one
///     durable record and one fence (PAllocator, PMA, PMAlloc-LOG).
///   - collect: no call writes a record. After a crash, what the roots and the objects reach is allocated, the rest
///     free (Makalu, PMAlloc-GC).
///
/// atomic covers a power loss in the domains `dax`, `eadr` and `disk`, collect in `dax` and `eadr`, else crashes of the
/// process. manager::persist() makes stores outside of transactions durable.
enum class durability : std::uint8_t { commit = 1, collect = 2, atomic = 3 };

/// Zero means the default. An existing heap ignores options marked "Create".
struct open_options {
    holdfast::durability durability = holdfast::durability::commit;
    /// Bytes of addresses, which the open heap cannot outgrow: a power of two, at most 2^46. Default: that of its
    /// creation; else the larger of 1 TiB and four times the heap's size, or what the process may reserve.
    std::uint64_t reservation = 0;
    /// Create: user bytes of a segment file, a power of two, 2 MiB to 64 GiB. Default 256 MiB, or what limits allow.
    std::uint64_t segment_size = 0;
    /// Limit of the user space in bytes; an allocation beyond it fails with no_space. Kept from the next commit or
    /// close on, until an open for writing gives another. Default: the heap's; a new heap has none.
    std::uint64_t maximum_size = 0;
    /// Durability `commit`: bytes of memory that may be changed and not committed. Allocation beyond it throws
    /// bad_alloc (errc::out_of_memory), before the kernel ends the process; commit(), and go on. Looked at where blocks
    /// need new pages, so stores to blocks that are there may pass it. A block larger than that is given while little
    /// else waits. Default: three quarters of the memory and swap that the process may have, by the machine and its
    /// control groups; three eighths on tmpfs, where a commit needs the pages twice. All ones: no bound.
    std::uint64_t maximum_uncommitted = 0;
    /// The heap's base, 2 MiB aligned; address_taken where the range is occupied. Null: anywhere.
    void* base_address = nullptr;
    /// Create: every open maps the heap at the same address, or fails with address_taken, so raw pointers into it stay
    /// valid.
    bool same_address = false;
    /// Open: compares all pages with their checksums (manager::last_comparison()).
    bool verify = false;
    /// Durability `commit`: the destructor and close() commit.
    bool commit_on_close = true;
    /// In `atomic` and `collect`: how far a store must travel to be durable.
    enum class domain_choice : std::uint8_t {
        detect,      ///< dax or eadr where the file system has it; else disk in `atomic`, page-cache in `collect` and
                     ///< with accept_process_crash_only
        emulated,    ///< the instructions of dax on any file system, for tests; covers no power loss
        page_cache,  ///< covers crashes of the process alone
        disk,        ///< `atomic` on any file system: a call returns when its record was synced
    };
    domain_choice domain = domain_choice::detect;
    /// Unless set, an open in the domain page-cache fails with error(promise_unavailable). Set, page-cache is the
    /// domain of `atomic` on ordinary file systems: calls take nanoseconds, not the time of a disk write.
    bool accept_process_crash_only = false;
    /// Unless set, a heap that was open in the domain page-cache or emulated when the machine stopped is not opened,
    /// not even for reading: error(promise_unavailable). After an orderly shutdown its files are whole; after a power
    /// failure any store may be lost: check() tells whether the heap is sound, but nothing of the program's data.
    bool accept_machine_restart = false;
    /// Open, after a crash in durability `commit`: called once a second while the commits that the log holds are
    /// written to their places, with the bytes that are done and all of them. An exception ends the open; nothing is
    /// lost.
    std::function<void(std::uint64_t done, std::uint64_t all)> on_replay{};
    /// Recovery in durability `collect`: as collect_options::marking::precise, with blocks of other types read
    /// conservatively. A block that only an unregistered pointer reaches is freed. Only visitors of before_trace count.
    bool precise_recovery = false;
    /// Recovery in durability `collect`: called before the trace, to restore roots that the heap does not hold and to
    /// register visitors (offline_heap.hpp). It must not open this heap. An exception ends the open; nothing was freed,
    /// and the next open traces again.
    std::function<void(offline_heap&)> before_trace{};
    /// How long freed memory may keep its space on disk, ever less of it in steps of 50 ms (smootherstep, PMAlloc 2.2).
    /// Below 50 ms: none; above an hour: an hour; negative: for ever. Durability `commit`: until the next commit()
    /// after that. A heap created with a size keeps its space while its creator has it open.
    std::chrono::milliseconds decay{10'000};
    /// Durability `atomic` and `collect`: a thread of the heap's own gives freed memory back while the program rests.
    /// Else the calls that allocate and free do it, and nobody does where they stop. It runs for a few seconds longer
    /// than `decay` after the last of them, then sleeps. A child of fork has none, nor has a process that can make no
    /// thread. Does nothing for a reader, where `decay` is negative, and in `commit`.
    bool upkeep_thread = false;
    /// Create: a directory for each node of the machine that has processors, in the kernel's order: mounts of the
    /// node's persistent memory, or tmpfs. The heap makes one of its own in each; segment i lies in number i modulo
    /// their count, and threads allocate from their own node first. "" is the heap's directory, where all segments lie
    /// by default.
    std::vector<std::string> node_directories{};
    /// Pages of 2 MiB for allocated memory, where the file system has them.
    enum class page_choice : std::uint8_t {
        advise,   ///< `atomic`, `collect`: advises their use (MADV_HUGEPAGE)
        none,     ///< advises against it: least memory where little of a heap is touched
        at_once,  ///< `atomic`: collapses the pages by which the heap grows (MADV_COLLAPSE, Linux 6.1), also on tmpfs
                  ///< without huge=; `commit`: advises their use there; the first touch then clears 2 MiB
    };
    page_choice huge_pages = page_choice::advise;
    /// Defends against a faulty or attacked program; the heap on media is as any other. Of two threads that free one
    /// block at once, exactly one succeeds. A freed block of up to 16 KiB waits until its thread has freed 1,024 others
    /// or 256 KiB, or ends; the next block is a random one. Behind each new slab lies, while there is room, a guard
    /// range of 64 KiB, where a store is a SIGSEGV. Costs time in every call, and about twice the space of small blocks
    /// (docs/decisions/0018-hardened-heaps.md).
    bool hardened = false;
    /// Create: every block begins a cache line (64 bytes) and has a multiple of 64 usable bytes
    /// (docs/decisions/0019-cache-lines.md).
    bool separate_cache_lines = false;
    /// For tests: looks for transactions that break their rules. open(), store() and commit() then throw
    /// error(concurrent_modification), error(bad_address) or error(invalid_argument), with type and offset; what they
    /// cannot throw goes to the error handler (docs/transactions.md). What an abort of a transact() removes is filled
    /// with bytes 0xdb. Each opened object costs a lock and a look at its
    /// block.
    bool check_transactions = false;
    /// Durability `commit`: other processes that open the heap so may change it, too, one after the other: each
    /// manager::transact() waits for the turn, and begins with what the others have left (docs/readers.md#writers).
    /// Outside of a transaction this process reads, and changes fail with error(read_only). error(locked) beside a
    /// writer that does not share; error(unsupported) for heaps with stores or node directories, and on file systems
    /// that machines share.
    bool shared = false;
};

struct allocation_traits {
    std::size_t alignment = 0;  ///< bytes: a power of two up to 2 MiB; 0: 16, or 8 for less than 16 bytes
    bool zeroed = false;        ///< all usable bytes; with a destination: durably, before anything points to the block
    /// The kind of object: below 2^20, 0 for none, else error(invalid_argument). Kept with the block, for
    /// manager::type_of(), for_each_block() and precise tracing. Each type and size class has slabs (64 KiB) of its
    /// own: use types for kinds with many objects.
    std::uint32_t type = 0;
};

struct block_info {
    void* address = nullptr;
    std::size_t size = 0;    ///< usable bytes
    std::uint32_t type = 0;  ///< allocation_traits::type
};

}  // namespace holdfast
