// manager: blocks and roots.
//
// In durability `atomic` these calls are durable when they return: a crash before the program has stored the address of
// a new block leaks it (but not of allocate_to()). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <holdfast/allocator.hpp>
#include <holdfast/detail/heap_handle.hpp>
#include <holdfast/open_options.hpp>
#include <holdfast/ptr.hpp>

namespace holdfast {

class heap_blocks : public detail::part_of_manager<heap_blocks> {
public:
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using void_pointer = ptr<void>;
    using segment_manager = holdfast::segment_manager;
    template <class T>
    using allocator_type = holdfast::allocator<T>;
    template <class T>
    using scoped_allocator_type = holdfast::scoped_allocator<T>;
    template <class T>
    using fallback_allocator = holdfast::fallback_allocator<T>;
    using handle_t = std::uint64_t;

    static constexpr size_type root_count = 512;
    /// Pointers that the heap keeps without names, null at creation. Throws error(invalid_argument) for an index of 512
    /// or more. Without const also error(read_only): read a heap opened so by `std::as_const(heap).root(0)`.
    [[nodiscard]] ptr<void>& root(size_type index);
    [[nodiscard]] const ptr<void>& root(size_type index) const;

    /// `bytes` of memory, not zeroed, aligned to 16 bytes (to 8 where `bytes` is below 16). Throws holdfast::bad_alloc
    /// with the reason in what(), error(invalid_argument) for 0 bytes, error(read_only).
    [[nodiscard]] void* allocate(size_type bytes);
    /// With std::nothrow: null where allocate() would throw.
    [[nodiscard]] void* allocate(size_type bytes, const std::nothrow_t&) noexcept;
    /// `alignment`: a power of two up to 2 MiB, else error(invalid_argument).
    [[nodiscard]] void* allocate_aligned(size_type bytes, size_type alignment);
    /// The zeros of `traits.zeroed` are as durable as what the program stores itself.
    [[nodiscard]] void* allocate(size_type bytes, const allocation_traits& traits);
    /// Null is ignored. Throws error(bad_address), and changes nothing, where no allocated block of this heap starts
    /// there, or it is an object, which destroy() frees. Two threads that free one block at the same moment may both
    /// return, except in a hardened heap.
    void deallocate(void* address);
    /// Bytes, at least those asked for. Throws error(bad_address).
    [[nodiscard]] size_type usable_size(const void* address) const;
    /// For memory that a device stores to by its physical pages: buffers registered with io_uring, RDMA or CUDA. In
    /// durability `commit`, without this, the first commit takes the pages away from the device, and what it stores
    /// later is seen by nobody. Until unpin() with the same arguments, which comes when the device has let the memory
    /// go, commits leave the pages in place and find what the device has stored, at the price of a comparison of all
    /// pinned bytes; the block cannot be freed, resized or destroyed. The range lies in one allocated block; ranges may
    /// overlap, and one may be pinned several times. Pins are of this process: a close ends them, and a child of fork
    /// has none. In the other durabilities pages stay anyway. A store by a device while a commit runs is in that commit
    /// or in the next one. Throws error(bad_address), error(read_only), error(wrong_process).
    void pin(const void* begin, size_type bytes);
    /// Throws error(bad_address) where this range is not pinned.
    void unpin(const void* begin, size_type bytes);
    /// allocation_traits::type, 0 for none. Throws error(bad_address).
    [[nodiscard]] std::uint32_t type_of(const void* address) const;
    [[nodiscard]] bool all_memory_deallocated() const;
    [[nodiscard]] bool separates_cache_lines() const;  ///< created with open_options::separate_cache_lines
    template <class T = std::byte>
    [[nodiscard]] allocator_type<T> get_allocator() const noexcept {
        return allocator_type<T>{handle().key()};
    }
    [[nodiscard]] const segment_manager* get_segment_manager() const noexcept;
    /// Whether it lies in the get_size() bytes from get_address().
    [[nodiscard]] bool belongs_to_segment(const void* address) const noexcept;
    /// A handle is the offset in bytes from the heap's base. Throw error(bad_address) outside the user space.
    [[nodiscard]] handle_t get_handle_from_address(const void* address) const;
    [[nodiscard]] void* get_address_from_handle(handle_t handle) const;

    /// Null for a closed heap.
    [[nodiscard]] void* get_address() const noexcept;
    /// Bytes of user space backed by files.
    [[nodiscard]] size_type get_size() const;
    [[nodiscard]] size_type get_free_memory() const;  ///< get_size() less the bytes of allocated blocks
    /// With open_options::node_directories: lets a thread that runs on another node than it allocates from return the
    /// free blocks that it kept and go on with the new node; the result is true then. Threads do so by themselves at
    /// every 64th refill of their caches. Nothing durable changes. Throws error after close().
    bool follow_this_thread();

private:
    friend class manager;
    heap_blocks() noexcept = default;

    [[gnu::noinline]] void deallocate_slow(void* address);
};

}  // namespace holdfast
