// What a thread keeps for a hardened heap: blocks that it has freed and nobody may have yet (the quarantine), and the
// random numbers by which it chooses among free ones. Decision 18.
//
// A block in quarantine has the mark `held`: nobody hands it out, to free it again is an error, and on media it is free
// with the next commit or checkpoint. So a crash, or a close, leaves nothing to be given back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.hpp"

namespace holdfast::slab {

class slab_pool;

/// Used by its thread alone; by others while it stands still.
class hardened_thread {
public:
    static constexpr std::size_t most_blocks = 1024;
    static constexpr std::uint64_t most_bytes = 256 * base::kibibyte;

    /// Seeded by the system: not to be told from addresses, nor from another thread's.
    hardened_thread() noexcept;

    /// Keeps a small block whose mark is `held`; those that are in here longest become free, until both limits hold.
    void keep(slab_pool& pool, std::uint64_t offset, unsigned kind) noexcept;
    /// All become free.
    void give_back(slab_pool& pool) noexcept;
    /// Appends the offsets of all.
    void list(std::vector<std::uint64_t>& offsets) const;

    /// A number below `limit` (> 0, below 2^32).
    [[nodiscard]] std::uint32_t random_below(std::uint32_t limit) noexcept;

private:
    struct kept_block {
        std::uint64_t offset;
        std::uint64_t kind;  ///< slab_state
    };

    void free_oldest(slab_pool& pool) noexcept;

    std::array<kept_block, most_blocks> ring_{};
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t state_ = 0;  ///< of the generator
};

}  // namespace holdfast::slab
