// While a heap is committed in durability `commit`, no other thread changes it by a call: calls that would wait, and
// transactions that are open have ended (slab/calls/gates.hpp), those of stores, too.
//
// Plain stores cannot be made to wait. One that comes meanwhile may be lost, and no other byte.
//
// A thread that has the lock of the objects, of the participants or of a participant's writers, or a change open, may
// wait for any other of them, so here all but the first are only tried, for some time, and given back where one fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "api/heap_participants.hpp"
#include "base/result.hpp"
#include "heap/heap.hpp"

namespace holdfast::detail {

/// For one thread.
class commit_pause {
public:
    /// `is_gate_closed`: this thread has closed the gate of changes, and will open it.
    commit_pause(heap::engine& of, heap_participants& participants, bool is_gate_closed = false) noexcept
        : heap_(of), all_(participants), was_closed_(is_gate_closed) {}
    commit_pause(const commit_pause&) = delete;
    commit_pause& operator=(const commit_pause&) = delete;
    ~commit_pause() { end(); }

    /// Fails with concurrent_modification where a change of another thread does not end for two seconds. May throw
    /// std::bad_alloc.
    [[nodiscard]] base::result<void> begin();
    /// Runs what commits the heap and returns a result, with what participants do before and behind it; `commit` may
    /// return without a commit, or fail behind one. Fails with poisoned where a participant cannot be committed.
    template <class Commit>
    [[nodiscard]] auto around(Commit& commit) -> decltype(commit()) {
        if (auto ready = prepare(); !ready) {
            return std::move(ready).error();
        }
        const std::uint64_t before = last_commit();
        try {
            auto done = commit();
            tell_participants(before, !done.ok());
            return done;
        } catch (...) {
            tell_participants(before, true);
            throw;
        }
    }

private:
    /// Null, or what another thread does.
    [[nodiscard]] const char* try_to_begin(std::chrono::steady_clock::time_point until);
    [[nodiscard]] base::result<void> prepare();
    void end() noexcept;
    [[nodiscard]] std::uint64_t last_commit() const noexcept { return heap_.files().superblock().sequence; }
    void tell_participants(std::uint64_t before, bool has_failed) noexcept;

    heap::engine& heap_;
    heap_participants& all_;
    heap_participants::named_participants participants_;  ///< whose writers are held
    std::unique_lock<std::recursive_mutex> objects_;
    const bool was_closed_;
    bool is_closed_ = false;  ///< the gate of changes, here
    std::string busy_store_;
};

}  // namespace holdfast::detail
