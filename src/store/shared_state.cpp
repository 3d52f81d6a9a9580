#include "store/shared_state.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string_view>
#include <utility>

#include "base/fork_mutex.hpp"
#include "store/file_size_signal.hpp"

namespace holdfast::store_engine {
namespace {

constexpr std::array<char, 8> lock_magic = {'H', 'F', 'L', 'O', 'C', 'K', '0', '8'};
constexpr off_t presence_byte = 0;                     // shared by all who have the store open
constexpr off_t first_process_byte = off_t{1} << 32U;  // one for each process
constexpr unsigned slots_at_first = 128;

status lock_byte(int file, off_t byte, short how, bool wait) noexcept {
    struct flock request {};
    request.l_type = how;
    request.l_whence = SEEK_SET;
    request.l_start = byte;
    request.l_len = 1;
    while (::fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &request) != 0) {
        if (errno != EINTR) {
            return last_error();
        }
    }
    return status::ok;
}

/// Whether a lock file that nobody uses was one before, of a store or of LMDB. A file of something else is to stay.
status expect_lock_file(int file) noexcept {
    constexpr std::string_view ours = "HFLOCK";
    constexpr std::string_view of_lmdb = "\xDE\xC0\xEF\xBE";
    std::array<char, 8> head{};
    if (::pread(file, head.data(), head.size(), 0) < 0) {
        return last_error();
    }
    const std::string_view text(head.data(), head.size());
    const bool is_known = head == std::array<char, 8>{} || text.starts_with(ours) || text.starts_with(of_lmdb);
    return is_known ? status::ok : from_errno(EEXIST);
}

/// Of a lock file of this version.
std::uint64_t read_closed(int file) noexcept {
    std::array<char, 8> magic{};
    std::uint64_t closed = 0;
    const bool is_whole = ::pread(file, magic.data(), magic.size(), 0) == magic.size() &&
                          ::pread(file, &closed, sizeof(closed), offsetof(shared_header, closed)) == sizeof(closed);
    return is_whole && magic == lock_magic ? closed : 0;
}

bool is_refused(status what) noexcept { return what == from_errno(EAGAIN) || what == from_errno(EACCES); }

}  // namespace

// --- fork -----------------------------------------------------------------------------------------------------------

/// All shared_states of this process. A thread that forks holds the mutex under which they are made, mapped and
/// removed, so the child finds them whole.
class forks {
public:
    forks() {
        ::pthread_atfork(nullptr, nullptr, in_child);  // behind the handlers of fork_mutex
        when_a_holder_ends(end_of_holder);
    }
    static forks& all() {
        static auto* const one = std::make_unique<forks>().release();  // static objects may close stores at exit
        return *one;
    }
    void add(shared_state& state) {
        const base::scoped_lock lock(mutex_);
        states_.insert(&state);
    }
    void remove(shared_state& state) noexcept {
        const base::scoped_lock lock(mutex_);
        states_.erase(&state);
    }
    [[nodiscard]] base::fork_mutex& mutex() noexcept { return mutex_; }
    template <class Is>
    [[nodiscard]] bool any(Is is) noexcept {
        const base::scoped_lock lock(mutex_);
        return std::any_of(states_.begin(), states_.end(), is);
    }

private:
    static void end_of_holder() noexcept {
        const base::scoped_lock lock(all().mutex_);
        for (shared_state* const state : all().states_) {
            state->abandon_locks(false);
        }
    }
    static void in_child() noexcept {
        for (shared_state* const state : all().states_) {
            state->leave_to_parent();
        }
    }

    base::fork_mutex mutex_{base::fork_rank::stores};
    std::set<shared_state*> states_;
};

shared_state::shared_state() { forks::all().add(*this); }
shared_state::~shared_state() {
    forks::all().remove(*this);
    abandon_locks(true);
}

void shared_state::find_locks() noexcept {
    locks_[0].lie_at(header_->writer, *this);
    locks_[1].lie_at(header_->syncer, *this);
    locks_[2].lie_at(header_->table, *this);
}

// Of the calling thread, or all of this process's.
void shared_state::abandon_locks(bool any) noexcept {
    for (shared_mutex& each : locks_) {
        each.abandon(any);
    }
}

// The file's number and the mapping refer to the open file description that has the locks.
void shared_state::leave_to_parent() noexcept {
    if ((is_private() && !of_one_process_) || is_of_parent()) {
        return;
    }
    is_of_parent_.store(true);
    if (is_private()) {
        if (header_ != nullptr) {
            header_->panic.store(1);  // the memory is the child's own
        }
        return;
    }
    struct stat information {};
    const std::size_t size = memory_.size() == 0 || ::fstat(file_.get(), &information) != 0
                                 ? 0
                                 : std::min(shared_bytes, static_cast<std::size_t>(information.st_size));
    constexpr int protection = PROT_READ | PROT_WRITE;
    void* const copy = size == 0 ? MAP_FAILED : ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy != MAP_FAILED) {
        std::memcpy(copy, memory_.start(), size);
        if (::mmap(memory_.start(), shared_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
            MAP_FAILED) {
            std::memcpy(memory_.start(), copy, size);
            header_->panic.store(1);
        }
        ::munmap(copy, size);
    }
    const descriptor nothing(::memfd_create("store of the parent", MFD_CLOEXEC));
    if (!nothing.valid() || ::dup3(nothing.get(), file_.get(), O_CLOEXEC) < 0) {
        ::close(file_.get());
    }
}

namespace {

// The blocks below `needed` stay: on a full disk, who gave them back might not get them again, and no process could
// open the store.
status make_void(int file, std::size_t needed) {
    struct stat information {};
    if (::fstat(file, &information) != 0) {
        return last_error();
    }
    const std::size_t size = std::min(static_cast<std::size_t>(information.st_size), needed);
    const std::vector<std::byte> zeros(size);
    for (std::size_t at = 0; at < size;) {
        const ssize_t written = ::pwrite(file, zeros.data() + at, size - at, static_cast<off_t>(at));
        if (written < 0 && errno != EINTR) {
            return last_error();
        }
        at += written > 0 ? static_cast<std::size_t>(written) : 0;
    }
    return ::ftruncate(file, static_cast<off_t>(size)) == 0 ? status::ok : last_error();
}

}  // namespace

// --- opening --------------------------------------------------------------------------------------------------------

status shared_state::open(const std::string& path, mode_t mode, bool& first) {
    {
        const base::scoped_lock no_fork(forks::all().mutex());
        file_ = descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode));
    }
    if (!file_.valid()) {
        return last_error();
    }
    for (;;) {
        const status alone = lock_byte(file_.get(), presence_byte, F_WRLCK, false);
        if (alone == status::ok) {
            first = true;
            HF_STORE_TRY(expect_lock_file(file_.get()));
            closed_before_ = read_closed(file_.get());
            constexpr std::size_t needed = readers_offset + slots_at_first * sizeof(reader_slot);
            HF_STORE_TRY(make_void(file_.get(), needed));
            return map(needed);
        }
        if (!is_refused(alone)) {
            return alone;
        }
        // Waits for a first opener, and keeps the store from looking deserted.
        HF_STORE_TRY(lock_byte(file_.get(), presence_byte, F_RDLCK, true));
        HF_STORE_TRY(map(0));
        if (memory_.size() != 0 && header_->magic == lock_magic && header_->ready.load() == lock_ready) {
            break;
        }
        struct stat information {};
        if (::fstat(file_.get(), &information) != 0) {
            return last_error();
        }
        const bool foreign = memory_.size() != 0 && header_->magic != lock_magic && header_->magic[0] != 0;
        HF_STORE_TRY(lock_byte(file_.get(), presence_byte, F_UNLCK, false));
        if (foreign) {
            return status::version_mismatch;
        }
    }
    first = false;
    if (header_->version != store_version || header_->header_bytes != sizeof(shared_header)) {
        return status::version_mismatch;
    }
    return take_number();
}

// Numbers begin anew after a thousand million: the lock of one that is in use is refused.
status shared_state::take_number() noexcept {
    for (;;) {
        number_ = header_->next_process.fetch_add(1) % (lock_party::ended_thread - 1) + 1;
        const auto is_of = [this](const lock_word& word) { return (word.owner.load() & lock_party::most) == number_; };
        if (is_of(header_->writer) || is_of(header_->syncer) || is_of(header_->table)) {
            continue;  // a dead process has it
        }
        const status outcome = lock_byte(file_.get(), first_process_byte + number_, F_WRLCK, false);
        if (outcome == status::ok) {
            give_own_slots();  // of a dead one
        }
        if (!is_refused(outcome)) {
            return outcome;
        }
    }
}

status shared_state::ask_for_users(const std::string& path, bool& any) noexcept {
    any = false;
    const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) {
        return errno == ENOENT ? status::ok : last_error();
    }
    struct flock question {};
    question.l_type = F_WRLCK;
    question.l_whence = SEEK_SET;
    question.l_start = presence_byte;
    question.l_len = 1;
    if (::fcntl(file.get(), F_OFD_GETLK, &question) != 0) {
        return last_error();
    }
    any = question.l_type != F_UNLCK;
    return status::ok;
}

// `backed` bytes get blocks: a full disk is an error here and no signal later.
status shared_state::map(std::size_t backed) {
    const base::scoped_lock no_fork(forks::all().mutex());
    memory_ = mapping();
    if (backed != 0) {
        if (const int error = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(backed)); error != 0) {
            return from_errno(error);
        }
    } else {
        struct stat information {};
        if (::fstat(file_.get(), &information) != 0) {
            return last_error();
        }
        if (static_cast<std::size_t>(information.st_size) < readers_offset) {
            return status::ok;  // not ready
        }
    }
    void* at = ::mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (at == MAP_FAILED) {
        return last_error();
    }
    memory_ = mapping(static_cast<std::byte*>(at), shared_bytes);
    header_ = reinterpret_cast<shared_header*>(memory_.start());
    readers_ = reinterpret_cast<reader_slot*>(memory_.start() + readers_offset);
    find_locks();
    return status::ok;
}

status shared_state::open_private(bool of_one_process) {
    const base::scoped_lock no_fork(forks::all().mutex());
    of_one_process_ = of_one_process;
    void* at = ::mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        return last_error();
    }
    memory_ = mapping(static_cast<std::byte*>(at), shared_bytes);
    header_ = reinterpret_cast<shared_header*>(memory_.start());
    readers_ = reinterpret_cast<reader_slot*>(memory_.start() + readers_offset);
    find_locks();
    return status::ok;
}

void shared_state::initialise(const std::array<std::uint8_t, 16>& uuid, std::uint64_t inode,
                              unsigned reader_limit) noexcept {
    // The memory is zeros, which is what the atomic members begin with.
    header_ = ::new (memory_.start()) shared_header{};
    find_locks();
    header_->magic = lock_magic;
    header_->version = store_version;
    header_->header_bytes = sizeof(shared_header);
    header_->uuid = uuid;
    header_->data_inode = inode;
    header_->reader_limit.store(std::min(reader_limit, most_readers));
    number_ = header_->next_process.fetch_add(1) + 1;
}

void shared_state::publish() noexcept {
    header_->ready.store(lock_ready);
    if (!is_private()) {
        // Cannot be refused: no other process knows the number.
        static_cast<void>(lock_byte(file_.get(), first_process_byte + number_, F_WRLCK, false));
        static_cast<void>(lock_byte(file_.get(), presence_byte, F_RDLCK, false));
    }
}

bool shared_state::become_last() noexcept {
    return is_private() || lock_byte(file_.get(), presence_byte, F_WRLCK, false) == status::ok;
}

// Readers of both numbers see those of one log, or 0 pages.
void shared_state::set_log(std::uint64_t page, std::uint64_t pages) noexcept {
    if (header_->log_page.load() != page) {
        header_->log_pages.store(0);
        header_->log_page.store(page);
    }
    header_->log_pages.store(pages);
}

bool shared_state::is_in_log(std::uint64_t start, std::uint64_t count) const noexcept {
    const std::uint64_t page = header_->log_page.load();
    const std::uint64_t pages = header_->log_pages.load();
    return page == header_->log_page.load() && start + count > page && start < page + pages;
}

// A checkpoint of the version that readers see changes its end alone, by one store: a writer that is killed must not
// leave readers without a version, which they would look for until a writer comes.
void shared_state::set_root(const root& version) noexcept {
    std::array<std::uint64_t, 8> words{};
    std::memcpy(words.data(), &version, sizeof(version));
    auto& slot = header_->roots[version.transaction % root_slots];
    constexpr std::size_t end_of_pages = offsetof(root, next_page) / sizeof(std::uint64_t);
    if (root last{}; get_root(version.transaction, last)) {
        last.next_page = version.next_page;
        if (std::memcmp(&last, &version, sizeof(last)) == 0) {
            slot[end_of_pages].store(version.next_page, std::memory_order_release);
            return;
        }
    }
    slot[0].store(no_transaction, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (unsigned i = 1; i < words.size(); ++i) {
        slot[i].store(words[i], std::memory_order_relaxed);
    }
    slot[0].store(version.transaction, std::memory_order_release);
}

bool shared_state::get_root(std::uint64_t transaction, root& version) const noexcept {
    const auto& slot = header_->roots[transaction % root_slots];
    std::array<std::uint64_t, 8> words{};
    words[0] = slot[0].load(std::memory_order_acquire);
    for (unsigned i = 1; i < words.size(); ++i) {
        words[i] = slot[i].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (words[0] != transaction || slot[0].load(std::memory_order_relaxed) != transaction) {
        return false;
    }
    std::memcpy(&version, words.data(), sizeof(version));
    return true;
}

// --- readers --------------------------------------------------------------------------------------------------------

// A writer that looked at the slots before the announcement may have taken pages of that version: then the second look
// shows that the durable version has moved on.
root shared_state::enter(reader_slot& slot) const noexcept {
    root version{};
    for (;;) {
        const std::uint64_t transaction = header_->durable.load(std::memory_order_acquire);
        slot.transaction.store(transaction, std::memory_order_seq_cst);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const bool is_last = header_->durable.load(std::memory_order_acquire) == transaction;
        if (is_last && get_root(transaction, version)) {
            return version;
        }
    }
}

status shared_state::extend_table(unsigned slots) noexcept {
    if (is_private() || slots <= slots_at_first || slots % slots_at_first != 1) {
        return status::ok;
    }
    const std::size_t start = readers_offset + (slots - 1) * sizeof(reader_slot);
    const no_file_size_signal guard;
    const int error = ::posix_fallocate(file_.get(), static_cast<off_t>(start),
                                        static_cast<off_t>(slots_at_first * sizeof(reader_slot)));
    return error == 0 ? status::ok : from_errno(error);
}

status shared_state::take_slot(reader_slot*& slot) noexcept {
    if (is_of_parent()) {
        return status::panic;
    }
    shared_lock guard;
    bool died = false;  // a slot that was being taken is free, or belongs to a dead process
    HF_STORE_TRY(guard.lock(table(), died));
    const unsigned limit = header_->reader_limit.load(std::memory_order_relaxed);
    for (int attempt = 0; attempt < 2; ++attempt) {
        const unsigned used = header_->reader_count.load(std::memory_order_relaxed);
        unsigned index = 0;
        while (index < used && readers_[index].process.load(std::memory_order_relaxed) != 0) {
            ++index;
        }
        if (index < limit) {
            HF_STORE_TRY(extend_table(index + 1));
            slot = &readers_[index];
            slot->transaction.store(no_transaction, std::memory_order_relaxed);
            slot->pid.store(::getpid(), std::memory_order_relaxed);
            slot->thread.store(static_cast<std::uint64_t>(::syscall(SYS_gettid)), std::memory_order_relaxed);
            slot->process.store(number_, std::memory_order_release);
            header_->reader_count.store(std::max(used, index + 1), std::memory_order_release);
            return status::ok;
        }
        if (clear_dead_locked() == 0) {
            break;
        }
    }
    return status::readers_full;
}

void shared_state::give_slot(reader_slot& slot) noexcept {
    slot.transaction.store(no_transaction, std::memory_order_release);
    slot.process.store(0, std::memory_order_release);
}

// The kernel does not report own locks.
bool shared_state::is_alive(std::uint32_t process) const noexcept {
    if (process == ended_thread) {
        return false;
    }
    if (process == number_ || is_private()) {
        return true;
    }
    struct flock question {};
    question.l_type = F_WRLCK;
    question.l_whence = SEEK_SET;
    question.l_start = first_process_byte + process;
    question.l_len = 1;
    return ::fcntl(file_.get(), F_OFD_GETLK, &question) != 0 || question.l_type != F_UNLCK;
}

// In another environment of this process: the same file, and so the same word.
bool shared_state::is_held_here(const lock_word& word, std::uint32_t process) const noexcept {
    struct stat own {};
    if (is_private() || ::fstat(file_.get(), &own) != 0) {
        return false;
    }
    const std::ptrdiff_t place = reinterpret_cast<const std::byte*>(&word) - memory_.start();
    return forks::all().any([&](const shared_state* other) {
        struct stat its {};
        return other->number_ == process && !other->is_private() && ::fstat(other->file_.get(), &its) == 0 &&
               its.st_dev == own.st_dev && its.st_ino == own.st_ino &&
               std::any_of(other->locks_.begin(), other->locks_.end(), [&](const shared_mutex& each) {
                   return each.is_mine() &&
                          each.lies_at(*reinterpret_cast<const lock_word*>(other->memory_.start() + place));
               });
    });
}

unsigned shared_state::clear_dead_locked() noexcept {
    unsigned cleared = 0;
    const unsigned used = header_->reader_count.load(std::memory_order_acquire);
    std::uint32_t last = 0;  // slots of a process tend to lie together
    bool last_alive = true;
    for (unsigned i = 0; i < used; ++i) {
        const std::uint32_t process = readers_[i].process.load(std::memory_order_acquire);
        if (process == 0) {
            continue;
        }
        if (process != last) {
            last = process;
            last_alive = is_alive(process);
        }
        if (!last_alive) {
            give_slot(readers_[i]);
            ++cleared;
        }
    }
    return cleared;
}

unsigned shared_state::clear_dead() noexcept {
    shared_lock guard;
    bool died = false;
    return guard.lock(table(), died) == status::ok ? clear_dead_locked() : 0;
}

void shared_state::give_own_slots() noexcept {
    if (is_of_parent()) {
        return;
    }
    const unsigned used = header_->reader_count.load(std::memory_order_acquire);
    for (unsigned i = 0; i < used; ++i) {
        if (readers_[i].process.load(std::memory_order_relaxed) == number_) {
            give_slot(readers_[i]);
        }
    }
}

void shared_state::collect_snapshots(std::vector<std::uint64_t>& snapshots) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const unsigned used = header_->reader_count.load(std::memory_order_acquire);
    for (unsigned i = 0; i < used; ++i) {
        const std::uint64_t transaction = readers_[i].transaction.load(std::memory_order_acquire);
        if (readers_[i].process.load(std::memory_order_relaxed) != 0 && transaction != no_transaction) {
            snapshots.push_back(transaction);
        }
    }
}

bool shared_state::is_read() const {
    std::vector<std::uint64_t> snapshots;
    collect_snapshots(snapshots);
    return !snapshots.empty();
}

}  // namespace holdfast::store_engine
