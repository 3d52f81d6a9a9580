// A store that lies in a heap: the heap decides which commits count.
//
// A word of the heap holds the number of the last one. A commit is prepared here, the word is set beside all else that
// a transaction of the heap changes, then the commit is accepted here: one group of the heap's records, or one commit
// of the heap, decides both. A recovery ignores records and checkpoints beyond the word.
//
// Where a transaction of the heap commits the heap's memory (decision 59), that happens between the two phases: what is
// prepared is synced, then the heap's record with the word, and only then is the commit accepted. If the heap's record
// fails and surely is not in its log, the commit is withdrawn.
//
// The heap's durable state may long name an older commit. The checkpoint that leads there (`base_`), its pages and its
// records stay until the heap has moved on: the next checkpoints are written to the other meta, over each other, and
// their records to the other half of the log.
//
// What a refused commit, or a crash, left beyond the word must go before the word gets there again: each commit begins
// where the accepted ones end, so records are written over in order; a meta is removed, durably.
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "store/engine.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store_engine {

void committer::begin_in_heap(const meta_on_media& meta) noexcept {
    kept_.store(pages_.accepted());
    base_ = {.sequence = meta.sequence, .transaction = meta.transaction};
}

void committer::keep_accepted() noexcept {
    keeps_old_and_new_ = false;
    kept_.store(pages_.accepted());
    raise_base();
}

// A recovery begins with the last checkpoint as soon as the heap has all of it.
void committer::raise_base() noexcept {
    const shared_header& header = pages_.shared().header();
    if (header.checkpoint_transaction.load() <= kept_.load()) {
        base_ = {.sequence = header.checkpoint_sequence.load(), .transaction = header.checkpoint_transaction.load()};
    }
}

// The next checkpoint is written over the last one where a recovery needs the one before.
std::uint64_t committer::next_sequence() const noexcept {
    const std::uint64_t last = pages_.shared().header().checkpoint_sequence.load();
    return pages_.options().in_heap && base_.sequence != last ? last + meta_pages : last + 1;
}

// The first version whose recovery needs the log where it is.
std::uint64_t committer::log_born() const noexcept {
    const std::uint64_t checkpoint = pages_.shared().header().checkpoint_transaction.load();
    return pages_.options().in_heap ? std::min(checkpoint, base_.transaction) : checkpoint;
}

// After a recovery that began with the checkpoint `meta`.
status engine::begin_in_heap(const meta_on_media& meta) {
    if (pages_.shared().header().written.load() != pages_.options().accepted) {
        return status::corrupted;  // the heap has commits that are not here
    }
    commits_.begin_in_heap(meta);
    if (pages_.options().read_only) {
        return status::ok;
    }
    HF_STORE_TRY(give_holes_blocks());
    meta_on_media other{};
    const std::uint64_t page = (meta.sequence + 1) % meta_pages;
    std::memcpy(&other, pages_.file().page(page), sizeof(other));
    if (other.magic == store_magic && other.sequence > meta.sequence) {
        other = {};
        HF_STORE_TRY(pages_.file().write(page * page_size, &other, sizeof(other), "store.heap.meta_gone"));
        return pages_.file().sync_range(page * page_size, page_size, "store.heap.meta_gone");
    }
    return status::ok;
}

// A copy of the heap's files may have holes where the store wrote zeros: a store there on a full disk ends in a signal.
// Pages known as free get their blocks when they are used.
status engine::give_holes_blocks() {
    if (free_.is_forgotten()) {
        HF_STORE_TRY(free_.load(pages_));
    }
    const std::uint64_t end = pages_.last_root().next_page;
    std::uint64_t start = 0;
    std::uint64_t count = 0;
    for (std::uint64_t page = 0; pages_.file().find_hole(page, end, start, count); page = start + count) {
        for (std::uint64_t at = start; at < start + count; ++at) {
            std::uint64_t behind = at;
            while (behind < start + count && !free_.space.has_free(behind, 1)) {
                ++behind;
            }
            if (behind > at) {
                HF_STORE_TRY(pages_.file().reserve(at, behind - at));
                free_.space.set_backed(at, behind - at, true);
            }
            at = behind;
        }
    }
    return status::ok;
}

status engine::try_hold_writers() noexcept {
    shared_header& header = pages_.shared().header();
    if (pages_.options().read_only || pages_.shared().is_of_parent() || header.panic.load() != 0) {
        return status::ok;  // nobody writes
    }
    bool died = false;
    const status outcome = held_.lock(pages_.shared().writer(), died, lock_mode::tries);
    if (died) {
        header.died.store(1);
    }
    // A transaction of this thread cannot go on meanwhile.
    return outcome == from_errno(EBUSY) && pages_.shared().writer().is_mine() ? status::ok : outcome;
}

status engine::prepare(write_set& changes) {
    HF_STORE_TRY(commits_.has_room_for(changes));
    excess_.note(changes);
    const shared_header& header = pages_.shared().header();
    prepared_ = {.meta_page = commits_.next_sequence() % meta_pages,
                 .written = header.written.load(),
                 .synced = header.synced.load(),
                 .checkpoint_sequence = header.checkpoint_sequence.load(),
                 .checkpoint_transaction = header.checkpoint_transaction.load(),
                 .log_page = header.log_page.load(),
                 .log_pages = header.log_pages.load(),
                 .log_end = header.log_end.load(),
                 .log_checksum = header.log_checksum.load(),
                 .log_synced = header.log_synced.load(),
                 .file_pages = header.file_pages.load(),
                 .map_size = header.map_size.load(),
                 .unsynced = header.unsynced.load()};
    std::memcpy(&prepared_.meta, pages_.file().page(prepared_.meta_page), sizeof(prepared_.meta));
    status outcome = status::ok;
    try {
        commits_.finish_pages(changes);
        bool fits = false;
        outcome = commits_.append(changes, fits);
        if (outcome == status::ok && !fits) {
            outcome = commits_.checkpoint(changes, {});
        } else if (outcome == status::ok && !pages_.options().no_sync) {
            outcome = commits_.sync_log(changes.version.transaction);
        }
    } catch (const std::bad_alloc&) {
        outcome = status::no_memory;
    }
    changes.clear();
    if (outcome != status::ok) {
        static_cast<void>(abort_prepared());  // else nobody writes any more
    }
    is_prepared_ = outcome == status::ok;
    return outcome;
}

void engine::commit_prepared() noexcept {
    if (!std::exchange(is_prepared_, false)) {
        return;
    }
    const shared_header& header = pages_.shared().header();
    const bool was_checkpoint = header.checkpoint_sequence.load() != prepared_.checkpoint_sequence;
    pages_.commit_prepared(header.written.load());
    pages_.raise_durable(header.written.load());
    if (keeps_at_once_) {
        commits_.keep_accepted();
    }
    root last{};
    if (was_checkpoint && pages_.shared().get_root(header.written.load(), last)) {
        commits_.give_space_back(last.next_page, false);
    }
}

status engine::abort_prepared() noexcept {
    is_prepared_ = false;
    shared_header& header = pages_.shared().header();
    const bool was_checkpoint =
        std::memcmp(&prepared_.meta, pages_.file().page(prepared_.meta_page), sizeof(prepared_.meta)) != 0;
    free_.forget();                                   // it has some of this commit
    sync_turn turn = pages_.shared().turn_to_sync();  // so nobody syncs the log now
    if (const status outcome = turn.take(); outcome != status::ok) {
        return pages_.stop_writing(outcome);
    }
    header.written.store(prepared_.written);
    header.synced.store(prepared_.synced);
    header.checkpoint_transaction.store(prepared_.checkpoint_transaction);
    header.checkpoint_sequence.store(prepared_.checkpoint_sequence);
    pages_.shared().set_log(prepared_.log_page, prepared_.log_pages);
    header.log_end.store(prepared_.log_end);
    header.log_checksum.store(prepared_.log_checksum);
    header.log_synced.store(prepared_.log_synced);
    header.file_pages.store(prepared_.file_pages);
    header.map_size.store(prepared_.map_size);
    header.unsynced.store(prepared_.unsynced);
    pages_.file().set_pages(prepared_.file_pages);
    if (header.panic.load() != 0) {
        return status::panic;
    }
    if (was_checkpoint) {
        const std::uint64_t offset = prepared_.meta_page * page_size;
        if (const status outcome =
                pages_.file().write(offset, &prepared_.meta, sizeof(prepared_.meta), "store.heap.meta_back");
            outcome != status::ok) {
            return pages_.stop_writing(outcome);
        }
        return pages_.shared().announce([&] {
            return pages_.file().sync_range(prepared_.meta_page * page_size, page_size, "store.heap.meta_back");
        });
    }
    return status::ok;
}

void engine::give_up() noexcept {
    is_prepared_ = false;
    static_cast<void>(pages_.stop_writing(status::panic));
}

void engine::leave() noexcept {
    shared_header& header = pages_.shared().header();
    if (pages_.shared().is_of_parent() || pages_.options().read_only || header.panic.load() != 0) {
        return;
    }
    try {
        static_cast<void>(checkpoint_now({.purpose = checkpoint_purpose::end}, lock_mode::tries));
    } catch (const std::bad_alloc&) {
        free_.forget();
    }
    header.panic.store(1);
}

}  // namespace holdfast::store_engine
