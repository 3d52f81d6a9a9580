#include "segment/commit/heap_superblock.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "segment/commit/commit_steps.hpp"

namespace holdfast::segment {

base::result<const superblock_on_media*> superblock_reader::newest(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(std::string there, storage.identity(paths.superblock()));
    if (file_ == nullptr || there != identity_) {
        is_seen_ = false;
        HF_TRY_ASSIGN(file_, storage.open(paths.superblock(), persist::access_mode::read_only));
        read_ = read_ == nullptr ? std::make_unique<buffers>() : std::move(read_);
        identity_ = std::move(there);
    }
    HF_TRY(file_->read_at(0, read_->now));
    if (is_seen_ && std::memcmp(read_->now.data(), read_->seen.data(), read_->now.size()) == 0) {
        return &read_->newest;
    }
    is_seen_ = false;
    HF_TRY_ASSIGN(const superblock_copies_read copies, read_superblocks(*file_));
    const superblock_on_media* const found = copies.newest();
    if (found == nullptr) {
        return found;
    }
    read_->newest = *found;
    read_->seen = read_->now;
    is_seen_ = true;
    return &read_->newest;
}

namespace {

std::int64_t wall_clock_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

void heap_superblock::set(const superblock_on_media& said) noexcept {
    const base::scoped_lock lock(mutex_);
    now_ = said;
}

void heap_superblock::set_recovered(const superblock_on_media& found, bool crashed) noexcept {
    set(found);
    recovered_ = crashed;
    on_media_ = true;
}

void heap_superblock::set_frontier(base::pages frontier) noexcept {
    const base::scoped_lock lock(mutex_);
    now_.frontier = base::to_bytes(frontier);
}

void heap_superblock::set_base_address(const std::byte* address) noexcept {
    const base::scoped_lock lock(mutex_);
    now_.base_address = reinterpret_cast<std::uint64_t>(address);
}

base::result<void> heap_superblock::write(heap_state state, change by) { return write(state, by, true); }

base::result<void> heap_superblock::write_size(change by) {
    return write(heap_state::running, by, location_.syncs_growth());
}

base::result<void> heap_superblock::write(heap_state state, change by, bool durable) {
    HF_TRY(location_.check_process());
    const base::scoped_lock lock(mutex_);
    const auto next = std::make_unique<superblock_on_media>(now_);  // too long for a small stack
    by(*next);
    HF_TRY(write_state(location_.storage(), location_.paths(), *next, state, durable));
    replace_what_differs(now_, *next);
    return {};
}

base::result<void> heap_superblock::mark_running() {
    const base::scoped_lock lock(mutex_);
    if (!on_media_ || now_.state == heap_state::running) {
        return {};
    }
    HF_TRY(location_.check_process());  // the parent may have committed since
    const auto next = std::make_unique<superblock_on_media>(now_);
    if (!location_.shared()) {
        log_.begin_session(*next);
        // On a full disk the session goes on without a reserve.
        if (log_.reserve(location_.storage(), location_.paths(), *next, base::pages_for(now_.frontier))) {
            next->flags |= flag_log;
        }
    }
    HF_TRY(write_state(location_.storage(), location_.paths(), *next, heap_state::running));
    replace_what_differs(now_, *next);
    return {};
}

base::result<void> heap_superblock::reserve_log(base::pages frontier) {
    const base::scoped_lock lock(mutex_);
    return log_.reserve(location_.storage(), location_.paths(), now_, frontier, log::file_content::later);
}

base::result<void> heap_superblock::begin_session(const std::byte* base_address, change by) {
    HF_TRY(write(heap_state::running, [&](superblock_on_media& next) {
        next.flags |= flag_stale_checksums;
        next.base_address = reinterpret_cast<std::uint64_t>(base_address);
        next.recoveries += recovered_ ? 1 : 0;
        by(next);
    }));
    recovery_counted_ = true;
    return {};
}

superblock_on_media heap_superblock::next(const std::byte* base_address, base::pages frontier,
                                          std::uint64_t objects_size) const {
    superblock_on_media next = now_;
    ++next.sequence;
    next.base_address = reinterpret_cast<std::uint64_t>(base_address);
    next.frontier = base::to_bytes(frontier);
    next.objects_size = objects_size;
    next.state = heap_state::running;
    next.committed_ns = wall_clock_ns();
    next.recoveries += recovered_ && !recovery_counted_ ? 1 : 0;
    seal(next);
    return next;
}

void heap_superblock::adopt(const superblock_on_media& committed) noexcept {
    const base::scoped_lock lock(mutex_);
    const log::mark begin = now_.log_begin;
    const std::uint64_t file_size = now_.log_file_size;
    const std::uint32_t has_log = now_.flags & flag_log;
    now_ = committed;
    now_.log_begin = begin;
    now_.log_file_size = file_size;
    now_.flags = (now_.flags & ~flag_log) | has_log;
    recovery_counted_ = true;
}

base::result<void> heap_superblock::maintain_log() {
    // Where the disk is short of space, the log gives back what a large commit took.
    const bool needs_space =
        log_.bytes() >= now_.log_file_size && location_.is_space_short(base::pages_for(log_.bytes()));
    try {
        return log_.maintain(location_.storage(), location_.paths(), now_, needs_space);
    } catch (const std::bad_alloc&) {
        return {};  // the commit before is in the log, and a later one tries again
    }
}

base::result<void> heap_superblock::checkpoint() {
    return log_.is_empty() ? base::result<void>() : log_.checkpoint(location_.storage(), location_.paths(), now_);
}

base::result<void> heap_superblock::end_log() {
    HF_TRY(log_.end(location_.storage(), location_.paths(), now_, now_.state));
    if (now_.state == heap_state::running && !log_.lag().is_on()) {
        // The session goes on as it began: with room for commits that only free, where the disk has any.
        log_.begin_session(now_);
        static_cast<void>(
            log_.reserve(location_.storage(), location_.paths(), now_, base::pages_for(now_.frontier)).ok());
    }
    return {};
}

base::result<void> heap_superblock::close_cleanly() {
    return segment::close_cleanly(location_.storage(), location_.paths(), log_, now_);
}

base::result<void> heap_superblock::check_whether_copied() {
    HF_TRY_ASSIGN(file_identity_, location_.storage().file_identity(location_.paths().superblock()));
    copied_ = now_.file_identity != file_identity_;
    return {};
}

base::result<void> heap_superblock::end_copy() {
    HF_TRY(write(now_.state, [this](superblock_on_media& next) { next.file_identity = file_identity_; }));
    copied_ = false;
    return {};
}

}  // namespace holdfast::segment
