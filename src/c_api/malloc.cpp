#include <algorithm>
#include <cerrno>
#include <cstring>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"
#include "base/units.hpp"
#include "c_api/c_api.hpp"
#include "heap/reallocate.hpp"

namespace {

using holdfast::c_api::guarded;
using holdfast::c_api::manager_of;
using holdfast::heap::engine;

constexpr std::size_t malloc_alignment = 16;

engine& engine_of(hf_heap* heap) { return holdfast::detail::manager_access::core(manager_of(heap)).engine(); }

void* allocate(engine& heap, std::size_t bytes, std::size_t alignment, std::uint32_t type) {
    holdfast::detail::refuse_read_only(heap, "allocate");
    void* const block = heap.allocate(std::max<std::size_t>(bytes, 1), alignment, type);
    if (block == nullptr) {
        holdfast::throw_allocation_failure(engine::last_failure(), heap.files().paths().directory());
    }
    return block;
}

/// NULL, with errno set, where `make` throws.
template <class Make>
void* block_or_errno(Make make) noexcept {
    void* block = nullptr;
    const hf_code code = guarded([&] { block = make(); });
    if (code != HF_OK) {
        errno = code == HF_INVALID_ARGUMENT ? EINVAL : ENOMEM;
    }
    return block;
}

}  // namespace

void* hf_malloc(hf_heap* heap, size_t bytes) {
    return block_or_errno([&] { return allocate(engine_of(heap), bytes, malloc_alignment, 0); });
}

void* hf_calloc(hf_heap* heap, size_t count, size_t bytes) {
    return block_or_errno([&]() -> void* {
        const auto all = holdfast::base::checked_multiply(std::uint64_t{count}, std::uint64_t{bytes});
        if (!all) {
            throw std::bad_alloc();
        }
        void* const block = allocate(engine_of(heap), *all, malloc_alignment, 0);
        return std::memset(block, 0, *all);
    });
}

void* hf_realloc(hf_heap* heap, void* address, size_t bytes) {
    if (address == nullptr) {
        return hf_malloc(heap, bytes);
    }
    return block_or_errno([&]() -> void* {
        engine& of = engine_of(heap);
        holdfast::detail::refuse_read_only(of, "reallocate");
        void* const block = holdfast::heap::reallocate(of, address, std::max<std::size_t>(bytes, 1), malloc_alignment);
        if (block == nullptr) {
            holdfast::detail::throw_last_failure(of);
        }
        return block;
    });
}

void* hf_aligned_alloc(hf_heap* heap, size_t alignment, size_t bytes) {
    return block_or_errno([&] { return allocate(engine_of(heap), bytes, std::max(alignment, malloc_alignment), 0); });
}
