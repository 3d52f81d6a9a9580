// The superblock: as its file has it, and as an open heap has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_log.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/files/superblock_of_files.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

/// What the superblock's file says, for who asks at each turn: it is judged anew only where it has changed. Of one
/// heap. Not thread-safe; nobody writes to the file meanwhile.
class superblock_reader {
public:
    /// The newest sound copy of the file that has the name now, up to the next call. Null: there is none. May throw
    /// std::bad_alloc.
    base::result<const superblock_on_media*> newest(persist::storage& storage, const heap_paths& paths);

private:
    using content = std::array<std::byte, superblock_copies * superblock_size>;
    struct buffers {
        content seen{};
        content now{};
        superblock_on_media newest{};
    };
    std::unique_ptr<persist::file> file_;
    std::string identity_;  ///< of the file
    std::unique_ptr<buffers> read_;
    bool is_seen_ = false;
};

// The superblock of an open heap.
//
//   - now() is what media say, log included, except for fields that become durable with the next write: addresses and
//     capacity while the heap is opened, and the frontier while the heap's end is in doubt (user_space).
//   - The state on media is `running` before anything else of the heap is changed in a session.
//   - A failed write leaves now() as it was.
//   - A child of fork writes nothing: media may say something newer.

/// write() and mark_running() may be called while the heap is in use. The other changes run alone.
class heap_superblock final : public superblock_of_files {
public:
    heap_superblock(const heap_location& location, commit_log& log) noexcept : location_(location), log_(log) {}
    ~heap_superblock() = default;

    [[nodiscard]] const superblock_on_media& now() const noexcept override { return now_; }
    [[nodiscard]] geometry shape() const noexcept { return geometry_of(now_); }
    /// False until the first commit of a new heap; true for a scratch heap.
    [[nodiscard]] bool is_on_media() const noexcept { return on_media_; }
    void set_on_media() noexcept { on_media_ = true; }

    /// Writes nothing.
    void set(const superblock_on_media& said) noexcept;
    /// `crashed`: the heap was not closed.
    void set_recovered(const superblock_on_media& found, bool crashed) noexcept;
    [[nodiscard]] bool recovered() const noexcept { return recovered_; }

    void set_frontier(base::pages frontier) noexcept;
    void set_base_address(const std::byte* address) noexcept;

    /// Durable on return.
    base::result<void> write(heap_state state, change by);
    base::result<void> write_size(change by) override;
    /// Space for a commit that only frees; comes after mark_running().
    base::result<void> reserve_log(base::pages frontier);
    base::result<void> mark_running() override;
    /// Durability `atomic` or `collect`; counts the recovery.
    base::result<void> begin_session(const std::byte* base_address, change by);

    [[nodiscard]] superblock_on_media next(const std::byte* base_address, base::pages frontier,
                                           std::uint64_t objects_size) const;
    /// What is in the log; media say it from the next checkpoint on.
    void adopt(const superblock_on_media& committed) noexcept;
    /// For a commit, which runs alone.
    [[nodiscard]] superblock_on_media& of_commit() noexcept { return now_; }
    /// May make a checkpoint.
    base::result<void> maintain_log();
    /// What went home becomes durable, and the log empty.
    base::result<void> checkpoint();
    /// Its files are gone, and others of the usual size take their place while the session goes on.
    base::result<void> end_log();

    base::result<void> close_cleanly();

    /// A crash in durability `collect`: a trace must find the live blocks first.
    [[nodiscard]] bool has_pending_tracing() const noexcept {
        return (now_.flags & flag_tracing) != 0 && now_.state != heap_state::clean;
    }

    [[nodiscard]] bool is_copied() const noexcept override { return copied_; }
    /// Finds out, by its file identity, whether the superblock is in the file that it was written for.
    base::result<void> check_whether_copied();
    /// The files have their space: they are no copies any more, durably.
    base::result<void> end_copy();

private:
    base::result<void> write(heap_state state, change by, bool durable);
    const heap_location& location_;
    commit_log& log_;
    superblock_on_media now_{};
    base::mutex mutex_;                ///< for changes while the heap is in use
    std::uint64_t file_identity_ = 0;  ///< of the superblock's file
    bool on_media_ = false;
    bool copied_ = false;
    bool recovered_ = false;
    bool recovery_counted_ = false;
};

}  // namespace holdfast::segment
