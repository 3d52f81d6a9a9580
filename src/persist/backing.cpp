#include "persist/backing.hpp"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <utility>

namespace holdfast::persist {

namespace {

using base::os_failure;
using base::result;

/// Cuts the range off at the end of the file.
void append(std::vector<file_range>& ranges, file_range added, std::uint64_t size) {
    added.end = std::min(added.end, size);
    if (added.begin >= added.end) {
        return;
    }
    if (!ranges.empty() && added.begin <= ranges.back().end) {
        ranges.back().end = std::max(ranges.back().end, added.end);
    } else {
        ranges.push_back(added);
    }
}

/// FIEMAP knows also reserved extents. Nothing where the file system does not support it.
result<std::optional<std::vector<file_range>>> mapped_extents(int fd, std::uint64_t size, const std::string& path) {
    constexpr std::size_t most = 512;
    std::vector<std::uint64_t> buffer((sizeof(fiemap) + most * sizeof(fiemap_extent)) / sizeof(std::uint64_t));
    auto& asked = *reinterpret_cast<fiemap*>(buffer.data());
    std::vector<file_range> ranges;
    for (std::uint64_t from = 0; from < size;) {
        asked.fm_start = from;
        asked.fm_length = size - from;
        asked.fm_flags = 0;
        asked.fm_mapped_extents = 0;
        asked.fm_extent_count = most;
        if (::ioctl(fd, FS_IOC_FIEMAP, &asked) != 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EOPNOTSUPP || errno == ENOTTY || errno == EINVAL || errno == ENOSYS) {
                return std::optional<std::vector<file_range>>{};
            }
            return os_failure(errno, "ioctl(FS_IOC_FIEMAP)", path);
        }
        std::uint64_t next = from;
        for (std::size_t i = 0; i < std::min<std::size_t>(asked.fm_mapped_extents, most); ++i) {
            fiemap_extent found{};
            std::memcpy(&found, buffer.data() + (sizeof(fiemap) + i * sizeof found) / sizeof(std::uint64_t),
                        sizeof found);
            next = found.fe_logical + found.fe_length;
            append(ranges, {std::max<std::uint64_t>(found.fe_logical, from), next}, size);
        }
        if (next <= from) {
            break;
        }
        from = next;
    }
    return std::optional(std::move(ranges));
}

/// By SEEK_DATA: the whole file where the file system knows no holes.
result<std::vector<file_range>> content_ranges(int fd, std::uint64_t size, const std::string& path) {
    std::vector<file_range> ranges;
    for (std::uint64_t from = 0; from < size;) {
        const off_t begin = ::lseek(fd, static_cast<off_t>(from), SEEK_DATA);
        if (begin < 0 && errno == ENXIO) {
            break;
        }
        if (begin < 0 && errno != EINVAL && errno != EOPNOTSUPP) {
            return os_failure(errno, "lseek(SEEK_DATA)", path);
        }
        const off_t end = begin < 0 ? static_cast<off_t>(size) : ::lseek(fd, begin, SEEK_HOLE);
        if (end < 0) {
            return os_failure(errno, "lseek(SEEK_HOLE)", path);
        }
        append(ranges, {begin < 0 ? from : static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)}, size);
        from = std::max(from + 1, static_cast<std::uint64_t>(end));
    }
    return ranges;
}

/// `kinds` are those of linux/magic.h.
result<bool> lies_on(file& of, std::initializer_list<long> kinds) {
    if (of.native_handle() < 0) {
        return false;
    }
    struct statfs numbers {};
    if (::fstatfs(of.native_handle(), &numbers) != 0) {
        return os_failure(errno, "fstatfs", of.path());
    }
    return std::ranges::find(kinds, static_cast<long>(numbers.f_type)) != kinds.end();
}

}  // namespace

result<file_backing> backing_of(file& of) {
    file_backing found;
    HF_TRY_ASSIGN(const std::uint64_t size, of.size());
    if (of.native_handle() < 0) {
        append(found.ranges, {0, size}, size);
        return found;
    }
    HF_TRY_ASSIGN(auto extents, mapped_extents(of.native_handle(), size, of.path()));
    if (extents) {
        found.ranges = std::move(*extents);
        return found;
    }
    HF_TRY_ASSIGN(const std::uint64_t charged, of.charged());
    if (charged >= size) {
        append(found.ranges, {0, size}, size);
        return found;
    }
    HF_TRY_ASSIGN(found.ranges, content_ranges(of.native_handle(), size, of.path()));
    std::uint64_t content = 0;
    for (const file_range& range : found.ranges) {
        content += range.end - range.begin;
    }
    found.exact = charged <= content;
    return found;
}

result<bool> reading_takes_space(file& of) { return lies_on(of, {TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC}); }

result<bool> stores_fill_folios(file& of) { return lies_on(of, {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC}); }

result<bool> tells_reserved_space(file& of) {
    return lies_on(of, {TMPFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC});
}

}  // namespace holdfast::persist
