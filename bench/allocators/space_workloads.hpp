// Fragbench: what blocks take when their sizes change (PMAlloc, TOCS 2024, section 3.4 and table 1).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allocators/allocation_run.hpp"
#include "allocators/sizes.hpp"
#include "support/random.hpp"

namespace bench {

/// Before: blocks are allocated, random ones freed so that no more than so many bytes live. Delete: a random share of
/// these is freed. After: as before, with other sizes.
struct fragmentation_pattern {
    const char* name;
    size_range before;
    unsigned deleted_percent;
    size_range after;

    [[nodiscard]] constexpr size_range sizes() const noexcept {
        return {std::min(before.least, after.least), std::max(before.greatest, after.greatest)};
    }
};
inline constexpr fragmentation_pattern fragmentation_patterns[] = {
    {"frag-w1", {100, 100}, 90, {130, 130}},
    {"frag-w2", {100, 150}, 0, {200, 250}},
    {"frag-w3", {100, 150}, 90, {200, 250}},
    {"frag-w4", {100, 200}, 50, {1'000, 2'000}},
};

/// Throws std::invalid_argument.
[[nodiscard]] inline const fragmentation_pattern& fragmentation_of(const std::string& workload) {
    for (const fragmentation_pattern& one : fragmentation_patterns) {
        if (workload == one.name) {
            return one;
        }
    }
    throw std::invalid_argument("not a workload of Fragbench: " + workload);
}

/// Bytes that one thread has at the most, and how many blocks that can be.
[[nodiscard]] inline std::uint64_t fragmentation_live_bytes(const allocation_run& run) {
    return std::max<std::uint64_t>((run.frag_live_mib << 20U) / run.threads, 1U << 16U);
}
[[nodiscard]] inline std::size_t fragmentation_slots(const allocation_run& run) {
    return fragmentation_live_bytes(run) / fragmentation_of(run.workload).sizes().least + 1;
}

/// The blocks of one thread; any live one can be freed.
template <class Caller, class Destination>
class live_blocks {
public:
    live_blocks(Caller& caller, std::span<Destination> slots, random_source random)
        : caller_(caller), slots_(slots), random_(random), order_(slots.size()), sizes_(slots.size()) {
        std::iota(order_.begin(), order_.end(), 0U);
    }
    void allocate(std::size_t size) {
        const std::uint32_t slot = order_[count_++];
        caller_.allocate(slots_[slot], size);
        caller_.touch_ends(slots_[slot], size);
        sizes_[slot] = static_cast<std::uint32_t>(size);
        bytes_ += size;
        ++calls_;
    }
    void free_any() { free_at(random_.below(count_)); }
    void free_all() {
        while (count_ > 0) {
            free_at(count_ - 1);
        }
    }
    /// Allocates so many bytes, and frees at random what exceeds `live`.
    void churn(std::uint64_t bytes, std::uint64_t live, size_range sizes) {
        for (std::uint64_t allocated = 0; allocated < bytes;) {
            const auto size = static_cast<std::size_t>(random_.between(sizes.least, sizes.greatest));
            while (bytes_ + size > live) {
                free_any();
            }
            allocate(size);
            allocated += size;
        }
    }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }

private:
    void free_at(std::size_t which) {
        caller_.release(slots_[order_[which]]);
        bytes_ -= sizes_[order_[which]];
        std::swap(order_[which], order_[--count_]);
        ++calls_;
    }

    Caller& caller_;
    std::span<Destination> slots_;
    random_source random_;
    std::vector<std::uint32_t> order_;  ///< the first `count_` of these slots have a block
    std::vector<std::uint32_t> sizes_;
    std::size_t count_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t calls_ = 0;
};

template <class Caller, class Field>
std::uint64_t run_fragmentation(Caller& caller, Field& field, unsigned thread) {
    const allocation_run& run = field.run();
    const fragmentation_pattern& pattern = fragmentation_of(run.workload);
    const std::uint64_t phase = (run.frag_phase_mib << 20U) / run.threads;
    const std::uint64_t live = fragmentation_live_bytes(run);
    live_blocks blocks(caller, field.part(thread, fragmentation_slots(run)), random_source(mix(run.seed + thread)));
    field.all_rest(thread, resting::at_start, 0);
    blocks.churn(phase, live, pattern.before);
    for (std::size_t left = blocks.count() * pattern.deleted_percent / 100; left > 0; --left) {
        blocks.free_any();
    }
    blocks.churn(phase, live, pattern.after);
    field.all_rest(thread, resting::at_end, blocks.bytes());
    blocks.free_all();
    return blocks.calls();
}

}  // namespace bench
