#include "store/engine.hpp"

#include <algorithm>
#include <cstring>

#include "store/block.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store_engine {
namespace {

// A forced sync of less log than this syncs the log alone.
constexpr std::uint64_t least_settled_log = std::uint64_t{256} << 10U;

}  // namespace

root engine::enter(reader_slot& slot) {
    if (reads_metas()) {
        static_cast<void>(take_in_metas());  // else the last that was read
    } else if (overlay_ && shared_.header().unreplayed.load(std::memory_order_acquire) == 0) {
        end_overlay();
    }
    return shared_.enter(slot);
}

status engine::begin_write(shared_lock& lock, write_set& changes, lock_mode mode) {
    shared_header& header = shared_.header();
    if (header.panic.load() != 0 || shared_.is_of_parent()) {
        return status::panic;
    }
    bool died = false;
    HF_STORE_TRY(lock.lock(header.writer, died, mode));
    if (died) {
        header.died.store(1);  // until it is mended, whoever writes next
    }
    status outcome = status::ok;
    root last{};
    if (shared_.get_root(header.written.load(), last) && extend_addresses(last.next_page) != status::ok) {
        outcome = status::map_resized;
    } else if (header.written.load() - header.durable.load() >= root_slots / 2) {
        outcome = sync_log(header.written.load());  // so many wait that a version in use might be overwritten
    }
    if (outcome == status::ok && reads_metas()) {
        outcome = take_in_metas();
    }
    if (outcome == status::ok) {
        outcome = take_in();
    }
    if (outcome == status::ok && !options_.read_only) {  // who may only read may begin, to check the store
        outcome = secure_what_was_found();
    }
    changes.clear();
    if (outcome == status::ok && !shared_.get_root(header.written.load(), changes.version)) {
        outcome = status::panic;
    }
    if (outcome != status::ok) {
        free_transaction_ = no_transaction;
        lock.unlock();
        return outcome;
    }
    ++changes.version.transaction;
    return status::ok;
}

// The last checkpoint is durable before the records of the one before are written over.
status engine::secure_what_was_found() {
    shared_header& header = shared_.header();
    const auto sync_if_needed = [&] {
        return must_be_durable() && header.unsynced.load() != 0 ? sync_log(header.written.load()) : status::ok;
    };
    HF_STORE_TRY(sync_if_needed());
    if (header.unscanned.load() != 0) {
        void_lost_records();
        HF_STORE_TRY(sync_if_needed());
        header.unscanned.store(0);
    }
    return status::ok;
}

// Brings what this process knows of free pages to the last commit of any process.
status engine::take_in() {
    shared_header& header = shared_.header();
    if (header.died.load() != 0) {
        free_transaction_ = no_transaction;
        HF_STORE_TRY(after_a_death());
        header.died.store(0);
    }
    const std::uint64_t written = header.written.load(std::memory_order_acquire);
    const std::uint64_t sequence = header.checkpoint_sequence.load(std::memory_order_relaxed);
    file_.set_pages(header.file_pages.load(std::memory_order_relaxed));
    if (free_transaction_ == no_transaction || free_sequence_ != sequence) {
        HF_STORE_TRY(load_free_list());
    }
    while (free_transaction_ < written) {
        log_record record;
        if (!read_record(log_bytes(), free_offset_, log_seed(), free_transaction_ + 1, record)) {
            return status::corrupted;
        }
        HF_STORE_TRY(apply(record));
        free_offset_ += record.head.size;
        free_transaction_ = record.head.transaction;
    }
    release_pages();
    return status::ok;
}

// The owner of the write lock died. What it had not published is void: pages that it wrote belong to no version. Only a
// checkpoint whose meta lies there already counts: a recovery would begin with it.
status engine::after_a_death() {
    shared_header& header = shared_.header();
    meta_on_media meta{};
    HF_STORE_TRY(read_meta(meta));
    root last{};
    // The dead one may have made holes behind the last page.
    header.file_pages.store(shared_.get_root(header.written.load(), last) ? last.next_page : meta.next_page);
    // It may have died while it made the meta known: the transaction comes last.
    if (meta.sequence != header.checkpoint_sequence.load() || meta.transaction > header.written.load()) {
        sync_turn turn(header);
        HF_STORE_TRY(turn.take());
        HF_STORE_TRY(write_metas_again());
        if (const status outcome = file_.sync_all(); outcome != status::ok) {
            return fail(outcome);
        }
        header.file_pages.store(meta.next_page);
        adopt(meta);
        return status::ok;
    }
    // The end of the log may be ahead of the last published commit, and what lies there may be synced.
    sync_turn turn(header);
    HF_STORE_TRY(turn.take());
    std::uint64_t offset = 0;
    log_record record;
    for (std::uint64_t at = meta.transaction; at < header.written.load(); ++at) {
        if (!read_record(log_bytes(), offset, log_seed(), at + 1, record)) {
            return status::corrupted;
        }
        offset += record.head.size;
    }
    header.log_end.store(offset);
    header.log_synced.store(std::min(header.log_synced.load(), offset));
    return status::ok;
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
        if (is_no_room(outcome) && checkpoint_for_room(changes) == status::ok) {
            outcome = take_new(changes, count, page);
        }
        HF_STORE_TRY(outcome);
    }
    set_verified(page);
    set_unverified(page + 1, count - 1);
    page_header& header = *file_.writable_page(page);
    header.birth = changes.version.transaction;
    header.checksum = static_cast<std::uint32_t>(changes.dirty.size());
    header.run_pages = count;
    changes.dirty.push_back({.page = page, .base = base, .pages = count, .live = true});
    return status::ok;
}

status engine::take_new(write_set& changes, std::uint32_t count, std::uint64_t& page) {
    const std::uint64_t end = changes.version.next_page;
    const claim_kind claim = changes.frees_space ? claim_kind::frees : claim_kind::grows;
    HF_STORE_TRY(take_pages(changes.version, count, page, claim, changes.freed_pages));
    changes.taken_pages += count;
    if (page < end) {
        changes.taken.push_back({.start = page, .count = count});
    }
    return status::ok;
}

status engine::commit(write_set& changes, shared_lock& lock) {
    HF_STORE_TRY(has_room_for(changes));
    finish_pages(changes);
    if (!append(changes)) {
        const status outcome = checkpoint(changes, {});
        lock.unlock();
        changes.clear();
        return outcome;
    }
    const std::uint64_t transaction = changes.version.transaction;
    if (options_.no_sync) {
        raise_durable(transaction);
    }
    lock.unlock();  // others may commit during the sync, and share it
    changes.clear();
    return options_.no_sync ? status::ok : sync_log(transaction);
}

void engine::roll_back(write_set& changes, shared_lock& lock) noexcept {
    if (lock.owns()) {
        // Pages at the end of the file are simply not used.
        for (const extent_on_media& extent : changes.taken) {
            free_.add_ready(extent.start, extent.count);
        }
        lock.unlock();
    }
    changes.clear();
}

status engine::sync(bool force) {
    shared_header& header = shared_.header();
    if (options_.read_only) {
        return status::access_denied;
    }
    if (shared_.is_of_parent()) {
        return status::panic;
    }
    if (options_.no_sync && !force) {
        return status::ok;
    }
    if (options_.no_sync && header.log_end.load() >= least_settled_log && !reads_metas()) {
        const status outcome = checkpoint_now({.purpose = checkpoint_purpose::rest, .durable = true}, lock_mode::tries);
        if (outcome == status::ok || header.panic.load() != 0) {
            return outcome;
        }
        // A transaction writes, or there is no space: a sync of the log needs neither.
    }
    return sync_log(header.written.load());
}

status engine::checkpoint_now(checkpoint_kind kind, lock_mode mode) {
    shared_lock lock;
    write_set changes;
    HF_STORE_TRY(begin_write(lock, changes, mode));
    // The version stays as it was committed.
    --changes.version.transaction;
    const std::uint64_t most = kind.purpose == checkpoint_purpose::end ? least_log_pages : busy_log_pages;
    if (shared_.header().log_end.load() == 0 && shared_.header().log_pages.load() <= most * log_parts()) {
        give_space_back(changes.version.next_page, true);
        return status::ok;
    }
    return checkpoint(changes, kind);
}

}  // namespace holdfast::store_engine
