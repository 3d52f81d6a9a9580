// One record a commit, from which recovery rebuilds the pages that the commit wrote. It says what bytes of a page
// differ from a page of the commit before, so recovery needs no order of keys, and most records are small.
//
// The records are those of log/record_chain.hpp: what counts, and what a crash leaves, is as there. They lie one behind
// another in pages of the store, and the chain begins anew with each checkpoint (docs/store-format.md, "The log").
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "log/record_chain.hpp"
#include "store/data_file.hpp"
#include "store/write_set.hpp"

namespace holdfast::store_engine {

/// Seeds the checksums of the records behind a checkpoint.
[[nodiscard]] std::uint64_t log_key(const std::array<std::uint8_t, 16>& uuid, std::uint64_t sequence) noexcept;

/// Not sealed. False: the record would be larger than `limit` bytes.
[[nodiscard]] bool encode_commit(const write_set& changes, const data_file& file, std::size_t limit,
                                 std::vector<std::byte>& record);

/// Its parts were checked to lie inside of it.
struct log_record {
    commit_on_media head{};
    log::mark end;
    std::span<const std::byte> taken;
    std::span<const std::byte> returned;
    std::span<const std::byte> freed;
    std::span<const std::byte> pages;
    [[nodiscard]] std::uint64_t transaction() const noexcept { return end.sequence; }
};

/// Whether a record that counts follows in the log, which begins at position 0.
[[nodiscard]] bool read_record(std::span<const std::byte> log, const log::mark& before, std::uint64_t key,
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
