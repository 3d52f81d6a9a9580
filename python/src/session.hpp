// session: a heap that Python has open: its lock, its transaction, and what Python holds of it. No function here calls
// Python; the caller lets go of the interpreter's lock where a call may wait.
//
// Thread safety: all functions by any number of threads. The lock is recursive and is held by the thread that has begun
// a transaction until it ends it, so that other threads wait for it. What else runs in that thread (another task of
// asyncio, another greenlet) is outside of the transaction: it reads what was there before, and changes nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/manager.hpp>
#include <holdfast/ticket.hpp>
#include <holdfast/transact_scope.hpp>

#include "contents.hpp"
#include "holders.hpp"
#include "levels.hpp"

namespace holdfast::python {

class session;

/// Of a session. Those who wait for it look at signals in between: wait_for_lock().
using session_mutex = std::recursive_timed_mutex;

/// One holder of an object: keeps the object in the heap, and for an array the heap mapped.
class held_object {
public:
    /// `place`: null where session::follows() is false.
    held_object(std::shared_ptr<session> of, void* object, kind what, std::shared_ptr<const found_at> place);
    held_object(const held_object&) = delete;
    held_object& operator=(const held_object&) = delete;
    ~held_object();

    [[nodiscard]] const std::shared_ptr<session>& owner() const noexcept { return owner_; }
    [[nodiscard]] kind what() const noexcept { return what_; }
    /// Throws error(not_found) where the transaction that made the object was aborted, or another process has removed
    /// it. Under the session's lock.
    [[nodiscard]] void* object() const;
    /// Of what is found in the object, a dict where `key` is not null, else a list.
    [[nodiscard]] std::shared_ptr<const found_at> place_within(const document* key, std::uint64_t index) const;
    template <class T>
    [[nodiscard]] T& as() const {
        return *static_cast<T*>(object());
    }
    [[nodiscard]] bool is(const held_object& other) const noexcept { return hold_ == other.hold_; }

private:
    std::shared_ptr<session> owner_;
    std::shared_ptr<hold> hold_;
    kind what_;
};

struct session_options {
    open_options heap;
    char mode = 'a';  ///< 'r' read-only, 'w' open for writing, 'a' open or create, 'x' create
    /// Whether a signal has come that ends a wait for other processes' turns.
    bool (*gives_up)() noexcept = nullptr;
};

class session : public std::enable_shared_from_this<session> {
public:
    session(const std::string& path, const session_options& options);
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session();

    [[nodiscard]] session_mutex& lock() const noexcept { return *mutex_; }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    [[nodiscard]] bool read_only() const noexcept { return read_only_; }
    /// Whether processes change the heap by turns.
    [[nodiscard]] bool shared() const noexcept { return shared_; }
    /// Whether the heap changes by what other processes do, so that what is held has to be looked at then.
    [[nodiscard]] bool follows() const noexcept { return shared_ || read_only_; }
    /// Whether a change waits for other processes.
    [[nodiscard]] bool waits_for_turn() const noexcept { return shared_ && number_ == 0; }
    /// Whether this process is a child of the one that opened the heap.
    [[nodiscard]] bool is_child() const noexcept { return is_child_; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    // All below: under the lock.
    [[nodiscard]] manager& heap();
    /// The heap, where this process can read it.
    [[nodiscard]] manager& to_read();
    /// What the heap holds, for reading. Throws error where the heap is closed, or is one of the parent's that this
    /// process cannot read.
    [[nodiscard]] contents& reading();
    /// Runs `change` in the open transaction, or in one of its own, which has the turn in a heap that processes share,
    /// and is durable then. A failure in the open transaction makes its end fail.
    void write(const std::function<void(contents&)>& change);
    [[nodiscard]] values::root& root() const { return *root_; }
    /// The dict that Python sees as the heap.
    [[nodiscard]] value entries();

    /// Whether a transaction covers the elements of arrays, too, and looks for what was stored to them: it takes its
    /// time at the begin.
    [[nodiscard]] bool covers_arrays() const noexcept { return covers_arrays_; }
    /// `number` is that of no other transaction; `by_task`: a task of asyncio begins it. Within an open transaction it
    /// begins one whose abort drops it alone.
    void begin(std::uint64_t number = 1, bool by_task = false);
    /// Whether this thread has begun the open transactions. Without the lock, as the four below.
    [[nodiscard]] bool is_owner() const noexcept { return owner_ == std::this_thread::get_id(); }
    /// The number of the innermost open transaction; 0 where there is none.
    [[nodiscard]] std::uint64_t transaction_number() const noexcept { return number_; }
    [[nodiscard]] bool is_of_task() const noexcept { return by_task_; }
    [[nodiscard]] bool in_transaction() const noexcept { return number_ != 0; }
    /// For the thread that has begun it.
    [[nodiscard]] std::uint64_t outermost_number() const noexcept { return levels_->outermost(); }
    [[nodiscard]] bool has_level(std::uint64_t number) const noexcept { return levels_->has(number); }
    /// Commits or aborts the transaction of that number, which this thread has begun; those within it that are open
    /// make that an abort. In durability `commit` the outermost is durable then; without `durable`, behind sync() of
    /// the ticket, or with the next commit.
    ticket end(std::uint64_t number, bool commit, bool durable);
    /// Whether the open transaction has made the object.
    [[nodiscard]] bool has_made(const void* object) const { return contents_->space.made().contains(object); }
    /// Counts aborted transactions, and changes by other processes: what was found meanwhile may be gone.
    [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_; }

    void pin(const void* begin, std::size_t bytes);
    void unpin(const void* begin, std::size_t bytes);
    void commit();
    /// manager::commit_later().
    [[nodiscard]] ticket commit_later();
    /// manager::sync(). Not under the lock. Behind a close that has committed there is nothing to do.
    void sync(const ticket& of);
    void snapshot(const std::string& destination);
    [[nodiscard]] std::vector<std::string> check(bool pages);
    /// manager::refresh(). What Python holds is gone then where another process has removed it.
    std::uint64_t refresh();
    [[nodiscard]] std::uint64_t version();
    /// manager::wait_for_change(), for a part of a second at most. Not under the lock.
    [[nodiscard]] bool wait_for_change(std::chrono::milliseconds longest);
    shrink_report shrink(std::uint64_t target);
    /// Commits (unless told otherwise), and unmaps the heap once no array of it is held any more.
    void close(bool commit);
    [[nodiscard]] std::uint64_t arrays_held() const;

    /// The arrays of a heap that was closed beside them: where each was found then.
    [[nodiscard]] std::vector<std::string> arrays_in_use() const;
    /// The directory of the heap, whatever path leads to it.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> identity() const noexcept { return identity_; }

    /// In a child of fork(), before anything else: nobody holds the lock there.
    void forget_parent();

private:
    friend class held_object;
    friend class outside_view;

    void let_go(const std::shared_ptr<hold>& of) noexcept;
    void expect_open() const;
    void expect_writer() const;
    void expect_no_transaction(const char* call) const;
    void prepare_root();
    void make_root();
    void apply(transaction& within, const std::function<void(contents&)>& change);
    [[nodiscard]] std::unique_ptr<transact_scope> take_turn();
    void write_in_turn(const std::function<void(contents&)>& change);
    void note_turn();
    void note_end_of_turn() { seen_version_ = manager_->version(); }
    void sweep_if_needed();
    void sweep_in_turn(contents& within);
    void sweep(bool all);
    void expect_inside() const;
    void abort_level();
    void leave_level() noexcept;
    template <class Call>
    auto while_open(Call&& call);
    void let_waiting_threads_end();
    void unmap();
    [[nodiscard]] std::vector<std::string> find_arrays_in_use();

    std::string path_;
    bool read_only_;
    bool shared_;
    bool (*gives_up_)() noexcept;
    std::atomic<bool> closed_{false};          ///< set while nobody lets go
    std::atomic<bool> all_is_durable_{false};  ///< close() has committed
    bool is_child_ = false;
    std::unique_ptr<session_mutex> mutex_ = std::make_unique<session_mutex>();
    std::optional<manager> manager_;
    std::mutex waiting_mutex_;  ///< of threads in calls without the lock: close() and refresh() wait for them
    std::condition_variable nobody_waits_;
    unsigned waiting_ = 0;
    std::unique_ptr<contents> contents_;
    values::root* root_ = nullptr;
    bool covers_arrays_ = false;
    std::optional<levels> levels_;
    std::atomic<std::thread::id> owner_;  ///< of the transactions
    std::atomic<std::uint64_t> number_ = 0;
    std::atomic<bool> by_task_ = false;
    bool outside_ = false;  ///< what the owner runs now is outside of the transaction
    std::uint64_t aborts_ = 0;
    std::uint64_t seen_version_ = 0;  ///< of a heap that processes share: what this one has left or seen

    mutable holders holders_;  ///< its lock is the innermost; for what destructors of holders change
    std::vector<std::string> arrays_in_use_;
    std::pair<std::uint64_t, std::uint64_t> identity_;
};

/// While it lives, the thread that has begun the transaction is outside of it, where `applies`.
class outside_view {
public:
    outside_view(session& of, bool applies) noexcept : of_(applies && !of.outside_ ? &of : nullptr) {
        if (of_ != nullptr) {
            of_->outside_ = true;
            of_->contents_->space.suspend();
        }
    }
    outside_view(const outside_view&) = delete;
    outside_view& operator=(const outside_view&) = delete;
    ~outside_view() {
        if (of_ != nullptr) {
            of_->contents_->space.resume();
            of_->outside_ = false;
        }
    }

private:
    session* of_;
};

}  // namespace holdfast::python
