// The heaps that this process has open for writing, by key: how an allocator that holds nothing but a key finds its
// heap.
//
// Lookups are a comparison with what the calling thread looked up last; a heap that comes or goes bumps a generation,
// so a thread never uses a heap that is closed. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.hpp"

namespace holdfast::heap {

class engine;

/// Fails with `locked` where a writable heap with the same key (the heap itself or a copy) is open in this process: an
/// allocator could not tell them apart.
base::result<void> register_engine(engine& opened);
void unregister_engine(const engine& closed) noexcept;

namespace detail {
struct last_lookup {
    std::uint64_t key = 0;
    std::uint64_t generation = 0;
    engine* found = nullptr;
};
inline constinit thread_local last_lookup looked_up{};
inline constinit std::atomic<std::uint64_t> generation{1};
[[nodiscard]] engine* find_engine_slowly(std::uint64_t key) noexcept;
}  // namespace detail

/// The writable heap with that key, null where none is open.
[[nodiscard]] inline engine* find_engine(std::uint64_t key) noexcept {
    const detail::last_lookup& last = detail::looked_up;
    if (last.key == key && last.generation == detail::generation.load(std::memory_order_acquire)) [[likely]] {
        return last.found;
    }
    return detail::find_engine_slowly(key);
}

}  // namespace holdfast::heap
