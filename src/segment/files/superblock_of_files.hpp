// What the files of an open heap ask of its superblock, and what of it they change. heap_superblock does it, in
// segment/commit/, because a change needs the log: files know nothing of commits.
#pragma once

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

class superblock_of_files {
public:
    superblock_of_files() = default;
    superblock_of_files(const superblock_of_files&) = delete;
    superblock_of_files& operator=(const superblock_of_files&) = delete;

    using change = base::function_ref<void(superblock_on_media&)>;

    /// Takes no lock: for what stays the same while the heap is open.
    [[nodiscard]] virtual const superblock_on_media& now() const noexcept = 0;
    /// A crash in durability `atomic`: its lanes must be replayed first.
    [[nodiscard]] bool has_pending_lanes() const noexcept {
        return (now().flags & flag_lanes) != 0 && now().state != heap_state::clean;
    }
    /// Space that was reserved and never written may be holes.
    [[nodiscard]] virtual bool is_copied() const noexcept = 0;
    /// Comes before the first change of a session.
    virtual base::result<void> mark_running() = 0;
    /// For a new size; durable on return where heap_location::syncs_growth().
    virtual base::result<void> write_size(change by) = 0;

protected:
    ~superblock_of_files() = default;
};

}  // namespace holdfast::segment
