#include "segment/files/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "base/interruption.hpp"
#include "base/process_identity.hpp"
#include "persist/posix_io.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

/// From /proc/locks ("1: FLOCK ADVISORY WRITE pid major:minor:inode 0 EOF").
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
        if (kind != "FLOCK" || !place.ends_with(inode)) {
            continue;
        }
        const std::string holder = fmt::format("{} {}", access == "WRITE" ? "writer, process" : "reader, process", pid);
        // The kernel may list a lock twice while other locks come and go.
        if ((holders + ", ").find(holder + ", ") == std::string::npos) {
            holders += (holders.empty() ? "" : ", ") + holder;
        }
    }
    return holders;
}

std::string signer(persist::storage& storage, const std::string& path) {
    std::array<std::byte, 32> text{};
    auto file = storage.open(path, access_mode::read_only);
    const auto size = file ? (*file)->size() : base::result<std::uint64_t>(std::uint64_t{0});
    const std::size_t length = size ? std::min<std::uint64_t>(*size, text.size()) : 0;
    if (length == 0 || !(*file)->read_at(0, std::span{text}.first(length))) {
        return "another process";
    }
    return fmt::format("writer, process {}", std::string_view(reinterpret_cast<const char*>(text.data()), length));
}

failure conflict(persist::storage& storage, const persist::file& locked, const std::string& path, access_mode mode) {
    struct stat status {};
    std::string holders;
    if (::fstat(locked.native_handle(), &status) == 0) {
        holders = holders_in_kernel(status);
    }
    if (holders.empty()) {
        holders = signer(storage, path);
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

/// remove_heap() may unlink the file between open and flock.
bool still_there(persist::storage& storage, const persist::file& locked, const std::string& path) {
    struct stat status {};
    const auto named = storage.identity(path);
    return named && ::fstat(locked.native_handle(), &status) == 0 &&
           *named == fmt::format("{}:{}", status.st_dev, status.st_ino);
}

/// A signal ends the wait only where the thread wants that.
int flock_until_done(int fd, int operation) noexcept {
    for (;;) {
        const int done = ::flock(fd, operation);
        if (const int os_error = errno; done == 0 || os_error != EINTR || base::interruption::is_wanted()) {
            errno = os_error;
            return done;
        }
    }
}

base::result<void> take_lock(persist::storage& storage, const persist::file& what, const std::string& path,
                             access_mode mode, heap_lock::patience waits) {
    const int how = mode == access_mode::read_write ? LOCK_EX : LOCK_SH;
    if (flock_until_done(what.native_handle(), how | (waits == heap_lock::patience::none ? LOCK_NB : 0)) == 0) {
        return {};
    }
    return errno == EWOULDBLOCK ? conflict(storage, what, path, mode) : base::os_failure(errno, "flock", path);
}

/// Of an open file description, so that it says nothing about numbers of processes, which repeat in namespaces.
struct flock first_byte(short how) noexcept {
    struct flock made {};
    made.l_type = how;
    made.l_whence = SEEK_SET;
    made.l_len = 1;
    return made;
}

}  // namespace

heap_lock::heap_lock(std::unique_ptr<persist::file> directory, access_mode mode) noexcept
    : directory_(std::move(directory)), owner_(base::process_identity()), writer_(mode == access_mode::read_write) {}

heap_lock::~heap_lock() {
    release(file_);
    release(directory_);
}

void heap_lock::release(const std::unique_ptr<persist::file>& locked) const noexcept {
    if (locked != nullptr && writer_ && base::process_identity() == owner_) {
        if (locked == file_) {  // sign() locks no other's byte
            struct flock none = first_byte(F_UNLCK);
            ::fcntl(locked->native_handle(), F_OFD_SETLK, &none);
        }
        ::flock(locked->native_handle(), LOCK_UN);
    }
}

void heap_lock::sign() const noexcept {
    if (file_ == nullptr || !writer_) {
        return;
    }
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.begin(), text.end(), ::getpid()).ptr;
    if (::ftruncate(file_->native_handle(), 0) == 0) {
        const std::string_view name(text.data(), static_cast<std::size_t>(end - text.begin()));
        static_cast<void>(
            persist::write_fully(file_->native_handle(), 0, std::as_bytes(std::span(name)), file_->path()).ok());
    }
    struct flock own = first_byte(F_WRLCK);
    ::fcntl(file_->native_handle(), F_OFD_SETLK, &own);
}

bool heap_lock::is_signed(persist::storage& storage, const std::string& directory) {
    const auto file = storage.open(directory + "/lock", access_mode::read_only);
    struct flock question = first_byte(F_WRLCK);
    return file && ::fcntl((*file)->native_handle(), F_OFD_GETLK, &question) == 0 && question.l_type == F_WRLCK;
}

base::result<heap_lock> heap_lock::acquire(persist::storage& storage, const std::string& directory, access_mode mode,
                                           missing_file missing, patience waits) {
    const std::string path = directory + "/lock";
    HF_TRY_ASSIGN(auto opened, storage.open_directory(directory));
    heap_lock held(std::move(opened), mode);
    HF_TRY(take_lock(storage, *held.directory_, path, mode, waits));
    HF_TRY(held.acquire_file(storage, path, missing, waits));
    return held;
}

void heap_lock::let_go() noexcept {
    release(file_);
    release(directory_);
}

/// In the order of acquire().
base::result<void> heap_lock::take_again() noexcept {
    for (const auto* const each : {&directory_, &file_}) {
        if (*each != nullptr && flock_until_done((*each)->native_handle(), LOCK_EX) != 0) {
            const int os_error = errno;
            let_go();
            return base::os_failure(os_error, "flock", (*each)->path());
        }
    }
    return {};
}

base::result<void> heap_lock::acquire_file(persist::storage& storage, const std::string& path, missing_file missing,
                                           patience waits) {
    const access_mode mode = writer_ ? access_mode::read_write : access_mode::read_only;
    constexpr int attempts = 16;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        auto opened = storage.open(path, mode);
        if (!opened && opened.error().code == failure_code::missing) {
            if (!writer_ || missing == missing_file::do_without) {
                return {};
            }
            opened = storage.create(path, "lock.create");
            if (!opened && opened.error().code == failure_code::already_exists) {
                continue;
            }
        }
        if (!opened) {
            failure what = std::move(opened).error();
            what.field = what.os_error != 0 ? "open the lock" : what.field;
            return what;
        }
        HF_TRY(take_lock(storage, **opened, path, mode, waits));
        if (still_there(storage, **opened, path)) {
            file_ = std::move(opened).value();
            return {};
        }
    }
    return failure{failure_code::locked, path, "lock", "a lock file that is removed again and again",
                   "a stable directory", {},   0};
}

}  // namespace holdfast::segment
