#include "lane/announcement_barrier.hpp"

#include <linux/membarrier.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace holdfast::lane {

namespace {

long barrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

/// True where that cannot be known.
bool has_one_thread() noexcept {
    constexpr nlink_t beside_threads = 2;  // "." and ".."
    struct stat found {};
    return ::stat("/proc/self/task", &found) != 0 || found.st_nlink <= beside_threads + 1;
}

/// With several threads the kernel lets a registration wait some 10 to 20 ms. A program that loads the library beside
/// its threads, as an interpreter does, gets fences instead.
bool registered() noexcept {
    static const bool answer = [] {
        const auto works = [] { return barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0; };
        return works() || (has_one_thread() && barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 && works());
    }();
    return answer;
}

[[gnu::constructor]] void register_early() noexcept { static_cast<void>(registered()); }

}  // namespace

announcement_barrier::announcement_barrier() noexcept : by_kernel_(registered()) {}

void announcement_barrier::see_announcements() const noexcept {
    if (by_kernel_) {
        barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    } else {
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
}

}  // namespace holdfast::lane
