// What makes an allocation a few loads and stores: each thread has, for each heap, parts of slabs that it alone
// allocates from.
//
// Of each class the cache has a part of one slab, or none, and of that the free blocks among 64: a word of bits. They
// are free on media, in DRAM and after a crash, and only this thread may hand them out. Frees go to the marks of the
// block (live_marks.hpp), whoever's slab it is, and need no cache.
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

/// Bytes that one thread keeps from all others at most.
[[nodiscard]] constexpr std::uint64_t largest_cache() noexcept {
    std::uint64_t bytes = 0;
    for (const size_class& kind : size_classes) {
        bytes += base::granule_size / parts_of(kind);
    }
    return bytes;
}
static_assert(largest_cache() <= base::mebibyte);

/// The free blocks of a class that a thread hands out next: of up to 256 that lie side by side (the window), those of
/// its part of the slab that were free when it looked. What is freed meanwhile, by whomever, its marks say alone: the
/// thread finds it when it comes by again.
struct alignas(base::cache_line_size) cached_blocks {
    static constexpr unsigned words = 4;

    // What an allocation needs.
    std::uint64_t now = 0;              ///< of the current word of the window: what is handed out next
    std::byte* now_first = nullptr;     ///< the address of the block that its first bit stands for
    std::uint8_t* now_marks = nullptr;  ///< the mark of that block
    std::uint32_t block_size = 0;       ///< bytes
    // The rest.
    std::array<std::uint64_t, words> free{};  ///< of the window, what comes after the current word
    std::byte* first = nullptr;               ///< the address of the first block of the window
    std::uint8_t* window = nullptr;           ///< its mark
    std::uint32_t slab = 0;                   ///< granule + 1; 0: none
    std::uint16_t word = 0;                   ///< of the slab's marks: where the window begins
    std::uint8_t current = 0;
    std::uint8_t part_index = 0;
    bool upper = false;  ///< the blocks' bits lie in the upper half of the slab's live bitmap

    [[nodiscard]] bool is_empty() const noexcept { return now == 0; }
    /// There is one to be handed out: the bit of the next in the current word, which is not free any more.
    [[nodiscard]] unsigned pop() noexcept {
        const std::uint64_t bits = now;
        now = bits & (bits - 1);
        return static_cast<unsigned>(std::countr_zero(bits));
    }
    /// Of the current word.
    [[nodiscard]] std::byte* block(unsigned bit) const noexcept {
        std::byte* const found = now_first + std::size_t{bit} * block_size;
        if (found == nullptr) {
            __builtin_unreachable();  // so that callers who ask whether there is one need not ask it again
        }
        return found;
    }
    [[nodiscard]] std::uint8_t& mark(unsigned bit) const noexcept { return now_marks[bit]; }
    /// That word of the window is the current one; nothing of it is handed out yet.
    void go_to(unsigned next) noexcept {
        current = static_cast<std::uint8_t>(next);
        now_first = first + std::size_t{next} * marks_a_word * block_size;
        now_marks = window + next * marks_a_word;
    }
    /// The current word is used up: whether one of the window has a free block. Then it is the current one.
    [[nodiscard]] bool turn() noexcept {
        for (unsigned i = 1; i <= words; ++i) {
            const unsigned next = (current + i) % words;
            if (free[next] != 0) {
                go_to(next);
                now = std::exchange(free[next], 0);
                return true;
            }
        }
        return false;
    }
    [[nodiscard]] slab_part place() const noexcept { return {{std::uint64_t{slab} - 1}, part_index}; }
};
static_assert(sizeof(cached_blocks) == 2 * base::cache_line_size);
/// Blocks.
inline constexpr std::uint32_t largest_window = cached_blocks::words * marks_a_word;

struct cache_group;

/// Used by its thread alone, but for `heap` and `next_of_heap`, which the registry's lock guards.
struct thread_cache {
    std::array<cached_blocks, class_count> classes{};
    unsigned arena = 0;
    unsigned machine_node = 0;       ///< where the thread was when it got the arena
    unsigned refills = 0;            ///< in heaps with several nodes: of all classes
    lane::lane* own_lane = nullptr;  ///< durability `atomic`: where the thread's records go; null: the shared lane
    cache_group* heap = nullptr;     ///< null: detached
    thread_cache* next_of_heap = nullptr;
    std::unique_ptr<hardened_thread> hardened;  ///< of a hardened heap, once the thread has used it

    /// Checks the part of a slab of the class in, where there is one.
    void give_back(slab_pool& to, unsigned class_index) noexcept;
    /// All parts, and the blocks in quarantine.
    void give_back_all(slab_pool& to) noexcept;
    /// The parts of which no block is out.
    void give_back_idle(slab_pool& to) noexcept;
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
    std::uint64_t instance = closed;  ///< unique in the process; what the slots of threads are compared with
    std::uintptr_t slot_at = 0;       ///< bytes from thread_anchor() to the slot of this heap
    slab_pool* pool = nullptr;
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
    /// Of this thread, after become(): the heap's, where it names the instance.
    [[nodiscard]] cache_slot& slot() const noexcept {
        return *reinterpret_cast<cache_slot*>(thread_anchor() + slot_at);
    }
};

/// Finds, makes and ends caches. Process-wide; all functions are thread-safe.
class thread_cache_registry {
public:
    /// A number for a heap that opens.
    [[nodiscard]] static std::uint64_t new_instance() noexcept;
    /// This thread's cache for the heap, made where there is none yet; null while the thread ends, and where DRAM is
    /// short.
    [[nodiscard]] static thread_cache* attach(cache_group& heap) noexcept;
    /// This thread's cache, which holds no block, has an arena of the node that the thread is on from now on.
    static void move(thread_cache& cache, cache_group& heap, unsigned machine_node) noexcept;
    /// Parts of slabs without a block out go back to the slabs, whoever's they are. No thread uses the heap meanwhile.
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
