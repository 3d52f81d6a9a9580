#include "store/log.hpp"

#include <algorithm>
#include <cstring>

#include "store/block.hpp"

namespace holdfast::store_engine {
namespace {

// A shorter gap of equal bytes costs less than the head of another range.
constexpr std::size_t chunk = 16;
constexpr std::size_t large_chunk = 256;
constexpr std::size_t head_size = log::header_size + sizeof(commit_on_media);
static_assert(page_size % large_chunk == 0 && large_chunk % chunk == 0);

constexpr std::size_t padded(std::size_t size) noexcept { return (size + 3) & ~std::size_t{3}; }

class record_builder {
public:
    /// With room for what it begins with.
    record_builder(std::vector<std::byte>& record, std::size_t limit)
        : record_(record), limit_(limit), full_(limit < head_size) {
        record_.assign(head_size, std::byte{0});
    }
    void append(const void* bytes, std::size_t size) {
        if (record_.size() + size > limit_) {
            full_ = true;
            return;
        }
        const auto* from = static_cast<const std::byte*>(bytes);
        record_.insert(record_.end(), from, from + size);
    }
    void range(const std::byte* page, std::size_t begin, std::size_t end) {
        const log_range_on_media head{.offset = static_cast<std::uint32_t>(begin),
                                      .size = static_cast<std::uint32_t>(end - begin)};
        append(&head, sizeof(head));
        append(page + begin, end - begin);
        constexpr std::uint32_t zeros = 0;
        append(&zeros, padded(end - begin) - (end - begin));
        ++ranges_;
    }
    void page(const dirty_page& dirty, const data_file& file);
    [[nodiscard]] bool full() const noexcept { return full_; }

private:
    void differences(const std::byte* page, const std::byte* base);
    void contents(const page_header& page);

    std::vector<std::byte>& record_;
    std::size_t limit_;
    bool full_;
    std::uint32_t ranges_ = 0;
};

bool same_chunk(const std::byte* a, const std::byte* b) noexcept {
    std::uint64_t left[2];
    std::uint64_t right[2];
    std::memcpy(left, a, chunk);
    std::memcpy(right, b, chunk);
    return ((left[0] ^ right[0]) | (left[1] ^ right[1])) == 0;
}

void record_builder::differences(const std::byte* page, const std::byte* base) {
    for (std::size_t at = 0; at < page_size;) {
        // Most of a page is as before, and the C library compares much at once.
        if (at % large_chunk == 0 && std::memcmp(page + at, base + at, large_chunk) == 0) {
            at += large_chunk;
            continue;
        }
        if (same_chunk(page + at, base + at)) {
            at += chunk;
            continue;
        }
        std::size_t end = at + chunk;
        while (end < page_size && !same_chunk(page + end, base + end)) {
            end += chunk;
        }
        range(page, at, end);
        at = end;
    }
}

// All but the space between slots and nodes.
void record_builder::contents(const page_header& page) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&page);
    constexpr std::size_t block = offsetof(page_header, block);
    switch (page.block.kind) {
        case page_kind::run: range(bytes, 0, page.run_pages * page_size); break;
        case page_kind::packed:
            range(bytes, 0, block + sizeof(block_header) + std::size_t{page.block.count} * page.block.item_size);
            break;
        default:
            range(bytes, 0, block + sizeof(block_header) + page.block.count * sizeof(std::uint16_t));
            if (page.block.upper < page.block.capacity) {
                range(bytes, block + page.block.upper, page_size);
            }
    }
}

void record_builder::page(const dirty_page& dirty, const data_file& file) {
    const std::size_t at = record_.size();
    log_page_on_media head{.page = dirty.page, .base = dirty.base, .pages = dirty.pages, .range_count = 0};
    append(&head, sizeof(head));
    ranges_ = 0;
    const page_header* page = file.writable_page(dirty.page);
    if (dirty.base != 0) {
        differences(reinterpret_cast<const std::byte*>(page),
                    reinterpret_cast<const std::byte*>(file.page(dirty.base)));
    } else {
        contents(*page);
    }
    head.range_count = ranges_;
    if (!full_) {
        std::memcpy(record_.data() + at, &head, sizeof(head));
    }
}

}  // namespace

std::uint64_t log_key(const std::array<std::uint8_t, 16>& uuid, std::uint64_t sequence) noexcept {
    std::uint64_t identity = 0;
    std::memcpy(&identity, uuid.data(), sizeof(identity));
    return identity ^ sequence * 0xD6E8FEB86659FD93U;
}

bool encode_commit(const write_set& changes, const data_file& file, std::size_t limit, std::vector<std::byte>& record) {
    record_builder builder(record, limit);
    commit_on_media head{.main = changes.version.main,
                         .next_page = changes.version.next_page,
                         .taken_count = static_cast<std::uint32_t>(changes.taken.size()),
                         .returned_count = static_cast<std::uint32_t>(changes.loose.size()),
                         .freed_count = static_cast<std::uint32_t>(changes.freed.size()),
                         .page_count = 0};
    builder.append(changes.taken.data(), changes.taken.size() * sizeof(extent_on_media));
    for (const std::uint64_t page : changes.loose) {
        const extent_on_media extent{.start = page, .count = 1};
        builder.append(&extent, sizeof(extent));
    }
    builder.append(changes.freed.data(), changes.freed.size() * sizeof(freed_extent_on_media));
    for (const dirty_page& dirty : changes.dirty) {
        if (dirty.live) {
            builder.page(dirty, file);
            ++head.page_count;
        }
        if (builder.full()) {
            return false;
        }
    }
    constexpr std::uint64_t zeros = 0;
    builder.append(&zeros, (8 - record.size() % 8) % 8);
    if (builder.full()) {
        return false;
    }
    std::memcpy(record.data() + log::header_size, &head, sizeof(head));
    return true;
}

bool read_record(std::span<const std::byte> log, const log::mark& before, std::uint64_t key,
                 log_record& record) noexcept {
    const auto rest = log.subspan(std::min<std::uint64_t>(before.position, log.size()));
    const auto header = log::next_header(rest, before, key);
    log::record found;
    if (!header || !log::read_record(*header, rest, before.position, key, found) ||
        found.payload.size() < sizeof(record.head)) {
        return false;
    }
    const commit_on_media& head = record.head;
    std::memcpy(&record.head, found.payload.data(), sizeof(head));
    record.end = found.end;
    std::span<const std::byte> parts = found.payload.subspan(sizeof(head));
    const std::size_t taken = std::size_t{head.taken_count} * sizeof(extent_on_media);
    const std::size_t returned = std::size_t{head.returned_count} * sizeof(extent_on_media);
    const std::size_t freed = std::size_t{head.freed_count} * sizeof(freed_extent_on_media);
    if (taken + returned + freed > parts.size()) {
        return false;
    }
    record.taken = parts.first(taken);
    record.returned = parts.subspan(taken, returned);
    record.freed = parts.subspan(taken + returned, freed);
    record.pages = parts.subspan(taken + returned + freed);
    return true;
}

bool next_page_change(std::span<const std::byte>& pages, page_change& change) noexcept {
    if (pages.size() < sizeof(change.head)) {
        return false;
    }
    std::memcpy(&change.head, pages.data(), sizeof(change.head));
    std::size_t at = sizeof(change.head);
    const std::uint64_t most = std::uint64_t{change.head.pages} * page_size;
    for (std::uint32_t i = 0; i < change.head.range_count; ++i) {
        log_range_on_media range{};
        if (pages.size() - at < sizeof(range)) {
            return false;
        }
        std::memcpy(&range, pages.data() + at, sizeof(range));
        at += sizeof(range);
        if (range.offset > most || range.size > most - range.offset || padded(range.size) > pages.size() - at) {
            return false;
        }
        at += padded(range.size);
    }
    change.ranges = pages.subspan(sizeof(change.head), at - sizeof(change.head));
    pages = pages.subspan(at);
    return true;
}

}  // namespace holdfast::store_engine
