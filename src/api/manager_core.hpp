// The core of a manager: an engine, and the translation of failures to exceptions.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/manager.hpp>

#include "api/commit_pause.hpp"
#include "api/heap_life.hpp"
#include "api/heap_participants.hpp"
#include "api/pending_commits.hpp"
#include "api/plain_transactions.hpp"
#include "api/process_turns.hpp"
#include "heap/heap.hpp"
#include "heap/upkeep_thread.hpp"

namespace holdfast {

[[noreturn]] void throw_failure(const base::failure& what);
/// Throws holdfast::error for a caller's mistake (invalid_argument, wrong_process, read_only), else
/// holdfast::bad_alloc. `path`: the heap's, for a failure that names none.
[[noreturn]] void throw_allocation_failure(base::failure what, const std::string& path);
/// To the error handler. `path`: the heap's, for a failure that names none.
void report_failure(const base::failure& what, const std::string& path = {}) noexcept;

[[nodiscard]] inline protocol_counters protocol_counters_of(const lane::lane_statistics& all) noexcept {
    return {all.records,     all.fences,        all.flushed_lines,         all.reflushes, all.media_bytes,
            all.checkpoints, all.checkpoint_ns, all.longest_checkpoint_ns, all.waits,     all.lanes};
}

template <class T>
T value_or_throw(base::result<T> outcome) {
    if (!outcome) {
        throw_failure(outcome.error());
    }
    return std::move(outcome).value();
}
inline void value_or_throw(base::result<void> outcome) {
    if (!outcome) {
        throw_failure(outcome.error());
    }
}

namespace detail {

/// Nothing where the name is not mangled as the ABI says.
[[nodiscard]] std::optional<std::string> readable_type(const std::string& name);
[[noreturn, gnu::cold]] void throw_closed();
[[noreturn, gnu::cold]] void throw_moved_from();
[[noreturn, gnu::cold]] void throw_read_only(const heap::engine& engine, std::string_view operation);
/// Throws error(read_only).
inline void refuse_read_only(const heap::engine& engine, std::string_view operation) {
    if (engine.read_only()) [[unlikely]] {
        throw_read_only(engine, operation);
    }
}

[[noreturn, gnu::cold]] void throw_refused_free(const heap::engine& engine);
/// Empty if `visitor` is.
[[nodiscard]] heap::pointer_visitor inner_visitor(block_visitor visitor);
/// Empty if open_options::before_trace is.
[[nodiscard]] heap::before_trace_call calls_before_trace(const open_options& options);
/// Of engine::last_failure(): error where an address is not the start of an allocated block, else as
/// throw_allocation_failure().
[[noreturn, gnu::cold]] void throw_last_failure(const heap::engine& engine);
/// Throws error(bad_address).
inline void free_or_throw(heap::engine& engine, void* block) {
    if (!engine.try_deallocate(block)) [[unlikely]] {
        throw_refused_free(engine);
    }
}

inline const slab::fast_path* fast_path_copy::operator->() const noexcept {
    return std::launder(reinterpret_cast<const slab::fast_path*>(blocks_));
}

class open_ranges;

class manager_core {
public:
    /// `turns`: of a heap that processes change by turns, with the turn; null of any other. `upkeep`: may be null.
    manager_core(std::unique_ptr<heap::engine> opened, bool commit_on_close, bool check_transactions,
                 std::unique_ptr<process_turns> turns = nullptr, std::unique_ptr<heap::upkeep_thread> upkeep = nullptr);
    manager_core(const manager_core&) = delete;
    manager_core& operator=(const manager_core&) = delete;
    ~manager_core();
    /// end_of_core in a child of fork.
    void leave_to_parent() noexcept;

    /// Throws error(invalid_argument) after close().
    [[nodiscard]] heap::engine& engine() const {
        if (engine_ == nullptr) [[unlikely]] {
            throw_closed();
        }
        return *engine_;
    }
    /// fast_path::of_no_heap() for a closed heap.
    [[nodiscard]] fast_path_copy fast_path() const noexcept {
        return fast_path_copy(engine_ == nullptr || turns_ != nullptr ? slab::fast_path::of_no_heap()
                                                                      : *engine_->fast_path());
    }
    /// While a thread waits for the turn of processes there may be no engine.
    [[nodiscard]] bool is_open() const noexcept { return turns_ != nullptr ? !turns_->is_over() : engine_ != nullptr; }
    /// Null without open_options::check_transactions.
    [[nodiscard]] open_ranges* ranges() const noexcept { return ranges_.get(); }
    [[nodiscard]] pending_commits& pending() noexcept { return pending_; }
    /// Carries out what commit_later() left in all threads. Throws error(wrong_process) in a child of fork, which has
    /// neither the memory nor the threads that may have the locks of what waits.
    void sync_pending();
    [[nodiscard]] heap_participants& participants() noexcept { return participants_; }
    /// Runs what commits the heap and returns a result, with what participants do before and behind it; in durability
    /// `commit` while no change of another thread is open, else with concurrent_modification.
    template <class Commit>
    [[nodiscard]] auto around_commit(Commit commit) -> decltype(commit()) {
        if (is_shared()) {
            const plain_transactions::pause turn(plain_, "commit");
            return commit_beside(commit, false);
        }
        if (auto own = engine().files().location().check_process(); !own) {
            return std::move(own).error();
        }
        if (engine().changes() == nullptr) {
            if (auto ready = participants_.before_commit(path()); !ready) {
                return std::move(ready).error();
            }
            return commit();
        }
        const plain_transactions::pause turn(plain_, "commit");
        return commit_beside(commit, false);
    }
    /// Durability `commit`, for the thread that has the turn. Durable when what it returns is. Throws what fails.
    segment::appended_commit commit_inside(bool is_gate_closed);
    [[nodiscard]] plain_transactions& plain() noexcept { return plain_; }
    /// Processes change the heap by turns.
    [[nodiscard]] bool is_shared() const noexcept { return turns_ != nullptr; }
    /// Fails with wrong_process in a child of fork. Another thread may have the turn.
    [[nodiscard]] base::result<void> check_process() const {
        return is_shared() ? turns_->check_process() : engine().check_process();
    }
    [[nodiscard]] bool wait_for_change(std::chrono::nanoseconds longest) const {
        if (!is_open()) {
            throw_closed();
        }
        return is_shared() ? turns_->wait_for_change(longest) : engine().files().readers().wait_for_change(longest);
    }
    /// For the thread that has the threads' turn: that of the processes, too. Where it throws, it has neither.
    void take_turn();
    void give_turn() noexcept;
    /// The watch may outlive the heap.
    [[nodiscard]] heap_life::watch life() const noexcept { return life_.begin_watch(); }
    [[nodiscard]] bool commit_on_close() const noexcept { return commit_on_close_; }
    [[nodiscard]] const holdfast::segment_manager* handle() const noexcept { return &handle_; }
    [[nodiscard]] const std::string& path() const noexcept;
    void close(bool commit_changes);
    void commit();
    /// As manager::commit_later().
    [[nodiscard]] ticket commit_later();
    /// The commit that is durable.
    void note_commit(const segment::commit_statistics& done) noexcept;
    refresh_report refresh();
    [[nodiscard]] const commit_report& last_report() const noexcept { return report_; }

    /// Never null.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment, std::uint32_t type);
    void deallocate(void* address);

    [[nodiscard]] std::uint64_t offset_of(const void* address) const;
    [[nodiscard]] object_info describe(const heap::object_entry& entry) const;
    [[nodiscard]] std::vector<object_info> list(instance_kind kind) const;
    [[nodiscard]] std::size_t count(instance_kind kind) const;

private:
    [[nodiscard]] base::result<void> close_engine(bool commit_changes);
    [[nodiscard]] base::result<void> close_shared(bool commit_changes);
    [[nodiscard]] refresh_report refresh_shared();
    template <class Commit>
    [[nodiscard]] auto commit_beside(Commit commit, bool is_gate_closed) -> decltype(commit()) {
        commit_pause others(*engine_, participants_, is_gate_closed);
        if (auto ready = others.begin(); !ready) {
            return std::move(ready).error();
        }
        const std::uint64_t before = engine_->files().superblock().sequence;
        auto done = others.around(commit);
        if (!is_gate_closed && engine_->files().superblock().sequence != before) {
            plain_.note_committed();
        }
        return done;
    }

    std::unique_ptr<heap::engine> engine_;
    std::unique_ptr<process_turns> turns_;  ///< null: of this process alone
    std::unique_ptr<heap::upkeep_thread> upkeep_;
    heap_life life_;
    std::unique_ptr<open_ranges> ranges_;
    pending_commits pending_;
    heap_participants participants_;
    plain_transactions plain_{*this};
    holdfast::segment_manager handle_;
    bool commit_on_close_;
    /// In open_heaps and, where the heap is open read-only, open_readers.
    class open_count {
    public:
        explicit open_count(bool is_reader) noexcept : is_reader_(is_reader) { change(1); }
        open_count(const open_count&) = delete;
        open_count& operator=(const open_count&) = delete;
        ~open_count() { end(); }
        void end() const noexcept { change(~std::uint32_t{0}); }

    private:
        void change(std::uint32_t by) const noexcept {
            open_heaps.fetch_add(by, std::memory_order_relaxed);
            if (is_reader_) {
                open_readers.fetch_add(by, std::memory_order_relaxed);
            }
        }
        bool is_reader_;
    } counted_;
    commit_report report_;
};

/// Not inline: the fast path of heap_blocks::allocate() then needs no stack frame.
[[nodiscard, gnu::noinline]] void* allocate_slow(heap_blocks& heap, std::size_t bytes);

}  // namespace detail
}  // namespace holdfast
