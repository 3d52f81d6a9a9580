// Tracing: which blocks a program can still reach from its roots.
//
// After a crash in durability `collect`, recover_by_tracing() finds the allocated blocks; in an open heap of any
// durability, trace_open_heap() finds leaks. docs/tracing.md explains why a crash at any point is harmless (TRACE-1 to
// TRACE-8).
//
// Roots are the 512 root words and the directory's objects. *Conservative* marking follows every aligned word that
// leads into a block, as a holdfast::ptr or (raw_pointers) as an address. *Precise* marking follows the type registry.
// Threads share work as in Boehm's parallel collector and Makalu (thesis 5.9).
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
#include "heap/objects/type_registry.hpp"
#include "segment/format/space.hpp"

namespace holdfast::heap {

class engine;

enum class trace_mode : std::uint8_t {
    conservative,
    precise,
};

/// In precise marking: blocks without a described type.
enum class unknown_types : std::uint8_t {
    conservative,
    fail,  ///< with type_mismatch; nothing is freed
};

enum class trace_phase : std::uint8_t { mark, sweep };

/// Bytes of slabs and extents; approximate.
struct trace_progress {
    trace_phase phase = trace_phase::mark;
    std::uint64_t done_bytes = 0;
    std::uint64_t total_bytes = 0;
};

struct trace_options {
    unsigned threads = 0;  ///< for marking; 0: one for each processor, at most 16
    trace_mode mode = trace_mode::conservative;
    unknown_types unknown = unknown_types::conservative;
    /// For heaps that are always mapped at the same address.
    bool raw_pointers = false;
    /// Precise marking: pointers to memory of an earlier process become null and keep their stamps.
    bool null_transient = false;
    bool dry_run = false;
    /// About single words and slabs; counts are complete.
    std::size_t most_lines = 32;
    /// Called from time to time by the calling thread. It must not use the heap.
    std::function<void(const trace_progress&)> progress;
};

struct trace_count {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
};
/// By type number and usable bytes.
using trace_counts = std::map<std::pair<std::uint32_t, std::uint64_t>, trace_count>;

struct trace_report {
    std::uint64_t roots = 0;  ///< non-null root words, and objects
    std::uint64_t words_scanned = 0;
    std::uint64_t blocks_reached = 0;
    std::uint64_t bytes_reached = 0;
    /// Lower bounds after a crash, because bitmaps on media may lag.
    std::uint64_t blocks_freed = 0;
    std::uint64_t bytes_freed = 0;
    trace_counts freed;
    std::uint64_t slabs_kept = 0;
    std::uint64_t slabs_freed = 0;
    std::uint64_t slabs_quarantined = 0;  ///< with a header that breaks an invariant or, in an open heap, a damaged
                                          ///< bitmap: unchanged, read as one block each
    std::uint64_t extents_kept = 0;
    std::uint64_t extents_freed = 0;
    std::uint64_t refused_pointers = 0;     ///< words that lead into the heap and to no block
    std::uint64_t free_block_pointers = 0;  ///< open heap: words that lead to free blocks
    std::uint64_t wild_pointers = 0;        ///< roots and pointers of described types that lead out of the heap
    std::uint64_t nulled_pointers = 0;      ///< those that became null
    std::uint64_t unknown_type_blocks = 0;  ///< precise: blocks marked conservatively
    std::vector<std::string> lines;         ///< about the first refused words, and damage
    unsigned threads = 0;
    std::uint64_t prepare_ns = 0;  ///< reading page entries and slab headers
    std::uint64_t mark_ns = 0;
    std::uint64_t sweep_ns = 0;
};

/// Absent where a process crash loses no store.
using trace_flush = base::function_ref<void(const void*, std::uint64_t)>;
/// Reserves space on disk for the live bitmap of a slab, which a loss of power may have taken.
using trace_back = base::function_ref<base::result<void>(base::granule)>;

/// Recovers a heap that crashed in durability `collect`, before slab::block_allocator::open(). `space` is mapped
/// writable; private pages suffice for a reader. Of `extents`, which is not opened, only the entries of used extents,
/// slabs and roots below `frontier` count. Live bitmaps count only in morphed slabs (TRACE-7). `objects`:
/// object_roots().
///
/// Afterwards the live bitmap of every sound slab has the bits of exactly its reached blocks; slabs and used extents
/// without one are free in their page entries. block_allocator::open(frontier, true) then merges free neighbours. The
/// sweep of blocks is lazy: slabs are loaded when thread caches refill. The heap stays marked as not clean until it is
/// closed, so a trace after another crash has the same outcome.
///
/// Fails with `corrupt` if page entries break EXT-1 to EXT-5, with type_mismatch (unknown_types::fail), `limit` (too
/// many blocks), out_of_memory, invalid_argument (a visitor or `progress` threw), or as `back` does; then only
/// nulled words have changed. Uses up to 24 bytes of DRAM for each reached block, and a bit for each block.
[[nodiscard]] base::result<trace_report> recover_by_tracing(
    const segment::space_view& space, const extent::extent_allocator& extents, base::pages frontier,
    std::span<const std::uint64_t> objects, const type_registry& types, const trace_options& options,
    std::optional<trace_flush> flush = std::nullopt, std::optional<trace_back> back = std::nullopt);

/// Offsets of all named, unique and anonymous objects. Fails with `corrupt`.
[[nodiscard]] base::result<std::vector<std::uint64_t>> object_roots(object_directory& objects);

/// Marks an open heap of any durability and frees what is allocated and not reached: in durability `atomic` each block
/// durably, in `commit` with the next commit. No other thread allocates, frees or stores meanwhile. Blocks reached only
/// through a reserved block are freed: publish() or cancel() it first. A crash leaves a sound heap. Fails as
/// recover_by_tracing(), with wrong_process, and with read_only unless it is a dry run.
[[nodiscard]] base::result<trace_report> trace_open_heap(engine& heap, const type_registry& types,
                                                         const trace_options& options);

}  // namespace holdfast::heap
