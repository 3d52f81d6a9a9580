#include "store/committer.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "store/block.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store_engine {
namespace {

// While a store is written, its log is as large as all else in it, within these bounds: a checkpoint writes each page
// once, however often it changed. Without syncs the log stays: checkpoints cost little, and free pages soon. A store
// that settles has a short log again.
constexpr std::uint64_t most_log_pages = 4096;
// A call writes records from here on, stores shorter ones.
constexpr std::size_t least_written_record = std::size_t{16} << 10U;
// Free pages in a row that are worth a hole, which changes the file system's tables; and where much of a store that
// settles is free.
constexpr std::uint64_t least_hole = 16;
constexpr std::uint64_t least_settled_hole = 8;
// Free pages that keep their blocks for the next commits, at least.
constexpr std::uint64_t least_kept = 1024;

}  // namespace

status committer::fail(status what) noexcept {
    shared_.header().panic.store(1);
    return what;
}

void committer::finish_pages(write_set& changes) const noexcept {
    for (const dirty_page& dirty : changes.dirty) {
        if (dirty.live) {
            page_header& page = *file_.writable_page(dirty.page);
            if (dirty.base == 0 && page.block.kind != page_kind::run) {
                clear_unused(page.block);  // as a recovery leaves it: later records are differences
            }
            page.checksum = page_checksum(page, dirty.page);
        }
    }
    for (freed_extent_on_media& freed : changes.freed) {
        freed.died = changes.version.transaction;
    }
}

// What a commit does to free space; pages taken are gone from it already.
void committer::apply_own(const write_set& changes) {
    for (const std::uint64_t page : changes.loose) {
        free_.add_ready(page, 1);
    }
    for (const freed_extent_on_media& freed : changes.freed) {
        free_.add_freed(freed);
    }
}

// Writes the record behind the last one, where the next writer then begins. False: it does not fit. Memory is allocated
// first: a recovery takes for a commit what lies there.
bool committer::append(write_set& changes) {
    shared_header& header = shared_.header();
    if (reads_metas()) {
        return false;  // other processes look for the last commit in the metas
    }
    if (changes.has_long_keys && !may_have_long_keys()) {
        return false;  // a checkpoint raises the store's version
    }
    const std::uint64_t offset = header.log_end.load(std::memory_order_relaxed);
    const log_area log = own_log();
    const std::uint64_t capacity = log.pages * page_size;
    if (!encode_commit(changes, file_, capacity - offset, record_)) {
        return false;
    }
    seal_record(record_, log_seed(), offset);
    free_transaction_ = no_transaction;
    apply_own(changes);
    // One call writes many pages for less than the faults cost that their first stores after a sync take.
    if (record_.size() < least_written_record ||
        file_.write(log.page * page_size + offset, record_.data(), record_.size()) != status::ok) {
        std::memcpy(reinterpret_cast<std::byte*>(file_.writable_page(log.page)) + offset, record_.data(),
                    record_.size());
    }
    shared_.set_root(changes.version);
    header.committer.store(shared_.number(), std::memory_order_relaxed);
    header.log_end.store(offset + record_.size(), std::memory_order_release);
    header.written.store(changes.version.transaction, std::memory_order_release);
    free_transaction_ = changes.version.transaction;
    free_offset_ = offset + record_.size();
    return true;
}

bool committer::is_synced(std::uint64_t transaction) const noexcept {
    const shared_header& header = shared_.header();
    return header.synced.load(std::memory_order_acquire) >= transaction && header.unsynced.load() == 0;
}

// One thread syncs, for all who wait, what was written before it begins.
status committer::sync_log(std::uint64_t transaction) {
    shared_header& header = shared_.header();
    sync_turn turn = shared_.turn_to_sync();
    HF_STORE_TRY(turn.take_unless([&] { return is_synced(transaction); },
                                  [&] { return header.panic.load() != 0 ? status::panic : status::ok; }));
    if (!is_synced(transaction)) {
        return sync_log_now();
    }
    raise_durable(transaction);  // who synced it may have died before
    return status::ok;
}

// With the turn.
status committer::sync_log_now() {
    shared_header& header = shared_.header();
    if (header.panic.load() != 0) {
        return status::panic;
    }
    const std::uint64_t written = header.written.load(std::memory_order_acquire);
    const std::uint64_t end = header.log_end.load(std::memory_order_acquire);
    const std::uint64_t begin = header.log_synced.load();
    status outcome = status::ok;
    if (header.unsynced.load() != 0) {
        HF_STORE_TRY(write_metas_again());
        outcome = file_.sync_all();
    } else if (begin < end) {
        outcome = overlay_ ? file_.sync_all() : file_.sync_range(own_log().page * page_size + begin, end - begin);
    }
    if (outcome != status::ok) {
        return fail(outcome);
    }
    if (!options_.read_only) {  // else the metas were not written again
        header.unsynced.store(0);
        header.unpromised.store(0);
    }
    header.log_synced.store(end);
    header.synced.store(written, std::memory_order_release);
    raise_durable(written);
    return status::ok;
}

// With the turn. What is believed of a checkpoint must be on the medium, also where its sync failed and the store was
// opened again. Not without a lock file: other processes may write metas.
status committer::write_metas_again() const noexcept {
    if (options_.read_only || reads_metas()) {
        return status::ok;
    }
    for (std::uint64_t page = 0; page < meta_pages; ++page) {
        HF_STORE_TRY(file_.write_again(page * page_size, sizeof(meta_on_media)));
    }
    return status::ok;
}

// A loss of power may leave a record on the medium, and none of the one before. If a commit then wrote that one anew,
// as long as it was, the next recovery would go on with what lies behind it. Called before the first commit, when the
// checkpoint is durable: what lies behind its records is void.
void committer::void_lost_records() noexcept {
    shared_header& header = shared_.header();
    const std::span<const std::byte> log = log_bytes();
    const std::uint64_t written = header.written.load();
    constexpr std::size_t head_size = sizeof(log_record_on_media);
    std::uint64_t left = 4 * log.size();  // bytes to be read; what exceeds them is void unseen
    for (std::uint64_t at = header.log_end.load(); at + head_size <= log.size(); at += 8) {
        log_record record;
        std::memcpy(&record.head, log.data() + at, head_size);
        const std::uint64_t size = record.head.size;
        const std::uint64_t transaction = record.head.transaction;
        if (transaction <= written || transaction - written > log.size() / head_size || size < head_size ||
            size > log.size() - at) {
            continue;
        }
        const bool is_known = size <= left;
        left -= is_known ? size : 0;
        if (is_known && !read_record(log, at, log_seed(), transaction, record)) {
            continue;
        }
        std::memset(reinterpret_cast<std::byte*>(file_.writable_page(own_log().page)) + at, 0, head_size);
        header.unsynced.store(1);
    }
}

// Under the writer's lock, and with the sync turn: the log is not synced while it begins anew.
status committer::checkpoint(write_set& changes, checkpoint_kind kind) {
    shared_header& header = shared_.header();
    free_transaction_ = no_transaction;  // until the end: a failure leaves free_ with a part of this
    sync_turn turn = shared_.turn_to_sync();
    HF_STORE_TRY(turn.take());
    if (header.panic.load() != 0) {
        return status::panic;
    }
    if (keeps_both_ && base_.sequence != header.checkpoint_sequence.load()) {
        return from_errno(EBUSY);  // it would write over one of two that may be needed
    }
    const bool durable = kind.durable || must_be_durable();
    shared_.clear_dead();  // a killed reader keeps no page from use
    apply_own(changes);
    root version = changes.version;
    meta_on_media meta{};
    meta.sequence = next_sequence();
    meta.transaction = version.transaction;
    meta.main = version.main;
    meta_on_media last{};
    HF_STORE_TRY(read_meta(last));
    meta.version = changes.has_long_keys ? std::max(store_version, last.version) : last.version;  // never lower
    if (const std::uint64_t cut = free_.cut(version.next_page); cut < version.next_page) {
        version.next_page = cut;  // what lies behind may have no blocks any more
        file_.set_pages(std::min(file_.pages(), cut));
        header.file_pages.store(file_.pages(), std::memory_order_relaxed);
    }
    HF_STORE_TRY(kind.settle ? shorten_log(version, meta) : renew_log(version, meta, durable));
    HF_STORE_TRY(write_free_list(version, meta));
    meta.next_page = version.next_page;
    if (durable) {
        if (const status outcome = file_.sync_all(); outcome != status::ok) {
            return fail(outcome);
        }
    }
    HF_STORE_TRY(write_meta(meta, durable));
    header.unsynced.store(durable ? 0 : 1);
    adopt(meta);
    if (durable) {
        header.unpromised.store(0);
        header.synced.store(meta.transaction, std::memory_order_release);
    }
    free_transaction_ = meta.transaction;
    free_sequence_ = meta.sequence;
    free_offset_ = 0;
    free_list_page_ = meta.free_list;
    free_list_pages_ = (meta.free_list_size + page_size - 1) / page_size;
    if (options_.in_heap) {
        raise_base();
    }
    give_space_back(version.next_page, kind.settle);
    return status::ok;
}

// A longer log makes checkpoints rarer.
status committer::renew_log(root& version, meta_on_media& meta, bool durable) {
    const shared_header& header = shared_.header();
    meta.log_page = header.log_page.load();
    meta.log_pages = header.log_pages.load();
    const std::uint64_t used = version.next_page - meta.log_pages - free_.ready_pages();
    const std::uint64_t wanted = std::clamp(used, least_log_pages, most_log_pages) * log_parts();
    if (wanted < 2 * meta.log_pages || !durable || reads_metas()) {
        return status::ok;
    }
    std::uint64_t start = 0;
    root enlarged = version;
    if (take_pages(enlarged, wanted, start) != status::ok) {
        return status::ok;  // a short log will do
    }
    set_unverified(start, wanted);
    // A sync of blocks that were written once changes no tables of the file system.
    const std::vector<std::byte> zeros(page_size * 64);
    for (std::uint64_t page = 0; page < wanted; page += 64) {
        const std::size_t size = std::min<std::uint64_t>(64, wanted - page) * page_size;
        HF_STORE_TRY(file_.write((start + page) * page_size, zeros.data(), size));
    }
    free_.add_freed({.start = meta.log_page, .count = meta.log_pages, .born = log_born(), .died = version.transaction});
    version = enlarged;
    meta.log_page = start;
    meta.log_pages = wanted;
    return status::ok;
}

status committer::shorten_log(const root& version, meta_on_media& meta) {
    const shared_header& header = shared_.header();
    meta.log_page = header.log_page.load();
    meta.log_pages = std::min(header.log_pages.load(), least_log_pages * log_parts());
    if (options_.in_heap && kept_.load() < version.transaction) {
        meta.log_pages = header.log_pages.load();  // the halves would move, and one of them counts
    }
    if (meta.log_pages < header.log_pages.load()) {
        free_.add_freed({.start = meta.log_page + meta.log_pages,
                         .count = header.log_pages.load() - meta.log_pages,
                         .born = log_born(),
                         .died = version.transaction});
    }
    return status::ok;
}

status committer::write_free_list(root& version, meta_on_media& meta) {
    if (free_list_pages_ != 0) {
        free_.add_freed({.start = free_list_page_,
                         .count = free_list_pages_,
                         .born = shared_.header().checkpoint_transaction.load(),
                         .died = version.transaction});
        free_list_pages_ = 0;
    }
    std::vector<std::byte> list;
    free_.serialise(list);
    // Taking pages makes the list no longer: they are the first of a run.
    const std::uint64_t pages = (list.size() + 2 * sizeof(extent_on_media) + page_size - 1) / page_size;
    HF_STORE_TRY(take_pages(version, pages, meta.free_list));
    free_.serialise(list);
    if (list.size() > pages * page_size) {
        return status::corrupted;
    }
    set_unverified(meta.free_list, pages);
    std::memcpy(file_.writable_page(meta.free_list), list.data(), list.size());
    meta.free_list_size = list.size();
    meta.free_list_checksum = bytes_checksum(list, meta.sequence);
    return status::ok;
}

// The version is set. A new one also goes to the checkpoint before, which no recovery needs any more but which would
// let an older program in.
status committer::write_meta(meta_on_media& meta, bool durable) {
    const auto put = [&](meta_on_media& one) {
        one.checksum = meta_checksum(one);
        const std::uint64_t page = one.sequence % meta_pages;
        std::memcpy(file_.writable_page(page), &one, sizeof(one));
        const status outcome = durable ? file_.sync_range(page * page_size, page_size) : status::ok;
        return outcome == status::ok ? outcome : fail(outcome);
    };
    meta.magic = store_magic;
    meta.page_bytes = page_size;
    meta.uuid = uuid();
    HF_STORE_TRY(put(meta));
    meta_on_media older{};
    std::memcpy(&older, file_.page((meta.sequence + 1) % meta_pages), sizeof(older));
    const bool is_valid = older.magic == store_magic && older.checksum == meta_checksum(older) &&
                          older.sequence % meta_pages == (meta.sequence + 1) % meta_pages;
    if (!is_valid || older.version >= meta.version) {
        return status::ok;
    }
    older.version = meta.version;
    return put(older);
}

// After a checkpoint: gives back free pages that no version sees, but for some that the next commits take. Not where
// the checkpoint before may be needed again: its list of free pages does not say which lose their blocks now.
void committer::give_space_back(std::uint64_t next_page, bool settle) noexcept {
    if (options_.in_heap && base_.sequence != shared_.header().checkpoint_sequence.load()) {
        return;
    }
    std::vector<extent_on_media> runs;
    try {
        release_pages();
        runs = free_.ready_runs();
    } catch (const std::bad_alloc&) {
        return;  // the next checkpoint tries again
    }
    std::uint64_t kept = 0;
    const std::uint64_t keep = settle ? 0 : std::max({least_kept, next_page / 32, 2 * taken_pages_});
    const bool much_free = free_.ready_pages() > next_page / 4;
    const std::uint64_t smallest = settle && much_free ? least_settled_hole : least_hole;
    taken_pages_ = 0;
    for (const extent_on_media& run : runs) {
        if (kept + run.count <= keep || run.count < smallest) {
            kept += run.count;
            continue;
        }
        if (free_.is_backed(run.start + run.count - 1) || free_.is_backed(run.start)) {
            file_.punch(run.start, run.count);
            free_.set_backed(run.start, run.count, false);
        }
    }
    if (settle || file_.pages() > next_page + keep) {
        file_.trim(next_page);
        shared_.header().file_pages.store(file_.pages(), std::memory_order_relaxed);
    }
}

bool committer::must_be_durable() const noexcept {
    return !options_.no_sync || (!in_memory_ && !reads_metas() && shared_.header().unpromised.load() == 0);
}

// Versions that may still be read: those of readers, all from the durable one on, which readers may yet enter, and
// those that a recovery begins with.
void committer::release_pages() {
    const std::uint64_t version_of_free = std::exchange(free_transaction_, no_transaction);  // in case memory runs out
    const shared_header& header = shared_.header();
    snapshots_.clear();
    snapshots_.push_back(header.checkpoint_transaction.load(std::memory_order_relaxed));
    if (options_.in_heap) {
        snapshots_.push_back(base_.transaction);
    }
    const std::uint64_t written = header.written.load(std::memory_order_relaxed);
    std::uint64_t durable = header.durable.load(std::memory_order_acquire);
    if (reads_metas() && durable == written && durable > 0) {
        --durable;  // readers without slots: the version before stays, as in LMDB
    }
    for (std::uint64_t version = durable; version < written; ++version) {
        snapshots_.push_back(version);
    }
    shared_.collect_snapshots(snapshots_);
    std::sort(snapshots_.begin(), snapshots_.end());
    snapshots_.erase(std::unique(snapshots_.begin(), snapshots_.end()), snapshots_.end());
    free_.release(snapshots_);
    free_transaction_ = version_of_free;
}

std::uint64_t committer::quota_pages() const noexcept {
    if (options_.limit == 0) {
        return file_.reserved_pages();
    }
    const std::uint64_t log_pages = shared_.header().log_pages.load(std::memory_order_relaxed);
    return std::min(options_.limit / page_size + log_pages + meta_pages, file_.reserved_pages());
}

status committer::grow(std::uint64_t next_page) {
    if (next_page > quota_pages()) {
        return status::map_full;
    }
    if (next_page > file_.pages()) {
        HF_STORE_TRY(file_.grow(next_page));
        shared_.header().file_pages.store(file_.pages(), std::memory_order_relaxed);
    }
    return status::ok;
}

status committer::take_pages(root& version, std::uint64_t count, std::uint64_t& start) {
    constexpr std::uint64_t most_at_once = 256;
    taken_pages_ += count;
    start = free_.take(count);
    if (start == 0) {
        HF_STORE_TRY(grow(version.next_page + count));
        start = version.next_page;
        version.next_page += count;
        return status::ok;
    }
    for (std::uint64_t page = start; page < start + count; ++page) {
        if (free_.is_backed(page)) {
            continue;
        }
        const std::uint64_t behind = free_.run_without_blocks(start + count, most_at_once);
        const std::uint64_t needed = start + count - page;
        if (file_.reserve(page, needed + behind) == status::ok) {
            free_.set_backed(page, needed + behind, true);
            break;
        }
        if (const status outcome = file_.reserve(page, needed); outcome != status::ok) {
            free_.set_backed(page, needed, false);  // tmpfs took back the blocks that some of them had
            free_.add_ready(start, count);
            return outcome;
        }
        free_.set_backed(page, needed, true);
        break;
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
