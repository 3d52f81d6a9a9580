#include "store/data_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace holdfast::store_engine {
namespace {

#ifdef HOLDFAST_UNDER_QEMU
constexpr std::size_t default_reserve = std::size_t{1} << 30U;
#else
constexpr std::size_t default_reserve = std::size_t{1} << 38U;
#endif
constexpr std::size_t least_reserve = std::size_t{16} << 20U;
// The file grows by an eighth, within these bounds.
constexpr std::uint64_t least_growth = 256;
constexpr std::uint64_t most_growth = 4096;

// Where the file system cannot reserve blocks, the C library writes zeros.
int give_blocks(int file, std::uint64_t start, std::uint64_t count) noexcept {
    const auto offset = static_cast<off_t>(start * page_size);
    const auto size = static_cast<off_t>(count * page_size);
    while (::fallocate(file, 0, offset, size) != 0) {
        if (errno == EOPNOTSUPP) {
            return ::posix_fallocate(file, offset, size);
        }
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

}  // namespace

descriptor& descriptor::operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
}
descriptor::~descriptor() {
    if (number_ >= 0) {
        ::close(number_);
    }
}
int descriptor::release() noexcept { return std::exchange(number_, -1); }

mapping::mapping(std::byte* start, std::size_t size) noexcept : start_(start), size_(size) {
    ::madvise(start, size, MADV_DONTDUMP);
}

mapping::mapping(mapping&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), size_(std::exchange(other.size_, 0)) {}
mapping& mapping::operator=(mapping&& other) noexcept {
    std::swap(start_, other.start_);
    std::swap(size_, other.size_);
    return *this;
}
mapping::~mapping() {
    if (start_ != nullptr) {
        ::munmap(start_, size_);
    }
}

status data_file::open(const std::string& path, const file_options& options) {
    const int access = options.read_only ? O_RDONLY : O_RDWR | O_CREAT;
    read_only_ = options.read_only;
    write_address_ = nullptr;
    read_ = mapping();
    write_ = mapping();
    file_ = descriptor(::open(path.c_str(), access | O_CLOEXEC, options.mode));
    if (!file_.valid()) {
        return last_error();
    }
    HF_STORE_TRY(refresh_size());
    created_ = pages() == 0;
    return map(options);
}

bool data_file::in_memory() const noexcept {
    struct statfs information {};
    return ::fstatfs(file_.get(), &information) == 0 && information.f_type == TMPFS_MAGIC;
}

status data_file::refresh_size() noexcept {
    struct stat information {};
    if (::fstat(file_.get(), &information) != 0) {
        return last_error();
    }
    pages_.store(static_cast<std::uint64_t>(information.st_size) / page_size, std::memory_order_relaxed);
    return status::ok;
}

status data_file::is_blank(std::uint64_t most, bool& blank) const {
    struct stat information {};
    if (::fstat(file_.get(), &information) != 0) {
        return last_error();
    }
    blank = false;
    if (static_cast<std::uint64_t>(information.st_size) > most * page_size) {
        return status::ok;
    }
    std::array<std::byte, 16 * page_size> piece{};
    for (off_t offset = 0; offset < information.st_size;) {
        const ssize_t size = ::pread(file_.get(), piece.data(), piece.size(), offset);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            return size < 0 ? last_error() : status::invalid_file;  // it became shorter
        }
        if (std::any_of(piece.data(), piece.data() + size, [](std::byte one) { return one != std::byte{0}; })) {
            return status::ok;
        }
        offset += size;
    }
    blank = true;
    return status::ok;
}

bool data_file::find_hole(std::uint64_t from, std::uint64_t end, std::uint64_t& start,
                          std::uint64_t& count) const noexcept {
    const off_t hole = from >= end ? -1 : ::lseek(file_.get(), static_cast<off_t>(from * page_size), SEEK_HOLE);
    if (hole < 0 || static_cast<std::uint64_t>(hole) >= end * page_size) {
        return false;
    }
    start = static_cast<std::uint64_t>(hole) / page_size;
    const off_t data = ::lseek(file_.get(), hole, SEEK_DATA);
    const std::uint64_t behind = data < 0 ? end : (static_cast<std::uint64_t>(data) + page_size - 1) / page_size;
    count = std::min(behind, end) - start;
    return count > 0;
}

status data_file::inode(std::uint64_t& number) const noexcept {
    struct stat information {};
    if (::fstat(file_.get(), &information) != 0) {
        return last_error();
    }
    number = information.st_ino;
    return status::ok;
}

// Addresses beyond the end of the file are legal to map. Under a limit of addresses, less is reserved.
status data_file::map(const file_options& options) {
    const std::size_t file_size = pages() * page_size;
    const std::size_t wanted = std::max({default_reserve, options.reserve, 4 * file_size}) & ~(page_size - 1);
    const int protection = options.write_map && !options.read_only ? PROT_READ | PROT_WRITE : PROT_READ;
    const bool second = !options.read_only && !options.write_map;
    for (std::size_t size = wanted; size >= std::max(least_reserve, file_size); size /= 2) {
        if (options.overlay) {
            void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file_.get(), 0);
            if (at != MAP_FAILED) {
                read_ = mapping(static_cast<std::byte*>(at), size);
                write_address_ = read_.start();
                return status::ok;
            }
            continue;
        }
        void* readable = ::mmap(nullptr, size, protection, MAP_SHARED, file_.get(), 0);
        if (readable == MAP_FAILED) {
            continue;
        }
        read_ = mapping(static_cast<std::byte*>(readable), size);
        if (second) {
            void* writable = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
            if (writable == MAP_FAILED) {
                read_ = mapping();  // a shorter pair needs its addresses
                continue;
            }
            write_ = mapping(static_cast<std::byte*>(writable), size);
        }
        write_address_ = second ? write_.start() : read_.start();
        if (options.random) {
            ::madvise(read_.start(), read_.size(), MADV_RANDOM);
        }
        return status::ok;
    }
    return status::no_memory;
}

status data_file::end_overlay() noexcept {
    void* at = ::mmap(read_.start(), read_.size(), PROT_READ, MAP_SHARED | MAP_FIXED, file_.get(), 0);
    return at == MAP_FAILED ? last_error() : status::ok;
}

status data_file::grow(std::uint64_t wanted) noexcept {
    const std::uint64_t before = pages();
    if (wanted <= before) {
        return status::ok;
    }
    if (wanted > reserved_pages()) {
        return status::map_full;
    }
    const std::uint64_t step = std::clamp(before / 8, least_growth, most_growth);
    const std::uint64_t generous = std::min(std::max(wanted, before + step), reserved_pages());
    // A nearly full disk may have what is needed and no more.
    for (const std::uint64_t after : {generous, wanted}) {
        const int error = give_blocks(file_.get(), before, after - before);
        if (error == 0) {
            pages_.store(after, std::memory_order_relaxed);
            return status::ok;
        }
        if (after == wanted) {
            return error == ENOSPC || error == EDQUOT || error == EFBIG ? status::map_full : from_errno(error);
        }
    }
    return status::map_full;
}

status data_file::reserve(std::uint64_t start, std::uint64_t count) noexcept {
    const int error = give_blocks(file_.get(), start, count);
    if (error == 0) {
        return status::ok;
    }
    return error == ENOSPC || error == EDQUOT ? status::map_full : from_errno(error);
}

void data_file::punch(std::uint64_t start, std::uint64_t count) noexcept {
    [[maybe_unused]] const int ignored =
        ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start * page_size),
                    static_cast<off_t>(count * page_size));
}

void data_file::trim(std::uint64_t wanted) noexcept {
    struct stat information {};
    const auto size = static_cast<off_t>(wanted * page_size);
    if (::fstat(file_.get(), &information) == 0 && information.st_size > size && ::ftruncate(file_.get(), size) == 0) {
        pages_.store(std::min(pages(), wanted), std::memory_order_relaxed);
    }
}

status data_file::sync_all() const noexcept { return ::fdatasync(file_.get()) == 0 ? status::ok : last_error(); }

status data_file::sync_range(std::uint64_t offset, std::uint64_t size) const noexcept {
    const std::uint64_t start = offset & ~std::uint64_t{page_size - 1};
    return ::msync(write_address_ + start, offset + size - start, MS_SYNC) == 0 ? status::ok : last_error();
}

status data_file::write(std::uint64_t offset, const void* bytes, std::size_t size) const noexcept {
    const auto* from = static_cast<const std::byte*>(bytes);
    while (size > 0) {
        const ssize_t written = ::pwrite(file_.get(), from, size, static_cast<off_t>(offset));
        if (written < 0 && errno != EINTR) {
            return last_error();
        }
        const std::size_t done = written > 0 ? static_cast<std::size_t>(written) : 0;
        from += done;
        size -= done;
        offset += done;
    }
    return status::ok;
}

status data_file::write_again(std::uint64_t offset, std::uint64_t size) const noexcept {
    std::array<std::byte, 16 * page_size> piece{};
    while (size > 0) {
        const std::size_t next = std::min<std::uint64_t>(size, piece.size());
        std::memcpy(piece.data(), read_.start() + offset, next);
        HF_STORE_TRY(write(offset, piece.data(), next));
        offset += next;
        size -= next;
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
