#include "segment/commit/writeback.hpp"

#include <new>
#include <system_error>

namespace holdfast::segment {

writeback::~writeback() {
    if (!thread_.joinable()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void writeback::start(persist::file& file) noexcept {
    try {
        {
            const std::lock_guard lock(mutex_);
            waiting_.push_back(&file);
        }
        if (!thread_.joinable()) {
            thread_ = std::thread([this] { run(); });
        }
        changed_.notify_one();
    } catch (const std::bad_alloc&) {
        return;
    } catch (const std::system_error&) {
        return;  // the syncs do all the work
    }
}

void writeback::run() noexcept {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return ends_ || next_ < waiting_.size(); });
        if (ends_) {
            return;
        }
        persist::file& file = *waiting_[next_++];
        lock.unlock();
        file.start_writeback();
        lock.lock();
    }
}

}  // namespace holdfast::segment
