#include "base/fork_mutex.hpp"

#include <pthread.h>
#if __GLIBC_PREREQ(2, 32)
#include <sys/single_threaded.h>
#endif

#include <cstdint>
#include <cstring>
#include <new>

namespace holdfast::base {

constinit std::array<std::atomic<fork_mutex*>, fork_mutex::ranks> fork_mutex::all{};

namespace {

/// False also where the C library does not tell: then locks that nobody holds are taken.
bool is_only_thread() noexcept {
#if __GLIBC_PREREQ(2, 32)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
}

}  // namespace

/// The thread that forks holds the locks from hold() on, and blocks signals.
class fork_handlers {
public:
    static void hold() noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
        const sigset_t before = block_signals();
        // With one thread nobody else holds a lock.
        if (is_only_thread()) {
            note(before);
            return;
        }
        std::array<fork_mutex*, fork_mutex::ranks> locked{};
        for (std::size_t rank = 0; rank < locked.size(); ++rank) {
            locked[rank] = fork_mutex::all[rank].load(std::memory_order_acquire);
            if (locked[rank] != nullptr) {
                locked[rank]->mutex_.lock();
            }
        }
        held = locked;
        note(before);
    }
    static void let_go_in_parent() noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
        std::array<fork_mutex*, fork_mutex::ranks> locked = held;
        for (std::size_t rank = locked.size(); rank-- > 0;) {
            if (locked[rank] != nullptr) {
                held[rank] = nullptr;
                locked[rank]->mutex_.unlock();
            }
        }
        restore_signals(noted());
    }
    static void let_go_in_child() noexcept {
        for (fork_mutex*& one : held) {
            if (one != nullptr) {
                new (&one->mutex_) base::mutex;  // threads of the parent may wait for it
                one = nullptr;
            }
        }
        restore_signals(noted());
    }

private:
    /// A set has 1,024 bits, of which the kernel knows the first 64; and memory of threads is scarce.
    static void note(const sigset_t& before) noexcept { std::memcpy(&blocked_before, &before, sizeof blocked_before); }
    [[nodiscard]] static sigset_t noted() noexcept {
        sigset_t before;
        ::sigemptyset(&before);
        std::memcpy(&before, &blocked_before, sizeof blocked_before);
        return before;
    }
    /// Of this thread: the C library lets several fork at once.
    static constinit thread_local std::array<fork_mutex*, fork_mutex::ranks> held;
    static constinit thread_local std::uint64_t blocked_before;
};

constinit thread_local std::array<fork_mutex*, fork_mutex::ranks> fork_handlers::held{};
constinit thread_local std::uint64_t fork_handlers::blocked_before{};

namespace {

/// Before any heap is opened, and before any handler that closes a gate: that one comes first at a fork.
constexpr int before_others = 101;
[[gnu::constructor(before_others)]] void register_handlers() noexcept {
    ::pthread_atfork(fork_handlers::hold, fork_handlers::let_go_in_parent, fork_handlers::let_go_in_child);
}

}  // namespace

}  // namespace holdfast::base
