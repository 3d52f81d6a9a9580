#include "segment/files/turn_locks.hpp"

#include <fcntl.h>

#include <cerrno>

#include "base/interruption.hpp"
#include "persist/machine.hpp"
#include "segment/files/reader_table.hpp"

namespace holdfast::segment {

namespace {

constexpr std::uint32_t line_byte = reader_slots + 2;

struct flock byte_of_turns(std::uint32_t place, short how) noexcept {
    struct flock made {};
    made.l_type = how;
    made.l_whence = SEEK_SET;
    made.l_start = static_cast<off_t>(place);
    made.l_len = 1;
    return made;
}

bool set_lock(const persist::file& file, std::uint32_t place, short how) noexcept {
    struct flock wanted = byte_of_turns(place, how);
    return ::fcntl(file.native_handle(), F_OFD_SETLK, &wanted) == 0;
}

/// How another open file has the byte locked; F_UNLCK: not at all.
short lock_of_others(const persist::file& file, std::uint32_t place) noexcept {
    struct flock question = byte_of_turns(place, F_WRLCK);
    return ::fcntl(file.native_handle(), F_OFD_GETLK, &question) == 0 ? question.l_type : static_cast<short>(F_WRLCK);
}

}  // namespace

bool turn_locks::try_to_share() const noexcept { return set_lock(file_, sharing_byte, F_RDLCK); }
bool turn_locks::try_to_have_alone() const noexcept { return set_lock(file_, sharing_byte, F_WRLCK); }
void turn_locks::stop_sharing() const noexcept { set_lock(file_, sharing_byte, F_UNLCK); }
bool turn_locks::is_shared_by_others() const noexcept { return lock_of_others(file_, sharing_byte) != F_UNLCK; }
bool turn_locks::is_shared() const noexcept { return lock_of_others(file_, sharing_byte) == F_RDLCK; }
bool turn_locks::is_had_alone() const noexcept { return lock_of_others(file_, sharing_byte) == F_WRLCK; }

base::result<void> turn_locks::wait_in_line() const noexcept {
    struct flock wanted = byte_of_turns(line_byte, F_WRLCK);
    while (::fcntl(file_.native_handle(), F_OFD_SETLKW, &wanted) != 0) {
        if (const int os_error = errno; os_error != EINTR || base::interruption::is_wanted()) {
            return base::os_failure(os_error, "lock", file_.path());
        }
    }
    return {};
}
void turn_locks::leave_line() const noexcept { set_lock(file_, line_byte, F_UNLCK); }

/// Who believes a damaged word would leave commits of others out, and write over them in the log.
std::uint64_t turn_locks::mark_of(std::uint64_t who) const noexcept {
    constexpr std::uint64_t of_version = 0x9e37'79b9'7f4a'7c15;
    constexpr std::uint64_t of_name = 0xd6e8'feb8'6659'fd93;
    return persist::this_boot() ^ table_.durable.load(std::memory_order_seq_cst) * of_version ^ who * of_name;
}

std::uint64_t turn_locks::left_by() const noexcept {
    const std::uint64_t who = table_.left_by.load(std::memory_order_acquire);
    return table_.left_mark.load(std::memory_order_relaxed) == mark_of(who) ? who : 0;
}
void turn_locks::set_left_by(std::uint64_t who) const noexcept {
    const std::uint64_t said = persist::this_boot() == 0 ? 0 : who;
    table_.left_mark.store(mark_of(said), std::memory_order_relaxed);
    table_.left_by.store(said, std::memory_order_release);
    // A reader that takes its slot, and then finds that nobody has the turn, is found by who has the next one.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
void turn_locks::set_session(std::uint64_t session) const noexcept {
    table_.session.store(session, std::memory_order_release);
}

}  // namespace holdfast::segment
