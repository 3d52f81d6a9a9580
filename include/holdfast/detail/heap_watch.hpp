// Whether a heap is still open, for those who may outlive its manager: transactions, indexes.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast {
class manager;
}  // namespace holdfast

namespace holdfast::detail {

/// Of the cell of one open heap (api/heap_life.hpp), which is never freed. Thread safety: a look is one load.
class heap_watch {
public:
    heap_watch() noexcept = default;
    heap_watch(const std::atomic<std::uint64_t>& of, std::uint64_t number) noexcept : of_(&of), number_(number) {}
    [[nodiscard]] bool goes_on() const noexcept {
        return of_ != nullptr && of_->load(std::memory_order_acquire) == number_;
    }
    [[nodiscard]] bool operator==(const heap_watch&) const noexcept = default;

private:
    const std::atomic<std::uint64_t>* of_ = nullptr;
    std::uint64_t number_ = 0;
};

/// A watch of a closed heap does not go on.
[[nodiscard]] heap_watch watch_of(const manager& heap) noexcept;

/// Objects that somebody has open: destroy() refuses them (error(locked)) while the heap is open. Thread-safe. False:
/// already claimed.
[[nodiscard]] bool claim_object(const void* address, const heap_watch& heap);
/// Of this heap's claim alone.
void release_object(const void* address, const heap_watch& heap) noexcept;
[[nodiscard]] bool is_claimed_object(const void* address) noexcept;

/// Of this process; its children by fork have others.
[[nodiscard]] std::uint64_t process_identity() noexcept;

}  // namespace holdfast::detail
