// How many transactions of the C interface are open, so that a close can refuse.
//
// Each thread counts in a record of its own, by plain stores: a counter that threads share costs two locked
// instructions a transaction, on one cache line for all.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.hpp"
#include "base/units.hpp"

namespace holdfast::c_api {

/// Thread-safe.
class heap_users {
public:
    struct alignas(base::cache_line_size) record {
        explicit record(const void* of) noexcept : thread(of) {}
        std::atomic<std::uint64_t> begun{0};            ///< and not ended; by its thread alone
        std::atomic<std::uint64_t> ended_by_others{0};  ///< of these
        const void* thread;                             ///< the address of its `last`
        std::unique_ptr<record> next;
    };

    heap_users() = default;
    heap_users(const heap_users&) = delete;
    heap_users& operator=(const heap_users&) = delete;
    ~heap_users();

    /// Counts while it lives; it may end in another thread than it began in.
    class user {
    public:
        /// May throw std::bad_alloc.
        explicit user(heap_users& of) : counted_(of.add()) {}
        user(const user&) = delete;
        user& operator=(const user&) = delete;
        ~user() { remove(counted_); }

    private:
        record& counted_;
    };
    /// Exact where it is ordered with the calls of other threads.
    [[nodiscard]] std::uint64_t count() noexcept;

private:
    [[nodiscard]] record& add() {
        record& mine = last.number == number_ ? *last.mine : find_or_make();
        mine.begun.store(mine.begun.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return mine;
    }
    static void remove(record& added) noexcept {
        if (added.thread == &last) [[likely]] {
            added.begun.store(added.begun.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
        } else {
            added.ended_by_others.fetch_add(1, std::memory_order_relaxed);
        }
    }
    /// Of the heap that the thread has used last. Its address tells the thread from all that live now; a later one may
    /// go on with the record.
    struct last_record {
        std::uint64_t number = 0;
        record* mine = nullptr;
    };
    [[gnu::tls_model("initial-exec")]] static constinit thread_local last_record last;

    [[nodiscard]] static std::uint64_t next_number() noexcept {
        static std::atomic<std::uint64_t> numbers{0};
        return numbers.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    [[nodiscard]] record& find_or_make();

    const std::uint64_t number_ = next_number();  ///< never used again
    base::mutex mutex_;
    std::unique_ptr<record> first_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::c_api
