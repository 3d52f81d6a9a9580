// DBMStest: what a database's queries do with big blocks (PMAlloc, TOCS 2024, section 8).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "allocators/allocation_run.hpp"
#include "allocators/sizes.hpp"
#include "support/random.hpp"

namespace bench {

/// In each iteration a thread allocates n = dbms_objects / threads blocks, then frees a random 90 % of all that it has.
/// So n + n / 9 are live at the most.
template <class Caller, class Field>
std::uint64_t run_dbmstest(Caller& caller, Field& field, unsigned thread, std::uint64_t calls) {
    const allocation_run& run = field.run();
    const auto slots = field.part(thread, dbms_slots(run));
    const std::size_t fresh = dbms_objects_of_thread(run);
    static constexpr poisson_sizes sizes;
    random_source random(mix(run.seed + thread));
    // The first `live` of these slots have a block.
    std::vector<std::uint32_t> order(slots.size());
    std::iota(order.begin(), order.end(), 0U);
    std::size_t live = 0;
    std::uint64_t made = 0;
    const auto free_one = [&](std::size_t which) {
        caller.release(slots[order[which]]);
        std::swap(order[which], order[--live]);
        ++made;
    };
    const std::uint64_t iterations = std::max<std::uint64_t>(calls / (2 * fresh), 1);
    for (std::uint64_t i = 0; i < iterations; ++i) {
        for (std::size_t object = 0; object < fresh; ++object) {
            auto& slot = slots[order[live++]];
            const std::size_t size = sizes.draw(random);
            caller.allocate(slot, size);
            caller.touch_ends(slot, size);
            ++made;
        }
        for (std::size_t left = live * 9 / 10; left > 0; --left) {
            free_one(random.below(live));
        }
    }
    while (live > 0) {
        free_one(live - 1);
    }
    return made;
}

}  // namespace bench
