#include "store/engine.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <time.h>

#include "store/block.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store_engine {
namespace {

// A forced sync of less log than this syncs the log alone.
constexpr std::uint64_t least_log_at_rest = std::uint64_t{256} << 10U;

// With the sync turn. The end of the log may be ahead of the last published commit, and what lies there may be synced.
status publish_what_is_whole(stored_pages& of, const meta_on_media& meta) {
    shared_header& header = of.shared().header();
    const std::uint64_t written = header.written.load();
    log::mark end{.sequence = meta.transaction};
    log_record record;
    while (read_record(of.log_bytes(), end, of.own_log_key(), record)) {
        end = record.end;
        if (end.sequence > written) {
            of.shared().set_root(
                {.transaction = end.sequence, .main = record.head.main, .next_page = record.head.next_page});
        }
    }
    if (end.sequence < written) {
        return status::corrupted;
    }
    header.log_end.store(end.position);
    header.log_checksum.store(end.checksum);
    header.log_synced.store(std::min(header.log_synced.load(), end.position));
    header.written.store(end.sequence, std::memory_order_release);
    return status::ok;
}

// A full store whose limit alone is in the way may be larger for the time of a transaction that copies more pages than
// are held back: what they are copies of is free behind its commit, unless a reader keeps it. Without a lock file
// nobody knows who reads.
bool may_exceed(const stored_pages& of, const write_set& changes, std::uint32_t count) {
    return changes.frees_space && !changes.stays_within && changes.bound == 0 && count == 1 && !of.reads_metas() &&
           !of.shared().is_read();
}

}  // namespace

root engine::enter(reader_slot& slot) {
    if (pages_.reads_metas()) {
        static_cast<void>(take_in_metas());  // else the last that was read
    } else if (pages_.is_overlay() && pages_.shared().header().unreplayed.load(std::memory_order_acquire) == 0) {
        end_overlay();
    }
    notice_deaths();
    return pages_.shared().enter(slot);
}

// Asks the system at most once in a tick of the clock, and once for each commit that is not durable yet; never where
// this process alone writes.
void engine::notice_deaths() noexcept {
    shared_header& header = pages_.shared().header();
    const std::uint64_t written = header.written.load(std::memory_order_acquire);
    const bool is_waiting = header.durable.load(std::memory_order_acquire) < written &&
                            header.committer.load(std::memory_order_relaxed) != pages_.shared().number();
    const bool is_writing = pages_.shared().writer().is_of_others();
    if ((!is_waiting && !is_writing && header.died.load(std::memory_order_relaxed) == 0) ||
        pages_.shared().is_private()) {
        return;
    }
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const std::int64_t tick = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    const bool is_new = asked_at_.load(std::memory_order_relaxed) != tick;
    const bool is_other = is_waiting && asked_of_.load(std::memory_order_relaxed) != written;
    if (header.panic.load() != 0 || !(is_new || is_other)) {
        return;
    }
    asked_at_.store(tick, std::memory_order_relaxed);
    asked_of_.store(written, std::memory_order_relaxed);
    if (is_waiting) {
        static_cast<void>(sync_for_a_dead());  // where it fails, nobody writes any more
    }
    if (is_new && (header.died.load() != 0 || pages_.shared().writer().is_left_by_a_dead())) {
        shared_lock lock;
        write_set changes;
        try {
            if (begin_write(lock, changes, lock_mode::tries) == status::ok) {
                roll_back(changes, lock);
            }
        } catch (const std::bad_alloc&) {
            free_.forget();  // the next who looks does it
        }
    }
}

// With or without the write lock: a commit whose process died in its sync.
status engine::sync_for_a_dead() {
    const shared_header& header = pages_.shared().header();
    const std::uint64_t written = header.written.load(std::memory_order_acquire);
    if (header.durable.load(std::memory_order_acquire) >= written || pages_.shared().is_private() ||
        pages_.shared().is_alive(header.committer.load(std::memory_order_relaxed))) {
        return status::ok;
    }
    return commits_.sync_log(written);
}

status engine::begin_write(shared_lock& lock, write_set& changes, lock_mode mode) {
    shared_header& header = pages_.shared().header();
    if (header.panic.load() != 0 || pages_.shared().is_of_parent()) {
        return status::panic;
    }
    bool died = false;
    HF_STORE_TRY(lock.lock(pages_.shared().writer(), died, mode));
    if (died) {
        header.died.store(1);  // until it is mended, whoever writes next
    }
    status outcome = pages_.reach_last_commit();
    if (outcome == status::ok && pages_.reads_metas()) {
        outcome = take_in_metas();
    }
    if (outcome == status::ok && header.died.load() != 0) {
        outcome = after_a_death();
    } else if (outcome == status::ok) {
        outcome = sync_for_a_dead();
    }
    if (outcome == status::ok && header.written.load() - header.durable.load() >= root_slots / 2) {
        outcome = commits_.sync_log(header.written.load());  // so many wait that a version in use might be overwritten
    }
    if (outcome == status::ok) {
        outcome = take_in();
    }
    if (outcome == status::ok && !pages_.options().read_only) {  // who may only read may begin, to check the store
        outcome = secure_what_was_found();
    }
    changes.clear();
    if (outcome == status::ok && !pages_.shared().get_root(header.written.load(), changes.version)) {
        outcome = status::panic;
    }
    if (outcome != status::ok) {
        free_.forget();
        lock.unlock();
        return outcome;
    }
    ++changes.version.transaction;
    return status::ok;
}

// The last checkpoint is durable before the records of the one before are written over.
status engine::secure_what_was_found() {
    const shared_header& header = pages_.shared().header();
    if (pages_.must_be_durable() && header.unsynced.load() != 0) {
        HF_STORE_TRY(commits_.sync_log(header.written.load()));
    }
    return header.log_epoch.load() != 0 ? status::ok : commits_.begin_epoch();
}

// Brings what this process knows of free pages to the last commit of any process.
status engine::take_in() {
    shared_header& header = pages_.shared().header();
    const std::uint64_t written = header.written.load(std::memory_order_acquire);
    const std::uint64_t sequence = header.checkpoint_sequence.load(std::memory_order_relaxed);
    pages_.file().set_pages(header.file_pages.load(std::memory_order_relaxed));
    if (free_.is_forgotten() || free_.checkpoint != sequence) {
        HF_STORE_TRY(free_.load(pages_));
    }
    while (free_.end.sequence < written) {
        log_record record;
        if (!read_record(pages_.log_bytes(), free_.end, pages_.own_log_key(), record)) {
            return status::corrupted;
        }
        HF_STORE_TRY(free_.apply(pages_, record));
        free_.end = record.end;
    }
    commits_.release_pages();
    return status::ok;
}

// The owner of the write lock died. What a recovery would find counts: a checkpoint whose meta lies there, and a record
// that is whole. Other pages that it wrote belong to no version.
status engine::after_a_death() {
    shared_header& header = pages_.shared().header();
    free_.forget();
    header.log_epoch.store(0);  // it may have left a part of a record
    meta_on_media meta{};
    HF_STORE_TRY(pages_.read_meta(meta));
    sync_turn turn = pages_.shared().turn_to_sync();
    HF_STORE_TRY(turn.take());
    // It may have died while it made the meta known: the transaction comes last.
    if (meta.sequence != header.checkpoint_sequence.load() || meta.transaction > header.written.load()) {
        HF_STORE_TRY(commits_.write_metas_again());
        HF_STORE_TRY(pages_.shared().announce([&] { return pages_.file().sync_all("store.death.sync"); }));
        pages_.adopt(meta);
    } else {
        HF_STORE_TRY(publish_what_is_whole(pages_, meta));
        HF_STORE_TRY(commits_.sync_log_now());
    }
    root last{};
    // The dead one may have made holes behind the last page.
    header.file_pages.store(pages_.shared().get_root(header.written.load(), last) ? last.next_page : meta.next_page);
    if (header.durable.load() == header.written.load()) {  // else a writer goes on with it
        header.died.store(0);
    }
    return pages_.reach_last_commit();
}

status engine::allocate(write_set& changes, std::uint32_t count, std::uint64_t base, std::uint64_t& page) {
    // First: no page is lost if memory for it runs out.
    if (changes.dirty.size() == changes.dirty.capacity()) {
        changes.dirty.reserve(2 * changes.dirty.size() + 16);
    }
    if (changes.taken.size() == changes.taken.capacity()) {
        changes.taken.reserve(2 * changes.taken.size() + 16);
    }
    if (count == 1 && !changes.loose.empty()) {
        page = changes.loose.back();
        changes.loose.pop_back();
    } else {
        status outcome = take_new(changes, count, page);
        if (is_no_room(outcome) && commits_.checkpoint_for_room(changes) == status::ok) {
            outcome = take_new(changes, count, page);
        }
        if (outcome == status::map_full && may_exceed(pages_, changes, count)) {
            changes.bound = pages_.limit_pages();
            outcome = take_new(changes, count, page);
        }
        HF_STORE_TRY(outcome);
    }
    pages_.checked().add(page);
    pages_.checked().remove(page + 1, count - 1);
    page_header& header = *pages_.file().writable_page(page);
    header.birth = changes.version.transaction;
    header.checksum = static_cast<std::uint32_t>(changes.dirty.size());
    header.run_pages = count;
    changes.dirty.push_back({.page = page, .base = base, .pages = count, .live = true});
    return status::ok;
}

status engine::take_new(write_set& changes, std::uint32_t count, std::uint64_t& page) {
    const std::uint64_t end = changes.version.next_page;
    const claim by{.kind = changes.frees_space ? claim_kind::frees : claim_kind::grows,
                   .freed = changes.freed_pages,
                   .bound = count == 1 ? changes.bound : 0};
    // Where one cannot be stored to, others may.
    constexpr int most_attempts = 64;
    for (int attempt = 1;; ++attempt) {
        HF_STORE_TRY(commits_.take_pages(changes.version, count, page, by));
        const status outcome = commits_.make_storable(page, count);
        if (outcome == status::ok) {
            break;
        }
        if (page < end) {
            free_.space.add_ready(page, count);
        } else {
            changes.version.next_page = end;
        }
        HF_STORE_TRY(count == 1 && is_no_room(outcome) && attempt < most_attempts ? status::ok : outcome);
    }
    changes.taken_pages += count;
    if (page < end) {
        changes.taken.push_back({.start = page, .count = count});
    }
    return status::ok;
}

status engine::commit(write_set& changes, shared_lock& lock) {
    HF_STORE_TRY(commits_.has_room_for(changes));
    excess_.note(changes);
    commits_.finish_pages(changes);
    bool fits = false;
    HF_STORE_TRY(commits_.append(changes, fits));
    if (!fits) {
        const status outcome = commits_.checkpoint(changes, {});
        lock.unlock();
        changes.clear();
        return outcome;
    }
    const std::uint64_t transaction = changes.version.transaction;
    if (pages_.options().no_sync) {
        pages_.raise_durable(transaction);
    }
    lock.unlock();  // others may commit during the sync, and share it
    changes.clear();
    return pages_.options().no_sync ? status::ok : commits_.sync_log(transaction);
}

void engine::roll_back(write_set& changes, shared_lock& lock) noexcept {
    if (lock.owns()) {
        // Pages at the end of the file are simply not used.
        for (const extent_on_media& extent : changes.taken) {
            free_.space.add_ready(extent.start, extent.count);
        }
        lock.unlock();
        const std::uint64_t seen = changes.version.transaction - 1;
        if (pages_.shared().header().durable.load(std::memory_order_acquire) < seen && !pages_.shared().is_private() &&
            commits_.sync_log(seen) != status::ok) {
            has_lost_.store(true);
        }
    }
    changes.clear();
}

status engine::sync(bool force) {
    shared_header& header = pages_.shared().header();
    if (pages_.options().read_only) {
        return status::access_denied;
    }
    if (pages_.shared().is_of_parent()) {
        return status::panic;
    }
    if (pages_.options().no_sync && !force) {
        return status::ok;
    }
    if (pages_.options().no_sync && header.log_end.load() >= least_log_at_rest && !pages_.reads_metas()) {
        const status outcome = checkpoint_now({.purpose = checkpoint_purpose::rest, .durable = true}, lock_mode::tries);
        if (outcome == status::ok || header.panic.load() != 0) {
            return outcome;
        }
        // A transaction writes, or there is no space: a sync of the log needs neither.
    }
    return commits_.sync_log(header.written.load());
}

status engine::checkpoint_now(committer::checkpoint_kind kind, lock_mode mode) {
    shared_lock lock;
    write_set changes;
    HF_STORE_TRY(begin_write(lock, changes, mode));
    // The version stays as it was committed.
    --changes.version.transaction;
    const std::uint64_t most = kind.purpose == checkpoint_purpose::end ? least_log_pages : busy_log_pages;
    if (kind.purpose != checkpoint_purpose::shorter && pages_.shared().header().log_end.load() == 0 &&
        pages_.shared().header().log_pages.load() <= most * pages_.log_parts()) {
        if (kind.purpose == checkpoint_purpose::end) {  // else others would not know which pages lose their blocks
            commits_.give_space_back(changes.version.next_page, true);
        }
        return status::ok;
    }
    return commits_.checkpoint(changes, kind);
}

}  // namespace holdfast::store_engine
