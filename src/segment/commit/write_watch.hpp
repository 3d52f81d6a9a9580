// The kernel itself notes stores to watched memory, in its page tables (userfaultfd with WP_ASYNC, from Linux 6.11 on),
// and pagemap::find_written() reads them. Stores by system calls are noted, too, but not those of devices. No thread
// waits for anything, and no signal is sent. What is noted may be more than what was stored.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "persist/descriptor.hpp"
#include "segment/commit/pagemap.hpp"

namespace holdfast::segment {

/// Not thread-safe, but for set_guarded(). Takes a descriptor from start() on. Watched memory is to be unmapped before
/// the destructor, which takes long otherwise.
class write_watch {
public:
    /// Fails with `unsupported` where kernel, sysctl or a filter of system calls refuse, and with `limit` where the
    /// process has no descriptor or memory left. Tries what commits rely on.
    base::result<void> start(const pagemap& pages);
    [[nodiscard]] bool started() const noexcept { return calls_.valid(); }
    /// In a child of fork, whose memory is not watched.
    void close_in_child() noexcept { calls_.reset(); }
    /// Protects private mappings, so that stores are noted. Pages are mapped one by one from now on, also where they
    /// are only read. What is mapped there later is not watched.
    base::result<void> watch(std::byte* begin, std::uint64_t bytes) const;
    /// Of watched memory that has been stored to.
    [[nodiscard]] bool protect_again(std::byte* begin, std::uint64_t bytes) const noexcept;
    /// The process's count of page faults grows with each first store to a protected page.
    [[nodiscard]] bool counts_faults() const noexcept { return counts_faults_; }
    /// Some of the memory cannot be read, so that a commit must not find it. Thread-safe.
    void set_guarded() noexcept { guarded_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool is_guarded() const noexcept { return guarded_.load(std::memory_order_relaxed); }
    /// No page looks protected afterwards. Also where nothing or only a part is watched. Needs no memory.
    void unprotect(std::byte* begin, std::uint64_t bytes) const noexcept;

private:
    [[nodiscard]] bool take(std::byte* begin, std::uint64_t bytes) const noexcept;
    [[nodiscard]] bool protect(std::byte* begin, std::uint64_t bytes, std::uint64_t mode) const noexcept;

    persist::descriptor calls_;
    bool counts_faults_ = false;
    std::atomic<bool> guarded_{false};
};

}  // namespace holdfast::segment
