// Blocks of a morphed slab that overlap older blocks (morphing.hpp), so that nobody may hand them out. Older blocks
// only become fewer: none is ever taken again.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/units.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_table.hpp"

namespace holdfast::slab {

struct bits_of_half {
    std::array<std::uint64_t, bitmap_words / 2> all{};
    std::size_t words = 0;

    explicit bits_of_half(slab_kind kind) noexcept : words(kind.words()) {}
    [[nodiscard]] std::uint64_t& operator[](std::size_t word) noexcept { return all[word]; }
    [[nodiscard]] std::uint64_t operator[](std::size_t word) const noexcept { return all[word]; }
};

[[nodiscard]] std::uint32_t count(const bits_of_half& bits) noexcept;
/// The blocks of a loaded slab that are not free, live or not.
[[nodiscard]] bits_of_half taken_bits(const slab_table& table, base::granule slab, slab_kind kind) noexcept;
/// The blocks of kind `to` that overlap these blocks of kind `from`.
[[nodiscard]] bits_of_half behind(const bits_of_half& blocks, slab_kind from, slab_kind to) noexcept;
void set_overlapped(const slab_table& table, base::granule slab, slab_kind kind,
                    const bits_of_half& overlapped) noexcept;

/// For each slab, the caller holds the lock of its bin.
class overlapped_blocks {
public:
    explicit overlapped_blocks(pool_state& of) noexcept : of_(of) {}

    /// The slab's bitmap must be right.
    void load_states(base::granule slab) const noexcept;
    /// In a morphed slab: older blocks that are not free, and blocks of the present class that overlap them.
    struct older_blocks {
        std::uint32_t live = 0;
        std::uint32_t overlapped = 0;
    };
    /// Frees overlapped blocks whose older blocks were all freed since the last look.
    older_blocks free_overlapped(base::granule slab) noexcept;
    /// Writes the bits of older blocks to the bitmap on media, which a trace reads.
    void write_old_bits(base::granule slab, slab_kind old_kind, std::span<const std::uint64_t> bits) noexcept;

private:
    void mark_pinned(base::granule slab, const slab_kinds& kinds) const noexcept;

    pool_state& of_;
};

}  // namespace holdfast::slab
