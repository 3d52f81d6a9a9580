// One record a commit, from which recovery rebuilds the pages that the commit wrote. It says what bytes of a page
// differ from a page of the commit before, so recovery needs no order of keys, and most records are small.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "store/data_file.hpp"
#include "store/write_set.hpp"

namespace holdfast::store_engine {

/// Without a checksum. False: the record would be larger than `limit` bytes.
[[nodiscard]] bool encode_commit(const write_set& changes, const data_file& file, std::size_t limit,
                                 std::vector<std::byte>& record);

/// Sets the checksum of a record that goes to `offset` of the log.
void seal_record(std::span<std::byte> record, std::uint64_t seed, std::uint64_t offset) noexcept;

/// Its parts were checked to lie inside of it.
struct log_record {
    log_record_on_media head{};
    std::span<const std::byte> taken;
    std::span<const std::byte> returned;
    std::span<const std::byte> freed;
    std::span<const std::byte> pages;
};

/// Whether a valid record of transaction `expected` lies at the offset of the log.
[[nodiscard]] bool read_record(std::span<const std::byte> log, std::uint64_t offset, std::uint64_t seed,
                               std::uint64_t expected, log_record& record) noexcept;

template <class Item, class Visit>
void for_each_item(std::span<const std::byte> part, Visit visit) {
    for (std::size_t at = 0; at + sizeof(Item) <= part.size(); at += sizeof(Item)) {
        Item item;
        std::memcpy(&item, part.data() + at, sizeof(item));
        visit(item);
    }
}

/// Of a record: the head, and where its ranges begin. False: the part ends, or is not valid.
struct page_change {
    log_page_on_media head{};
    std::span<const std::byte> ranges;
};
[[nodiscard]] bool next_page_change(std::span<const std::byte>& pages, page_change& change) noexcept;

}  // namespace holdfast::store_engine
