// The content of a heap of the crash tests, and how its bytes follow from seeds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace holdfast::test {

inline constexpr std::size_t shard_count = 4;
inline constexpr const char* world_name = "world";

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t value = (a ^ (b + 0x9e3779b97f4a7c15U + (a << 6U) + (a >> 2U))) * 0xbf58476d1ce4e5b9U;
    value ^= value >> 31U;
    value *= 0x94d049bb133111ebU;
    return value ^ (value >> 29U);
}

struct raw_block {
    ptr<std::byte> at;
    std::uint64_t size = 0;
    std::uint64_t seed = 0;
};

struct chain_node {
    ptr<chain_node> next;
    std::uint64_t value = 0;
};

/// An object of the directory.
struct record {
    std::uint64_t seed;
    std::array<std::uint64_t, 5> words{};
    explicit record(std::uint64_t from) : seed(from) {
        for (std::size_t i = 0; i < words.size(); ++i) {
            words.at(i) = mix(seed, i);
        }
    }
};

template <int>
struct unique_record : record {
    using record::record;
};

using number_list = vector<std::uint64_t>;

/// One thread at a time changes it.
struct shard {
    explicit shard(const allocator<std::byte>& heap)
        : blocks(heap),
          table(less<std::uint64_t>(), heap),
          lists(0, hash<std::uint64_t>(), equal_to<std::uint64_t>(), heap),
          texts(heap),
          anonymous(heap) {}

    vector<raw_block> blocks;
    map<std::uint64_t, string> table;
    unordered_map<std::uint64_t, number_list> lists;
    list<string> texts;
    vector<ptr<record>> anonymous;
    ptr<chain_node> chain;
    std::uint64_t chain_length = 0;
    std::uint64_t bytes = 0;         ///< of `blocks`
    std::uint64_t next_name = 0;     ///< objects are named <shard>.<number>
    std::uint64_t named = 0;         ///< how many there should be
    std::uint64_t table_blocks = 0;  ///< of an unordered_map, besides its nodes
};

/// The words of a block that follow from its seed: all up to 16 KiB, then one every 1 KiB, above 4 MiB one every 64
/// KiB.
template <class Visit>
void for_each_word(std::uint64_t size, Visit&& visit) {
    constexpr std::uint64_t whole = 16384;
    constexpr std::uint64_t large = 4U << 20U;
    const std::uint64_t step = size <= whole ? sizeof(std::uint64_t) : size <= large ? 1024 : 65536;
    for (std::uint64_t at = 0; at < size; at += step) {
        visit(at, size - at < sizeof(std::uint64_t) ? size - at : sizeof(std::uint64_t));
    }
    // The last word, unless it is among those or overlaps one.
    if (size >= (size - 1) / step * step + 2 * sizeof(std::uint64_t)) {
        visit(size - sizeof(std::uint64_t), sizeof(std::uint64_t));
    }
}

}  // namespace holdfast::test
