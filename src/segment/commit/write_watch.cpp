#include "segment/commit/write_watch.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <new>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "segment/commit/pagemap.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using written = pagemap::written;

constexpr auto name = "userfaultfd";

// Debian 12's headers are older.
constexpr std::uint64_t feature_unpopulated = 1U << 13U;  // Linux 6.4
constexpr std::uint64_t feature_async = 1U << 15U;        // Linux 6.7

failure refused(const char* call) {
    failure what = base::os_failure(errno, call, name);
    const bool is_limit = what.os_error == EMFILE || what.os_error == ENFILE || what.os_error == ENOMEM;
    what.code = is_limit ? failure_code::limit : failure_code::unsupported;
    return what;
}

failure misses(const char* what, const char* expected) {
    return {failure_code::unsupported, name, "stores to a private page", what, expected, {}, 0};
}

/// Before, PAGEMAP_SCAN took a bit of the place of a swap entry for the protection of its page, and could miss a page
/// that was stored to and is in swap.
base::result<void> check_kernel() {
    constexpr unsigned major_needed = 6;
    constexpr unsigned minor_needed = 11;
    utsname kernel{};
    unsigned major = 0;
    unsigned minor = 0;
    ::uname(&kernel);
    std::istringstream release(static_cast<const char*>(kernel.release));
    char dot = 0;
    release >> major >> dot >> minor;
    if (std::tie(major, minor) >= std::tie(major_needed, minor_needed)) {
        return {};
    }
    return failure{
        failure_code::unsupported, name, "kernel", static_cast<const char*>(kernel.release), "Linux 6.11", {}, 0};
}

/// A private mapping of a file.
class trial_mapping {
public:
    static constexpr std::uint64_t pages = 2;

    trial_mapping() noexcept {
        const persist::descriptor file(::memfd_create("holdfast", MFD_CLOEXEC));
        if (file.valid() && ::ftruncate(file.get(), static_cast<off_t>(size())) == 0) {
            void* const mapped = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
            begin_ = mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
        }
    }
    trial_mapping(const trial_mapping&) = delete;
    trial_mapping& operator=(const trial_mapping&) = delete;
    ~trial_mapping() {
        if (begin_ != nullptr) {
            ::munmap(begin_, size());
        }
    }

    [[nodiscard]] static constexpr std::uint64_t size() noexcept { return pages * page_size; }
    [[nodiscard]] std::byte* begin() const noexcept { return begin_; }
    void read(std::uint64_t page) const noexcept {
        static_cast<void>(*static_cast<const volatile std::byte*>(begin_ + page * page_size));
    }
    void store(std::uint64_t page) const noexcept {
        *static_cast<volatile std::byte*>(begin_ + page * page_size) = std::byte{1};
    }

private:
    std::byte* begin_ = nullptr;
};

/// Stores to pages that were read and that were not, a page that a commit takes out of memory, and stores to it. True
/// where each was counted as a fault.
base::result<bool> try_it(const write_watch& watch, const pagemap& pages) {
    const trial_mapping trial;
    if (trial.begin() == nullptr) {
        return refused("memfd_create");
    }
    const auto noted = [&](written afterwards) -> base::result<std::uint64_t> {
        std::vector<memory_run> runs;
        HF_TRY(pages.find_written(trial.begin(), trial_mapping::size(), afterwards, runs));
        std::uint64_t count = 0;
        for (const memory_run& run : runs) {
            count += run.pages;
        }
        return count;
    };
    trial.read(0);
    HF_TRY(watch.watch(trial.begin(), trial_mapping::size()));
    trial.read(1);
    HF_TRY_ASSIGN(const std::uint64_t at_first, noted(written::stay));
    const auto faults_of_stores = [&](std::initializer_list<std::uint64_t> to) {
        const std::uint64_t before = faults_of_process();
        for (const std::uint64_t page : to) {
            trial.store(page);
        }
        return faults_of_process() - before;
    };
    bool counts = faults_of_stores({0, 1}) >= 2;
    HF_TRY_ASSIGN(const std::uint64_t stored, noted(written::are_protected_again));
    HF_TRY_ASSIGN(const std::uint64_t protected_again, noted(written::stay));
    counts = faults_of_stores({0}) >= 1 && counts;
    HF_TRY_ASSIGN(const std::uint64_t stored_again, noted(written::are_protected_again));
    ::madvise(trial.begin(), trial_mapping::size(), MADV_DONTNEED);
    trial.read(0);
    HF_TRY_ASSIGN(const std::uint64_t dropped, noted(written::stay));
    counts = faults_of_stores({0, 1}) >= 2 && counts;
    HF_TRY_ASSIGN(const std::uint64_t stored_after, noted(written::stay));
    if (stored != 2 || stored_again != 1 || stored_after != 2) {
        return misses("not noted", "noted");
    }
    if (at_first != 0 || protected_again != 0 || dropped != 0) {
        return misses("noted though there were none", "none");
    }
    return counts;
}

}  // namespace

// Whoever asks has a commit to make, with memory that is watched or without.
base::result<void> write_watch::start(const pagemap& pages) try {
    HF_TRY(check_kernel());
    // Stores by the kernel are noted in this mode as well: nothing is ever delivered.
    persist::descriptor calls(
        static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    if (!calls.valid()) {
        return refused("open");
    }
    uffdio_api wanted{};
    wanted.api = UFFD_API;
    wanted.features = feature_async | feature_unpopulated;
    if (::ioctl(calls.get(), UFFDIO_API, &wanted) != 0) {
        return refused("ioctl(UFFDIO_API)");
    }
    calls_ = std::move(calls);
    auto tried = try_it(*this, pages);
    if (!tried) {
        calls_.reset();
        return std::move(tried).error();
    }
    counts_faults_ = *tried;
    return {};
} catch (const std::bad_alloc&) {
    calls_.reset();
    failure what;
    what.code = failure_code::limit;
    return what;
}

base::result<void> write_watch::watch(std::byte* begin, std::uint64_t bytes) const {
    if (!take(begin, bytes)) {
        return refused("ioctl(UFFDIO_REGISTER)");
    }
    if (!protect(begin, bytes, UFFDIO_WRITEPROTECT_MODE_WP)) {
        failure what = refused("ioctl(UFFDIO_WRITEPROTECT)");
        unprotect(begin, bytes);
        return what;
    }
    return {};
}

bool write_watch::protect_again(std::byte* begin, std::uint64_t bytes) const noexcept {
    return protect(begin, bytes, UFFDIO_WRITEPROTECT_MODE_WP);
}

void write_watch::unprotect(std::byte* begin, std::uint64_t bytes) const noexcept {
    // The kernel stops at what is not watched, and may have no memory to watch that.
    if (!(take(begin, bytes) && protect(begin, bytes, 0)) && !protect(begin, bytes, 0) && bytes > page_size) {
        const std::uint64_t half = base::align_up(bytes / 2, page_size);
        unprotect(begin, half);
        unprotect(begin + half, bytes - half);
    }
}

bool write_watch::take(std::byte* begin, std::uint64_t bytes) const noexcept {
    uffdio_register range{};
    range.range = {reinterpret_cast<std::uint64_t>(begin), bytes};
    range.mode = UFFDIO_REGISTER_MODE_WP;
    return ::ioctl(calls_.get(), UFFDIO_REGISTER, &range) == 0;
}

bool write_watch::protect(std::byte* begin, std::uint64_t bytes, std::uint64_t mode) const noexcept {
    uffdio_writeprotect protection{};
    protection.range = {reinterpret_cast<std::uint64_t>(begin), bytes};
    protection.mode = mode;
    while (::ioctl(calls_.get(), UFFDIO_WRITEPROTECT, &protection) != 0) {
        if (errno != EINTR && errno != EAGAIN) {
            return false;
        }
    }
    return true;
}

}  // namespace holdfast::segment
