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
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "base/checksum.hpp"
#include "persist/descriptor.hpp"
#include "persist/owned_paths.hpp"
#include "persist/posix_file.hpp"
#include "persist/posix_io.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

namespace {

using base::failure;
using base::failure_code;
using base::os_failure;
using base::result;

struct directory_closer {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

descriptor open_uninterrupted(const place& where, int flags, mode_t mode = 0) noexcept {
    int fd = -1;
    do {
        fd = ::openat(where.directory, where.name, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return descriptor(fd);
}

std::string_view kind_of(mode_t mode) noexcept {
    switch (mode & S_IFMT) {
        case S_IFLNK: return "link";
        case S_IFDIR: return "directory";
        case S_IFIFO: return "pipe";
        case S_IFSOCK: return "socket";
        case S_IFCHR:
        case S_IFBLK: return "device";
        default: return "unknown";
    }
}

failure missing_or(int os_error, std::string_view operation, const std::string& path) {
    failure what = os_failure(os_error, operation, path);
    if (os_error == ENOENT || os_error == ENOTDIR) {
        what.code = failure_code::missing;
    }
    return what;
}

failure no_regular_file(mode_t mode, const std::string& path) {
    failure what;
    what.code = failure_code::corrupt;
    what.path = path;
    what.field = "file type";
    what.found = kind_of(mode);
    what.expected = "regular file";
    return what;
}

/// `corrupt` where something else than a file is in its place.
failure not_opened(const place& where, int os_error, const std::string& path) {
    const bool may_be_other = os_error == ELOOP || os_error == EISDIR || os_error == ENXIO || os_error == ENODEV;
    struct stat status {};
    if (may_be_other && ::fstatat(where.directory, where.name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(status.st_mode)) {
        return no_regular_file(status.st_mode, path);
    }
    return missing_or(os_error, "open", path);
}

/// A read could block on what is no regular file, and in a held directory another user may have put the file there.
result<void> check_opened(int fd, const held_directory* in, access_mode mode, const std::string& path,
                          known_files* known) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        return os_failure(errno, "fstat", path);
    }
    if (!S_ISREG(status.st_mode)) {
        return no_regular_file(status.st_mode, path);
    }
    if (in == nullptr) {
        return {};
    }
    HF_TRY(check_owner(status, *in, path));
    if (mode == access_mode::read_write && status.st_nlink > 1) {
        return failure{failure_code::corrupt,
                       path,
                       "names of the file",
                       std::to_string(status.st_nlink),
                       "1",
                       "it has another name (a hard link), which a writer would change with it; make a copy of it",
                       0};
    }
    return known == nullptr ? result<void>() : known->expect_same(path, fd, status);
}

class posix_storage_type final : public storage {
public:
    posix_storage_type() = default;
    posix_storage_type(const held_directories& held, const permissions& of_new, std::shared_ptr<known_files> known,
                       std::shared_ptr<noted_descriptors> notes)
        : held_(held), of_new_(of_new), known_(std::move(known)), notes_(std::move(notes)) {}

    result<std::unique_ptr<file>> open(const std::string& path, access_mode mode) override {
        return open_with(path, mode, O_NOFOLLOW, known_.get());
    }
    result<std::unique_ptr<file>> open_changing(const std::string& path) override {
        return open_with(path, access_mode::read_only, O_NOFOLLOW, nullptr);
    }
    result<std::unique_ptr<file>> open_target(const std::string& path, access_mode mode) override {
        return open_with(path, mode, 0, known_.get());
    }
    result<std::unique_ptr<file>> open_with(const std::string& path, access_mode mode, int more_flags,
                                            known_files* known) const {
        // Opening a pipe must not wait for its other end.
        const int flags = (mode == access_mode::read_only ? O_RDONLY : O_RDWR) | more_flags | O_NONBLOCK | O_NOCTTY;
        const place where = held_.find_name(path);
        descriptor fd = open_uninterrupted(where, flags);
        if (!fd.valid()) {
            return not_opened(where, errno, path);
        }
        HF_TRY(check_opened(fd.get(), where.holds, mode, path, known));
        return std::unique_ptr<file>(std::make_unique<posix_file>(path, std::move(fd), notes_));
    }

    result<std::unique_ptr<file>> create(const std::string& path, site /*where*/) override {
        const place where = held_.find_name(path);
        descriptor fd = open_uninterrupted(where, O_RDWR | O_CREAT | O_EXCL, of_new_.files);
        if (!fd.valid()) {
            return os_failure(errno, "create", path);
        }
        if (where.holds != nullptr) {
            HF_TRY(give_to_owner(fd.get(), *where.holds, path));
            struct stat status {};
            if (::fstat(fd.get(), &status) != 0) {
                return os_failure(errno, "fstat", path);
            }
            known_->remember(path, status);
        }
        return std::unique_ptr<file>(std::make_unique<posix_file>(path, std::move(fd), notes_));
    }

    result<bool> exists(const std::string& path) override {
        const place where = held_.find_name(path);
        struct stat status {};
        if (::fstatat(where.directory, where.name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
            return true;
        }
        if (errno == ENOENT || errno == ENOTDIR) {
            return false;
        }
        return os_failure(errno, "lstat", path);
    }

    result<void> make_directory(const std::string& path, site /*where*/) override {
        const place where = held_.find_name(path);
        if (::mkdirat(where.directory, where.name, of_new_.directories) != 0) {
            return os_failure(errno, "mkdir", path);
        }
        if (held_.first() == nullptr) {
            return {};
        }
        const descriptor made = open_uninterrupted(where, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        return made.valid() ? give_to_owner(made.get(), *held_.first(), path) : os_failure(errno, "opendir", path);
    }

    result<void> make_link(const std::string& path, const std::string& target, site /*where*/) override {
        const place where = held_.find_name(path);
        return ::symlinkat(target.c_str(), where.directory, where.name) == 0 ? result<void>()
                                                                             : os_failure(errno, "symlink", path);
    }

    result<std::string> link_target(const std::string& path) override {
        const place where = held_.find_name(path);
        std::string target(PATH_MAX, '\0');
        const auto length = ::readlinkat(where.directory, where.name, target.data(), target.size());
        if (length < 0) {
            return errno == EINVAL ? result<std::string>(std::string()) : missing_or(errno, "readlink", path);
        }
        target.resize(static_cast<std::size_t>(length));
        return target;
    }

    result<std::string> identity(const std::string& path) override {
        const place where = held_.find(path);
        struct stat status {};
        if (::fstatat(where.directory, where.name, &status, 0) != 0) {
            return missing_or(errno, "stat", path);
        }
        return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    }

    result<std::uint64_t> file_identity(const std::string& path) override {
        const place where = held_.find(path);
        struct statx status {};
        if (::statx(where.directory, where.name, 0, STATX_INO | STATX_BTIME, &status) != 0) {
            return missing_or(errno, "statx", path);
        }
        // Inode numbers are reused, and small file systems have the same ones, so the time of creation distinguishes
        // files. The device number stands in for it, but may change from boot to boot: the file is then taken for a
        // copy.
        const bool has_time = (status.stx_mask & STATX_BTIME) != 0;
        const std::array<std::uint64_t, 3> what{status.stx_ino,
                                                has_time
                                                    ? static_cast<std::uint64_t>(status.stx_btime.tv_sec)
                                                    : std::uint64_t{status.stx_dev_major} << 32U | status.stx_dev_minor,
                                                has_time ? status.stx_btime.tv_nsec : ~std::uint64_t{0}};
        return std::max<std::uint64_t>(base::checksum64(std::as_bytes(std::span{what})), 1);
    }

    result<std::vector<std::string>> list(const std::string& directory) override {
        descriptor fd = open_uninterrupted(held_.find(directory), O_RDONLY | O_DIRECTORY | O_NONBLOCK);
        const std::unique_ptr<DIR, directory_closer> stream{fd.valid() ? ::fdopendir(fd.get()) : nullptr};
        if (stream == nullptr) {
            return os_failure(errno, "opendir", directory);
        }
        static_cast<void>(fd.release());
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
        const place before = held_.find_name(from);
        const place after = held_.find_name(to);
        if (::renameat(before.directory, before.name, after.directory, after.name) != 0) {
            return os_failure(errno, "rename to " + to, from);
        }
        known_->move(from, to);
        return {};
    }

    result<void> remove(const std::string& path, site /*where*/) override {
        const place where = held_.find_name(path);
        known_->forget(path);
        if (::unlinkat(where.directory, where.name, 0) == 0 || errno == ENOENT || errno == ENOTDIR) {
            return {};
        }
        if (errno != EISDIR) {
            return os_failure(errno, "unlink", path);
        }
        if (::unlinkat(where.directory, where.name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return {};
        }
        return os_failure(errno, "rmdir", path);
    }

    result<void> sync_directory(const std::string& path, site /*where*/) override {
        const descriptor fd = open_uninterrupted(held_.find(path), O_RDONLY | O_DIRECTORY);
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
        // XFS returns 0 although changes of the directory were lost, where it was shut down by an error. Reading it
        // then fails.
        alignas(dirent64) std::array<std::byte, 1024> entries;
        if (::syscall(SYS_getdents64, fd.get(), entries.data(), entries.size()) < 0) {
            return os_failure(errno, "getdents64", path);
        }
        return {};
    }

    result<std::uint64_t> available(const std::string& directory) override {
        struct statvfs numbers {};
        int held = held_.find_held(directory);
        descriptor opened;
        if (held < 0) {
            opened = open_uninterrupted(held_.find(directory), O_PATH | O_DIRECTORY);
            held = opened.get();
        }
        if (held < 0 || ::fstatvfs(held, &numbers) != 0) {
            return os_failure(errno, "statvfs", directory);
        }
        return std::uint64_t{numbers.f_bavail} * numbers.f_frsize;
    }

    result<bool> is_memory(const std::string& directory) override {
        HF_TRY_ASSIGN(const auto type, type_of_file_system(directory));
        return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
    }

    result<void> check_place(const std::string& directory) override {
        HF_TRY_ASSIGN(const auto type, type_of_file_system(directory));
        if (type != HUGETLBFS_MAGIC) {
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

    result<std::shared_ptr<storage>> hold(const std::string& directory) override {
        // What is held after the first directory belongs to the same heap.
        const bool is_first = held_.first() == nullptr;
        auto holding =
            std::make_shared<posix_storage_type>(held_, of_new_, is_first ? std::make_shared<known_files>() : known_,
                                                 is_first ? std::make_shared<noted_descriptors>() : notes_);
        HF_TRY(holding->held_.add(directory));
        return std::shared_ptr<storage>(std::move(holding));
    }

    void forget_files() noexcept override { known_->forget_all(); }
    std::shared_ptr<storage> with(const permissions& of_new) override {
        return std::make_shared<posix_storage_type>(held_, of_new, known_, notes_);
    }

    result<permissions> permissions_of(const std::string& directory, const std::string& path) override {
        const place parent = held_.find(directory);
        const place itself = held_.find_name(path);
        struct stat of_directory {};
        struct stat of_file {};
        if (::fstatat(parent.directory, parent.name, &of_directory, 0) != 0) {
            return missing_or(errno, "stat", directory);
        }
        if (::fstatat(itself.directory, itself.name, &of_file, AT_SYMLINK_NOFOLLOW) != 0) {
            return missing_or(errno, "lstat", path);
        }
        return permissions{of_file.st_mode & all_permissions, of_directory.st_mode & all_permissions};
    }

    result<std::unique_ptr<file>> open_directory(const std::string& directory) override {
        descriptor fd = open_uninterrupted(held_.find(directory), O_RDONLY | O_DIRECTORY);
        if (!fd.valid()) {
            return os_failure(errno, "opendir", directory);
        }
        return std::unique_ptr<file>(std::make_unique<posix_file>(directory, std::move(fd), notes_));
    }

    void leave_to_parent() noexcept override {
        if (notes_ != nullptr) {
            notes_->close_all();
        }
        held_.close_in_child();
    }

    result<std::string> location(const std::string& directory) override {
        const descriptor fd = open_uninterrupted(held_.find(directory), O_PATH | O_DIRECTORY);
        if (!fd.valid()) {
            return os_failure(errno, "open", directory);
        }
        std::string found(PATH_MAX, '\0');
        const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
        const auto length = ::readlinkat(AT_FDCWD, link.c_str(), found.data(), found.size());
        found.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
        return found.starts_with('/') ? found : directory;
    }

private:
    [[nodiscard]] result<long> type_of_file_system(const std::string& directory) const {
        const descriptor fd = open_uninterrupted(held_.find(directory), O_PATH | O_DIRECTORY);
        struct statfs numbers {};
        if (!fd.valid() || ::fstatfs(fd.get(), &numbers) != 0) {
            return os_failure(errno, "statfs", directory);
        }
        return long{numbers.f_type};
    }
    static constexpr std::uint32_t all_permissions = 0777;

    held_directories held_;
    permissions of_new_;
    std::shared_ptr<known_files> known_ = std::make_shared<known_files>();
    std::shared_ptr<noted_descriptors> notes_;  ///< null where no directory is held
};

}  // namespace

storage& posix_storage() noexcept {
    // Never destroyed: destructors of static objects may still close heaps.
    alignas(posix_storage_type) static std::array<std::byte, sizeof(posix_storage_type)> place;
    static auto* const instance = std::construct_at(reinterpret_cast<posix_storage_type*>(place.data()));
    return *instance;
}

}  // namespace holdfast::persist
