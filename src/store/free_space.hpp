// Pages that no tree uses: the next transaction may take them, or a reader, or the last checkpoint, may still reach
// them. A page born in transaction b that died in d is ready as soon as no snapshot s has b <= s < d. (LMDB asks only
// for the oldest reader, so one that stays keeps all later pages.)
//
// Each process that writes keeps them in memory, from the list of the last checkpoint and the records of the log since.
// Thread safety: used under the store's write lock.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "store/status.hpp"
#include "store/store_format.hpp"

namespace holdfast::store_engine {

class free_space {
public:
    void clear() noexcept;

    /// The lowest page that has a block; 0: there is none.
    [[nodiscard]] std::uint64_t take_backed() noexcept;
    /// The lowest `count` pages in a row; 0: there are none. The caller asks is_backed() before use.
    [[nodiscard]] std::uint64_t take_run(std::uint64_t count) noexcept;
    void add_ready(std::uint64_t start, std::uint64_t count);
    /// Pages of a tree until transaction `died`.
    void add_freed(const freed_extent_on_media& freed);
    /// Another process took these pages, which are ready or freed here.
    void forget(std::uint64_t start, std::uint64_t count) noexcept;

    /// Makes ready what none of the snapshots, sorted and distinct, sees.
    void release(std::span<const std::uint64_t> snapshots);
    /// Whether release() of these would make any page ready.
    [[nodiscard]] bool would_release(std::span<const std::uint64_t> snapshots) const noexcept;

    [[nodiscard]] std::uint64_t ready_pages() const noexcept { return ready_count_; }
    /// Ready, or freed.
    [[nodiscard]] std::uint64_t all_pages() const noexcept;
    /// Ready pages that are known to have blocks.
    [[nodiscard]] std::uint64_t backed_pages() const noexcept { return backed_count_; }
    [[nodiscard]] bool is_ready(std::uint64_t page) const noexcept { return bit(ready_, page); }
    /// Whether the page is in no tree of a version.
    [[nodiscard]] bool is_free_in(std::uint64_t page, std::uint64_t version) const noexcept {
        return is_ready(page) || (page < died_.size() && died_[page] != 0 && died_[page] <= version);
    }
    /// Whether a transaction may take any of the pages, now or later.
    [[nodiscard]] bool has_free(std::uint64_t start, std::uint64_t count) const noexcept;

    /// Whether it is known to have blocks of the file system.
    [[nodiscard]] bool is_backed(std::uint64_t page) const noexcept { return !bit(holes_, page); }
    void set_backed(std::uint64_t start, std::uint64_t count, bool backed);
    /// Whether one of the pages in [start, end) may have none.
    [[nodiscard]] bool has_holes(std::uint64_t start, std::uint64_t end) const noexcept;
    /// The lowest ready pages, at most `limit`, where these may have no blocks.
    [[nodiscard]] extent_on_media lowest_without_blocks(std::uint64_t limit) noexcept;
    /// The first ready pages in a row from `from` on that may have no blocks, at most `limit`; count 0: there are none.
    [[nodiscard]] extent_on_media run_without_blocks(std::uint64_t from, std::uint64_t limit) const noexcept;
    [[nodiscard]] std::vector<extent_on_media> ready_runs() const;
    /// Drops ready pages at the end; returns where they began.
    [[nodiscard]] std::uint64_t cut(std::uint64_t next_page);

    /// As on media (docs/store-format.md), where the pages of `lent` are ready, too.
    void serialise(std::vector<std::byte>& list, std::span<const extent_on_media> lent) const;
    /// By an extent, with the same meaning, where one has two pages or more.
    static void lengthen(std::vector<std::byte>& list);
    /// Of a checkpoint. corrupted: it is not valid.
    [[nodiscard]] status load(std::span<const std::byte> list, std::uint64_t next_page, std::uint64_t transaction);

private:
    [[nodiscard]] static bool bit(const std::vector<std::uint64_t>& bits, std::uint64_t page) noexcept {
        return page / 64 < bits.size() && (bits[page / 64] >> (page % 64) & 1U) != 0;
    }
    void reserve(std::uint64_t pages);
    void set_ready(std::uint64_t page) noexcept;
    void clear_ready(std::uint64_t page) noexcept;
    void place(const freed_extent_on_media& freed, std::span<const std::uint64_t> snapshots);

    std::vector<std::uint64_t> ready_;  ///< a bit a page
    std::vector<std::uint64_t> holes_;  ///< a bit a page: may have no blocks
    std::vector<std::uint64_t> died_;   ///< of a freed page, else 0
    std::uint64_t ready_count_ = 0;
    std::uint64_t backed_count_ = 0;
    std::uint64_t first_word_ = 0;                                         ///< no word of ready_ below has a bit
    std::uint64_t first_backed_word_ = 0;                                  ///< nor, below, one of a page with a block
    std::uint64_t failed_run_ = ~std::uint64_t{0};                         ///< no run of so many pages is to be found
    std::vector<freed_extent_on_media> incoming_;                          ///< not yet compared with the snapshots
    std::map<std::uint64_t, std::vector<freed_extent_on_media>> blocked_;  ///< by a snapshot that sees them
};

}  // namespace holdfast::store_engine
