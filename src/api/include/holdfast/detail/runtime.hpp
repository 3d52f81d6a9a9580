// The few functions of the library that templates of the public headers call. Not for users.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast::detail {

/// Allocates from the writable heap of this process that bears the key. Throws holdfast::bad_alloc with the reason, or
/// holdfast::error where no such heap is open. Alignment: a power of two up to 2 MiB. Thread-safe.
[[nodiscard]] void* allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment);

/// How many heaps the process has open read-only.
extern std::atomic<std::uint32_t> open_readers;
/// Throws as allocate() without a heap where `asker`, the address of an allocator with that key, lies in a heap that is
/// open read-only: the key may be that of another one, open for writing, of which the first is a copy.
void refuse_reader(std::uint64_t heap_key, const void* asker);
/// What a container asks before it allocates, of the allocator that it holds. Copies elsewhere are not known to be its.
inline void expect_writable(std::uint64_t heap_key, const void* asker) {
    if (open_readers.load(std::memory_order_relaxed) != 0) [[unlikely]] {
        refuse_reader(heap_key, asker);
    }
}
/// Refuses a container in a heap that is open read-only, where it allocates through a copy of its allocator.
template <class Allocator>
void expect_writable(const Allocator& held) {
    if constexpr (requires { held.expect_writable(); }) {
        held.expect_writable();
    } else if constexpr (requires { held.outer_allocator().expect_writable(); }) {
        held.outer_allocator().expect_writable();
    }
}

/// allocate(); null instead of an exception.
[[nodiscard]] void* try_allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment) noexcept;

/// Frees what allocate() returned; null is ignored. An address that is not an allocated block changes nothing and is
/// reported to the error handler (manager.hpp, set_error_handler), for a destructor cannot throw. Thread-safe.
void deallocate(std::uint64_t heap_key, void* address) noexcept;

/// Throws std::bad_array_new_length; out of line to keep allocator<T>::allocate small.
[[noreturn]] void throw_bad_array_length();

}  // namespace holdfast::detail
