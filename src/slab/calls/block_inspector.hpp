// Finds what is allocated, and checks it. Its word on a block that another thread allocates or frees may be out of
// date. The bitmap of a slab is read only after it was admitted (bitmap_verifier).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "slab/calls/block_core.hpp"

namespace holdfast::slab {

struct slab_block {
    std::uint64_t start = 0;
    slab_kind kind;
};

struct block_statistics {
    std::uint64_t allocated_blocks = 0;
    std::uint64_t allocated_bytes = 0;  ///< usable bytes
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

struct slab_occupancy {
    std::uint32_t block_size = 0;  ///< bytes; 0: quarantined, or no slab
    std::uint32_t blocks = 0;
    std::uint32_t live_blocks = 0;
    std::uint32_t old_block_size = 0;  ///< of blocks older than the last morph; 0: there are none
    std::uint32_t old_live_blocks = 0;
};

/// Thread-safe, except where a function says otherwise.
class block_inspector {
public:
    explicit block_inspector(block_core& core) noexcept : core_(core) {}

    /// bad_address (or corrupt) where no allocated block begins there.
    [[nodiscard]] base::result<std::size_t> usable_size(const void* block) const;
    /// 0 for none. Fails as usable_size() does.
    [[nodiscard]] base::result<std::uint32_t> type_of(const void* block) const;
    [[nodiscard]] std::optional<slab_block> find_small(std::uint64_t offset) const noexcept;
    [[nodiscard]] bool is_within_allocated(base::heap_offset offset) const noexcept {
        return block_around(offset).has_value();
    }
    /// The offset of the allocated block that has the byte.
    [[nodiscard]] std::optional<std::uint64_t> block_around(base::heap_offset offset) const noexcept;
    /// Null: it is not small, or its slab not loaded.
    [[nodiscard]] std::uint8_t* block_state_of(std::uint64_t offset, lane::block_word block) const noexcept;
    [[nodiscard]] base::failure refusal(const void* block) const;
    void leave_refusal(const void* block) const noexcept;

    /// Visits allocated blocks by address, with offset, usable size and type number. `each` may free its block. Changes
    /// by others may be missed.
    using block_visitor = base::function_ref<void(base::heap_offset, std::uint64_t, std::uint32_t)>;
    void for_each_block(block_visitor each) const;
    /// Its bitmap was admitted.
    [[nodiscard]] slab_occupancy occupancy(base::granule of) const noexcept;
    [[nodiscard]] block_statistics statistics() const;
    [[nodiscard]] bool all_free() const;

    /// For a commit, during a pause: corrupt where a header breaks SLAB-1, SLAB-2, SLAB-3 or SLAB-11 or has another
    /// class than the slab, or a bitmap breaks SLAB-4. Damage that was there at the open is no failure.
    [[nodiscard]] base::result<void> check_headers(base::granule first, std::uint64_t count) const;
    [[nodiscard]] base::result<void> check_bitmaps(base::granule first, std::uint64_t count) const;
    /// Appends a sentence for every broken invariant of slabs and extents. Other threads stand still. `held`: held
    /// blocks in no thread's cache.
    void check(std::vector<std::string>& problems, std::span<const std::uint64_t> held = {}) const;

private:
    [[nodiscard]] base::result<lane::block_word> look_up(const void* block) const;

    block_core& core_;
};

}  // namespace holdfast::slab
