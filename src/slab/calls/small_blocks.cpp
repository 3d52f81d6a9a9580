#include "slab/calls/small_blocks.hpp"

#include <sched.h>

#include <algorithm>
#include <new>
#include <utility>

#include "slab/calls/hardened.hpp"
#include "slab/calls/last_failure.hpp"

namespace holdfast::slab {

using base::failure_code;

namespace {

/// Refills between two looks at what other nodes have freed, and at the node that the thread runs on.
constexpr unsigned refills_a_scan = 16;
constexpr unsigned refills_a_place = 64;
constexpr unsigned refills_between_clocks = 4;

/// Where `attempt` fails, makes room and runs it again; where it fails again, takes what `last_resort` finds. `empty`:
/// there is none, and the failure is left.
template <class Value, class Attempt, class MakeRoom, class LastResort>
Value try_hard(Value empty, Attempt attempt, MakeRoom make_room, LastResort last_resort) noexcept {
    try {
        if (const auto got = attempt()) {
            return *got;
        }
        make_room();
        auto again = attempt();
        if (again) {
            return *again;
        }
        if (const Value found = last_resort(); found != empty) {
            return found;
        }
        leave_failure(again.error().code, [&] { return std::move(again).error(); });
    } catch (const std::bad_alloc&) {
        leave_failure(failure_code::out_of_memory, out_of_memory);
    }
    return empty;
}

/// The arena of the core that this thread runs on; `arena` where the core is not known. Where there are more threads
/// than arenas, threads that run at one moment then do not meet at a lock, and slabs stay with the core whose caches
/// have their lines. Builds with mutants use `arena`, so that the crash tests have the same arenas in each run.
unsigned arena_of_core([[maybe_unused]] unsigned arenas, unsigned arena) noexcept {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
    return arena;
#else
    const int core = ::sched_getcpu();  // no system call: reads the thread's storage
    return core < 0 ? arena : static_cast<unsigned>(core) % arenas;
#endif
}

/// A thread that calls seldom lists few, so that it soon comes again, as does one that has not yet used the class.
/// Builds with mutants list all, so that the crash tests take the same blocks in each run.
std::uint32_t blocks_to_list([[maybe_unused]] std::uint64_t passed_ns, [[maybe_unused]] bool is_first) noexcept {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
    return cached_blocks::capacity;
#else
    constexpr std::uint64_t seldom_ns = 20'000'000;
    constexpr std::uint64_t hardly_ns = 500'000'000;
    constexpr std::uint32_t few = 16;
    const bool often = passed_ns < seldom_ns && !is_first;
    return often ? cached_blocks::capacity : passed_ns < hardly_ns ? few : 1;
#endif
}

}  // namespace

void* small_blocks::allocate(unsigned class_index) noexcept {
    thread_cache* const cache = core_.find_cache();
    const slow_call call(core_.gate, cache);
    if (!call.is_first()) {
        leave_interruption();
        return nullptr;
    }
    if (cache == nullptr) {
        return allocate_one(class_index, 0);
    }
    cached_blocks& blocks = cache->classes[class_index];
    if (blocks.is_empty() && !refill(*cache, class_index)) {
        return nullptr;
    }
    return blocks.hand_out(blocks.try_pop());
}

void* small_blocks::allocate_typed(unsigned class_index, std::uint32_t type) noexcept {
    const slow_call call(core_.gate);
    if (!call.is_first()) {
        leave_interruption();
        return nullptr;
    }
    return allocate_one(class_index, type);
}

void* small_blocks::allocate_one(unsigned class_index, std::uint32_t type) noexcept {
    const std::uint64_t offset = take_one(class_index, type);
    if (offset == 0) {
        return nullptr;
    }
    core_.pool.hand_out(offset);
    return core_.space.address({offset});
}

bool small_blocks::hold(thread_cache* cache, unsigned class_index, held_block& held) noexcept {
    const slow_call call(core_.gate, cache);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    if (cache == nullptr) {
        return hold_one(class_index, 0, held);
    }
    cached_blocks& blocks = cache->classes[class_index];
    if (blocks.is_empty() && !refill(*cache, class_index)) {
        return false;
    }
    core_.hold_at(blocks, blocks.try_pop(), class_index, held);
    return true;
}

bool small_blocks::hold_typed(unsigned class_index, std::uint32_t type, held_block& held) noexcept {
    const slow_call call(core_.gate);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    return hold_one(class_index, type, held);
}

bool small_blocks::hold_one(unsigned class_index, std::uint32_t type, held_block& held) noexcept {
    const std::uint64_t offset = take_one(class_index, type);
    if (offset == 0) {
        return false;
    }
    const slab_kind kind = slab_state::kind_of(core_.pool.table().state(base::granule_of(base::heap_offset{offset})));
    held = core_.small_block(offset, kind, core_.pool.table().block_state_at(offset, kind));
    return true;
}

/// The offset of a block whose state is `held`; 0: last_failure() says why.
std::uint64_t small_blocks::take_one(unsigned class_index, std::uint32_t type) noexcept {
    if (core_.caches.pool == nullptr || !admit()) {
        return 0;
    }
    if (thread_cache* const cache = core_.find_cache()) {
        static_cast<void>(age(*cache, false));
    } else {
        core_.pool.upkeep().age();
    }
    return try_hard(
        std::uint64_t{0}, [&] { return core_.pool.supply().take_one(0, class_index, type); }, [&] { reclaim(); },
        [&] { return core_.pool.supply().take_one_anywhere(class_index, type).value_or(0); });
}

/// False: last_failure() says why.
bool small_blocks::admit() noexcept { return slab::admit(core_.extents, {base::pages_per_granule}); }

bool small_blocks::check_out(thread_cache& cache, unsigned class_index, std::uint32_t most) noexcept {
    constexpr slab_part none{};  // granule 0 holds the roots
    if (!admit()) {
        return false;
    }
    if (core_.extents.nodes() == 1 &&
        std::atomic_ref(core_.caches.next_arena).load(std::memory_order_relaxed) > core_.pool.bins().arenas()) {
        cache.arena = arena_of_core(core_.pool.bins().arenas(), cache.arena);
    }
    const slab_part got = try_hard(
        none, [&] { return core_.pool.supply().check_out(cache.arena, class_index); }, [&] { reclaim(); },
        [&] { return core_.pool.supply().check_out_anywhere(class_index).value_or(none); });
    if (got == none) {
        return false;
    }
    cached_blocks& blocks = cache.classes[class_index];
    const slab_kind kind = slab_state::kind_of(core_.pool.table().state(got.slab));  // fixed while a part is out
    blocks.slab = static_cast<std::uint32_t>(got.slab.value + 1);
    blocks.part = static_cast<std::uint8_t>(got.part);
    blocks.parts = static_cast<std::uint8_t>(got.parts);
    blocks.block_size = size_classes[class_index].block_size;
    blocks.upper = kind.is_upper();
    blocks.first = static_cast<std::byte*>(core_.space.address(base::offset_of(got.slab)));
    blocks.states = core_.pool.table().block_states(got.slab, kind);
    blocks.go_to_start(class_index);
    return find_free(blocks, class_index, most);
}

bool small_blocks::find_free(cached_blocks& blocks, unsigned class_index, std::uint32_t most) const noexcept {
    const std::uint32_t found = std::min(blocks.fill(blocks.place().blocks(size_classes[class_index]).end), most);
    if (found == 0) {
        return false;
    }
    if (found < blocks.filled) {
        blocks.shorten(found);
    }
    core_.pool.table().descriptor(blocks.place().slab).count_out(found);
    return true;
}

/// The list of the class must be empty. False: last_failure() says why.
bool small_blocks::refill(thread_cache& cache, unsigned class_index) noexcept {
    if (!core_.hardened) [[likely]] {
        return refill_in_order(cache, class_index);
    }
    cached_blocks& blocks = cache.classes[class_index];
    if (blocks.end == blocks.filled) {
        if (!refill_in_order(cache, class_index)) {
            return false;
        }
        blocks.end = 0;
    }
    slab::choose_at_random(cache, class_index);
    return true;
}

/// Looks in the rest of the parts, then in all of them, if it is worth it; then checks out another slab.
bool small_blocks::refill_in_order(thread_cache& cache, unsigned class_index) noexcept {
    if (core_.pool.remote().active()) {
        before_refill(cache);
    }
    cached_blocks& blocks = cache.classes[class_index];
    const std::uint32_t most = age(cache, blocks.block_size == 0);
    if (blocks.slab != 0) {
        if (find_free(blocks, class_index, most)) {
            return true;
        }
        if (is_worth_a_pass(blocks, class_index)) {
            blocks.go_to_start(class_index);
            if (find_free(blocks, class_index, most)) {
                return true;
            }
        }
        cache.return_blocks(core_.pool, class_index);
    }
    return check_out(cache, class_index, most);
}

/// Returns how many blocks to list. A thread that calls often looks at the clock now and then.
std::uint32_t small_blocks::age(thread_cache& cache, bool is_first) noexcept {
    if (cache.refills_before_scan != 0 && !is_first) {
        --cache.refills_before_scan;
        return cached_blocks::capacity;
    }
    const std::uint64_t now = core_.extents.now();
    core_.pool.upkeep().age(now);
    const std::uint64_t before = std::exchange(cache.last_scan, now);
    const std::uint32_t most = blocks_to_list(before == 0 ? 0 : now - std::min(before, now), is_first && now != 0);
    cache.refills_before_scan = most == cached_blocks::capacity ? refills_between_clocks - 1 : 0;
    return most;
}

/// Approximate: words at the ends of the parts are counted whole.
bool small_blocks::is_worth_a_pass(const cached_blocks& blocks, unsigned class_index) const noexcept {
    const block_range range = blocks.place().blocks(size_classes[class_index]);
    const std::uint32_t least = core_.pool.demand().is_space_short() ? 1 : worth_a_scan(range.end - range.first);
    return count_free(blocks.states + range.first_word() * states_a_word, range.end_word() - range.first_word()) >=
           least;
}

void small_blocks::before_refill(thread_cache& cache) noexcept {
    if (++cache.refills % refills_a_scan == 0) {
        core_.pool.remote().merge_if_due(cache.arena % core_.pool.remote().nodes());
    }
    if (cache.refills % refills_a_place == 0) {
        follow_this_thread();
    }
}

bool small_blocks::follow_this_thread() noexcept {
    thread_cache* const cache = core_.pool.remote().active() ? core_.find_cache() : nullptr;
    const unsigned node = cache == nullptr ? 0 : core_.machine.current_node();
    if (cache == nullptr || cache->machine_node == node) {
        return false;
    }
    cache->return_all(core_.pool);
    thread_cache_registry::move(*cache, core_.caches, node);
    return true;
}

void small_blocks::release_unused() noexcept {
    const slow_call call(core_.gate);
    reclaim();
}

void small_blocks::reclaim() noexcept {
    flush_this_thread();
    core_.pool.remote().merge_all();
    core_.pool.release_empty();
    core_.cached_extents.flush();
}

void small_blocks::flush_this_thread() noexcept {
    if (thread_cache* const cache = core_.find_cache()) {
        const slow_call call(core_.gate, cache);
        cache->return_all(core_.pool);
    }
}

}  // namespace holdfast::slab
