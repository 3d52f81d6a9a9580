// Syncs: of memory that is mapped from files (msync), and of several files at once (fdatasync).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

/// The domain `disk`: sync() makes durable (msync) what any thread has noted before. Thread-safe.
///
/// A table of fixed size notes chunks of at least 2 MiB, which double when it is full, so nothing is allocated. The
/// kernel reports a lost write once, so the first failure stays: every later sync() does nothing.
class mapped_sync {
public:
    explicit mapped_sync(std::string path) : path_(std::move(path)) {}
    mapped_sync(const mapped_sync&) = delete;
    mapped_sync& operator=(const mapped_sync&) = delete;
    ~mapped_sync() = default;

    void note(const void* begin, std::uint64_t bytes) noexcept;
    void sync() noexcept;
    /// Behaves as if a sync() had failed.
    void fail(int os_error) noexcept;

    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    /// Meaningful once has_failed().
    [[nodiscard]] base::failure failure() const;
    /// Calls of sync() that had something to do.
    [[nodiscard]] std::uint64_t syncs() const noexcept { return syncs_.load(std::memory_order_relaxed); }

private:
    static constexpr std::size_t most_chunks = 512;
    static constexpr unsigned smallest_chunk_bits = 21;

    struct chunk_set {
        std::array<std::uint64_t, most_chunks> chunks{};  ///< ascending addresses >> chunk_bits
        std::size_t count = 0;
        unsigned chunk_bits = smallest_chunk_bits;
    };
    static void insert(chunk_set& set, std::uint64_t address) noexcept;
    /// 0, or the error of msync().
    [[nodiscard]] static int write(const chunk_set& set) noexcept;

    std::string path_;
    std::atomic<bool> failed_{false};
    std::atomic<std::uint64_t> syncs_{0};
    base::mutex sync_mutex_;  ///< comes before noted_mutex_
    mutable base::mutex noted_mutex_;
    chunk_set noted_ HF_GUARDED_BY(noted_mutex_);
    int error_ HF_GUARDED_BY(noted_mutex_) = 0;
    chunk_set taken_ HF_GUARDED_BY(sync_mutex_);
};

/// Files that are synced and closed give some back.
[[nodiscard]] bool is_out_of_descriptors(const base::failure& what) noexcept;

/// All are durable on return. A sync waits for the device, and those that wait together mostly wait for the same flush
/// of it. Threads make the other syncs behind one that has taken long. After a failure some files
/// were not tried; a sync that ends for want of memory counts as a failed one (`out_of_memory`, "fdatasync").
[[nodiscard]] base::result<void> sync_together(std::span<const std::shared_ptr<file>> files, site where);

}  // namespace holdfast::persist
