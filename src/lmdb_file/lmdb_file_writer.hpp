// Writes LMDB's data files of version 0.9 from sorted items, without free pages, like a compacting copy. It needs the
// memory of a few pages for each level of a tree.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lmdb_file/lmdb_file_format.hpp"

namespace holdfast_lmdb_file {

inline constexpr std::size_t written_page_size = 4096;
inline constexpr std::size_t largest_written_key = 511;

/// Offsets come in any order.
using page_sink = std::function<void(std::uint64_t offset, bytes content)>;

class page_writer {
public:
    explicit page_writer(page_sink sink) : sink_(std::move(sink)) {}
    /// The first of successive pages.
    [[nodiscard]] std::uint64_t allocate(std::uint64_t count = 1) noexcept {
        return std::exchange(next_, next_ + count);
    }
    /// Sets the page's number in `content`, whole pages.
    void write(std::uint64_t number, std::vector<std::byte>& content) const;
    [[nodiscard]] std::uint64_t last() const noexcept { return next_ - 1; }

private:
    page_sink sink_;
    std::uint64_t next_ = first_data_page;
};

/// Builds a tree from nodes in their order, leaves first.
class tree_builder {
public:
    /// `fixed_size`: of fixed duplicates, else 0.
    tree_builder(page_writer& writer, unsigned flags, std::size_t fixed_size = 0);
    /// At most largest_node() bytes with header and key.
    void add(std::string_view key, bytes data, unsigned node_flags);
    /// The data go to overflow pages.
    void add_big(std::string_view key, bytes data);
    /// Writes what is left, and returns the record, which says that there are so many items.
    [[nodiscard]] tree finish(std::uint64_t items);

private:
    struct entry {
        std::string key;
        std::uint64_t child;
    };
    /// Branches that are not written yet: a full page, and what comes behind it. So the last page can take from the one
    /// before, and none has a single child.
    struct level {
        std::vector<entry> full;
        std::vector<entry> present;
        std::size_t bytes = 0;
    };

    void flush_leaf();
    void add_entry(std::size_t at, std::string key, std::uint64_t child);
    void write_branch(std::size_t at, const std::vector<entry>& entries);

    page_writer& writer_;
    tree record_;
    std::size_t fixed_size_;
    std::vector<std::byte> leaf_;
    std::size_t lower_ = page_header;
    std::size_t upper_ = written_page_size;
    std::string first_key_;
    std::vector<level> levels_;
};

/// Gathers the duplicates of a key.
class database_writer {
public:
    /// As mdb_dbi_open().
    database_writer(page_writer& writer, unsigned flags);
    /// In order. Throws file_error where LMDB could not hold the item.
    void add(std::string_view key, std::string_view data);
    /// Between the items.
    void add_database(std::string_view name, const tree& of);
    [[nodiscard]] tree finish();

private:
    void finish_key();
    void begin_duplicate_tree();
    [[nodiscard]] std::size_t subpage_size() const noexcept;
    [[nodiscard]] std::vector<std::byte> subpage() const;

    page_writer& writer_;
    unsigned flags_;
    tree_builder builder_;
    std::uint64_t items_ = 0;
    std::string key_;
    std::vector<std::string> duplicates_;  ///< of key_, while they fit in one page
    std::size_t duplicate_bytes_ = 0;
    std::unique_ptr<tree_builder> duplicate_tree_;
    std::uint64_t duplicates_in_tree_ = 0;
    std::size_t fixed_size_ = 0;
};

/// Comes last: without meta pages a file is none of LMDB's.
void write_meta(const page_sink& sink, const page_writer& pages, const tree& main, std::uint64_t map_size);

}  // namespace holdfast_lmdb_file
