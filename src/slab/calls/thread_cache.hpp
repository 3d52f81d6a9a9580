// For each heap and class, a thread has parts of one slab that it alone allocates from, and a list of free blocks in
// them, which are free on media, in DRAM and after a crash.
//
// A thread finds its cache by the heap's instance number, which is never used twice: a slot that outlives its heap
// matches nothing. The fast path does not compare: the first open heaps have a place in each thread, which leads to
// empty lists unless the thread has a cache. A heap that closes resets these places, and a thread that ends returns its
// blocks, both under the lock of the registry. A thread of a child of fork leaves its parent's heaps as they are.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "lane/lane_set.hpp"
#include "persist/machine.hpp"
#include "slab/calls/hardened.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/supply/slab_pool.hpp"

namespace holdfast::slab {

[[nodiscard]] constexpr std::uint64_t largest_cache(bool whole_slabs) noexcept {
    std::uint64_t bytes = 0;
    for (const size_class& size : size_classes) {
        bytes += base::granule_size / (whole_slabs ? 1 : parts_of(size));
    }
    return bytes;
}
static_assert(largest_cache(false) <= 1088 * base::kibibyte);
static_assert(largest_cache(true) <= 3 * base::mebibyte);

/// Free blocks that a thread hands out next, as indexes: with bits, the branch at the end of each word is mispredicted
/// where few are free. Blocks freed later are found by the next look.
struct alignas(base::cache_line_size) cached_blocks {
    static constexpr std::uint32_t capacity = 231;
    static constexpr std::uint16_t none = 0xffff;

    // An allocation needs the first five fields.
    std::uint32_t next = 0;
    std::uint32_t end = 0;  ///< into `order`, behind the last
    std::byte* first = nullptr;
    std::uint8_t* states = nullptr;
    std::uint32_t block_size = 0;  ///< bytes
    std::uint32_t slab = 0;        ///< granule + 1; 0: none
    std::uint32_t filled = 0;      ///< of `order`; more than `end` only in a hardened heap
    std::uint16_t cursor = 0;
    std::uint8_t part = 0;
    std::uint8_t parts = 1;
    bool upper = false;
    /// Behind the filled entries stands `none`: a reader need not read `end`.
    alignas(16) std::array<std::uint16_t, capacity + 1> order{none};

    [[nodiscard]] bool is_empty() const noexcept { return next == end || order[next] == none; }
    /// `none`: the list is empty.
    [[nodiscard]] std::uint16_t try_pop() noexcept {
        // Atomic: a commit changes these while it finds out whether the part is idle.
        const std::uint32_t at = std::atomic_ref(next).load(std::memory_order_relaxed);
        if (at == std::atomic_ref(end).load(std::memory_order_relaxed)) {
            return none;
        }
        const std::uint16_t index = std::atomic_ref(order[at]).load(std::memory_order_relaxed);
        if (index != none) {
            std::atomic_ref(next).store(at + 1, std::memory_order_relaxed);
        }
        return index;
    }
    [[nodiscard]] std::byte* block(std::uint32_t index) const noexcept {
        std::byte* const found = first + std::size_t{index} * block_size;
        if (found == nullptr) {
            __builtin_unreachable();  // spares callers the comparison with null
        }
        return found;
    }
    [[nodiscard]] std::uint8_t& state(std::uint32_t index) const noexcept { return states[index]; }
    [[nodiscard]] std::byte* hand_out(std::uint32_t index) const noexcept {
        std::atomic_ref(state(index)).store(block_state::live, std::memory_order_release);
        return block(index);
    }
    /// Not in a hardened heap.
    [[nodiscard]] std::byte* try_hand_out() noexcept {
        const std::uint32_t at = std::atomic_ref(next).load(std::memory_order_relaxed);
        const std::uint16_t index = std::atomic_ref(order[at]).load(std::memory_order_relaxed);
        if (static_cast<std::int16_t>(index) < 0) [[unlikely]] {  // a shorter instruction than `none` takes
            return nullptr;
        }
        std::atomic_ref(next).store(at + 1, std::memory_order_relaxed);
        return hand_out(index);
    }
    void go_to_start(unsigned class_index) noexcept {
        cursor = static_cast<std::uint16_t>(first_of_part(size_classes[class_index], part));
    }
    /// Lists free blocks from the cursor to `before`, and returns how many.
    [[nodiscard]] std::uint32_t fill(std::uint32_t before) noexcept;
    /// Only on processors for which compresses() is true.
    [[nodiscard]] std::uint32_t fill_by_compressing(std::uint32_t before) noexcept;
    [[nodiscard]] std::uint32_t fill_by_bytes(std::uint32_t before) noexcept;
    /// Right behind fill(): the first `some` stay.
    void shorten(std::uint32_t some) noexcept {
        cursor = order[some];
        order[some] = none;
        end = filled = some;
    }
    [[nodiscard]] static bool compresses() noexcept;
    void forget() noexcept {
        slab = 0;
        filled = 0;
        std::atomic_ref(end).store(0, std::memory_order_relaxed);
        std::atomic_ref(next).store(0, std::memory_order_relaxed);
        std::atomic_ref(order[0]).store(none, std::memory_order_relaxed);
    }
    using indexes = std::array<std::uint16_t, capacity + 1>;
    /// Another thread's list hands out nothing until restore().
    void withhold(indexes& before) noexcept;
    void withhold() noexcept;
    void restore(const indexes& before) noexcept;
    [[nodiscard]] slab_part place() const noexcept { return {{std::uint64_t{slab} - 1}, part, parts}; }
};
static_assert(sizeof(cached_blocks) == 8 * base::cache_line_size);

class commit_gate;
struct cache_group;

/// For each class, and, always empty, for 0 bytes.
using cached_lists = std::array<cached_blocks, class_count + 1>;
extern const cached_lists no_lists;

/// Used by its thread alone, except for `heap` and `next_of_heap`, which the registry's lock guards, for the counts of
/// the gates, and for the lists during reclaim_idle().
struct thread_cache {
    cached_lists classes{};
    std::atomic<std::uint64_t> inside{0};           ///< 1: in a slow call (gates.hpp)
    std::atomic<std::uint64_t> changes{0};          ///< that this thread has begun and not ended (gates.hpp)
    std::atomic<std::uint64_t> ended_by_others{0};  ///< of these
    unsigned arena = 0;
    unsigned machine_node = 0;
    unsigned refills = 0;
    unsigned refills_before_scan = 0;  ///< at the clock
    std::uint64_t last_scan = 0;       ///< nanoseconds
    lane::lane* own_lane = nullptr;    ///< null: the shared lane
    cache_group* heap = nullptr;       ///< null: detached
    thread_cache* next_of_heap = nullptr;
    const cached_lists** own_place = nullptr;   ///< in this_thread_slots.own, or null
    std::unique_ptr<hardened_thread> hardened;  ///< null until the thread uses a hardened heap

    /// Acquire: what the changes have stored is seen where this is false.
    [[nodiscard]] bool is_changing() const noexcept {
        return changes.load(std::memory_order_acquire) != ended_by_others.load(std::memory_order_acquire);
    }
    void return_blocks(slab_pool& to, unsigned class_index) noexcept;
    void return_all(slab_pool& to) noexcept;
    /// Gives back the parts from which no block is out.
    void return_idle(slab_pool& to) noexcept;
    /// The gate is closed, but the thread may run on. Its lists are emptied first; then the block states say whether it
    /// has got a block meanwhile. A block that it took and did not mark yet, a few instructions, may go to another
    /// thread, too (decision 26).
    void reclaim_idle(slab_pool& to, const commit_gate& gate) noexcept;
    /// All of them, likewise; a block that the thread takes meanwhile may go to another thread, too.
    void reclaim_all(slab_pool& to, const commit_gate& gate) noexcept;
};

/// Constant-initialised and trivially destroyed: a read is one load relative to the thread pointer.
struct cache_slot {
    std::uint64_t instance = 0;
    thread_cache* cache = nullptr;
};
inline constexpr std::size_t cache_slot_count = 8;
/// Open heaps with a place. Others, and threads without a cache, find no_lists.
inline constexpr unsigned own_place_count = 8;
struct cache_slots {
    std::array<cache_slot, cache_slot_count> slots{};
    std::array<const cached_lists*, own_place_count + 1> own = [] {
        std::array<const cached_lists*, own_place_count + 1> all{};
        all.fill(&no_lists);
        return all;
    }();
    bool ended = false;
    bool inside_late = false;  ///< in a slow call without a cache
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local cache_slots this_thread_slots;

/// An address at a constant distance from the thread's slots.
[[nodiscard]] inline std::uintptr_t thread_anchor() noexcept {
#if __has_builtin(__builtin_thread_pointer)
    return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#else
    return reinterpret_cast<std::uintptr_t>(&this_thread_slots);
#endif
}

struct cache_group {
    static constexpr std::uint64_t closed = ~std::uint64_t{0};
    std::uint64_t instance = closed;
    std::uint64_t owner = 0;           ///< base::process_identity()
    std::uintptr_t slot_at = 0;        ///< from thread_anchor() to this heap's slot
    unsigned place = own_place_count;  ///< or none
    slab_pool* pool = nullptr;
    commit_gate* gate = nullptr;
    const persist::topology* machine = nullptr;
    unsigned next_arena = 0;
    thread_cache* first = nullptr;
    lane::lane_pool* lanes = nullptr;

    void become(std::uint64_t number) noexcept {
        instance = number;
        slot_at =
            reinterpret_cast<std::uintptr_t>(&this_thread_slots.slots[number % cache_slot_count]) - thread_anchor();
    }
    [[nodiscard]] std::uintptr_t place_at() const noexcept {
        return reinterpret_cast<std::uintptr_t>(&this_thread_slots.own[place]) - thread_anchor();
    }
    /// The heap's only where it names the instance.
    [[nodiscard]] cache_slot& slot() const noexcept {
        return *reinterpret_cast<cache_slot*>(thread_anchor() + slot_at);
    }
};

/// Process-wide and thread-safe.
class thread_cache_registry {
public:
    static void open(cache_group& heap) noexcept;
    /// Null while the thread ends, and where DRAM is short.
    [[nodiscard]] static thread_cache* attach(cache_group& heap) noexcept;
    [[nodiscard]] static thread_cache* find_or_attach(cache_group& heap) noexcept {
        const cache_slot& slot = heap.slot();
        return slot.instance == heap.instance ? slot.cache : attach(heap);
    }
    [[nodiscard]] static bool is_any_inside(const cache_group& heap, const thread_cache* mine) noexcept;
    [[nodiscard]] static bool is_any_changing(const cache_group& heap, const thread_cache* mine) noexcept;
    /// Another thread than the cache's has ended a change. Does nothing where that thread has ended.
    static void end_change_of(const thread_cache* begun_by, const cache_group& heap) noexcept;
    /// The cache holds no block.
    static void move(thread_cache& cache, cache_group& heap, unsigned machine_node) noexcept;
    /// The heap's gate must be closed.
    static void return_idle(cache_group& heap) noexcept;
    /// Of all threads. The heap's gate must be closed.
    static void return_all(cache_group& heap) noexcept;
    /// What the caches hold is forgotten.
    static void detach_all(cache_group& heap) noexcept;
    /// In a child of fork: touches nothing of the heap.
    static void abandon_all(cache_group& heap) noexcept;
    /// Gives back what this thread's caches hold. It gets no other cache. The end of a thread does this, after the
    /// destructors of its thread-local objects; those of the main thread's last until the process ends.
    static void end_this_thread() noexcept;
    /// False where nobody would call end_this_thread(): the thread gets no cache.
    [[nodiscard]] static bool notices_end_of_this_thread() noexcept;
    /// For an allocator whose calls other threads wait for: `instead` is called where threads end, and calls
    /// end_this_thread().
    static void end_threads_by(void (*instead)() noexcept) noexcept;
};

/// Null while the thread ends.
[[nodiscard]] base::failure* this_thread_failure() noexcept;

}  // namespace holdfast::slab
