// The turn of an open heap among processes that share it (open_options::shared). With the turn its engine is a
// writer's; between turns it rests: it shows what its process has left or seen, and refuses changes. Where another
// process had the turn meanwhile, take() shows what that one has left, at the same addresses.
//
// For the thread that has the threads' turn (api/turn.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/process_identity.hpp"
#include "base/result.hpp"
#include "heap/heap.hpp"
#include "segment/files/heap_turns.hpp"

namespace holdfast::detail {

class process_turns {
public:
    /// `opened` with `options`, in which it shares the heap; it has the turn. Fails with unsupported where the heap
    /// cannot be shared.
    static base::result<std::unique_ptr<process_turns>> begin(heap::engine& opened,
                                                              const heap::engine_options& options);
    process_turns(const process_turns&) = delete;
    process_turns& operator=(const process_turns&) = delete;
    ~process_turns() = default;

    /// Waits for the turn; true: another process had it meanwhile. Then the heap shows what that one has left, and what
    /// is known of its parts may be of an engine that is gone: it is another one wherever a table of the heap differs.
    /// On failure this process has not the turn; where `heap` is null then, it is gone, and is_over().
    base::result<bool> take(std::unique_ptr<heap::engine>& heap);
    void give(heap::engine& heap) noexcept;
    /// With the turn: what this process has stored between turns would be in its memory alone.
    static base::result<void> take_back_stray_stores(heap::engine& heap);
    /// Thread-safe, as the next one.
    [[nodiscard]] base::result<void> check_process() const;
    /// Until there is a version that take() would find; false when the time is over.
    [[nodiscard]] bool wait_for_change(std::chrono::nanoseconds longest) const noexcept {
        return turns_->wait_for_change(longest);
    }
    /// What this process had when it gave the turn away.
    [[nodiscard]] std::uint64_t version() const noexcept { return turns_->version(); }
    [[nodiscard]] bool has_turn() const noexcept { return turns_->has_turn(); }
    /// This process shares the heap no more, and take() is not called again. Thread-safe.
    [[nodiscard]] bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
    /// Takes the turn. The last process closes the heap, with a commit if asked; others leave it. On failure the heap
    /// rests, if `heap` is not null.
    base::result<void> close(std::unique_ptr<heap::engine>& heap, bool commit_changes);

private:
    process_turns(std::unique_ptr<segment::heap_turns> turns, const heap::engine_options& options)
        : turns_(std::move(turns)), options_(options) {}
    base::result<void> wake(std::unique_ptr<heap::engine>& heap, segment::heap_turns::found found);
    base::result<void> close_as_last(std::unique_ptr<heap::engine>& heap, bool commit_changes);
    void leave(bool in_order) noexcept;

    std::unique_ptr<segment::heap_turns> turns_;
    heap::engine_options options_;  ///< of an open
    std::uint64_t owner_ = base::process_identity();
    std::atomic<bool> is_over_{false};
};

}  // namespace holdfast::detail
