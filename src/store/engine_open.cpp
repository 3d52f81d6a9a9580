// How a store is made, opened, recovered and closed.
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "store/engine.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store {
namespace {

constexpr std::uint64_t first_log_pages = 256;

bool is_plausible(const meta_on_media& meta, std::uint64_t pages) noexcept {
    return meta.log_page >= meta_pages && meta.log_pages > 0 && meta.next_page <= pages &&
           meta.log_page < meta.next_page && meta.log_pages <= meta.next_page - meta.log_page &&
           meta.main.depth <= max_depth;
}

}  // namespace

status engine::open(const engine_options& options) {
    options_ = options;
    bool first = true;
    if (options.no_lock) {
        HF_STORE_TRY(shared_.open_private());
    } else {
        const status outcome = shared_.open(options.lock_path, options.mode, first);
        if (outcome == from_errno(EROFS) && options.read_only) {
            first = true;  // nobody can write there
            HF_STORE_TRY(shared_.open_private());
        } else if (outcome != status::ok) {
            return outcome;
        }
    }
    HF_STORE_TRY(open_data(options.read_only, false));
    HF_STORE_TRY(first ? start() : join());
    shared_.header().file_pages.store(std::max(file_.pages(), shared_.header().file_pages.load()));
    if (first) {
        shared_.publish();
    }
    open_ = true;
    return status::ok;
}

status engine::open_data(bool read_only, bool overlay) {
    HF_STORE_TRY(file_.open(options_.data_path, {.read_only = read_only,
                                                 .write_map = options_.write_map,
                                                 .random = options_.random,
                                                 .overlay = overlay,
                                                 .mode = options_.mode,
                                                 .reserve = options_.limit}));
    return map_verified();
}

status engine::map_verified() {
    const std::size_t size = file_.reserved_pages() / 8 + 8;
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return last_error();
    }
    verified_memory_ = mapping(static_cast<std::byte*>(at), size);
    verified_ = static_cast<std::atomic<std::uint64_t>*>(at);
    return status::ok;
}

// Another process has the store open: what it says about the last commit holds.
status engine::join() {
    meta_on_media meta{};
    HF_STORE_TRY(read_meta(meta));
    shared_header& header = shared_.header();
    if (meta.uuid != header.uuid) {
        return status::invalid_file;  // the data file was replaced
    }
    if (header.unreplayed.load() != 0) {
        if (options_.read_only) {
            HF_STORE_TRY(open_data(true, true));
            overlay_ = true;
            return replay(meta);
        }
        bool died = false;
        shared_lock lock;
        HF_STORE_TRY(lock.lock(header.writer, died));
        if (header.unreplayed.load() != 0) {
            HF_STORE_TRY(replay(meta));
            header.unreplayed.store(0);
        }
    }
    return status::ok;
}

status engine::start() {
    if (file_.pages() == 0) {
        if (options_.read_only) {
            return from_errno(ENOENT);
        }
        HF_STORE_TRY(create());
    }
    meta_on_media meta{};
    HF_STORE_TRY(read_meta(meta));
    if (!is_plausible(meta, file_.pages())) {
        return status::corrupted;
    }
    shared_.initialise(meta.uuid, options_.reader_limit);
    adopt(meta);
    shared_.header().synced.store(meta.transaction);
    log_record record;
    if (!read_record(log_bytes(), 0, log_seed(), meta.transaction + 1, record)) {
        return status::ok;
    }
    return recover(meta);
}

// Who may not write recovers through another descriptor; where that is refused, in memory of this process.
status engine::recover(const meta_on_media& meta) {
    if (!options_.read_only) {
        HF_STORE_TRY(replay(meta));
        shared_header& header = shared_.header();
        if (!options_.no_sync) {
            HF_STORE_TRY(file_.sync_range(header.log_page * page_size, header.log_end));
            header.synced.store(header.written);
            header.log_synced.store(header.log_end);
        }
        return status::ok;
    }
    if (open_data(false, false) == status::ok) {
        HF_STORE_TRY(replay(meta));
        return open_data(true, false);
    }
    HF_STORE_TRY(open_data(true, true));
    overlay_ = true;
    shared_.header().unreplayed.store(1);
    return replay(meta);
}

status engine::create() {
    meta_on_media meta{};
    if (::getrandom(meta.uuid.data(), meta.uuid.size(), 0) != static_cast<ssize_t>(meta.uuid.size())) {
        return last_error();
    }
    const std::vector<std::byte> zeros(first_log_pages * page_size);
    HF_STORE_TRY(file_.grow(meta_pages + first_log_pages));
    HF_STORE_TRY(file_.write(meta_pages * page_size, zeros.data(), zeros.size()));
    meta.magic = store_magic;
    meta.version = store_version;
    meta.page_bytes = page_size;
    meta.next_page = meta_pages + first_log_pages;
    meta.log_page = meta_pages;
    meta.log_pages = first_log_pages;
    meta.checksum = meta_checksum(meta);
    if (!options_.no_sync) {
        HF_STORE_TRY(file_.sync_all());
    }
    HF_STORE_TRY(file_.write(0, &meta, sizeof(meta)));
    return options_.no_sync ? status::ok : file_.sync_all();
}

// The valid meta with the greater sequence. One that is not valid was being written when power failed.
status engine::read_meta(meta_on_media& best) const {
    bool found = false;
    bool ours = false;
    bool other_version = false;
    for (std::uint64_t number = 0; number < meta_pages; ++number) {
        if ((number + 1) * page_size > file_.pages() * page_size) {
            continue;
        }
        meta_on_media meta{};
        std::memcpy(&meta, file_.page(number), sizeof(meta));
        if (meta.magic != store_magic) {
            continue;
        }
        ours = true;
        other_version = meta.version != store_version || meta.page_bytes != page_size;
        if (!other_version && meta.checksum == meta_checksum(meta) && meta.sequence % meta_pages == number &&
            (!found || meta.sequence > best.sequence)) {
            best = meta;
            found = true;
        }
    }
    if (found) {
        return status::ok;
    }
    if (!ours) {
        return status::invalid_file;
    }
    return other_version ? status::version_mismatch : status::corrupted;
}

void engine::adopt(const meta_on_media& meta) noexcept {
    shared_header& header = shared_.header();
    shared_.set_root({.transaction = meta.transaction, .main = meta.main, .next_page = meta.next_page});
    header.log_page.store(meta.log_page);
    header.log_pages.store(meta.log_pages);
    header.log_synced.store(0);
    header.log_end.store(0);
    header.checkpoint_sequence.store(meta.sequence);
    header.checkpoint_transaction.store(meta.transaction);
    header.written.store(meta.transaction, std::memory_order_release);
    raise_durable(meta.transaction);
}

// Without a lock file other processes say what they committed in the metas alone.
status engine::take_in_metas() {
    shared_header& header = shared_.header();
    shared_lock lock;
    bool died = false;
    HF_STORE_TRY(lock.lock(header.syncer, died));
    HF_STORE_TRY(file_.refresh_size());
    meta_on_media meta{};
    HF_STORE_TRY(read_meta(meta));
    if (meta.sequence != header.checkpoint_sequence.load()) {
        if (!is_plausible(meta, file_.pages())) {
            return status::corrupted;
        }
        header.file_pages.store(file_.pages());
        adopt(meta);
    }
    return status::ok;
}

void engine::end_overlay() noexcept {
    const std::lock_guard guard(overlay_mutex_);
    if (overlay_ && file_.end_overlay() == status::ok) {
        overlay_ = false;
    }
}

// --- recovery -------------------------------------------------------------------------------------------------------

// Applies one change to the pages in memory. Its base is a page there, or one of the checkpoint.
status engine::rebuild(const page_change& change, std::uint64_t next_page, page_table& pages) const {
    const log_page_on_media& head = change.head;
    if (head.page < meta_pages || head.page >= next_page || head.pages == 0 || head.pages > next_page - head.page ||
        (head.base != 0 && head.pages != 1)) {
        return status::corrupted;
    }
    std::vector<std::byte> content(head.pages * page_size);
    if (head.base != 0) {
        const auto known = pages.find(head.base);
        if (known != pages.end()) {
            std::memcpy(content.data(), known->second->data(), page_size);
        } else {
            const page_header* base = nullptr;
            HF_STORE_TRY(get(head.base, std::min(next_page, file_.pages()), base));
            std::memcpy(content.data(), base, page_size);
        }
    }
    std::span<const std::byte> ranges = change.ranges;
    while (!ranges.empty()) {  // each was looked at when the change was read
        log_range_on_media range{};
        std::memcpy(&range, ranges.data(), sizeof(range));
        std::memcpy(content.data() + range.offset, ranges.data() + sizeof(range), range.size);
        ranges = ranges.subspan(sizeof(range) + (range.size + 3U) / 4U * 4U);
    }
    for (std::uint32_t i = 0; i < head.pages; ++i) {
        auto& page = pages[head.page + i];
        if (!page) {
            page = std::make_unique<page_content>();
        }
        std::memcpy(page->data(), content.data() + std::size_t{i} * page_size, page_size);
    }
    return status::ok;
}

// The records behind the checkpoint, in order. Pages go to the file when all are rebuilt: a page that one record reads
// may be one that a later record wrote before the crash.
status engine::replay(const meta_on_media& meta) {
    HF_STORE_TRY(load_free_list());
    page_table pages;
    root version{.transaction = meta.transaction, .main = meta.main, .next_page = meta.next_page};
    log_record record;
    while (read_record(log_bytes(), free_offset_, log_seed(), version.transaction + 1, record)) {
        HF_STORE_TRY(apply(record));
        page_change change;
        std::span<const std::byte> rest = record.pages;
        for (std::uint32_t i = 0; i < record.head.page_count; ++i) {
            if (!next_page_change(rest, change)) {
                return status::corrupted;
            }
            HF_STORE_TRY(rebuild(change, record.head.next_page, pages));
        }
        version = {
            .transaction = record.head.transaction, .main = record.head.main, .next_page = record.head.next_page};
        free_offset_ += record.head.size;
        free_transaction_ = version.transaction;
    }
    if (!overlay_ && version.next_page > file_.pages()) {
        HF_STORE_TRY(file_.grow(version.next_page));
    }
    for (const auto& [number, content] : pages) {
        if (!overlay_) {
            HF_STORE_TRY(file_.reserve(number, 1));
        } else if (number >= file_.pages()) {
            return status::access_denied;  // only who may write can recover what lies beyond the file's end
        }
        std::memcpy(file_.writable_page(number), content->data(), page_size);
    }
    shared_header& header = shared_.header();
    if (header.written.load() <= version.transaction) {
        shared_.set_root(version);
        header.log_end.store(free_offset_);
        header.written.store(version.transaction, std::memory_order_release);
        raise_durable(version.transaction);
    }
    return status::ok;
}

void engine::close() noexcept {
    if (!open_) {
        return;
    }
    open_ = false;
    // The memory that a checkpoint needs may be missing: then the log stays, and the next who opens the store reads it.
    if (!options_.read_only && shared_.header().panic.load() == 0 && shared_.become_last()) {
        try {
            static_cast<void>(checkpoint_now());
        } catch (const std::bad_alloc&) {
            return;
        }
    }
}

}  // namespace holdfast::store
