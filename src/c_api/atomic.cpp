#include <span>
#include <string>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"
#include "c_api/c_api.hpp"

namespace holdfast::c_api {

allocation_traits traits_of(const hf_traits* given) {
    if (given == nullptr) {
        return {};
    }
    constexpr hf_traits defaults = HF_TRAITS_INIT;
    const hf_traits known = known_part(*given, defaults, "traits", "HF_TRAITS_INIT");
    return {known.alignment, known.zeroed != 0, known.type};
}

namespace {

/// A caller who passes on the NULL of hf_root() for a heap opened read-only is told read_only.
ptr<void>& destination_of(const manager& heap, hf_ptr* pointer) {
    if (pointer == nullptr && heap.is_open()) {
        detail::refuse_read_only(detail::manager_access::core(heap).engine(), "a call with a destination");
    }
    return word_of(&required(pointer, "destination"));
}

std::span<ptr<void>* const> destinations_of(hf_ptr* const* destinations, std::size_t count) {
    if (count == 0) {
        return {};
    }
    static_cast<void>(required(destinations, "destinations"));
    for (std::size_t i = 0; i < count; ++i) {
        static_cast<void>(required(destinations[i], "destinations[" + std::to_string(i) + "]"));
    }
    return {reinterpret_cast<ptr<void>* const*>(destinations), count};
}

}  // namespace

}  // namespace holdfast::c_api

using holdfast::c_api::destination_of;
using holdfast::c_api::destinations_of;
using holdfast::c_api::guarded;
using holdfast::c_api::manager_of;
using holdfast::c_api::required;
using holdfast::c_api::traits_of;

hf_ptr* hf_root(hf_heap* heap, size_t index) {
    hf_ptr* root = nullptr;
    static_cast<void>(guarded([&] { root = reinterpret_cast<hf_ptr*>(&manager_of(heap).root(index)); }));
    return root;
}

void* hf_allocate_to(hf_heap* heap, hf_ptr* destination, size_t bytes, const hf_traits* traits) {
    void* block = nullptr;
    static_cast<void>(guarded([&] {
        holdfast::manager& of = manager_of(heap);
        block = of.allocate_to(destination_of(of, destination), bytes, traits_of(traits));
    }));
    return block;
}

hf_code hf_free_from(hf_heap* heap, hf_ptr* destination, int* freed) {
    return guarded([&] {
        holdfast::manager& of = manager_of(heap);
        const bool was_there = of.free_from(destination_of(of, destination));
        if (freed != nullptr) {
            *freed = was_there ? 1 : 0;
        }
    });
}

void* hf_allocate_with(hf_heap* heap, size_t bytes, const hf_traits* traits) {
    void* block = nullptr;
    static_cast<void>(guarded([&] { block = manager_of(heap).allocate(bytes, traits_of(traits)); }));
    return block;
}

void* hf_realloc_to(hf_heap* heap, hf_ptr* destination, size_t bytes, const hf_traits* traits) {
    void* block = nullptr;
    static_cast<void>(guarded([&] {
        holdfast::manager& of = manager_of(heap);
        block = of.realloc_to(destination_of(of, destination), bytes, traits_of(traits));
    }));
    return block;
}

void* hf_reserve(hf_heap* heap, size_t bytes, const hf_traits* traits) {
    void* block = nullptr;
    static_cast<void>(guarded([&] { block = manager_of(heap).reserve(bytes, traits_of(traits)); }));
    return block;
}

hf_code hf_publish(hf_heap* heap, hf_ptr* destination, void* reserved) {
    return guarded([&] {
        holdfast::manager& of = manager_of(heap);
        of.publish(destination_of(of, destination), &required(static_cast<std::byte*>(reserved), "reserved"));
    });
}

hf_code hf_cancel(hf_heap* heap, void* reserved) {
    return guarded([&] { manager_of(heap).cancel(&required(static_cast<std::byte*>(reserved), "reserved")); });
}

hf_code hf_allocate_batch(hf_heap* heap, hf_ptr* const* destinations, size_t count, size_t bytes,
                          const hf_traits* traits) {
    return guarded(
        [&] { manager_of(heap).allocate_batch<void>(destinations_of(destinations, count), bytes, traits_of(traits)); });
}

hf_code hf_free_batch(hf_heap* heap, hf_ptr* const* destinations, size_t count) {
    return guarded([&] { manager_of(heap).free_batch<void>(destinations_of(destinations, count)); });
}

hf_code hf_flush(const hf_heap* heap, const void* begin, size_t bytes) {
    return guarded([&] { manager_of(heap).flush(&required(static_cast<const std::byte*>(begin), "begin"), bytes); });
}

hf_code hf_drain(const hf_heap* heap) {
    return guarded([&] { manager_of(heap).drain(); });
}

hf_code hf_persist(const hf_heap* heap, const void* begin, size_t bytes) {
    return guarded([&] { manager_of(heap).persist(&required(static_cast<const std::byte*>(begin), "begin"), bytes); });
}

hf_code hf_for_each_block(const hf_heap* heap, hf_block_visitor visitor, void* context) {
    return guarded([&] {
        static_cast<void>(required(visitor, "visitor"));
        bool ended = false;
        manager_of(heap).for_each_block([&](const holdfast::block_info& each) {
            const hf_block_info block{each.address, each.size, each.type};
            ended = ended || visitor(&block, context) != 0;
        });
    });
}

hf_code hf_for_each_extent(const hf_heap* heap, hf_extent_visitor visitor, void* context) {
    return guarded([&] {
        static_cast<void>(required(visitor, "visitor"));
        bool ended = false;
        manager_of(heap).for_each_extent([&](const holdfast::extent_info& each) {
            const hf_extent_info extent{each.offset,       each.bytes,         static_cast<hf_extent_kind>(each.kind),
                                        each.block_size,   each.blocks,        each.live_blocks,
                                        each.backed_bytes, each.backed_exactly};
            ended = ended || visitor(&extent, context) != 0;
        });
    });
}

hf_code hf_type_of(const hf_heap* heap, const void* address, uint32_t* type) {
    return guarded([&] { required(type, "type") = manager_of(heap).type_of(address); });
}

hf_code hf_checkpoint(hf_heap* heap) {
    return guarded([&] { manager_of(heap).checkpoint(); });
}

hf_code hf_get_counters(const hf_heap* heap, hf_counters* counters) {
    return guarded([&] {
        const holdfast::protocol_counters in = manager_of(heap).counters();
        const hf_counters known{0,
                                in.durable_records,
                                in.fences,
                                in.lines_flushed,
                                in.reflushes,
                                in.media_bytes,
                                in.checkpoints,
                                in.checkpoint_ns,
                                in.longest_checkpoint_ns,
                                in.waits,
                                in.lanes};
        holdfast::c_api::fill_known_part(counters, known, "counters", "HF_COUNTERS_INIT");
    });
}

hf_code hf_get_recovery(const hf_heap* heap, hf_recovery* recovery) {
    return guarded([&] {
        const holdfast::recovery_report in = manager_of(heap).last_recovery();
        const hf_recovery known{0, in.lanes, in.pending, in.replayed, in.rolled_back, in.time_ns};
        holdfast::c_api::fill_known_part(recovery, known, "recovery", "HF_RECOVERY_INIT");
    });
}

uint32_t hf_durability(const hf_heap* heap) {
    return heap == nullptr ? 0 : static_cast<std::uint32_t>(heap->manager.durability());
}

const char* hf_domain(const hf_heap* heap) {
    const char* found = nullptr;
    static_cast<void>(guarded([&] {
        const holdfast::detail::manager_core& core = holdfast::detail::manager_access::core(manager_of(heap));
        // The name is a literal, so it ends with a zero.
        found = holdfast::persist::to_string(core.engine().files().domain()).data();
    }));
    return found;
}
