#include "store/committer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "store/block.hpp"
#include "store/outcome.hpp"
#include "store/page_checksum.hpp"
#include "store/write_back.hpp"

namespace holdfast::store_engine {
namespace {

// While a store is written, its log is as large as all else in it, within bounds: a checkpoint writes each page once,
// however often it changed. Without syncs it stays short: checkpoints cost little, and free pages soon. A store that
// comes to rest has a short log again.
constexpr std::uint64_t most_log_pages = 4096;
// A call writes records from here on, stores shorter ones.
constexpr std::size_t least_written_record = std::size_t{16} << 10U;
// From here on a record may cost more than a checkpoint does beside its pages.
constexpr std::size_t least_record_for_checkpoint = std::size_t{32} << 10U;
// A log that is written grows to so many pages, by this factor a checkpoint, also in a small store.
constexpr std::uint64_t log_growth = 8;
// In memory, a checkpoint costs less than fresh pages do; nor is a log longer than the store there.
constexpr std::uint64_t least_log_in_memory = 32;
// Where there is a limit, the log takes no larger part of it.
constexpr std::uint64_t log_part_of_limit = 32;

// After a death in a sync: pages that the records behind the checkpoint changed, and those of a transaction. A damaged
// log does not say which these are.
status write_pages_again(const stored_pages& of, const write_set& changes) {
    const data_file& file = of.file();
    const std::span<const std::byte> log = of.log_bytes();
    const std::uint64_t key = of.own_log_key();
    log::mark at{.sequence = of.shared().header().checkpoint_transaction.load()};
    const auto write = [&file](std::uint64_t page, std::uint64_t pages) {
        return file.write_again(page * page_size, pages * page_size, "store.pages.again");
    };
    for (log_record record; read_record(log, at, key, record); at = record.end) {
        page_change change;
        std::span<const std::byte> rest = record.pages;
        for (std::uint32_t left = record.head.page_count; left > 0 && next_page_change(rest, change); --left) {
            HF_STORE_TRY(write(change.head.page, change.head.pages));
        }
    }
    if (at.position < of.shared().header().log_end.load()) {
        return status::corrupted;
    }
    for (const dirty_page& dirty : changes.dirty) {
        HF_STORE_TRY(dirty.live ? write(dirty.page, dirty.pages) : status::ok);
    }
    return status::ok;
}

// Whether a store to pages in use is surely no signal: only who looked for holes knows that there is none.
bool is_storable(const committer& of, const stored_pages& pages, std::uint64_t offset, std::size_t size) noexcept {
    const std::uint64_t first = offset / page_size;
    const std::uint64_t count = (offset + size - 1) / page_size - first + 1;
    return pages.file().tells_holes() && !pages.reads_metas() && !of.may_lie_beside_holes(first, count);
}

// To pages in use. On persistent memory it stores, and calls the system only where that may be a signal.
status write_in_use(const committer& of, const stored_pages& pages, std::uint64_t offset,
                    std::span<const std::byte> bytes, persist::site where) noexcept {
    const data_file& file = pages.file();
    if (file.memory().is_there() && is_storable(of, pages, offset, bytes.size())) {
        file.memory().write(offset, bytes.data(), bytes.size(), where);
        return status::ok;
    }
    return file.write(offset, bytes.data(), bytes.size(), where);
}

// On persistent memory a checkpoint calls no system, and writes back each page of a long record once instead of twice.
bool is_as_long_as_pages(const stored_pages& of, std::span<const std::byte> record, const write_set& changes) noexcept {
    if (!of.file().memory().is_there() || of.options().in_heap || record.size() < least_record_for_checkpoint) {
        return false;
    }
    std::size_t bytes = 0;
    for (const dirty_page& dirty : changes.dirty) {
        bytes += dirty.live ? dirty.pages * page_size : 0;
    }
    // A checkpoint marks what it writes back in a bit for each page.
    return record.size() >= std::max<std::uint64_t>(bytes / 2, of.file().pages() / 8);
}

// One call writes many pages for less than the faults cost that their first stores after a sync take. Where a store
// would be a signal, a write need not fail: it asks for blocks of these pages alone.
status write_record(const committer& of, stored_pages& in, std::uint64_t offset, std::span<const std::byte> record) {
    data_file& file = in.file();
    const std::uint64_t first = offset / page_size;
    const std::uint64_t pages = (offset + record.size() - 1) / page_size - first + 1;
    const bool in_memory = file.memory().is_there();
    const auto write = [&] {
        HF_STORE_TRY(file.write(offset, record.data(), record.size(), "store.log.write", false));
        // Who makes the record durable, by instructions, may be another process, which knows of no call.
        const status synced = in_memory ? file.sync_all("store.log.call_sync") : status::ok;
        return synced == status::ok ? synced : in.stop_writing(synced);  // it is whole, and would count after a crash
    };
    const bool is_long = record.size() >= least_written_record && !in_memory;
    if (is_long && write() == status::ok) {
        return status::ok;
    }
    const bool asks = in_memory ? !is_storable(of, in, offset, record.size()) : of.may_lie_beside_holes(first, pages);
    const status outcome = asks ? file.make_storable(first, pages) : status::ok;
    if (outcome != status::ok) {
        return is_long ? outcome : write();
    }
    std::memcpy(reinterpret_cast<std::byte*>(file.writable_page(0)) + offset, record.data(), record.size());
    return status::ok;
}

}  // namespace

void committer::finish_pages(write_set& changes) const noexcept {
    for (const dirty_page& dirty : changes.dirty) {
        if (dirty.live) {
            page_header& page = *pages_.file().writable_page(dirty.page);
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
        free_.space.add_ready(page, 1);
    }
    for (const freed_extent_on_media& freed : changes.freed) {
        free_.space.add_freed(freed);
    }
}

// Writes the record behind the last one, where the next writer then begins. Memory is allocated first: a recovery takes
// for a commit what lies there.
status committer::append(write_set& changes, bool& fits) {
    shared_header& header = pages_.shared().header();
    fits = false;
    if (pages_.reads_metas()) {
        return status::ok;  // other processes look for the last commit in the metas
    }
    if (changes.has_long_keys && !pages_.may_have_long_keys()) {
        return status::ok;  // a checkpoint raises the store's version
    }
    if (pages_.own_limit() > header.map_size.load()) {
        return status::ok;  // a checkpoint keeps the map's size
    }
    const std::uint64_t offset = header.log_end.load(std::memory_order_relaxed);
    const stored_pages::log_area log = pages_.own_log();
    const std::uint64_t capacity = log.pages * page_size;
    if (!encode_commit(changes, pages_.file(), capacity - offset, record_) ||
        is_as_long_as_pages(pages_, record_, changes)) {
        return status::ok;
    }
    fits = true;
    const log::mark before{.position = offset,
                           .sequence = header.written.load(std::memory_order_relaxed),
                           .checksum = header.log_checksum.load(std::memory_order_relaxed)};
    const log::mark end =
        log::seal(record_, record_.size() - log::header_size, before,
                  {.epoch = header.log_epoch.load(std::memory_order_relaxed), .key = pages_.own_log_key()});
    free_.forget();
    apply_own(changes);
    if (const status outcome = write_record(*this, pages_, log.page * page_size + offset, record_);
        outcome != status::ok) {
        header.log_epoch.store(0);  // a part of it may lie there
        return outcome;
    }
    pages_.shared().set_root(changes.version);
    header.committer.store(pages_.shared().number(), std::memory_order_relaxed);
    header.log_checksum.store(end.checksum, std::memory_order_relaxed);
    header.log_end.store(end.position, std::memory_order_release);
    header.written.store(end.sequence, std::memory_order_release);
    free_.end = end;
    return status::ok;
}

bool committer::is_synced(std::uint64_t transaction) const noexcept {
    const shared_header& header = pages_.shared().header();
    return header.synced.load(std::memory_order_acquire) >= transaction && header.unsynced.load() == 0;
}

// One thread syncs, for all who wait, what was written before it begins.
status committer::sync_log(std::uint64_t transaction) {
    shared_header& header = pages_.shared().header();
    sync_turn turn = pages_.shared().turn_to_sync();
    HF_STORE_TRY(turn.take_unless([&] { return is_synced(transaction); },
                                  [&] { return header.panic.load() != 0 ? status::panic : status::ok; }));
    if (!is_synced(transaction)) {
        return sync_log_now();
    }
    pages_.raise_durable(transaction);  // who synced it may have died before
    return status::ok;
}

// With the turn.
status committer::sync_log_now() {
    shared_header& header = pages_.shared().header();
    if (header.panic.load() != 0) {
        return status::panic;
    }
    const std::uint64_t written = header.written.load(std::memory_order_acquire);
    const std::uint64_t end = header.log_end.load(std::memory_order_acquire);
    const std::uint64_t begin = header.log_synced.load();
    const std::uint64_t offset = pages_.own_log().page * page_size + begin;
    if (!pages_.is_overlay() && begin < end) {
        HF_STORE_TRY(pages_.extend_addresses(pages_.own_log().page + pages_.own_log().pages));  // another moved it
    }
    pages_.shared().doubt_sync_of_a_dead();
    if ((header.doubtful.load() & doubtful_records) != 0) {
        if (pages_.options().read_only) {
            return status::ok;  // nothing becomes durable before a writer looks
        }
        HF_STORE_TRY(pages_.file().write_again(offset, end - begin, "store.log.again"));
    }
    const bool is_unsynced = header.unsynced.load() != 0;
    if (is_unsynced) {
        HF_STORE_TRY(pages_.options().read_only ? status::ok : pages_.file().sync_name("store.found.name"));
        HF_STORE_TRY(write_metas_again());
    }
    if (is_unsynced || begin < end) {
        const bool all = pages_.is_overlay() || is_unsynced;
        HF_STORE_TRY(pages_.shared().announce([&] {
            return all ? pages_.file().sync_all("store.found.sync")
                       : pages_.file().sync_range(offset, end - begin, "store.log.sync");
        }));
    }
    header.doubtful.store(header.doubtful.load() & ~doubtful_records);
    if (!pages_.options().read_only) {  // else the metas were not written again
        header.unsynced.store(0);
        header.unpromised.store(0);
    }
    header.log_synced.store(end);
    header.synced.store(written, std::memory_order_release);
    pages_.raise_durable(written);
    return status::ok;
}

// With the turn. What is believed of a checkpoint must be on the medium, also where its sync failed and the store was
// opened again. Not without a lock file: other processes may write metas.
status committer::write_metas_again() const noexcept {
    if (pages_.options().read_only || pages_.reads_metas()) {
        return status::ok;
    }
    for (std::uint64_t page = 0; page < meta_pages; ++page) {
        HF_STORE_TRY(pages_.file().write_again(page * page_size, sizeof(meta_on_media), "store.meta.again"));
    }
    return status::ok;
}

// Where the next record goes, a crash may have left a part of one that does not count. The next one, where it has the
// bytes that this lacks, would complete it. Called when the checkpoint is durable: before, the records of the one
// before may count. In a heap, records count up to the heap's word, and are durable before it is set.
status committer::begin_epoch() {
    shared_header& header = pages_.shared().header();
    const std::uint64_t at = header.log_end.load();
    const std::span<const std::byte> rest = pages_.log_bytes().subspan(at);
    const std::size_t size = std::min(rest.size(), log::header_size);
    const bool is_erased = std::ranges::all_of(rest.first(size), [](std::byte one) { return one == std::byte{0}; });
    if (!is_erased && !pages_.shared().is_private()) {
        sync_turn turn = pages_.shared().turn_to_sync();
        HF_STORE_TRY(turn.take());
        constexpr std::array<std::byte, log::header_size> zeros{};
        HF_STORE_TRY(write_in_use(*this, pages_, pages_.own_log().page * page_size + at,
                                  std::as_bytes(std::span(zeros)).first(size), "store.erase.write"));
        const auto sync = [&] {
            return pages_.file().sync_range(pages_.own_log().page * page_size + at, size, "store.erase.sync");
        };
        HF_STORE_TRY(pages_.must_be_durable() ? pages_.shared().announce(sync) : status::ok);
    }
    return outcome_of([&]() -> base::result<void> {
        HF_TRY_ASSIGN(const std::uint64_t epoch, log::random_number());
        header.log_epoch.store(std::max<std::uint64_t>(epoch, 1));
        return {};
    });
}

// Under the writer's lock, and with the sync turn: the log is not synced while it begins anew.
status committer::checkpoint(write_set& changes, checkpoint_kind kind) {
    shared_header& header = pages_.shared().header();
    free_.forget();  // until the end: a failure leaves free_ with a part of this
    sync_turn turn = pages_.shared().turn_to_sync();
    HF_STORE_TRY(turn.take());
    if (header.panic.load() != 0) {
        return status::panic;
    }
    if (keeps_old_and_new_ && base_.sequence != header.checkpoint_sequence.load()) {
        return from_errno(EBUSY);  // it would write over one of two that may be needed
    }
    free_.forget();  // until the end: a failure leaves free_ with a part of this
    const bool durable = kind.durable || pages_.must_be_durable();
    pages_.shared().clear_dead();  // a killed reader keeps no page from use
    apply_own(changes);
    root version = changes.version;
    meta_on_media meta{};
    meta.sequence = next_sequence();
    meta.transaction = version.transaction;
    meta.main = version.main;
    const bool is_commit = kind.purpose == checkpoint_purpose::commit;
    meta.map_size = std::max(header.map_size.load(), is_commit ? pages_.own_limit() : 0);
    meta_on_media last{};
    HF_STORE_TRY(pages_.read_meta(last));
    meta.version = changes.has_long_keys ? std::max(store_version, last.version) : last.version;  // never lower
    if (kind.purpose != checkpoint_purpose::room) {
        version.next_page = cut_end(version.next_page);
    }
    HF_STORE_TRY(set_log(version, meta, kind, durable));
    HF_STORE_TRY(write_free_list(version, meta, kind.lent));
    meta.next_page = version.next_page;
    if (durable) {
        pages_.shared().doubt_sync_of_a_dead();
        HF_STORE_TRY(header.doubtful.load() != 0 ? write_pages_again(pages_, changes) : status::ok);
        HF_STORE_TRY(header.unpromised.load() != 0 ? pages_.file().sync_name("store.checkpoint.name") : status::ok);
        const write_back_plan plan = plan_write_back(pages_, changes);  // outside: it may lack memory
        HF_STORE_TRY(pages_.shared().announce([&] { return write_back(pages_.file(), plan); }));
    }
    HF_STORE_TRY(write_meta(meta, durable));
    header.unsynced.store(durable ? 0 : 1);
    pages_.adopt(meta);
    if (durable) {
        header.doubtful.store(0);
        header.unpromised.store(0);
        header.synced.store(meta.transaction, std::memory_order_release);
    }
    free_.end = {.sequence = meta.transaction};
    free_.checkpoint = meta.sequence;
    free_.list_page = meta.free_list;
    free_.list_pages = (meta.free_list_size + page_size - 1) / page_size;
    if (pages_.options().in_heap) {
        raise_base();
    }
    if (kind.purpose == checkpoint_purpose::room) {
        release_pages();
    } else {
        give_space_back(version.next_page, !is_commit);
    }
    return status::ok;
}

status committer::set_log(root& version, meta_on_media& meta, checkpoint_kind kind, bool durable) {
    const shared_header& header = pages_.shared().header();
    meta.log_page = header.log_page.load();
    meta.log_pages = header.log_pages.load();
    switch (kind.purpose) {
        case checkpoint_purpose::commit: return renew_log(version, meta, durable);
        case checkpoint_purpose::shorter:
        case checkpoint_purpose::rest: return shorten_log(version, meta, busy_log_pages);
        case checkpoint_purpose::end: return shorten_log(version, meta, least_log_pages);
        case checkpoint_purpose::room: break;
    }
    return status::ok;
}

// A longer log makes checkpoints rarer.
status committer::renew_log(root& version, meta_on_media& meta, bool durable) {
    const std::uint64_t unused = meta.log_pages + free_.space.all_pages();
    const std::uint64_t used = version.next_page - std::min(version.next_page, unused);
    std::uint64_t wanted = std::min(meta.log_pages / pages_.log_parts() * log_growth, busy_log_pages);
    wanted = durable ? std::max(wanted, std::min(used, most_log_pages)) : wanted;
    if (pages_.file().memory().is_there() || pages_.file().in_memory()) {
        wanted = std::min(wanted, std::max(used, least_log_in_memory));
    }
    wanted = std::min(wanted, pages_.limit_pages() / log_part_of_limit / pages_.log_parts()) * pages_.log_parts();
    if (wanted < 2 * meta.log_pages || pages_.reads_metas() || version.next_page > pages_.limit_pages()) {
        return status::ok;
    }
    std::uint64_t start = 0;
    root enlarged = version;
    if (take_pages(enlarged, wanted, start, {.kind = claim_kind::grows}) != status::ok) {
        return status::ok;  // a short log will do
    }
    HF_STORE_TRY(clear_log(start, wanted));
    free_.space.add_freed(
        {.start = meta.log_page, .count = meta.log_pages, .born = log_born(), .died = version.transaction});
    version = enlarged;
    meta.log_page = start;
    meta.log_pages = wanted;
    return status::ok;
}

// A sync of blocks that were written once changes no tables of the file system. On persistent memory the kernel makes
// them durable where it maps them for stores. No record is valid where other bytes lie, but a store without promises
// may have lost a checkpoint with the power, and come to the same one again: then its old records are not to follow.
status committer::clear_log(std::uint64_t start, std::uint64_t pages) noexcept {
    static constexpr std::array<std::byte, 16 * page_size> zeros{};
    pages_.checked().remove(start, pages);
    if (pages_.file().memory().is_there() && pages_.file().make_storable(start, pages) == status::ok) {
        const std::uint64_t part = pages / pages_.log_parts();
        for (std::uint64_t page = 0; page < pages; page += part) {
            pages_.file().memory().write((start + page) * page_size, zeros.data(), page_size, "store.log.clear");
        }
        return status::ok;
    }
    for (std::uint64_t page = 0; page < pages; page += 16) {
        const std::size_t size = std::min<std::uint64_t>(16, pages - page) * page_size;
        HF_STORE_TRY(
            write_in_use(*this, pages_, (start + page) * page_size, std::span(zeros).first(size), "store.log.clear"));
    }
    return status::ok;
}

// It also goes to lower pages, where some are free: a store becomes no shorter than where its log ends.
status committer::shorten_log(const root& version, meta_on_media& meta, std::uint64_t most) {
    if (pages_.options().in_heap && kept_.load() < version.transaction) {
        return status::ok;  // the halves would move, and one of them counts
    }
    const std::uint64_t stays = std::min(meta.log_pages, most * pages_.log_parts());
    const std::uint64_t start = free_.space.take_run(stays);
    const bool moves = start != 0 && start < meta.log_page && back_run(start, stays) == status::ok;
    if (moves) {
        HF_STORE_TRY(clear_log(start, stays));
    } else if (start != 0) {
        free_.space.add_ready(start, stays);
    }
    const std::uint64_t left = moves ? 0 : stays;
    if (left < meta.log_pages) {
        free_.space.add_freed({.start = meta.log_page + left,
                               .count = meta.log_pages - left,
                               .born = log_born(),
                               .died = version.transaction});
    }
    meta.log_page = moves ? start : meta.log_page;
    meta.log_pages = stays;
    return status::ok;
}

status committer::write_free_list(root& version, meta_on_media& meta, std::span<const extent_on_media> lent) {
    if (free_.list_pages != 0) {
        free_.space.add_freed({.start = free_.list_page,
                               .count = free_.list_pages,
                               .born = pages_.shared().header().checkpoint_transaction.load(),
                               .died = version.transaction});
        free_.list_pages = 0;
    }
    std::vector<std::byte> list;
    free_.space.serialise(list, lent);
    // Taking pages makes the list no longer: they are the first of a run.
    const std::uint64_t pages = (list.size() + 2 * sizeof(extent_on_media) + page_size - 1) / page_size;
    HF_STORE_TRY(take_pages(version, pages, meta.free_list, {.kind = claim_kind::ends}));
    free_.space.serialise(list, lent);
    const std::uint64_t last = meta.free_list + pages - 1;
    if (list.size() <= (pages - 1) * page_size) {
        free_last_page_of_list(list, last, lent);
    }
    if (list.size() > pages * page_size) {
        return status::corrupted;
    }
    pages_.checked().remove(meta.free_list, pages);
    HF_STORE_TRY(write_in_use(*this, pages_, meta.free_list * page_size, list, "store.list.write"));
    meta.free_list_size = list.size();
    meta.free_list_checksum = bytes_checksum(list, meta.sequence);
    if (list.size() <= (pages - 1) * page_size && !free_.space.is_ready(last)) {
        free_.space.add_ready(last, 1);  // the next list has it
    }
    return status::ok;
}

// The list became shorter by an extent, and has a page too many. Where it lacks the room to say that this page is free,
// it gets as long as its pages are.
void committer::free_last_page_of_list(std::vector<std::byte>& list, std::uint64_t last,
                                       std::span<const extent_on_media> lent) {
    const std::size_t before = list.size();
    const std::size_t most = (before + page_size - 1) / page_size * page_size;
    free_.space.add_ready(last, 1);
    free_.space.serialise(list, lent);
    if (list.size() > most) {
        free_.space.forget(last, 1);
        free_.space.serialise(list, lent);
        free_space::lengthen(list);
    }
}

// The version is set. A new one also goes to the checkpoint before, which no recovery needs any more but which would
// let an older program in.
status committer::write_meta(meta_on_media& meta, bool durable) {
    const auto put = [&](meta_on_media& one) {
        one.checksum = meta_checksum(one);
        const std::uint64_t page = one.sequence % meta_pages;
        HF_STORE_TRY(
            write_in_use(*this, pages_, page * page_size, std::as_bytes(std::span(&one, 1)), "store.meta.write"));
        const auto sync = [&] { return pages_.file().sync_range(page * page_size, page_size, "store.meta.sync"); };
        return durable ? pages_.shared().announce(sync) : status::ok;
    };
    meta.magic = store_magic;
    meta.page_bytes = page_size;
    meta.uuid = pages_.uuid();
    HF_STORE_TRY(put(meta));
    meta_on_media older{};
    std::memcpy(&older, pages_.file().page((meta.sequence + 1) % meta_pages), sizeof(older));
    const bool is_valid = older.magic == store_magic && older.checksum == meta_checksum(older) &&
                          older.sequence % meta_pages == (meta.sequence + 1) % meta_pages;
    if (!is_valid || older.version >= meta.version) {
        return status::ok;
    }
    older.version = meta.version;
    return put(older);
}

}  // namespace holdfast::store_engine
