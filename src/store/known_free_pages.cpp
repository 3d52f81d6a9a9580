#include "store/known_free_pages.hpp"

#include <algorithm>
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
    learn_holes(of.file(), meta.next_page);
    end = {.sequence = meta.transaction};
    checkpoint = meta.sequence;
    return status::ok;
}

// Who gave blocks back, or took some, may have been killed. A copy has holes also in pages that are in use, where it
// left zeros out. Where there are too many, all behind them counts as holes.
void known_free_pages::learn_holes(const data_file& file, std::uint64_t end) {
    if (!file.tells_holes()) {
        return;
    }
    constexpr unsigned most_holes = 1024;
    std::uint64_t start = 0;
    std::uint64_t count = 0;
    std::uint64_t page = 0;
    for (unsigned holes = 0; holes < most_holes && file.find_hole(page, end, start, count); ++holes) {
        space.set_backed(page, start - page, true);
        space.set_backed(start, count, false);
        page = start + count;
    }
    if (!file.find_hole(page, end, start, count)) {
        space.set_backed(page, end - std::min(page, end), true);
    } else {
        space.set_backed(page, end - page, false);
    }
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
