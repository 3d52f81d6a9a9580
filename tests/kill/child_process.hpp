// A process that a test starts and kills, and memory that outlives it.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace holdfast::test {

/// A child of this process. It dies with it, and with this object.
class child_process {
public:
    /// The child runs `work`, and ends with the status that it returns. Throws std::system_error where there is none.
    explicit child_process(const std::function<int()>& work);
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    ~child_process();

    /// Waits for its end, or so long. Whether it has ended.
    [[nodiscard]] bool ends_within(std::uint64_t nanoseconds) const;
    /// Ends it, if it has not ended. It may be told while another call waits for its end.
    void send_kill() const noexcept;
    /// Waits for its end. The status, as of waitpid().
    int wait() noexcept;
    /// send_kill(), wait().
    int kill() noexcept;

private:
    int id_;
    int end_;  ///< a descriptor that tells of its end
    bool ended_ = false;
    int status_ = 0;
};

/// "" for a process that was killed; else how it ended.
[[nodiscard]] std::string describe_end(int status);

/// A T in memory that is shared with children: all bytes of it are zero, which must be a value of T.
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
