// The contents of a heap that the crash tests change at random and recognise again.
//
// The heap holds raw blocks of all sizes, containers, strings, chains of pointers, and named, unique and anonymous
// objects. Each block is filled from a seed stored elsewhere, so that lost pages and blocks with two owners show. The
// allocator must count as many blocks as are reachable: nothing leaked.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

namespace holdfast::test {

using random = std::mt19937_64;

struct world_state {
    std::uint64_t digest = 0;  ///< of all contents and their offsets in the heap
    std::uint64_t blocks = 0;  ///< reachable
    std::vector<std::string> problems;
};

inline constexpr std::uint64_t empty_digest = 0x656d707479;

/// Examines everything; also in a heap opened read-only. No other thread is in a call.
world_state examine(const manager& heap);

/// As examine(), with the heap's own checks: invariants, page checksums, number of blocks.
world_state examine_and_check(const manager& heap);

struct world_limits {
    std::uint64_t shard_bytes = 4U << 20U;  ///< in raw blocks, approximate
    bool huge_blocks = false;               ///< sometimes one of more than 16 MiB
    unsigned largest_batch = 150;           ///< operations of a thread
};

/// Constructs the world in an empty heap; does nothing if it is there.
void make_world(manager& heap);
/// By one to three threads.
void change_world(manager& heap, random& source, const world_limits& limits);

}  // namespace holdfast::test
