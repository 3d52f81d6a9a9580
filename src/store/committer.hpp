// How commits get to the file, below the engine (engine.hpp): records of the log, checkpoints, the space for both. For
// the one that has begun to write, but for syncs of the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "store/stored_pages.hpp"
#include "store/write_set.hpp"

namespace holdfast::store_engine {

/// Of a store that is made or settles; in a heap, of each half.
inline constexpr std::uint64_t least_log_pages = 256;

class committer : public stored_pages {
protected:
    ~committer() = default;

    void finish_pages(write_set& changes) const noexcept;
    void apply_own(const write_set& changes);
    [[nodiscard]] bool append(write_set& changes);
    [[nodiscard]] bool is_synced(std::uint64_t transaction) const noexcept;
    [[nodiscard]] status sync_log(std::uint64_t transaction);
    [[nodiscard]] status sync_log_now();
    void void_lost_records() noexcept;
    [[nodiscard]] status write_metas_again() const noexcept;
    struct checkpoint_kind {
        bool settle;   ///< no commit is expected soon: the log becomes short, space goes back
        bool durable;  ///< when it returns, even where it need not be
    };
    [[nodiscard]] status checkpoint(write_set& changes, checkpoint_kind kind);
    [[nodiscard]] status write_free_list(root& version, meta_on_media& meta);
    [[nodiscard]] status renew_log(root& version, meta_on_media& meta, bool durable);
    [[nodiscard]] status shorten_log(const root& version, meta_on_media& meta);
    [[nodiscard]] status write_meta(meta_on_media& meta, bool durable);
    void give_space_back(std::uint64_t next_page, bool settle) noexcept;
    [[nodiscard]] status take_pages(root& version, std::uint64_t count, std::uint64_t& start);
    [[nodiscard]] status grow(std::uint64_t next_page);
    void release_pages();
    [[nodiscard]] std::uint64_t quota_pages() const noexcept;
    /// Whether a checkpoint must be durable before what it replaces is gone.
    [[nodiscard]] bool must_be_durable() const noexcept;
    status fail(status what) noexcept;

    /// Other processes learn of commits from the metas alone.
    [[nodiscard]] bool reads_metas() const noexcept { return shared_.is_private() && !options_.in_heap; }
    // Of a store in a heap (engine_in_heap.cpp).
    void raise_base() noexcept;
    [[nodiscard]] std::uint64_t next_sequence() const noexcept;
    [[nodiscard]] std::uint64_t log_born() const noexcept;
    [[nodiscard]] std::uint64_t log_parts() const noexcept { return options_.in_heap ? 2 : 1; }

    bool in_memory_ = false;         ///< no sync makes anything more durable
    std::uint64_t taken_pages_ = 0;  ///< by this process since the last checkpoint
    std::vector<std::byte> record_;
    std::vector<std::uint64_t> snapshots_;

    /// In a heap: what its durable state accepts, and the checkpoint that a recovery to there begins with.
    struct base_checkpoint {
        std::uint64_t sequence = 0;
        std::uint64_t transaction = 0;
    };
    std::atomic<std::uint64_t> kept_{0};
    base_checkpoint base_;
    bool keeps_both_ = false;  ///< the last checkpoint may be needed, and the one before, too
};

}  // namespace holdfast::store_engine
