#include "persist/sync_together.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/cancellation.hpp"
#include "base/parallel.hpp"
#include "base/thread_annotations.hpp"

namespace holdfast::persist {

namespace {

/// A thread costs a tenth of it.
constexpr std::chrono::microseconds long_sync{500};
constexpr std::size_t most_at_once = 16;
constexpr int no_native_handle = -1;

class syncs {
public:
    syncs(std::span<const std::shared_ptr<file>> files, site where) noexcept : files_(files), where_(where) {}

    /// False where none is left, or one has failed.
    [[nodiscard]] bool make_next() noexcept {
        const std::size_t next = next_.fetch_add(1);
        if (next >= files_.size() || has_failed_) {
            return false;
        }
        try {
            if (auto done = files_[next]->sync(where_); !done) {
                const base::scoped_lock lock(mutex_);
                has_failed_ = true;
                if (!failure_) {
                    failure_ = std::move(done).error();
                }
            }
        } catch (const std::bad_alloc&) {
            // A sync that failed, too, where there was no memory for its words: the kernel tells it once, so it counts
            // as one. These words need no memory.
            const base::scoped_lock lock(mutex_);
            has_failed_ = true;
            if (!failure_) {
                failure_.emplace();
                failure_->code = base::failure_code::out_of_memory;
                failure_->field = "fdatasync";
            }
        }
        return true;
    }
    [[nodiscard]] std::size_t left() const noexcept { return files_.size() - std::min(files_.size(), next_.load()); }
    [[nodiscard]] base::result<void> outcome() {
        const base::scoped_lock lock(mutex_);
        if (failure_) {
            return std::move(*failure_);
        }
        return {};
    }

private:
    std::span<const std::shared_ptr<file>> files_;
    site where_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> has_failed_{false};
    base::mutex mutex_;
    std::optional<base::failure> failure_ HF_GUARDED_BY(mutex_);
};

}  // namespace

bool is_out_of_descriptors(const base::failure& what) noexcept {
    return what.os_error == EMFILE || what.os_error == ENFILE;
}

base::result<void> sync_together(std::span<const std::shared_ptr<file>> files, site where) {
    using clock = std::chrono::steady_clock;
    const base::cancellation_off until_done;
    syncs all(files, where);
    // Simulated files, which explore crashes within a sync, are synced by one thread.
    const bool by_threads =
        std::ranges::all_of(files, [](const auto& each) { return each->native_handle() != no_native_handle; });
    for (auto start = clock::now(); all.make_next();) {
        const auto now = clock::now();
        if (by_threads && now - start >= long_sync) {
            break;
        }
        start = now;
    }
    const std::size_t workers = std::min(all.left(), most_at_once);
    base::run_in_parallel(static_cast<unsigned>(workers), [&all](unsigned) noexcept {
        while (all.make_next()) {
        }
    });
    return all.outcome();
}

}  // namespace holdfast::persist
