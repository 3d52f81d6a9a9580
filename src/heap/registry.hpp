// The heaps that this process has open, by key: all that an allocator inside a heap knows. Heaps open read-only share
// their key with the writer. Pointers between heaps know the first word of a uuid, which copies do not share. A thread
// remembers its last lookup until a heap is opened or closed. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace holdfast::heap {

class engine;

/// Fails with `locked` if this heap or a copy is open for writing here: an allocator could not tell them apart.
base::result<void> register_engine(engine& opened);
/// Any number of read-only heaps may share a key.
base::result<void> register_reader(engine& opened);
void unregister_engine(const engine& closed) noexcept;
/// One call to unregister_engine(), then one to the other; where that fails, the heap is not registered.
base::result<void> make_engine_of_reader(engine& opened);
base::result<void> make_reader_of_engine(engine& opened);

namespace detail {
struct last_lookup {
    std::uint64_t key = 0;
    std::uint64_t generation = 0;
    engine* found = nullptr;
    bool has_readers = false;  ///< with that key
};
inline constinit thread_local last_lookup looked_up{};
inline constinit std::atomic<std::uint64_t> generation{1};
[[nodiscard]] engine* find_engine_slow(std::uint64_t key) noexcept;
[[nodiscard]] bool is_in_reader(std::uint64_t key, const void* address) noexcept;
}  // namespace detail

/// The heap with that key that is open for writing, or null.
[[nodiscard]] inline engine* find_engine(std::uint64_t key) noexcept {
    const detail::last_lookup& last = detail::looked_up;
    if (last.key == key && last.generation == detail::generation.load(std::memory_order_acquire)) [[likely]] {
        return last.found;
    }
    return detail::find_engine_slow(key);
}

/// In a heap open read-only allocators are refused. Comes after find_engine(key) in the same thread.
[[nodiscard]] inline bool is_of_reader(std::uint64_t key, const void* address) noexcept {
    return detail::looked_up.has_readers && detail::is_in_reader(key, address);
}

/// Where an open heap is mapped. All zero: there is none.
struct mapped_heap {
    std::uint64_t name = 0;  ///< the first 8 bytes of its uuid, never 0
    std::uintptr_t base = 0;
    std::uint64_t bytes = 0;  ///< up to the frontier
    [[nodiscard]] bool contains(std::uintptr_t address) const noexcept { return address - base < bytes; }
};
namespace detail {
/// A thread's last lookup, of a heap that its name leads to. It may have grown since.
struct last_mapped {
    std::uint64_t generation = 0;
    mapped_heap found;
    [[nodiscard]] bool is_current() const noexcept {
        return generation == detail::generation.load(std::memory_order_acquire);
    }
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local last_mapped mapped_last;
[[nodiscard]] mapped_heap find_mapped_slow(std::uint64_t name) noexcept;
[[nodiscard]] mapped_heap find_mapped_at_slow(std::uintptr_t address) noexcept;
}  // namespace detail

/// Of heaps with this name, the one that is open for writing, or else the one that was opened first. `offset`: is below
/// its end, if it can be.
[[nodiscard]] inline mapped_heap find_mapped(std::uint64_t name, std::uint64_t offset) noexcept {
    const detail::last_mapped& last = detail::mapped_last;
    return last.found.name == name && offset < last.found.bytes && last.is_current() ? last.found
                                                                                     : detail::find_mapped_slow(name);
}
[[nodiscard]] inline mapped_heap find_mapped_at(const void* address) noexcept {
    const detail::last_mapped& last = detail::mapped_last;
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    return last.found.contains(number) && last.is_current() ? last.found : detail::find_mapped_at_slow(number);
}

/// Whether a word is the key of another open heap than `own`.
[[nodiscard]] bool names_another_heap(std::uint64_t own, std::span<const std::byte> words) noexcept;

}  // namespace holdfast::heap
