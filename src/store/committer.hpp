// How commits get to the file: records of the log, checkpoints, the space for both. For the one that has begun to
// write, but for syncs of the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "store/known_free_pages.hpp"
#include "store/stored_pages.hpp"
#include "store/write_set.hpp"

namespace holdfast::store_engine {

/// Of a store that is made or is closed; in a heap, of each half.
inline constexpr std::uint64_t least_log_pages = 4;
/// Of one that was written to, and rests.
inline constexpr std::uint64_t busy_log_pages = 256;

/// What takes pages. Some are held back for changes that leave the store no larger, some of these for the list of free
/// pages, without which no checkpoint ends (docs/store.md, "Space").
enum class claim_kind : std::uint8_t { grows, frees, ends };
struct claim {
    claim_kind kind = claim_kind::grows;
    std::uint64_t freed = 0;  ///< pages that the transaction has freed so far
    std::uint64_t bound = 0;  ///< of what frees: behind this page it may take as many, beyond the limit; 0: none
};

/// Why a checkpoint is written: for a commit, or no commit is expected soon, or none in this session, or a transaction
/// needs pages that only the checkpoint before keeps from use, or the last pages of the file are free.
enum class checkpoint_purpose : std::uint8_t { commit, rest, end, room, shorter };

class committer {
public:
    committer(stored_pages& pages, known_free_pages& free) noexcept : pages_(pages), free_(free) {}

    // --- commits ---

    void finish_pages(write_set& changes) const noexcept;
    /// Writes the record, where it fits: else a checkpoint is due.
    [[nodiscard]] status append(write_set& changes, bool& fits);
    struct checkpoint_kind {
        checkpoint_purpose purpose = checkpoint_purpose::commit;
        bool durable = false;                     ///< when it returns, even where it need not be
        std::span<const extent_on_media> lent{};  ///< pages of a transaction in progress: free to a recovery
    };
    [[nodiscard]] status checkpoint(write_set& changes, checkpoint_kind kind);

    // --- the log ---

    [[nodiscard]] status sync_log(std::uint64_t transaction);
    [[nodiscard]] status sync_log_now();
    [[nodiscard]] status begin_epoch();
    [[nodiscard]] status write_metas_again() const noexcept;

    // --- space (committer_space.cpp) ---

    void give_space_back(std::uint64_t next_page, bool at_rest) noexcept;
    /// Pages in a row, with blocks.
    [[nodiscard]] status take_pages(root& version, std::uint64_t count, std::uint64_t& start, const claim& by);
    /// Whether they may be holes, or the page cache may have them and holes as one, so that a store to them asks for
    /// more blocks than theirs.
    [[nodiscard]] bool may_lie_beside_holes(std::uint64_t start, std::uint64_t count) const noexcept;
    /// Pages that were taken, whose content means nothing.
    [[nodiscard]] status make_storable(std::uint64_t start, std::uint64_t count);
    [[nodiscard]] status has_room_for(write_set& changes);
    [[nodiscard]] status checkpoint_for_room(write_set& changes);
    void release_pages();

    // --- a store in a heap (engine_in_heap.cpp) ---

    /// After a recovery that began with this checkpoint, up to the accepted commit.
    void begin_in_heap(const meta_on_media& meta) noexcept;
    /// A commit of the heap failed, and may yet be durable: what either state needs stays, until one is kept.
    void keep_old_and_new() noexcept { keeps_old_and_new_ = true; }
    /// The heap's durable state has what is accepted.
    void keep_accepted() noexcept;
    [[nodiscard]] std::uint64_t next_sequence() const noexcept;

private:
    void apply_own(const write_set& changes);
    [[nodiscard]] bool is_synced(std::uint64_t transaction) const noexcept;
    [[nodiscard]] status write_free_list(root& version, meta_on_media& meta, std::span<const extent_on_media> lent);
    void free_last_page_of_list(std::vector<std::byte>& list, std::uint64_t last,
                                std::span<const extent_on_media> lent);
    [[nodiscard]] status set_log(root& version, meta_on_media& meta, checkpoint_kind kind, bool durable);
    [[nodiscard]] status renew_log(root& version, meta_on_media& meta, bool durable);
    [[nodiscard]] status shorten_log(const root& version, meta_on_media& meta, std::uint64_t most);
    [[nodiscard]] status clear_log(std::uint64_t start, std::uint64_t pages) noexcept;
    [[nodiscard]] status write_meta(meta_on_media& meta, bool durable);

    struct allowance;
    [[nodiscard]] std::uint64_t pages_behind(std::uint64_t next_page, std::uint64_t most) const noexcept;
    [[nodiscard]] allowance allowance_of(const root& version, const claim& by) const noexcept;
    /// Without the free pages before it.
    [[nodiscard]] std::uint64_t cut_end(std::uint64_t next_page) noexcept;
    /// Blocks for pages that were taken from the free ones.
    [[nodiscard]] status back_run(std::uint64_t start, std::uint64_t count);
    void back_lowest();
    [[nodiscard]] status take_run(root& version, std::uint64_t count, std::uint64_t& start, const allowance& may);
    [[nodiscard]] status back_pages(const root& version, std::uint64_t wanted, const allowance& may);
    [[nodiscard]] status back_free_pages(std::uint64_t wanted);
    [[nodiscard]] status grow(std::uint64_t next_page, const allowance& may) noexcept;
    void collect_snapshots(std::uint64_t checkpoint, std::uint64_t base);

    void raise_base() noexcept;
    [[nodiscard]] std::uint64_t log_born() const noexcept;

    stored_pages& pages_;
    known_free_pages& free_;
    std::vector<std::byte> record_;
    std::uint64_t taken_pages_ = 0;  ///< by this process since the last checkpoint
    std::vector<std::uint64_t> snapshots_;
    bool holes_refused_ = false;  ///< the file system had no blocks for free pages
    /// In a heap: what its durable state accepts, and the checkpoint that a recovery to there begins with.
    struct base_checkpoint {
        std::uint64_t sequence = 0;
        std::uint64_t transaction = 0;
    };
    std::atomic<std::uint64_t> kept_{0};
    base_checkpoint base_;
    bool keeps_old_and_new_ = false;  ///< the last checkpoint may be needed, and the one before, too
};

}  // namespace holdfast::store_engine
