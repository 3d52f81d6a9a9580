// A lock in memory that processes share. Its word has the number of the process that holds it: each has a number of its
// own while the store is open, and keeps a byte of the lock file locked by it, which the kernel lets go when the
// process dies. The words know no number of a process or thread of the system, for these repeat in other namespaces.
//
// Who waits sleeps for some milliseconds at a time, and looks between whether the holder lives: it may have died
// anywhere, also before it woke anybody.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"
#include "store/status.hpp"

namespace holdfast::store_engine {

/// Zeros: nobody holds it.
struct lock_word {
    base::atomic<std::uint32_t> owner;
};

enum class lock_mode : std::uint8_t { waits, tries };

/// A process, among those that share the locks.
class lock_party {
public:
    static constexpr std::uint32_t most = (std::uint32_t{1} << 30U) - 1;
    /// In the place of a process: a thread ended that held the lock.
    static constexpr std::uint32_t ended_thread = most;

    lock_party() = default;
    lock_party(const lock_party&) = delete;
    lock_party& operator=(const lock_party&) = delete;

    [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
    [[nodiscard]] virtual bool is_alive(std::uint32_t number) const noexcept = 0;
    /// Whether this thread holds a lock of the process with this number, which may be the same process, with another
    /// environment.
    [[nodiscard]] virtual bool is_held_here(const lock_word& word, std::uint32_t number) const noexcept = 0;

protected:
    ~lock_party() = default;
    std::uint32_t number_ = 0;  ///< 1 to ended_thread - 1
};

/// This process's way to a lock.
class shared_mutex {
public:
    shared_mutex() = default;
    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;

    /// Before any other call.
    void lie_at(lock_word& word, const lock_party& of) noexcept {
        word_ = &word;
        party_ = &of;
    }
    /// `died`: the last holder ended with it. EBUSY: the mode is `tries`, and somebody has it. EDEADLK: this thread has
    /// it. `ticket` is for unlock().
    [[nodiscard]] status lock(bool& died, lock_mode mode, std::uint64_t& ticket) noexcept;
    /// By any thread of the process; nothing where the ticket does not hold the lock any more.
    void unlock(std::uint64_t ticket) noexcept;
    [[nodiscard]] bool is_held_by(std::uint64_t ticket) const noexcept {
        return ticket != 0 && holder_.load(std::memory_order_relaxed) == ticket;
    }
    /// Of the calling thread, or with `any` of the process: who comes next sees it as that of a dead one.
    void abandon(bool any) noexcept;
    [[nodiscard]] bool is_mine() const noexcept;
    [[nodiscard]] bool lies_at(const lock_word& word) const noexcept { return word_ == &word; }
    /// Its holder has ended and nobody has taken it since. Asks the system unless it is free or this process's.
    [[nodiscard]] bool is_left_by_a_dead() const noexcept;
    /// Held, and not by this process.
    [[nodiscard]] bool is_of_others() const noexcept {
        const std::uint32_t owner = word_->owner.load(std::memory_order_relaxed) & lock_party::most;
        return owner != 0 && owner != party_->number();
    }

private:
    [[nodiscard]] status lock_slowly(std::uint32_t found, bool& died, lock_mode mode) noexcept;
    void release(std::uint32_t leave) noexcept;

    lock_word* word_ = nullptr;
    const lock_party* party_ = nullptr;
    base::atomic<std::uint64_t> holder_{0};      ///< ticket; 0: nobody of this process
    base::atomic<const void*> thread_{nullptr};  ///< of the holder
    std::uint64_t tickets_ = 0;                  ///< given out; the holder's
};

/// A hold of a shared_mutex, which ends with it.
class shared_lock {
public:
    shared_lock() = default;
    shared_lock(shared_lock&& other) noexcept;
    shared_lock& operator=(shared_lock&& other) noexcept;
    ~shared_lock() { unlock(); }
    [[nodiscard]] status lock(shared_mutex& mutex, bool& died, lock_mode mode = lock_mode::waits) noexcept;
    void unlock() noexcept;
    [[nodiscard]] bool owns() const noexcept { return mutex_ != nullptr && mutex_->is_held_by(ticket_); }

private:
    shared_mutex* mutex_ = nullptr;
    std::uint64_t ticket_ = 0;
};

/// Called when a thread ends that holds locks, in that thread.
void when_a_holder_ends(void (*call)() noexcept) noexcept;

/// The turn to make durable all commits written before. Threads that wait sleep until a turn ends and then all look,
/// instead of taking the lock one by one: what they wrote meanwhile goes into one sync.
class sync_turn {
public:
    /// `turns`: twice those that ended; odd: somebody sleeps until the next ends.
    sync_turn(shared_mutex& mutex, base::atomic<std::uint32_t>& turns) noexcept : mutex_(mutex), turns_(turns) {}
    sync_turn(const sync_turn&) = delete;
    sync_turn& operator=(const sync_turn&) = delete;
    ~sync_turn() { end(); }
    [[nodiscard]] status take(lock_mode mode = lock_mode::waits) noexcept;
    /// Takes the turn, unless `is_done()` meanwhile, by the work of others. `may_go_on()` may refuse.
    template <class IsDone, class MayGoOn>
    [[nodiscard]] status take_unless(IsDone is_done, MayGoOn may_go_on) noexcept {
        for (;;) {
            const std::uint32_t turns = turns_.load(std::memory_order_acquire);
            if (is_done()) {
                return status::ok;
            }
            HF_STORE_TRY(may_go_on());
            const status taken = take(lock_mode::tries);
            if (taken != from_errno(EBUSY)) {
                return taken;
            }
            wait(turns);
        }
    }
    void end() noexcept;
    [[nodiscard]] bool is_taken() const noexcept { return lock_.owns(); }

private:
    /// Until a turn ended after `turns` was read, or for some milliseconds, because the one who had it may have died.
    void wait(std::uint32_t turns) noexcept;
    void wake_waiting() noexcept;

    shared_mutex& mutex_;
    base::atomic<std::uint32_t>& turns_;
    shared_lock lock_;
};

}  // namespace holdfast::store_engine
