// Tracing: which blocks a program can still reach from its roots. The face of the collector to the engine and to api/.
//
// After a crash in durability `collect` nobody knows which blocks are allocated; recover_by_tracing() finds out. While
// a heap is open, in any durability, trace_open_heap() finds what has leaked. How it works, and why a crash at any
// point of it is harmless: docs/tracing.md, with the rules TRACE-1 to TRACE-6.
//
// Roots are the 512 root words and the objects of the directory. *Conservative* marking takes every aligned word that
// decodes to the inside of a block, as a holdfast::ptr and (raw_pointers) as an address, for a pointer. *Precise*
// marking follows what the type registry says of a block's type number. Marking by several threads shares work as in
// Boehm's parallel collector and Makalu (thesis 5.9): each thread has a bounded stack, a full one spills to a common
// list, and large blocks are read 512 words at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "extent/extent.hpp"
#include "heap/type_registry.hpp"
#include "segment/space.hpp"

namespace holdfast::heap {

class engine;

enum class trace_mode : std::uint8_t {
    conservative,
    precise,
};

/// Precise marking, a block of whose type nobody has said anything, or that has none.
enum class unknown_types : std::uint8_t {
    conservative,  ///< its words are taken as conservative marking takes them
    fail,          ///< type_mismatch: nothing is freed
};

enum class trace_phase : std::uint8_t { mark, sweep };

/// Blocks and bytes that are done, of about so many: bytes of slabs and extents.
struct trace_progress {
    trace_phase phase = trace_phase::mark;
    std::uint64_t done_bytes = 0;
    std::uint64_t total_bytes = 0;
};

struct trace_options {
    unsigned threads = 0;  ///< that mark and sweep; 0: one for each processor, at most 16
    trace_mode mode = trace_mode::conservative;
    unknown_types unknown = unknown_types::conservative;
    /// Addresses count as pointers: of a heap that is always mapped at the same address.
    bool raw_pointers = false;
    /// Precise: words that the registry calls pointers and that lead out of the heap become null (and keep their
    /// stamps): they pointed to memory of a process that is gone.
    bool null_transient = false;
    bool dry_run = false;  ///< report, and change nothing
    /// Lines of the report about single words and slabs; the counts go on.
    std::size_t most_lines = 32;
    /// Called now and then by the calling thread, until the end. It must not use the heap.
    std::function<void(const trace_progress&)> progress;
};

/// Blocks of one type number and one size.
struct trace_count {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
};
/// By type number and usable bytes of a block.
using trace_counts = std::map<std::pair<std::uint32_t, std::uint64_t>, trace_count>;

struct trace_report {
    std::uint64_t roots = 0;  ///< root words that are not null, and objects
    std::uint64_t words_scanned = 0;
    std::uint64_t blocks_reached = 0;
    std::uint64_t bytes_reached = 0;
    /// What was not reached. After a crash in `collect`: as far as media says that it was allocated, and the bitmaps
    /// may lag: at least so many.
    std::uint64_t blocks_freed = 0;
    std::uint64_t bytes_freed = 0;
    trace_counts freed;
    std::uint64_t slabs_kept = 0;
    std::uint64_t slabs_freed = 0;          ///< nothing in them was reached
    std::uint64_t slabs_quarantined = 0;    ///< headers that break an invariant: left alone, and read as one block each
    std::uint64_t extents_kept = 0;         ///< of used ones
    std::uint64_t extents_freed = 0;        ///< the same
    std::uint64_t refused_pointers = 0;     ///< words that lead into the heap, and to no block
    std::uint64_t free_block_pointers = 0;  ///< open heap: to a block that is free
    std::uint64_t wild_pointers = 0;        ///< precise: pointers, as the registry says, that lead out of the heap
    std::uint64_t nulled_pointers = 0;      ///< of these
    std::uint64_t unknown_type_blocks = 0;  ///< precise: marked conservatively for the lack of a description
    std::vector<std::string> lines;         ///< about the first of those that were refused, and about damage
    unsigned threads = 0;                   ///< that marked
    std::uint64_t prepare_ns = 0;           ///< reading page entries and slab headers
    std::uint64_t mark_ns = 0;
    std::uint64_t sweep_ns = 0;
};

/// Makes stores to a range durable before it returns (dax, eadr). Nothing where a crash of the process alone counts.
using trace_flush = base::function_ref<void(const void*, std::uint64_t)>;

/// The state on media, before slab::block_allocator::open(), of a heap that was not closed cleanly in durability
/// `collect`. `space` is mapped writable (shared; private pages do for a reader); `extents` is the allocator upon it,
/// not opened yet, which reads the page entries below `frontier`: used, slab and roots count, all else is free space,
/// as in extent_allocator::recover(). Live bitmaps are not read for what is reached. `objects`: offsets of the
/// directory's objects (object_roots()).
///
/// Afterwards the live bitmap of every sound slab has a bit for each block that was reached, and no other; slabs and
/// used extents of which nothing was reached are free in their page entries. What is free is not united with its
/// neighbours: open the allocator with block_allocator::open(frontier, true). Slabs are loaded from their bitmaps when
/// a thread's cache is refilled, so the sweep of blocks is lazy by itself.
///
/// The heap must be marked as not clean on media until it is closed: a crash in here, or later, is traced again, and
/// the outcome is the same (TRACE-1 to TRACE-6).
///
/// Fails with corrupt where page entries break EXT-1 to EXT-5, type_mismatch as unknown_types::fail says,
/// out_of_memory, invalid_argument where a visitor throws; then nothing was changed but words that were nulled. Uses
/// up to 24 bytes of DRAM a reached block, for the widest of graphs, beside a bit for each.
[[nodiscard]] base::result<trace_report> recover_by_tracing(const segment::space_view& space,
                                                            const extent::extent_allocator& extents,
                                                            base::pages frontier,
                                                            std::span<const std::uint64_t> objects,
                                                            const type_registry& types, const trace_options& options,
                                                            std::optional<trace_flush> flush = std::nullopt);

/// Offsets of all named, unique and anonymous objects: roots, as the 512 words are. Fails with corrupt.
[[nodiscard]] base::result<std::vector<std::uint64_t>> object_roots(object_directory& objects);

/// The same marking on an open heap of any durability, of which no other thread allocates, frees or stores meanwhile:
/// frees what is allocated and not reached (in durability `atomic` each free durably; in `commit` with the next
/// commit). What only a block points to that is reserved and not published is not reached: publish() or cancel() first.
/// A crash in between leaves some freed, and a sound heap. Fails as recover_by_tracing(), wrong_process, and read_only
/// unless it is a dry run.
[[nodiscard]] base::result<trace_report> trace_open_heap(engine& heap, const type_registry& types,
                                                         const trace_options& options);

}  // namespace holdfast::heap
