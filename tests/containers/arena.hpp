// A heap of one memory file for tests of containers: it can be mapped elsewhere at any moment, and then the old range
// faults.
//
// It stands in for the library behind holdfast::allocator (detail/runtime.hpp), so these tests need the public headers
// alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include <holdfast/allocator.hpp>

namespace holdfast::test {

/// Not thread-safe. The key of every arena alive differs.
class arena {
public:
    static constexpr std::size_t size = std::size_t{256} << 20;

    arena();
    arena(const arena&) = delete;
    arena& operator=(const arena&) = delete;
    ~arena();

    /// Maps the memory at another address; what was there before faults from now on.
    void relocate();

    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment);
    /// Fails the running test where the address is not an allocated block.
    void deallocate(void* address);

    template <class T>
    [[nodiscard]] allocator<T> get_allocator() const noexcept {
        return allocator<T>{key_};
    }
    [[nodiscard]] std::size_t blocks() const noexcept { return live_.size(); }
    [[nodiscard]] bool contains(const void* address) const noexcept;
    [[nodiscard]] std::size_t offset_of(const void* address) const noexcept {
        return static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_);
    }
    [[nodiscard]] void* at(std::size_t offset) const noexcept { return base_ + offset; }

private:
    int descriptor_;
    std::uint64_t key_;
    std::byte* base_ = nullptr;
    std::size_t used_ = 64;
    std::map<std::size_t, std::size_t> live_;       // offset, bytes
    std::multimap<std::size_t, std::size_t> free_;  // bytes, offset
};

/// An object in an arena; its address follows the arena.
template <class T>
class resident {
public:
    template <class... Args>
    explicit resident(arena& heap, Args&&... args)
        : heap_(heap), offset_(heap.offset_of(heap.allocate(sizeof(T), alignof(T)))) {
        ::new (heap_.at(offset_)) T(std::forward<Args>(args)...);
    }
    resident(const resident&) = delete;
    resident& operator=(const resident&) = delete;
    ~resident() {
        get().~T();
        heap_.deallocate(heap_.at(offset_));
    }
    [[nodiscard]] T& get() const noexcept { return *static_cast<T*>(heap_.at(offset_)); }
    [[nodiscard]] T& operator*() const noexcept { return get(); }
    [[nodiscard]] T* operator->() const noexcept { return &get(); }

private:
    arena& heap_;
    std::size_t offset_;
};

}  // namespace holdfast::test
