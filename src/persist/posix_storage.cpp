#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checksum.hpp"
#include "persist/descriptor.hpp"
#include "persist/posix_io.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

namespace {

using base::failure;
using base::failure_code;
using base::os_failure;
using base::result;

constexpr mode_t new_file_mode = 0644;
constexpr mode_t new_directory_mode = 0755;
constexpr std::uint64_t stat_block_size = 512;

class posix_file final : public file {
public:
    posix_file(std::string path, descriptor fd) noexcept : path_(std::move(path)), fd_(std::move(fd)) {}

    [[nodiscard]] const std::string& path() const noexcept override { return path_; }
    [[nodiscard]] int native_handle() const noexcept override { return fd_.get(); }
    result<std::uint64_t> size() override { return size_of(fd_.get(), path_); }

    result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) override {
        return read_fully(fd_.get(), offset, buffer, path_);
    }
    result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site /*where*/) override {
        return write_fully(fd_.get(), offset, data, path_);
    }
    result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                              site /*where*/) override {
        return write_parts_fully(fd_.get(), offset, parts, path_);
    }

    void start_writeback() noexcept override { ::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE); }
    void write_back(std::uint64_t offset, std::uint64_t length) noexcept override {
        ::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(length),
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    result<void> sync(site /*where*/) override {
        // The kernel reports a lost write once; the next fdatasync answers 0 although the data is gone. So the first
        // failure stands for as long as this file is open.
        if (sync_failure_) {
            return *sync_failure_;
        }
        int answer = 0;
        do {
            answer = ::fdatasync(fd_.get());
        } while (answer != 0 && errno == EINTR);
        if (answer != 0) {
            sync_failure_ = os_failure(errno, "fdatasync", path_);
            return *sync_failure_;
        }
        return {};
    }

    result<void> resize(std::uint64_t bytes, site /*where*/) override { return set_size(fd_.get(), bytes, path_); }
    result<void> allocate(std::uint64_t offset, std::uint64_t length, site /*where*/) override {
        return reserve_space(fd_.get(), offset, length, path_);
    }
    result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site /*where*/) override {
        return punch(fd_.get(), offset, length, path_);
    }
    result<std::uint64_t> charged() override {
        struct stat status {};
        if (::fstat(fd_.get(), &status) != 0) {
            return os_failure(errno, "fstat", path_);
        }
        return static_cast<std::uint64_t>(status.st_blocks) * stat_block_size;
    }

private:
    std::string path_;
    descriptor fd_;
    std::optional<failure> sync_failure_;
};

struct directory_closer {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

int open_uninterrupted(const std::string& path, int flags, mode_t mode = 0) noexcept {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

std::string_view kind_of(mode_t mode) noexcept {
    switch (mode & S_IFMT) {
        case S_IFDIR: return "directory";
        case S_IFIFO: return "pipe";
        case S_IFSOCK: return "socket";
        case S_IFCHR:
        case S_IFBLK: return "device";
        default: return "unknown";
    }
}

/// `missing` where the error says that there is nothing.
failure missing_or(int os_error, std::string_view operation, const std::string& path) {
    failure what = os_failure(os_error, operation, path);
    if (os_error == ENOENT || os_error == ENOTDIR) {
        what.code = failure_code::missing;
    }
    return what;
}

/// Whoever put something else in the place of a file must get a message, not a read that blocks.
result<void> check_is_regular(int fd, const std::string& path) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        return os_failure(errno, "fstat", path);
    }
    if (!S_ISREG(status.st_mode)) {
        failure what;
        what.code = failure_code::corrupt;
        what.path = path;
        what.field = "file type";
        what.found = kind_of(status.st_mode);
        what.expected = "regular file";
        return what;
    }
    return {};
}

class posix_storage_type final : public storage {
public:
    result<std::unique_ptr<file>> open(const std::string& path, access_mode mode) override {
        // O_NONBLOCK: opening a pipe must not wait for its other end. It means nothing for regular files.
        const int flags = (mode == access_mode::read_only ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_NOCTTY;
        descriptor fd{open_uninterrupted(path, flags)};
        if (!fd.valid()) {
            return missing_or(errno, "open", path);
        }
        HF_TRY(check_is_regular(fd.get(), path));
        return std::unique_ptr<file>(std::make_unique<posix_file>(path, std::move(fd)));
    }

    result<std::unique_ptr<file>> create(const std::string& path, site /*where*/) override {
        descriptor fd{open_uninterrupted(path, O_RDWR | O_CREAT | O_EXCL, new_file_mode)};
        if (!fd.valid()) {
            return os_failure(errno, "create", path);
        }
        return std::unique_ptr<file>(std::make_unique<posix_file>(path, std::move(fd)));
    }

    result<bool> exists(const std::string& path) override {
        struct stat status {};
        if (::lstat(path.c_str(), &status) == 0) {
            return true;
        }
        if (errno == ENOENT || errno == ENOTDIR) {
            return false;
        }
        return os_failure(errno, "lstat", path);
    }

    result<void> make_directory(const std::string& path, site /*where*/) override {
        if (::mkdir(path.c_str(), new_directory_mode) != 0) {
            return os_failure(errno, "mkdir", path);
        }
        return {};
    }

    result<void> make_link(const std::string& path, const std::string& target, site /*where*/) override {
        return ::symlink(target.c_str(), path.c_str()) == 0 ? result<void>() : os_failure(errno, "symlink", path);
    }

    result<std::string> link_target(const std::string& path) override {
        std::string target(PATH_MAX, '\0');
        const auto length = ::readlink(path.c_str(), target.data(), target.size());
        if (length < 0) {
            return errno == EINVAL ? result<std::string>(std::string()) : missing_or(errno, "readlink", path);
        }
        target.resize(static_cast<std::size_t>(length));
        return target;
    }

    result<std::string> identity(const std::string& path) override {
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0) {
            return missing_or(errno, "stat", path);
        }
        return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    }

    result<std::uint64_t> birth(const std::string& path) override {
        struct statx status {};
        if (::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &status) != 0) {
            return missing_or(errno, "statx", path);
        }
        // Inode numbers come again, and small file systems have the same ones: the time to the nanosecond tells. Where
        // none is kept the device has to, whose number may change from boot to boot: then a file is taken for a copy.
        const bool has_time = (status.stx_mask & STATX_BTIME) != 0;
        const std::array<std::uint64_t, 3> what{status.stx_ino,
                                                has_time
                                                    ? static_cast<std::uint64_t>(status.stx_btime.tv_sec)
                                                    : std::uint64_t{status.stx_dev_major} << 32U | status.stx_dev_minor,
                                                has_time ? status.stx_btime.tv_nsec : ~std::uint64_t{0}};
        return std::max<std::uint64_t>(base::checksum64(std::as_bytes(std::span{what})), 1);
    }

    result<std::vector<std::string>> list(const std::string& directory) override {
        const std::unique_ptr<DIR, directory_closer> stream{::opendir(directory.c_str())};
        if (stream == nullptr) {
            return os_failure(errno, "opendir", directory);
        }
        std::vector<std::string> names;
        for (;;) {
            errno = 0;
            const dirent* entry = ::readdir(stream.get());  // NOLINT(concurrency-mt-unsafe): the stream is ours alone
            if (entry == nullptr) {
                break;
            }
            if (const std::string_view name{&entry->d_name[0]}; name != "." && name != "..") {
                names.emplace_back(name);
            }
        }
        if (errno != 0) {
            return os_failure(errno, "readdir", directory);
        }
        std::sort(names.begin(), names.end());
        return names;
    }

    result<void> rename(const std::string& from, const std::string& to, site /*where*/) override {
        if (::rename(from.c_str(), to.c_str()) != 0) {
            return os_failure(errno, "rename to " + to, from);
        }
        return {};
    }

    result<void> remove(const std::string& path, site /*where*/) override {
        if (::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) {
            return {};
        }
        if (errno != EISDIR) {
            return os_failure(errno, "unlink", path);
        }
        if (::rmdir(path.c_str()) == 0 || errno == ENOENT) {
            return {};
        }
        return os_failure(errno, "rmdir", path);
    }

    result<void> sync_directory(const std::string& path, site /*where*/) override {
        const descriptor fd{open_uninterrupted(path, O_RDONLY | O_DIRECTORY)};
        if (!fd.valid()) {
            return os_failure(errno, "open", path);
        }
        int answer = 0;
        do {
            answer = ::fsync(fd.get());
        } while (answer != 0 && errno == EINTR);
        if (answer != 0) {
            return os_failure(errno, "fsync", path);
        }
        // XFS answers 0 for a directory whose changes were lost because the file system was shut down meanwhile (by an
        // error of its own, say). Reading it tells.
        alignas(dirent64) std::array<std::byte, 1024> entries;
        if (::syscall(SYS_getdents64, fd.get(), entries.data(), entries.size()) < 0) {
            return os_failure(errno, "getdents64", path);
        }
        return {};
    }

    result<std::uint64_t> available(const std::string& directory) override {
        struct statvfs numbers {};
        if (::statvfs(directory.c_str(), &numbers) != 0) {
            return os_failure(errno, "statvfs", directory);
        }
        return std::uint64_t{numbers.f_bavail} * numbers.f_frsize;
    }

    result<void> check_place(const std::string& directory) override {
        struct statfs numbers {};
        if (::statfs(directory.c_str(), &numbers) != 0) {
            return os_failure(errno, "statfs", directory);
        }
        if (numbers.f_type != HUGETLBFS_MAGIC) {
            return {};
        }
        failure what;
        what.code = failure_code::unsupported;
        what.path = directory;
        what.field = "file system";
        what.found = "hugetlbfs, whose files cannot be written by system calls";
        what.expected = "tmpfs mounted with huge=within_size, a file system with dax, or any other";
        return what;
    }

    result<void> copy_content(file& source, file& target, shared_blocks blocks, site /*where*/) override {
        const bool may_share = blocks == shared_blocks::allowed;
        if (may_share) {
            HF_TRY_ASSIGN(const bool cloned,
                          clone_blocks(source.native_handle(), target.native_handle(), target.path()));
            if (cloned) {
                return {};
            }
        }
        return copy_sparse(source.native_handle(), source.path(), target.native_handle(), target.path(),
                           may_share ? copy_method::kernel_first : copy_method::read_and_write);
    }
};

}  // namespace

storage& posix_storage() noexcept {
    static posix_storage_type instance;
    return instance;
}

}  // namespace holdfast::persist
