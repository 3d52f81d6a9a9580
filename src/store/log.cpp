#include "store/log.hpp"

#include <algorithm>
#include <cstring>

#include "persist/mutant.hpp"
#include "store/block.hpp"
#include "store/page_checksum.hpp"

namespace holdfast::store_engine {
namespace {

// A shorter gap of equal bytes costs less than the head of another range.
constexpr std::size_t chunk = 16;
constexpr std::size_t large_chunk = 256;
static_assert(page_size % large_chunk == 0 && large_chunk % chunk == 0);

constexpr std::size_t padded(std::size_t size) noexcept { return (size + 3) & ~std::size_t{3}; }

class record_builder {
public:
    /// With room for the record's head.
    record_builder(std::vector<std::byte>& record, std::size_t limit)
        : record_(record), limit_(limit), full_(limit < sizeof(log_record_on_media)) {
        record_.assign(sizeof(log_record_on_media), std::byte{0});
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

std::uint64_t seed_at(std::uint64_t seed, std::uint64_t offset) noexcept {
    return seed ^ (offset + 1) * 0x9E3779B97F4A7C15U;
}

}  // namespace

bool encode_commit(const write_set& changes, const data_file& file, std::size_t limit, std::vector<std::byte>& record) {
    record_builder builder(record, limit);
    log_record_on_media head{.checksum = 0,
                             .before = 0,
                             .epoch = 0,
                             .size = 0,
                             .transaction = changes.version.transaction,
                             .main = changes.version.main,
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
    head.size = record.size();
    std::memcpy(record.data(), &head, sizeof(head));
    return true;
}

log_mark seal_record(std::span<std::byte> record, std::uint64_t seed, const log_mark& before,
                     std::uint64_t epoch) noexcept {
    log_record_on_media head{};
    std::memcpy(&head, record.data(), sizeof(head));
    head.before = before.checksum;
    head.epoch = epoch;
    std::memcpy(record.data(), &head, sizeof(head));
    constexpr std::size_t covered = sizeof(head.checksum);
    const std::uint64_t sum = bytes_checksum(record.subspan(covered), seed_at(seed, before.offset));
    std::memcpy(record.data(), &sum, sizeof(sum));
    return {.transaction = head.transaction, .offset = before.offset + head.size, .checksum = sum};
}

bool read_record(std::span<const std::byte> log, const log_mark& before, std::uint64_t seed,
                 log_record& record) noexcept {
    log_record_on_media& head = record.head;
    if (before.offset > log.size() || log.size() - before.offset < sizeof(head)) {
        return false;
    }
    std::memcpy(&head, log.data() + before.offset, sizeof(head));
    if (head.size < sizeof(head) || head.size % 8 != 0 || head.size > log.size() - before.offset ||
        head.transaction != before.transaction + 1 ||
        (head.before != before.checksum && !HF_MUTANT("store.log.read.chain"))) {
        return false;
    }
    const auto bytes = log.subspan(before.offset, head.size);
    const auto rest = bytes.subspan(sizeof(head.checksum));
    if (head.checksum != bytes_checksum(rest, seed_at(seed, before.offset)) && !HF_MUTANT("store.log.read.checksum")) {
        return false;
    }
    record.end = {.transaction = head.transaction, .offset = before.offset + head.size, .checksum = head.checksum};
    const std::size_t taken = std::size_t{head.taken_count} * sizeof(extent_on_media);
    const std::size_t returned = std::size_t{head.returned_count} * sizeof(extent_on_media);
    const std::size_t freed = std::size_t{head.freed_count} * sizeof(freed_extent_on_media);
    if (taken + returned + freed > bytes.size() - sizeof(head)) {
        return false;
    }
    record.taken = bytes.subspan(sizeof(head), taken);
    record.returned = bytes.subspan(sizeof(head) + taken, returned);
    record.freed = bytes.subspan(sizeof(head) + taken + returned, freed);
    record.pages = bytes.subspan(sizeof(head) + taken + returned + freed);
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
