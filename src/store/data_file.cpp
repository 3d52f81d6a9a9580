#include "store/data_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "store/file_size_signal.hpp"

namespace holdfast::store_engine {
namespace {

// Of a store that sets no limit.
constexpr std::size_t default_reserve = std::size_t{1} << 30U;
// A process has room for so many times what one mapping reserves at first: a thousand stores, each mapped twice, leave
// most of its addresses to others. Without `ulimit -v` it has 2^47 of them.
constexpr std::size_t reserve_parts = std::size_t{1} << 12U;
constexpr std::size_t limited_reserve_parts = std::size_t{1} << 14U;
constexpr std::size_t least_reserve = std::size_t{1} << 16U;
// A small file grows by a half, another by an eighth, within these bounds.
constexpr std::uint64_t small_file = 1024;
constexpr std::uint64_t least_growth = 4;
constexpr std::uint64_t most_growth = 4096;

std::size_t most_reserved_at_first() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return (std::size_t{1} << 47U) / reserve_parts;
    }
    return limit.rlim_cur / limited_reserve_parts;
}

constexpr std::size_t whole_pages(std::size_t bytes) noexcept { return (bytes + page_size - 1) & ~(page_size - 1); }

// Where the file system cannot reserve blocks, the C library writes zeros.
int give_blocks(int file, std::uint64_t start, std::uint64_t count) noexcept {
    const no_file_size_signal guard;
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
    options_ = options;
    reserved_pages_.store(0);
    ranges_.store(nullptr);
    newest_.reset();
    file_ = descriptor(::open(path.c_str(), access | O_CLOEXEC, options.mode));
    if (!file_.valid()) {
        return last_error();
    }
    HF_STORE_TRY(refresh_size());
    created_ = pages() == 0;
    // Under a limit of addresses, down to what the data needs.
    const std::size_t data = whole_pages(std::max(pages() * page_size, least_reserve));
    const std::size_t wanted = options.reserve != 0 ? options.reserve : std::max(default_reserve, 4 * data);
    std::size_t size = std::max(data, whole_pages(std::min(wanted, most_reserved_at_first())));
    status outcome = map(size);
    while (outcome == status::no_memory && size > data) {
        size = std::max(data, whole_pages(size / 2));
        outcome = map(size);
    }
    return outcome;
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

// Addresses beyond the end of the file are legal to map.
status data_file::map(std::size_t size) noexcept {
    std::unique_ptr<range> made(new (std::nothrow) range);
    if (!made) {
        return status::no_memory;
    }
    const auto map_one = [&](mapping& one, int protection, int flags) {
        void* at = ::mmap(nullptr, size, protection, flags, file_.get(), 0);
        if (at == MAP_FAILED) {
            return last_error();
        }
        one = mapping(static_cast<std::byte*>(at), size);
        return status::ok;
    };
    constexpr int both = PROT_READ | PROT_WRITE;
    const bool of_one = options_.write_map && !options_.read_only;
    HF_STORE_TRY(map_one(made->read, options_.overlay || of_one ? both : PROT_READ,
                         options_.overlay ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED));
    std::byte* writable = made->read.start();
    if (!options_.read_only && !of_one && !options_.overlay) {
        HF_STORE_TRY(map_one(made->write, both, MAP_SHARED));
        writable = made->write.start();
    }
    if (options_.random) {
        ::madvise(made->read.start(), size, MADV_RANDOM);
    }
    if (was_full_) {
        map_page_by_page(*made);
    }
    read_address_.store(made->read.start(), std::memory_order_relaxed);
    write_address_.store(writable, std::memory_order_relaxed);
    made->older = std::move(newest_);
    newest_ = std::move(made);
    ranges_.store(newest_.get(), std::memory_order_release);
    reserved_pages_.store(size / page_size, std::memory_order_release);
    return status::ok;
}

// What an overlay changed lies in its old addresses alone.
status data_file::map_more(std::uint64_t pages) noexcept {
    return options_.overlay || pages > max_pages ? status::no_memory : map(pages * page_size);
}

bool data_file::has_address(const void* at) const noexcept {
    const auto is_in = [at](const mapping& one) {
        return one.start() != nullptr && at >= one.start() && at < one.start() + one.size();
    };
    const range* one = ranges_.load(std::memory_order_acquire);
    while (one != nullptr && !is_in(one->read) && !is_in(one->write)) {
        one = one->older.get();
    }
    return one != nullptr;
}

status data_file::end_overlay() noexcept {
    const mapping& read = newest_->read;
    void* at = ::mmap(read.start(), read.size(), PROT_READ, MAP_SHARED | MAP_FIXED, file_.get(), 0);
    if (at == MAP_FAILED) {
        return last_error();
    }
    options_.overlay = false;
    return status::ok;
}

status data_file::grow(std::uint64_t wanted, std::uint64_t most) noexcept {
    const std::uint64_t before = pages();
    if (wanted <= before) {
        return status::ok;
    }
    if (wanted > reserved_pages()) {
        return status::no_memory;
    }
    const std::uint64_t step = before < small_file ? std::max(before / 2, least_growth) : before / 8;
    const std::uint64_t generous = std::min(before + std::min(step, most_growth), std::min(most, reserved_pages()));
    // A nearly full disk may have what is needed and no more.
    for (const std::uint64_t after : {std::max(generous, wanted), wanted}) {
        const status outcome = give(before, after - before);
        if (outcome == status::ok) {
            pages_.store(after, std::memory_order_relaxed);
        }
        if (outcome == status::ok || after == wanted) {
            return outcome;
        }
    }
    return status::ok;
}

// Where a file system is full, a store to a page with a block can be a SIGBUS: ext4 and XFS ask for blocks for all of a
// large folio, which may lie over holes, too (docs/decisions/0023-folios.md). So from then on, stores bring single
// pages, and large folios over pages that get blocks, or lose them, are split.
status data_file::give(std::uint64_t start, std::uint64_t count) noexcept {
    const int error = give_blocks(file_.get(), start, count);
    if ((error == ENOSPC || error == EDQUOT) && !std::exchange(was_full_, true)) {
        map_page_by_page(*newest_);
    }
    return error == 0 ? status::ok : from_errno(error);
}

void data_file::map_page_by_page(const range& one) const noexcept {
    const mapping& written = one.write.start() != nullptr ? one.write : one.read;
    ::madvise(written.start(), written.size(), MADV_RANDOM);
}

status data_file::reserve(std::uint64_t start, std::uint64_t count) noexcept { return give(start, count); }

status data_file::reserve_free(std::uint64_t start, std::uint64_t count) noexcept {
    if (was_full_) {
        punch(start, count);
    }
    return give(start, count);
}

void data_file::punch(std::uint64_t start, std::uint64_t count) noexcept {
    const auto offset = static_cast<off_t>(start * page_size);
    const auto size = static_cast<off_t>(count * page_size);
    if (was_full_) {  // a dirty folio is not split
        constexpr off_t around = off_t{2} << 20U;
        const off_t first = std::max(offset - around, off_t{0});
        ::sync_file_range(file_.get(), first, offset + size + around - first,
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    [[maybe_unused]] const int ignored =
        ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size);
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
    std::byte* const at = write_address_.load(std::memory_order_relaxed) + start;
    return ::msync(at, offset + size - start, MS_SYNC) == 0 ? status::ok : last_error();
}

status data_file::write(std::uint64_t offset, const void* bytes, std::size_t size) const noexcept {
    const no_file_size_signal guard;
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
        std::memcpy(piece.data(), reinterpret_cast<const std::byte*>(page(0)) + offset, next);
        HF_STORE_TRY(write(offset, piece.data(), next));
        offset += next;
        size -= next;
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
