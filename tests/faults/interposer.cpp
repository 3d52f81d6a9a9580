#include "interposer.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <new>

#include <execinfo.h>

namespace holdfast::faults {

namespace {

fault plan;
std::atomic<bool> armed{false};
std::array<std::atomic<std::uint64_t>, call_count> counts{};
std::atomic<std::uint64_t> failures{0};
called_from* places = nullptr;

/// Notes the three functions that lead to the call. With more, there are more places than calls that the suite could
/// try; with fewer, errors of different functions would be one.
void note_place(call which, std::uint64_t number) noexcept {
    constexpr int own_frames = 2;
    constexpr int deepest = own_frames + 3;
    static thread_local bool noting = false;  // what it calls may allocate
    if (noting || number > called_from::most) {
        return;
    }
    noting = true;
    std::array<void*, deepest> frames{};
    const int depth = ::backtrace(frames.data(), deepest);
    std::uint64_t hash = 0;
    for (int i = own_frames; i < depth; ++i) {
        hash = (hash ^ reinterpret_cast<std::uintptr_t>(frames.at(static_cast<std::size_t>(i)))) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 32U;
    }
    places->place.at(static_cast<std::size_t>(which)).at(number - 1) = hash;
    noting = false;
}

/// Counts a call; true, and errno set, where it is to fail.
bool fails(call which) noexcept {
    if (!armed.load(std::memory_order_relaxed)) {
        return false;
    }
    const std::uint64_t number = counts[static_cast<std::size_t>(which)].fetch_add(1) + 1;
    if (places != nullptr) {
        note_place(which, number);
    }
    if (plan.also == which && failures.load() != 0) {
        errno = plan.also_error;
        return true;
    }
    if (plan.nth == 0 || plan.which != which || (plan.from_then_on ? number < plan.nth : number != plan.nth)) {
        return false;
    }
    failures.fetch_add(1);
    errno = plan.os_error;
    return true;
}

}  // namespace

std::string_view name_of(call which) {
    static constexpr std::array<std::string_view, call_count> names{
        "copy_file_range", "fallocate", "fchown",  "fdatasync", "fdopendir",  "flock",    "fsync",     "ftruncate",
        "ioctl",           "madvise",   "mkdirat", "mmap",      "mremap",     "msync",    "open",      "openat",
        "pread",           "pwrite",    "pwritev", "pwritev2",  "readlinkat", "renameat", "symlinkat", "unlinkat",
        "memory"};
    return names.at(static_cast<std::size_t>(which));
}

std::span<const int> errors_of(call which) {
    static constexpr std::array io{EIO};
    static constexpr std::array no_memory{ENOMEM};
    static constexpr std::array no_space{ENOSPC, EOPNOTSUPP};
    static constexpr std::array write_errors{EIO, ENOSPC};
    static constexpr std::array unsupported{ENOTTY, EIO};
    static constexpr std::array no_descriptor{EMFILE, EACCES};
    static constexpr std::array no_permission{EPERM};
    static constexpr std::array no_lock{ENOLCK};
    static constexpr std::array cross_device{EXDEV, EIO};
    switch (which) {
        case call::copy_file_range: return cross_device;
        case call::fallocate: return no_space;
        case call::flock: return no_lock;
        case call::ioctl: return unsupported;
        case call::fdopendir:
        case call::madvise:
        case call::mmap:
        case call::mremap:
        case call::memory: return no_memory;
        case call::open:
        case call::openat: return no_descriptor;
        case call::fchown: return no_permission;
        case call::pwrite:
        case call::pwritev:
        case call::pwritev2: return write_errors;
        default: return io;
    }
}

void arm(const fault& planned, called_from* noted) noexcept {
    plan = planned;
    places = noted;
    for (auto& count : counts) {
        count = 0;
    }
    failures = 0;
    armed = true;
}

void disarm() noexcept { armed = false; }

disarmed_section::disarmed_section() noexcept : was_armed_(armed.exchange(false)) {}
disarmed_section::~disarmed_section() { armed = was_armed_; }

std::array<std::uint64_t, call_count> calls() noexcept {
    std::array<std::uint64_t, call_count> copy{};
    std::copy(counts.begin(), counts.end(), copy.begin());
    return copy;
}

std::uint64_t fired() noexcept { return failures; }

}  // namespace holdfast::faults

using holdfast::faults::call;
using holdfast::faults::fails;

// NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker's --wrap asks for.
extern "C" {

ssize_t __real_copy_file_range(int in, off64_t* in_at, int out, off64_t* out_at, size_t count, unsigned flags);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __real_fchown(int fd, uid_t owner, gid_t group);
int __real_fdatasync(int fd);
DIR* __real_fdopendir(int fd);
int __real_flock(int fd, int operation);
int __real_fsync(int fd);
int __real_ftruncate(int fd, off_t length);
int __real_ioctl(int fd, unsigned long request, void* argument);
int __real_madvise(void* address, size_t length, int advice);
int __real_mkdirat(int directory, const char* path, mode_t mode);
void* __real_mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset);
void* __real_mremap(void* old, size_t old_length, size_t length, int flags, void* address);
int __real_msync(void* address, size_t length, int flags);
int __real_open(const char* path, int flags, ...);
int __real_openat(int directory, const char* path, int flags, ...);
ssize_t __real_pread(int fd, void* buffer, size_t count, off_t offset);
ssize_t __real_pwrite(int fd, const void* buffer, size_t count, off_t offset);
ssize_t __real_pwritev(int fd, const iovec* parts, int count, off_t offset);
ssize_t __real_pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags);
ssize_t __real_readlinkat(int directory, const char* path, char* buffer, size_t size);
int __real_renameat(int from_directory, const char* from, int to_directory, const char* to);
int __real_symlinkat(const char* target, int directory, const char* path);
int __real_unlinkat(int directory, const char* path, int flags);

ssize_t __wrap_copy_file_range(int in, off64_t* in_at, int out, off64_t* out_at, size_t count, unsigned flags) {
    return fails(call::copy_file_range) ? -1 : __real_copy_file_range(in, in_at, out, out_at, count, flags);
}
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length) {
    return fails(call::fallocate) ? -1 : __real_fallocate(fd, mode, offset, length);
}
int __wrap_fchown(int fd, uid_t owner, gid_t group) {
    return fails(call::fchown) ? -1 : __real_fchown(fd, owner, group);
}
DIR* __wrap_fdopendir(int fd) { return fails(call::fdopendir) ? nullptr : __real_fdopendir(fd); }
int __wrap_fdatasync(int fd) { return fails(call::fdatasync) ? -1 : __real_fdatasync(fd); }
int __wrap_flock(int fd, int operation) { return fails(call::flock) ? -1 : __real_flock(fd, operation); }
int __wrap_fsync(int fd) { return fails(call::fsync) ? -1 : __real_fsync(fd); }
int __wrap_ftruncate(int fd, off_t length) { return fails(call::ftruncate) ? -1 : __real_ftruncate(fd, length); }
int __wrap_ioctl(int fd, unsigned long request, void* argument) {
    return fails(call::ioctl) ? -1 : __real_ioctl(fd, request, argument);
}
int __wrap_madvise(void* address, size_t length, int advice) {
    return fails(call::madvise) ? -1 : __real_madvise(address, length, advice);
}
int __wrap_mkdirat(int directory, const char* path, mode_t mode) {
    return fails(call::mkdirat) ? -1 : __real_mkdirat(directory, path, mode);
}
void* __wrap_mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
    return fails(call::mmap) ? MAP_FAILED : __real_mmap(address, length, protection, flags, fd, offset);
}
void* __wrap_mremap(void* old, size_t old_length, size_t length, int flags, void* address) {
    return fails(call::mremap) ? MAP_FAILED : __real_mremap(old, old_length, length, flags, address);
}
int __wrap_msync(void* address, size_t length, int flags) {
    return fails(call::msync) ? -1 : __real_msync(address, length, flags);
}
int __wrap_open(const char* path, int flags, ...) {
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return fails(call::open) ? -1 : __real_open(path, flags, mode);
}
int __wrap_openat(int directory, const char* path, int flags, ...) {
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return fails(call::openat) ? -1 : __real_openat(directory, path, flags, mode);
}
ssize_t __wrap_pread(int fd, void* buffer, size_t count, off_t offset) {
    return fails(call::pread) ? -1 : __real_pread(fd, buffer, count, offset);
}
ssize_t __wrap_pwrite(int fd, const void* buffer, size_t count, off_t offset) {
    if (fails(call::pwrite)) {
        const int os_error = errno;
        static_cast<void>(__real_pwrite(fd, buffer, count / 2, offset));
        errno = os_error;
        return -1;
    }
    return __real_pwrite(fd, buffer, count, offset);
}
ssize_t __wrap_pwritev(int fd, const iovec* parts, int count, off_t offset) {
    if (fails(call::pwritev)) {
        const int os_error = errno;
        static_cast<void>(__real_pwritev(fd, parts, count / 2, offset));
        errno = os_error;
        return -1;
    }
    return __real_pwritev(fd, parts, count, offset);
}
ssize_t __wrap_pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    if (fails(call::pwritev2)) {
        const int os_error = errno;
        iovec half = parts[0];
        half.iov_len = half.iov_len / 2 / 4096 * 4096;
        static_cast<void>(__real_pwritev2(fd, &half, 1, offset, flags));
        errno = os_error;
        return -1;
    }
    return __real_pwritev2(fd, parts, count, offset, flags);
}
ssize_t __wrap_readlinkat(int directory, const char* path, char* buffer, size_t size) {
    return fails(call::readlinkat) ? -1 : __real_readlinkat(directory, path, buffer, size);
}
int __wrap_renameat(int from_directory, const char* from, int to_directory, const char* to) {
    return fails(call::renameat) ? -1 : __real_renameat(from_directory, from, to_directory, to);
}
int __wrap_symlinkat(const char* target, int directory, const char* path) {
    return fails(call::symlinkat) ? -1 : __real_symlinkat(target, directory, path);
}
int __wrap_unlinkat(int directory, const char* path, int flags) {
    return fails(call::unlinkat) ? -1 : __real_unlinkat(directory, path, flags);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

namespace {

void* obtain(std::size_t bytes, std::size_t alignment) noexcept {
    if (fails(call::memory)) {
        return nullptr;
    }
    if (alignment <= alignof(std::max_align_t)) {
        return std::malloc(bytes == 0 ? 1 : bytes);
    }
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* obtain_or_throw(std::size_t bytes, std::size_t alignment) {
    void* const memory = obtain(bytes, alignment);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}

}  // namespace

// All of the program's memory, that of the standard library included.
void* operator new(std::size_t bytes) { return obtain_or_throw(bytes, 0); }
void* operator new[](std::size_t bytes) { return obtain_or_throw(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return obtain_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return obtain_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return obtain(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return obtain(bytes, 0); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
    std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
