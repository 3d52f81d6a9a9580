// The superblock on media (docs/format.md, section "superblock"). Little endian. The file `superblock` holds two
// copies, at bytes 0 and 4096, which a commit writes together; one good copy suffices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

inline constexpr char superblock_magic[8] = {'H', 'O', 'L', 'D', 'F', 'A', 'S', 'T'};
inline constexpr std::uint32_t format_version = 1;
inline constexpr std::uint64_t superblock_size = 4096;
inline constexpr std::uint64_t superblock_copies = 2;

enum class heap_state : std::uint32_t {
    clean = 1,       ///< closed: the journal is void and nothing lies beyond the frontier
    running = 2,     ///< a writer had it open: the journal decides
    recovering = 3,  ///< reserved for recoveries in several steps
};

inline constexpr std::uint32_t flag_same_address = 1U << 0U;
/// Durability `atomic` has it open: records in `lanes` may count.
inline constexpr std::uint32_t flag_lanes = 1U << 1U;
/// Pages were changed in place after their sums were stored (durability `atomic` or `collect`).
inline constexpr std::uint32_t flag_stale_sums = 1U << 2U;
/// Durability `collect` has it open: after a crash live bitmaps mean nothing, and what the roots reach is allocated.
inline constexpr std::uint32_t flag_tracing = 1U << 3U;
/// All block sizes are multiples of 64 bytes, so no two blocks share a cache line. Set at creation, for ever.
inline constexpr std::uint32_t flag_separate_lines = 1U << 4U;
/// The lanes lie in the directories of the nodes by turns. Only where there are several nodes.
inline constexpr std::uint32_t flag_lanes_by_node = 1U << 5U;
inline constexpr std::uint32_t known_flags =
    flag_same_address | flag_lanes | flag_stale_sums | flag_tracing | flag_separate_lines | flag_lanes_by_node;

/// The open heap's clock continues from at most this, and has as much room again, more than a lifetime.
inline constexpr std::uint64_t largest_clock = std::uint64_t{1} << 63U;

inline constexpr std::uint32_t maximum_nodes = 64;

struct superblock_on_media {
    char magic[8];
    std::uint32_t version;
    std::uint32_t size;      ///< superblock_size
    std::uint64_t sequence;  ///< number of its commit; creation is commit 1
    std::uint8_t uuid[16];
    std::uint64_t heap_key;      ///< allocators inside the heap hold it, copies share it; never 0
    std::uint64_t segment_size;  ///< bytes of user space in a segment file
    std::uint64_t reservation;   ///< bytes asked for at creation; 0: the default
    std::uint64_t base_address;  ///< of the last mapping; binding with flag_same_address
    std::uint64_t frontier;      ///< bytes of user space; a multiple of region_size
    std::uint64_t objects_size;  ///< bytes of the objects file; a multiple of page_size
    std::uint64_t capacity;      ///< limit of frontier; 0: none
    heap_state state;
    std::uint32_t flags;
    std::int64_t created_ns;  ///< since 1970, UTC
    std::int64_t committed_ns;
    std::uint64_t checkpoint_clock;     ///< of the last checkpoint before the close (durability atomic)
    std::uint64_t recoveries;           ///< opens after a crash
    std::uint64_t incarnation;          ///< opens for writing in durability atomic
    std::uint32_t lane_slots;           ///< a power of two; 0: no lanes
    std::uint32_t record_order;         ///< which records count after a crash (lane_format.hpp); 0: no lanes
    std::uint32_t nodes;                ///< whose directories hold the segments by turns; 0: the heap's does
    std::uint32_t unused;               ///< 0
    std::uint64_t file_identity;        ///< of the superblock's file where the heap's space is reserved; 0: none
    std::uint64_t boot;                 ///< of the machine, in a session that survives process crashes alone; else 0
    std::uint8_t reserved[4088 - 176];  ///< 0
    std::uint64_t checksum;             ///< XXH3-64 of the bytes before it
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
static_assert(offsetof(superblock_on_media, checksum) == 4088);

}  // namespace holdfast::segment
