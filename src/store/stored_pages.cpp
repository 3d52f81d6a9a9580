#include "store/stored_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "store/block.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store_engine {

status stored_pages::open_data(bool read_only, bool overlay) {
    HF_STORE_TRY(file_.open(options_.data_path, {.read_only = read_only,
                                                 .write_map = options_.write_map,
                                                 .random = options_.random,
                                                 .overlay = overlay,
                                                 .mode = options_.mode,
                                                 .reserve = options_.limit,
                                                 .storage = options_.storage}));
    checked_.reset();
    return map_verified(file_.reserved_pages());
}

status stored_pages::map_verified(std::uint64_t pages) noexcept {
    constexpr std::uint64_t least = std::uint64_t{1} << 18U;
    std::unique_ptr<checked_pages> longer(new (std::nothrow) checked_pages);
    if (!longer) {
        return status::no_memory;
    }
    longer->pages = std::max(2 * pages, least);
    const std::size_t size = longer->pages / 8 + 8;
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return last_error();
    }
    longer->memory = mapping(static_cast<std::byte*>(at), size);
    longer->older = std::move(checked_);
    checked_ = std::move(longer);
    all_checked_.store(checked_.get(), std::memory_order_release);
    verified_.store(static_cast<word_of_pages*>(at), std::memory_order_release);
    return status::ok;
}

void stored_pages::set_unverified(std::uint64_t start, std::uint64_t count) const noexcept {
    for (const checked_pages* one = all_checked_.load(); one != nullptr; one = one->older.get()) {
        auto* const words = reinterpret_cast<word_of_pages*>(one->memory.start());
        for (std::uint64_t number = start; number < std::min(start + count, one->pages); ++number) {
            words[number / 64].fetch_and(~(std::uint64_t{1} << (number % 64)), std::memory_order_relaxed);
        }
    }
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
        if (wanted > checked_->pages) {
            HF_STORE_TRY(map_verified(wanted));
        }
        outcome = file_.map_more(wanted);
        if (outcome == status::ok) {
            return outcome;
        }
    }
    return outcome;
}

status stored_pages::grow_file(std::uint64_t pages, std::uint64_t most) noexcept {
    HF_STORE_TRY(extend_addresses(pages));
    return file_.grow(pages, most);
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
    set_verified(number);
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

status stored_pages::load_free_list() {
    meta_on_media meta{};
    HF_STORE_TRY(read_meta(meta));
    if (meta.sequence != shared_.header().checkpoint_sequence.load(std::memory_order_relaxed)) {
        return status::corrupted;
    }
    free_.clear();
    free_list_page_ = meta.free_list;
    free_list_pages_ = (meta.free_list_size + page_size - 1) / page_size;
    if (meta.free_list != 0) {
        if (meta.free_list < meta_pages || meta.free_list >= meta.next_page ||
            meta.free_list_size > (meta.next_page - meta.free_list) * page_size) {
            return status::corrupted;
        }
        const std::span list(reinterpret_cast<const std::byte*>(file_.page(meta.free_list)), meta.free_list_size);
        if (bytes_checksum(list, meta.sequence) != meta.free_list_checksum) {
            return status::corrupted;
        }
        HF_STORE_TRY(free_.load(list, meta.next_page, meta.transaction));
        if (free_.has_free(meta.log_page, meta.log_pages) || free_.has_free(meta.free_list, free_list_pages_)) {
            return status::corrupted;
        }
    }
    free_end_ = {.sequence = meta.transaction};
    free_sequence_ = meta.sequence;
    return status::ok;
}

status stored_pages::apply(const log_record& record) {
    const std::uint64_t next_page = record.head.next_page;
    if (!reach(next_page)) {
        return status::corrupted;
    }
    bool valid = true;
    const auto is_inside = [&](std::uint64_t start, std::uint64_t count) {
        const bool inside =
            start >= meta_pages && start < next_page && count <= next_page - start && !shared_.is_in_log(start, count);
        valid = valid && inside;
        return inside;
    };
    for_each_item<extent_on_media>(record.taken, [&](const extent_on_media& extent) {
        if (is_inside(extent.start, extent.count)) {
            free_.forget(extent.start, extent.count);
            free_.set_backed(extent.start, extent.count, true);
        }
    });
    // What is free must not be freed: it would be so again after another transaction has taken it.
    const auto is_used = [&](std::uint64_t start, std::uint64_t count) {
        const bool used = is_inside(start, count) && !free_.has_free(start, count);
        valid = valid && used;
        return used;
    };
    for_each_item<extent_on_media>(record.returned, [&](const extent_on_media& extent) {
        if (is_used(extent.start, extent.count)) {
            free_.add_ready(extent.start, extent.count);
        }
    });
    for_each_item<freed_extent_on_media>(record.freed, [&](const freed_extent_on_media& freed) {
        valid = valid && freed.died == record.transaction();
        if (is_used(freed.start, freed.count)) {
            free_.add_freed(freed);
        }
    });
    return valid ? status::ok : status::corrupted;
}

// In memory. The base is one of `pages`, or of the checkpoint.
status stored_pages::rebuild(const page_change& change, std::uint64_t next_page, page_table& pages) const {
    const log_page_on_media& head = change.head;
    // A run is there as a whole, so no record asks for more memory than the log has.
    if (head.page < meta_pages || head.page >= next_page || head.pages == 0 || head.pages > next_page - head.page ||
        (head.base != 0 && head.pages != 1) || shared_.is_in_log(head.page, head.pages) ||
        (head.pages > 1 && change.ranges.size() < head.pages * page_size)) {
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
    while (!ranges.empty()) {  // checked when the change was read
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

// Pages go to the file when all are rebuilt: one that a record reads may be one that a later record wrote before the
// crash.
status stored_pages::replay(const meta_on_media& meta) {
    HF_STORE_TRY(load_free_list());
    page_table pages;
    root version{.transaction = meta.transaction, .main = meta.main, .next_page = meta.next_page};
    log_record record;
    while (version.transaction < accepted_.load() && read_record(log_bytes(), free_end_, own_log_key(), record)) {
        HF_STORE_TRY(record.head.main.item_size != 0 ? status::corrupted : apply(record));
        page_change change;
        std::span<const std::byte> rest = record.pages;
        std::uint64_t most_next_page = version.next_page + record.head.returned_count;
        for (std::uint32_t i = 0; i < record.head.page_count; ++i) {
            if (!next_page_change(rest, change)) {
                return status::corrupted;
            }
            HF_STORE_TRY(rebuild(change, record.head.next_page, pages));
            most_next_page += change.head.pages;
        }
        // Each page that was never used before is written, or given back.
        if (record.head.next_page > most_next_page) {
            return status::corrupted;
        }
        version = {.transaction = record.transaction(), .main = record.head.main, .next_page = record.head.next_page};
        free_end_ = record.end;
    }
    HF_STORE_TRY(write_rebuilt(pages, version.next_page));
    if (!overlay_) {
        HF_STORE_TRY(file_.write_again(own_log().page * page_size, free_end_.position, "store.found.again"));
    }
    shared_header& header = shared_.header();
    // Only the first opener tells others, who may have committed more afterwards.
    if (header.ready.load() != lock_ready) {
        shared_.set_root(version);
        header.log_end.store(free_end_.position);
        header.log_checksum.store(free_end_.checksum);
        header.written.store(version.transaction, std::memory_order_release);
        raise_durable(version.transaction);
    }
    return status::ok;
}

status stored_pages::write_rebuilt(const page_table& pages, std::uint64_t next_page) {
    // Only who may write can recover what lies beyond the file's end, even without records: a tree may lead there.
    if (next_page > file_.pages()) {
        HF_STORE_TRY(overlay_ ? status::access_denied : grow_file(next_page));
    }
    for (const auto& [number, content] : pages) {
        if (!overlay_) {
            HF_STORE_TRY(file_.reserve(number, 1));
            HF_STORE_TRY(file_.write(number * page_size, content->data(), page_size, "store.rebuilt.write"));
        } else if (number >= file_.pages()) {
            return status::access_denied;
        } else {
            std::memcpy(file_.writable_page(number), content->data(), page_size);
        }
        set_unverified(number, 1);  // it may have been checked as a base, with other content
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
