#include "base/sparse_table.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace holdfast::base {

result<sparse_memory> sparse_memory::map(std::uint64_t bytes, const char* purpose) {
    const auto refused = [purpose] {
        failure what;
        what.code = failure_code::out_of_memory;
        what.field = purpose;
        what.os_error = errno;
        what.hint = "reserve fewer addresses for the heap, or let the system overcommit";
        return what;
    };
    void* address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        return refused();
    }
    // After mlockall(MCL_FUTURE) the kernel takes all memory of a range at once that is locked and not PROT_NONE.
    static_cast<void>(::munlock(address, bytes));
    if (::mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0) {
        const failure what = refused();
        ::munmap(address, bytes);
        return what;
    }
    // A huge page would take 2 MiB where one element is touched.
    static_cast<void>(::madvise(address, bytes, MADV_NOHUGEPAGE));
    // A core dump would have the whole range, of which hardly anything is touched.
    static_cast<void>(::madvise(address, bytes, MADV_DONTDUMP));
    sparse_memory memory;
    memory.address_ = address;
    memory.size_ = bytes;
    return memory;
}

void sparse_memory::discard() noexcept {
    if (address_ != nullptr && ::madvise(address_, size_, MADV_DONTNEED) != 0) {
        std::memset(address_, 0, size_);  // MADV_DONTNEED fails for locked memory, all of which exists
    }
}

sparse_memory::~sparse_memory() {
    if (address_ != nullptr) {
        static_cast<void>(::munmap(address_, size_));
    }
}

}  // namespace holdfast::base
