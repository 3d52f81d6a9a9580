#include "segment/commit/writeback.hpp"

#include <new>
#include <system_error>
#include <utility>

#include "base/interruption.hpp"
#include "base/process_identity.hpp"

namespace holdfast::segment {

namespace {

/// More hints than this would only keep files open.
constexpr std::size_t most_waiting = 16;

}  // namespace

writeback::~writeback() {
    if (!thread_.joinable()) {
        return;
    }
    if (owner_ != base::process_identity()) {
        thread_.detach();
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        waiting_.clear();
    }
    thread_.join();
}

void writeback::start(std::shared_ptr<persist::file> file) noexcept {
    try {
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.size() < most_waiting) {
                waiting_.push_back(std::move(file));
            }
            if (runs_) {
                return;
            }
        }
        if (thread_.joinable()) {
            thread_.join();
        }
        owner_ = base::process_identity();
        runs_ = true;
        const base::no_signals until_started;  // handlers of the program run in its own threads
        thread_ = std::thread([this] { run(); });
    } catch (const std::bad_alloc&) {
        return;
    } catch (const std::system_error&) {
        const std::lock_guard lock(mutex_);  // the syncs do all the work
        waiting_.clear();
        runs_ = false;
    }
}

bool writeback::is_busy() const noexcept {
    const std::lock_guard lock(mutex_);
    return runs_;
}

void writeback::run() noexcept {
    for (;;) {
        std::shared_ptr<persist::file> file;
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.empty()) {
                runs_ = false;
                return;
            }
            file = std::move(waiting_.front());
            waiting_.pop_front();
        }
        file->start_writeback();
    }
}

}  // namespace holdfast::segment
