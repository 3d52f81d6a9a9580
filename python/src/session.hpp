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
#include <unordered_map>
#include <vector>

#include <holdfast/manager.hpp>
#include <holdfast/transact_scope.hpp>
#include <holdfast/transaction.hpp>

#include "contents.hpp"

namespace holdfast::python {

/// An object of the heap that Python holds, counted over all its holders.
struct hold {
    const void* object = nullptr;
    std::uint64_t holders = 0;
    bool is_array = false;
    bool is_gone = false;  ///< was made by a transaction that was aborted, or found before a refresh
};

class session;

/// One holder of an object: keeps the object in the heap, and for an array the heap mapped.
class held_object {
public:
    held_object(std::shared_ptr<session> of, void* object, kind what);
    held_object(const held_object&) = delete;
    held_object& operator=(const held_object&) = delete;
    ~held_object();

    [[nodiscard]] const std::shared_ptr<session>& owner() const noexcept { return owner_; }
    [[nodiscard]] kind what() const noexcept { return what_; }
    /// Throws error(not_found) where the transaction that made the object was aborted. Under the session's lock.
    [[nodiscard]] void* object() const;
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
};

class session : public std::enable_shared_from_this<session> {
public:
    session(const std::string& path, const session_options& options);
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session();

    [[nodiscard]] std::recursive_mutex& lock() const noexcept { return *mutex_; }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    [[nodiscard]] bool read_only() const noexcept { return read_only_; }
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
    /// Runs `change` in the open transaction, or in one of its own. A failure in the open transaction makes its end
    /// fail.
    void write(const std::function<void(contents&)>& change);
    [[nodiscard]] values::root& root() const { return *root_; }
    /// The dict that Python sees as the heap.
    [[nodiscard]] value entries();

    /// Whether a transaction covers the elements of arrays, too, and looks for what was stored to them: it takes its
    /// time at the begin.
    [[nodiscard]] bool covers_arrays() const noexcept { return covers_arrays_; }
    /// `number` is that of no other transaction; `by_task`: a task of asyncio begins it.
    void begin(std::uint64_t number = 1, bool by_task = false);
    /// Whether this thread has begun the open transaction. Without the lock, as the two below.
    [[nodiscard]] bool is_owner() const noexcept { return owner_ == std::this_thread::get_id(); }
    /// The number of the open transaction; 0 where there is none.
    [[nodiscard]] std::uint64_t transaction_number() const noexcept { return number_; }
    [[nodiscard]] bool is_of_task() const noexcept { return by_task_; }
    /// Commits or aborts the transaction. In durability `commit` it is durable then; without `durable`, with the next
    /// commit.
    void end(bool commit, bool durable);
    [[nodiscard]] bool in_transaction() const noexcept { return transaction_.has_value(); }
    /// Whether the open transaction has made the object.
    [[nodiscard]] bool has_made(const void* object) const { return contents_->space.made().contains(object); }
    /// Counts aborted transactions: what was made meanwhile may be gone.
    [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_; }

    void pin(const void* begin, std::size_t bytes);
    void unpin(const void* begin, std::size_t bytes);
    void commit();
    void snapshot(const std::string& destination);
    /// manager::refresh(). What Python holds but arrays is gone then, where there was a newer version.
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

    std::shared_ptr<hold> hold_object(void* object, bool is_array);
    void let_go(const std::shared_ptr<hold>& of) noexcept;
    [[nodiscard]] bool is_held(const void* object) const;
    void expect_open() const;
    void expect_writer() const;
    void prepare_root();
    void sweep_if_needed();
    void sweep(bool all);
    void expect_inside() const;
    void forget_made();
    void abort();
    void commit_transaction(bool durable);
    void let_waiting_threads_end();
    void unmap();
    [[nodiscard]] std::vector<std::string> find_arrays_in_use();

    std::string path_;
    bool read_only_;
    std::atomic<bool> closed_{false};  ///< set under holds_mutex_
    bool is_child_ = false;
    std::unique_ptr<std::recursive_mutex> mutex_ = std::make_unique<std::recursive_mutex>();
    std::optional<manager> manager_;
    std::mutex waiting_mutex_;  ///< of threads that wait for a change: close() and refresh() wait for them
    std::condition_variable nobody_waits_;
    unsigned waiting_ = 0;
    std::unique_ptr<contents> contents_;
    values::root* root_ = nullptr;
    bool covers_arrays_ = false;
    std::unique_ptr<transact_scope> all_;  ///< around `transaction_`, in durability `commit`
    std::optional<transaction> transaction_;
    std::atomic<std::thread::id> owner_;  ///< of the transaction
    std::atomic<std::uint64_t> number_ = 0;
    std::atomic<bool> by_task_ = false;
    bool outside_ = false;  ///< what the owner runs now is outside of the transaction
    bool spoiled_ = false;
    std::uint64_t aborts_ = 0;

    mutable std::mutex holds_mutex_;  ///< innermost; for what destructors of holders change
    std::unordered_map<const void*, std::shared_ptr<hold>> holds_;
    std::uint64_t arrays_held_ = 0;
    bool was_let_go_ = false;  ///< something of `detached` may be free
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
