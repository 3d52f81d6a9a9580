#include "store/stored_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "store/block.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store_engine {

void stored_pages::configure(const engine_options& options) {
    options_ = options;
    medium_.reset();
    limit_.store(options.limit);
    if (options.in_heap) {
        accepted_.store(options.accepted);
    }
}

status stored_pages::open_data(bool read_only, bool overlay) {
    HF_STORE_TRY(file_.open(options_.data_path, {.read_only = read_only,
                                                 .write_map = options_.write_map,
                                                 .random = options_.random,
                                                 .overlay = overlay,
                                                 .emulated = options_.emulated,
                                                 .medium = medium_,
                                                 .mode = options_.mode,
                                                 .reserve = options_.limit,
                                                 .storage = options_.storage}));
    medium_ = file_.memory().medium();
    in_memory_ = file_.in_memory();
    return checked_.begin_anew(file_.reserved_pages());
}

// Twice as many as before, so that all ranges together are no more than twice the last.
status stored_pages::extend_addresses(std::uint64_t pages) noexcept {
    if (pages <= file_.reserved_pages()) {
        return status::ok;
    }
    const std::lock_guard guard(addresses_mutex_);
    const std::uint64_t before = file_.reserved_pages();
    if (pages <= before) {
        return status::ok;
    }
    status outcome = status::no_memory;
    for (const std::uint64_t wanted : {std::max(2 * before, pages + pages / 4), pages}) {
        if (wanted > checked_.pages()) {
            HF_STORE_TRY(checked_.extend(wanted));
        }
        outcome = file_.map_more(wanted);
        if (outcome == status::ok) {
            return outcome;
        }
    }
    return outcome;
}

// Another process may have made the file larger.
bool stored_pages::reach(std::uint64_t pages) noexcept {
    return pages <= max_pages && extend_addresses(pages) == status::ok;
}

status stored_pages::reach_last_commit() noexcept {
    root last{};
    return shared_.get_root(shared_.header().written.load(), last) && extend_addresses(last.next_page) != status::ok
               ? status::map_resized
               : status::ok;
}

status stored_pages::grow_file(std::uint64_t pages, std::uint64_t most) noexcept {
    HF_STORE_TRY(extend_addresses(pages));
    const std::uint64_t before = file_.pages();
    HF_STORE_TRY(file_.grow(pages, most));
    if (!file_.memory().is_there() || file_.pages() == before) {
        return status::ok;
    }
    const status outcome = file_.sync_all("store.grow.sync");
    if (outcome != status::ok) {
        file_.set_pages(before);
    }
    return outcome;
}

status stored_pages::verify(std::uint64_t number, std::uint64_t next_page) const {
    if (number < meta_pages || number >= next_page || next_page > file_.reserved_pages()) {
        return status::page_not_found;
    }
    const page_header& page = *file_.page(number);
    const bool is_run = page.block.kind == page_kind::run;
    const std::uint64_t count = is_run ? page.run_pages : 1;
    // No check helps where the log is written over the page.
    if (count == 0 || count > next_page - number || shared_.is_in_log(number, count) ||
        (is_run ? page.block.count != 0 : page.run_pages != 1 || !is_valid(page.block, block_capacity))) {
        return status::corrupted;
    }
    // A transaction in progress would take a page from the future for its own.
    if (page.birth > shared_.header().written.load(std::memory_order_acquire) ||
        page.checksum != page_checksum(page, number)) {
        return status::corrupted;
    }
    checked_.add(number);
    return status::ok;
}

root stored_pages::last_root() const noexcept {
    root version{};
    while (!shared_.get_root(shared_.header().durable.load(std::memory_order_acquire), version)) {
    }
    return version;
}

status stored_pages::read_meta(meta_on_media& best) const {
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
        const bool is_known = options_.in_heap
                                  ? meta.version == version_in_heap
                                  : meta.version >= version_without_long_keys && meta.version <= store_version;
        other_version = !is_known || meta.page_bytes != page_size;
        if (!other_version && meta.checksum == meta_checksum(meta) && meta.sequence % meta_pages == number &&
            meta.transaction <= accepted_.load() && (!found || meta.sequence > best.sequence)) {
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

bool stored_pages::may_have_long_keys() const noexcept {
    if (options_.in_heap) {
        return true;
    }
    for (std::uint64_t page = 0; page < meta_pages; ++page) {
        meta_on_media meta{};
        std::memcpy(&meta, file_.page(page), sizeof(meta));
        if (meta.magic == store_magic && meta.version == version_without_long_keys) {
            return false;
        }
    }
    return true;
}

void stored_pages::adopt(const meta_on_media& meta) noexcept {
    shared_header& header = shared_.header();
    shared_.set_root({.transaction = meta.transaction, .main = meta.main, .next_page = meta.next_page});
    shared_.set_log(meta.log_page, meta.log_pages);
    header.log_synced.store(0);
    header.log_end.store(0);
    header.log_checksum.store(0);
    header.map_size.store(meta.map_size);
    header.checkpoint_sequence.store(meta.sequence);
    header.checkpoint_transaction.store(meta.transaction);
    header.written.store(meta.transaction, std::memory_order_release);
    raise_durable(meta.transaction);
}

void stored_pages::raise_durable(std::uint64_t transaction) noexcept {
    transaction = std::min(transaction, accepted_.load());
    std::atomic<std::uint64_t>& durable = shared_.header().durable;
    std::uint64_t now = durable.load(std::memory_order_relaxed);
    while (now < transaction && !durable.compare_exchange_weak(now, transaction)) {
    }
}

// In a heap the checkpoint before may count, with its records: the next has the other half.
stored_pages::log_area stored_pages::own_log() const noexcept {
    const shared_header& header = shared_.header();
    const std::uint64_t page = header.log_page.load(std::memory_order_relaxed);
    const std::uint64_t pages = header.log_pages.load(std::memory_order_relaxed);
    if (!options_.in_heap) {
        return {.page = page, .pages = pages};
    }
    const std::uint64_t half = pages / 2;
    return {.page = page + header.checkpoint_sequence.load(std::memory_order_relaxed) % 2 * half, .pages = half};
}

std::span<const std::byte> stored_pages::log_bytes() const noexcept {
    const log_area area = own_log();
    return {reinterpret_cast<const std::byte*>(file_.page(area.page)), area.pages * page_size};
}

bool stored_pages::has_record_of(std::uint64_t sequence) const noexcept {
    const std::span<const std::byte> log = log_bytes();
    log::record_header_on_media first;
    std::memcpy(&first, log.data(), sizeof(first));
    log_record record;
    return read_record(log, {.sequence = first.sequence - 1}, log_key(uuid(), sequence), record);
}

std::uint64_t stored_pages::limit_pages() const noexcept {
    const std::size_t own = limit_.load(std::memory_order_relaxed);
    const std::size_t bytes = own != 0 ? own : shared_.header().map_size.load(std::memory_order_relaxed);
    return bytes == 0 ? max_pages : bytes / page_size;
}

bool stored_pages::must_be_durable() const noexcept {
    return !options_.no_sync || (!in_memory_ && !reads_metas() && shared_.header().unpromised.load() == 0);
}

status stored_pages::stop_writing(status what) noexcept {
    shared_.header().panic.store(1);
    return what;
}

}  // namespace holdfast::store_engine
