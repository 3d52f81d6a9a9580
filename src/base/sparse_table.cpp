#include "base/sparse_table.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace holdfast::base {

result<sparse_memory> sparse_memory::map(std::uint64_t bytes, const char* purpose) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        failure what;
        what.code = failure_code::out_of_memory;
        what.field = purpose;
        what.os_error = errno;
        what.hint = "reserve fewer addresses for the heap, or let the system overcommit";
        return what;
    }
    // A huge page would take 2 MiB where one element is touched.
    static_cast<void>(::madvise(address, bytes, MADV_NOHUGEPAGE));
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
