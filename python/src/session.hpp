// session: a heap that Python has open: its lock, its transaction, and what Python holds of it. No function here calls
// Python; the caller lets go of the interpreter's lock where a call may wait.
//
// Thread safety: all functions by any number of threads. The lock is recursive and is held by the thread that has begun
// a transaction until it ends it, so that other threads wait for it.
#pragma once

#include <atomic>
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
#include <holdfast/transaction.hpp>

#include "contents.hpp"

namespace holdfast::python {

/// An object of the heap that Python holds, counted over all its holders.
struct hold {
    const void* object = nullptr;
    std::uint64_t holders = 0;
    bool is_array = false;
    bool is_gone = false;  ///< was made by a transaction that was aborted
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

    void begin();
    /// Whether this thread has begun the open transaction. Without the lock.
    [[nodiscard]] bool is_owner() const noexcept { return owner_ == std::this_thread::get_id(); }
    /// Commits or aborts the transaction. With `durable`, durability `commit` makes the heap durable, too.
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
    /// Commits (unless told otherwise), and unmaps the heap once no array of it is held any more.
    void close(bool commit);
    [[nodiscard]] std::uint64_t arrays_held() const;

    /// In a child of fork(), before anything else: nobody holds the lock there.
    void forget_parent();

private:
    friend class held_object;

    std::shared_ptr<hold> hold_object(void* object, bool is_array);
    void let_go(const std::shared_ptr<hold>& of) noexcept;
    [[nodiscard]] bool is_held(const void* object) const;
    void expect_open() const;
    void expect_writer() const;
    void prepare_root();
    void sweep_if_needed();
    void sweep(bool all);
    void abort();
    void unmap();

    std::string path_;
    bool read_only_;
    std::atomic<bool> closed_{false};  ///< set under holds_mutex_
    bool is_child_ = false;
    std::unique_ptr<std::recursive_mutex> mutex_ = std::make_unique<std::recursive_mutex>();
    std::optional<manager> manager_;
    std::unique_ptr<contents> contents_;
    values::root* root_ = nullptr;
    std::optional<transaction> transaction_;
    std::atomic<std::thread::id> owner_;  ///< of the transaction
    bool spoiled_ = false;
    std::uint64_t aborts_ = 0;

    mutable std::mutex holds_mutex_;  ///< innermost; for what destructors of holders change
    std::unordered_map<const void*, std::shared_ptr<hold>> holds_;
    std::uint64_t arrays_held_ = 0;
    bool was_let_go_ = false;  ///< something of `detached` may be free
};

}  // namespace holdfast::python
