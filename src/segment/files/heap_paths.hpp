// The names of a heap's files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

inline constexpr const char* log_prefix = "log.";

/// 0 nodes: the segments lie in the heap's directory, else in those of its nodes by turns.
class heap_paths {
public:
    explicit heap_paths(std::string directory, std::uint32_t nodes = 0)
        : directory_(std::move(directory)), nodes_(nodes) {}
    [[nodiscard]] heap_paths with_nodes(std::uint32_t nodes) const { return heap_paths(directory_, nodes); }
    [[nodiscard]] std::uint32_t nodes() const noexcept { return nodes_; }
    [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
    /// The directory that holds the heap's name, also where the path is "heap/".
    [[nodiscard]] std::string parent() const;
    [[nodiscard]] std::string superblock() const { return directory_ + "/superblock"; }
    /// A directory without `superblock` is no heap.
    [[nodiscard]] std::string unfinished_superblock() const { return directory_ + "/superblock.new"; }
    [[nodiscard]] std::string objects() const { return directory_ + "/objects"; }
    [[nodiscard]] std::string lock() const { return directory_ + "/lock"; }
    /// Made by a writer in durability `commit` (reader_table.hpp).
    [[nodiscard]] std::string readers() const { return directory_ + "/readers"; }
    /// Made when the heap is first opened in durability `atomic`.
    [[nodiscard]] std::string lanes() const { return directory_ + "/lanes"; }
    [[nodiscard]] std::string segment(std::uint64_t index) const;
    /// A link, or a directory in the heap's.
    [[nodiscard]] std::string node(std::uint64_t node) const;
    [[nodiscard]] std::string node_marker(std::uint64_t of) const { return node(of) + "/node"; }
    [[nodiscard]] std::string node_lanes(std::uint64_t of) const { return node(of) + "/lanes"; }
    [[nodiscard]] std::string node_lock(std::uint64_t of) const { return node(of) + "/lock"; }
    [[nodiscard]] std::vector<std::string> segment_directories() const;
    [[nodiscard]] std::string file(std::uint64_t id) const { return id == objects_file_id ? objects() : segment(id); }
    /// Also true for directories of nodes.
    [[nodiscard]] static bool is_heap_file(const std::string& name);
    [[nodiscard]] static bool is_node_file(const std::string& name);
    [[nodiscard]] static std::optional<std::uint64_t> node_index(std::string_view name);
    [[nodiscard]] static std::optional<std::uint64_t> segment_index(std::string_view name);
    [[nodiscard]] static std::optional<std::uint64_t> log_number(std::string_view name);

private:
    std::string directory_;
    std::uint32_t nodes_;
};

base::result<void> sync_segment_names(persist::storage& storage, const heap_paths& paths, persist::site where);

/// Of a store in the heap's directory (docs/store-format.md).
[[nodiscard]] std::string store_path(const heap_paths& paths, std::uint64_t number);
/// Nothing for names that are no store's.
[[nodiscard]] std::optional<std::uint64_t> store_number(std::string_view name);

}  // namespace holdfast::segment
