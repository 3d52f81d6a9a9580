// Memory as the last commit has it, and what was stored to since: for transactions that may be aborted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "segment/commit/dirty_pages.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/commit/user_space.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/objects_file.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

struct committer_parts {
    const heap_location& location;
    heap_superblock& superblock;
    commit_log& log;
    segment_files& segments;
    heap_mapping& mapping;
    objects_file& objects;
    user_space& space;
};

/// Not thread-safe: no other thread stores meanwhile.
class last_version {
public:
    /// `scanner`: set before the first call. `pinned`: pages that stay as they are, for devices that store to them.
    /// `poison`: gets the code of a failure behind which memory is not what it should be.
    last_version(const committer_parts& parts, const std::unique_ptr<dirty_scanner>& scanner, const free_runs& pinned,
                 base::failure& poison) noexcept
        : location_(parts.location),
          superblock_(parts.superblock),
          log_(parts.log),
          mapping_(parts.mapping),
          objects_(parts.objects),
          scanner_(scanner),
          pinned_(pinned),
          poison_(poison) {}
    last_version(const last_version&) = delete;
    last_version& operator=(const last_version&) = delete;
    ~last_version() = default;

    [[nodiscard]] std::uint64_t number() const noexcept { return superblock_.now().sequence; }
    /// Appends the pages of user space and of the directory of objects that were stored to since the last call, or the
    /// last commit, and perhaps others; but none that stay as they are. May throw std::bad_alloc.
    base::result<void> take_stores(std::vector<memory_run>& to);
    /// Appends those pages, which the next call finds again. May throw std::bad_alloc.
    base::result<void> find_stores(std::vector<memory_run>& to);
    /// take_stores() would find nothing, and find_stores() neither. False: not known.
    [[nodiscard]] bool is_untouched() const noexcept { return scanner_ != nullptr && scanner_->is_untouched(); }
    /// The next take_stores() finds all since the last commit.
    void find_stores_again() noexcept { scanner_->give_up(); }
    /// The pages are as the last commit has them, but for those that stay as they are and those without access, which
    /// are free. Needs no memory.
    void go_back(const memory_run& pages, base::function_ref<bool(const std::byte* page)> has_access) noexcept;
    /// Though it is private. Of others this says nothing.
    [[nodiscard]] bool has(const std::byte* page) const noexcept {
        return log_.lag().is_on() && log_.lag().is_as_committed(mapping_.place_at(page), page);
    }
    [[nodiscard]] bool is_of_objects(const std::byte* page) const noexcept {
        return page >= objects_.begin() && page < objects_.begin() + objects_.size();
    }
    /// User space, and the directory of objects.
    [[nodiscard]] std::array<memory_run, 2> memory() const noexcept;
    [[nodiscard]] free_runs kept() const;

private:
    using access_check = base::function_ref<bool(const std::byte* page)>;

    void drop(std::byte* begin, std::byte* end, access_check has_access) noexcept;
    void drop_mapped(std::byte* begin, const std::byte* end) noexcept;
    base::result<void> read_home(std::byte* begin, std::uint64_t bytes) const;
    void restore_behind(std::byte* begin, std::byte* end, access_check has_access) noexcept;

    const heap_location& location_;
    heap_superblock& superblock_;
    commit_log& log_;
    heap_mapping& mapping_;
    objects_file& objects_;
    const std::unique_ptr<dirty_scanner>& scanner_;
    const free_runs& pinned_;
    base::failure& poison_;
};

}  // namespace holdfast::segment
