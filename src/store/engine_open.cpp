#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "store/engine.hpp"
#include "store/file_size_signal.hpp"
#include "store/page_checksum.hpp"
#include "store/recovery.hpp"

namespace holdfast::store_engine {
namespace {

bool is_plausible(const meta_on_media& meta, std::uint64_t pages) noexcept {
    return meta.log_page >= meta_pages && meta.log_pages > 0 && meta.next_page <= pages &&
           meta.log_page < meta.next_page && meta.log_pages <= meta.next_page - meta.log_page &&
           meta.main.depth <= max_depth && meta.main.item_size == 0 && meta.transaction < no_transaction / 2 &&
           meta.sequence < no_transaction / 2;
}

// Or removed: then none is to be made.
bool is_replaced(const std::string& path, std::uint64_t inode) noexcept {
    struct stat information {};
    return ::stat(path.c_str(), &information) != 0 ? errno == ENOENT : information.st_ino != inode;
}

// All writers do the same: a write-back of lines makes nothing durable that a mapping without MAP_SYNC leads to, and
// what is emulated nothing at all. A sync by a system call is right on any medium. Processes without a lock file know
// nothing of each other.
status take_medium(stored_pages& of, bool first) noexcept {
    if (of.reads_metas()) {
        of.set_medium(persist::domain_kind::disk);
    }
    if (first) {
        return status::ok;
    }
    const auto medium = static_cast<persist::domain_kind>(of.shared().header().medium.load());
    of.set_medium(medium);
    const bool is_made_up = medium == persist::domain_kind::emulated;
    return is_made_up && !of.options().emulated && !of.options().read_only ? status::other_medium : status::ok;
}

// On persistent memory: what this thread has written.
status sync_written(const data_file& file, persist::site where) noexcept {
    if (file.memory().has_called()) {
        return file.sync_all(where);
    }
    file.memory().fence(where);
    return status::ok;
}

status create(stored_pages& of) {
    meta_on_media meta{};
    if (of.options().in_heap) {
        meta.uuid = of.options().identity;
    } else if (::getrandom(meta.uuid.data(), meta.uuid.size(), 0) != static_cast<ssize_t>(meta.uuid.size())) {
        return last_error();
    }
    const std::uint64_t first_log_pages = least_log_pages * of.log_parts();
    const std::vector<std::byte> zeros(first_log_pages * page_size);
    if (of.file().pages() != 0) {
        HF_STORE_TRY(of.file().reserve(0, of.file().pages()));
    }
    HF_STORE_TRY(of.grow_file(meta_pages + first_log_pages, meta_pages + first_log_pages));
    HF_STORE_TRY(of.file().write(meta_pages * page_size, zeros.data(), zeros.size(), "store.create.write"));
    meta.magic = store_magic;
    meta.version = of.options().in_heap ? version_in_heap : version_without_long_keys;
    meta.page_bytes = page_size;
    meta.next_page = meta_pages + first_log_pages;
    meta.log_page = meta_pages;
    meta.log_pages = first_log_pages;
    meta.map_size = of.options().limit;
    meta.checksum = meta_checksum(meta);
    if (!of.options().no_sync) {
        HF_STORE_TRY(of.file().sync_all("store.create.sync"));
        HF_STORE_TRY(of.file().sync_name("store.create.name"));
    }
    if (of.file().memory().is_there()) {
        // Words get there in any order: until all others are there, it is no store, and made anew.
        HF_STORE_TRY(of.file().write(0, magic_in_the_making.data(), sizeof(meta.magic), "store.create.making"));
        HF_STORE_TRY(sync_written(of.file(), "store.create.making_fence"));
        constexpr std::uint64_t behind_magic = sizeof(meta.magic);
        HF_STORE_TRY(of.file().write(behind_magic, reinterpret_cast<const std::byte*>(&meta) + behind_magic,
                                     sizeof(meta) - behind_magic, "store.create.first"));
        HF_STORE_TRY(sync_written(of.file(), "store.create.first_fence"));
    }
    HF_STORE_TRY(of.file().write(0, &meta, sizeof(meta), "store.create.meta"));
    return of.options().no_sync ? status::ok : of.file().sync_all("store.create.meta_sync");
}

}  // namespace

status engine::open(const engine_options& options) {
    const no_file_size_signal guard;
    pages_.configure(options);
    bool first = true;
    if (options.no_lock || options.in_heap) {
        HF_STORE_TRY(pages_.shared().open_private(options.in_heap));
    } else {
        const status outcome = pages_.shared().open(options.lock_path, options.mode, first);
        if (outcome == from_errno(EROFS) && options.read_only) {
            only_inspects_ = true;  // others may write through another mount
            HF_STORE_TRY(check_nobody_writes());
            first = true;
            HF_STORE_TRY(pages_.shared().open_private(false));
        } else if (outcome != status::ok) {
            return outcome;
        }
    }
    if (!first && is_replaced(options.data_path, pages_.shared().header().data_inode)) {
        return status::replaced;
    }
    HF_STORE_TRY(take_medium(pages_, first));
    HF_STORE_TRY(pages_.open_data(options.read_only, false));
    pages_.set_no_sync(options.no_sync);
    HF_STORE_TRY(first ? start() : join());
    if (first) {
        pages_.shared().publish();
    }
    open_ = true;
    return status::ok;
}

status engine::check_nobody_writes() const noexcept {
    if (!only_inspects_) {
        return status::ok;
    }
    bool in_use = false;
    HF_STORE_TRY(shared_state::ask_for_users(pages_.options().lock_path, in_use));
    return in_use ? status::in_use : status::ok;
}

// What the process that has the store open says about the last commit holds.
status engine::join() {
    shared_header& header = pages_.shared().header();
    std::uint64_t inode = 0;
    HF_STORE_TRY(pages_.file().inode(inode));
    if (inode != header.data_inode) {
        return status::replaced;  // maybe by a copy of itself
    }
    meta_on_media meta{};
    HF_STORE_TRY(pages_.read_meta(meta));
    if (meta.uuid != header.uuid) {
        return status::replaced;
    }
    if (header.unreplayed.load() != 0) {
        if (pages_.options().read_only) {
            HF_STORE_TRY(pages_.open_data(true, true));
            pages_.set_overlay(true);
            const status outcome = replay(pages_, free_, meta);
            if (outcome == status::ok || header.unreplayed.load() != 0) {
                return outcome;
            }
            pages_.set_overlay(false);  // a writer has come, and may have written over the log
            return pages_.open_data(true, false);
        }
        bool died = false;
        shared_lock lock;
        HF_STORE_TRY(lock.lock(pages_.shared().writer(), died));
        if (died) {
            header.died.store(1);
        }
        if (header.unreplayed.load() != 0) {
            HF_STORE_TRY(pages_.file().refresh_size());
            HF_STORE_TRY(replay(pages_, free_, meta));
            header.file_pages.store(pages_.last_root().next_page);
            header.unreplayed.store(0);
        }
    }
    return status::ok;
}

status engine::start() {
    // A process may have died while it made the store: its first meta comes last.
    bool is_new = false;
    HF_STORE_TRY(pages_.file().is_blank(meta_pages + least_log_pages * pages_.log_parts(), is_new));
    if (is_new) {
        if (pages_.options().read_only) {
            return from_errno(ENOENT);
        }
        HF_STORE_TRY(create(pages_));
    }
    meta_on_media meta{};
    HF_STORE_TRY(pages_.read_meta(meta));
    if (!is_plausible(meta, pages_.file().pages()) || meta.log_pages % pages_.log_parts() != 0) {
        return status::corrupted;
    }
    if (pages_.options().in_heap && meta.uuid != pages_.options().identity) {
        return status::replaced;
    }
    std::uint64_t inode = 0;
    HF_STORE_TRY(pages_.file().inode(inode));
    pages_.shared().initialise(meta.uuid, inode, pages_.options().reader_limit);
    pages_.shared().header().medium.store(static_cast<std::uint32_t>(pages_.file().memory().medium()));
    pages_.adopt(meta);
    if (pages_.has_record_of(meta.sequence + 1)) {
        return status::corrupted;  // the meta of a later checkpoint, durable before its log began, is lost
    }
    const bool was_closed = pages_.shared().closed_before() == meta.checksum;
    pages_.shared().header().was_closed.store(was_closed ? 1 : 0);
    pages_.shared().header().unsynced.store(1);  // a process may have died before the sync of this checkpoint
    pages_.shared().header().unpromised.store(is_new && pages_.options().no_sync && !pages_.options().in_heap ? 1 : 0);
    log_record record;
    if (meta.transaction < pages_.accepted() &&
        read_record(pages_.log_bytes(), {.sequence = meta.transaction}, pages_.own_log_key(), record)) {
        HF_STORE_TRY(recover(meta));
    }
    pages_.shared().header().file_pages.store(pages_.last_root().next_page);  // a crash may have left holes behind
    if (pages_.options().in_heap) {
        return begin_in_heap(meta);
    }
    if (is_new || was_closed || pages_.options().no_sync) {
        return status::ok;
    }
    // What a process that died had not synced is shown from here on.
    sync_turn turn = pages_.shared().turn_to_sync();
    HF_STORE_TRY(turn.take());
    const status outcome = commits_.sync_log_now();
    const bool cannot_be = outcome == from_errno(EROFS) || outcome == from_errno(EINVAL);
    return pages_.options().read_only && cannot_be ? status::ok : outcome;
}

// Who may not write recovers through another descriptor or, where that is refused, in memory.
status engine::recover(const meta_on_media& meta) {
    if (!pages_.options().read_only) {
        return replay(pages_, free_, meta);
    }
    if (!pages_.options().in_heap && pages_.open_data(false, false) == status::ok) {
        HF_STORE_TRY(replay(pages_, free_, meta));
        HF_STORE_TRY(pages_.open_data(true, false));
    } else {
        HF_STORE_TRY(pages_.open_data(true, true));
        pages_.set_overlay(true);
        pages_.shared().header().unreplayed.store(1);
        HF_STORE_TRY(replay(pages_, free_, meta));
    }
    return status::ok;
}

// Without a lock file the metas alone say what other processes committed.
status engine::take_in_metas() {
    shared_header& header = pages_.shared().header();
    sync_turn turn = pages_.shared().turn_to_sync();
    HF_STORE_TRY(turn.take());
    HF_STORE_TRY(pages_.file().refresh_size());
    meta_on_media meta{};
    HF_STORE_TRY(pages_.read_meta(meta));
    if (meta.sequence != header.checkpoint_sequence.load()) {
        if (!is_plausible(meta, pages_.file().pages())) {
            return status::corrupted;
        }
        end_overlay();  // a writer came, and what recovery rebuilt here is older than what it left
        HF_STORE_TRY(pages_.extend_addresses(meta.next_page));
        header.file_pages.store(meta.next_page);
        pages_.adopt(meta);
    }
    return status::ok;
}

void engine::end_overlay() noexcept {
    const std::lock_guard guard(overlay_mutex_);
    if (pages_.is_overlay() && pages_.file().end_overlay() == status::ok) {
        pages_.set_overlay(false);
    }
}

void engine::close() noexcept {
    if (!open_) {
        return;
    }
    open_ = false;
    pages_.shared().give_own_slots();
    // A checkpoint may lack memory: then the next who opens the store reads the log.
    shared_header& header = pages_.shared().header();
    if (pages_.shared().is_of_parent() || header.panic.load() != 0 || !pages_.shared().become_last()) {
        return;
    }
    try {
        if (!pages_.options().read_only) {
            static_cast<void>(checkpoint_now({.purpose = checkpoint_purpose::end}, lock_mode::waits));
        }
    } catch (const std::bad_alloc&) {
        return;
    }
    meta_on_media meta{};
    const bool is_synced = header.unsynced.load() == 0 || header.was_closed.load() != 0;
    if (is_synced && header.panic.load() == 0 && header.log_end.load() == 0 && pages_.read_meta(meta) == status::ok) {
        header.closed.store(meta.checksum);
    }
}

}  // namespace holdfast::store_engine
