// Transactions that were committed and are not durable yet (transaction::commit_later()), in the domain `disk`.
//
// Nothing is stored in place before its record is durable (LANE-2), so these changes wait in DRAM, and a sync carries
// out all that a thread has waiting as one group: one write of the log. Until then only transactions of the same thread
// see them, whose copies of objects are made from the waiting words.
//
// Invariants:
//   TX-3: the waiting words of a batch are sorted by their offsets, and none lies in a block that the batch has made.
//   TX-4: after a failure of add() or sync() the batch is as before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include <holdfast/ticket.hpp>

#include "base/mutex.hpp"
#include "heap/operations/destination_operations.hpp"

namespace holdfast::detail {

class manager_core;

/// Larger blocks are written back before the group.
inline constexpr std::uint64_t content_in_group = 512;

struct ticket_access {
    [[nodiscard]] static ticket make(std::uint64_t number, std::uint64_t batch) noexcept { return {number, batch}; }
    [[nodiscard]] static std::uint64_t number_of(const ticket& of) noexcept { return of.number_; }
    [[nodiscard]] static std::uint64_t batch_of(const ticket& of) noexcept { return of.batch_; }
};

/// Of one thread, since its last sync. Any thread may sync; the rest is for its own thread.
class pending_batch {
public:
    explicit pending_batch(manager_core& heap, std::uint64_t index);

    /// Adds a transaction: blocks that become allocated and freed, and words, of which none comes twice. Carries out
    /// what waits where both together are too much for one group, which the transaction alone is not. Throws
    /// error(bad_address) where a block that is freed is none, or was freed before; std::bad_alloc; what sync() throws.
    [[nodiscard]] ticket add(const heap::group_request& changes) HF_EXCLUDES(mutex_);
    /// Makes the transactions up to this number durable, with all that wait. Throws what a commit throws.
    void sync(std::uint64_t number) HF_EXCLUDES(mutex_);
    void sync() HF_EXCLUDES(mutex_) { sync(~std::uint64_t{0}); }

    /// Reads bytes of the heap from this offset on as after a sync; a sync of another thread comes before or after.
    /// `to` has room for whole words.
    void read(std::uint64_t begin, std::size_t bytes, std::uint64_t* to) const HF_EXCLUDES(mutex_);
    /// The next transaction had better sync first.
    [[nodiscard]] bool is_large() const HF_EXCLUDES(mutex_);
    [[nodiscard]] bool has(std::uint64_t begin, std::uint64_t bytes) const HF_EXCLUDES(mutex_);
    /// In a block that a waiting transaction has made.
    [[nodiscard]] bool has_made(std::uint64_t begin, std::uint64_t bytes) const HF_EXCLUDES(mutex_);

private:
    struct word {
        std::uint64_t offset;
        std::uint64_t value;
        [[nodiscard]] bool operator<(const word& other) const noexcept { return offset < other.offset; }
    };
    [[nodiscard]] std::uint64_t* find_made(std::uint64_t offset) const HF_REQUIRES(mutex_);
    [[nodiscard]] std::vector<void*> freed_with(std::span<void* const> more, std::vector<std::uint64_t>& dropped)
        HF_REQUIRES(mutex_);
    [[nodiscard]] std::vector<word> words_with(std::span<const heap::data_piece> more) HF_REQUIRES(mutex_);
    [[nodiscard]] std::vector<heap::data_piece> pieces() const HF_REQUIRES(mutex_);
    [[nodiscard]] bool write_back_large_blocks() const HF_REQUIRES(mutex_);
    void carry_out() HF_REQUIRES(mutex_);

    manager_core& heap_;
    const std::uint64_t index_;
    mutable base::mutex mutex_;
    std::shared_ptr<heap::held_blocks> made_ HF_GUARDED_BY(mutex_);
    std::vector<void*> freed_ HF_GUARDED_BY(mutex_);
    std::vector<word> words_ HF_GUARDED_BY(mutex_);
    std::uint64_t added_ HF_GUARDED_BY(mutex_) = 0;
    std::uint64_t durable_ HF_GUARDED_BY(mutex_) = 0;
};

/// The batches of an open heap. Thread-safe.
class pending_commits {
public:
    /// Batches only become more.
    [[nodiscard]] std::size_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool is_used() const noexcept { return count() != 0; }
    /// Null where the thread has none.
    [[nodiscard]] std::shared_ptr<pending_batch> find_own() const HF_EXCLUDES(mutex_);
    [[nodiscard]] std::shared_ptr<pending_batch> find_or_make_own(manager_core& heap) HF_EXCLUDES(mutex_);
    /// Null where no batch of this heap has made it.
    [[nodiscard]] std::shared_ptr<pending_batch> find(std::uint64_t batch) const HF_EXCLUDES(mutex_);
    void sync_all() HF_EXCLUDES(mutex_);

private:
    std::atomic<std::size_t> count_{0};
    mutable base::mutex mutex_;
    std::vector<std::shared_ptr<pending_batch>> batches_ HF_GUARDED_BY(mutex_);
    /// A thread that takes over the number of one that has ended takes over its batch.
    std::unordered_map<std::thread::id, std::size_t> by_thread_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::detail
