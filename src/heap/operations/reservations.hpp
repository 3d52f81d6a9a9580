// Reserved and not published blocks. In DRAM alone: a crash forgets them.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// Thread-safe.
class reservations {
public:
    /// False if memory is short.
    [[nodiscard]] bool add(const slab::held_block& held) noexcept {
        const base::scoped_lock lock(mutex_);
        try {
            return held_.emplace(held.offset, held).second;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }
    [[nodiscard]] std::optional<slab::held_block> remove(std::uint64_t offset) noexcept {
        const base::scoped_lock lock(mutex_);
        const auto found = held_.find(offset);
        if (found == held_.end()) {
            return std::nullopt;
        }
        const slab::held_block held = found->second;
        held_.erase(found);
        return held;
    }
    /// May throw std::bad_alloc.
    [[nodiscard]] std::vector<std::uint64_t> small_offsets() {
        const base::scoped_lock lock(mutex_);
        std::vector<std::uint64_t> offsets;
        for (const auto& [offset, held] : held_) {
            if (held.is_small()) {
                offsets.push_back(offset);
            }
        }
        return offsets;
    }
    [[nodiscard]] std::optional<slab::held_block> remove_one() noexcept {
        const base::scoped_lock lock(mutex_);
        if (held_.empty()) {
            return std::nullopt;
        }
        const slab::held_block held = held_.begin()->second;
        held_.erase(held_.begin());
        return held;
    }

private:
    base::mutex mutex_;
    std::unordered_map<std::uint64_t, slab::held_block> held_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::heap
