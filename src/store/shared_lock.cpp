#include "store/shared_lock.hpp"

#include <pthread.h>

#include <utility>

namespace holdfast::store_engine {
namespace {

constexpr std::uint32_t somebody_sleeps = std::uint32_t{1} << 31U;
constexpr std::uint32_t number_mask = lock_party::most;
constexpr timespec longest_sleep{.tv_sec = 0, .tv_nsec = 20'000'000};

/// Its address says which thread of this process it is.
struct thread_holds {
    unsigned count;  ///< locks taken and not given back by the thread itself
    bool is_known;   ///< to ends_of_threads
};
[[gnu::tls_model("initial-exec")]] constinit thread_local thread_holds own_holds{};

void (*call_at_end)() noexcept = nullptr;

void end_of_thread(void* /*nothing*/) noexcept {
    if (own_holds.count != 0 && call_at_end != nullptr) {
        call_at_end();
    }
}

/// The key's function is called after all destructors of thread_local objects, which may yet end a transaction.
class ends_of_threads {
public:
    ends_of_threads() noexcept : works_(::pthread_key_create(&key_, end_of_thread) == 0) {}
    ends_of_threads(const ends_of_threads&) = delete;
    ends_of_threads& operator=(const ends_of_threads&) = delete;
    ~ends_of_threads() {
        if (works_) {
            ::pthread_key_delete(key_);
        }
    }
    void add_this_thread() const noexcept {
        if (works_) {
            ::pthread_setspecific(key_, &own_holds);
        }
    }

private:
    pthread_key_t key_{};
    bool works_;
};

void begin_hold() noexcept {
    if (!own_holds.is_known) [[unlikely]] {
        static const ends_of_threads ends;
        own_holds.is_known = true;
        ends.add_this_thread();
    }
    ++own_holds.count;
}

}  // namespace

void when_a_holder_ends(void (*call)() noexcept) noexcept { call_at_end = call; }

status shared_mutex::lock(bool& died, lock_mode mode, std::uint64_t& ticket) noexcept {
    died = false;
    std::uint32_t found = 0;
    if (!word_->owner.compare_exchange_strong(found, party_->number(), std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        HF_STORE_TRY(lock_slowly(found, died, mode));
    }
    ticket = ++tickets_;
    thread_.store(&own_holds, std::memory_order_relaxed);
    holder_.store(ticket, std::memory_order_release);
    begin_hold();
    return status::ok;
}

// `found` is in the word.
status shared_mutex::lock_slowly(std::uint32_t found, bool& died, lock_mode mode) noexcept {
    std::uint32_t others = 0;  // who sleeps when this one has slept is not known
    bool is_asked = false;     // whether the holder lives, since the last sleep
    for (;;) {
        const std::uint32_t owner = found & number_mask;
        const bool is_dead = owner != 0 && is_asked && !party_->is_alive(owner);
        if (owner == 0 || is_dead) {
            if (word_->owner.compare_exchange_weak(found, party_->number() | (found & somebody_sleeps) | others,
                                                   std::memory_order_acquire, std::memory_order_relaxed)) {
                died = is_dead;
                return status::ok;
            }
            continue;
        }
        if (!is_asked) {
            if ((owner == party_->number() && is_mine()) ||
                (own_holds.count != 0 && party_->is_held_here(*word_, owner))) {
                return from_errno(mode == lock_mode::tries ? EBUSY : EDEADLK);
            }
            is_asked = true;
            continue;
        }
        if (mode == lock_mode::tries) {
            return from_errno(EBUSY);
        }
        if ((found & somebody_sleeps) == 0 &&
            !word_->owner.compare_exchange_weak(found, found | somebody_sleeps, std::memory_order_relaxed)) {
            continue;
        }
        base::sleep_while(word_->owner, owner | somebody_sleeps, longest_sleep);
        others = somebody_sleeps;
        is_asked = false;
        found = word_->owner.load(std::memory_order_relaxed);
    }
}

bool shared_mutex::is_mine() const noexcept {
    return holder_.load(std::memory_order_acquire) != 0 && thread_.load(std::memory_order_relaxed) == &own_holds;
}

// Who is killed between the two steps wakes nobody: sleepers look again by themselves.
void shared_mutex::release(std::uint32_t leave) noexcept {
    const std::uint32_t found = word_->owner.exchange(leave, std::memory_order_release);
    if ((found & somebody_sleeps) != 0) {
        base::wake_sleepers(word_->owner, 1);
    }
}

void shared_mutex::unlock(std::uint64_t ticket) noexcept {
    if (thread_.load(std::memory_order_relaxed) == &own_holds) {
        if (is_held_by(ticket)) {  // nobody else gives it back meanwhile
            holder_.store(0, std::memory_order_relaxed);
            --own_holds.count;
            release(0);
        }
    } else if (ticket != 0 && holder_.compare_exchange_strong(ticket, 0, std::memory_order_relaxed)) {
        release(0);
    }
}

void shared_mutex::abandon(bool any) noexcept {
    std::uint64_t ticket = holder_.load(std::memory_order_acquire);
    if (ticket != 0 && (any || is_mine()) && holder_.compare_exchange_strong(ticket, 0, std::memory_order_relaxed)) {
        release(lock_party::ended_thread);
    }
}

bool shared_mutex::is_left_by_a_dead() const noexcept {
    return is_of_others() && !party_->is_alive(word_->owner.load(std::memory_order_relaxed) & number_mask);
}

shared_lock::shared_lock(shared_lock&& other) noexcept
    : mutex_(std::exchange(other.mutex_, nullptr)), ticket_(std::exchange(other.ticket_, 0)) {}

shared_lock& shared_lock::operator=(shared_lock&& other) noexcept {
    std::swap(mutex_, other.mutex_);
    std::swap(ticket_, other.ticket_);
    return *this;
}

status shared_lock::lock(shared_mutex& mutex, bool& died, lock_mode mode) noexcept {
    HF_STORE_TRY(mutex.lock(died, mode, ticket_));
    mutex_ = &mutex;
    return status::ok;
}

void shared_lock::unlock() noexcept {
    if (mutex_ != nullptr) {
        std::exchange(mutex_, nullptr)->unlock(std::exchange(ticket_, 0));
    }
}

status sync_turn::take(lock_mode mode) noexcept {
    bool died = false;  // the log is unharmed: its sync is done again
    return lock_.lock(mutex_, died, mode);
}

// Unlocks first: who wakes finds the lock free.
void sync_turn::end() noexcept {
    if (!lock_.owns()) {
        return;
    }
    lock_.unlock();
    wake_waiting();
}

void sync_turn::wake_waiting() noexcept {
    std::uint32_t turns = turns_.load();
    while (!turns_.compare_exchange_weak(turns, (turns | 1U) + 1U)) {
    }
    if ((turns & 1U) != 0) {
        base::wake_sleepers(turns_);
    }
}

void sync_turn::wait(std::uint32_t turns) noexcept {
    const std::uint32_t asleep = turns | 1U;
    if (turns == asleep || turns_.compare_exchange_strong(turns, asleep)) {
        base::sleep_while(turns_, asleep, longest_sleep);
    }
}

}  // namespace holdfast::store_engine
