#include "segment/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

/// The processes that hold a flock on the file, from /proc/locks ("1: FLOCK ADVISORY WRITE pid major:minor:inode 0
/// EOF").
std::string holders_in_kernel(const struct stat& status) {
    std::ifstream locks("/proc/locks");
    const std::string inode = fmt::format(":{}", status.st_ino);
    std::string holders;
    for (std::string line; std::getline(locks, line);) {
        std::istringstream words(line);
        std::string number;
        std::string kind;
        std::string advisory;
        std::string access;
        std::string pid;
        std::string place;
        words >> number >> kind >> advisory >> access >> pid >> place;
        if (kind == "FLOCK" && place.ends_with(inode)) {
            holders += fmt::format("{}{} {}", holders.empty() ? "" : ", ",
                                   access == "WRITE" ? "writer, process" : "reader, process", pid);
        }
    }
    return holders;
}

failure conflict(const std::string& path, int fd, access_mode mode) {
    struct stat status {};
    std::string holders;
    if (::fstat(fd, &status) == 0) {
        holders = holders_in_kernel(status);
    }
    if (holders.empty()) {
        std::array<char, 32> text{};
        const auto length = ::pread(fd, text.data(), text.size() - 1, 0);
        holders = length > 0 ? fmt::format("writer, process {}",
                                           std::string_view(text.data(), static_cast<std::size_t>(length)))
                             : "another process";
    }
    return failure{
        failure_code::locked,
        path,
        "lock",
        std::move(holders),
        mode == access_mode::read_write ? "nobody" : "no writer",
        fmt::format("one writer or any number of readers may have a heap open; this is process {}", ::getpid()),
        0};
}

/// Whether the path still leads to the locked file: remove() may have unlinked it between open and flock.
bool still_linked(int fd, const std::string& path) {
    struct stat locked {};
    struct stat named {};
    return ::fstat(fd, &locked) == 0 && ::stat(path.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
           locked.st_dev == named.st_dev;
}

}  // namespace

heap_lock::heap_lock(persist::descriptor file, access_mode mode) noexcept
    : file_(std::move(file)), owner_(::getpid()), writer_(mode == access_mode::read_write) {}

heap_lock::~heap_lock() {
    if (file_.valid() && writer_ && ::getpid() == owner_) {
        ::flock(file_.get(), LOCK_UN);
    }
}

base::result<heap_lock> heap_lock::acquire(const std::string& path, access_mode mode) {
    const bool writer = mode == access_mode::read_write;
    constexpr int attempts = 16;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        persist::descriptor file(::open(path.c_str(), (writer ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0644));
        if (!file.valid()) {
            return base::os_failure(errno, "open the lock", path);
        }
        if (::flock(file.get(), (writer ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
            return errno == EWOULDBLOCK ? conflict(path, file.get(), mode) : base::os_failure(errno, "flock", path);
        }
        if (!still_linked(file.get(), path)) {
            continue;
        }
        if (writer) {
            // For people, and for file systems whose locks /proc/locks does not show: losing it costs nothing.
            const std::string pid = std::to_string(::getpid());
            if (::ftruncate(file.get(), 0) == 0) {
                [[maybe_unused]] const auto written = ::pwrite(file.get(), pid.data(), pid.size(), 0);
            }
        }
        return heap_lock(std::move(file), mode);
    }
    return failure{failure_code::locked, path, "lock", "a lock file that is removed again and again",
                   "a stable directory", {},   0};
}

}  // namespace holdfast::segment
