// Options and report of manager::collect().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

struct collect_progress {
    bool sweeping = false;  ///< marking is over
    std::uint64_t done_bytes = 0;
    std::uint64_t total_bytes = 0;
};

struct collect_options {
    enum class marking : std::uint8_t {
        conservative,  ///< every aligned word that leads to the inside of a block keeps it
        precise,       ///< in blocks of known types, only pointers of register_type() and register_visitor() do
    };
    /// Precise: blocks without a registered type.
    enum class unknown : std::uint8_t {
        conservative,  ///< are read conservatively
        fail,          ///< collect() throws error(type_mismatch) and frees nothing
    };
    marking mode = marking::conservative;
    unknown unknown_types = unknown::conservative;
    unsigned threads = 0;  ///< 0: one for each processor, at most 16
    bool dry_run = false;
    bool null_transient = false;  ///< precise: pointers out of the heap become null
    std::size_t most_lines = 32;  ///< limit of collect_report::lines
    std::function<void(const collect_progress&)> progress{};
};

/// What was unreachable of one type number (0: none) and one size.
struct unreachable_blocks {
    std::uint32_t type = 0;
    std::string type_name;   ///< as registered, else ""
    std::uint64_t size = 0;  ///< usable, of each
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
};

/// In a dry run, "freed" counts what would have been freed.
struct collect_report {
    std::uint64_t roots = 0;  ///< root words that are not null, and objects
    std::uint64_t words_scanned = 0;
    std::uint64_t blocks_reached = 0;
    std::uint64_t bytes_reached = 0;
    std::uint64_t blocks_freed = 0;
    std::uint64_t bytes_freed = 0;
    std::vector<unreachable_blocks> freed;  ///< ordered by type, then size
    std::uint64_t slabs_freed = 0;          ///< in which no block was reached
    std::uint64_t extents_freed = 0;        ///< blocks of whole pages
    std::uint64_t slabs_quarantined = 0;    ///< damaged, and left alone
    std::uint64_t refused_pointers = 0;     ///< words that lead into the heap, but to no block
    std::uint64_t free_block_pointers = 0;
    std::uint64_t wild_pointers = 0;  ///< roots and precisely marked pointers that lead out of the heap
    std::uint64_t nulled_pointers = 0;
    std::uint64_t unknown_type_blocks = 0;  ///< precise: read conservatively
    std::vector<std::string> lines;         ///< a sentence for each of the first problems
    unsigned threads = 0;
    std::uint64_t prepare_ns = 0;
    std::uint64_t mark_ns = 0;
    std::uint64_t sweep_ns = 0;
};

/// Called for every free, in its thread. True: the block stays allocated until manager::free_now(). It must not throw.
using free_filter = std::function<bool(void* block)>;

}  // namespace holdfast
