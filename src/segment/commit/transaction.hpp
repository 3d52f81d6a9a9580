// The order of writes and syncs that makes one commit atomic, without mappings, so that the crash simulator can run it.
//
//     1  fresh pages home, sync           nothing of the old state is there (JRN-5), so they need no journal
//     2  journal: superblock + changed pages, sync      <- the commit point
//     3  changed pages home, sync
//     4  superblock, both copies, sync    from here the journal is void
//
// JRN-4: the journal of a commit stays whole until both superblock copies of that commit are durable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/journal.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

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
    [[nodiscard]] std::string journal() const { return directory_ + "/journal"; }
    [[nodiscard]] std::string objects() const { return directory_ + "/objects"; }
    [[nodiscard]] std::string lock() const { return directory_ + "/lock"; }
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

private:
    std::string directory_;
    std::uint32_t nodes_;
};

struct commit_plan {
    superblock_on_media superblock{};       ///< sealed
    std::vector<page_run> fresh;            ///< sorted by file, page
    std::vector<std::uint64_t> fresh_sums;  ///< XXH3-64 of each page
    std::vector<page_run> changed;          ///< sorted by file, page
    std::vector<std::uint64_t> changed_sums;
    std::vector<page_run> reserved;  ///< have space on disk from this commit on
    bool names_changed = false;      ///< files were created since the last commit
};

enum class commit_stage {
    unchanged,  ///< the commit may be tried again
    uncertain,  ///< a sync before the commit point failed: old or new state
    durable,    ///< the next open finishes the commit
    complete,
};

struct transaction_report {
    commit_stage stage = commit_stage::unchanged;
    std::uint64_t write_ns = 0;
    std::uint64_t sync_ns = 0;
    std::uint64_t written_bytes = 0;
};

/// Not thread-safe.
base::result<void> run_transaction(persist::storage& storage, const heap_paths& paths, const commit_plan& plan,
                                   transaction_report& report);

/// One copy after the other, so that one is always whole. `durable`: each is on media before the next step.
base::result<void> write_state(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                               heap_state state, bool durable = true);

/// Comes after the last commit. Makes the journal void first: a torn journal of a clean heap would be damage.
/// `superblock` is the one on media, and changes with it.
base::result<void> close_cleanly(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock);

base::result<void> sync_segment_names(persist::storage& storage, const heap_paths& paths, persist::site where);

/// Sorted by file and page.
struct pages_to_write {
    std::span<const page_run> runs;
    std::span<const std::uint64_t> sums;  ///< of each page; empty: no thread can store to the pages meanwhile
    /// The content of a page that was stored to meanwhile, by its number in `sums`. None: the write fails with
    /// concurrent_modification.
    std::optional<page_copies::replacement> elsewhere;
};

base::result<void> write_home(persist::storage& storage, const heap_paths& paths, const pages_to_write& pages,
                              persist::site write_site, persist::site sync_site, transaction_report& report);

}  // namespace holdfast::segment
