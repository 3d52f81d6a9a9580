// A heap as the commit protocol sees it: files, pages of known content, checksums. No mapping, no allocator.
//
// It calls the real superblock, log, transaction and recovery code on any storage, in the order in which
// segment::heap_files calls them around mappings (creation, growth, removal of leftovers). full_stack_crash_test.cpp
// tests the original.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/commit/recovery.hpp"
#include "simulator/commit/model_readers.hpp"

namespace holdfast::simulator {

/// What a commit changes.
struct model_step {
    std::vector<page_place> dirty;    ///< user, metadata and objects pages; checksum pages are added
    std::uint64_t grow_regions = 0;   ///< of 2 MiB
    std::uint64_t grow_objects = 0;   ///< bytes
    bool close = false;               ///< after the commit
    std::vector<page_place> holes{};  ///< user pages that become free and go back to the file system
    std::uint64_t lower_regions = 0;  ///< cut off the end; not in a step that grows
    std::string readers{};            ///< what they do before it (model_readers::act)
    bool stays = false;               ///< its pages may stay in memory, where it moves no space
    bool waits = false;               ///< for its record, behind the commit
    bool goes_home = false;           ///< and instead of that home goes on
    bool is_left = false;             ///< to the next one that waits, which makes both durable by one write
};

/// A complete committed state. Sequence 0: no heap.
struct model_state {
    segment::superblock_on_media superblock{};
    std::map<page_place, page_content> pages;
    std::set<page_place> anything;  ///< free pages with unknown content

    static model_state none(std::uint64_t segment_size);
    [[nodiscard]] model_state after(const model_step& step) const;
};

/// How long the log becomes before a checkpoint.
enum class model_log {
    of_few_commits,  ///< two or three
    of_many_commits,
};

class model_heap {
public:
    static constexpr const char* directory = "/heap";

    /// Starts from a state on media. `found`: the superblock that recovery found, if it may differ.
    /// `epoch`: of its log.
    model_heap(persist::storage& storage, const model_state& state, const segment::superblock_on_media* found = nullptr,
               std::uint64_t epoch = 1, model_log log = model_log::of_few_commits);
    /// Files of the log that hold a page and a half.
    [[nodiscard]] static segment::commit_log_limits limits(std::uint64_t epoch = 1,
                                                           model_log log = model_log::of_few_commits) noexcept;

    /// The step that creates the heap; removes what an interrupted creation left.
    base::result<void> create(const model_step& step, const model_state& next);
    /// Any other step; `next` is the state after it.
    base::result<void> commit(const model_step& step, const model_state& next, segment::transaction_report& report);
    /// The heap may be closed already.
    base::result<void> close();
    base::result<void> checkpoint();
    /// As a writer after recovery, before it changes anything. `crashed`: the heap was not closed.
    base::result<void> remove_leftovers(bool crashed);

    /// Each copy of the superblock must hold what the last checkpoint wrote, so that either may be lost. Returns what
    /// differs, or nothing.
    [[nodiscard]] std::string differing_copy() const;
    /// What a reader beside the writer sees that is not its version, or nothing.
    [[nodiscard]] const std::string& wrong_view() const noexcept { return readers_.wrong(); }
    /// Compares the media with all pages of the state. Those of `places` that were never written must read as zero.
    /// Returns what differs, or nothing.
    static std::string difference(persist::storage& storage, const model_state& state,
                                  const std::set<page_place>& places);

private:
    base::result<void> follow_readers(segment::commit_log::go_home when);
    base::result<void> grow(const model_state& next);
    base::result<void> reserve_again(const model_step& step);
    base::result<void> give_back(const model_step& step, std::uint64_t frontier_before);
    base::result<void> make_segment(std::uint64_t index);
    [[nodiscard]] segment::commit_plan plan_for(const model_step& step, const model_state& next) const;
    void adopt(const model_state& next);

    persist::storage& storage_;
    const model_state* state_;
    segment::heap_paths paths_;
    segment::superblock_on_media on_media_{};  ///< but that commits in the log are in it, too
    segment::superblock_on_media written_{};   ///< by the last checkpoint
    segment::commit_log log_;
    model_readers readers_;
    bool names_changed_ = false;
};

}  // namespace holdfast::simulator
