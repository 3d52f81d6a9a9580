#include "base/sparse_table.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

namespace holdfast::base {

namespace {

constinit thread_local kept_sparse_memory* kept_of_thread = nullptr;

}  // namespace

kept_sparse_memory::kept_sparse_memory() noexcept { kept_of_thread = this; }

kept_sparse_memory::~kept_sparse_memory() {
    kept_of_thread = nullptr;
    for (const region& one : std::span(regions_).first(count_)) {
        static_cast<void>(::munmap(one.address, one.size));
    }
}

/// MADV_DONTNEED fails where the process has locked the memory.
bool kept_sparse_memory::keep(const region& one) noexcept {
    if (count_ == regions_.size() || ::madvise(one.address, one.size, MADV_DONTNEED) != 0) {
        return false;
    }
    regions_.at(count_++) = one;
    return true;
}

void* kept_sparse_memory::take(std::uint64_t size) noexcept {
    const auto kept = std::span(regions_).first(count_);
    const auto found = std::ranges::find(kept, size, &region::size);
    if (found == kept.end()) {
        return nullptr;
    }
    void* const address = found->address;
    *found = kept.back();
    --count_;
    return address;
}

result<sparse_memory> sparse_memory::map(std::uint64_t bytes, const char* purpose) {
    sparse_memory memory;
    memory.size_ = bytes;
    if (kept_of_thread != nullptr) {
        memory.address_ = kept_of_thread->take(bytes);
        if (memory.address_ != nullptr) {
            return memory;
        }
    }
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
    memory.address_ = address;
    return memory;
}

void sparse_memory::discard() noexcept {
    if (address_ != nullptr && ::madvise(address_, size_, MADV_DONTNEED) != 0) {
        std::memset(address_, 0, size_);  // MADV_DONTNEED fails for locked memory, all of which exists
    }
}

sparse_memory::~sparse_memory() {
    if (address_ != nullptr && (kept_of_thread == nullptr || !kept_of_thread->keep({address_, size_}))) {
        static_cast<void>(::munmap(address_, size_));
    }
}

}  // namespace holdfast::base
