#include "api/heap_life.hpp"

#include <memory>
#include <utility>

namespace holdfast::detail {

heap_life::cell* heap_life::take_cell() {
    const base::scoped_lock lock(mutex_);
    if (free_ == nullptr) {
        return std::make_unique<cell>().release();
    }
    return std::exchange(free_, free_->next);
}

void heap_life::end() noexcept {
    if (cell_ == nullptr) {
        return;
    }
    cell_->number.fetch_add(1, std::memory_order_release);
    const base::scoped_lock lock(mutex_);
    cell_->next = free_;
    free_ = std::exchange(cell_, nullptr);
}

}  // namespace holdfast::detail
