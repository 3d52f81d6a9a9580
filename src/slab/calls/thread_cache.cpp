#include "slab/calls/thread_cache.hpp"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <time.h>

#include "base/fork_mutex.hpp"
#include "base/process_identity.hpp"
#include "slab/calls/gates.hpp"

#if defined(__x86_64__) && !defined(HF_STATES_ONE_BY_ONE)
#include <immintrin.h>
#define HF_CAN_COMPRESS 1
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace holdfast::slab {

constinit const cached_lists no_lists{};
constinit thread_local cache_slots this_thread_slots{};

namespace {

/// Guards every group's list of caches and every cache's `heap`.
constinit base::fork_mutex registry_mutex{base::fork_rank::thread_caches};
constinit std::uint64_t last_instance HF_GUARDED_BY(registry_mutex) = 0;
constinit std::uint32_t places_taken HF_GUARDED_BY(registry_mutex) = 0;  ///< a bit each

void give_place_back(cache_group& heap) noexcept HF_REQUIRES(registry_mutex) {
    if (heap.place != own_place_count) {
        places_taken &= ~(std::uint32_t{1} << std::exchange(heap.place, own_place_count));
    }
}

void assign_arena(thread_cache& cache, cache_group& heap, unsigned machine_node) noexcept HF_REQUIRES(registry_mutex) {
    cache.machine_node = machine_node;
    const unsigned turn = heap.next_arena;
    std::atomic_ref(heap.next_arena).store(turn + 1, std::memory_order_relaxed);  // read without the lock
    cache.arena = heap.pool->bins().arena_of_thread(machine_node, heap.machine->nodes(), turn);
}

void attach_to(thread_cache& cache, cache_group& heap) noexcept HF_REQUIRES(registry_mutex) {
    cache.classes = {};
    cache.changes.store(0, std::memory_order_relaxed);
    cache.ended_by_others.store(0, std::memory_order_relaxed);
    assign_arena(cache, heap, heap.machine->current_node());
    cache.heap = &heap;
    heap.pool->supply().thread_came();
    cache.own_lane = heap.lanes == nullptr ? nullptr : heap.lanes->acquire(cache.machine_node);
    cache.next_of_heap = heap.first;
    heap.first = &cache;
}

void leave(thread_cache& cache) noexcept HF_REQUIRES(registry_mutex) {
    thread_cache** link = &cache.heap->first;
    while (*link != &cache) {
        link = &(*link)->next_of_heap;
    }
    *link = cache.next_of_heap;
    cache.heap = nullptr;
    cache.own_lane = nullptr;
    cache.own_place = nullptr;
}

void end(thread_cache& cache) noexcept HF_REQUIRES(registry_mutex) {
    if (cache.heap == nullptr) {
        return;
    }
    if (cache.own_lane != nullptr) {
        cache.heap->lanes->release(*std::exchange(cache.own_lane, nullptr));
    }
    cache.return_all(*cache.heap->pool);
    cache.heap->pool->supply().thread_went();
    leave(cache);
}

struct thread_state {
    std::vector<std::unique_ptr<thread_cache>> caches;
    base::failure last_failure;
    bool has_end = false;   ///< the destructor of the key will end it
    bool attaches = false;  ///< what it allocates meanwhile gets no cache

    void end() noexcept {
        while (!try_to_end()) {
            constexpr timespec a_little{0, 50'000};
            ::nanosleep(&a_little, nullptr);
        }
    }
    /// False during a commit of the thread's heap, which cannot take back what the caches hold.
    [[nodiscard]] bool try_to_end() noexcept {
        const base::scoped_lock lock(registry_mutex);  // a heap that closes changes the caches, too
        leave_to_parent();
        for (const auto& cache : caches) {
            if (cache->heap != nullptr && cache->heap->gate->is_closed()) {
                return false;
            }
        }
        this_thread_slots = {};
        this_thread_slots.ended = true;
        this_thread_slots.inside_late = true;  // a thread that closes a gate waits for the registry's lock
        for (const auto& cache : caches) {
            slab::end(*cache);
        }
        this_thread_slots.inside_late = false;
        return true;
    }
    /// What they hold is the parent's, whose threads may have had the gate or a lock at the fork.
    void leave_to_parent() const noexcept HF_REQUIRES(registry_mutex) {
        for (const auto& cache : caches) {
            if (cache->heap != nullptr && cache->heap->owner != base::process_identity()) {
                leave(*cache);
            }
        }
    }
};

/// A thread-local object with a destructor would have to be registered, which waits for the loader's lock: its holder
/// may be in a constructor that waits for this thread. The destructor of a key does the same work.
alignas(thread_state) constinit thread_local std::array<std::byte, sizeof(thread_state)> place_of_state{};
constinit thread_local thread_state* state_of_thread = nullptr;

constinit pthread_key_t key_of_states{};
constinit bool has_key = false;
constinit std::atomic<void (*)() noexcept> end_of_threads{nullptr};

void end_state(void* /*of*/) noexcept {
    if (void (*const instead)() noexcept = end_of_threads.load(std::memory_order_acquire)) {
        instead();
    } else {
        thread_cache_registry::end_this_thread();
    }
}

/// Before the constructors of static objects, which may open heaps.
constexpr int before_others = 101;
[[gnu::constructor(before_others)]] void make_key() noexcept {
    has_key = ::pthread_key_create(&key_of_states, end_state) == 0;
}
[[gnu::destructor(before_others)]] void delete_key() noexcept {
    if (std::exchange(has_key, false)) {
        ::pthread_key_delete(key_of_states);
    }
}

/// Null while the thread ends. Must not be called on the path that finds the cache in a slot.
thread_state* this_thread() noexcept {
    if (state_of_thread == nullptr && !this_thread_slots.ended) {
        state_of_thread = ::new (place_of_state.data()) thread_state;
        state_of_thread->has_end = has_key && ::pthread_setspecific(key_of_states, state_of_thread) == 0;
    }
    return state_of_thread;
}

/// Of the heap, or else an unused one.
thread_cache* find_cache(const thread_state& mine, const cache_group& heap) noexcept HF_REQUIRES(registry_mutex) {
    for (const cache_group* const wanted : {&heap, static_cast<const cache_group*>(nullptr)}) {
        const auto found = std::ranges::find_if(mine.caches, [&](const auto& cache) { return cache->heap == wanted; });
        if (found != mine.caches.end()) {
            return found->get();
        }
    }
    return nullptr;
}

/// Takes no lock while it allocates: the program's malloc may call this heap. False without memory.
bool make_cache_for(thread_state& mine, const cache_group& heap) noexcept {
    {
        const base::scoped_lock lock(registry_mutex);
        if (find_cache(mine, heap) != nullptr) {
            return true;
        }
    }
    mine.attaches = true;
    try {
        mine.caches.push_back(std::make_unique<thread_cache>());
    } catch (const std::bad_alloc&) {
        mine.attaches = false;
        return false;
    }
    mine.attaches = false;
    return true;
}

/// For each byte, the positions of its set bits; the rest means nothing.
alignas(base::cache_line_size) constexpr auto positions_of_bits = [] {
    std::array<std::array<std::uint8_t, 8>, 256> table{};
    for (unsigned byte = 0; byte < table.size(); ++byte) {
        std::size_t found = 0;
        for (std::uint8_t bit = 0; bit < 8; ++bit) {
            if ((byte >> bit & 1U) != 0) {
                table[byte][found++] = bit;
            }
        }
    }
    return table;
}();
constexpr auto counts_of_bits = [] {
    std::array<std::uint8_t, 256> table{};
    for (unsigned byte = 0; byte < table.size(); ++byte) {
        table[byte] = static_cast<std::uint8_t>(count_bits(byte));
    }
    return table;
}();

/// The positions of the set bits come first. No branch depends on the bits.
void put_positions(std::uint16_t* to, std::uint8_t bits, std::uint32_t first) noexcept {
#if defined(__SSE2__)
    const __m128i positions = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(positions_of_bits[bits].data()));
    const __m128i wide = _mm_unpacklo_epi8(positions, _mm_setzero_si128());
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_add_epi16(wide, _mm_set1_epi16(static_cast<short>(first))));
#else
    for (unsigned i = 0; i < 8; ++i) {
        to[i] = static_cast<std::uint16_t>(first + positions_of_bits[bits][i]);
    }
#endif
}

void put_all(std::uint16_t* to, std::uint32_t first) noexcept {
    for (unsigned i = 0; i < states_a_word; ++i) {
        to[i] = static_cast<std::uint16_t>(first + i);
    }
}

#if defined(HF_CAN_COMPRESS)
/// False before it is initialised: malloc is called that early.
const bool can_compress = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("avx512vbmi2") != 0 && __builtin_cpu_supports("popcnt") != 0;
}();
#endif

}  // namespace

bool cached_blocks::compresses() noexcept {
#if defined(HF_CAN_COMPRESS)
    return can_compress;
#else
    return false;
#endif
}

std::uint32_t cached_blocks::fill(std::uint32_t before) noexcept {
    return compresses() ? fill_by_compressing(before) : fill_by_bytes(before);
}

#if defined(HF_CAN_COMPRESS)
/// One instruction finds the free ones of 16 states, another packs their indexes. Wider vectors take time to power up.
__attribute__((target("avx512bw,avx512vl,avx512vbmi2,popcnt"))) std::uint32_t cached_blocks::fill_by_compressing(
    std::uint32_t before) noexcept {
    constexpr std::uint32_t step = 16;
    const __m256i ascending = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    std::uint32_t found = 0;
    std::uint32_t at = cursor;
    while (at < before && found <= capacity - step) {
        const std::uint32_t begin = at - at % step;
        const std::uint32_t stop = std::min(begin + step, before);
        const __m128i some = _mm_load_si128(reinterpret_cast<const __m128i*>(states + begin));
        auto free = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(some, _mm_setzero_si128())));
        free &= 0xffffU << (at - begin) & 0xffffU >> (begin + step - stop);
        const __m256i present = _mm256_add_epi16(ascending, _mm256_set1_epi16(static_cast<short>(begin)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(&order[found]),
                            _mm256_maskz_compress_epi16(static_cast<__mmask16>(free), present));
        found += static_cast<std::uint32_t>(_mm_popcnt_u32(free));
        at = stop;
    }
    std::atomic_thread_fence(std::memory_order_acquire);  // for the compiler
    cursor = static_cast<std::uint16_t>(at);
    next = 0;
    end = filled = found;
    order[found] = none;
    return found;
}
#else
std::uint32_t cached_blocks::fill_by_compressing(std::uint32_t before) noexcept { return fill_by_bytes(before); }
#endif

std::uint32_t cached_blocks::fill_by_bytes(std::uint32_t before) noexcept {
    constexpr std::uint32_t step = 8;
    std::uint32_t found = 0;
    std::uint32_t at = cursor;
    while (at < before && found <= capacity - step) {
        const auto word = static_cast<std::uint32_t>(at - at % states_a_word);
        std::uint64_t bits = free_bits_of(states + word);
        if (word + states_a_word > before) {
            bits &= (std::uint64_t{1} << (before - word)) - 1;
        }
        bits >>= at - word;
        if (bits == 0) {
            at = static_cast<std::uint32_t>(word + states_a_word);
            continue;
        }
        if (bits == ~std::uint64_t{0} && found <= capacity - states_a_word) {
            put_all(&order[found], at);
            found += states_a_word;
            at += states_a_word;
            continue;
        }
        for (; at < word + states_a_word && found <= capacity - step; at += step, bits >>= step) {
            put_positions(&order[found], static_cast<std::uint8_t>(bits), at);
            found += counts_of_bits[static_cast<std::uint8_t>(bits)];
        }
        at = std::min<std::uint32_t>(at, word + states_a_word);
    }
    cursor = static_cast<std::uint16_t>(at);
    next = 0;
    end = filled = found;
    order[found] = none;
    return found;
}

void thread_cache::return_blocks(slab_pool& to, unsigned class_index) noexcept {
    if (classes[class_index].slab != 0) {
        const slab_part place = classes[class_index].place();
        classes[class_index].forget();
        to.supply().check_in(place);
    }
}

void thread_cache::return_all(slab_pool& to) noexcept {
    if (hardened != nullptr) {
        hardened->return_blocks(to);
    }
    for (unsigned class_index = 0; class_index < class_count; ++class_index) {
        return_blocks(to, class_index);
    }
}

void cached_blocks::withhold(indexes& before) noexcept {
    before = order;
    withhold();
}

void cached_blocks::withhold() noexcept {
    for (std::uint32_t i = 0; i < filled; ++i) {
        std::atomic_ref(order[i]).store(none, std::memory_order_relaxed);
    }
}

void cached_blocks::restore(const indexes& before) noexcept {
    for (std::uint32_t i = 0; i < filled; ++i) {
        std::atomic_ref(order[i]).store(before[i], std::memory_order_relaxed);
    }
}

void thread_cache::return_idle(slab_pool& to) noexcept {
    for (unsigned class_index = 0; class_index < class_count; ++class_index) {
        if (classes[class_index].slab != 0 && to.is_idle(classes[class_index].place())) {
            return_blocks(to, class_index);
        }
    }
}

void thread_cache::reclaim_idle(slab_pool& to, const commit_gate& gate) noexcept {
    std::array<cached_blocks::indexes, class_count> before;  // NOLINT(*-member-init): written where it is read
    std::uint64_t some = 0;
    static_assert(class_count <= 64);
    for (unsigned class_index = 0; class_index < class_count; ++class_index) {
        cached_blocks& blocks = classes[class_index];
        if (blocks.slab != 0 && to.is_idle(blocks.place())) {
            blocks.withhold(before[class_index]);
            some |= std::uint64_t{1} << class_index;
        }
    }
    if (some == 0) {
        return;
    }
    gate.meet_all_threads();
    for (; some != 0; some &= some - 1) {
        const auto class_index = static_cast<unsigned>(std::countr_zero(some));
        if (to.is_idle(classes[class_index].place())) {
            return_blocks(to, class_index);
        } else {
            classes[class_index].restore(before[class_index]);
        }
    }
}

void thread_cache::reclaim_all(slab_pool& to, const commit_gate& gate) noexcept {
    bool has_some = false;
    for (cached_blocks& blocks : classes) {
        if (blocks.slab != 0) {
            blocks.withhold();
            has_some = true;
        }
    }
    if (has_some) {
        gate.meet_all_threads();
    }
    return_all(to);
}

void thread_cache_registry::open(cache_group& heap) noexcept {
    const base::scoped_lock lock(registry_mutex);
    heap.become(++last_instance);
    heap.owner = base::process_identity();
    const auto place = static_cast<unsigned>(std::countr_one(places_taken));
    if (place < own_place_count) {
        places_taken |= std::uint32_t{1} << place;
        heap.place = place;
    }
}

thread_cache* thread_cache_registry::attach(cache_group& heap) noexcept {
    thread_state* const mine = this_thread();
    if (mine == nullptr || !mine->has_end || mine->attaches || heap.pool == nullptr || !make_cache_for(*mine, heap)) {
        return nullptr;
    }
    std::unique_ptr<hardened_thread> old;  // is destroyed without the lock
    const base::scoped_lock lock(registry_mutex);
    thread_cache* const cache = find_cache(*mine, heap);
    if (cache->heap == nullptr) {
        old = std::move(cache->hardened);
        attach_to(*cache, heap);
    }
    heap.slot() = {heap.instance, cache};
    if (heap.place != own_place_count) {
        cache->own_place = &this_thread_slots.own[heap.place];
        *cache->own_place = &cache->classes;
    }
    return cache;
}

void thread_cache_registry::move(thread_cache& cache, cache_group& heap, unsigned machine_node) noexcept {
    const base::scoped_lock lock(registry_mutex);
    assign_arena(cache, heap, machine_node);
    if (cache.own_lane != nullptr) {
        cache.own_lane = heap.lanes->move(*cache.own_lane, machine_node);
    }
}

namespace {

/// Under the registry's lock: `own` for this thread's cache, `others` for the rest.
template <class Own, class Others>
void for_each_cache(const cache_group& heap, Own own, Others others) {
    const thread_cache* const mine = heap.slot().instance == heap.instance ? heap.slot().cache : nullptr;
    for (thread_cache* cache = heap.first; cache != nullptr; cache = cache->next_of_heap) {
        cache == mine ? own(*cache) : others(*cache);
    }
}

}  // namespace

void thread_cache_registry::return_all(cache_group& heap) noexcept {
    const base::scoped_lock lock(registry_mutex);
    for_each_cache(
        heap, [&](thread_cache& own) { own.return_all(*heap.pool); },
        [&](thread_cache& other) { other.reclaim_all(*heap.pool, *heap.gate); });
}

void thread_cache_registry::return_idle(cache_group& heap) noexcept {
    const base::scoped_lock lock(registry_mutex);
    for_each_cache(
        heap, [&](thread_cache& own) { own.return_idle(*heap.pool); },
        [&](thread_cache& other) { other.reclaim_idle(*heap.pool, *heap.gate); });
}

namespace {

template <class Is>
bool is_any_other(const cache_group& heap, const thread_cache* mine, Is&& is) noexcept {
    const base::scoped_lock lock(registry_mutex);
    for (const thread_cache* cache = heap.first; cache != nullptr; cache = cache->next_of_heap) {
        if (cache != mine && is(*cache)) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool thread_cache_registry::is_any_inside(const cache_group& heap, const thread_cache* mine) noexcept {
    return is_any_other(heap, mine,
                        [](const thread_cache& each) { return each.inside.load(std::memory_order_acquire) != 0; });
}

bool thread_cache_registry::is_any_changing(const cache_group& heap, const thread_cache* mine) noexcept {
    return is_any_other(heap, mine, [](const thread_cache& each) { return each.is_changing(); });
}

void thread_cache_registry::end_change_of(const thread_cache* begun_by, const cache_group& heap) noexcept {
    const base::scoped_lock lock(registry_mutex);
    for (thread_cache* cache = heap.first; cache != nullptr; cache = cache->next_of_heap) {
        if (cache == begun_by) {
            cache->ended_by_others.fetch_add(1, std::memory_order_release);
        }
    }
}

void thread_cache_registry::detach_all(cache_group& heap) noexcept {
    const base::scoped_lock lock(registry_mutex);
    for (thread_cache* cache = heap.first; cache != nullptr; cache = std::exchange(cache->next_of_heap, nullptr)) {
        cache->heap = nullptr;
        cache->own_lane = nullptr;
        if (cache->own_place != nullptr) {
            *std::exchange(cache->own_place, nullptr) = &no_lists;
        }
    }
    heap.first = nullptr;
    give_place_back(heap);
}

void thread_cache_registry::abandon_all(cache_group& heap) noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
    // A child of fork has one thread.
    for (thread_cache* cache = heap.first; cache != nullptr; cache = std::exchange(cache->next_of_heap, nullptr)) {
        cache->heap = nullptr;
        cache->own_lane = nullptr;
        cache->own_place = nullptr;  // it may belong to a thread that is not in the child
    }
    heap.first = nullptr;
    this_thread_slots.own[heap.place] = &no_lists;
    heap.place = own_place_count;  // not given to another heap: copies of fast_path still read it
    heap.become(++last_instance);  // no thread's slot matches
    heap.pool = nullptr;
}

void thread_cache_registry::end_this_thread() noexcept {
    if (thread_state* const mine = std::exchange(state_of_thread, nullptr)) {
        mine->end();
        std::destroy_at(mine);
    }
    this_thread_slots.ended = true;
}

bool thread_cache_registry::notices_end_of_this_thread() noexcept {
    const thread_state* const mine = this_thread();
    return mine != nullptr && mine->has_end;
}

void thread_cache_registry::end_threads_by(void (*instead)() noexcept) noexcept {
    end_of_threads.store(instead, std::memory_order_release);
}

base::failure* this_thread_failure() noexcept {
    thread_state* const mine = this_thread();
    return mine == nullptr ? nullptr : &mine->last_failure;
}

}  // namespace holdfast::slab
