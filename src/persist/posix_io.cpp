#include "persist/posix_io.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <vector>

#include "base/units.hpp"

namespace holdfast::persist {

namespace {

using base::os_failure;
using base::result;

constexpr std::uint64_t copy_buffer_size = 1024 * 1024;
constexpr std::uint64_t least_reserved_piece = 64 * base::kibibyte;

off_t to_off(std::uint64_t value) noexcept { return static_cast<off_t>(value); }

template <class Call>
auto uninterrupted(Call call) {
    for (;;) {
        const auto answer = call();
        if (answer >= 0 || errno != EINTR) {
            return answer;
        }
    }
}

bool means_unsupported(int os_error) noexcept {
    return os_error == EOPNOTSUPP || os_error == ENOSYS || os_error == ENOTTY || os_error == EXDEV ||
           os_error == EINVAL;
}

base::failure too_short(std::uint64_t found, std::uint64_t expected, const std::string& path) {
    base::failure what;
    what.code = base::failure_code::corrupt;
    what.path = path;
    what.field = "file size";
    what.found = std::to_string(found);
    what.expected = "at least " + std::to_string(expected);
    return what;
}

result<std::uint64_t> end_of(std::uint64_t offset, std::uint64_t length, const char* operation,
                             const std::string& path) {
    const auto end = base::checked_add(offset, length);
    if (!end || *end > static_cast<std::uint64_t>(LLONG_MAX)) {
        return os_failure(EFBIG, operation, path);
    }
    return *end;
}

/// For a write: the kernel refuses it beyond the limit also where the file is longer.
result<std::uint64_t> end_of_write(std::uint64_t offset, std::uint64_t length, const char* operation,
                                   const std::string& path) {
    HF_TRY_ASSIGN(const std::uint64_t end, end_of(offset, length, operation, path));
    HF_TRY(check_file_length(end, path));
    return end;
}

/// The limit is for what makes a file longer.
result<void> check_new_length(int fd, std::uint64_t bytes, const std::string& path) {
    if (bytes <= longest_file()) {
        return {};
    }
    HF_TRY_ASSIGN(const std::uint64_t size, size_of(fd, path));
    return bytes <= size ? result<void>() : check_file_length(bytes, path);
}

result<void> write_zeros(int fd, byte_range range, const std::string& path) {
    static constexpr std::array<std::byte, 64 * 1024> zeros{};
    while (range.begin < range.end) {
        const auto step = std::min<std::uint64_t>(zeros.size(), range.end - range.begin);
        HF_TRY(write_fully(fd, range.begin, std::span{zeros}.first(step), path));
        range.begin += step;
    }
    return {};
}

result<void> copy_by_reading(int source, const std::string& source_path, int target, const std::string& target_path,
                             byte_range range) {
    std::vector<std::byte> buffer(std::min<std::uint64_t>(copy_buffer_size, range.end - range.begin));
    while (range.begin < range.end) {
        const auto part = std::span{buffer}.first(std::min<std::uint64_t>(buffer.size(), range.end - range.begin));
        HF_TRY(read_fully(source, range.begin, part, source_path));
        HF_TRY(write_fully(target, range.begin, part, target_path));
        range.begin += part.size();
    }
    return {};
}

result<std::uint64_t> copy_in_kernel(int source, int target, const std::string& target_path, byte_range range) {
    while (range.begin < range.end) {
        off_t from = to_off(range.begin);
        off_t to = from;
        const auto copied =
            uninterrupted([&] { return ::copy_file_range(source, &from, target, &to, range.end - range.begin, 0); });
        if (copied < 0 && !means_unsupported(errno)) {
            return os_failure(errno, "copy_file_range", target_path);
        }
        if (copied <= 0) {
            break;
        }
        range.begin += static_cast<std::uint64_t>(copied);
    }
    return range.begin;
}

}  // namespace

result<byte_range> next_data(int fd, std::uint64_t from, std::uint64_t limit, const std::string& path) {
    const off_t begin = ::lseek(fd, to_off(from), SEEK_DATA);
    if (begin < 0) {
        if (errno == ENXIO) {
            return byte_range{limit, limit};
        }
        if (means_unsupported(errno)) {
            return byte_range{from, limit};
        }
        return os_failure(errno, "lseek(SEEK_DATA)", path);
    }
    const off_t end = ::lseek(fd, begin, SEEK_HOLE);
    if (end < 0) {
        return os_failure(errno, "lseek(SEEK_HOLE)", path);
    }
    return byte_range{std::min(static_cast<std::uint64_t>(begin), limit),
                      std::min(static_cast<std::uint64_t>(end), limit)};
}

std::uint64_t longest_file() noexcept {
    rlimit limit{};
    const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return std::min<std::uint64_t>(limited ? limit.rlim_cur : LLONG_MAX, LLONG_MAX);
}

result<void> check_file_length(std::uint64_t bytes, const std::string& path) {
    const std::uint64_t most = longest_file();
    if (bytes <= most) {
        return {};
    }
    base::failure what = os_failure(EFBIG, "file size", path);
    what.found = std::to_string(bytes) + " bytes needed";
    what.expected = "at most " + std::to_string(most) + " (ulimit -f)";
    return what;
}

result<std::uint64_t> size_of(int fd, const std::string& path) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        return os_failure(errno, "fstat", path);
    }
    return static_cast<std::uint64_t>(status.st_size);
}

result<void> read_fully(int fd, std::uint64_t offset, std::span<std::byte> buffer, const std::string& path) {
    HF_TRY_ASSIGN(const std::uint64_t end, end_of(offset, buffer.size(), "pread", path));
    while (!buffer.empty()) {
        const auto got = uninterrupted([&] { return ::pread(fd, buffer.data(), buffer.size(), to_off(offset)); });
        if (got < 0) {
            return os_failure(errno, "pread", path);
        }
        if (got == 0) {
            HF_TRY_ASSIGN(const std::uint64_t found, size_of(fd, path));
            return too_short(found, end, path);
        }
        offset += static_cast<std::uint64_t>(got);
        buffer = buffer.subspan(static_cast<std::size_t>(got));
    }
    return {};
}

result<void> write_fully(int fd, std::uint64_t offset, std::span<const std::byte> data, const std::string& path) {
    HF_TRY(end_of_write(offset, data.size(), "pwrite", path));
    while (!data.empty()) {
        const auto put = uninterrupted([&] { return ::pwrite(fd, data.data(), data.size(), to_off(offset)); });
        if (put <= 0) {
            return os_failure(put < 0 ? errno : EIO, "pwrite", path);
        }
        offset += static_cast<std::uint64_t>(put);
        data = data.subspan(static_cast<std::size_t>(put));
    }
    return {};
}

result<void> write_parts_fully(int fd, std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                               const std::string& path) {
    std::array<iovec, IOV_MAX> vectors{};
    std::size_t skip = 0;  // of parts.front(), already written
    while (!parts.empty()) {
        std::size_t count = 0;
        std::uint64_t total = 0;
        for (const auto part : parts.first(std::min<std::size_t>(parts.size(), vectors.size()))) {
            const auto rest = part.subspan(count == 0 ? skip : 0);
            vectors.at(count) = {const_cast<std::byte*>(rest.data()), rest.size()};
            total += rest.size();
            ++count;
        }
        HF_TRY(end_of_write(offset, total, "pwritev", path));
        const auto put = total == 0 ? 0 : uninterrupted([&] {
            return ::pwritev(fd, vectors.data(), static_cast<int>(count), to_off(offset));
        });
        if (put < 0 || (put == 0 && total != 0)) {
            return os_failure(put < 0 ? errno : EIO, "pwritev", path);
        }
        offset += static_cast<std::uint64_t>(put);
        skip += static_cast<std::size_t>(put);
        while (!parts.empty() && skip >= parts.front().size()) {
            skip -= parts.front().size();
            parts = parts.subspan(1);
        }
    }
    return {};
}

result<void> write_durably(int fd, std::uint64_t offset, std::span<const std::byte> data, const std::string& path) {
    HF_TRY(end_of_write(offset, data.size(), "pwritev2", path));
    while (!data.empty()) {
        iovec vector{const_cast<std::byte*>(data.data()), data.size()};
        const auto put = uninterrupted([&] { return ::pwritev2(fd, &vector, 1, to_off(offset), RWF_DSYNC); });
        if (put > 0) {
            offset += static_cast<std::uint64_t>(put);
            data = data.subspan(static_cast<std::size_t>(put));
            continue;
        }
        const int flags = ::fcntl(fd, F_GETFL);
        if (put < 0 && errno == EINVAL && flags >= 0 && (flags & O_DIRECT) != 0 &&
            ::fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0) {
            continue;
        }
        if (put < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)) {
            HF_TRY(write_fully(fd, offset, data, path));
            if (uninterrupted([&] { return ::fdatasync(fd); }) != 0) {
                return os_failure(errno, "fdatasync", path);
            }
            return {};
        }
        return os_failure(put < 0 ? errno : EIO, "pwritev2", path);
    }
    return {};
}

result<void> set_size(int fd, std::uint64_t bytes, const std::string& path) {
    HF_TRY(end_of(bytes, 0, "ftruncate", path));
    HF_TRY(check_new_length(fd, bytes, path));
    if (uninterrupted([&] { return ::ftruncate(fd, to_off(bytes)); }) != 0) {
        return os_failure(errno, "ftruncate", path);
    }
    return {};
}

result<void> reserve_space(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path) {
    HF_TRY_ASSIGN(const std::uint64_t end, end_of(offset, length, "fallocate", path));
    HF_TRY(check_new_length(fd, end, path));
    // A signal makes tmpfs take back what a call has reserved: a program with a timer would repeat a long call for
    // ever.
    std::uint64_t piece = length;
    for (std::uint64_t at = offset; at < end;) {
        const std::uint64_t now = std::min(piece, end - at);
        if (::fallocate(fd, 0, to_off(at), to_off(now)) == 0) {
            at += now;
        } else if (errno == EINTR) {
            piece = std::max(base::align_down(now / 2, base::page_size), least_reserved_piece);
        } else if (errno == EOPNOTSUPP || errno == ENOSYS) {
            return reserve_by_writing(fd, at, end - at, path);
        } else {
            return os_failure(errno, "fallocate", path);
        }
    }
    return {};
}

result<void> reserve_by_writing(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path) {
    HF_TRY_ASSIGN(const std::uint64_t end, end_of(offset, length, "reserve", path));
    HF_TRY_ASSIGN(const std::uint64_t size, size_of(fd, path));
    const std::uint64_t inside = std::min(end, size);
    for (std::uint64_t at = offset; at < inside;) {
        HF_TRY_ASSIGN(const byte_range data, next_data(fd, at, inside, path));
        HF_TRY(write_zeros(fd, {at, data.begin}, path));
        at = data.end;
    }
    return write_zeros(fd, {std::max(offset, size), end}, path);
}

result<void> punch(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path) {
    if (length == 0) {
        return {};
    }
    HF_TRY(end_of(offset, length, "fallocate(PUNCH_HOLE)", path));
    constexpr int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (uninterrupted([&] { return ::fallocate(fd, mode, to_off(offset), to_off(length)); }) == 0) {
        return {};
    }
    // XFS may need a block for a hole. On a full disk a crashed heap must open all the same.
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != ENOSPC) {
        return os_failure(errno, "fallocate(PUNCH_HOLE)", path);
    }
    return zero_data(fd, offset, length, path);
}

result<void> zero_data(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path) {
    HF_TRY_ASSIGN(std::uint64_t end, end_of(offset, length, "zero", path));
    HF_TRY_ASSIGN(const std::uint64_t size, size_of(fd, path));
    end = std::min(end, size);
    for (std::uint64_t at = offset; at < end;) {
        HF_TRY_ASSIGN(const byte_range data, next_data(fd, at, end, path));
        HF_TRY(write_zeros(fd, data, path));
        at = data.end;
    }
    return {};
}

result<bool> clone_blocks(int source, int target, const std::string& target_path) {
    HF_TRY_ASSIGN(const std::uint64_t size, size_of(source, target_path));
    HF_TRY(check_file_length(size, target_path));
    if (uninterrupted([&] { return ::ioctl(target, FICLONE, source); }) == 0) {
        return true;
    }
    if (means_unsupported(errno)) {
        return false;
    }
    return os_failure(errno, "ioctl(FICLONE)", target_path);
}

result<void> copy_sparse(int source, const std::string& source_path, int target, const std::string& target_path,
                         copy_method method) {
    HF_TRY_ASSIGN(const std::uint64_t size, size_of(source, source_path));
    HF_TRY(set_size(target, size, target_path));
    // The page cache must not get folios that reach into holes (segment/commit/folio_policy.cpp).
    static_cast<void>(::posix_fadvise(source, 0, 0, POSIX_FADV_RANDOM));
    for (std::uint64_t at = 0; at < size;) {
        HF_TRY_ASSIGN(byte_range data, next_data(source, at, size, source_path));
        at = data.end;
        if (method == copy_method::kernel_first) {
            HF_TRY_ASSIGN(data.begin, copy_in_kernel(source, target, target_path, data));
        }
        HF_TRY(copy_by_reading(source, source_path, target, target_path, data));
    }
    return {};
}

}  // namespace holdfast::persist
