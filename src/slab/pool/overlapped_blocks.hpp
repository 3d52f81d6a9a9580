// Blocks of a morphed slab that overlap older blocks: nobody may hand them out. No older block is ever taken again.
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
/// Not free, live or not.
[[nodiscard]] bits_of_half taken_bits(const slab_table& table, base::granule slab, slab_kind kind) noexcept;
/// Those of kind `to` that overlap these of kind `from`.
[[nodiscard]] bits_of_half behind(const bits_of_half& blocks, slab_kind from, slab_kind to) noexcept;
void set_overlapped(const slab_table& table, base::granule slab, slab_kind kind,
                    const bits_of_half& overlapped) noexcept;

/// The caller holds the lock of the slab's bin.
class overlapped_blocks {
public:
    explicit overlapped_blocks(pool_state& of) noexcept : of_(of) {}

    /// The slab's bitmap must be right.
    void load_states(base::granule slab) const noexcept;
    /// Older blocks that are not free, and present ones that overlap them.
    struct older_blocks {
        std::uint32_t live = 0;
        std::uint32_t overlapped = 0;
    };
    /// Frees those whose older blocks were all freed since the last look.
    older_blocks free_overlapped(base::granule slab) noexcept;
    /// Writes them to media, for a trace.
    void write_old_bits(base::granule slab, slab_kind old_kind, std::span<const std::uint64_t> bits) noexcept;

private:
    void mark_pinned(base::granule slab, const slab_kinds& kinds) const noexcept;

    pool_state& of_;
};

}  // namespace holdfast::slab
