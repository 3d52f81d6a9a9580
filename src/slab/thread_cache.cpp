#include "slab/thread_cache.hpp"

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace holdfast::slab {

constinit thread_local cache_slots this_thread_slots{};

namespace {

/// Guards the list of caches of every group and the `heap` of every cache. Taken before all locks of a pool.
constinit base::mutex registry_mutex;
constinit std::atomic<std::uint64_t> last_instance{0};

void settle(thread_cache& cache, cache_group& heap, unsigned machine_node) noexcept HF_REQUIRES(registry_mutex) {
    cache.machine_node = machine_node;
    const unsigned turn = heap.next_arena;
    std::atomic_ref(heap.next_arena).store(turn + 1, std::memory_order_relaxed);  // read without the lock
    cache.arena = heap.pool->arena_of_thread(machine_node, heap.machine->nodes(), turn);
}

void attach_to(thread_cache& cache, cache_group& heap) noexcept HF_REQUIRES(registry_mutex) {
    cache.classes = {};
    cache.hardened.reset();
    settle(cache, heap, heap.machine->current_node());
    cache.heap = &heap;
    cache.own_lane = heap.lanes == nullptr ? nullptr : heap.lanes->acquire();
    cache.next_of_heap = heap.first;
    heap.first = &cache;
}

void end(thread_cache& cache) noexcept HF_REQUIRES(registry_mutex) {
    if (cache.heap == nullptr) {
        return;
    }
    if (cache.own_lane != nullptr) {
        cache.heap->lanes->release(*std::exchange(cache.own_lane, nullptr));
    }
    cache.give_back_all(*cache.heap->pool);
    thread_cache** link = &cache.heap->first;
    while (*link != &cache) {
        link = &(*link)->next_of_heap;
    }
    *link = cache.next_of_heap;
    cache.heap = nullptr;
}

/// What a thread owns: its caches, attached or waiting for another heap, and its last failure.
struct thread_state {
    std::vector<std::unique_ptr<thread_cache>> caches;
    base::failure last_failure;

    thread_state() = default;
    thread_state(const thread_state&) = delete;
    thread_state& operator=(const thread_state&) = delete;
    ~thread_state() {
        this_thread_slots = {};
        this_thread_slots.ended = true;
        const base::scoped_lock lock(registry_mutex);
        for (const auto& cache : caches) {
            end(*cache);
        }
    }
};

/// Null while the thread ends. Not to be called from the path that finds its cache in a slot.
thread_state* this_thread() noexcept {
    if (this_thread_slots.ended) {
        return nullptr;
    }
    static thread_local thread_state state;
    return &state;
}

}  // namespace

void thread_cache::give_back(slab_pool& to, unsigned class_index) noexcept {
    if (classes[class_index].slab != 0) {
        const slab_part place = classes[class_index].place();
        classes[class_index] = {};
        to.check_in(place);
    }
}

void thread_cache::give_back_all(slab_pool& to) noexcept {
    if (hardened != nullptr) {
        hardened->give_back(to);
    }
    for (unsigned class_index = 0; class_index < class_count; ++class_index) {
        give_back(to, class_index);
    }
}

void thread_cache::give_back_idle(slab_pool& to) noexcept {
    for (unsigned class_index = 0; class_index < class_count; ++class_index) {
        if (classes[class_index].slab != 0 && to.is_idle(classes[class_index].place())) {
            give_back(to, class_index);
        }
    }
}

std::uint64_t thread_cache_registry::new_instance() noexcept {
    return last_instance.fetch_add(1, std::memory_order_relaxed) + 1;
}

thread_cache* thread_cache_registry::attach(cache_group& heap) noexcept {
    thread_state* const mine = this_thread();
    if (mine == nullptr || heap.pool == nullptr) {
        return nullptr;
    }
    const base::scoped_lock lock(registry_mutex);
    const auto find = [mine](const cache_group* wanted) -> thread_cache* {
        const auto found = std::ranges::find_if(mine->caches, [&](const auto& cache) { return cache->heap == wanted; });
        return found == mine->caches.end() ? nullptr : found->get();
    };
    thread_cache* cache = find(&heap);
    if (cache == nullptr) {
        cache = find(nullptr);
        try {
            if (cache == nullptr) {
                cache = mine->caches.emplace_back(std::make_unique<thread_cache>()).get();
            }
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
        attach_to(*cache, heap);
    }
    heap.slot() = {heap.instance, cache};
    return cache;
}

void thread_cache_registry::move(thread_cache& cache, cache_group& heap, unsigned machine_node) noexcept {
    const base::scoped_lock lock(registry_mutex);
    settle(cache, heap, machine_node);
}

void thread_cache_registry::give_back_idle(cache_group& heap) noexcept {
    const base::scoped_lock lock(registry_mutex);
    for (thread_cache* cache = heap.first; cache != nullptr; cache = cache->next_of_heap) {
        cache->give_back_idle(*heap.pool);
    }
}

void thread_cache_registry::detach_all(cache_group& heap) noexcept {
    const base::scoped_lock lock(registry_mutex);
    for (thread_cache* cache = heap.first; cache != nullptr; cache = std::exchange(cache->next_of_heap, nullptr)) {
        cache->heap = nullptr;
        cache->own_lane = nullptr;
    }
    heap.first = nullptr;
}

void thread_cache_registry::abandon_all(cache_group& heap) noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
    // The only thread of a child of fork; the lock may be held by one that it does not have.
    new (&registry_mutex) base::mutex;
    for (thread_cache* cache = heap.first; cache != nullptr; cache = std::exchange(cache->next_of_heap, nullptr)) {
        cache->heap = nullptr;
        cache->own_lane = nullptr;
    }
    heap.first = nullptr;
    heap.become(new_instance());  // no thread's slot matches
    heap.pool = nullptr;
}

base::failure* this_thread_failure() noexcept {
    thread_state* const mine = this_thread();
    return mine == nullptr ? nullptr : &mine->last_failure;
}

}  // namespace holdfast::slab
