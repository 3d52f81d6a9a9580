// The files of one open heap, mapped: the interface of this layer. It owns:
//
//     heap_location    where the files lie, and who may change them
//     commit_log       the log of durability `commit`
//     heap_superblock  what the superblock says on media
//     segment_files    the segment files
//     heap_mapping     addresses, and access to pages
//     objects_file     the objects file, mapped
//     user_space       growth, and space on disk
//     live_bitmaps     verified metadata, and bitmaps with space on disk
//     lane_file        the redo rings
//     shared_session   durability `atomic` and `collect`
//     committer        durability `commit`
//     heap_readers     readers beside a writer
//     copied_files     space of a heap that was copied
//     heap_creation    a heap that is being made
//
// Thread safety: callers serialise grow(), and they serialise grow_objects(); one call of each may run at once.
// commit() and close_cleanly() run alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/domain.hpp"
#include "segment/commit/committer.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/commit/live_bitmaps.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/commit/shared_session.hpp"
#include "segment/commit/uncommitted_bound.hpp"
#include "segment/commit/user_space.hpp"
#include "segment/creation/copied_files.hpp"
#include "segment/creation/heap_creation.hpp"
#include "segment/files/heap_directories.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/heap_options.hpp"
#include "segment/files/holes.hpp"
#include "segment/files/lane_file.hpp"
#include "segment/files/objects_file.hpp"
#include "segment/files/segment_files.hpp"
#include "segment/format/space.hpp"
#include "segment/heap_readers.hpp"

namespace holdfast::segment {

class heap_files {
public:
    /// Frontier 0. Other processes see a heap from the first commit() on; before it, the destructor removes what was
    /// made.
    static base::result<std::unique_ptr<heap_files>> create(persist::storage& storage, const std::string& directory,
                                                            const creation_options& options);
    /// access_mode::read_only changes nothing on media. `directories`: of a destroyed object of this heap and mode;
    /// null: opens what the path leads to.
    static base::result<std::unique_ptr<heap_files>> open(persist::storage& storage, const std::string& directory,
                                                          persist::access_mode mode, const mapping_options& options,
                                                          std::shared_ptr<heap_directories> directories = nullptr);
    /// A heap without files, of this process and, as a copy, of its children (continue_in_child()). It starts with
    /// frontier 0, and has no commit and no close.
    static base::result<std::unique_ptr<heap_files>> create_scratch(persist::storage& storage,
                                                                    const creation_options& options);

    [[nodiscard]] const heap_location& location() const noexcept { return location_; }
    [[nodiscard]] heap_mapping& mapping() noexcept { return mapping_; }
    [[nodiscard]] user_space& space() noexcept { return space_; }
    [[nodiscard]] live_bitmaps& bitmaps() noexcept { return bitmaps_; }
    [[nodiscard]] lane_file& lanes() noexcept { return lanes_; }
    [[nodiscard]] shared_session& session() noexcept { return session_; }
    [[nodiscard]] committer& commits() noexcept { return commits_; }
    [[nodiscard]] copied_files& copies() noexcept { return copies_; }
    [[nodiscard]] heap_readers& readers() noexcept { return readers_; }

    [[nodiscard]] const space_view& view() const noexcept { return mapping_.view(); }
    [[nodiscard]] const superblock_on_media& superblock() const noexcept { return superblock_.now(); }
    [[nodiscard]] const heap_paths& paths() const noexcept { return location_.paths(); }
    [[nodiscard]] persist::storage& storage() const noexcept { return location_.storage(); }
    [[nodiscard]] std::shared_ptr<heap_directories> directories() const noexcept { return location_.directories(); }
    [[nodiscard]] persist::domain_kind domain() const noexcept { return location_.domain(); }
    [[nodiscard]] bool shared() const noexcept { return location_.shared(); }
    [[nodiscard]] base::pages frontier() const noexcept { return mapping_.frontier(); }
    base::result<base::pages> grow(base::pages wanted) { return space_.grow(wanted); }

    [[nodiscard]] bool recovered() const noexcept { return superblock_.recovered(); }
    /// What the log had for this open.
    [[nodiscard]] const replayed_log& replayed() const noexcept { return replayed_; }
    [[nodiscard]] const std::vector<base::failure>& warnings() const noexcept { return warnings_; }
    /// With mapping_options::verify.
    [[nodiscard]] const page_comparison& compared() const noexcept { return compared_; }
    [[nodiscard]] bool has_pending_lanes() const noexcept { return superblock_.has_pending_lanes(); }
    [[nodiscard]] bool has_pending_tracing() const noexcept { return superblock_.has_pending_tracing(); }

    [[nodiscard]] std::byte* objects() const noexcept { return objects_.begin(); }
    [[nodiscard]] std::uint64_t objects_size() const noexcept { return objects_.size(); }
    /// New bytes read as zero.
    base::result<void> grow_objects(std::uint64_t bytes) { return objects_.grow(bytes); }

    /// All other threads must stand still. After a failed sync it answers `poisoned`.
    base::result<commit_statistics> commit(const free_runs& free, const space_going& going = {}) {
        return commits_.commit(free, going, [](std::uint64_t, std::uint64_t) { return base::result<void>(); });
    }
    base::result<bool> unchanged(const free_runs& free) {
        return limit_changed_ ? base::result<bool>(false) : commits_.unchanged(free);
    }
    base::result<void> close_cleanly() { return commits_.close_cleanly(); }

    [[nodiscard]] base::result<file_statistics> statistics() const;
    /// SEG-2.
    base::result<page_comparison> verify(std::vector<base::failure>& problems, std::size_t limit) const;

    /// Shared pages: whether a child of fork has the mappings. It must first of all call continue_in_child().
    base::result<void> show_to_child(bool shown) const;
    /// In a child of fork, for a scratch heap, or for shared pages after show_to_child(true): the child gets a scratch
    /// heap with the parent's content. Of shared pages it copies `used` (extents that are not free) and the bitmaps of
    /// `slabs`, which the parent must not change meanwhile. On failure the child must not touch the heap.
    base::result<void> continue_in_child(const free_runs& used, std::span<const base::granule> slabs);

private:
    heap_files(persist::storage& storage, std::string directory, persist::access_mode mode);

    base::result<void> reserve_addresses(const mapping_options& options);
    base::result<void> map(const mapping_options& options);

    heap_location location_;
    commit_log log_;
    heap_superblock superblock_{location_, log_};
    hole_cover cover_;
    segment_files segments_{location_};
    heap_mapping mapping_{location_, cover_};
    objects_file objects_{location_, superblock_, cover_};
    live_bitmaps bitmaps_{location_, mapping_, segments_};
    user_space space_{{location_, superblock_, segments_, mapping_, bitmaps_}};
    lane_file lanes_{location_, superblock_, cover_};
    shared_session session_{{location_, superblock_, segments_, mapping_, objects_, lanes_}};
    committer commits_{{location_, superblock_, log_, segments_, mapping_, objects_, space_}};
    uncommitted_bound bound_{location_, mapping_, commits_};
    heap_readers readers_{{location_, superblock_, mapping_, objects_, commits_}};
    copied_files copies_{{location_, superblock_, segments_, lanes_, session_}};
    page_comparison compared_;
    std::optional<log_content> overlay_;
    std::vector<base::failure> warnings_;
    replayed_log replayed_;
    bool limit_changed_ = false;                      ///< the superblock must be written
    heap_creation creation_{location_, superblock_};  ///< goes first: it may remove the files
};

}  // namespace holdfast::segment
