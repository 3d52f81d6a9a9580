// What is free, read beside those who write: the meta says whether a checkpoint came between, checksums whether
// bytes are whole.
#include <algorithm>
#include <cstring>

#include "store/page_checksum.hpp"
#include "store/stored_pages.hpp"

namespace holdfast::store_engine {
namespace {

constexpr std::uint64_t ready = 1;  // as if the first transaction had freed it

class page_marks {
public:
    page_marks(std::vector<std::uint64_t>& died, const data_file& file) noexcept : died_(died), file_(file) {}

    [[nodiscard]] bool extend(std::uint64_t next_page) {
        if (next_page > file_.reserved_pages()) {
            return false;
        }
        died_.resize(std::max<std::size_t>(died_.size(), next_page));
        return true;
    }
    [[nodiscard]] bool mark(std::uint64_t start, std::uint64_t count, std::uint64_t died) {
        if (start > died_.size() || count > died_.size() - start) {
            return false;
        }
        std::fill_n(died_.begin() + static_cast<std::ptrdiff_t>(start), count, died);
        return true;
    }

private:
    std::vector<std::uint64_t>& died_;
    const data_file& file_;
};

bool add_list(std::span<const std::byte> list, page_marks& marks) {
    free_list_on_media head{};
    if (list.size() < sizeof(head)) {
        return false;
    }
    std::memcpy(&head, list.data(), sizeof(head));
    list = list.subspan(sizeof(head));
    const std::uint64_t ready_bytes = head.ready_count * sizeof(extent_on_media);
    if (head.ready_count > list.size() || ready_bytes > list.size()) {
        return false;
    }
    bool valid = true;
    for_each_item<extent_on_media>(list.first(ready_bytes), [&](const extent_on_media& extent) {
        valid = valid && marks.mark(extent.start, extent.count, ready);
    });
    for_each_item<freed_extent_on_media>(list.subspan(ready_bytes), [&](const freed_extent_on_media& freed) {
        valid = valid && marks.mark(freed.start, freed.count, freed.died);
    });
    return valid;
}

bool add_record(const log_record& record, page_marks& marks) {
    bool valid = marks.extend(record.head.next_page);
    const auto add = [&](const auto& extent, std::uint64_t died) {
        valid = valid && marks.mark(extent.start, extent.count, died);
    };
    for_each_item<extent_on_media>(record.taken, [&](const extent_on_media& extent) { add(extent, 0); });
    for_each_item<extent_on_media>(record.returned, [&](const extent_on_media& extent) { add(extent, ready); });
    for_each_item<freed_extent_on_media>(record.freed,
                                         [&](const freed_extent_on_media& freed) { add(freed, freed.died); });
    return valid;
}

bool read_free_pages(stored_pages& of, const meta_on_media& meta, std::uint64_t version,
                     std::vector<std::uint64_t>& died) {
    page_marks marks(died, of.file());
    died.clear();
    if (!of.reach(meta.next_page)) {
        return false;
    }
    const std::uint64_t log_pages = of.options().in_heap ? meta.log_pages / 2 : meta.log_pages;
    const std::uint64_t log_page = meta.log_page + (of.options().in_heap ? meta.sequence % 2 * log_pages : 0);
    if (!marks.extend(meta.next_page) || log_page > meta.next_page || log_pages > meta.next_page - log_page) {
        return false;
    }
    if (meta.free_list != 0) {
        if (meta.free_list > meta.next_page || meta.free_list_size > (meta.next_page - meta.free_list) * page_size) {
            return false;
        }
        const std::span list(reinterpret_cast<const std::byte*>(of.file().page(meta.free_list)), meta.free_list_size);
        if (bytes_checksum(list, meta.sequence) != meta.free_list_checksum || !add_list(list, marks)) {
            return false;
        }
    }
    const std::span log(reinterpret_cast<const std::byte*>(of.file().page(log_page)), log_pages * page_size);
    log_record record;
    for (log::mark at{.sequence = meta.transaction}; at.sequence < version; at = record.end) {
        if (!read_record(log, at, log_key(meta.uuid, meta.sequence), record) || !of.reach(record.head.next_page) ||
            !add_record(record, marks)) {
            return false;
        }
    }
    return true;
}

}  // namespace

status free_pages_at(stored_pages& of, std::uint64_t version, std::vector<std::uint64_t>& died) {
    constexpr int most_attempts = 64;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        meta_on_media meta{};
        meta_on_media after{};
        HF_STORE_TRY(of.read_meta(meta));
        const bool whole = read_free_pages(of, meta, version, died);
        HF_STORE_TRY(of.read_meta(after));
        if (after.sequence == meta.sequence) {
            return whole ? status::ok : status::corrupted;
        }
    }
    return from_errno(EAGAIN);
}

}  // namespace holdfast::store_engine
