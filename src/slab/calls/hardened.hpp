// What a thread keeps for a hardened heap (decision 18): a quarantine of freed blocks, and random numbers. A block in
// quarantine is `held`: a second free is an error, and on media it is free from the next commit or checkpoint on, so a
// crash or a close leaves nothing to give back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "slab/classes/size_classes.hpp"

namespace holdfast::slab {

class slab_pool;
struct cache_group;
struct held_block;
struct thread_cache;

/// Used by its thread alone, or while that thread stands still.
class hardened_thread {
public:
    static constexpr std::size_t most_blocks = 1024;
    static constexpr std::uint64_t most_bytes = 256 * base::kibibyte;

    /// Seeded by the system.
    hardened_thread() noexcept;

    /// The block is `held`. The oldest blocks become free until both limits hold.
    void keep(slab_pool& pool, std::uint64_t offset, slab_kind kind) noexcept;
    void return_blocks(slab_pool& pool) noexcept;
    void list(std::vector<std::uint64_t>& offsets) const;

    /// `limit` > 0.
    [[nodiscard]] std::uint32_t random_below(std::uint32_t limit) noexcept;

private:
    struct kept_block {
        std::uint64_t offset;
        slab_kind kind;
    };

    void free_oldest(slab_pool& pool) noexcept;

    std::array<kept_block, most_blocks> ring_{};
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t state_ = 0;
};

/// Puts a random one of the blocks left, at least one, before `end`, alone: the next allocation comes here again.
void choose_at_random(thread_cache& cache, unsigned class_index) noexcept;
/// The block is `held`. Without a cache it becomes free.
void keep_back(slab_pool& pool, thread_cache* cache, const held_block& held) noexcept;
/// All threads must stand still.
void list_kept_back(const cache_group& of, std::vector<std::uint64_t>& offsets);

}  // namespace holdfast::slab
