// Finds what is allocated, at one address and in all slabs, and checks it. Changes nothing that is allocated.
//
// - What it says of a block that another thread allocates or frees meanwhile may be out of date.
// - The bitmap of a slab is read only after it was admitted (bitmap_verifier), so damage is reported and not used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/failure.hpp"
#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "slab/calls/block_core.hpp"

namespace holdfast::slab {

/// A live small block: where it begins, and its class and bank.
struct slab_block {
    std::uint64_t start = 0;
    slab_kind kind;
};

/// What the user holds and what it costs, counted from the bitmaps and page entries.
struct block_statistics {
    std::uint64_t allocated_blocks = 0;  ///< small and big
    std::uint64_t allocated_bytes = 0;   ///< usable bytes of these blocks
    std::uint64_t small_blocks = 0;
    std::uint64_t small_bytes = 0;
    std::uint64_t big_blocks = 0;
    std::uint64_t big_bytes = 0;
    std::uint64_t slabs = 0;
    std::uint64_t quarantined_slabs = 0;
    std::uint64_t guard_ranges = 0;  ///< granules, neither allocated nor free
    std::uint64_t free_extents = 0;
    std::uint64_t free_pages = 0;  ///< with those in caches
    std::uint64_t largest_free_pages = 0;
};

/// How full a slab is, counted from its bitmap.
struct slab_occupancy {
    std::uint32_t block_size = 0;  ///< bytes; 0: quarantined, or no slab
    std::uint32_t blocks = 0;      ///< that fit into the slab
    std::uint32_t live_blocks = 0;
    std::uint32_t old_block_size = 0;  ///< of blocks older than the last morph; 0: there are none
    std::uint32_t old_live_blocks = 0;
};

/// Thread-safe, except where a function says otherwise.
class block_inspector {
public:
    explicit block_inspector(block_core& core) noexcept : core_(core) {}

    // --- one address ------------------------------------------------------------------------------------------------

    /// The usable bytes of the block; bad_address (or corrupt) where the address is not the start of an allocated
    /// block.
    [[nodiscard]] base::result<std::size_t> usable_size(const void* block) const;
    /// The block's type number, 0 for none. Fails as usable_size() does.
    [[nodiscard]] base::result<std::uint32_t> type_of(const void* block) const;
    /// The live small block that contains the offset.
    [[nodiscard]] std::optional<slab_block> find_small(std::uint64_t offset) const noexcept;
    /// Whether the offset lies in an allocated block, small or big. For checks: may take long.
    [[nodiscard]] bool is_within_allocated(base::heap_offset offset) const noexcept;
    /// The state of a small block whose slab is loaded; else null.
    [[nodiscard]] std::uint8_t* block_state_of(std::uint64_t offset, lane::block_word block) const noexcept;
    /// The failure that says what is at an address that is not the start of an allocated block.
    [[nodiscard]] base::failure refusal(const void* block) const;
    /// Leaves that failure for last_failure().
    void leave_refusal(const void* block) const noexcept;

    // --- all of them ------------------------------------------------------------------------------------------------

    /// Calls `each` for all allocated blocks in order of address, with the offset, the usable size and the type number.
    /// `each` may free the block that it is given. Blocks that other calls allocate or free meanwhile may be missed or
    /// seen.
    using block_visitor = base::function_ref<void(base::heap_offset, std::uint64_t, std::uint32_t)>;
    void for_each_block(block_visitor each) const;
    /// The occupancy of the slab in this granule. Its bitmap must have been admitted (bitmap_verifier).
    [[nodiscard]] slab_occupancy occupancy(base::granule of) const noexcept;
    [[nodiscard]] block_statistics statistics() const;
    /// True iff no block is allocated.
    [[nodiscard]] bool all_free() const;

    // --- checks -----------------------------------------------------------------------------------------------------

    /// For a commit that writes headers or bitmaps of these granules. check_headers() fails with corrupt where the
    /// header of a slab breaks SLAB-1, SLAB-2, SLAB-3 or SLAB-11, or has another class than the slab; check_bitmaps()
    /// where a bitmap breaks SLAB-4. Damage that was there when the heap was opened is no failure: it stays as it is.
    /// During a pause.
    [[nodiscard]] base::result<void> check_headers(base::granule first, std::uint64_t count) const;
    [[nodiscard]] base::result<void> check_bitmaps(base::granule first, std::uint64_t count) const;
    /// Appends a sentence for every invariant of slabs and extents that does not hold. Other threads must stand still.
    /// `held`: offsets of the blocks that are held and in no thread's cache.
    void check(std::vector<std::string>& problems, std::span<const std::uint64_t> held = {}) const;

private:
    [[nodiscard]] base::result<lane::block_word> look_up(const void* block) const;

    block_core& core_;
};

}  // namespace holdfast::slab
