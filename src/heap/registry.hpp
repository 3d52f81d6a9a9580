// The heaps that this process has open for writing, by key: how an allocator that holds nothing but a key finds its
// heap. Those that it has open read-only are known as well: an allocator in one of them has the key of the writer, too,
// and is refused.
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
/// Of a heap that is open read-only: any number of them may have one key.
base::result<void> register_reader(engine& opened);
/// Of either.
void unregister_engine(const engine& closed) noexcept;

namespace detail {
struct last_lookup {
    std::uint64_t key = 0;
    std::uint64_t generation = 0;
    engine* found = nullptr;
    bool has_readers = false;  ///< the process has a heap with that key open read-only
};
inline constinit thread_local last_lookup looked_up{};
inline constinit std::atomic<std::uint64_t> generation{1};
[[nodiscard]] engine* find_engine_slowly(std::uint64_t key) noexcept;
[[nodiscard]] bool is_in_reader(std::uint64_t key, const void* address) noexcept;
}  // namespace detail

/// The writable heap with that key, null where none is open.
[[nodiscard]] inline engine* find_engine(std::uint64_t key) noexcept {
    const detail::last_lookup& last = detail::looked_up;
    if (last.key == key && last.generation == detail::generation.load(std::memory_order_acquire)) [[likely]] {
        return last.found;
    }
    return detail::find_engine_slowly(key);
}

/// Whether the address, that of an allocator with the key, lies in a heap that is open read-only. Comes after
/// find_engine(), in the same thread.
[[nodiscard]] inline bool is_of_reader(std::uint64_t key, const void* address) noexcept {
    return detail::looked_up.has_readers && detail::is_in_reader(key, address);
}

}  // namespace holdfast::heap
