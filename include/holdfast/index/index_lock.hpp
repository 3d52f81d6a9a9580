// The lock of a node in DRAM: a version for readers that take no lock, a lock for a writer, and a count of readers that
// keep writers out. Source: optimistic lock coupling (V. Leis, F. Scheibner, A. Kemper and T. Neumann, "The ART of
// Practical Synchronization", 2016).
//
// What it protects is read by atomic loads, and used only after is_still() has said that no writer came between.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast::detail {

/// Sleeps while the word has this lower half, until wake_lock() or for no reason.
void sleep_on_lock(const std::atomic<std::uint64_t>& word, std::uint32_t lower_half) noexcept;
void wake_lock(const std::atomic<std::uint64_t>& word) noexcept;

/// For what takes no longer than the loss of a processor.
class short_wait {
public:
    void operator()() noexcept {
        if (++times_ > before_yield) {
            std::this_thread::yield();
            return;
        }
        pause();
    }
    /// False when waiting is no longer cheap.
    [[nodiscard]] bool spin() noexcept {
        if (++times_ > before_yield) {
            return false;
        }
        pause();
        return true;
    }

private:
    static constexpr unsigned before_yield = 64;
    static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    unsigned times_ = 0;
};

class version_lock {
public:
    /// Waits for a writer.
    [[nodiscard]] std::uint64_t version() const noexcept {
        const std::uint64_t word = word_.load(std::memory_order_acquire);
        if ((word & locked) == 0) [[likely]] {
            return word & ~readers;
        }
        return version_after_writer();
    }
    /// Whether all that was loaded since version() is of one state.
    [[nodiscard]] bool is_still(std::uint64_t version) const noexcept {
        std::atomic_thread_fence(std::memory_order_acquire);
        return (word_.load(std::memory_order_relaxed) & ~readers) == version;
    }
    /// Locks unless something has changed since; waits for readers.
    [[nodiscard]] bool lock_if(std::uint64_t version) noexcept {
        short_wait wait;
        for (;;) {
            std::uint64_t expected = version;
            if (word_.compare_exchange_weak(expected, version | locked, std::memory_order_acquire,
                                            std::memory_order_relaxed)) [[likely]] {
                // What the writer stores is not seen before the lock is.
                std::atomic_thread_fence(std::memory_order_release);
                return true;
            }
            if ((expected & ~readers) != version) {
                return false;
            }
            wait();
        }
    }
    void lock() noexcept {
        while (!lock_if(version())) {
        }
    }
    [[nodiscard]] bool try_lock() noexcept {
        std::uint64_t word = word_.load(std::memory_order_relaxed);
        if ((word & (locked | readers)) != 0 ||
            !word_.compare_exchange_strong(word, word | locked, std::memory_order_acquire, std::memory_order_relaxed)) {
            return false;
        }
        std::atomic_thread_fence(std::memory_order_release);
        return true;
    }
    void unlock() noexcept {
        const std::uint64_t next = (word_.load(std::memory_order_relaxed) & ~(locked | sleepers)) + one_version;
        if ((word_.exchange(next, std::memory_order_release) & sleepers) != 0) [[unlikely]] {
            wake_lock(word_);
        }
    }
    /// Keeps writers out unless something has changed since.
    [[nodiscard]] bool share_if(std::uint64_t version) noexcept {
        std::uint64_t word = word_.load(std::memory_order_relaxed);
        do {
            if ((word & ~readers) != version || (word & readers) == readers) {
                return false;
            }
        } while (!word_.compare_exchange_weak(word, word + one_reader, std::memory_order_acquire,
                                              std::memory_order_relaxed));
        return true;
    }
    void unshare() noexcept { word_.fetch_sub(one_reader, std::memory_order_release); }

private:
    static constexpr std::uint64_t locked = 1;
    static constexpr std::uint64_t sleepers = 2;  ///< while it is locked: threads sleep
    static constexpr std::uint64_t one_reader = 4;
    static constexpr std::uint64_t one_version = std::uint64_t{1} << 16U;
    static constexpr std::uint64_t readers = one_version - one_reader;

    /// The writer may wait for a disk.
    [[nodiscard, gnu::noinline]] std::uint64_t version_after_writer() const noexcept {
        short_wait wait;
        for (;;) {
            std::uint64_t word = word_.load(std::memory_order_acquire);
            if ((word & locked) == 0) {
                return word & ~readers;
            }
            if (wait.spin()) {
                continue;
            }
            if ((word & sleepers) != 0 ||
                word_.compare_exchange_strong(word, word | sleepers, std::memory_order_relaxed)) {
                sleep_on_lock(word_, static_cast<std::uint32_t>(word | sleepers));
            }
        }
    }

    mutable std::atomic<std::uint64_t> word_{0};
};

class write_guard {
public:
    explicit write_guard(version_lock& held) noexcept : held_(&held) {}
    write_guard(const write_guard&) = delete;
    write_guard& operator=(const write_guard&) = delete;
    ~write_guard() { unlock(); }
    void unlock() noexcept {
        if (held_ != nullptr) {
            held_->unlock();
            held_ = nullptr;
        }
    }

private:
    version_lock* held_;
};

class shared_guard {
public:
    explicit shared_guard(version_lock& held) noexcept : held_(held) {}
    shared_guard(const shared_guard&) = delete;
    shared_guard& operator=(const shared_guard&) = delete;
    ~shared_guard() { held_.unshare(); }

private:
    version_lock& held_;
};

}  // namespace holdfast::detail
