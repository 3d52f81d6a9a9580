// holdfast::transact_scope: a transaction over everything, in durability `commit`, for those who cannot pass a function
// to manager::transact(), and holdfast::read_scope, which keeps such transactions out.
//
//     holdfast::transact_scope all(heap);
//     (*map)[key].push_back(1);              // plain code: stores, containers, construct(), destroy()
//     all.commit();                          // durable; a destructor without it takes everything back
//
// Thread safety: one thread has a heap's turn at a time. Others wait in the order in which they came. A scope ends in
// the thread that began it, before those that it began earlier.
#pragma once

#include <holdfast/detail/heap_watch.hpp>
#include <holdfast/detail/needs_cxx20.hpp>
#include <holdfast/ticket.hpp>

namespace holdfast {

class manager;

namespace detail {
class manager_core;
}

class transact_scope {
public:
    /// Waits for the turn; begins a part of its own where this thread has it: the part's abort drops it alone. Throws
    /// error(unsupported) in other durabilities, error(read_only), error(wrong_process), error(invalid_argument) within
    /// read(), error(concurrent_modification) where a call or transaction of another thread does not end for two
    /// seconds, bad_alloc.
    explicit transact_scope(manager& heap);
    transact_scope(const transact_scope&) = delete;
    transact_scope& operator=(const transact_scope&) = delete;
    ~transact_scope() { abort(); }

    /// Makes what was done since the begin durable, with what was stored before it, all or nothing; a part belongs to
    /// the one around it from then on. Where it throws, the heap is as it was at the begin: bad_alloc;
    /// error(no_space), after which the heap goes on; what else manager::commit() throws; store_error where a store
    /// that takes part cannot. After error(poisoned), only the next open tells.
    void commit();
    /// As commit(), without waiting: durable after manager::sync() of the ticket, or with the next commit of any
    /// thread. Throws error(invalid_argument) in a part.
    [[nodiscard]] ticket commit_later();
    /// Memory, blocks and names are as they were at the begin. Needs no memory.
    void abort() noexcept;
    [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr; }

private:
    [[nodiscard]] detail::manager_core& core() const;

    detail::manager_core* core_;
    detail::heap_watch life_;
};

/// While it exists, no transaction over everything of another thread is open. Scopes of several threads, and several of
/// one thread, exist side by side.
class read_scope {
public:
    /// Throws error(wrong_process), std::bad_alloc.
    explicit read_scope(const manager& heap);
    read_scope(const read_scope&) = delete;
    read_scope& operator=(const read_scope&) = delete;
    ~read_scope();

private:
    detail::manager_core* core_;  ///< null: within a transaction of this thread
};

namespace detail {
/// Throws error(unsupported).
[[noreturn]] void refuse_plain_code(const manager& heap);
}  // namespace detail

}  // namespace holdfast
