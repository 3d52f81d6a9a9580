// The groups of durability `atomic`: one record or several, which count together (LANE-29); what is too large for them
// lies in a payload (LANE-32).
#pragma once

#include <utility>

#include "heap/atomic/atomic_core.hpp"
#include "heap/operations/group_operations.hpp"
#include "heap/ordered/group_blocks.hpp"

namespace holdfast::heap {

template <persist::persistence_domain Domain>
class atomic_groups final : public group_operations {
public:
    explicit atomic_groups(atomic_core<Domain>& core) noexcept : core_(core) {}

    bool hold(const block_request& wanted, slab::held_block& held) noexcept override {
        return !core_.is_abandoned() && core_.hold(core_.blocks().this_cache(), wanted, held);
    }
    void release(const slab::held_block& held) noexcept override { core_.release(held); }
    slab::change_gate* changes() noexcept override { return nullptr; }
    bool commit(const group_request& changes) noexcept override;
    std::uint64_t largest() const noexcept override { return core_.protocol().largest_group(); }

private:
    [[nodiscard]] bool commit_blocks(slab::thread_cache* cache, const group_request& changes) noexcept;
    [[nodiscard]] bool commit_with_payload(slab::thread_cache* cache, const group_changes& changes) noexcept;

    atomic_core<Domain>& core_;
};

template <persist::persistence_domain Domain>
bool atomic_groups<Domain>::commit_with_payload(slab::thread_cache* cache, const group_changes& changes) noexcept {
    if (core_.lanes().by_clock() && changes.block_records() + 1 > core_.protocol().largest_group()) {
        base::failure what;
        what.code = base::failure_code::limit;
        core_.blocks().leave(std::move(what));
        return false;
    }
    slab::held_block payload;
    if (!core_.blocks().hold(cache, changes.records() * sizeof(lane::record_on_media), base::cache_line_size,
                             payload)) {
        return false;
    }
    const bool done = core_.protocol().commit_with_payload(cache, changes, payload);
    // Until the group is obsolete a crash reads the payload. If a call in flight delays the checkpoint, the block is
    // lost until the next open.
    if (!done && !core_.lanes().check_health()) {
        return false;  // the payload may be read at recovery
    }
    if (!done || !core_.lanes().by_clock() || core_.lanes().wait_until_obsolete()) {
        core_.blocks().release(cache, payload);
    }
    return done;
}

template <persist::persistence_domain Domain>
bool atomic_groups<Domain>::commit(const group_request& changes) noexcept {
    if (core_.is_abandoned()) {
        return false;
    }
    slab::thread_cache* const cache = core_.blocks().this_cache();
    if (changes.made.empty() && changes.freed.empty() && changes.data.size() <= core_.protocol().largest_group())
        [[likely]] {
        // Nobody else has these words: it fails only with a sync.
        return core_.protocol().template commit_group<false>(cache, {{}, {}, changes.data}) || !core_.refuse_poisoned();
    }
    return commit_blocks(cache, changes);
}

template <persist::persistence_domain Domain>
bool atomic_groups<Domain>::commit_blocks(slab::thread_cache* cache, const group_request& changes) noexcept {
    group_blocks gathered;
    if (!gathered.gather(changes.freed, core_.blocks())) {
        return false;
    }
    const group_changes all{changes.made, gathered.freed(), changes.data};
    if (!(all.records() <= core_.protocol().largest_group() ? core_.protocol().template commit_group<true>(cache, all)
                                                            : commit_with_payload(cache, all))) {
        if (!core_.refuse_poisoned()) {
            group_blocks::leave_refusal(changes.freed, core_.blocks());
        }
        return false;
    }
    for (const slab::held_block& each : gathered.freed()) {
        if (each.offset != lane::nowhere) {
            core_.blocks().release(cache, each);  // HEAP-3
        }
    }
    return true;
}

}  // namespace holdfast::heap
