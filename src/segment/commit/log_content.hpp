// What the log of a heap holds behind a mark: commits that may not be home. It is right over any mixture of versions
// from the mark's on that home holds, torn pages too: each byte that changed since is set by the last record that
// changed it, and each other byte is the same in all of them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "log/log.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_record.hpp"
#include "segment/files/heap_paths.hpp"

namespace holdfast::segment {

[[nodiscard]] log::log_options log_options_of(const heap_paths& paths, const superblock_on_media& superblock);

/// Versions. What follows `last` is not read. Of records behind `home` counts only which pages are home, so that
/// nothing older is laid over them (LOG-10): what is left takes home to that version. What records up to `is_home` say
/// is home, and left out.
struct log_limits {
    std::uint64_t is_home = 0;
    std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t home = std::numeric_limits<std::uint64_t>::max();
};

class log_content {
public:
    /// Reads what follows `superblock.log_begin`. `corrupt` where a record is sound and is no commit of this heap.
    /// `kept`: of the same log, or null.
    static base::result<log_content> read(persist::storage& storage, const heap_paths& paths,
                                          const superblock_on_media& superblock, const log_limits& limits = {},
                                          log::kept_file* kept = nullptr);

    [[nodiscard]] std::uint64_t commits() const noexcept { return commits_; }
    /// Of the last commit; without one, that of read().
    [[nodiscard]] const superblock_on_media& superblock() const noexcept { return superblock_; }
    /// Of the last commit up to log_limits::home, with its end in the log as the log's beginning.
    [[nodiscard]] const superblock_on_media& home_superblock() const noexcept { return home_; }
    /// Pages that were written home, without a record of their content, by a commit that was read.
    struct home_pages {
        std::uint64_t place;
        std::uint64_t count;
        std::uint32_t commit;
    };
    [[nodiscard]] std::span<const home_pages> pages_at_home() const noexcept { return homes_; }
    /// Behind the last record that counts.
    [[nodiscard]] const log::mark& end() const noexcept { return end_; }
    /// What follows looks like a record that was begun, or damaged.
    [[nodiscard]] bool is_torn() const noexcept { return torn_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

    /// Bytes of one page.
    struct patch {
        std::uint64_t place;
        std::uint64_t at;  ///< in small_, or position in the log
        std::uint32_t commit;
        std::uint16_t offset;
        std::uint16_t length;
        bool in_log;
    };
    /// In order of places, and for one place in order of commits.
    [[nodiscard]] std::span<const patch> patches() const noexcept { return patches_; }
    [[nodiscard]] std::span<const patch> patches(std::uint64_t first_place, std::uint64_t last_place) const noexcept;

private:
    friend class patch_reader;
    struct sizes {
        std::uint64_t frontier;
        std::uint64_t objects;
    };
    struct sizes_of_lists {
        std::size_t patches;
        std::size_t homes;
    };
    base::result<void> add(const log::record& record, std::uint64_t position);
    base::result<void> add_commit(const log::record& record, std::uint64_t position);
    base::result<void> add_entries(std::span<const std::byte> payload, std::uint64_t position);
    void add_entry(const commit_entry& entry, std::uint64_t position);
    void forget(const sizes_of_lists& from, const sizes_of_lists& to);
    base::result<void> check_places() const;
    [[nodiscard]] bool is_beyond(const patch& one) const noexcept;
    void leave_out_what_is_home();
    void drop_what_does_not_count();

    superblock_on_media superblock_{};
    superblock_on_media home_{};
    log_limits limits_;
    std::uint64_t commits_ = 0;
    std::uint64_t commits_home_ = 0;  ///< up to log_limits::home
    log::mark end_;
    std::uint64_t bytes_ = 0;
    bool torn_ = false;
    std::vector<patch> patches_;
    std::vector<std::byte> small_;
    std::vector<home_pages> homes_;
    std::vector<sizes_of_lists> parts_;  ///< before each record whose commit has not come yet
    std::vector<sizes> sizes_;           ///< of each commit
};

/// Not thread-safe. The content must outlive it.
class patch_reader {
public:
    patch_reader(persist::storage& storage, const heap_paths& paths, const log_content& content)
        : options_(log_options_of(paths, content.superblock())), files_(storage, options_.place), content_(content) {}
    /// `to` has the patch's length.
    base::result<void> read(const log_content::patch& patch, std::span<std::byte> to);
    /// Lays what there is over whole pages, which begin at `place`.
    base::result<void> lay_over(std::uint64_t place, std::span<std::byte> pages);

private:
    log::log_options options_;
    log::log_files files_;
    const log_content& content_;
    std::unique_ptr<persist::file> file_;
    std::uint64_t number_ = 0;
};

}  // namespace holdfast::segment
