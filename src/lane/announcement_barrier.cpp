#include "lane/announcement_barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace holdfast::lane {

namespace {

long barrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

bool registered() noexcept {
    static const bool answer =
        barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 && barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
    return answer;
}

/// With several threads the kernel lets a registration wait some 20 ms.
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
