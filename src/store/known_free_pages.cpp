#include "store/known_free_pages.hpp"

#include <span>

#include "store/page_checksum.hpp"

namespace holdfast::store_engine {

status known_free_pages::load(const stored_pages& of) {
    meta_on_media meta{};
    HF_STORE_TRY(of.read_meta(meta));
    if (meta.sequence != of.shared().header().checkpoint_sequence.load(std::memory_order_relaxed)) {
        return status::corrupted;
    }
    space.clear();
    list_page = meta.free_list;
    list_pages = (meta.free_list_size + page_size - 1) / page_size;
    if (meta.free_list != 0) {
        if (meta.free_list < meta_pages || meta.free_list >= meta.next_page ||
            meta.free_list_size > (meta.next_page - meta.free_list) * page_size) {
            return status::corrupted;
        }
        const std::span list(reinterpret_cast<const std::byte*>(of.file().page(meta.free_list)), meta.free_list_size);
        if (bytes_checksum(list, meta.sequence) != meta.free_list_checksum) {
            return status::corrupted;
        }
        HF_STORE_TRY(space.load(list, meta.next_page, meta.transaction));
        if (space.has_free(meta.log_page, meta.log_pages) || space.has_free(meta.free_list, list_pages)) {
            return status::corrupted;
        }
    }
    end = {.sequence = meta.transaction};
    checkpoint = meta.sequence;
    return status::ok;
}

status known_free_pages::apply(stored_pages& of, const log_record& record) {
    const std::uint64_t next_page = record.head.next_page;
    if (!of.reach(next_page)) {
        return status::corrupted;
    }
    bool valid = true;
    const auto is_inside = [&](std::uint64_t start, std::uint64_t count) {
        const bool inside = start >= meta_pages && start < next_page && count <= next_page - start &&
                            !of.shared().is_in_log(start, count);
        valid = valid && inside;
        return inside;
    };
    for_each_item<extent_on_media>(record.taken, [&](const extent_on_media& extent) {
        if (is_inside(extent.start, extent.count)) {
            space.forget(extent.start, extent.count);
            space.set_backed(extent.start, extent.count, true);
        }
    });
    // What is free must not be freed: it would be so again after another transaction has taken it.
    const auto is_used = [&](std::uint64_t start, std::uint64_t count) {
        const bool used = is_inside(start, count) && !space.has_free(start, count);
        valid = valid && used;
        return used;
    };
    for_each_item<extent_on_media>(record.returned, [&](const extent_on_media& extent) {
        if (is_used(extent.start, extent.count)) {
            space.add_ready(extent.start, extent.count);
        }
    });
    for_each_item<freed_extent_on_media>(record.freed, [&](const freed_extent_on_media& freed) {
        valid = valid && freed.died == record.transaction();
        if (is_used(freed.start, freed.count)) {
            space.add_freed(freed);
        }
    });
    return valid ? status::ok : status::corrupted;
}

}  // namespace holdfast::store_engine
