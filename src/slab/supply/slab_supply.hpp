// Parts of slabs, from which a thread allocates alone, and single blocks.
//
// Both come from, in this order: listed slabs of the bin, its unloaded slabs, bins of other arenas where space is
// short, what other nodes have freed, sparse slabs, a morphed slab (parts only), a new slab.
//
// - A part is out at one thread at most (SLAB-9), and has a free block when it is given.
// - A block that is given is `held`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "slab/nodes/remote_frees.hpp"
#include "slab/pool/pool_state.hpp"
#include "slab/pool/slab_bins.hpp"
#include "slab/pool/slab_loader.hpp"
#include "slab/pool/slab_source.hpp"
#include "slab/pool/slab_upkeep.hpp"
#include "slab/supply/morphing.hpp"
#include "slab/supply/sparse_slabs.hpp"

namespace holdfast::slab {

/// Up to so many threads for each arena take whole slabs.
inline constexpr unsigned threads_an_arena = 8;

/// Thread-safe, except for reset(). Blocks are named by their offset in bytes.
class slab_supply {
public:
    struct sources {
        slab_bins& bins;
        const slab_lists& lists;
        slab_source& made;
        empty_slabs& empties;
        slab_upkeep& upkeep;
        slab_loader& loader;
        sparse_slabs& sparse;
        slab_morpher& morpher;
        remote_frees& remote;
    };
    slab_supply(pool_state& of, const sources& from) noexcept : of_(of), from_(from) {}
    slab_supply(const slab_supply&) = delete;
    slab_supply& operator=(const slab_supply&) = delete;
    ~slab_supply() = default;

    void reset() noexcept { threads_.store(0, std::memory_order_relaxed); }

    /// Where gives_whole_slabs(), the free parts beside it are given, too. Fails as extent_allocator::allocate() does.
    /// May throw std::bad_alloc.
    [[nodiscard]] base::result<slab_part> check_out(unsigned arena, unsigned class_index);
    /// When space has run out. Nothing: no slab has a free block.
    [[nodiscard]] std::optional<slab_part> check_out_anywhere(unsigned class_index) noexcept;
    void check_in(slab_part from) noexcept;
    /// For threads without a cache, and types. Fails as check_out() does.
    [[nodiscard]] base::result<std::uint64_t> take_one(unsigned arena, unsigned class_index, std::uint32_t type);
    [[nodiscard]] std::optional<std::uint64_t> take_one_anywhere(unsigned class_index, std::uint32_t type) noexcept;

    void thread_came() noexcept { threads_.fetch_add(1, std::memory_order_relaxed); }
    void thread_went() noexcept { threads_.fetch_sub(1, std::memory_order_relaxed); }
    /// With few threads and enough space: a thread comes less often, and no two write states in one line.
    [[nodiscard]] bool gives_whole_slabs() const noexcept {
        return threads_.load(std::memory_order_relaxed) <= threads_an_arena * from_.bins.arenas() &&
               !of_.demand.is_space_short();
    }

private:
    [[nodiscard]] std::optional<slab_part> part_of(slab_bin& from, base::granule slab) noexcept HF_REQUIRES(from.mutex);
    [[nodiscard]] std::optional<std::uint64_t> block_of(slab_bin& from, base::granule slab) noexcept
        HF_REQUIRES(from.mutex);

    template <class Taken>
    [[nodiscard]] std::optional<Taken> take_listed(slab_bin& from) noexcept HF_REQUIRES(from.mutex);
    template <class Taken>
    [[nodiscard]] std::optional<Taken> take_sparse(slab_bin& from) noexcept HF_REQUIRES(from.mutex);
    template <class Taken>
    [[nodiscard]] std::optional<Taken> take_known(slab_bin& own) noexcept;
    template <class Taken>
    [[nodiscard]] base::result<Taken> take_listed_or_new(slab_bin& own) HF_REQUIRES(own.mutex);
    template <class Taken>
    [[nodiscard]] std::optional<Taken> take_all_of(slab_bin& from) noexcept;
    template <class Taken>
    [[nodiscard]] std::optional<Taken> take_anywhere(unsigned class_index) noexcept;
    [[nodiscard]] base::result<void> create(slab_bin& owner) HF_REQUIRES(owner.mutex);
    void search_everywhere() noexcept;

    pool_state& of_;
    sources from_;
    std::atomic<unsigned> threads_{0};
};

}  // namespace holdfast::slab
