// A process that a test starts and kills, and memory that outlives it.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace holdfast::test {

/// Dies with this process and with this object.
class child_process {
public:
    /// The child runs `work` and exits with its result. Throws std::system_error if it cannot be started.
    explicit child_process(const std::function<int()>& work);
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    ~child_process();

    /// Waits at most this long. True if the child has ended.
    [[nodiscard]] bool ends_within(std::uint64_t nanoseconds) const;
    /// Waits until that holds, or the child has ended. False where it hangs.
    [[nodiscard]] bool runs_until(const std::function<bool()>& reached) const;
    /// May be called while another thread waits.
    void send_kill() const noexcept;
    /// Returns the status as waitpid() does.
    int wait() noexcept;
    int kill() noexcept;

private:
    int id_;
    int end_;  ///< a descriptor that becomes readable at the end
    bool ended_ = false;
    int status_ = 0;
};

/// "" for a killed process; otherwise how it ended.
[[nodiscard]] std::string describe_end(int status);

/// A T in memory shared with children. It starts as zero bytes, which must be a valid T.
template <class T>
class shared_memory {
public:
    static_assert(std::is_trivially_destructible_v<T>);
    shared_memory() : memory_(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) {  // NOLINT(performance-no-int-to-ptr)
            throw std::runtime_error("no memory to share");
        }
    }
    shared_memory(const shared_memory&) = delete;
    shared_memory& operator=(const shared_memory&) = delete;
    ~shared_memory() { ::munmap(memory_, sizeof(T)); }

    [[nodiscard]] T* operator->() const noexcept { return static_cast<T*>(memory_); }
    [[nodiscard]] T& operator*() const noexcept { return *operator->(); }

private:
    void* memory_;
};

}  // namespace holdfast::test
