// What makes an allocation a few loads and stores: each thread has, for each heap, parts of slabs that it alone
// allocates from.
//
// Of each class the cache has one slab, parts of it, or none, and of that a list of free blocks. They
// are free on media, in DRAM and after a crash, and only this thread may hand them out. Frees go to the marks of the
// block (live_marks.hpp), whoever's slab it is, and need no cache.
//
// A cache belongs to its thread, which finds it in a few thread-local slots by the heap's instance number; that number
// is never used twice, so a slot that outlives its heap matches nothing. The shortest way (plain_blocks.hpp) does not
// compare: the first heaps that are open have a place of their own in each thread, which leads to empty lists unless
// the thread has a cache for the heap. A heap that closes detaches its caches, and resets these places; a thread that
// ends returns its blocks. Both hold the lock of the registry meanwhile, so neither meets the other half way.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/failure.hpp"
#include "base/thread_annotations.hpp"
#include "lane/lane_set.hpp"
#include "persist/topology.hpp"
#include "slab/hardened.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_pool.hpp"

namespace holdfast::slab {

/// Bytes that one thread keeps from all others at most: of whole slabs, or of parts where more threads have come than
/// gives_whole_slabs() says.
[[nodiscard]] constexpr std::uint64_t largest_cache(bool whole_slabs) noexcept {
    std::uint64_t bytes = 0;
    for (const size_class& kind : size_classes) {
        bytes += base::granule_size / (whole_slabs ? 1 : parts_of(kind));
    }
    return bytes;
}
static_assert(largest_cache(false) <= base::mebibyte);
static_assert(largest_cache(true) <= 3 * base::mebibyte);

/// The free blocks of a class that a thread hands out next: some of those of its parts of the slab that were free when
/// it looked. What is freed meanwhile, by whomever, its marks say alone: the thread finds it when it comes by again.
///
/// They are a list of indexes, not bits: where few blocks are free in each word, the end of a word is a branch that no
/// processor foretells.
struct alignas(base::cache_line_size) cached_blocks {
    static constexpr std::uint32_t capacity = 231;
    static constexpr std::uint16_t none = 0xffff;  ///< no index

    // What an allocation needs.
    std::uint32_t next = 0;         ///< in `order`: what is handed out next
    std::uint32_t end = 0;          ///< and what is not any more
    std::byte* first = nullptr;     ///< the address of the slab's first block
    std::uint8_t* marks = nullptr;  ///< its mark
    std::uint32_t block_size = 0;   ///< bytes
    // The rest.
    std::uint32_t slab = 0;    ///< granule + 1; 0: none
    std::uint32_t filled = 0;  ///< of `order`; beyond `end` in a hardened heap alone
    std::uint16_t cursor = 0;  ///< the block where the next look begins
    std::uint8_t part = 0;
    std::uint8_t parts = 1;
    bool upper = false;  ///< the blocks' bits lie in the upper half of the slab's live bitmap
    /// Behind those that were filled is `none`: who finds that need not read `end`.
    alignas(16) std::array<std::uint16_t, capacity + 1> order{none};

    [[nodiscard]] bool is_empty() const noexcept { return next == end || order[next] == none; }
    /// The index of the next that is handed out, which is not free any more; `none` where there is none.
    [[nodiscard]] std::uint16_t try_pop() noexcept {
        // Shared with a commit that finds out whether the part is idle: plain loads and stores, but for the compiler.
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
            __builtin_unreachable();  // so that callers who ask whether there is one need not ask it again
        }
        return found;
    }
    [[nodiscard]] std::uint8_t& mark(std::uint32_t index) const noexcept { return marks[index]; }
    /// That block is the user's from now on.
    [[nodiscard]] std::byte* hand_out(std::uint32_t index) const noexcept {
        std::atomic_ref(mark(index)).store(live_mark::live, std::memory_order_release);
        return block(index);
    }
    /// try_pop() and hand_out(), or null. Not in a hardened heap.
    [[nodiscard]] std::byte* try_hand_out() noexcept {
        const std::uint32_t at = std::atomic_ref(next).load(std::memory_order_relaxed);
        const std::uint16_t index = std::atomic_ref(order[at]).load(std::memory_order_relaxed);
        if (static_cast<std::int16_t>(index) < 0) [[unlikely]] {  // takes a shorter instruction than `none`
            return nullptr;
        }
        std::atomic_ref(next).store(at + 1, std::memory_order_relaxed);
        return hand_out(index);
    }
    /// The next look is at all of its parts.
    void go_to_start(unsigned class_index) noexcept {
        cursor = static_cast<std::uint16_t>(first_of_part(size_classes[class_index], part));
    }
    /// From the cursor to before that block of the slab, free ones become those that are handed out next, in order of
    /// address: all, or as many as there is room for. Returns their number.
    [[nodiscard]] std::uint32_t fill(std::uint32_t before) noexcept;
    /// The same, in the two ways in which it is done: the first on processors that can, as compresses() says.
    [[nodiscard]] std::uint32_t fill_by_compressing(std::uint32_t before) noexcept;
    [[nodiscard]] std::uint32_t fill_by_bytes(std::uint32_t before) noexcept;
    [[nodiscard]] static bool compresses() noexcept;
    /// The parts are somebody else's.
    void forget() noexcept {
        slab = 0;
        filled = 0;
        std::atomic_ref(end).store(0, std::memory_order_relaxed);
        std::atomic_ref(next).store(0, std::memory_order_relaxed);
        std::atomic_ref(order[0]).store(none, std::memory_order_relaxed);
    }
    using indexes = std::array<std::uint16_t, capacity + 1>;
    /// Each is `none`, so that the owner, another thread, hands out nothing; and as they were.
    void withhold(indexes& before) noexcept;
    void restore(const indexes& before) noexcept;
    [[nodiscard]] slab_part place() const noexcept { return {{std::uint64_t{slab} - 1}, part, parts}; }
};
static_assert(sizeof(cached_blocks) == 8 * base::cache_line_size);

class commit_gate;
struct cache_group;

/// By class, and one behind them, which stays empty: that of allocations of no byte.
using cached_lists = std::array<cached_blocks, class_count + 1>;
/// Those of a thread without a cache: all empty.
extern const cached_lists no_lists;

/// Used by its thread alone, but for `heap` and `next_of_heap`, which the registry's lock guards, for `inside`, and in
/// take_back_idle().
struct thread_cache {
    cached_lists classes{};
    std::atomic<std::uint64_t> inside{0};  ///< 1: in a call that may change what a commit writes (commit_gate.hpp)
    unsigned arena = 0;
    unsigned machine_node = 0;       ///< where the thread was when it got the arena
    unsigned refills = 0;            ///< in heaps with several nodes: of all classes
    lane::lane* own_lane = nullptr;  ///< durability `atomic`: where the thread's records go; null: the shared lane
    cache_group* heap = nullptr;     ///< null: detached
    thread_cache* next_of_heap = nullptr;
    const cached_lists** own_place = nullptr;   ///< among this_thread_slots.own; null where the heap has none
    std::unique_ptr<hardened_thread> hardened;  ///< of a hardened heap, once the thread has used it

    /// Checks the part of a slab of the class in, where there is one.
    void give_back(slab_pool& to, unsigned class_index) noexcept;
    /// All parts, and the blocks in quarantine.
    void give_back_all(slab_pool& to) noexcept;
    /// The parts of which no block is out.
    void give_back_idle(slab_pool& to) noexcept;
    /// give_back_idle() of another thread's cache. That thread is in no rare call, for the gate is closed, but it may
    /// run on: it finds no block there any more, and then it is asked whether it has got one meanwhile. It may be
    /// between the two for the time of a few instructions: a block that it gets then is lost.
    void take_back_idle(slab_pool& to, const commit_gate& gate) noexcept;
};

/// Where a thread finds its cache: a slot for each instance modulo their number. Constant-initialised and trivially
/// destroyed, so that reading it is one load relative to the thread pointer, in a shared library too.
struct cache_slot {
    std::uint64_t instance = 0;
    thread_cache* cache = nullptr;
};
inline constexpr std::size_t cache_slot_count = 8;
/// Of so many heaps that are open at once each has a place of its own, where a thread finds the lists of its cache
/// without a question whose they are. Where it has none yet, and behind the last place, it finds no_lists.
inline constexpr unsigned own_place_count = 8;
struct cache_slots {
    std::array<cache_slot, cache_slot_count> slots{};
    std::array<const cached_lists*, own_place_count + 1> own = [] {
        std::array<const cached_lists*, own_place_count + 1> all{};
        all.fill(&no_lists);
        return all;
    }();
    bool ended = false;        ///< the thread's caches are destroyed
    bool inside_late = false;  ///< without a cache, in a call that may change what a commit writes
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local cache_slots this_thread_slots;

/// What lies at the same distance from the slots in each thread: the thread pointer, which a register holds, where the
/// compiler can name it.
[[nodiscard]] inline std::uintptr_t thread_anchor() noexcept {
#if __has_builtin(__builtin_thread_pointer)
    return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#else
    return reinterpret_cast<std::uintptr_t>(&this_thread_slots);
#endif
}

/// The heap's end of it: the caches that threads hold for one open heap.
struct cache_group {
    static constexpr std::uint64_t closed = ~std::uint64_t{0};
    std::uint64_t instance = closed;   ///< unique in the process; what the slots of threads are compared with
    std::uintptr_t slot_at = 0;        ///< bytes from thread_anchor() to the slot of this heap
    unsigned place = own_place_count;  ///< its own; the last is that of heaps without one
    slab_pool* pool = nullptr;
    commit_gate* gate = nullptr;
    const persist::topology* machine = nullptr;
    unsigned next_arena = 0;
    thread_cache* first = nullptr;
    lane::lane_pool* lanes = nullptr;  ///< durability `atomic`

    /// The heap is that instance from now on.
    void become(std::uint64_t number) noexcept {
        instance = number;
        slot_at =
            reinterpret_cast<std::uintptr_t>(&this_thread_slots.slots[number % cache_slot_count]) - thread_anchor();
    }
    /// Bytes from thread_anchor() to its place.
    [[nodiscard]] std::uintptr_t place_at() const noexcept {
        return reinterpret_cast<std::uintptr_t>(&this_thread_slots.own[place]) - thread_anchor();
    }
    /// Of this thread, after become(): the heap's, where it names the instance.
    [[nodiscard]] cache_slot& slot() const noexcept {
        return *reinterpret_cast<cache_slot*>(thread_anchor() + slot_at);
    }
};

/// Finds, makes and ends caches. Process-wide; all functions are thread-safe.
class thread_cache_registry {
public:
    /// A heap opens: it is an instance, and has a place of its own where one is left.
    static void open(cache_group& heap) noexcept;
    /// This thread's cache for the heap, made where there is none yet; null while the thread ends, and where DRAM is
    /// short.
    [[nodiscard]] static thread_cache* attach(cache_group& heap) noexcept;
    [[nodiscard]] static thread_cache* find_or_attach(cache_group& heap) noexcept {
        const cache_slot& slot = heap.slot();
        return slot.instance == heap.instance ? slot.cache : attach(heap);
    }
    /// Whether another thread than that of `mine` is in a call that may change what a commit writes.
    [[nodiscard]] static bool is_any_inside(const cache_group& heap, const thread_cache* mine) noexcept;
    /// This thread's cache, which holds no block, has an arena of the node that the thread is on from now on.
    static void move(thread_cache& cache, cache_group& heap, unsigned machine_node) noexcept;
    /// Parts of slabs without a block out go back to the slabs, whoever's they are. The heap's gate is closed.
    static void give_back_idle(cache_group& heap) noexcept;
    /// The heap closes: no thread finds its cache for it any more. What the caches hold is forgotten.
    static void detach_all(cache_group& heap) noexcept;
    /// In a child of fork, for a heap that it shares with its parent: as detach_all(), and nothing of the heap is
    /// touched.
    static void abandon_all(cache_group& heap) noexcept;
};

/// The last failure of a call that returned null or false on this thread; null while the thread ends.
[[nodiscard]] base::failure* this_thread_failure() noexcept;

}  // namespace holdfast::slab
