// Blocks on disk that the heap shares with copies (FICLONE). A store to one through a shared mapping makes the file
// system find a block of the heap's own, and is a SIGBUS where none is left. So the room for all of them stays free of
// what the heap itself takes: nothing is shared without it, and no growth goes into it.
//
// What other programs take, or share with `cp --reflink` while the heap is open, is not known (docs/limits.md).
// Reasons: docs/decisions/0051-snapshots-that-share-blocks.md.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/thread_annotations.hpp"
#include "base/units.hpp"
#include "segment/files/heap_location.hpp"

namespace holdfast::segment {

/// Thread-safe.
class blocks_of_copies {
public:
    explicit blocks_of_copies(const heap_location& location) noexcept : location_(location) {}
    blocks_of_copies(const blocks_of_copies&) = delete;
    blocks_of_copies& operator=(const blocks_of_copies&) = delete;
    ~blocks_of_copies() = default;

    /// Whether a copy made now may share blocks: there is room for all that the heap has. `begin_copy()` comes before
    /// the copy.
    [[nodiscard]] base::result<bool> may_share() const;
    void begin_copy();

    /// Before `more` pages are reserved of a heap of `frontier` pages. `no_space` where less would be left than the
    /// shared blocks may need.
    [[nodiscard]] base::result<void> admit(base::pages more, base::pages frontier);

private:
    [[nodiscard]] base::result<bool> has_reflinks() HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<std::uint64_t> count() const;

    const heap_location& location_;
    base::mutex mutex_;
    std::optional<bool> has_reflinks_ HF_GUARDED_BY(mutex_);
    /// Bytes that may be shared, at most. Nothing: not counted yet, or a copy was made since.
    std::optional<std::uint64_t> shared_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::segment
