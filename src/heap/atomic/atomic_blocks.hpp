// The calls of durability `atomic` on blocks that have no destination.
#pragma once

#include "heap/atomic/atomic_core.hpp"
#include "heap/operations/block_operations.hpp"

namespace holdfast::heap {

template <persist::persistence_domain Domain>
class atomic_blocks final : public block_operations {
public:
    explicit atomic_blocks(atomic_core<Domain>& core) noexcept : core_(core) {}

    void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept override {
        return core_.allocate({bytes, alignment, false, type});
    }
    bool deallocate(void* block) noexcept override {
        slab::held_block found;
        if (core_.is_abandoned() || !core_.blocks().find_allocated(block, found)) [[unlikely]] {
            return false;
        }
        slab::thread_cache* const cache = core_.blocks().this_cache();
        return core_.finish_free(cache, found, core_.protocol().free(cache, nullptr, found));
    }
    bool deallocate_exactly(void* block) noexcept override { return deallocate(block); }
    void keep(const slab::held_block& held) noexcept override {
        if (!core_.protocol().keep(core_.blocks().this_cache(), held)) {
            static_cast<void>(core_.refuse_poisoned());
        }
    }

    void flush(const void* begin, std::uint64_t bytes) noexcept override {
        core_.lanes().domain().flush(begin, bytes, "heap.user.flush");
    }
    void drain() noexcept override {
        core_.lanes().domain().fence("heap.user.fence");
        static_cast<void>(core_.lanes().is_healthy());
    }

    void write_back() noexcept override {
        core_.lanes().checkpoint();
        core_.blocks().slabs().write_bitmaps();
    }

private:
    atomic_core<Domain>& core_;
};

}  // namespace holdfast::heap
