// What a commit closes while it reads what the pool changes on media. calls/commit_gate.hpp does it: it knows the
// threads, of which the pool knows nothing.
#pragma once

namespace holdfast::slab {

struct thread_cache;

/// Thread-safe.
class gate_of_pool {
public:
    gate_of_pool() = default;
    gate_of_pool(const gate_of_pool&) = delete;
    gate_of_pool& operator=(const gate_of_pool&) = delete;

    struct entry {
        thread_cache* of = nullptr;
        bool is_first = false;  ///< else the thread is inside already
    };
    /// Waits while a commit runs.
    [[nodiscard]] virtual entry enter_pool() noexcept = 0;
    virtual void leave_pool(const entry& entered) noexcept = 0;

protected:
    ~gate_of_pool() = default;
};

class [[nodiscard]] pool_call {
public:
    explicit pool_call(gate_of_pool& gate) noexcept : gate_(gate), entered_(gate.enter_pool()) {}
    pool_call(const pool_call&) = delete;
    pool_call& operator=(const pool_call&) = delete;
    ~pool_call() { gate_.leave_pool(entered_); }

private:
    gate_of_pool& gate_;
    gate_of_pool::entry entered_;
};

}  // namespace holdfast::slab
