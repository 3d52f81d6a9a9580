#include "persist/sync.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/interruption.hpp"
#include "base/mutex.hpp"
#include "base/parallel.hpp"

namespace holdfast::persist {

void mapped_sync::insert(chunk_set& set, std::uint64_t address) noexcept {
    const auto end_of = [&set] { return set.chunks.begin() + static_cast<std::ptrdiff_t>(set.count); };
    std::uint64_t chunk = address >> set.chunk_bits;
    auto at = std::lower_bound(set.chunks.begin(), end_of(), chunk);
    if (at != end_of() && *at == chunk) {
        return;
    }
    while (set.count == most_chunks) {
        ++set.chunk_bits;
        for (std::uint64_t& each : set.chunks) {
            each >>= 1U;
        }
        set.count = static_cast<std::size_t>(std::unique(set.chunks.begin(), end_of()) - set.chunks.begin());
        chunk = address >> set.chunk_bits;
        at = std::lower_bound(set.chunks.begin(), end_of(), chunk);
        if (at != end_of() && *at == chunk) {
            return;
        }
    }
    std::move_backward(at, end_of(), end_of() + 1);
    *at = chunk;
    ++set.count;
}

void mapped_sync::note(const void* begin, std::uint64_t bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    const base::scoped_lock lock(noted_mutex_);
    for (std::uint64_t address = first;;) {
        insert(noted_, address);
        const std::uint64_t next = ((address >> noted_.chunk_bits) + 1) << noted_.chunk_bits;
        if (bytes == 0 || next > first + (bytes - 1)) {
            return;
        }
        address = next;
    }
}

/// Each call is a sync of the file system; unchanged pages between near chunks cost nothing.
int mapped_sync::write(const chunk_set& set) noexcept {
    constexpr std::uint64_t near = std::uint64_t{256} << 20U;
    for (std::size_t i = 0; i < set.count;) {
        const std::uint64_t begin = set.chunks[i] << set.chunk_bits;
        std::uint64_t end = begin;
        for (; i < set.count && (set.chunks[i] << set.chunk_bits) <= end + near; ++i) {
            end = (set.chunks[i] + 1) << set.chunk_bits;
        }
        auto* const from = reinterpret_cast<void*>(begin);
        if (::msync(from, end - begin, MS_SYNC) == 0) {
            continue;
        }
        // ENOMEM: a part of the range is not mapped, or the file system had no memory. MS_ASYNC does nothing but look
        // for such a part.
        if (const int error = errno; error != ENOMEM || ::msync(from, end - begin, MS_ASYNC) == 0) {
            return error;
        }
    }
    return 0;
}

void mapped_sync::sync() noexcept {
    const base::cancellation_off until_synced;
    const base::scoped_lock alone(sync_mutex_);
    {
        const base::scoped_lock lock(noted_mutex_);
        if (noted_.count == 0 || error_ != 0) {
            return;
        }
        taken_ = noted_;
        noted_ = {};
    }
    const int error = write(taken_);
    syncs_.store(syncs_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (error != 0) {
        fail(error);
    }
}

void mapped_sync::fail(int os_error) noexcept {
    const base::scoped_lock lock(noted_mutex_);
    error_ = error_ != 0 ? error_ : os_error != 0 ? os_error : EIO;
    failed_.store(true, std::memory_order_release);
}

base::failure mapped_sync::failure() const {
    const base::scoped_lock lock(noted_mutex_);
    return base::os_failure(error_, "msync", path_);
}

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
