// commit(): from the mapped state to media, and back to a mapping in which nothing is dirty.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "persist/mutant.hpp"
#include "segment/commit_builder.hpp"
#include "segment/heap_files.hpp"
#include "segment/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;
using clock = std::chrono::steady_clock;

std::uint64_t elapsed_ns(clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start).count());
}

std::int64_t wall_clock_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

superblock_on_media heap_files::next_superblock() const {
    superblock_on_media next = superblock_;
    ++next.sequence;
    next.base_address = reinterpret_cast<std::uint64_t>(view_.base());
    next.frontier = base::to_bytes(frontier_);
    next.objects_size = objects_size_;
    next.state = heap_state::running;
    next.committed_ns = wall_clock_ns();
    next.recoveries += recovered_ && !recovery_counted_ ? 1 : 0;
    seal(next);
    return next;
}

base::result<bool> heap_files::unchanged(const free_runs& free) {
    if (frontier_ != committed_frontier_ || objects_size_ != committed_objects_size_) {
        return false;
    }
    commit_builder builder(*this, free, {});
    HF_TRY(builder.scan());
    return builder.empty();
}

base::result<commit_statistics> heap_files::commit(const free_runs& free, const space_going& going,
                                                   metadata_check check) {
    if (mode_ == access_mode::read_only) {
        return failure{
            failure_code::read_only, paths_.directory(), "commit", "a heap opened read-only", "a writer", {}, 0};
    }
    if (poison_.code != failure_code::none) {
        return poisoned();
    }
    if (superblock_.sequence == std::numeric_limits<std::uint64_t>::max()) {
        return failure{
            failure_code::limit, paths_.superblock(), "sequence", "the last number", "one that has a next", {}, 0};
    }
    const base::pages before = frontier_;
    const auto end_at = [this](base::pages end) { __atomic_store_n(&frontier_.value, end.value, __ATOMIC_RELEASE); };
    end_at(going.frontier.value_or(before));
    try {
        if (HF_MUTANT("space.remove_before_commit") && frontier_ < before) {
            remove_beyond(frontier_, before);
        }
        if (HF_MUTANT("space.punch_before_commit")) {
            static_cast<void>(punch(going.holes));
        }
        auto done = commit_scanned(free, going, check);
        if (!done) {
            end_at(before);
            return done;
        }
        if (frontier_ < before) {
            remove_beyond(frontier_, before);
        }
        done->given_back_pages = punch(going.holes);
        shorten_journal();
        return done;
    } catch (const std::bad_alloc&) {
        if (committed_frontier_ != frontier_) {
            end_at(before);
        }
        throw;
    }
}

base::result<commit_statistics> heap_files::commit_scanned(const free_runs& free, const space_going& going,
                                                           metadata_check check) {
    const auto start = clock::now();
    commit_statistics statistics;
    commit_builder builder(*this, free, going);
    HF_TRY(builder.scan());
    HF_TRY(builder.check_metadata(check));
    statistics.scan_ns = elapsed_ns(start);
    HF_TRY(mark_running());
    commit_plan plan;
    transaction_report report;
    HF_TRY(write_commit(builder, plan, statistics, report));
    builder.release();
    adopt(plan);
    if (!HF_MUTANT("space.note_free")) {
        note_free(free);
    }
    statistics.write_ns = report.write_ns;
    statistics.sync_ns = report.sync_ns;
    statistics.written_bytes = report.written_bytes;
    statistics.total_ns = elapsed_ns(start);
    return statistics;
}

/// The part of a commit that may fail. After a failure the sums are those of the last commit; after a failure behind
/// the commit point the heap is poisoned. Both hold for an exception, too.
base::result<void> heap_files::write_commit(commit_builder& builder, commit_plan& plan, commit_statistics& statistics,
                                            transaction_report& report) {
    try {
        builder.build(plan, statistics);
        plan.superblock = next_superblock();
        plan.names_changed = names_changed_;
        plan.reserved = promised_.runs(frontier_, view_.shape().pages());
        auto done = run(plan, report);
        if (done) {
            return done;
        }
        commit_failed_ = true;
        builder.restore_sums();
        failure what = std::move(done).error();
        if (report.stage != commit_stage::unchanged) {
            poison_.code = what.code;  // the code first: the text needs memory
        }
        if (report.stage == commit_stage::durable) {
            what.hint = "the commit itself is durable; opening the heap again finishes it";
        }
        if (report.stage != commit_stage::unchanged) {
            poison_ = what;
        }
        return what;
    } catch (const std::bad_alloc&) {
        commit_failed_ = true;
        builder.restore_sums();
        if (report.stage != commit_stage::unchanged && poison_.code == failure_code::none) {
            poison_.code = failure_code::out_of_memory;
        }
        throw;
    }
}

base::result<void> heap_files::run(commit_plan& plan, transaction_report& report) {
    return born_ ? run_transaction(storage(), paths_, plan, report) : finish_creation(plan, report);
}

/// The first commit of a new heap: everything is fresh, and the superblock's name makes the directory a heap.
base::result<void> heap_files::finish_creation(commit_plan& plan, transaction_report& report) {
    report.stage = commit_stage::unchanged;
    HF_ASSERT(plan.changed.empty());
    HF_TRY(write_home(storage(), paths_, {plan.fresh, plan.fresh_sums, {}}, "create.fresh.write", "create.fresh.sync",
                      report));
    HF_TRY(storage().remove(paths_.unfinished_superblock(), "create.remove_remains"));
    HF_TRY_ASSIGN(auto file, storage().create(paths_.unfinished_superblock(), "create.superblock"));
    HF_TRY_ASSIGN(plan.superblock.home, storage().birth(paths_.unfinished_superblock()));
    seal(plan.superblock);
    HF_TRY(write_superblocks(*file, plan.superblock));
    if (paths_.nodes() != 0) {
        HF_TRY(sync_segment_names(storage(), paths_, "create.node.sync"));
    }
    HF_TRY(storage().sync_directory(paths_.directory(), "create.directory.sync"));
    HF_TRY(storage().rename(paths_.unfinished_superblock(), paths_.superblock(), "create.superblock.rename"));
    report.stage = commit_stage::uncertain;
    HF_TRY(storage().sync_directory(paths_.directory(), "create.directory.sync_name"));
    HF_TRY(storage().sync_directory(paths_.parent(), "create.parent.sync"));
    report.stage = commit_stage::complete;
    born_ = true;
    return {};
}

/// The state of `plan` is on media: fresh pages become mappings of their files.
void heap_files::adopt(const commit_plan& plan) noexcept {
    superblock_ = plan.superblock;
    names_changed_ = false;
    promised_.clear();
    recovery_counted_ = true;
    committed_frontier_ = frontier_;
    adopted_frontier_ = std::min(adopted_frontier_, committed_frontier_);
    committed_objects_size_ = objects_size_;
    // Where a mapping cannot be replaced, the memory stays, every commit writes its pages, and the next commit tries to
    // map it again: slower, but correct.
    try {
        static_cast<void>(map_adopted().ok());
    } catch (const std::bad_alloc&) {
        return;  // the memory stays, as after a failure
    }
}

/// Keeps at most one byte for each page of the heap. Where that is too little for all runs, the shortest are left out;
/// where there is no memory, all.
void heap_files::note_free(const free_runs& free) noexcept {
    constexpr std::uint64_t few = 1024;
    constexpr std::uint64_t long_enough = sizeof(free_runs::value_type);  // pages: there is room for all runs this long
    const std::uint64_t most = std::max(few, frontier_.value / sizeof(free_runs::value_type));
    std::array<std::uint64_t, long_enough + 1> of_length{};
    for (const auto& run : free) {
        ++of_length.at(std::min(run.second.value, long_enough));
    }
    base::pages least{long_enough};
    for (std::uint64_t kept = of_length[long_enough]; least.value > 1; --least.value) {
        kept += of_length.at(least.value - 1);
        if (kept > most) {
            break;
        }
    }
    const auto is_worth_it = [least](const auto& run) { return run.second >= least; };
    committed_free_.clear();
    try {
        committed_free_.reserve(static_cast<std::size_t>(std::ranges::count_if(free, is_worth_it)));
        std::ranges::copy_if(free, std::back_inserter(committed_free_), is_worth_it);
    } catch (const std::bad_alloc&) {
        committed_free_.clear();
    }
}

base::result<void> heap_files::map_adopted() {
    const std::uint64_t per_segment = view_.shape().pages();
    while (adopted_frontier_ < committed_frontier_) {
        const std::uint64_t index = adopted_frontier_.value / per_segment;
        HF_TRY(map_committed_segment(index, adopted_frontier_.value % per_segment));
        adopted_frontier_.value = std::min(committed_frontier_.value, (index + 1) * per_segment);
    }
    HF_TRY(map_committed_objects(adopted_objects_size_));
    adopted_objects_size_ = committed_objects_size_;
    return {};
}

base::result<void> heap_files::close_unchanged() {
    return poison_.code != failure_code::none || commit_failed_ ? base::result<void>() : close_cleanly();
}

base::result<void> heap_files::close_cleanly() {
    if (poison_.code != failure_code::none) {
        return poisoned();
    }
    if (superblock_.state == heap_state::clean) {
        return {};
    }
    if (content_beyond_ && !clear_beyond(frontier_)) {
        return {};  // left as after a crash: the next open removes the content
    }
    // Poisoned until the close has succeeded, in case an exception ends it.
    poison_.code = failure_code::out_of_memory;
    auto closed = segment::close_cleanly(storage(), paths_, superblock_);
    poison_ = closed ? failure{} : closed.error();
    return closed;
}

}  // namespace holdfast::segment
