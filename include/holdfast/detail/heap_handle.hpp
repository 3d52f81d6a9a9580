// What a manager is made of: a heap_handle, which has the open heap, and parts, which have nothing but functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <holdfast/detail/heap_watch.hpp>

namespace holdfast::slab {
struct fast_path;
}  // namespace holdfast::slab

namespace holdfast {
class manager;
}  // namespace holdfast

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

/// The heap of a manager: none where the manager was moved from, a closed one after close().
class heap_handle {
public:
    explicit heap_handle(core_owner core);
    heap_handle(heap_handle&& other) noexcept;
    heap_handle& operator=(heap_handle&& other) noexcept;
    heap_handle(const heap_handle&) = delete;
    heap_handle& operator=(const heap_handle&) = delete;
    ~heap_handle();

    /// Throws error(invalid_argument) where there is none.
    [[nodiscard]] manager_core& core() const;
    [[nodiscard]] manager_core* core_or_null() const noexcept { return core_.get(); }
    [[nodiscard]] manager_core* open_core() const noexcept;  ///< null also where it is closed
    [[nodiscard]] const fast_path_copy& fast_path() const noexcept { return fast_path_; }
    /// Where there is one. Is called after what changes the heap's own fast path.
    void renew_fast_path() noexcept;
    /// Calls take the slow paths, which say what is wrong, until renew_fast_path().
    void leave_fast_path() noexcept { fast_path_ = {}; }
    [[nodiscard]] std::uint64_t key() const noexcept;        ///< 0 where there is none
    [[nodiscard]] const std::string& path() const noexcept;  ///< "" where there is none, or a closed one
    [[nodiscard]] heap_watch watch() const noexcept;

private:
    core_owner core_;
    fast_path_copy fast_path_;
};

/// The base of each part of manager: it leads to the handle of the manager that the part belongs to. Parts stand beside
/// each other, and none uses another.
template <class Part>
class part_of_manager {
public:
    part_of_manager(const part_of_manager&) = delete;
    part_of_manager& operator=(const part_of_manager&) = delete;

protected:
    part_of_manager() noexcept = default;
    ~part_of_manager() = default;
    [[nodiscard]] const heap_handle& handle() const noexcept;  // manager.hpp
    [[nodiscard]] heap_handle& handle() noexcept;
    /// Throws error(invalid_argument) where the manager was moved from.
    [[nodiscard]] manager_core& core() const { return handle().core(); }
};

}  // namespace holdfast::detail
