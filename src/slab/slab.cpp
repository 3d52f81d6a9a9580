#include "slab/slab.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <exception>
#include <new>

#include <fmt/format.h>

#include "slab/slab_check.hpp"

namespace holdfast::slab {

using base::failure;
using base::failure_code;
using base::granule;
using base::heap_offset;
using base::pages;
using base::result;
using segment::extent_kind;

namespace {

/// Leaves the failure that `make` returns for last_failure(). Where there is no memory for its text, leaves its code
/// alone.
template <class Make>
void leave_failure(failure_code code_at_least, Make make) noexcept {
    failure* const last = this_thread_failure();
    if (last == nullptr) {
        return;
    }
    try {
        *last = make();
    } catch (const std::exception&) {
        *last = failure{};
        last->code = code_at_least;
    }
}

/// Texts short enough to need no allocation.
failure out_of_memory() noexcept {
    failure what;
    what.code = failure_code::out_of_memory;
    what.field = "memory";
    what.found = "none left";
    what.expected = "free memory";
    return what;
}

}  // namespace

result<void> block_allocator::start() {
    try {
        HF_TRY(pool_.reset());
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
    return {};
}

void block_allocator::open_caches() noexcept {
    caches_ = {};
    thread_cache_registry::open(caches_);
    caches_.pool = &pool_;
    caches_.gate = &gate_;
    caches_.machine = &machine_;
    renew_plain();
}

void block_allocator::renew_plain() noexcept {
    plain_.lists_at = caches_.place_at();
    plain_.base = reinterpret_cast<std::uintptr_t>(space_.base());
    plain_.end = pool_.table().plain_granules() * base::granule_size;
    plain_.records = &pool_.table().record({0});
    plain_.pool = &pool_;
}

result<void> block_allocator::format() {
    HF_TRY(start());
    HF_TRY(extents_.format());
    open_caches();
    return {};
}

result<void> block_allocator::open(pages frontier, bool crashed) {
    HF_TRY(start());
    const auto note = [this](const extent::extent& found) {
        if (found.kind == extent_kind::slab) {
            pool_.loader().record(base::granule_of(found.start));
        }
    };
    try {
        HF_TRY(crashed ? extents_.recover(frontier, note) : extents_.open(frontier, note));
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
    open_caches();
    return {};
}

const plain_blocks& plain_blocks::of_no_heap() noexcept {
    static const plain_blocks none = [] {
        plain_blocks made;
        made.lists_at = cache_group().place_at();
        return made;
    }();
    return none;
}

void plain_blocks::look_at(const slab_record& freed) const noexcept {
    const int before = errno;  // a free must leave it as it was
    pool->upkeep().look_at({static_cast<std::uint64_t>(&freed - records)}, 0);
    errno = before;
}

void block_allocator::close() noexcept {
    thread_cache_registry::detach_all(caches_);
    cached_extents_.stop();
    pool_.empties().keep(false);
    caches_ = {};
    plain_ = plain_blocks::of_no_heap();
}

// --- allocate -------------------------------------------------------------------------------------------------------

void* block_allocator::allocate_pages(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept {
    const rare_call call(gate_);
    if (!call.is_first()) {
        leave_interruption();
        return nullptr;
    }
    const pages taken = take_pages(bytes, alignment, extent_kind::used, type).start;
    return taken.value == 0 ? nullptr : space_.address(base::offset_of(taken));
}

/// Allocates for a thread without a cache, or whose cache has no block of the class.
void* block_allocator::allocate_rarely(unsigned class_index) noexcept {
    thread_cache* const cache = find_cache();
    const rare_call call(gate_, cache);
    if (!call.is_first()) {
        leave_interruption();
        return nullptr;
    }
    if (cache == nullptr) {
        const std::uint64_t offset = take_one(class_index, 0);
        if (offset == 0) {
            return nullptr;
        }
        pool_.hand_out(offset);
        return space_.address({offset});
    }
    cached_blocks& blocks = cache->classes[class_index];
    if (blocks.is_empty() && !refill(*cache, class_index)) {
        return nullptr;
    }
    return blocks.hand_out(blocks.try_pop());
}

namespace {

/// Runs `attempt`; where it fails, makes room and runs it again; where it fails again, takes what `last_resort` finds.
/// Returns an empty value where there is none, and leaves the failure.
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

}  // namespace

/// The offset of a block whose mark is `held`; 0 where there is none.
std::uint64_t block_allocator::take_one(unsigned class_index, std::uint32_t type) noexcept {
    if (caches_.pool == nullptr) {
        return 0;
    }
    return try_hard(
        std::uint64_t{0}, [&] { return pool_.supply().take_one(0, class_index, type); }, [&] { reclaim(); },
        [&] { return pool_.supply().take_one_anywhere(class_index, type).value_or(0); });
}

namespace {

/// The arena of the core that this thread runs on; `arena` where the core is not known. Used where there are more
/// threads than arenas: threads that run at one moment do not meet at a lock, and slabs stay with the core whose caches
/// have their lines. Builds with mutants use `arena`, so that the crash tests have the same arenas in each run.
unsigned arena_of_core([[maybe_unused]] unsigned arenas, unsigned arena) noexcept {
#if defined(HOLDFAST_MUTANTS) && HOLDFAST_MUTANTS
    return arena;
#else
    const int core = ::sched_getcpu();  // no system call: reads the thread's storage
    return core < 0 ? arena : static_cast<unsigned>(core) % arenas;
#endif
}

}  // namespace

/// Gives the cache a slab of the class, or parts of one, with a free block.
bool block_allocator::check_out(thread_cache& cache, unsigned class_index) noexcept {
    constexpr slab_part none{};  // granule 0 holds the roots
    if (extents_.nodes() == 1 &&
        std::atomic_ref(caches_.next_arena).load(std::memory_order_relaxed) > pool_.bins().arenas()) {
        cache.arena = arena_of_core(pool_.bins().arenas(), cache.arena);
    }
    const slab_part got = try_hard(
        none, [&] { return pool_.supply().check_out(cache.arena, class_index); }, [&] { reclaim(); },
        [&] { return pool_.supply().check_out_anywhere(class_index).value_or(none); });
    if (got == none) {
        return false;
    }
    cached_blocks& blocks = cache.classes[class_index];
    const unsigned kind = slab_state::kind_of(pool_.table().state(got.slab));  // fixed while a part is out
    blocks.slab = static_cast<std::uint32_t>(got.slab.value + 1);
    blocks.part = static_cast<std::uint8_t>(got.part);
    blocks.parts = static_cast<std::uint8_t>(got.parts);
    blocks.block_size = size_classes[class_index].block_size;
    blocks.upper = (kind & slab_state::upper_bank) != 0;
    blocks.first = static_cast<std::byte*>(space_.address(base::offset_of(got.slab)));
    blocks.marks = pool_.table().marks(got.slab, kind);
    blocks.go_to_start(class_index);
    return find_free(blocks, class_index);
}

/// Fills the list from the rest of its parts.
bool block_allocator::find_free(cached_blocks& blocks, unsigned class_index) const noexcept {
    const std::uint32_t found = blocks.fill(blocks.place().blocks(size_classes[class_index]).end);
    if (found == 0) {
        return false;
    }
    pool_.table().twin(blocks.place().slab).count_out(found);
    return true;
}

/// Comes where the list of the class is empty: finds free blocks for it.
bool block_allocator::refill(thread_cache& cache, unsigned class_index) noexcept {
    if (!hardened_) [[likely]] {
        return refill_in_order(cache, class_index);
    }
    cached_blocks& blocks = cache.classes[class_index];
    if (blocks.end == blocks.filled) {
        if (!refill_in_order(cache, class_index)) {
            return false;
        }
        blocks.end = 0;
    }
    choose_at_random(cache, class_index);
    return true;
}

/// Looks in the rest of the parts; where that has none, in all of them, if it is worth it; then checks out another
/// slab.
bool block_allocator::refill_in_order(thread_cache& cache, unsigned class_index) noexcept {
    if (pool_.remote().active()) {
        before_refill(cache);
    }
    cached_blocks& blocks = cache.classes[class_index];
    if (blocks.slab != 0) {
        if (find_free(blocks, class_index)) {
            return true;
        }
        if (is_worth_a_pass(blocks, class_index)) {
            blocks.go_to_start(class_index);
            if (find_free(blocks, class_index)) {
                return true;
            }
        }
        cache.give_back(pool_, class_index);
    }
    return check_out(cache, class_index);
}

/// Whether enough blocks of the parts have been freed to be worth a pass. Approximate: words at the ends of the parts
/// are counted whole.
bool block_allocator::is_worth_a_pass(const cached_blocks& blocks, unsigned class_index) const noexcept {
    const block_range range = blocks.place().blocks(size_classes[class_index]);
    const std::uint32_t least = pool_.demand().is_space_short() ? 1 : worth_a_look(range.end - range.first);
    return count_free(blocks.marks + range.first_word() * marks_a_word, range.end_word() - range.first_word()) >= least;
}

unsigned block_allocator::arena() noexcept {
    const thread_cache* const cache = find_cache();
    return cache == nullptr ? 0 : cache->arena;
}

/// Takes an extent of enough pages; on failure the result begins at page 0, which holds the roots.
extent::extent block_allocator::take_pages(std::size_t bytes, std::size_t alignment, extent_kind kind,
                                           std::uint32_t type) noexcept {
    if (bytes == 0 || !std::has_single_bit(alignment) || alignment > maximum_alignment) {
        leave_failure(failure_code::invalid_argument, [&] {
            failure what;
            what.code = failure_code::invalid_argument;
            what.field = "allocation";
            what.found = fmt::format("{} bytes at a multiple of {}", bytes, alignment);
            what.expected = fmt::format("at least 1 byte, alignment a power of two up to {}", maximum_alignment);
            return what;
        });
        return {};
    }
    const pages length = base::pages_for(bytes);
    const pages at_multiple_of{std::max<std::uint64_t>(alignment / base::page_size, 1)};
    if (cached_extents_.keeps(length)) {
        const auto cached = at_multiple_of.value == 1 ? cached_extents_.take(arena(), length)
                                                      : cached_extents_.take_aligned(arena(), length, at_multiple_of);
        if (cached) {
            if (kind == extent_kind::used) {
                extents_.hand_out(cached->start, cached->length, type);
            }
            return *cached;
        }
    }
    try {
        const std::uint32_t node = extents_.nodes() == 1 ? extent::any_node : arena() % extents_.nodes();
        auto got = extents_.allocate(length, at_multiple_of, kind, type, node);
        if (!got) {
            reclaim();
            got = extents_.allocate(length, at_multiple_of, kind, type, node);
        }
        if (got) {
            return {*got, length, kind, type};
        }
        leave_failure(got.error().code, [&] { return std::move(got).error(); });
    } catch (const std::bad_alloc&) {
        leave_failure(failure_code::out_of_memory, out_of_memory);
    }
    return {};
}

/// Comes when space has run out: this thread's cache, empty slabs and the caches of extents give back what they keep.
void block_allocator::release_unused() noexcept {
    const rare_call call(gate_);
    reclaim();
}

void block_allocator::reclaim() noexcept {
    flush_this_thread();
    pool_.remote().merge_all();
    pool_.release_empty();
    cached_extents_.flush();
}

void block_allocator::flush_this_thread() noexcept {
    if (thread_cache* const cache = find_cache()) {
        const rare_call call(gate_, cache);
        cache->give_back_all(pool_);
    }
}

// --- free -----------------------------------------------------------------------------------------------------------

/// Frees a block of a watched or unloaded slab, an older block of a morphed slab, a block on a heap with several nodes,
/// or a block of whole pages; or leaves the failure.
bool block_allocator::free_rarely(void* block) noexcept {
    const rare_call call(gate_);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    return free_inside(block);
}

bool block_allocator::free_inside(void* block) noexcept {
    const heap_offset offset = space_.offset(block);
    const granule slab = base::granule_of(offset);
    try {
        if (slab.value < pool_.table().granules()) {
            const std::uint8_t state = pool_.table().state(slab);
            if (slab_state::is_unloaded(state)) {
                const thread_cache* const cache = find_cache();
                if (auto loaded = pool_.loader().load(slab, cache == nullptr ? 0 : cache->arena); !loaded) {
                    leave(std::move(loaded).error());
                    return false;
                }
                return plain_.free(block) || free_inside(block);  // loaded now, or quarantined
            }
            if (slab_state::is_loaded(state) && pool_.remote().active()) {
                return free_by_node(block, slab, state);
            }
            held_block found;
            if (slab_state::is_loaded(state) && find_in_slab(offset.value, slab_state::kind_of(state), found)) {
                pool_.upkeep().note_change(slab);
                return plain_.free(block) || free_inside(block);
            }
            if (std::uint8_t* const old = pool_.table().old_mark_at(offset.value)) {
                std::atomic_ref(*old).store(live_mark::free, std::memory_order_release);
                pool_.note_free(slab);
                return true;
            }
            if (state == slab_state::none && offset.value % base::page_size == 0 &&
                !pool_.pins().contains_pages(offset.value)) {
                return free_pages(base::page_of(offset));
            }
        }
    } catch (const std::bad_alloc&) {  // no memory for a failure's text: nothing was changed
    }
    leave_failure(failure_code::bad_address, [&] { return refusal(block); });
    return false;
}

/// Frees the block of whole pages that starts there; where there is none, leaves the failure.
bool block_allocator::free_pages(pages start) {
    if (cached_extents_.keeps(extent::least_cached)) {
        if (const auto claimed = extents_.claim(start, extent::least_cached, extent::most_cached)) {
            cached_extents_.put(arena(), *claimed);
            return true;
        }
    }
    auto freed = extents_.free(start, extent_kind::used);
    if (!freed) {
        leave_failure(failure_code::bad_address, [&] {
            const bool known_better =
                cached_extents_.contains(start) || pool_.source().guards().contains(base::granule_of(start));
            return known_better ? refusal(space_.address(base::offset_of(start))) : std::move(freed).error();
        });
    }
    return freed.ok();
}

result<void> block_allocator::free(void* block) {
    if (try_free(block)) {
        return {};
    }
    return last_failure();
}

/// The failure that says what is at an address that is not the start of an allocated block.
failure block_allocator::refusal(const void* block) const {
    const heap_offset offset = space_.offset(block);
    failure what;
    what.code = failure_code::bad_address;
    what.field = fmt::format("address {:#x}", reinterpret_cast<std::uintptr_t>(block));
    what.expected = "the start of an allocated block";
    if (offset >= base::offset_of(extents_.frontier())) {
        what.found = fmt::format("an address outside the heap ({} to {})", fmt::ptr(space_.base()),
                                 fmt::ptr(space_.address(base::offset_of(extents_.frontier()))));
        return what;
    }
    const granule slab = base::granule_of(offset);
    const std::uint8_t state = pool_.table().state(slab);
    if (state == slab_state::quarantined) {
        what.code = failure_code::corrupt;
        what.found = fmt::format("a slab in granule {} whose header or bitmap is damaged", slab.value);
        return what;
    }
    if (pool_.pins().contains(offset.value)) {
        what.found = "a constructed object";
        what.expected = "a block that is no object";
        what.hint = "destroy the object: that frees its block, too";
        return what;
    }
    const unsigned class_index = slab_state::class_of(state);
    if (class_index == no_class) {
        const auto around = extents_.containing(base::page_of(offset));
        what.found = !around                                   ? "no extent"
                     : around->kind == extent_kind::free       ? "free memory"
                     : around->kind == extent_kind::roots      ? "the roots of the heap"
                     : cached_extents_.contains(around->start) ? "free memory"
                     : pool_.source().guards().contains(slab)  ? "a guard range behind a slab"
                     : around->kind == extent_kind::reserved   ? "a reserved block that was not published"
                                                               : "an address inside a block of whole pages";
        return what;
    }
    const size_class& kind = size_classes[class_index];
    const std::uint32_t index = block_index(kind, offset.value % base::granule_size);
    if (index >= kind.block_count) {
        what.found = fmt::format("the unused end of a slab of {}-byte blocks", kind.block_size);
    } else if (const auto around = find_small(offset.value); around && around->start != offset.value) {
        what.found = fmt::format("an address inside a block of {} bytes",
                                 size_classes[slab_state::class_of_kind(around->kind)].block_size);
    } else if (index * std::uint64_t{kind.block_size} != offset.value % base::granule_size) {
        what.found = fmt::format("an address inside a block of {} bytes", kind.block_size);
    } else {
        what.found = fmt::format("a free block of {} bytes (freed already?)", kind.block_size);
    }
    return what;
}

void block_allocator::leave_refusal(const void* block) noexcept {
    leave_failure(failure_code::bad_address, [&] { return refusal(block); });
}

/// Leaves the failure for a call that interrupted another call of its thread, which may hold a lock that this one would
/// wait for.
void block_allocator::leave_interruption() noexcept {
    leave_failure(failure_code::unsupported, [] {
        return failure{failure_code::unsupported,
                       {},
                       "a call",
                       "one of a signal handler that has interrupted the allocator",
                       "one of a thread that is not in another",
                       "handlers of signals do not allocate or free",
                       0};
    });
}

void block_allocator::leave(failure&& what) noexcept {
    if (failure* const last = this_thread_failure()) {
        *last = std::move(what);
    }
}

const failure& block_allocator::last_failure() noexcept {
    static const failure none;  // for a thread that ends
    const failure* const last = this_thread_failure();
    return last == nullptr ? none : *last;
}

}  // namespace holdfast::slab
