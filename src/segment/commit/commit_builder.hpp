#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "segment/commit/committer.hpp"

namespace holdfast::segment {

struct commit_sources {
    const heap_mapping& mapping;
    const objects_file& objects;
    dirty_scanner& scanner;
    const heap_paths& paths;
    persist::storage& storage;
    const free_runs& committed_free;  ///< perhaps not all
    const free_runs& kept;            ///< pages that stay private after the commit (MAP-3)
    const lagging_home& lag;          ///< its pages stay private, too
    const noted_pages& noted;
};

class commit_builder {
public:
    commit_builder(const commit_sources& from, const free_runs& free, const space_going& going)
        : from_(from),
          free_(free),
          going_(going),
          next_free_(from.committed_free.begin()),
          next_kept_(from.kept.begin()) {}

    base::result<void> scan();
    base::result<void> check_metadata(metadata_check check) const;
    /// Comes after scan().
    void build(commit_plan& plan, commit_statistics& statistics);
    [[nodiscard]] bool empty() const noexcept;
    /// Few pages, of files and tables that keep their sizes, and all watched: pages that stay private cost a scan
    /// nothing. Comes after build().
    [[nodiscard]] bool is_small_change() const noexcept;
    /// Tells the scanner what it has cost that a small change has pages which are not watched. `waited`: others have
    /// waited so long, which they would not have. Comes after build().
    void note_loss(std::chrono::nanoseconds waited) const noexcept;
    /// No page lies beyond the files, and all are watched: pages that stay private cost a scan nothing.
    [[nodiscard]] bool is_over_files() const noexcept;
    /// All that scan() found, sorted by address.
    [[nodiscard]] const std::vector<memory_run>& found() const noexcept { return found_; }
    /// After a refused commit: a page may be freed before the next one, which then does not write it, so its checksum
    /// must match the media.
    void restore_checksums() noexcept;
    /// Drops private pages after a commit, so that the next scan starts clean. Few pages stay, protected.
    void release() noexcept;
    // Of a commit that is captured (captured_commit.hpp):
    /// What found() says, at the end.
    [[nodiscard]] std::vector<memory_run> take_found() noexcept { return std::move(found_); }
    /// Pages that scan() has found to write.
    [[nodiscard]] std::uint64_t pages() const noexcept;
    /// Comes before build(), which then looks at the copies: from now on others may store. `to` has room for pages().
    void copy_pages(std::byte* to) noexcept;
    /// In the place of release(): all pages stay private.
    void release_checksums() noexcept;

private:
    enum class content : std::uint8_t {
        none,   ///< beyond the end of the last commit
        blank,  ///< free there, and without a checksum: its content means nothing
        known,
    };
    struct checksummed_run {
        page_run run;
        std::size_t first_checksum = 0;
        content before = content::known;
        bool is_copy = false;  ///< of pages that are kept
        [[nodiscard]] bool fresh() const noexcept { return before != content::known; }
    };

    base::result<void> scan_user_runs(const std::vector<memory_run>& dirty);
    base::result<void> add_dirty(base::pages first, std::uint64_t count);
    base::result<void> add_dirty_but_for_lag(base::pages first, std::uint64_t count);
    void drop_free(base::pages first, std::uint64_t count);
    void add_user(base::pages first, std::uint64_t count);
    base::result<void> add_kept(base::pages first, std::uint64_t count);
    base::result<void> add_changed_of(std::uint64_t segment, base::pages first, std::uint64_t count, content before);
    [[nodiscard]] std::pair<content, std::uint64_t> content_before(base::pages first, std::uint64_t most);
    [[nodiscard]] bool is_blank(base::pages page, bool free) const noexcept;
    [[nodiscard]] bool is_file_below(const page_run& run) const noexcept;
    [[nodiscard]] bool is_over_file(const checksummed_run& each) const noexcept {
        return each.before != content::none && !each.is_copy && is_file_below(each.run);
    }
    /// But for what is watched.
    [[nodiscard]] bool is_small() const noexcept;
    void add(const page_run& run, content before, bool is_copy = false);
    template <class Act>
    void in_shares(Act&& act) const;
    void checksum_segment_run(const page_run& run, std::size_t first_checksum);
    void checksum_objects_run(const page_run& run, std::size_t first_checksum);
    void forget_checksums(base::pages first, base::pages end);
    void forget_checksums_of_going();
    void close_checksum_pages();
    void close_object_groups();
    [[nodiscard]] bool is_of_tables(const page_run& run) const noexcept;
    template <class Drop>
    void let_warm_go(Drop&& drop) noexcept;
    [[nodiscard]] std::uint32_t* checksum_page(std::uint64_t segment, std::uint64_t index) const noexcept;

    const commit_sources from_;
    const free_runs& free_;
    const space_going going_;
    free_runs::const_iterator next_free_;  ///< behind those that the scan has passed
    free_runs::const_iterator next_kept_;  ///< likewise
    base::pages frontier_;                 ///< when scan() began
    std::uint64_t objects_size_ = 0;       ///< likewise
    std::vector<std::unique_ptr<std::byte[]>> copies_;
    std::vector<checksummed_run> runs_;
    std::vector<std::uint64_t> checksums_;
    std::vector<bool> had_checksum_;  ///< of each page, before the commit
    std::vector<memory_run> found_;
    std::vector<std::byte*> stored_checksum_pages_;  ///< that build() has stored to
    std::vector<memory_run> dropped_;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> checksum_pages_;  ///< segment, index
    std::vector<std::uint64_t> object_groups_;
    std::vector<std::pair<std::uint32_t*, std::uint32_t>> replaced_checksums_;  ///< place, and checksum before build()
};

}  // namespace holdfast::segment
