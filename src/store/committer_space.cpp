// The space of a store's file: what a transaction may take, where it comes from, and what goes back.
//
// A change copies pages before it frees any, and a checkpoint writes a list of free pages before it lets go of the one
// before. So some pages with blocks are held back: a part for changes that leave the store no larger, and behind the
// last page a part for the list alone. A change that makes the store larger fails before it touches them.
//
// Pages that commits freed are of use when a checkpoint follows. A transaction that finds no room writes one, of the
// last commit, in its midst.
#include <algorithm>
#include <new>
#include <utility>

#include "store/committer.hpp"

namespace holdfast::store_engine {
namespace {

// Free pages in a row that are worth a hole, which changes the file system's tables; and where much of a store that
// comes to rest is free.
constexpr std::uint64_t least_hole = 16;
constexpr std::uint64_t least_hole_at_rest = 8;
// Free pages of a store in use that keep their blocks for the next commits, at least.
constexpr std::uint64_t least_kept = 1024;
// Pages that get blocks by one call, and calls that may fail in search of some.
constexpr std::uint64_t most_at_once = 256;
constexpr unsigned most_failures = 1024;
// Pages that the page cache keeps as one.
constexpr std::uint64_t most_in_folio = 512;

// The list has 32 bytes for a page at most.
constexpr std::uint64_t list_pages(std::uint64_t next_page) noexcept { return 2 + next_page / 128; }
// For copies, by what is in use.
constexpr std::uint64_t held_pages(std::uint64_t next_page, std::uint64_t free_pages) noexcept {
    constexpr std::uint64_t most_copies = 2048;
    return list_pages(next_page) + 4 + std::min((next_page - std::min(next_page, free_pages)) / 16, most_copies);
}

}  // namespace

struct committer::allowance {
    std::uint64_t leaves;  ///< pages with blocks that stay
    std::uint64_t most;    ///< pages of the file that it may use
    std::uint64_t list;    ///< of these, behind the last page, only for the list of free pages
    std::uint64_t eager;   ///< the file may grow up to here before it must
};

// With blocks. There may be none that were counted: where the limit was lowered.
std::uint64_t committer::pages_behind(std::uint64_t next_page, std::uint64_t most) const noexcept {
    const std::uint64_t end = std::min(pages_.file().pages(), most);
    return end > next_page ? end - next_page : 0;
}

// What a transaction frees counts as if it were there already, and it may copy some pages before it frees any, down to
// the half of what is held back: a full store takes changes that need no more than they free. has_room_for() then says
// whether it did.
committer::allowance committer::allowance_of(const root& version, const claim& by) const noexcept {
    const std::uint64_t limit = pages_.limit_pages();
    const std::uint64_t list = list_pages(version.next_page);
    const std::uint64_t held = held_pages(version.next_page, free_.space.ready_pages());
    if (by.kind == claim_kind::grows) {
        // Without a lock file, what a commit freed is ready behind the next one.
        const std::uint64_t freed =
            by.freed + (pages_.reads_metas() ? free_.space.all_pages() - free_.space.ready_pages() : 0);
        const std::uint64_t least = std::max(held / 2, list);
        return {.leaves = std::max(held - std::min(held, freed + max_depth), least),
                .most = limit,
                .list = list,
                .eager = limit};
    }
    root last{};
    const std::uint64_t used =
        pages_.shared().get_root(pages_.shared().header().written.load(), last) ? last.next_page : version.next_page;
    if (by.kind == claim_kind::ends) {
        const std::uint64_t end = version.next_page > limit ? std::max(used, version.next_page) : used;
        return {.leaves = 0, .most = std::max(limit, end + held), .list = 0, .eager = limit};
    }
    if (by.bound != 0) {
        // It takes a page before it frees the one that this is a copy of, and so on each way down. The list of free
        // pages may lie beyond the limit already.
        const std::uint64_t most = std::max(by.bound, std::min(used, by.bound + held)) + by.freed + max_depth;
        return {.leaves = list, .most = most, .list = list, .eager = most};
    }
    // A store beyond its limit, which was lowered, has no pages behind the last one.
    const std::uint64_t free_pages = free_.space.all_pages();
    const bool is_beyond = used + held > limit && used >= limit && free_pages < held;
    return {.leaves = list, .most = is_beyond ? used + held - free_pages : limit, .list = list, .eager = limit};
}

status committer::take_pages(root& version, std::uint64_t count, std::uint64_t& start, const claim& by) {
    taken_pages_ += count;
    const std::uint64_t limit = pages_.limit_pages();
    allowance may{.leaves = 0, .most = limit, .list = list_pages(version.next_page), .eager = limit};
    const std::uint64_t there = free_.space.backed_pages() + pages_behind(version.next_page, may.most);
    // Free pages need not be in a row.
    const bool ends_beyond = by.kind == claim_kind::ends && version.next_page > limit;
    if (ends_beyond || there < count + held_pages(version.next_page, free_.space.ready_pages())) {
        may = allowance_of(version, by);
    }
    if (count > 1) {
        return take_run(version, count, start, may);
    }
    back_lowest();
    HF_STORE_TRY(back_pages(version, 1 + may.leaves, may));
    start = free_.space.take_backed();
    if (start == 0) {
        HF_STORE_TRY(grow(version.next_page + 1, may));
        start = version.next_page++;
    }
    return status::ok;
}

// The lowest free pages are taken first, also where these have no blocks: so a store becomes shorter.
void committer::back_lowest() {
    const extent_on_media run = holes_refused_ ? extent_on_media{} : free_.space.lowest_without_blocks(most_at_once);
    if (run.count != 0) {
        holes_refused_ = pages_.file().reserve_free(run.start, run.count) != status::ok;
        free_.space.set_backed(run.start, run.count, !holes_refused_);
    }
}

status committer::take_run(root& version, std::uint64_t count, std::uint64_t& start, const allowance& may) {
    const std::uint64_t end = version.next_page;
    start = free_.space.take_run(count);
    if (start != 0 && back_run(start, count) != status::ok) {
        free_.space.add_ready(start, count);
        start = 0;
    }
    if (start == 0) {
        HF_STORE_TRY(grow(end + count, may));
        start = end;
        version.next_page += count;
    }
    const status outcome = back_pages(version, may.leaves, may);
    if (outcome != status::ok && start < end) {
        free_.space.add_ready(start, count);
    } else if (outcome != status::ok) {
        version.next_page = end;
    }
    return outcome;
}

// Before the commit of a transaction that may have made the store larger.
status committer::has_room_for(write_set& changes) {
    if (changes.taken_pages <= changes.freed_pages + changes.loose.size()) {
        return status::ok;
    }
    const std::uint64_t freed = changes.freed_pages + changes.loose.size();
    const auto look = [&] {
        const std::uint64_t held = held_pages(changes.version.next_page, free_.space.ready_pages());
        return back_pages(changes.version, held - std::min(held, freed),
                          allowance_of(changes.version, {.kind = claim_kind::grows, .freed = freed}));
    };
    const status outcome = look();
    return is_no_room(outcome) && checkpoint_for_room(changes) == status::ok ? look() : outcome;
}

// So many pages with blocks.
status committer::back_pages(const root& version, std::uint64_t wanted, const allowance& may) {
    const auto missing = [&] {
        const std::uint64_t there = free_.space.backed_pages() + pages_behind(version.next_page, may.most);
        return wanted > there ? wanted - there : 0;
    };
    if (missing() == 0) {
        return status::ok;
    }
    const status outcome = back_free_pages(free_.space.backed_pages() + missing());
    if (missing() == 0) {
        return status::ok;
    }
    const std::uint64_t end = std::max(version.next_page, pages_.file().pages()) + missing();
    if (end > may.most) {
        return outcome == status::ok ? status::map_full : outcome;
    }
    HF_STORE_TRY(pages_.grow_file(end, std::max(end, may.eager)));
    pages_.shared().header().file_pages.store(pages_.file().pages(), std::memory_order_relaxed);
    return status::ok;
}

// Until so many free pages have blocks. On a full disk a page that has one already gets one without room: a process
// that reads the list of free pages does not know which these are.
status committer::back_free_pages(std::uint64_t wanted) {
    status last = status::ok;
    unsigned failures = 0;
    std::uint64_t most = most_at_once;
    for (std::uint64_t from = 0; free_.space.backed_pages() < wanted && failures < most_failures;) {
        const extent_on_media run = free_.space.run_without_blocks(from, most);
        if (run.count == 0) {
            break;
        }
        const status outcome = pages_.file().reserve_free(run.start, run.count);
        if (outcome == status::ok) {
            free_.space.set_backed(run.start, run.count, true);
        } else if (!is_no_room(outcome)) {
            return outcome;
        } else {
            last = outcome;
            ++failures;
        }
        if (outcome != status::ok && most > 1) {
            most = 1;  // one by one from here on
        } else {
            from = run.start + run.count;
        }
    }
    return last;
}

// Pages that were taken from the free ones. Where it fails, tmpfs took back the blocks that some of them had.
status committer::back_run(std::uint64_t start, std::uint64_t count) {
    for (std::uint64_t page = start; page < start + count; ++page) {
        if (free_.space.is_backed(page)) {
            continue;
        }
        const std::uint64_t needed = start + count - page;
        const status outcome = pages_.file().reserve_free(page, needed);
        free_.space.set_backed(page, needed, outcome == status::ok);
        return outcome;
    }
    return status::ok;
}

// Without a lock file, other processes make holes that this one does not know of.
bool committer::may_lie_beside_holes(std::uint64_t start, std::uint64_t count) const noexcept {
    const std::uint64_t first = start - start % most_in_folio;
    const std::uint64_t behind = start + count + most_in_folio - 1;
    const std::uint64_t end = behind - behind % most_in_folio;
    if (pages_.file().tells_holes() && free_.space.has_holes(start, start + count)) {
        return true;
    }
    return pages_.file().stores_fill_folios() && (pages_.reads_metas() || free_.space.has_holes(first, end) ||
                                                  (end > pages_.file().pages() && pages_.file().is_longer()));
}

// Where a store to them would be a signal, the page cache has them and holes beside them in one folio, whose blocks a
// full disk lacks. To make the holes again splits it. What may be in use of a version stays as it is, also where nobody
// knows whether it has blocks: then the pages themselves leave the folio, and ask for their blocks again.
status committer::make_storable(std::uint64_t start, std::uint64_t count) {
    if (!may_lie_beside_holes(start, count)) {
        return status::ok;
    }
    status outcome = pages_.file().make_storable(start, count);
    if (!is_no_room(outcome)) {
        return outcome;
    }
    const std::uint64_t first = start - start % most_in_folio;
    const std::uint64_t behind = start + count + most_in_folio - 1;
    const std::uint64_t end = behind - behind % most_in_folio;
    for (std::uint64_t page = first; page < end;) {
        const extent_on_media run = free_.space.run_without_blocks(page, end - page);
        if (run.count == 0 || run.start >= end) {
            break;
        }
        pages_.file().punch(run.start, std::min(run.count, end - run.start));
        page = run.start + run.count;
    }
    if (const std::uint64_t pages = pages_.file().pages(); pages < end) {
        pages_.file().punch(std::max(pages, start + count), end - std::max(pages, start + count));
    }
    outcome = pages_.file().make_storable(start, count);
    if (is_no_room(outcome)) {
        outcome = pages_.file().reserve_free(start, count);
        outcome = outcome == status::ok ? pages_.file().make_storable(start, count) : outcome;
        free_.space.set_backed(start, count, outcome == status::ok);
    }
    return outcome;
}

status committer::grow(std::uint64_t next_page, const allowance& may) noexcept {
    if (next_page + may.list > may.most) {
        return status::map_full;
    }
    if (next_page + may.list > pages_.file().pages()) {
        HF_STORE_TRY(pages_.grow_file(next_page + may.list, std::max(next_page + may.list, may.eager)));
        pages_.shared().header().file_pages.store(pages_.file().pages(), std::memory_order_relaxed);
    }
    return status::ok;
}

// In the midst of a transaction: what commits freed since the last checkpoint is ready then. To who begins with this
// checkpoint, the pages of the transaction are free; its record, or its end, says what became of them. ok: there are
// more free pages now.
status committer::checkpoint_for_room(write_set& changes) {
    const shared_header& header = pages_.shared().header();
    write_set last;
    if (!pages_.shared().get_root(header.written.load(), last.version)) {
        return status::map_full;
    }
    const std::uint64_t transaction = last.version.transaction;
    collect_snapshots(transaction, kept_.load() >= transaction ? transaction : base_.transaction);
    if (transaction == header.checkpoint_transaction.load() || !free_.space.would_release(snapshots_)) {
        return status::map_full;
    }
    const std::uint64_t end = last.version.next_page;
    std::vector<extent_on_media> lent = changes.taken;
    if (changes.version.next_page > end) {
        lent.push_back({.start = end, .count = changes.version.next_page - end});
    }
    last.version.next_page = changes.version.next_page;
    HF_STORE_TRY(checkpoint(last, {.purpose = checkpoint_purpose::room, .lent = lent}));
    changes.taken.swap(lent);
    root now{};
    if (pages_.shared().get_root(transaction, now)) {
        changes.version.next_page = now.next_page;
    }
    return status::ok;
}

std::uint64_t committer::cut_end(std::uint64_t next_page) noexcept {
    const std::uint64_t cut = free_.space.cut(next_page);
    if (cut < next_page) {  // what lies behind may have no blocks any more
        pages_.file().set_pages(std::min(pages_.file().pages(), cut));
        pages_.shared().header().file_pages.store(pages_.file().pages(), std::memory_order_relaxed);
    }
    return cut;
}

// After a checkpoint: gives back free pages that no version sees, but for those that the next commits take, and what is
// held back. Not where the checkpoint before may be needed again: its list of free pages does not say which lose their
// blocks now.
void committer::give_space_back(std::uint64_t next_page, bool at_rest) noexcept {
    if (pages_.options().in_heap && base_.sequence != pages_.shared().header().checkpoint_sequence.load()) {
        return;
    }
    std::vector<extent_on_media> runs;
    try {
        release_pages();
        runs = free_.space.ready_runs();
    } catch (const std::bad_alloc&) {
        return;  // the next checkpoint tries again
    }
    const std::uint64_t held = held_pages(next_page, free_.space.ready_pages());
    const std::uint64_t keep = at_rest ? held : std::max({held, least_kept, next_page / 32, 2 * taken_pages_});
    const bool much_free = free_.space.ready_pages() > next_page / 4;
    const std::uint64_t smallest = at_rest && much_free ? least_hole_at_rest : least_hole;
    std::uint64_t kept = 0;
    taken_pages_ = 0;
    for (const extent_on_media& run : runs) {
        std::uint64_t page = run.start;
        const std::uint64_t end = run.start + run.count;
        for (; page < end && (kept < keep || run.count < smallest); ++page) {
            kept += free_.space.is_backed(page) ? 1U : 0U;
        }
        if (end - page >= smallest && (free_.space.is_backed(page) || free_.space.is_backed(end - 1))) {
            pages_.file().punch(page, end - page);
            free_.space.set_backed(page, end - page, false);
        }
    }
    const std::uint64_t behind = std::max(list_pages(next_page), held - std::min(held, kept));
    const std::uint64_t wanted = std::max(next_page, std::min(next_page + behind, pages_.limit_pages()));
    // A store that grows keeps what it has grown by: else each checkpoint would give back what the next commit takes.
    const std::uint64_t most = std::max(next_page + keep, wanted + data_file::growth_of(wanted));
    if (at_rest || pages_.file().pages() > most) {
        pages_.file().trim(wanted);
        static_cast<void>(pages_.grow_file(wanted, wanted));  // of use on a full disk, but nothing needs it now
        pages_.shared().header().file_pages.store(pages_.file().pages(), std::memory_order_relaxed);
    }
}

// Versions that may still be read: those of readers, all from the durable one on, which readers may yet enter, and
// those that a recovery begins with: the checkpoint, and in a heap the base.
void committer::collect_snapshots(std::uint64_t checkpoint, std::uint64_t base) {
    const shared_header& header = pages_.shared().header();
    snapshots_.clear();
    snapshots_.push_back(checkpoint);
    if (pages_.options().in_heap) {
        snapshots_.push_back(base);
    }
    const std::uint64_t written = header.written.load(std::memory_order_relaxed);
    std::uint64_t durable = header.durable.load(std::memory_order_acquire);
    if (pages_.reads_metas() && durable == written && durable > 0) {
        --durable;  // readers without slots: the version before stays, as in LMDB
    }
    for (std::uint64_t version = durable; version < written; ++version) {
        snapshots_.push_back(version);
    }
    pages_.shared().collect_snapshots(snapshots_);
    std::sort(snapshots_.begin(), snapshots_.end());
    snapshots_.erase(std::unique(snapshots_.begin(), snapshots_.end()), snapshots_.end());
}

void committer::release_pages() {
    const std::uint64_t version_of_free = std::exchange(free_.end.sequence, no_transaction);  // in case memory runs out
    collect_snapshots(pages_.shared().header().checkpoint_transaction.load(std::memory_order_relaxed),
                      base_.transaction);
    free_.space.release(snapshots_);
    holes_refused_ = false;
    free_.end.sequence = version_of_free;
}

}  // namespace holdfast::store_engine
