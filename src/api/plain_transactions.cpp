#include "api/plain_transactions.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/manager_core.hpp"

namespace holdfast::detail {

namespace {

using namespace std::chrono_literals;
using base::failure;
using base::failure_code;

/// What was stored since the last commit is copied for an abort, or committed where it is more.
constexpr std::uint64_t most_copied_pages = 16384;
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
    if (!heap_.is_shared()) {
        refuse_read_only(heap_.engine(), "transact");
    }
    value_or_throw(heap_.check_process());
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
    try_to_finish_captured();
    heap_.take_turn();
    close_gate();
    auto memory = segment::memory_is::unknown;
    if (heap_.is_shared()) {
        value_or_throw(process_turns::take_back_stray_stores(heap_.engine()));
        memory = segment::memory_is::as_committed;
    }
    value_or_throw(heap_.engine().undo().begin(memory));
    if (heap_.engine().undo().copied_pages() > most_copied_pages) {
        commit_large_rest();
    }
    depth_ = 1;
}

/// Where that fails, the transaction goes on with its large savepoint.
void plain_transactions::commit_large_rest() {
    heap::savepoints& undo = heap_.engine().undo();
    undo.keep();
    try {
        commit_heap();
    } catch (const std::exception&) {
        value_or_throw(heap_.engine().check_process());
    }
    value_or_throw(undo.begin());
}

void plain_transactions::commit() {
    if (depth_ > 1) {
        keep_part();
        return;
    }
    if (auto own = heap_.engine().check_process(); !own) {
        abort();
        throw_failure(own.error());
    }
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(results_mutex_);
        number = ++ended_;
    }
    heap_.engine().files().commits().expect_waiting(turn_.is_wanted());
    try {
        prepare_participants();
        commit_heap();
    } catch (...) {
        end_undone();
        note_undone(number, std::current_exception());
        release();
        throw;
    }
    participants_.end();
    const segment::appended_commit mine = last_commit();
    if (heap_.is_shared()) {  // who has the turn next finds nothing that is not durable
        const base::result<void> done = wait_for_last_commit();
        release();
        value_or_throw(done);
        return;
    }
    base::result<void> durable = mine.is_quick() ? mine.wait() : base::result<void>();
    release();
    durable = durable ? mine.wait() : std::move(durable);
    value_or_throw(std::move(durable));
    heap_.engine().files().commits().log().publish(mine.version());
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
    if (heap_.is_shared()) {  // the next transaction may be another process's
        commit();
        const std::lock_guard lock(results_mutex_);
        return ticket_access::make(committed_, 0);
    }
    prepare_participants();
    participants_.note(transaction_end::carried_out);  // durable as the words are: with the next record
    participants_.end();
    return ticket_access::make(end_later(), 0);
}

void plain_transactions::keep_part() {
    try {
        value_or_throw(heap_.engine().check_process());
        participants_.join(depth_);
    } catch (...) {
        abort();
        throw;
    }
    heap_.engine().undo().keep();
    --depth_;
}

/// The words are stored as a program would store them: an abort takes them back.
void plain_transactions::prepare_participants() {
    participants_.prepare([](std::uint64_t& word, std::uint64_t value) { word = value; });
}

/// Of the outermost, whose commit failed. Where it failed before the heap's own, there is a savepoint.
void plain_transactions::end_undone() noexcept {
    heap::savepoints& undo = heap_.engine().undo();
    if (participants_.noted() == transaction_end::dropped && heap_.engine().files().commits().is_poisoned()) {
        participants_.note(transaction_end::unknown);
    }
    participants_.end();
    if (undo.any()) {
        undo.roll_back();
    }
}

/// Its number.
std::uint64_t plain_transactions::end_later() noexcept {
    heap_.engine().undo().keep();
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(results_mutex_);
        number = ++ended_;
    }
    release();
    return number;
}

void plain_transactions::abort() noexcept {
    const bool is_own = heap_.engine().check_process().ok();
    if (depth_ > 1 && is_own) {
        participants_.drop(depth_);
    } else {
        participants_.end();
    }
    if (!is_own) {
        return;
    }
    heap_.engine().undo().roll_back();
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
    if (std::exchange(depth_, 0) != 0) {
        open_turns::remove(*this);
    }
    if (std::exchange(is_gate_closed_, false)) {
        heap_.engine().changes()->open();
    }
    heap_.give_turn();
    turn_.unlock();
}

/// A ticket counts as a transaction.
ticket plain_transactions::note_captured() noexcept {
    const std::lock_guard lock(results_mutex_);
    captured_ = ++ended_;
    return ticket_access::make(ended_, 0);
}

void plain_transactions::finish_captured() {
    std::optional<std::uint64_t> until;
    {
        const std::lock_guard lock(results_mutex_);
        until = std::exchange(captured_, std::nullopt);
    }
    if (!until) {
        return;
    }
    const auto done = value_or_throw(heap_.engine().files().commits().finish());
    if (done) {
        heap_.note_commit(*done);
    }
    const std::lock_guard lock(results_mutex_);
    committed_ = std::max(committed_, *until);
    last_ = {};
}

/// Where it fails, whoever waits for the ticket commits again, and is told.
void plain_transactions::try_to_finish_captured() noexcept {
    try {
        finish_captured();
    } catch (const std::exception&) {
        return;
    }
}

/// All that has ended. Where it throws, the heap has gone back to its savepoint, if it has one and may.
void plain_transactions::commit_heap() {
    heap::savepoints& undo = heap_.engine().undo();
    try {
        segment::appended_commit done = heap_.commit_inside(is_gate_closed_);
        const std::lock_guard lock(results_mutex_);
        last_ = std::move(done);
        committed_ = ended_;
    } catch (...) {
        if (undo.any()) {
            undo.roll_back();
        }
        throw;
    }
}

void plain_transactions::note_undone(std::uint64_t number, const std::exception_ptr& problem) noexcept {
    const std::lock_guard lock(results_mutex_);
    try {
        undone_.push_back({number, problem});
    } catch (const std::bad_alloc&) {  // the ticket of one that is undone waits for a commit like any other
    }
}

segment::appended_commit plain_transactions::last_commit() const {
    const std::lock_guard lock(results_mutex_);
    return last_;
}

base::result<void> plain_transactions::wait_for_last_commit() const {
    const segment::appended_commit last = last_commit();
    if (last.is_durable()) {
        return {};
    }
    HF_TRY(last.wait());
    heap_.engine().files().commits().log().publish(last.version());
    return {};
}

void plain_transactions::note_committed() noexcept {
    const std::lock_guard lock(results_mutex_);
    committed_ = ended_;
    last_ = {};
}

/// A thread that reads within read() has seen to it before.
void plain_transactions::finish_before_reading() {
    {
        const std::lock_guard lock(results_mutex_);
        if (!captured_ || turn_.is_read_by_this_thread()) {
            return;
        }
    }
    turn_.lock();
    try_to_finish_captured();
    release();
}

void plain_transactions::begin_to_read() {
    value_or_throw(heap_.check_process());
    if (is_mine()) {
        refuse_inside("read");
    }
    finish_before_reading();
    turn_.lock_shared();
    if (!heap_.is_open()) {  // another thread's turn has ended it
        turn_.unlock_shared();
        throw_closed();
    }
    if (auto durable = wait_for_last_commit(); !durable) {  // who reads sees nothing that a crash may take back
        turn_.unlock_shared();
        throw_failure(durable.error());
    }
}

void plain_transactions::sync(std::uint64_t number) {
    const auto is_done = [&] {
        const std::lock_guard lock(results_mutex_);
        const auto found = std::ranges::find_if(undone_, [&](const undone& each) { return each.number == number; });
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
    if (!is_done()) {
        refuse_inside("sync");
        turn_.lock();
        try {
            finish_captured();
            if (!is_done()) {
                commit_heap();
            }
        } catch (...) {
            release();
            throw;
        }
        release();
    }
    value_or_throw(wait_for_last_commit());
}

void plain_transactions::sync_all() {
    std::uint64_t last = 0;
    {
        const std::lock_guard lock(results_mutex_);
        last = ended_ == committed_ || (!undone_.empty() && undone_.back().number == ended_) ? 0 : ended_;
    }
    if (last != 0) {
        sync(last);
    }
}

plain_transactions::pause::pause(plain_transactions& owner, std::string_view call, of whom) : owner_(owner) {
    owner.refuse_inside(call);
    owner.turn_.lock();
    static_cast<void>(owner.wait_for_last_commit().ok());  // where that fails, so does what comes
    owner.try_to_finish_captured();
    if (whom == of::processes) {
        try {
            owner.heap_.take_turn();
            if (owner.heap_.is_shared()) {
                value_or_throw(process_turns::take_back_stray_stores(owner.heap_.engine()));
            }
        } catch (...) {
            owner.release();
            throw;
        }
    }
}

plain_transactions::pause::~pause() { owner_.release(); }

}  // namespace holdfast::detail
