#include "api/plain_transactions.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/manager_core.hpp"

namespace holdfast::detail {

namespace {

using namespace std::chrono_literals;
using base::failure;
using base::failure_code;

constexpr std::size_t most_waiters = 64;
/// What was stored since the last commit is copied for an abort, or committed where it is more.
constexpr std::uint64_t most_copied_pages = 512;
constexpr auto longest_wait = 2s;

}  // namespace

/// Of a thread. One that ends takes back what it has not ended. Destructors of static and of thread-local objects may
/// still make some, of which nobody knows then.
class plain_transactions::open_turns {
public:
    open_turns() = default;
    open_turns(const open_turns&) = delete;
    open_turns& operator=(const open_turns&) = delete;
    ~open_turns() {
        have_ended = true;
        while (!all_.empty()) {
            plain_transactions& last = *all_.back();
            if (!last.heap_.engine().check_process()) {
                return;
            }
            report_failure({failure_code::invalid_argument, last.heap_.path(), "transact",
                            "a thread that ends within it", "its end, or an abort", "it was taken back", 0});
            all_.pop_back();
            last.abort_all();
        }
    }

    /// Threads that take turns of several heaps in different orders would wait for each other.
    static void expect_order(const manager_core& next) {
        if (have_ended) {
            return;
        }
        for (const plain_transactions* each : of_this_thread().all_) {
            if (each->heap_.path() >= next.path()) {
                throw_failure(failure{failure_code::invalid_argument,
                                      next.path(),
                                      "transact",
                                      fmt::format("a thread within that of {}", each->heap_.path()),
                                      "transactions of several heaps that begin in the order of their paths",
                                      {},
                                      0});
            }
        }
    }
    /// May throw std::bad_alloc; then add() does not.
    static void make_room() {
        if (!have_ended) {
            of_this_thread().all_.reserve(of_this_thread().all_.size() + 1);
        }
    }
    static void add(plain_transactions& taken) noexcept {
        if (!have_ended) {
            of_this_thread().all_.push_back(&taken);
        }
    }
    static void remove(const plain_transactions& given_up) noexcept {
        if (!have_ended) {
            std::erase(of_this_thread().all_, &given_up);
        }
    }

private:
    static constinit thread_local bool have_ended;  // NOLINT(readability-identifier-naming)

    std::vector<plain_transactions*> all_;
};

constinit thread_local bool plain_transactions::open_turns::have_ended = false;

plain_transactions::open_turns& plain_transactions::of_this_thread() {
    static thread_local open_turns all;
    return all;
}

void plain_transactions::refuse_inside(std::string_view call) const {
    const bool is_open = is_mine();
    if (is_open || turn_.is_read_by_this_thread()) [[unlikely]] {
        throw_failure(failure{failure_code::invalid_argument, heap_.path(), std::string(call),
                              is_open ? "a thread within transact()" : "a thread within read()",
                              "a thread outside of it", "transact() commits when its function has returned", 0});
    }
}

void plain_transactions::begin() {
    if (turn_.is_mine()) {
        value_or_throw(heap_.engine().undo().begin());
        ++depth_;
        return;
    }
    const heap::engine& engine = heap_.engine();
    refuse_read_only(engine, "transact");
    value_or_throw(engine.check_process());
    refuse_inside("transact");
    open_turns::expect_order(heap_);
    open_turns::make_room();
    turn_.lock();
    try {
        begin_outermost();
    } catch (...) {
        release();
        throw;
    }
    open_turns::add(*this);
}

void plain_transactions::begin_outermost() {
    has_guests_ = false;
    close_gate();
    value_or_throw(heap_.engine().undo().begin());
    if (heap_.engine().undo().copied_pages() > most_copied_pages) {
        commit_large_rest();
    }
    depth_ = 1;
}

/// Where that fails, the transaction goes on with its large savepoint.
void plain_transactions::commit_large_rest() {
    heap::savepoints& undo = heap_.engine().undo();
    undo.keep();
    if (batch_ != nullptr) {
        commit_batch();
    } else {
        try {
            commit_heap(true);
            finish({});
        } catch (const std::exception&) {
            value_or_throw(heap_.engine().check_process());
        }
    }
    value_or_throw(undo.begin());
}

void plain_transactions::commit() {
    heap::savepoints& undo = heap_.engine().undo();
    if (depth_ > 1) {
        undo.keep();
        --depth_;
        return;
    }
    if (has_guests_) {
        end_later();
        return;
    }
    std::shared_ptr<batch> mine;
    try {
        value_or_throw(heap_.engine().check_process());
        if (batch_ == nullptr) {
            batch_ = std::make_shared<batch>();
        }
        mine = batch_;
    } catch (...) {
        abort();
        throw;
    }
    if (undo.count() > 1) {
        undo.keep();
    }
    {
        const std::lock_guard lock(results_mutex_);
        ++ended_;
        mine->first = mine->waiters == 0 ? ended_ : mine->first;
    }
    ++mine->waiters;
    if (mine->waiters == most_waiters) {
        commit_batch();
    }
    release();
    std::unique_lock lock(results_mutex_);
    results_.wait(lock, [&] { return mine->is_done; });
    if (mine->problem != nullptr) {
        std::rethrow_exception(mine->problem);
    }
}

ticket plain_transactions::commit_later() {
    if (depth_ > 1) {
        throw_failure(failure{failure_code::invalid_argument,
                              heap_.path(),
                              "transact_later",
                              "one within another one",
                              "a transaction by itself",
                              {},
                              0});
    }
    return ticket_access::make(end_later(), 0);
}

/// Its number.
std::uint64_t plain_transactions::end_later() noexcept {
    heap_.engine().undo().keep();
    batch_has_guests_ = batch_has_guests_ || has_guests_;
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(results_mutex_);
        number = ++ended_;
    }
    release();
    return number;
}

void plain_transactions::abort() noexcept {
    heap::savepoints& undo = heap_.engine().undo();
    if (!heap_.engine().check_process()) {
        return;
    }
    if (has_guests_) {
        batch_has_guests_ = true;
        undo.keep();
    } else {
        undo.roll_back();
    }
    if (depth_ > 1) {
        --depth_;
    } else {
        release();
    }
}

void plain_transactions::abort_all() noexcept {
    while (is_mine()) {
        abort();
    }
}

void plain_transactions::close_gate() {
    slab::change_gate& gate = *heap_.engine().changes();
    if (!gate.try_close(std::chrono::steady_clock::now() + longest_wait)) {
        throw_failure(failure{failure_code::concurrent_modification,
                              heap_.path(),
                              "transact",
                              "a thread within a call that changes the heap, or with an open transaction of the heap "
                              "that has made blocks, or of a store",
                              fmt::format("its end within {} s", longest_wait.count()),
                              {},
                              0});
    }
    is_gate_closed_ = true;
}

void plain_transactions::release() noexcept {
    if (batch_ != nullptr && !turn_.is_writer_next()) {
        commit_batch();
    }
    if (std::exchange(depth_, 0) != 0) {
        open_turns::remove(*this);
    }
    if (std::exchange(is_gate_closed_, false)) {
        heap_.engine().changes()->open();
    }
    turn_.unlock();
}

void plain_transactions::commit_batch() noexcept {
    std::exception_ptr problem;
    try {
        commit_heap(!batch_has_guests_);
    } catch (...) {
        problem = std::current_exception();
    }
    finish(std::move(problem));
}

/// Where it throws, the heap has gone back to its savepoint, if it has one and may.
void plain_transactions::commit_heap(bool can_go_back) {
    heap::savepoints& undo = heap_.engine().undo();
    if (!can_go_back && undo.any()) {
        undo.keep();
    }
    try {
        heap_.commit_inside(is_gate_closed_);
    } catch (...) {
        if (undo.any()) {
            undo.roll_back();
        }
        throw;
    }
}

void plain_transactions::finish(std::exception_ptr problem) noexcept {
    batch_has_guests_ = false;
    const std::shared_ptr<batch> done = std::exchange(batch_, nullptr);
    const std::lock_guard lock(results_mutex_);
    if (problem == nullptr) {
        committed_ = ended_;
    } else if (done != nullptr) {
        try {
            undone_.push_back({done->first, ended_, problem});
        } catch (const std::bad_alloc&) {  // the ticket of one that is undone waits for a commit like any other
        }
    }
    if (done != nullptr) {
        done->problem = std::move(problem);
        done->is_done = true;
        results_.notify_all();
    }
}

void plain_transactions::note_committed() noexcept { finish({}); }

void plain_transactions::begin_to_read() {
    value_or_throw(heap_.engine().check_process());
    if (is_mine()) {
        refuse_inside("read");
    }
    turn_.lock_shared();
}

void plain_transactions::sync(std::uint64_t number) {
    const auto is_done = [&] {
        const std::lock_guard lock(results_mutex_);
        const auto found = std::ranges::find_if(
            undone_, [&](const undone& each) { return each.first <= number && number <= each.last; });
        if (found != undone_.end()) {
            std::rethrow_exception(found->problem);
        }
        if (number > ended_) {
            throw_failure(failure{failure_code::invalid_argument,
                                  heap_.path(),
                                  "ticket",
                                  "one of another heap",
                                  "a ticket of this heap",
                                  {},
                                  0});
        }
        return number <= committed_;
    };
    if (is_done()) {
        return;
    }
    const pause others(*this, "sync");
    if (!is_done()) {
        heap_.commit_inside(false);
        note_committed();
    }
}

void plain_transactions::sync_all() {
    std::uint64_t last = 0;
    {
        const std::lock_guard lock(results_mutex_);
        last = ended_ == committed_ || (!undone_.empty() && undone_.back().last == ended_) ? 0 : ended_;
    }
    if (last != 0) {
        sync(last);
    }
}

plain_transactions::pause::pause(plain_transactions& of, std::string_view call) : of_(of) {
    of.refuse_inside(call);
    of.turn_.lock();
    if (of.batch_ != nullptr) {
        of.commit_batch();
    }
}

plain_transactions::pause::~pause() { of_.release(); }

}  // namespace holdfast::detail
