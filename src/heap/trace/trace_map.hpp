// The blocks of a heap and their marks, in DRAM for one trace. From an offset to its block it takes one load and a
// multiplication. Marks are a bit a block, close together: those of a million small blocks fit into a second-level
// cache.
//
// Thread safety: find() and mark() by any number of threads; all else alone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "segment/format/space.hpp"
#include "slab/classes/size_classes.hpp"

namespace holdfast::heap {

struct found_block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t type = 0;
    bool opaque = false;            ///< a quarantined slab, read as one block
    std::uint64_t* word = nullptr;  ///< of the marks, which holds `bit`
    std::uint64_t bit = 0;
};

class block_map {
public:
    /// A used extent, or a quarantined slab.
    struct big_block {
        base::pages start{};
        base::pages length{};
        std::uint32_t type = 0;
        bool opaque = false;
    };
    /// Whether a slab with a sound header is quarantined.
    using quarantine = std::function<bool(base::granule)>;
    /// In a sound slab.
    struct slab_blocks {
        base::granule at{};
        unsigned class_index = slab::no_class;
        std::uint32_t type = 0;
        std::uint64_t first_word = 0;    ///< in the marks
        std::size_t first_on_media = 0;  ///< in the slab's live bitmap
    };
    /// Of a morphed slab, blocks of its earlier class, too.
    struct slab_content {
        std::array<slab_blocks, 2> blocks;
        unsigned count = 0;
        [[nodiscard]] const slab_blocks* begin() const noexcept { return blocks.data(); }
        [[nodiscard]] const slab_blocks* end() const noexcept { return blocks.data() + count; }
    };

    explicit block_map(const segment::space_view& space) noexcept : space_(space) {}

    /// `fault` hears of each quarantined slab. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> read(const extent::extent_allocator& extents, base::pages frontier,
                                          const std::function<void(const base::failure&)>& fault,
                                          const quarantine& quarantined = {});

    /// Bytes; no block lies beyond.
    [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
    [[nodiscard]] std::uint64_t block_bytes() const noexcept { return block_bytes_; }

    /// False if `offset`, below end(), lies in no block.
    [[nodiscard]] bool find(std::uint64_t offset, found_block& found) const noexcept {
        const std::uint64_t entry = granules_[offset / base::granule_size];
        if ((entry & kind_mask) == kind_slab) [[likely]] {
            const slab::size_class& size = slab::size_classes[class_of(entry)];
            const std::uint32_t index = slab::block_index(size, offset % base::granule_size);
            found.offset = offset / base::granule_size * base::granule_size + std::uint64_t{index} * size.block_size;
            found.bytes = size.block_size;
            found.type = static_cast<std::uint32_t>(entry >> type_shift);
            found.opaque = false;
            found.word = &marks_[first_word_of(entry) + index / 64];
            found.bit = std::uint64_t{1} << (index % 64);
            return index < size.block_count;
        }
        return entry != 0 &&
               ((entry & morphed) != morphed ? find_big(entry, base::page_of(base::heap_offset{offset}), found)
                                             : find_morphed(entry, offset, found));
    }

    /// False if it was marked already. `alone`: no other thread marks.
    [[nodiscard]] static bool mark(const found_block& block, bool alone) noexcept {
        const std::atomic_ref<std::uint64_t> word(*block.word);
        const std::uint64_t before = word.load(std::memory_order_relaxed);
        if ((before & block.bit) != 0) {
            return false;
        }
        if (alone) {
            word.store(before | block.bit, std::memory_order_relaxed);
            return true;
        }
        return (word.fetch_or(block.bit, std::memory_order_relaxed) & block.bit) == 0;
    }

    /// From now on small blocks count as marked, except those passed to set_live().
    [[nodiscard]] base::result<void> only_live();
    void set_live(std::uint64_t offset, std::uint64_t bytes) noexcept;
    /// Always false without only_live().
    [[nodiscard]] bool is_free(const found_block& block) const noexcept {
        return live_.size() != 0 && (live_[marks_.index_of(*block.word)] & block.bit) == 0;
    }

    /// Empty without a sound slab.
    [[nodiscard]] slab_content slab_at(base::granule at) const noexcept;
    [[nodiscard]] base::granule granules() const noexcept { return {end_ / base::granule_size}; }
    [[nodiscard]] const std::vector<big_block>& big_blocks() const noexcept { return big_; }
    /// Of 64 blocks of a slab.
    [[nodiscard]] std::uint64_t reached(const slab_blocks& of, std::size_t word) const noexcept {
        const std::uint64_t at = of.first_word + word;
        return marks_[at] & (live_.size() != 0 ? live_[at] : ~std::uint64_t{0});
    }
    [[nodiscard]] std::uint64_t live(const slab_blocks& of, std::size_t word) const noexcept {
        return live_[of.first_word + word];
    }
    [[nodiscard]] bool is_reached(std::size_t big_index) const noexcept {
        return (marks_[big_word(big_index)] >> (big_index % 64) & 1) != 0;
    }

private:
    // An entry of granules_: bits 0..1 are the kind. Of a slab: bits 2..7 the class, 8..43 the first word of marks,
    // 44..63 the type. Otherwise the bits from 2 on are an index: of a big block that fills the granule, of page_owners
    // if several share it, or, with bit 63 set, of a morphed slab.
    static constexpr std::uint64_t kind_mask = 3;
    static constexpr std::uint64_t kind_slab = 1;
    static constexpr std::uint64_t kind_big = 2;
    static constexpr std::uint64_t kind_pages = 3;
    static constexpr unsigned first_word_bits = 36;
    static constexpr unsigned type_shift = 44;
    static constexpr std::uint64_t morphed = kind_pages | std::uint64_t{1} << 63;
    /// `old_bits` decides whether an offset belongs to an old block.
    struct morphed_slab {
        slab_blocks present;
        slab_blocks old;
        std::array<std::uint64_t, slab::bitmap_words / 2> old_bits{};
    };
    using page_owners = std::array<std::uint32_t, base::pages_per_granule>;  ///< index of a big block + 1; 0: none

    [[nodiscard]] static unsigned class_of(std::uint64_t entry) noexcept { return entry >> 2 & 63; }
    [[nodiscard]] static std::uint64_t first_word_of(std::uint64_t entry) noexcept {
        return entry >> 8 & ((std::uint64_t{1} << first_word_bits) - 1);
    }
    [[nodiscard]] std::uint64_t big_word(std::uint64_t index) const noexcept { return slab_words_ + index / 64; }
    [[nodiscard]] bool find_big(std::uint64_t entry, base::pages page, found_block& found) const noexcept;
    [[nodiscard]] bool find_morphed(std::uint64_t entry, std::uint64_t offset, found_block& found) const noexcept;
    [[nodiscard]] static bool has_old(const morphed_slab& slab, std::uint32_t index) noexcept;
    /// An old block lies in it: it was never handed out.
    [[nodiscard]] static bool is_overlapped(const morphed_slab& slab, std::uint32_t index) noexcept;
    [[nodiscard]] bool fill(const slab_blocks& of, std::uint32_t index, found_block& found) const noexcept;
    void add_slab(base::granule at, const segment::slab_header_on_media& header);
    void add_morphed(base::granule at, const segment::slab_header_on_media& header);
    [[nodiscard]] slab_blocks add_blocks(base::granule at, slab::slab_kind kind);
    void add_big(const big_block& added);

    segment::space_view space_;
    std::uint64_t end_ = 0;
    std::uint64_t block_bytes_ = 0;
    std::uint64_t slab_words_ = 0;
    base::sparse_table<std::uint64_t> granules_;
    base::sparse_table<std::uint64_t> marks_;
    base::sparse_table<std::uint64_t> live_;
    std::vector<page_owners> pages_;
    std::vector<big_block> big_;
    std::vector<morphed_slab> morphed_;
};

}  // namespace holdfast::heap
