// A cache of free blocks for each thread and heap: what makes an allocation a few loads and stores.
//
// Cached blocks are out of their slabs and not live: only the bitmap on media says what the user holds, so a commit
// need not drain any cache, and blocks in caches are free after a crash.
//
// A cache belongs to its thread, which finds it in a few thread-local slots by the heap's instance number; that number
// is never used twice, so a slot that outlives its heap matches nothing. A heap that closes detaches its caches; a
// thread that ends returns its blocks. Both hold the lock of the registry meanwhile, so neither meets the other half
// way.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/failure.hpp"
#include "base/thread_annotations.hpp"
#include "lane/lane_set.hpp"
#include "persist/topology.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_pool.hpp"

namespace holdfast::slab {

inline constexpr std::uint32_t maximum_cached_blocks = 64;
inline constexpr std::uint64_t maximum_cached_bytes = 32 * base::kibibyte;

/// Blocks of a class that one thread keeps at most.
[[nodiscard]] constexpr std::uint32_t cache_capacity(const size_class& kind) noexcept {
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(maximum_cached_bytes / kind.block_size, 2, maximum_cached_blocks));
}

[[nodiscard]] constexpr std::uint64_t largest_cache() noexcept {
    std::uint64_t bytes = 0;
    for (const size_class& kind : size_classes) {
        bytes += std::uint64_t{cache_capacity(kind)} * kind.block_size;
    }
    return bytes;
}
static_assert(largest_cache() <= base::mebibyte, "what one thread keeps from all others");

/// Free blocks of one class, a stack of offsets.
struct cached_blocks {
    std::uint32_t count = 0;
    std::uint32_t capacity = 0;
    std::array<std::uint64_t, maximum_cached_blocks> offsets{};
};

struct cache_group;

/// Used by its thread alone, but for `heap` and `next_of_heap`, which the registry's lock guards.
struct thread_cache {
    std::array<cached_blocks, class_count> classes{};
    unsigned arena = 0;
    lane::lane* own_lane = nullptr;  ///< durability `atomic`: where the thread's records go; null: the shared lane
    cache_group* heap = nullptr;     ///< null: detached
    thread_cache* next_of_heap = nullptr;

    /// Puts the older half of a class's blocks back.
    void give_back_half(slab_pool& to, unsigned class_index) noexcept;
    void give_back_all(slab_pool& to) noexcept;
};

/// The heap's end of it: the caches that threads hold for one open heap.
struct cache_group {
    std::uint64_t instance = 0;  ///< unique in the process, never 0; what the slots of threads are compared with
    slab_pool* pool = nullptr;
    const persist::topology* machine = nullptr;
    unsigned next_arena = 0;
    thread_cache* first = nullptr;
    lane::lane_pool* lanes = nullptr;  ///< durability `atomic`
};

/// Finds, makes and ends caches. Process-wide; all functions are thread-safe.
class thread_cache_registry {
public:
    /// A number for a heap that opens.
    [[nodiscard]] static std::uint64_t new_instance() noexcept;
    /// This thread's cache for the heap, made where there is none yet; null while the thread ends, and where DRAM is
    /// short.
    [[nodiscard]] static thread_cache* attach(cache_group& heap) noexcept;
    /// The heap closes: no thread finds its cache for it any more. What the caches hold is forgotten.
    static void detach_all(cache_group& heap) noexcept;
    /// In a child of fork, for a heap that it shares with its parent: as detach_all(), and nothing of the heap is
    /// touched.
    static void abandon_all(cache_group& heap) noexcept;
};

/// Where a thread finds its cache: a slot for each instance modulo their number. Constant-initialised and trivially
/// destroyed, so that reading it is one load relative to the thread pointer.
struct cache_slot {
    std::uint64_t instance = 0;
    thread_cache* cache = nullptr;
};
inline constexpr std::size_t cache_slot_count = 8;
struct cache_slots {
    std::array<cache_slot, cache_slot_count> slots{};
    bool ended = false;  ///< the thread's caches are destroyed
};
extern constinit thread_local cache_slots this_thread_slots;

/// The last failure of a call that returned null or false on this thread; null while the thread ends.
[[nodiscard]] base::failure* this_thread_failure() noexcept;

}  // namespace holdfast::slab
