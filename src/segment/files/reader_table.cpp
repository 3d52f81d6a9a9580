#include "segment/files/reader_table.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "base/process_identity.hpp"
#include "persist/machine.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

constexpr char table_magic[8] = {'H', 'F', 'R', 'E', 'A', 'D', 'E', 'R'};
constexpr std::uint32_t table_version = 1;
constexpr std::uint64_t about_to_read = 1;
/// Behind those of the slots.
constexpr std::uint32_t writers_byte = reader_slots;
constexpr std::uint64_t first_version = 2;

std::int64_t wall_clock_ns() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// A mapping there does not show what another machine has stored. Null: it is none of these.
const char* file_system_of_machines(int fd) noexcept {
    constexpr std::uint64_t smb2 = 0xfe534d42;
    constexpr std::uint64_t cifs = 0xff534d42;
    constexpr std::uint64_t ceph = 0x00c36400;
    constexpr std::uint64_t fuse = 0x65735546;
    struct statfs of {};
    if (::fstatfs(fd, &of) != 0) {
        return "a file system that does not say what it is";
    }
    switch (static_cast<std::uint64_t>(of.f_type) & 0xffffffffU) {
        case NFS_SUPER_MAGIC: return "NFS";
        case SMB_SUPER_MAGIC:
        case smb2:
        case cifs: return "SMB";
        case V9FS_MAGIC: return "9p";
        case AFS_SUPER_MAGIC: return "AFS";
        case ceph: return "Ceph";
        case fuse: return "FUSE";
        default: return nullptr;
    }
}

/// Best effort, while the file is empty: on Btrfs each store would need new space otherwise.
void write_in_place(int fd) noexcept {
    int flags = 0;
    if (::ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_NOCOW_FL;
        static_cast<void>(::ioctl(fd, FS_IOC_SETFLAGS, &flags));
    }
}

/// The lock of a slot lies on a byte of its own.
struct flock lock_of(std::uint32_t slot, short how) noexcept {
    struct flock made {};
    made.l_type = how;
    made.l_whence = SEEK_SET;
    made.l_start = static_cast<off_t>(slot);
    made.l_len = 1;
    return made;
}

/// Another open file description does.
bool locks(int fd, std::uint32_t slot) noexcept {
    struct flock question = lock_of(slot, F_WRLCK);
    return ::fcntl(fd, F_OFD_GETLK, &question) != 0 || question.l_type != F_UNLCK;
}

bool are_sharing(int fd) noexcept {
    struct flock question = lock_of(sharing_byte, F_WRLCK);
    return ::fcntl(fd, F_OFD_GETLK, &question) == 0 && question.l_type == F_RDLCK;
}

bool is_table(const reader_table_on_file& head) noexcept {
    return std::memcmp(head.magic, table_magic, sizeof table_magic) == 0 && head.version == table_version &&
           head.slots == reader_slots;
}

/// Who believes a damaged word would let pages go that home does not have.
std::uint64_t mark_of_home(std::uint64_t version) noexcept {
    constexpr std::uint64_t of_version = 0x9e37'79b9'7f4a'7c15;
    return persist::this_boot() ^ (version + 1) * of_version;
}

std::optional<reader_information> described(const reader_slot_on_file& slot) noexcept {
    const std::uint64_t holds = slot.holds.load(std::memory_order_acquire);
    if (holds == 0) {
        return std::nullopt;
    }
    reader_information one;
    one.pid = slot.pid.load(std::memory_order_relaxed);
    if (holds != about_to_read) {
        one.version = holds - first_version;
    }
    one.since_ns = slot.since_ns.load(std::memory_order_relaxed);
    one.refreshed_ns = slot.refreshed_ns.load(std::memory_order_relaxed);
    return one;
}

std::uint32_t* word_of(const std::atomic<std::uint32_t>& word) noexcept {
    return const_cast<std::uint32_t*>(reinterpret_cast<const std::uint32_t*>(&word));
}

}  // namespace

reader_table::reader_table(std::unique_ptr<persist::file> file) noexcept
    : file_(std::move(file)), owner_(base::process_identity()) {}

reader_table::~reader_table() {
    leave();
    if (table_ != nullptr && base::process_identity() == owner_) {  // a child of fork may have the file open
        if (is_writer_) {
            set_writer(writer_kind::none);
        }
        turns().stop_sharing();
    }
    if (table_ != nullptr) {
        ::munmap(table_, reader_table_size);
    }
}

base::result<void> reader_table::map() {
    void* const mapped =
        ::mmap(nullptr, reader_table_size, PROT_READ | PROT_WRITE, MAP_SHARED, file_->native_handle(), 0);
    if (mapped == MAP_FAILED) {
        return base::os_failure(errno, "mmap", file_->path());
    }
    table_ = static_cast<reader_table_on_file*>(mapped);
    slots_ = reinterpret_cast<reader_slot_on_file*>(static_cast<std::byte*>(mapped) + sizeof(reader_table_on_file));
    return {};
}

bool reader_table::is_sound() const noexcept { return is_table(*table_); }

base::result<std::unique_ptr<reader_table>> reader_table::open(persist::storage& storage, const heap_paths& paths,
                                                               missing_file missing) {
    const std::string path = paths.readers();
    auto opened = storage.open(path, access_mode::read_write);
    const bool makes = missing == missing_file::make;
    if (!opened && makes && opened.error().code == failure_code::missing) {
        opened = storage.create(path, "readers.create");
        if (opened) {
            write_in_place((*opened)->native_handle());
        }
    }
    if (!opened) {
        return opened.error().code == failure_code::missing ? base::result<std::unique_ptr<reader_table>>(nullptr)
                                                            : std::move(opened).error();
    }
    if ((*opened)->native_handle() < 0 || file_system_of_machines((*opened)->native_handle()) != nullptr) {
        return std::unique_ptr<reader_table>();
    }
    HF_TRY_ASSIGN(const std::uint64_t size, (*opened)->size());
    std::unique_ptr<reader_table> table(new reader_table(std::move(opened).value()));
    if (size >= reader_table_size) {
        HF_TRY(table->map());
    }
    const bool is_sound = table->table_ != nullptr && table->is_sound();
    if ((!is_sound && !makes) || !table->has_space()) {
        return std::unique_ptr<reader_table>();
    }
    if (table->table_ == nullptr) {
        HF_TRY(table->map());
    }
    if (!is_sound) {
        table->format();
    }
    return table;
}

std::string reader_table::file_system_that_machines_share(persist::storage& storage, const heap_paths& paths) {
    const auto opened = storage.open(paths.superblock(), access_mode::read_only);
    const char* const name =
        opened && (*opened)->native_handle() >= 0 ? file_system_of_machines((*opened)->native_handle()) : nullptr;
    return name == nullptr ? std::string() : name;
}

/// A copy may have holes, and a store to one is a SIGBUS where the disk is full. No reader has such a file in use.
bool reader_table::has_space() const {
    const auto charged = file_->charged();
    const auto size = file_->size();
    return (size && *size >= reader_table_size && charged && *charged >= reader_table_size) ||
           file_->allocate(0, reader_table_size, "readers.allocate").ok();
}

void reader_table::format() noexcept {
    std::memset(static_cast<void*>(table_), 0, reader_table_size);
    table_->version = table_version;
    table_->slots = reader_slots;
    std::atomic_thread_fence(std::memory_order_release);
    std::memcpy(table_->magic, table_magic, sizeof table_magic);
}

std::uint32_t reader_table::used() const noexcept {
    return std::min(table_->used.load(std::memory_order_acquire), reader_slots);
}

bool reader_table::try_to_lock(std::uint32_t slot) const noexcept {
    struct flock wanted = lock_of(slot, F_WRLCK);
    return ::fcntl(file_->native_handle(), F_OFD_SETLK, &wanted) == 0;
}

void reader_table::unlock(std::uint32_t slot) const noexcept {
    struct flock none = lock_of(slot, F_UNLCK);
    ::fcntl(file_->native_handle(), F_OFD_SETLK, &none);
}

bool reader_table::is_locked(std::uint32_t slot) const noexcept { return locks(file_->native_handle(), slot); }

/// A slot that its reader left locked no byte: who takes the lock may empty it.
void reader_table::bury_dead() noexcept {
    for (std::uint32_t i = 0; i < used(); ++i) {
        if (own_ == i || slots_[i].holds.load(std::memory_order_acquire) == 0 || is_locked(i)) {
            continue;
        }
        if (try_to_lock(i)) {
            slots_[i].holds.store(0, std::memory_order_release);
            unlock(i);
        }
    }
}

void reader_table::set_writer(writer_kind kind) noexcept {
    if (!is_writer_ && kind != writer_kind::none) {
        static_cast<void>(try_to_lock(writers_byte));  // one that a dead writer's child has says no more than the word
    }
    if (is_writer_ && kind == writer_kind::none) {
        unlock(writers_byte);
    }
    is_writer_ = kind != writer_kind::none;
    table_->writer_pid.store(kind == writer_kind::none ? 0 : static_cast<std::uint64_t>(::getpid()),
                             std::memory_order_relaxed);
    table_->writer.store(static_cast<std::uint32_t>(kind), std::memory_order_seq_cst);
}

void reader_table::begin_session(std::uint64_t session, std::uint64_t version, std::uint64_t home) noexcept {
    table_->session.store(session, std::memory_order_relaxed);
    publish_home(home);
    tell({});
    publish(version);
    set_writer(writer_kind::beside);
}

bool reader_table::pace::is_time() noexcept {
    constexpr std::chrono::milliseconds between{10};
    const auto now = std::chrono::steady_clock::now();
    if (now - last < between) {
        return false;
    }
    last = now;
    return true;
}

std::uint64_t reader_table::oldest(std::uint64_t newest) noexcept {
    const auto find = [&] {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        std::uint64_t found = newest;
        for (std::uint32_t i = 0; i < used(); ++i) {
            const std::uint64_t holds = slots_[i].holds.load(std::memory_order_acquire);
            if (holds != 0) {
                found = std::min(found, holds == about_to_read ? 0 : holds - first_version);
            }
        }
        return found;
    };
    std::uint64_t found = find();
    if (found < newest && finds_dead_.is_time()) {
        bury_dead();
        found = find();
    }
    return found;
}

bool reader_table::any(dead_readers dead) noexcept {
    const auto find = [&] {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        for (std::uint32_t i = 0; i < used(); ++i) {
            if (slots_[i].holds.load(std::memory_order_acquire) != 0) {
                return true;
            }
        }
        return false;
    };
    if (!find()) {
        return false;
    }
    if (dead == dead_readers::may_count && !finds_dead_.is_time()) {
        return true;
    }
    bury_dead();
    return find();
}

bool reader_table::try_exclude() noexcept {
    if (any(dead_readers::do_not_count)) {
        return false;
    }
    set_writer(writer_kind::excluding);
    if (any(dead_readers::do_not_count)) {
        admit();
        return false;
    }
    return true;
}

void reader_table::admit() noexcept { set_writer(writer_kind::beside); }

void reader_table::publish(std::uint64_t version) noexcept {
    table_->durable.store(version, std::memory_order_seq_cst);
    table_->changes.fetch_add(1, std::memory_order_seq_cst);
    if (table_->waiting.load(std::memory_order_seq_cst) != 0) {
        ::syscall(SYS_futex, word_of(table_->changes), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
}

void reader_table::tell(const log::log_counts& costs) noexcept {
    table_->log_writes.store(costs.writes, std::memory_order_relaxed);
    table_->log_bytes.store(costs.bytes, std::memory_order_relaxed);
    table_->log_ns.store(costs.nanoseconds, std::memory_order_relaxed);
}

void reader_table::publish_home(std::uint64_t version) noexcept {
    table_->home.store(version, std::memory_order_release);
    table_->home_mark.store(mark_of_home(version), std::memory_order_release);
}

base::result<void> reader_table::take() {
    for (std::uint32_t i = 0; i < reader_slots; ++i) {
        if (slots_[i].holds.load(std::memory_order_relaxed) != 0 && is_locked(i)) {
            continue;
        }
        if (!try_to_lock(i)) {
            continue;
        }
        std::uint32_t used = table_->used.load(std::memory_order_relaxed);
        while (used < i + 1 && !table_->used.compare_exchange_weak(used, i + 1, std::memory_order_seq_cst)) {
        }
        own_ = i;
        slots_[i].pid.store(static_cast<std::uint64_t>(::getpid()), std::memory_order_relaxed);
        slots_[i].since_ns.store(wall_clock_ns(), std::memory_order_relaxed);
        slots_[i].refreshed_ns.store(wall_clock_ns(), std::memory_order_relaxed);
        slots_[i].holds.store(about_to_read, std::memory_order_seq_cst);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return {};
    }
    return failure{failure_code::limit,
                   file_->path(),
                   "readers",
                   std::to_string(reader_slots),
                   "fewer",
                   "close the heap in other processes",
                   0};
}

void reader_table::set_version(std::uint64_t version) noexcept {
    if (own_) {
        slots_[*own_].refreshed_ns.store(wall_clock_ns(), std::memory_order_relaxed);
        pin_version(version);
    }
}

void reader_table::pin_version(std::uint64_t version) noexcept {
    if (own_) {
        slots_[*own_].holds.store(version + first_version, std::memory_order_seq_cst);
    }
}

/// Waits for a writer that opens the heap: it has asked already who reads.
void reader_table::pin_everything(std::uint64_t version) noexcept {
    constexpr std::chrono::seconds longest{60};
    const auto end = std::chrono::steady_clock::now() + longest;
    while (own_) {
        slots_[*own_].holds.store(about_to_read, std::memory_order_seq_cst);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (writer() != writer_kind::opening || !is_locked(writers_byte) || std::chrono::steady_clock::now() >= end) {
            return;
        }
        pin_version(version);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

reader_table::standstill::standstill(reader_table* readers, std::uint64_t version) noexcept
    : readers_(readers), version_(version) {
    if (readers_ != nullptr) {
        readers_->pin_everything(version_);
    }
}

reader_table::standstill::~standstill() {
    if (readers_ != nullptr) {
        readers_->pin_version(version_);
    }
}

/// A child of fork shares the lock with its parent, and reads the same pages.
void reader_table::leave() noexcept {
    if (own_ && base::process_identity() == owner_) {
        slots_[*own_].holds.store(0, std::memory_order_seq_cst);
        unlock(*own_);
    }
    own_.reset();
}

void reader_table::hide_version() noexcept {
    if (own_) {
        slots_[*own_].holds.store(0, std::memory_order_seq_cst);
    }
}

writer_kind reader_table::writer() const noexcept {
    return static_cast<writer_kind>(table_->writer.load(std::memory_order_seq_cst));
}
std::uint64_t reader_table::session() const noexcept { return table_->session.load(std::memory_order_acquire); }
std::uint64_t reader_table::durable() const noexcept { return table_->durable.load(std::memory_order_seq_cst); }
std::uint64_t reader_table::home() const noexcept {
    const std::uint64_t version = table_->home.load(std::memory_order_acquire);
    return table_->home_mark.load(std::memory_order_acquire) == mark_of_home(version) ? version : 0;
}
std::uint64_t reader_table::writer_pid() const noexcept {
    const bool lives = is_writer_ || is_locked(writers_byte);
    return lives ? table_->writer_pid.load(std::memory_order_relaxed) : 0;
}

bool reader_table::wait_for(std::uint64_t known, std::chrono::nanoseconds longest, std::uint64_t but) const noexcept {
    const auto end = std::chrono::steady_clock::now() + longest;
    table_->waiting.fetch_add(1, std::memory_order_seq_cst);
    bool is_new = false;
    for (;;) {
        const std::uint32_t changes = table_->changes.load(std::memory_order_seq_cst);
        is_new = durable() > known && (but == 0 || session() != but);
        const auto left = end - std::chrono::steady_clock::now();
        if (is_new || left <= std::chrono::nanoseconds(0)) {
            break;
        }
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
        const timespec most{static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
        ::syscall(SYS_futex, word_of(table_->changes), FUTEX_WAIT, changes, &most, nullptr, 0);
    }
    table_->waiting.fetch_sub(1, std::memory_order_seq_cst);
    return is_new;
}

std::vector<reader_information> reader_table::readers() {
    std::vector<reader_information> found;
    for (std::uint32_t i = 0; i < used(); ++i) {
        const auto one = described(slots_[i]);
        if (one && (own_ == i || is_locked(i))) {
            found.push_back(*one);
        }
    }
    return found;
}

base::result<readers_glance> reader_table::glance(persist::storage& storage, const heap_paths& paths) {
    struct whole {
        reader_table_on_file head;
        reader_slot_on_file slots[reader_slots];
    };
    static_assert(sizeof(whole) == reader_table_size);
    auto opened = storage.open(paths.readers(), access_mode::read_only);
    if (!opened) {
        return opened.error().code == failure_code::missing ? base::result<readers_glance>(readers_glance{})
                                                            : std::move(opened).error();
    }
    const int fd = (*opened)->native_handle();
    HF_TRY_ASSIGN(const std::uint64_t size, (*opened)->size());
    if (fd < 0 || size < reader_table_size) {
        return readers_glance{};
    }
    const auto copy = std::make_unique<whole>();
    HF_TRY((*opened)->read_at(0, std::as_writable_bytes(std::span(copy.get(), 1))));
    if (!is_table(copy->head)) {
        return readers_glance{};
    }
    readers_glance found;
    for (std::uint32_t i = 0; i < std::min(copy->head.used.load(std::memory_order_relaxed), reader_slots); ++i) {
        const auto one = described(copy->slots[i]);
        if (one && locks(fd, i)) {
            found.readers.push_back(*one);
        }
    }
    if (locks(fd, writers_byte)) {
        found.writer = static_cast<writer_kind>(copy->head.writer.load(std::memory_order_relaxed));
        found.writer_pid = copy->head.writer_pid.load(std::memory_order_relaxed);
    }
    found.is_shared = are_sharing(fd);
    if (found.is_shared || found.writer == writer_kind::beside || found.writer == writer_kind::excluding) {
        found.durable = copy->head.durable.load(std::memory_order_relaxed);
        found.home = copy->head.home.load(std::memory_order_relaxed);
        found.costs = {copy->head.log_writes.load(std::memory_order_relaxed),
                       copy->head.log_bytes.load(std::memory_order_relaxed),
                       copy->head.log_ns.load(std::memory_order_relaxed)};
    }
    return found;
}

}  // namespace holdfast::segment
