// The turn of a heap that several processes change one after the other (docs/decisions/0043-writers-by-turns.md). Who
// has the turn is the heap's writer, and has the lock of every writer. Who has not is one of its readers: in the table
// of readers it says which version it has, so that home and the log keep what it sees.
//
//   - The turn ends with its owner, in whatever namespace: it is a lock of an open file, and no process's number
//   counts.
//   - Who waits next has a place in a line, which the one that gives the turn away can only take behind it.
//   - What another process did since this one's last turn shows: no process but the one that has the turn changes the
//     word `left_by`, and one that dies with the turn leaves it 0 (TURN-1).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "segment/files/heap_directories.hpp"

namespace holdfast::segment {

/// Of one process and one open heap. Not thread-safe.
class heap_turns {
public:
    /// `directories`: of a heap that was opened with neighbours::turns, or created to be shared; it has the turn.
    static base::result<std::unique_ptr<heap_turns>> begin(std::shared_ptr<heap_directories> directories,
                                                           std::string directory);
    heap_turns(const heap_turns&) = delete;
    heap_turns& operator=(const heap_turns&) = delete;
    ~heap_turns() = default;

    enum class found {
        as_left,  ///< nobody had the turn since this process gave it away
        changed,  ///< another process had it, or has died with it: with `directories()`, this one catches up or opens
                  ///< the heap anew
    };
    /// Waits for the turn.
    base::result<found> take();
    /// This process reads `version` from now on. `in_order`: media, and nothing in memory alone, have all of the heap
    /// but its pages that are not home.
    void give(std::uint64_t version, bool in_order) noexcept;
    /// With the turn: no other process shares the heap, nor waits to do so. One that comes later waits for the turn.
    [[nodiscard]] bool is_last() const noexcept { return !directories_->readers->turns().is_shared_by_others(); }
    /// With the turn: this process reads no version any more.
    void forget_version() noexcept { directories_->readers->leave(); }
    /// With the turn, which others have then. `in_order`: the heap is as who had the turn before has left it. No other
    /// function is called any more.
    void leave(bool in_order) noexcept;

    /// Until another process commits a later version than this one has; false when the time is over. Thread-safe.
    [[nodiscard]] bool wait_for_change(std::chrono::nanoseconds longest) const noexcept {
        return directories_->readers->wait_for(version(), longest);
    }
    /// Of the last give(). Thread-safe.
    [[nodiscard]] std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
    [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
    [[nodiscard]] bool has_turn() const noexcept { return has_turn_; }
    [[nodiscard]] const std::shared_ptr<heap_directories>& directories() const noexcept { return directories_; }

private:
    heap_turns(std::shared_ptr<heap_directories> directories, std::string directory, std::uint64_t name) noexcept
        : directories_(std::move(directories)), directory_(std::move(directory)), name_(name) {}
    base::result<void> lock();

    std::shared_ptr<heap_directories> directories_;
    std::string directory_;  ///< for people
    std::uint64_t name_;     ///< random
    std::uint64_t session_ = 0;
    std::atomic<std::uint64_t> version_{0};
    bool has_turn_ = true;
};

}  // namespace holdfast::segment
