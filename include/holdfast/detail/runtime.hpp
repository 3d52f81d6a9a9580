// For templates of the public headers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast::detail {

/// From the heap with this key that is open for writing; 0 bytes get a smallest block. Throws holdfast::bad_alloc with
/// the reason, error(not_found). Alignment: a power of two up to 2 MiB. Thread-safe.
[[nodiscard]] void* allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment);
[[nodiscard]] void* allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment, std::uint32_t type);

/// Heaps that the process has open read-only.
extern std::atomic<std::uint32_t> open_readers;
/// Throws error(not_found) where `asker`, the address of an allocator with that key, lies in a heap that is open
/// read-only. Copies of a heap share its key: the writer with it may be another heap.
void refuse_reader(std::uint64_t heap_key, const void* asker);
/// Before a container allocates, with the allocator that it holds: a copy of that may lie elsewhere.
inline void expect_writable(std::uint64_t heap_key, const void* asker) {
    if (open_readers.load(std::memory_order_relaxed) != 0) [[unlikely]] {
        refuse_reader(heap_key, asker);
    }
}
/// For allocators that have expect_writable().
template <class Allocator>
void expect_writable(const Allocator& held) {
    if constexpr (requires { held.expect_writable(); }) {
        held.expect_writable();
    } else if constexpr (requires { held.outer_allocator().expect_writable(); }) {
        held.outer_allocator().expect_writable();
    }
}

/// May count a heap that was closed while its manager lives.
extern std::atomic<std::uint32_t> open_heaps;
/// Whether a word of the object is the key of an open heap other than `heap_key`, and so an allocator of that heap:
/// nothing else looks like 64 random bits.
[[nodiscard]] bool holds_allocator_of_another_heap(std::uint64_t heap_key, const void* object,
                                                   std::size_t bytes) noexcept;
/// Throws error(invalid_argument). `type`: std::type_info::name().
[[noreturn]] void throw_element_of_another_heap(std::uint64_t heap_key, const char* type);
/// Throws error(invalid_argument).
[[noreturn]] void throw_nodes_of_another_heap(std::uint64_t heap_key, const char* type);
template <class T>
[[nodiscard]] bool is_of_another_heap(std::uint64_t heap_key, const T& object) noexcept {
    return open_heaps.load(std::memory_order_relaxed) > 1 && heap_key != 0 &&
           holds_allocator_of_another_heap(heap_key, std::addressof(object), sizeof(T));
}

/// Null instead of an exception.
[[nodiscard]] void* try_allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment) noexcept;

/// Null is ignored. An address that is no allocated block changes nothing and goes to the error handler, because
/// destructors must not throw. Thread-safe.
void deallocate(std::uint64_t heap_key, void* address) noexcept;

/// Out of line, which keeps allocator<T>::allocate() small.
[[noreturn]] void throw_bad_array_length();

}  // namespace holdfast::detail
