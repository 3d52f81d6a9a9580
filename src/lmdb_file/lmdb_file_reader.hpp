// Reads LMDB's data files of versions 0.9 and 1.0, and believes nothing: every offset, size, number and count is
// checked before it is used, each page is visited once, and what is read is as long as the file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lmdb_file/lmdb_file_format.hpp"

namespace holdfast_lmdb_file {

class byte_source {
public:
    byte_source() = default;
    byte_source(const byte_source&) = delete;
    byte_source& operator=(const byte_source&) = delete;
    virtual ~byte_source() = default;
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    /// All of `to` lies inside size(). Throws file_error.
    virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
};

/// Opens a file, or the data.mdb of a directory, read-only. Throws file_error.
[[nodiscard]] std::unique_ptr<byte_source> open_file(const std::string& path);

/// The views hold until it returns.
using item_function = std::function<void(std::string_view key, std::string_view data)>;

class file_reader {
public:
    /// Reads and checks the meta pages. Throws file_error; unsupported_file for another version, or an encrypted file.
    /// Checksums, which functions of a program compute, are not checked: a warning.
    explicit file_reader(const byte_source& source);

    [[nodiscard]] std::size_t page_size() const noexcept { return page_size_; }
    [[nodiscard]] const meta& newest() const noexcept { return meta_; }
    /// 1 is LMDB 0.9, 3 is LMDB 1.0.
    [[nodiscard]] std::uint32_t version() const noexcept { return how_->version; }

    struct main_item {
        std::string key;
        std::optional<tree> database;
    };

    /// Passes the records of the unnamed database, and each database that it names, in order. Throws file_error, and
    /// what the functions throw.
    void read_main(const item_function& record, const std::function<void(std::string_view, const tree&)>& database);
    /// Throws as read_main().
    void read_database(const tree& of, const item_function& item);
    /// After everything else. Throws file_error.
    void check_free_pages();

    /// What liblmdb should have left otherwise, and did no harm.
    [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

private:
    using page = std::vector<std::byte>;
    struct leaf_node {
        unsigned flags;
        std::uint32_t data_size;
        bytes key;
        bytes data;  ///< in the page
    };
    struct counts {
        std::uint64_t branches = 0;
        std::uint64_t leaves = 0;
        std::uint64_t overflow = 0;
        std::uint64_t items = 0;
        std::uint64_t branches_of_duplicates = 0;
        std::uint64_t leaves_of_duplicates = 0;
    };
    using node_function = std::function<void(const leaf_node&, counts&)>;

    /// A page, or what stands for one in a node.
    struct page_view {
        bytes content;
        const layout& how;

        [[nodiscard]] std::uint16_t field(std::size_t before_end) const {
            return load<std::uint16_t>(content, how.header - before_end);
        }
        [[nodiscard]] unsigned kind() const;
        [[nodiscard]] std::size_t item_size() const { return field(8); }
        /// As the page says, unchecked.
        [[nodiscard]] std::size_t lower() const { return how.base + field(4); }
        [[nodiscard]] std::size_t upper() const { return how.base + field(2); }
        [[nodiscard]] std::uint64_t pages() const { return load<std::uint32_t>(content, how.header - 4); }
    };
    struct found_meta {
        meta content;
        const layout* how;
    };

    [[nodiscard]] std::optional<found_meta> read_meta(std::uint64_t offset, std::size_t page_size) const;
    void read_metas();
    void find_checksums();
    void check_transaction(const std::string& where, std::uint64_t number) const;
    [[nodiscard]] page_view view(const page& of) const { return {of, *how_}; }
    [[nodiscard]] page read_page(std::uint64_t number) const;
    void claim(std::uint64_t number, std::uint64_t count);
    void check_tree(const tree& of, const std::string& what) const;
    void compare_counts(const tree& of, const counts& found, const std::string& what);
    counts walk(const tree& of, const std::string& what, const node_function& visit);
    void walk_page(std::uint64_t number, unsigned depth, const tree& of, counts& found, const node_function& visit);
    static void walk_leaf2(const page_view& of, std::size_t item_size, const std::string& where, counts& found,
                           const node_function& visit);
    [[nodiscard]] static std::vector<std::size_t> slots_of(const page_view& of, bool branch, const std::string& where);
    [[nodiscard]] static leaf_node node_at(const page_view& of, std::size_t offset, const std::string& where);
    [[nodiscard]] page read_big(const leaf_node& node, counts& found);
    void read_duplicates(const tree& of, const leaf_node& node, const item_function& item, counts& found);
    void read_node(const tree& of, const leaf_node& node, const item_function& item, counts& found);

    const byte_source& source_;
    const layout* how_ = nullptr;
    std::size_t page_size_ = 0;
    std::uint64_t pages_ = 0;  ///< of the file
    meta meta_;
    std::vector<bool> claimed_;
    std::vector<std::string> warnings_;
};

}  // namespace holdfast_lmdb_file
