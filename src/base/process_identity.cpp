#include "base/process_identity.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace holdfast::base {

namespace {

std::atomic<std::uint32_t> last_generation{0};

/// Zeros in each child, by the kernel.
std::atomic<std::uint64_t>* make_page() noexcept {
    constexpr std::size_t size = 4096;
    void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && ::madvise(page, size, MADV_WIPEONFORK) == 0) {
        return static_cast<std::atomic<std::uint64_t>*>(page);
    }
    if (page != MAP_FAILED) {
        ::munmap(page, size);
    }
    ::pthread_atfork(nullptr, nullptr, [] { last_generation.fetch_add(1, std::memory_order_relaxed); });
    return nullptr;
}

std::uint64_t identity_of(std::uint32_t generation) noexcept {
    return std::uint64_t{generation} << 32U | static_cast<std::uint32_t>(::getpid());
}

}  // namespace

std::uint64_t process_identity() noexcept {
    static std::atomic<std::uint64_t>* const page = make_page();
    if (page == nullptr) {
        return identity_of(last_generation.load(std::memory_order_relaxed));
    }
    std::uint64_t own = page->load(std::memory_order_acquire);
    if (own == 0) {
        // Of threads that come at once, one says which number it is.
        const std::uint64_t next = identity_of(last_generation.fetch_add(1, std::memory_order_relaxed) + 1);
        if (page->compare_exchange_strong(own, next, std::memory_order_acq_rel)) {
            own = next;
        }
    }
    return own;
}

}  // namespace holdfast::base
