#include "segment/commit/commit_record.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/units.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;

constexpr std::uint64_t alignment = 8;
/// Bytes that are compared at once, and so many that are the same end a range.
constexpr std::uint64_t step = 16;
/// A page of which more has changed goes into the record whole.
constexpr std::uint64_t most_changed = page_size / 4 * 3;
constexpr std::uint64_t head_size = sizeof(commit_head_on_media) + superblock_used;

failure malformed(std::string found, std::string expected) {
    return failure{failure_code::corrupt, {}, "record of a commit", std::move(found), std::move(expected), {}, 0};
}

void append_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
    to.insert(to.end(), bytes.begin(), bytes.end());
}

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
    append_bytes(to, std::as_bytes(std::span{&value, 1}));
}

void pad(std::vector<std::byte>& to) { to.resize(base::align_up(to.size(), alignment)); }

/// Empty where the payload is shorter.
std::span<const std::byte> take(std::span<const std::byte>& from, std::uint64_t bytes) noexcept {
    if (from.size() < bytes) {
        return {};
    }
    const auto taken = from.first(bytes);
    from = from.subspan(std::min<std::uint64_t>(from.size(), base::align_up(bytes, alignment)));
    return taken;
}

}  // namespace

record_writer::record_writer(std::uint64_t most, part_sink take_part)
    : most_(base::align_down(most, alignment) - head_size), take_part_(take_part) {}

base::result<void> record_writer::make_room(std::uint64_t bytes) {
    if (entries_.empty() || entries_.size() + bytes <= most_) {
        return {};
    }
    HF_TRY(take_part_(entries_));
    ++parts_;
    entries_.clear();
    return {};
}

void record_writer::put(std::uint64_t place, entry_kind kind, std::uint64_t count) {
    append(entries_, commit_entry_on_media{place, kind, static_cast<std::uint32_t>(count)});
}

base::result<void> record_writer::pages(std::uint64_t place, std::span<const std::byte> content) {
    while (!content.empty()) {
        HF_TRY(make_room(sizeof(commit_entry_on_media) + page_size));
        const std::uint64_t room = (most_ - entries_.size() - sizeof(commit_entry_on_media)) / page_size;
        const std::uint64_t count = std::min<std::uint64_t>(room, content.size() / page_size);
        put(place, entry_kind::pages, count);
        append_bytes(entries_, content.first(count * page_size));
        content = content.subspan(count * page_size);
        place += count;
    }
    return {};
}

base::result<void> record_writer::home(std::uint64_t place, std::uint64_t count) {
    constexpr std::uint64_t at_once = std::uint64_t{1} << 31U;
    while (count > 0) {
        const std::uint64_t now = std::min(count, at_once);
        HF_TRY(make_room(sizeof(commit_entry_on_media)));
        put(place, entry_kind::home, now);
        place += now;
        count -= now;
    }
    return {};
}

void record_writer::find_ranges(const std::byte* page, const std::byte* before) {
    ranges_.clear();
    const auto differs = [&](std::uint64_t at) { return std::memcmp(page + at, before + at, step) != 0; };
    for (std::uint64_t at = 0; at < page_size; at += step) {
        if (!differs(at)) {
            continue;
        }
        std::uint64_t begin = at;
        while (page[begin] == before[begin]) {
            ++begin;
        }
        while (at + step < page_size && differs(at + step)) {
            at += step;
        }
        std::uint64_t end = at + step;
        while (page[end - 1] == before[end - 1]) {
            --end;
        }
        ranges_.push_back({begin, end});
    }
}

base::result<void> record_writer::difference(std::uint64_t place, const std::byte* page, const std::byte* before) {
    find_ranges(page, before);
    if (ranges_.empty()) {
        return {};
    }
    std::uint64_t bytes = ranges_.size() * sizeof(changed_range_on_media);
    for (const range& one : ranges_) {
        bytes += one.end - one.begin;
    }
    if (bytes > most_changed) {
        return pages(place, {page, page_size});
    }
    HF_TRY(make_room(sizeof(commit_entry_on_media) + bytes + alignment));
    put(place, entry_kind::ranges, ranges_.size());
    for (const range& one : ranges_) {
        append(entries_, changed_range_on_media{static_cast<std::uint16_t>(one.begin),
                                                static_cast<std::uint16_t>(one.end - one.begin)});
    }
    for (const range& one : ranges_) {
        append_bytes(entries_, {page + one.begin, one.end - one.begin});
    }
    pad(entries_);
    return {};
}

std::vector<std::byte> record_writer::finish(const superblock_on_media& superblock) {
    std::vector<std::byte> payload;
    payload.reserve(head_size + entries_.size());
    payload.resize(head_size);
    const commit_head_on_media head{static_cast<std::uint32_t>(superblock_used), parts_};
    std::memcpy(payload.data(), &head, sizeof head);
    std::memcpy(payload.data() + sizeof head, &superblock, superblock_used);
    append_bytes(payload, entries_);
    return payload;
}

base::result<commit_head> take_head(std::span<const std::byte>& payload) {
    commit_head_on_media head{};
    const auto fixed = take(payload, sizeof head);
    if (fixed.empty()) {
        return malformed(fmt::format("{} bytes", payload.size()), "a head");
    }
    std::memcpy(&head, fixed.data(), sizeof head);
    if (head.superblock_size != superblock_used || payload.size() < superblock_used) {
        return malformed(fmt::format("a superblock of {} bytes", head.superblock_size),
                         fmt::format("{}", superblock_used));
    }
    base::result<commit_head> taken{commit_head{}};
    const auto superblock = std::as_writable_bytes(std::span{&taken->superblock, 1});
    std::ranges::copy(take(payload, superblock_used), superblock.begin());
    std::ranges::fill(superblock.subspan(superblock_used), std::byte{0});
    seal(taken->superblock);
    taken->parts = head.parts;
    return taken;
}

base::result<commit_entry> take_entry(std::span<const std::byte>& payload) {
    commit_entry_on_media head{};
    const auto fixed = take(payload, sizeof head);
    if (fixed.empty()) {
        return malformed(fmt::format("{} bytes behind the last entry", payload.size()), "an entry");
    }
    std::memcpy(&head, fixed.data(), sizeof head);
    commit_entry entry{head.place, head.kind, head.count, {}, {}};
    if (head.count == 0 || page_of_place(head.place) + head.count > std::uint64_t{1} << place_page_bits) {
        return malformed(fmt::format("{} pages from {:#x} on", head.count, head.place), "pages of one file");
    }
    if (head.kind == entry_kind::home) {
        return entry;
    }
    if (head.kind == entry_kind::pages) {
        entry.bytes = take(payload, entry.count * page_size);
        return entry.bytes.empty() ? base::result<commit_entry>(malformed("fewer", "the entry's pages")) : entry;
    }
    const std::uint64_t table = entry.count * sizeof(changed_range_on_media);
    if (head.kind != entry_kind::ranges || entry.count > page_size || payload.size() < table) {
        return malformed(fmt::format("kind {}, {}", static_cast<std::uint32_t>(head.kind), head.count),
                         "kind 1 to 3, and as many");
    }
    entry.ranges = payload.first(table);
    std::uint64_t bytes = 0;
    std::uint64_t end = 0;
    for (std::uint64_t i = 0; i < entry.count; ++i) {
        changed_range_on_media range{};
        std::memcpy(&range, entry.ranges.data() + i * sizeof range, sizeof range);
        if (range.length == 0 || range.offset < end || range.offset + range.length > page_size) {
            return malformed(fmt::format("{} bytes at {}", range.length, range.offset), "ascending ranges of a page");
        }
        end = range.offset + range.length;
        bytes += range.length;
    }
    const auto all = take(payload, table + bytes);
    entry.bytes = all.empty() ? all : all.subspan(table);
    entry.count = 1;
    return entry.bytes.empty() ? base::result<commit_entry>(malformed("fewer", "the bytes of the ranges")) : entry;
}

}  // namespace holdfast::segment
