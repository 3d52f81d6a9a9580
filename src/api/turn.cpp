#include "api/turn.hpp"

#include <algorithm>

namespace holdfast::detail {

void turn::wait(std::unique_lock<std::mutex>& lock, waiter& mine) {
    (last_ == nullptr ? first_ : last_->next) = &mine;
    last_ = &mine;
    let_next_begin();
    mine.may_begin.wait(lock, [&] { return mine.has_begun; });
}

void turn::let_next_begin() noexcept {
    while (first_ != nullptr && owner_.load(std::memory_order_relaxed) == std::thread::id()) {
        waiter& next = *first_;
        if (next.exclusive && !readers_.empty()) {
            return;
        }
        first_ = next.next;
        last_ = first_ == nullptr ? nullptr : last_;
        if (next.exclusive) {
            owner_.store(next.thread, std::memory_order_relaxed);
        } else {
            readers_.push_back({next.thread, 1});  // lock_shared() has made room
            reading_.store(readers_.size(), std::memory_order_relaxed);
            --coming_readers_;
        }
        next.has_begun = true;
        next.may_begin.notify_one();
    }
}

void turn::lock() {
    std::unique_lock held(mutex_);
    waiter mine(true);
    wait(held, mine);
}

void turn::unlock() noexcept {
    const std::lock_guard held(mutex_);
    owner_.store({}, std::memory_order_relaxed);
    let_next_begin();
}

void turn::lock_shared() {
    std::unique_lock held(mutex_);
    const auto mine = std::ranges::find(readers_, std::this_thread::get_id(), &reader::thread);
    if (mine != readers_.end()) {  // one that waits behind it must not keep it from ending
        ++mine->times;
        return;
    }
    readers_.reserve(readers_.size() + coming_readers_ + 1);
    ++coming_readers_;
    waiter coming(false);
    wait(held, coming);
}

void turn::unlock_shared() noexcept {
    const std::lock_guard held(mutex_);
    const auto mine = std::ranges::find(readers_, std::this_thread::get_id(), &reader::thread);
    if (--mine->times == 0) {
        readers_.erase(mine);
        reading_.store(readers_.size(), std::memory_order_relaxed);
        let_next_begin();
    }
}

bool turn::is_read_by_this_thread() const {
    if (reading_.load(std::memory_order_relaxed) == 0) [[likely]] {
        return false;
    }
    const std::lock_guard held(mutex_);
    return std::ranges::find(readers_, std::this_thread::get_id(), &reader::thread) != readers_.end();
}

}  // namespace holdfast::detail
