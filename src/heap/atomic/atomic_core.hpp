// What the operations of durability `atomic` share: the protocol, the checks of what a call was given, and the end
// after which no call succeeds.
//
// Invariants:
//   HEAP-3: a freed block goes back to the allocator after complete().
#pragma once

#include <atomic>
#include <utility>

#include "base/hot.hpp"
#include "heap/atomic/atomic_protocol.hpp"
#include "heap/operations/destination_operations.hpp"
#include "segment/files/zero_pages.hpp"
#include "segment/format/space.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// Thread-safe.
template <persist::persistence_domain Domain>
class atomic_core {
public:
    atomic_core(Domain domain, segment::space_view space, segment::lane_area& area, slab::block_allocator& blocks,
                const lane::lane_options& options, const segment::zero_pages& zeros)
        : space_(space), blocks_(blocks), zeros_(zeros), protocol_(std::move(domain), space, area, blocks, options) {}
    atomic_core(const atomic_core&) = delete;
    atomic_core& operator=(const atomic_core&) = delete;
    ~atomic_core() { blocks_.forget_log(); }

    base::result<void> open() {
        HF_TRY(lanes().open());
        blocks_.use_log(&protocol_, &lanes());
        return {};
    }

    [[nodiscard]] const segment::space_view& space() const noexcept { return space_; }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    [[nodiscard]] atomic_protocol<Domain>& protocol() noexcept { return protocol_; }
    [[nodiscard]] lane::lane_set<Domain>& lanes() noexcept { return protocol_.lanes(); }
    [[nodiscard]] const lane::lane_set<Domain>& lanes() const noexcept { return protocol_.lanes(); }

    /// In a child of fork: every later call fails.
    void abandon() noexcept {
        abandoned_.store(true, std::memory_order_release);
        blocks_.abandon();
    }
    /// True: the call fails, and last_failure() says why.
    [[nodiscard]] bool is_abandoned() noexcept;
    /// After a failed call: whether a sync has failed.
    [[nodiscard]] bool refuse_poisoned() noexcept;
    HF_HOT bool is_destination(const std::uint64_t& word) noexcept {
        const std::uint64_t offset = space_.offset(&word).value;
        if (offset < blocks_.end_offset() && offset % sizeof word == 0 && !abandoned_.load(std::memory_order_relaxed) &&
            holder_is_allocated(offset)) [[likely]] {
            return true;
        }
        refuse_destination(word);
        return false;
    }

    /// Chooses a block. A zeroed one is so durably on return.
    HF_HOT bool hold(slab::thread_cache* cache, const block_request& wanted, slab::held_block& held) noexcept {
        const bool got = wanted.type == 0 ? blocks_.hold(cache, wanted.bytes, wanted.alignment, held)
                                          : blocks_.hold_typed(wanted.bytes, wanted.alignment, wanted.type, held);
        if (!got) [[unlikely]] {
            return false;
        }
        if (wanted.zeroed) [[unlikely]] {
            Domain& domain = lanes().domain();
            zeros_.for_each_other(space_.address({held.offset}), held.bytes(),
                                  [&domain](std::byte* at, std::uint64_t bytes) {
                                      domain.fill_zero(at, bytes, "heap.zero");
                                      domain.flush(at, bytes, "heap.zero.flush");
                                  });
            domain.fence("heap.zero.fence");
        }
        return true;
    }

    void release(const slab::held_block& held) noexcept {
        if (!abandoned_.load(std::memory_order_relaxed)) [[likely]] {
            blocks_.release(blocks_.this_cache(), held);
        }
    }
    /// Without a destination.
    [[nodiscard]] void* allocate(const block_request& wanted) noexcept {
        slab::held_block held;
        slab::thread_cache* const cache = blocks_.this_cache();
        if (is_abandoned() || !hold(cache, wanted, held)) [[unlikely]] {
            return nullptr;
        }
        if (!protocol_.keep(cache, held)) [[unlikely]] {
            static_cast<void>(refuse_poisoned());
            return nullptr;
        }
        return space_.address({held.offset});
    }

    /// `freed`: what the protocol said.
    HF_HOT bool finish_free(slab::thread_cache* cache, const slab::held_block& found, bool freed) noexcept {
        if (!freed) [[unlikely]] {
            if (refuse_poisoned()) {
                return false;
            }
            blocks_.inspect().leave_refusal(space_.address({found.offset}));
            return false;
        }
        blocks_.release(cache, found);
        return true;
    }

private:
    [[nodiscard]] bool holder_is_allocated([[maybe_unused]] std::uint64_t offset) noexcept {
#if HOLDFAST_CHECKED
        return offset < base::granule_size || blocks_.inspect().is_within_allocated({offset});
#else
        return true;
#endif
    }
    void refuse_destination(const std::uint64_t& word) noexcept;

    segment::space_view space_;
    slab::block_allocator& blocks_;
    segment::zero_pages zeros_;
    atomic_protocol<Domain> protocol_;
    std::atomic<bool> abandoned_{false};
};

template <persist::persistence_domain Domain>
bool atomic_core<Domain>::is_abandoned() noexcept {
    if (!abandoned_.load(std::memory_order_relaxed)) [[likely]] {
        return false;
    }
    if (!refuse_poisoned()) {
        blocks_.leave(refused_child());
    }
    return true;
}

template <persist::persistence_domain Domain>
bool atomic_core<Domain>::refuse_poisoned() noexcept {
    if constexpr (lane::may_log<Domain>) {
        auto health = lanes().check_health();
        if (!health) {
            abandoned_.store(true, std::memory_order_release);
            blocks_.leave(std::move(health).error());
            return true;
        }
    }
    return false;
}

template <persist::persistence_domain Domain>
void atomic_core<Domain>::refuse_destination(const std::uint64_t& word) noexcept {
    if (is_abandoned()) {
        return;
    }
    blocks_.leave(refused_destination(word, space_.offset(&word).value, blocks_.end_offset()));
}

}  // namespace holdfast::heap
