#include "slab/slab.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "slab/calls/last_failure.hpp"

namespace holdfast::slab {

using base::granule;
using base::heap_offset;
using base::pages;
using base::result;
using segment::extent_kind;

result<void> block_allocator::start() {
    try {
        HF_TRY(core_.pool.reset());
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
    return {};
}

void block_allocator::open_caches() noexcept {
    core_.caches = {};
    thread_cache_registry::open(core_.caches);
    core_.caches.pool = &core_.pool;
    core_.caches.gate = &core_.gate;
    core_.caches.machine = &core_.machine;
    core_.renew_fast_path();
}

void block_core::renew_fast_path() noexcept {
    fast_path.lists_at = caches.place_at();
    fast_path.base = reinterpret_cast<std::uintptr_t>(space.base());
    fast_path.end = pool.table().fast_granules() * base::granule_size;
    fast_path.entries = &pool.table().entry({0});
    fast_path.pool = &pool;
}

result<void> block_allocator::format() {
    HF_TRY(start());
    HF_TRY(core_.extents.format());
    open_caches();
    return {};
}

result<void> block_allocator::open(pages frontier, bool crashed) {
    HF_TRY(start());
    const auto note = [this](const extent::extent& found) {
        if (found.kind == extent_kind::slab) {
            core_.pool.loader().record(base::granule_of(found.start));
        }
    };
    try {
        HF_TRY(crashed ? core_.extents.recover(frontier, note) : core_.extents.open(frontier, note));
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
    open_caches();
    return {};
}

const fast_path& fast_path::of_no_heap() noexcept {
    static const fast_path none = [] {
        fast_path made;
        made.lists_at = cache_group().place_at();
        return made;
    }();
    return none;
}

void fast_path::inspect(const slab_entry& freed) const noexcept {
    const int before = errno;  // a free must leave it as it was
    pool->upkeep().inspect({static_cast<std::uint64_t>(&freed - entries)}, 0);
    errno = before;
}

void block_allocator::close() noexcept {
    thread_cache_registry::detach_all(core_.caches);
    core_.pool.upkeep().age_caches(nullptr);
    core_.cached_extents.stop();
    core_.pool.empties().keep(false);
    core_.caches = {};
    core_.fast_path = fast_path::of_no_heap();
}

result<void> block_allocator::keep_extents() {
    HF_TRY(core_.cached_extents.start(core_.pool.bins().arenas()));
    core_.pool.empties().keep(true);
    core_.pool.upkeep().age_caches(&core_.cached_extents);
    core_.extents.set_reclaim_callback(base::function_ref<void()>(reclaim_callback_));
    return {};
}

void block_allocator::flush_extents() noexcept {
    core_.pool.remote().merge_all();
    core_.pool.empties().flush();
    core_.cached_extents.flush();
}

void block_allocator::abandon() noexcept {
    thread_cache_registry::abandon_all(core_.caches);
    core_.pool.abandon();  // copies of fast_path() find no block
    core_.renew_fast_path();
}

namespace {

bool is_type(std::uint32_t type) noexcept {
    if (type < segment::type_limit) {
        return true;
    }
    base::failure what;
    what.code = base::failure_code::invalid_argument;
    try {
        what.field = "type";
        what.found = fmt::format("{}", type);
        what.expected = fmt::format("a type number below {}", segment::type_limit);
    } catch (const std::bad_alloc&) {
    }
    slab::leave(std::move(what));
    return false;
}

}  // namespace

void* block_allocator::allocate_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept {
    if (!is_type(type)) {
        return nullptr;
    }
    const unsigned class_index = core_.class_of(bytes, alignment);
    return class_index == no_class ? pages_.allocate(bytes, alignment, type) : small_.allocate_typed(class_index, type);
}

bool block_allocator::hold_typed(std::size_t bytes, std::size_t alignment, std::uint32_t type,
                                 held_block& held) noexcept {
    if (!is_type(type)) {
        return false;
    }
    const unsigned class_index = core_.class_of(bytes, alignment);
    return class_index == no_class ? pages_.hold(bytes, alignment, type, held)
                                   : small_.hold_typed(class_index, type, held);
}

void block_allocator::keep(const held_block& held) noexcept {
    if (held.is_small()) {
        const base::granule slab = base::granule_of(heap_offset{held.offset});
        if (!slab_state::is_dirty(core_.pool.table().state(slab))) {
            core_.pool.upkeep().note_change(slab);  // a commit came after it was taken
        }
        std::atomic_ref(*held.state).store(block_state::live, std::memory_order_release);
    } else {
        pages_.keep(held);
    }
}

result<void> block_allocator::free(void* block) {
    if (try_free(block)) {
        return {};
    }
    return last_failure();
}

bool block_allocator::free_exactly(void* block) noexcept {
    held_block found;
    if (!find_allocated(block, found)) {
        return false;
    }
    if (found.block.kind == lane::block_kind::pages) {
        return try_free(block);
    }
    const granule slab = base::granule_of(heap_offset{found.offset});
    if (!slab_state::is_dirty(core_.pool.table().state(slab))) {
        core_.pool.upkeep().note_change(slab);
    }
    if (found.is_by_node()) {
        if (!nodes_.claim(found)) {
            inspector_.leave_refusal(block);
            return false;
        }
        nodes_.clear(found);
        nodes_.hold(found);  // blocks in quarantine are known by their states
        keep_back(core_.pool, core_.find_cache(), found);
        return true;
    }
    std::uint8_t live = block_state::live;
    if (!std::atomic_ref(*found.state)
             .compare_exchange_strong(live, block_state::held, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        inspector_.leave_refusal(block);  // another thread has freed it meanwhile
        return false;
    }
    keep_back(core_.pool, core_.find_cache(), found);
    return true;
}

void block_allocator::leave(base::failure&& what) noexcept { slab::leave(std::move(what)); }

const base::failure& block_allocator::last_failure() noexcept { return slab::last_failure(); }

void block_allocator::pin(const void* block, pin_place place) noexcept {
    if (!place.empty()) {
        const std::uint64_t offset = core_.space.offset(block).value;
        core_.pool.pins().add(offset, std::move(place));
        core_.pool.table().replace_block_state(offset, block_state::live, block_state::pinned);
    }
}

pin_place block_allocator::unpin(const void* block) noexcept {
    const heap_offset offset = core_.space.offset(block);
    const granule slab = base::granule_of(offset);
    if (slab.value < core_.pool.table().granules() && slab_state::is_unloaded(core_.pool.table().state(slab))) {
        // Load the slab first: otherwise a thread that loads it now could mark the block pinned after the pin has
        // ended. Where that fails, the free that follows reports it.
        const thread_cache* const cache = core_.find_cache();
        static_cast<void>(core_.pool.loader().load(slab, cache == nullptr ? 0 : cache->arena).ok());
    }
    pin_place place = core_.pool.pins().remove(offset.value);
    core_.pool.table().replace_block_state(offset.value, block_state::pinned, block_state::live);
    return place;
}

}  // namespace holdfast::slab
