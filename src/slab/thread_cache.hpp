// What makes an allocation a few loads and stores: each thread has, for each heap, slabs that it alone allocates from.
//
// Of each class the cache has one slab, or none, and of that slab the free blocks among 64: a word of bits. They are
// free on media, in DRAM and after a crash, and only this thread may hand them out. Frees go to the marks of the block
// (live_marks.hpp), whoever's slab it is, and need no cache.
//
// A cache belongs to its thread, which finds it in a few thread-local slots by the heap's instance number; that number
// is never used twice, so a slot that outlives its heap matches nothing. A heap that closes detaches its caches; a
// thread that ends returns its blocks. Both hold the lock of the registry meanwhile, so neither meets the other half
// way.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/failure.hpp"
#include "base/thread_annotations.hpp"
#include "lane/lane_set.hpp"
#include "persist/topology.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_pool.hpp"

namespace holdfast::slab {

/// Slabs that one thread keeps from all others at most: less than 1 MiB.
inline constexpr unsigned maximum_checked_out = 15;
static_assert(maximum_checked_out * base::granule_size < base::mebibyte);

/// The free blocks of a class that a thread hands out next.
struct cached_word {
    std::uint64_t free_bits = 0;     ///< of those behind `first`
    std::byte* first = nullptr;      ///< the address of the block of the lowest bit
    std::uint8_t* marks = nullptr;   ///< its mark
    std::uint32_t slab = 0;          ///< granule + 1; 0: none
    std::uint16_t block_size = 0;    ///< bytes
    std::uint8_t word = 0;           ///< which word of the slab's marks

    /// There is a free block: the index of the next, which is not free any more.
    [[nodiscard]] unsigned pop() noexcept {
        const auto bit = static_cast<unsigned>(std::countr_zero(free_bits));
        free_bits &= free_bits - 1;
        return bit;
    }
    [[nodiscard]] std::byte* block(unsigned bit) const noexcept { return first + std::size_t{bit} * block_size; }
};
static_assert(sizeof(cached_word) == 32);

struct cache_group;

/// Used by its thread alone, but for `heap` and `next_of_heap`, which the registry's lock guards.
struct thread_cache {
    std::array<cached_word, class_count> words{};
    unsigned arena = 0;
    unsigned checked_out = 0;  ///< slabs
    unsigned next_given_up = 0;  ///< the class whose slab goes when there are too many
    lane::lane* own_lane = nullptr;  ///< durability `atomic`: where the thread's records go; null: the shared lane
    cache_group* heap = nullptr;     ///< null: detached
    thread_cache* next_of_heap = nullptr;

    /// Checks the slab of a class in, where there is one.
    void give_back(slab_pool& to, unsigned class_index) noexcept;
    void give_back_all(slab_pool& to) noexcept;
    /// Makes room for one more.
    void give_up_one(slab_pool& to) noexcept;
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
/// destroyed, so that reading it is one load relative to the thread pointer, in a shared library too.
struct cache_slot {
    std::uint64_t instance = 0;
    thread_cache* cache = nullptr;
};
inline constexpr std::size_t cache_slot_count = 8;
struct cache_slots {
    std::array<cache_slot, cache_slot_count> slots{};
    bool ended = false;  ///< the thread's caches are destroyed
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local cache_slots this_thread_slots;

/// The last failure of a call that returned null or false on this thread; null while the thread ends.
[[nodiscard]] base::failure* this_thread_failure() noexcept;

}  // namespace holdfast::slab
