// Transactions over all that a program stores to an open heap, in durability `commit` (decision 38): plain stores,
// containers, objects with names, blocks.
//
// A thread that has the turn changes the heap, puts the record of its transaction into the log, and lets the turn go.
// Only then it waits for the record: one that waits writes for all, while the next one changes the heap. Nobody is told
// that a transaction is durable before it is, and nobody reads what is not.
//
// Invariants:
//   TX-5: while a transaction is open, its thread has the turn, and the gate of changes is closed for others.
//   TX-6: the last savepoint of the heap is that of the innermost transaction; the first is that to which the heap goes
//         back where the outermost cannot be committed.
//   TX-7: last_ is the last commit whose record is in the log. Records become durable in their order.
//   TX-8: a state that was captured is durable, or left to the next commit, before a transaction begins, a thread
//         reads, or anything is committed.
//   TX-9: what a participant has prepared is durable before the heap's record that has its word, counts only when that
//         record is durable, and is withdrawn where that record surely is not in the log (decision 59).
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <holdfast/ticket.hpp>

#include "api/transaction_participants.hpp"
#include "api/turn.hpp"
#include "base/result.hpp"
#include "segment/commit/commit_log.hpp"

namespace holdfast::detail {

class manager_core;

class plain_transactions {
public:
    explicit plain_transactions(manager_core& heap) noexcept : heap_(heap) {}
    plain_transactions(const plain_transactions&) = delete;
    plain_transactions& operator=(const plain_transactions&) = delete;
    ~plain_transactions() = default;

    // --- of this thread; for the innermost of its transactions ---

    /// Waits for the turn, or begins one within another. Throws error, std::bad_alloc.
    void begin();
    /// The outermost is durable when it returns. What it throws leaves the heap as at begin().
    void commit();
    /// Durable after sync() of the ticket, or with the next commit of any thread.
    [[nodiscard]] ticket commit_later();
    /// The heap is as at begin().
    void abort() noexcept;
    /// The outermost, too.
    void abort_all() noexcept;
    [[nodiscard]] bool is_mine() const noexcept { return turn_.is_mine() && depth_ != 0; }
    /// Throws error(invalid_argument) while this thread has a transaction open, or reads.
    void refuse_inside(std::string_view call) const;
    /// 1: the outermost of this thread's; 0: it has none open.
    [[nodiscard]] unsigned part() const noexcept { return is_mine() ? depth_ : 0; }
    /// Of all its parts.
    [[nodiscard]] transaction_participants& participants() noexcept { return participants_; }

    // --- of this thread, which has none open ---

    void begin_to_read();
    void end_reading() noexcept { turn_.unlock_shared(); }
    /// Throw what the commit throws.
    void sync(std::uint64_t number);
    void sync_all();

    /// Keeps transactions out, and has committed those that wait for it. Throws error(invalid_argument) within one.
    class pause {
    public:
        enum class of {
            threads,    ///< of this process
            processes,  ///< and those of others that share the heap
        };
        explicit pause(plain_transactions& owner, std::string_view call, of whom = of::processes);
        pause(const pause&) = delete;
        pause& operator=(const pause&) = delete;
        ~pause();

    private:
        plain_transactions& owner_;
    };
    /// During a pause: all is durable.
    void note_committed() noexcept;
    /// During a pause: the engine has taken the present state for a commit, which is durable after sync() of the
    /// ticket, or with the next commit of any thread.
    [[nodiscard]] ticket note_captured() noexcept;
    /// The heap is about to be closed.
    void forget() noexcept { last_ = {}; }

private:
    struct undone {
        std::uint64_t number;
        std::exception_ptr problem;
    };

    class open_turns;
    [[nodiscard]] static open_turns& of_this_thread();
    void begin_outermost();
    void commit_large_rest();
    std::uint64_t end_later() noexcept;
    void close_gate();
    void release() noexcept;
    void commit_heap();
    void keep_part();
    void prepare_participants();
    void end_undone() noexcept;
    void finish_captured();
    void try_to_finish_captured() noexcept;
    void finish_before_reading();
    void note_undone(std::uint64_t number, const std::exception_ptr& problem) noexcept;
    [[nodiscard]] segment::appended_commit last_commit() const;
    base::result<void> wait_for_last_commit() const;

    manager_core& heap_;
    turn turn_;
    // Of the thread that has the turn.
    unsigned depth_ = 0;
    bool is_gate_closed_ = false;
    transaction_participants participants_;

    mutable std::mutex results_mutex_;
    std::uint64_t ended_ = 0;      ///< transactions, committed or not
    std::uint64_t committed_ = 0;  ///< of these: durable as soon as last_ is
    segment::appended_commit last_;
    std::optional<std::uint64_t> captured_;  ///< transactions that had ended when a state was captured
    std::vector<undone> undone_;
};

}  // namespace holdfast::detail
