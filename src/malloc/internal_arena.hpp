// Memory for the allocator itself, and for calls of malloc before the heap is open or from within the allocator. Blocks
// are powers of two from 16 bytes on, in one range of addresses. Blocks of up to half a granule (64 KiB) share granules
// with their like; larger ones are runs of granules.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/mutex.hpp"
#include "base/units.hpp"

namespace holdfast::drop_in {

/// Thread-safe. Constant-initialised and never destroyed: usable before the first constructor and after the last
/// destructor.
class internal_arena {
public:
    constexpr internal_arena() = default;
    internal_arena(const internal_arena&) = delete;
    internal_arena& operator=(const internal_arena&) = delete;

    /// Allocates at a multiple of 16 and of `alignment` (a power of two up to 2 MiB). Null where there is no memory.
    /// Not zeroed.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) noexcept;
    /// A precondition of free() and usable_size().
    [[nodiscard]] bool contains(const void* address) const noexcept {
        const std::uintptr_t begin = begin_.load(std::memory_order_acquire);
        return reinterpret_cast<std::uintptr_t>(address) - begin < size_.load(std::memory_order_relaxed) && begin != 0;
    }
    /// False, and nothing is changed, where no block can start there, and where the block is free.
    [[nodiscard]] bool free(void* block) noexcept;
    /// In bytes; 0 where no block can start there.
    [[nodiscard]] std::size_t usable_size(const void* block) const noexcept;

    /// Before fork(): keeps other threads out, so a child finds the arena whole. The calling thread, whose signals are
    /// blocked, may use it.
    void hold() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    /// After fork(), in parent and child. Does nothing in a thread that does not hold it.
    void let_go() noexcept HF_NO_THREAD_SAFETY_ANALYSIS;

private:
    class change;

    static constexpr std::uint64_t granule = 64 * base::kibibyte;
    static constexpr std::uint64_t range_size = 16 * base::gibibyte;
    static constexpr std::uint64_t smallest_range = 64 * base::mebibyte;
    static constexpr std::uint64_t step = base::mebibyte;  ///< made accessible at once
    static constexpr std::uint64_t most_alignment = 2 * base::mebibyte;
    static constexpr unsigned smallest = 4;  ///< 16 bytes
    static constexpr unsigned classes = 35;  ///< by the logarithm of the size

    struct free_block {
        free_block* next;
        std::uintptr_t mark;  ///< mark_of() the block
    };
    static_assert(sizeof(free_block) == std::size_t{1} << smallest);

    [[nodiscard]] bool reserve() noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool refill(unsigned size_class) noexcept HF_REQUIRES(mutex_);
    void push(unsigned size_class, void* block) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool is_free(unsigned size_class, const void* block) const noexcept HF_REQUIRES(mutex_);
    /// The binary logarithm of the block's size; 0 where no block can start there.
    [[nodiscard]] unsigned class_of(const void* block) const noexcept;

    base::mutex mutex_;
    std::atomic<const void*> holder_{nullptr};  ///< an address that only this thread has
    std::atomic<std::uintptr_t> begin_{0};
    std::atomic<std::uint64_t> size_{0};                  ///< bytes; range_size if possible
    std::uint64_t used_ HF_GUARDED_BY(mutex_) = 0;        ///< bytes from the begin
    std::uint64_t accessible_ HF_GUARDED_BY(mutex_) = 0;  ///< bytes from the begin
    std::array<free_block*, classes> free_ HF_GUARDED_BY(mutex_){};
    /// Of the blocks in a granule; of a run, at its first one.
    std::array<std::atomic<std::uint8_t>, range_size / granule> class_of_granule_{};
};

}  // namespace holdfast::drop_in
