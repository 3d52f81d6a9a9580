// The superblock on media (docs/format.md, section "superblock"). Little endian. Two copies, at bytes 0 and 4096; one
// good copy suffices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "log/log_format.hpp"

namespace holdfast::segment {

inline constexpr char superblock_magic[8] = {'H', 'O', 'L', 'D', 'F', 'A', 'S', 'T'};
inline constexpr std::uint32_t format_version = 2;
inline constexpr std::uint64_t superblock_size = 4096;
inline constexpr std::uint64_t superblock_copies = 2;

enum class heap_state : std::uint32_t {
    clean = 1,       ///< the log has nothing and nothing lies beyond the frontier
    running = 2,     ///< a writer had it open: commits may be in the log
    recovering = 3,  ///< not used
};

inline constexpr std::uint32_t flag_same_address = 1U << 0U;
/// Durability `atomic` has it open: records in `lanes` may count.
inline constexpr std::uint32_t flag_lanes = 1U << 1U;
/// Pages were changed in place after their checksums were stored (durability `atomic` or `collect`).
inline constexpr std::uint32_t flag_stale_checksums = 1U << 2U;
/// Durability `collect` has it open: after a crash live bitmaps mean nothing, and what the roots reach is allocated.
inline constexpr std::uint32_t flag_tracing = 1U << 3U;
/// All block sizes are multiples of 64 bytes, for ever.
inline constexpr std::uint32_t flag_separate_lines = 1U << 4U;
inline constexpr std::uint32_t flag_lanes_by_node = 1U << 5U;
/// The log has its first file, and may have commits.
inline constexpr std::uint32_t flag_log = 1U << 6U;
inline constexpr std::uint32_t known_flags = flag_same_address | flag_lanes | flag_stale_checksums | flag_tracing |
                                             flag_separate_lines | flag_lanes_by_node | flag_log;

/// The clock goes on from at most this, and has as much room again.
inline constexpr std::uint64_t largest_clock = std::uint64_t{1} << 63U;

inline constexpr std::uint32_t maximum_nodes = 64;

inline constexpr std::uint64_t least_log_file_size = std::uint64_t{1} << 20;
/// Bytes of a superblock that have a meaning, without the checksum.
inline constexpr std::uint64_t superblock_used = 208;

struct superblock_on_media {
    char magic[8];
    std::uint32_t version;
    std::uint32_t size;
    std::uint64_t sequence;  ///< creation is commit 1
    std::uint8_t uuid[16];
    std::uint64_t heap_key;      ///< of allocators inside the heap and of copies, too; never 0
    std::uint64_t segment_size;  ///< bytes of user space
    std::uint64_t reservation;   ///< bytes; 0: the default
    std::uint64_t base_address;  ///< binding with flag_same_address
    std::uint64_t frontier;      ///< bytes; a multiple of region_size
    std::uint64_t objects_size;  ///< bytes; a multiple of page_size
    std::uint64_t capacity;      ///< of frontier; 0: none
    heap_state state;
    std::uint32_t flags;
    std::int64_t created_ns;  ///< since 1970, UTC
    std::int64_t committed_ns;
    std::uint64_t checkpoint_clock;  ///< at the close in durability atomic
    std::uint64_t recoveries;        ///< opens after a crash
    std::uint64_t incarnation;       ///< opens for writing in durability atomic
    std::uint32_t lane_slots;        ///< a power of two; 0: no lanes
    std::uint32_t record_order;      ///< lane_format.hpp; 0: no lanes
    std::uint32_t nodes;             ///< whose directories hold the segments by turns; 0: the heap's does
    std::uint32_t unused;
    std::uint64_t file_identity;  ///< 0: none
    std::uint64_t boot;           ///< in a session that survives process crashes alone; else 0
    log::mark log_begin;          ///< the log has the commits behind it
    std::uint64_t log_file_size;  ///< a power of two
    std::uint8_t reserved[4088 - 208];
    std::uint64_t checksum;  ///< of the bytes before it
};
static_assert(sizeof(superblock_on_media) == superblock_size);
static_assert(offsetof(superblock_on_media, sequence) == 16);
static_assert(offsetof(superblock_on_media, uuid) == 24);
static_assert(offsetof(superblock_on_media, heap_key) == 40);
static_assert(offsetof(superblock_on_media, segment_size) == 48);
static_assert(offsetof(superblock_on_media, reservation) == 56);
static_assert(offsetof(superblock_on_media, base_address) == 64);
static_assert(offsetof(superblock_on_media, frontier) == 72);
static_assert(offsetof(superblock_on_media, objects_size) == 80);
static_assert(offsetof(superblock_on_media, capacity) == 88);
static_assert(offsetof(superblock_on_media, state) == 96);
static_assert(offsetof(superblock_on_media, flags) == 100);
static_assert(offsetof(superblock_on_media, created_ns) == 104);
static_assert(offsetof(superblock_on_media, committed_ns) == 112);
static_assert(offsetof(superblock_on_media, checkpoint_clock) == 120);
static_assert(offsetof(superblock_on_media, recoveries) == 128);
static_assert(offsetof(superblock_on_media, incarnation) == 136);
static_assert(offsetof(superblock_on_media, record_order) == 148);
static_assert(offsetof(superblock_on_media, nodes) == 152);
static_assert(offsetof(superblock_on_media, file_identity) == 160);
static_assert(offsetof(superblock_on_media, boot) == 168);
static_assert(offsetof(superblock_on_media, log_begin) == 176);
static_assert(offsetof(superblock_on_media, log_file_size) == 200);
static_assert(offsetof(superblock_on_media, reserved) == 208);
static_assert(offsetof(superblock_on_media, checksum) == 4088);

}  // namespace holdfast::segment
