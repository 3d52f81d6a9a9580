#include "store/data_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "persist/backing.hpp"
#include "store/outcome.hpp"
#include "store/store_format.hpp"

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

// The kernel does what a store would make it do, and an error is an error.
status ask_for_stores(std::byte* at, std::size_t size) noexcept {
    int error = 0;
    do {
        error = ::madvise(at, size, populate_for_stores) == 0 ? 0 : errno;
    } while (error == EINTR || error == EAGAIN);
    if (error == EFAULT) {
        return from_errno(ENOSPC);
    }
    // EINVAL: Linux before 5.14, where a store needs no block but its page's.
    return error == 0 || error == EINVAL ? status::ok : from_errno(error);
}

}  // namespace

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
    options_ = options;
    reserved_pages_.store(0);
    ranges_.store(nullptr);
    newest_.reset();
    file_.reset();
    HF_STORE_TRY(open_file(path));
    memory_.use(*file_, options.medium ? *options.medium : find_medium(*file_, options.emulated),
                !options.read_only && !options.overlay);
    HF_STORE_TRY(refresh_size());
    const auto fills = persist::stores_fill_folios(*file_);
    stores_fill_folios_ = !fills || fills.value();
    const auto tells = persist::tells_reserved_space(*file_);
    tells_holes_ = tells && tells.value();
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

// Another process may make or remove the file meanwhile.
status data_file::open_file(const std::string& path) {
    constexpr int most_attempts = 100;
    const auto mode = options_.read_only ? persist::access_mode::read_only : persist::access_mode::read_write;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        auto opened = options_.storage->open_target(path, mode);
        if (opened) {
            file_ = std::move(opened).value();
            return status::ok;
        }
        if (opened.error().os_error != ENOENT || options_.read_only) {
            return status_of(opened.error());
        }
        const auto link = options_.storage->link_target(path);
        const std::string target = link ? link.value() : std::string();
        const std::string place = target.empty()            ? path
                                  : target.starts_with('/') ? target
                                                            : directory_of(path) + "/" + target;
        auto made = options_.storage->with({.files = options_.mode})->create(place, "store.create");
        if (made) {
            file_ = std::move(made).value();
            return status::ok;
        }
        if (made.error().os_error != EEXIST) {
            return status_of(made.error());
        }
    }
    return from_errno(EAGAIN);
}

status data_file::refresh_size() noexcept {
    return outcome_of([this]() -> base::result<void> {
        HF_TRY_ASSIGN(const std::uint64_t size, file_->size());
        pages_.store(size / page_size, std::memory_order_relaxed);
        return {};
    });
}

status data_file::is_blank(std::uint64_t most, bool& blank) const {
    return outcome_of([&]() -> base::result<void> {
        HF_TRY_ASSIGN(const std::uint64_t size, file_->size());
        blank = false;
        if (size > most * page_size) {
            return {};
        }
        std::vector<std::byte> content(size);
        HF_TRY(file_->read_at(0, content));
        if (content.size() >= sizeof(meta_on_media) &&
            std::memcmp(content.data(), magic_in_the_making.data(), magic_in_the_making.size()) == 0) {
            std::fill_n(content.begin(), sizeof(meta_on_media), std::byte{0});
        }
        blank = std::ranges::all_of(content, [](std::byte one) { return one == std::byte{0}; });
        return {};
    });
}

bool data_file::find_hole(std::uint64_t from, std::uint64_t end, std::uint64_t& start,
                          std::uint64_t& count) const noexcept {
    const off_t hole = from >= end ? -1 : ::lseek(number(), static_cast<off_t>(from * page_size), SEEK_HOLE);
    if (hole < 0 || static_cast<std::uint64_t>(hole) >= end * page_size) {
        return false;
    }
    start = static_cast<std::uint64_t>(hole) / page_size;
    const off_t data = ::lseek(number(), hole, SEEK_DATA);
    const std::uint64_t behind = data < 0 ? end : (static_cast<std::uint64_t>(data) + page_size - 1) / page_size;
    count = std::min(behind, end) - start;
    return count > 0;
}

status data_file::inode(std::uint64_t& number) const noexcept {
    struct stat information {};
    if (::fstat(file_->native_handle(), &information) != 0) {
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
        void* at = ::mmap(nullptr, size, protection, flags, number(), 0);
        if (at == MAP_FAILED) {
            // The file is another kind of memory to those who have it open.
            return flags != MAP_SHARED && errno == EOPNOTSUPP ? status::other_medium : last_error();
        }
        one = mapping(static_cast<std::byte*>(at), size);
        return status::ok;
    };
    constexpr int both = PROT_READ | PROT_WRITE;
    const bool of_one = options_.write_map && !options_.read_only;
    HF_STORE_TRY(map_one(made->read, options_.overlay || of_one ? both : PROT_READ,
                         options_.overlay ? MAP_PRIVATE | MAP_NORESERVE
                         : of_one         ? memory_.mapping_flags()
                                          : MAP_SHARED));
    std::byte* writable = made->read.start();
    if (!options_.read_only && !of_one && !options_.overlay) {
        HF_STORE_TRY(map_one(made->write, both, memory_.mapping_flags()));
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
    void* at = ::mmap(read.start(), read.size(), PROT_READ, MAP_SHARED | MAP_FIXED, number(), 0);
    if (at == MAP_FAILED) {
        return last_error();
    }
    options_.overlay = false;
    return status::ok;
}

std::uint64_t data_file::growth_of(std::uint64_t pages) noexcept {
    return std::min(pages < small_file ? std::max(pages / 2, least_growth) : pages / 8, most_growth);
}

status data_file::grow(std::uint64_t wanted, std::uint64_t most) noexcept {
    const std::uint64_t before = pages();
    if (wanted <= before) {
        return status::ok;
    }
    if (wanted > reserved_pages()) {
        return status::no_memory;
    }
    const std::uint64_t generous = std::min(before + growth_of(before), std::min(most, reserved_pages()));
    // A nearly full disk may have what is needed and no more.
    for (const std::uint64_t after : {std::max(generous, wanted), wanted}) {
        const status outcome = give(before, after - before);
        if (outcome == status::ok) {
            pages_.store(after, std::memory_order_relaxed);
            // Where files are memory, the pages are there already: one call maps them for less than the faults of
            // their first stores. Elsewhere it would make them dirty.
            if (file_->is_in_memory()) {
                std::byte* const at = write_address_.load(std::memory_order_relaxed) + before * page_size;
                ::madvise(at, (after - before) * page_size, populate_for_stores);
            }
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
    const status outcome =
        outcome_of([&] { return file_->allocate(start * page_size, count * page_size, "store.blocks"); });
    if (outcome == from_errno(ENOSPC) || outcome == from_errno(EDQUOT)) {
        expect_full_disk();
    }
    return outcome;
}

void data_file::expect_full_disk() noexcept {
    if (!std::exchange(was_full_, true)) {
        map_page_by_page(*newest_);
    }
}

std::uint64_t data_file::pages_with_rest() const noexcept {
    struct stat information {};
    return ::fstat(number(), &information) == 0 ? static_cast<std::uint64_t>(information.st_size) / page_size : pages();
}

bool data_file::is_longer() noexcept {
    struct stat information {};
    if (pages_of_file_ != pages() && ::fstat(number(), &information) == 0 &&
        static_cast<std::uint64_t>(information.st_size) == pages() * page_size) {
        pages_of_file_ = pages();
    }
    return pages_of_file_ != pages();
}

// Another program may have filled the disk, and this process, or who opened the store before, has read ahead over
// holes: only the kernel knows what a store needs. It also costs less than the faults of the stores.
status data_file::make_storable(std::uint64_t start, std::uint64_t count) noexcept {
    const status outcome =
        ask_for_stores(write_address_.load(std::memory_order_relaxed) + start * page_size, count * page_size);
    if (outcome == from_errno(ENOSPC)) {
        expect_full_disk();
    }
    return outcome;
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
    const std::uint64_t offset = start * page_size;
    const std::uint64_t size = count * page_size;
    if (was_full_) {  // a dirty folio is not split
        constexpr std::uint64_t around = std::uint64_t{2} << 20U;
        const std::uint64_t first = offset - std::min(offset, around);
        file_->write_back(first, offset + size + around - first);
    }
    static_cast<void>(outcome_of([&] { return file_->punch_hole(offset, size, "store.punch"); }));
}

void data_file::trim(std::uint64_t wanted) noexcept {
    const status outcome = outcome_of([&]() -> base::result<void> {
        HF_TRY_ASSIGN(const std::uint64_t size, file_->size());
        return size > wanted * page_size ? file_->resize(wanted * page_size, "store.trim") : base::result<void>();
    });
    if (outcome == status::ok) {
        pages_.store(std::min(pages(), wanted), std::memory_order_relaxed);
    }
}

status data_file::sync_all(persist::site where) const noexcept {
    const bool has_called = memory_.forget_call();
    const status outcome = outcome_of([&] { return file_->sync(where); });
    if (outcome != status::ok && has_called) {
        memory_.note_call();
    }
    return outcome;
}

status data_file::sync_range(std::uint64_t offset, std::uint64_t size, persist::site where) const noexcept {
    if (memory_.has_called()) {
        return sync_all(where);
    }
    if (memory_.is_there()) {
        memory_.write_back(offset, size, where);
        memory_.fence("store.fence");
        return status::ok;
    }
    const std::span<const std::byte> mapped(write_address_.load(std::memory_order_relaxed) + offset, size);
    return outcome_of([&] { return file_->sync_mapped(offset, mapped, where); });
}

// A directory that this user may not read is taken for synced. The name of a file that is opened through a descriptor,
// as the heap does it, is the business of who has that.
status data_file::sync_name(persist::site where) const noexcept {
    if (file_->path().starts_with("/proc/self/fd/")) {
        return status::ok;
    }
    const status outcome =
        outcome_of([&] { return options_.storage->sync_directory(directory_of(file_->path()), where); });
    return outcome == status::access_denied ? status::ok : outcome;
}

// On persistent memory the kernel is asked first: a store to a hole of a full disk, as a copy has them, would be a
// signal. Where it says no, a call is what fails, or asks for blocks of these pages alone.
status data_file::write(std::uint64_t offset, const void* bytes, std::size_t size, persist::site where,
                        bool may_store) const noexcept {
    if (memory_.is_there() && may_store) {
        const std::uint64_t begin = offset - offset % page_size;
        std::byte* const at = write_address_.load(std::memory_order_relaxed) + begin;
        if (ask_for_stores(at, whole_pages(offset + size - begin)) == status::ok) {
            memory_.write(offset, bytes, size, where);
            return status::ok;
        }
    }
    const std::span<const std::byte> data(static_cast<const std::byte*>(bytes), size);
    const status outcome = outcome_of([&] { return file_->write_at(offset, data, where); });
    memory_.note_call();
    return outcome;
}

status data_file::write_again(std::uint64_t offset, std::uint64_t size, persist::site where) const noexcept {
    if (memory_.is_there()) {  // what is seen there is what is there
        memory_.write_back(offset, size, where);
        return status::ok;
    }
    std::array<std::byte, 16 * page_size> piece{};
    while (size > 0) {
        const std::size_t next = std::min<std::uint64_t>(size, piece.size());
        std::memcpy(piece.data(), reinterpret_cast<const std::byte*>(page(0)) + offset, next);
        HF_STORE_TRY(write(offset, piece.data(), next, where));
        offset += next;
        size -= next;
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
