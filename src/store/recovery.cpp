#include "store/recovery.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace holdfast::store_engine {
namespace {

using page_content = std::array<std::byte, page_size>;
using page_table = std::unordered_map<std::uint64_t, std::unique_ptr<page_content>>;

// In memory. The base is one of `pages`, or of the checkpoint.
status rebuild(const stored_pages& of, const page_change& change, std::uint64_t next_page, page_table& pages) {
    const log_page_on_media& head = change.head;
    // A run is there as a whole, so no record asks for more memory than the log has.
    if (head.page < meta_pages || head.page >= next_page || head.pages == 0 || head.pages > next_page - head.page ||
        (head.base != 0 && head.pages != 1) || of.shared().is_in_log(head.page, head.pages) ||
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
            HF_STORE_TRY(of.get(head.base, std::min(next_page, of.file().pages()), base));
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

status write_rebuilt(stored_pages& of, const page_table& pages, std::uint64_t next_page) {
    // Only who may write can recover what lies beyond the file's end, even without records: a tree may lead there.
    if (next_page > of.file().pages()) {
        HF_STORE_TRY(of.is_overlay() ? status::access_denied : of.grow_file(next_page));
    }
    HF_STORE_TRY(of.is_overlay() ? status::ok : of.extend_addresses(next_page));
    for (const auto& [number, content] : pages) {
        if (!of.is_overlay()) {
            HF_STORE_TRY(of.file().reserve(number, 1));
            HF_STORE_TRY(of.file().write(number * page_size, content->data(), page_size, "store.rebuilt.write"));
        } else if (number >= of.file().pages()) {
            return status::access_denied;
        } else {
            std::memcpy(of.file().writable_page(number), content->data(), page_size);
        }
        of.checked().remove(number, 1);  // it may have been checked as a base, with other content
    }
    return status::ok;
}

}  // namespace

// Pages go to the file when all are rebuilt: one that a record reads may be one that a later record wrote before the
// crash.
status replay(stored_pages& of, known_free_pages& free, const meta_on_media& meta) {
    HF_STORE_TRY(free.load(of));
    page_table pages;
    root version{.transaction = meta.transaction, .main = meta.main, .next_page = meta.next_page};
    log_record record;
    while (version.transaction < of.accepted() && read_record(of.log_bytes(), free.end, of.own_log_key(), record)) {
        HF_STORE_TRY(record.head.main.item_size != 0 ? status::corrupted : free.apply(of, record));
        page_change change;
        std::span<const std::byte> rest = record.pages;
        std::uint64_t most_next_page = version.next_page + record.head.returned_count;
        for (std::uint32_t i = 0; i < record.head.page_count; ++i) {
            if (!next_page_change(rest, change)) {
                return status::corrupted;
            }
            HF_STORE_TRY(rebuild(of, change, record.head.next_page, pages));
            most_next_page += change.head.pages;
        }
        // Each page that was never used before is written, or given back.
        if (record.head.next_page > most_next_page) {
            return status::corrupted;
        }
        version = {.transaction = record.transaction(), .main = record.head.main, .next_page = record.head.next_page};
        free.end = record.end;
    }
    HF_STORE_TRY(write_rebuilt(of, pages, version.next_page));
    if (!of.is_overlay()) {
        HF_STORE_TRY(of.file().write_again(of.own_log().page * page_size, free.end.position, "store.found.again"));
    }
    shared_header& header = of.shared().header();
    // Only the first opener tells others, who may have committed more afterwards.
    if (header.ready.load() != lock_ready) {
        of.shared().set_root(version);
        header.log_end.store(free.end.position);
        header.log_checksum.store(free.end.checksum);
        header.written.store(version.transaction, std::memory_order_release);
        of.raise_durable(version.transaction);
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
