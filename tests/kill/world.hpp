// The contents of a heap that the crash tests change at random and recognise again.
//
// It holds what a program may hold: raw blocks of all sizes, containers, strings, chains of pointers, named, unique and
// anonymous objects. Everything in it says what it should be: each block is filled from a seed that lies elsewhere, so
// that two owners of one block, or a lost page, show. The walk also counts the blocks that can be reached; the
// allocator must count the same, so that nothing leaked.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

namespace holdfast::test {

using random = std::mt19937_64;

struct world_state {
    std::uint64_t digest = 0;  ///< of all contents and where they lie in the heap, not of addresses
    std::uint64_t blocks = 0;  ///< reachable
    std::vector<std::string> problems;
};

/// The digest of a heap in which nothing was constructed yet.
inline constexpr std::uint64_t empty_digest = 0x656d707479;

/// Walks over everything; works on a heap opened read-only. Other threads stand still.
world_state examine(const manager& heap);

/// examine(), and what the heap says of itself: its invariants, the checksums of its pages, the number of its blocks.
world_state examine_and_check(const manager& heap);

struct world_limits {
    std::uint64_t shard_bytes = 4U << 20U;  ///< in raw blocks, about
    bool huge_blocks = false;               ///< now and then one of more than 16 MiB
    unsigned largest_batch = 150;           ///< operations of a thread
};

/// Constructs the world in an empty heap; nothing where it is there already.
void make_world(manager& heap);
/// A batch of random changes by one to three threads.
void change_world(manager& heap, random& source, const world_limits& limits);

}  // namespace holdfast::test
