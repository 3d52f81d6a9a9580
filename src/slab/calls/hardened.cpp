#include "slab/calls/hardened.hpp"

#include <sys/random.h>

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "slab/calls/thread_cache.hpp"

namespace holdfast::slab {

using base::granule;
using base::heap_offset;

hardened_thread::hardened_thread() noexcept {
    if (::getrandom(&state_, sizeof state_, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof state_)) {
        // None early after boot, or where forbidden. The address is no constant.
        state_ = reinterpret_cast<std::uintptr_t>(this) * 0x9e3779b97f4a7c15;
    }
}

/// SplitMix64.
std::uint32_t hardened_thread::random_below(std::uint32_t limit) noexcept {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30U) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27U) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31U;
    return static_cast<std::uint32_t>((mixed >> 32U) * limit >> 32U);
}

void hardened_thread::keep(slab_pool& pool, std::uint64_t offset, slab_kind kind) noexcept {
    const std::uint64_t bytes = kind.size().block_size;
    while (count_ == most_blocks || (count_ != 0 && bytes_ + bytes > most_bytes)) {
        free_oldest(pool);
    }
    ring_[(first_ + count_) % most_blocks] = {offset, kind};
    ++count_;
    bytes_ += bytes;
}

void hardened_thread::free_oldest(slab_pool& pool) noexcept {
    const kept_block oldest = ring_[first_];
    first_ = (first_ + 1) % most_blocks;
    --count_;
    bytes_ -= oldest.kind.size().block_size;
    std::atomic_ref(*pool.table().block_state_at(oldest.offset, oldest.kind))
        .store(block_state::free, std::memory_order_release);
    pool.note_free(base::granule_of(heap_offset{oldest.offset}));
}

void hardened_thread::return_blocks(slab_pool& pool) noexcept {
    while (count_ != 0) {
        free_oldest(pool);
    }
}

void hardened_thread::list(std::vector<std::uint64_t>& offsets) const {
    for (std::size_t i = 0; i < count_; ++i) {
        offsets.push_back(ring_[(first_ + i) % most_blocks].offset);
    }
}

namespace {

/// Null: blocks come in order, and none goes into quarantine.
hardened_thread* part_of(thread_cache* cache) noexcept {
    if (cache == nullptr) {
        return nullptr;
    }
    if (cache->hardened == nullptr) {
        try {
            cache->hardened = std::make_unique<hardened_thread>();
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    return cache->hardened.get();
}

}  // namespace

void choose_at_random(thread_cache& cache, unsigned class_index) noexcept {
    cached_blocks& blocks = cache.classes[class_index];
    if (hardened_thread* const mine = part_of(&cache)) {
        const std::uint32_t chosen = blocks.end + mine->random_below(std::uint32_t{blocks.filled} - blocks.end);
        std::swap(blocks.order[blocks.end], blocks.order[chosen]);
        ++blocks.end;
    } else {
        blocks.end = blocks.filled;
    }
}

void keep_back(slab_pool& pool, thread_cache* cache, const held_block& held) noexcept {
    if (hardened_thread* const mine = part_of(cache)) {
        mine->keep(pool, held.offset, slab_kind(held.class_index, bank_of(held.block.upper)));
        return;
    }
    std::atomic_ref(*held.state).store(block_state::free, std::memory_order_release);
    pool.note_free(base::granule_of(heap_offset{held.offset}));
}

void list_kept_back(const cache_group& of, std::vector<std::uint64_t>& offsets) {
    for (const thread_cache* cache = of.first; cache != nullptr; cache = cache->next_of_heap) {
        if (cache->hardened != nullptr) {
            cache->hardened->list(offsets);
        }
    }
}

}  // namespace holdfast::slab
