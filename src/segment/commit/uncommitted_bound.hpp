// Durability `commit`: what was stored to and not committed is private memory, which the kernel can write nowhere.
// Before it has no more, and ends the process, new memory is refused, while a commit has room for what it needs
// (docs/decisions/0049-bounded-private-memory.md).
//
// To look at all memory takes long. Between two looks, private memory has grown at most by a page for each page fault
// of the process, and by what was handed out, which may lie in huge pages. While these are few nobody looks.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/commit/committer.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/files/heap_location.hpp"

namespace holdfast::segment {

inline constexpr std::uint64_t unbounded_uncommitted = std::numeric_limits<std::uint64_t>::max();

/// Thread-safe.
class uncommitted_bound {
public:
    uncommitted_bound(const heap_location& location, heap_mapping& mapping, const committer& commits) noexcept
        : location_(location), mapping_(mapping), commits_(commits) {}

    /// Comes before the heap is used. `maximum`: bytes, 0: by the memory that the process may still take.
    uncommitted_bound& start(std::uint64_t maximum) noexcept;
    /// Comes before so much is handed out. `out_of_memory` where private memory would pass the bound; but what is
    /// larger than the bound itself is let pass while little is private, because no commit would make room for it. May
    /// throw std::bad_alloc.
    [[nodiscard]] base::result<void> admit(base::pages more);

private:
    [[nodiscard]] base::result<void> measure(std::uint64_t more) HF_REQUIRES(mutex_);
    [[nodiscard]] std::uint64_t bound(std::uint64_t all) const noexcept;
    void choose_reading(const private_memory& found, std::uint64_t all) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] base::failure refusal(std::uint64_t now, std::uint64_t more, std::uint64_t most) const;
    void wait_for(std::uint64_t room, std::uint64_t faults) noexcept HF_REQUIRES(mutex_);

    const heap_location& location_;
    heap_mapping& mapping_;
    const committer& commits_;
    std::uint64_t maximum_ = unbounded_uncommitted;
    std::atomic<std::uint64_t> handed_out_{0};                      ///< bytes
    std::atomic<std::uint64_t> next_count_{unbounded_uncommitted};  ///< of faults, when so many bytes are out
    base::mutex mutex_;
    std::uint64_t looked_at_handed_out_ HF_GUARDED_BY(mutex_) = 0;
    std::uint64_t looked_at_faults_ HF_GUARDED_BY(mutex_) = 0;
    std::uint64_t room_ HF_GUARDED_BY(mutex_) = 0;  ///< bytes until the next look
};

}  // namespace holdfast::segment
