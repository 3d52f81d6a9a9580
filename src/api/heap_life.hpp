// Whether a heap is still open, for those who may outlive its manager. Each open heap has a cell, whose number changes
// at the close. Cells are never freed, only used again, so a watch (heap_watch.hpp) may look at any time.
#pragma once

#include <atomic>
#include <cstdint>

#include <holdfast/detail/heap_watch.hpp>

#include "base/fork_mutex.hpp"

namespace holdfast::detail {

class heap_life {
    struct cell {
        std::atomic<std::uint64_t> number{0};
        cell* next = nullptr;  ///< of those that are free
    };

public:
    using watch = heap_watch;

    heap_life() = default;
    heap_life(const heap_life&) = delete;
    heap_life& operator=(const heap_life&) = delete;
    ~heap_life() { end(); }

    [[nodiscard]] watch begin_watch() const noexcept {
        return cell_ == nullptr ? watch() : watch(cell_->number, cell_->number.load(std::memory_order_relaxed));
    }
    /// For watches that have begun the heap is gone; those that begin now go on.
    void renew() noexcept { cell_->number.fetch_add(1, std::memory_order_release); }
    /// A second call does nothing.
    void end() noexcept;

private:
    [[nodiscard]] static cell* take_cell();
    /// Of heaps that are gone.
    static inline constinit base::fork_mutex mutex_{
        base::fork_rank::heap_lives};     // NOLINT(readability-identifier-naming)
    static inline cell* free_ = nullptr;  // NOLINT(readability-identifier-naming)

    cell* cell_ = take_cell();
};

}  // namespace holdfast::detail
