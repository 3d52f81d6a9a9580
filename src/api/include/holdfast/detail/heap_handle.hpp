// The core of an open heap. The concepts of a manager (heap_blocks.hpp to heap_information.hpp) stand on each other in
// one line and reach the core and the fast path directly: several bases would need a virtual one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <holdfast/detail/heap_watch.hpp>
#include <holdfast/open_options.hpp>

namespace holdfast::slab {
struct fast_path;
}  // namespace holdfast::slab

namespace holdfast::detail {

class manager_core;
struct manager_access;

/// A child of fork gives back what the core has of the system, and leaves its memory as it is: other threads of the
/// parent may have been changing it.
struct end_of_core {
    void operator()(manager_core* of) const noexcept;
};
using core_owner = std::unique_ptr<manager_core, end_of_core>;

/// What the fast paths of allocate() and deallocate() need, copied to follow no pointer; fast_path::of_no_heap(), which
/// takes the slow paths, where the manager is closed or moved from.
class fast_path_copy {
public:
    fast_path_copy() noexcept;
    explicit fast_path_copy(const slab::fast_path& of) noexcept;
    fast_path_copy(fast_path_copy&& other) noexcept : fast_path_copy() { *this = std::move(other); }
    fast_path_copy& operator=(fast_path_copy&& other) noexcept;
    fast_path_copy(const fast_path_copy&) = delete;
    fast_path_copy& operator=(const fast_path_copy&) = delete;
    ~fast_path_copy() = default;
    [[nodiscard]] const slab::fast_path* operator->() const noexcept;  // manager_core.hpp

private:
    static constexpr std::size_t words = 5;
    alignas(std::uintptr_t) std::byte blocks_[words * sizeof(std::uintptr_t)];
};

/// A heap, or none where it was moved from.
class heap_handle {
public:
    heap_handle(const heap_handle&) = delete;
    heap_handle& operator=(const heap_handle&) = delete;

    [[nodiscard]] bool is_open() const noexcept;
    [[nodiscard]] bool read_only() const noexcept;
    /// `commit` for a closed or read-only heap.
    [[nodiscard]] holdfast::durability durability() const noexcept;
    /// Of the open; "" for a closed heap.
    [[nodiscard]] const std::string& path() const noexcept;

protected:
    explicit heap_handle(core_owner core);
    heap_handle(heap_handle&& other) noexcept;
    heap_handle& operator=(heap_handle&& other) noexcept;
    ~heap_handle();

    /// Throws error(invalid_argument) where the heap was moved from.
    [[nodiscard]] manager_core& core() const;
    [[nodiscard]] std::uint64_t key() const noexcept;  ///< 0 where there is no heap

    core_owner core_;
    fast_path_copy fast_path_;

private:
    friend struct manager_access;  // the C API
    friend heap_watch watch_of(const heap_handle& heap) noexcept;
};

}  // namespace holdfast::detail
