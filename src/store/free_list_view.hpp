// The list of free pages as liblmdb shows it under handle 0: by transaction, which pages it freed. Pages that any
// transaction may take are those of transaction 1.
#pragma once

#include <cstdint>
#include <vector>

#include "store/stored_pages.hpp"

namespace holdfast::store_engine {

class free_list_view {
public:
    static constexpr std::size_t no_place = ~std::size_t{0};

    /// As of this version or, where a checkpoint has passed it, of that. Reads once for a version.
    [[nodiscard]] status load(stored_pages& store, std::uint64_t version);
    [[nodiscard]] std::size_t entries() const noexcept { return records_.size(); }
    /// Moves a cursor that stands at `place`.
    [[nodiscard]] status get(std::size_t& place, MDB_val* key, MDB_val* data, MDB_cursor_op operation) const;

private:
    struct record {
        std::uint64_t transaction;
        std::vector<std::uint64_t> pages;  ///< how many there are, then the pages, the last one first
    };

    [[nodiscard]] status find(std::size_t& place, const MDB_val* key, bool range) const;

    std::vector<record> records_;
    std::uint64_t version_ = no_transaction;
};

}  // namespace holdfast::store_engine
