// One record a commit, from which recovery rebuilds the pages that the commit wrote. It says what bytes of a page
// differ from a page of the commit before, so recovery needs no order of keys, and most records are small.
//
// A record counts if and only if its checksum is right, its transaction follows that of the record before, and it has
// that one's checksum. Who writes after a crash begins an epoch, and first makes void what lies where its record goes.
// So no record of an earlier writer follows one of a later writer, or is completed by it, even where both wrote the
// same bytes (docs/decisions/0036-one-log.md, LOG-1 and LOG-2).
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

/// Where a record of the log ends, or a checkpoint.
struct log_mark {
    std::uint64_t transaction = 0;
    std::uint64_t offset = 0;
    std::uint64_t checksum = 0;  ///< of the record; 0: there is none behind the checkpoint
};

/// Chains a record to what lies before it, and sets its checksum. Returns where it ends.
log_mark seal_record(std::span<std::byte> record, std::uint64_t seed, const log_mark& before,
                     std::uint64_t epoch) noexcept;

/// Its parts were checked to lie inside of it.
struct log_record {
    log_record_on_media head{};
    log_mark end;
    std::span<const std::byte> taken;
    std::span<const std::byte> returned;
    std::span<const std::byte> freed;
    std::span<const std::byte> pages;
};

/// Whether a valid record follows.
[[nodiscard]] bool read_record(std::span<const std::byte> log, const log_mark& before, std::uint64_t seed,
                               log_record& record) noexcept;

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
