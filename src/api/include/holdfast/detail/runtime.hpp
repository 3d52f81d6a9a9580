// The few functions of the library that templates of the public headers call. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::detail {

/// Allocates from the writable heap of this process that bears the key. Throws holdfast::bad_alloc with the reason, or
/// holdfast::error where no such heap is open. Alignment: a power of two up to 2 MiB. Thread-safe.
[[nodiscard]] void* allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment);

/// The same; null instead of an exception.
[[nodiscard]] void* try_allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment) noexcept;

/// Frees what allocate() returned; null is ignored. An address that is not an allocated block changes nothing and is
/// reported to the error handler (manager.hpp, set_error_handler), for a destructor cannot throw. Thread-safe.
void deallocate(std::uint64_t heap_key, void* address) noexcept;

/// Throws std::bad_array_new_length; out of line to keep allocator<T>::allocate small.
[[noreturn]] void throw_bad_array_length();

}  // namespace holdfast::detail
