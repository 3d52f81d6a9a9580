#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "base/interruption.hpp"
#include "persist/mutant.hpp"
#include "segment/commit/captured_commit.hpp"
#include "segment/commit/commit_builder.hpp"
#include "segment/commit/committer.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/kernel_limits.hpp"

namespace holdfast::segment {

using base::failure_code;
using base::page_size;

namespace {

/// The kernel promises memory that it does not have, and ends the process where it is touched. Copies take a quarter
/// more than the pages.
bool is_there_memory_for(std::uint64_t pages) {
    constexpr std::uint64_t few = 16 * base::mebibyte / page_size;
    return pages <= few || pages * page_size <= available_memory() / 2;
}

}  // namespace

capture_room::capture_room(std::uint64_t for_pages)
    : pages(for_pages), bytes(std::make_unique_for_overwrite<std::byte[]>(for_pages * page_size)) {}

bool committer::can_capture() const noexcept {
    return superblock_.is_on_media() && mapping_.frontier() == mapping_.committed() &&
           mapping_.adopted() == mapping_.committed() && mapping_.memory_below().empty() &&
           objects_.size() == objects_.committed_size() && objects_.adopted_size() == objects_.size() &&
           !segments_.names_changed() && pinned_.empty() && !log_.is_read();
}

base::result<bool> committer::capture(const free_runs& free, metadata_check check) {
    HF_TRY(may_commit());
    if (!can_capture()) {
        return false;
    }
    const base::cancellation_off until_done;
    HF_TRY(follow_readers(commit_log::go_home::always));
    auto made = std::make_unique<captured_commit>(free, std::exchange(room_, {}));
    const auto give_up = [&] {
        if (made->builder) {
            made->builder->restore_checksums();
        }
        scanner_->give_up();
    };
    try {
        scanner_->watch_soon();
        scanner_->begin_commit();
        commit_builder& changes = made->builder.emplace(builder(made->free, made->going, made->kept, made->noted));
        const auto found = [&]() -> base::result<void> {
            HF_TRY(changes.scan());
            HF_TRY(changes.check_metadata(check));
            return superblock_.mark_running();
        };
        if (auto done = found(); !done) {
            give_up();
            return std::move(done).error();
        }
        if (!changes.is_over_files()) {
            give_up();
            return false;
        }
        if (changes.pages() > made->room.pages) {
            made->room = {};
            if (!is_there_memory_for(changes.pages())) {
                give_up();
                return false;
            }
            made->room = capture_room(changes.pages() + changes.pages() / 4);
        }
        changes.copy_pages(made->room.bytes.get());
        made->plan.superblock = superblock_.next(mapping_.view().base(), mapping_.frontier(), objects_.size());
        made->plan.reserved = space_.promised();
        drop_clean(changes.found());
        scanner_->end_commit();
    } catch (const std::bad_alloc&) {
        give_up();
        return false;
    }
    captured_ = std::move(made);
    return true;
}

/// The failure of a commit of this kind leaves all to the next one, which finds it again.
base::result<std::optional<commit_statistics>> committer::finish() {
    if (captured_ == nullptr) {
        return std::optional<commit_statistics>();
    }
    HF_TRY(location_.check_process());  // the log is the parent's
    const std::unique_ptr<captured_commit> captured = std::move(captured_);
    if (poison_.code != failure_code::none) {
        return poisoned();
    }
    const base::cancellation_off until_done;
    commit_builder& changes = *captured->builder;
    transaction_report report;
    base::result<void> done;
    try {
        changes.build(captured->plan, captured->statistics);
        done = write_commit(changes, captured->plan, report);
    } catch (const std::bad_alloc&) {
        changes.restore_checksums();
        scanner_->give_up();
        throw;
    }
    if (!done) {
        scanner_->give_up();
        log_.home().forget();
        return std::move(done).error();
    }
    // The commit is durable: nothing here takes it back.
    captured->statistics.write_ns = report.write_ns;
    captured->statistics.sync_ns = report.sync_ns;
    captured->statistics.written_bytes = report.written_bytes;
    changes.release_checksums();
    superblock_.adopt(captured->plan.superblock);
    note_free(captured->free);
    room_ = std::move(captured->room);
    clean_ = changes.take_found();
    HF_TRY(after_commit(superblock_.maintain_log()));
    return std::optional(captured->statistics);
}

/// Pages that the last captured commit has left private go, but for those that were stored to since: `dirty`, sorted.
void committer::drop_clean(const std::vector<memory_run>& dirty) noexcept {
    if (clean_.empty()) {
        return;
    }
    std::array<std::span<std::byte>, 128> batch;
    std::size_t count = 0;
    const auto may_drop = [&](std::byte* page) {
        const std::uint64_t at = mapping_.view().offset(page).value;
        const bool is_pinned = std::ranges::any_of(pinned_, [&](const auto& run) {
            return base::offset_of(run.first).value <= at && at < base::offset_of(run.first + run.second).value;
        });
        return !is_pinned && (!log_.lag().is_on() || log_.lag().find(mapping_.place_at(page)) == nullptr);
    };
    const auto drop = [&](std::byte* begin, const std::byte* end) {
        for (; begin < end; begin += page_size) {
            if (!may_drop(begin)) {
                continue;
            }
            if (count != 0 && batch[count - 1].data() + batch[count - 1].size() == begin) {
                batch[count - 1] = {batch[count - 1].data(), batch[count - 1].size() + page_size};
                continue;
            }
            if (count == batch.size()) {
                drop_private_pages(batch);
                count = 0;
            }
            batch[count++] = {begin, page_size};
        }
    };
    auto next = dirty.begin();
    for (const memory_run& clean : clean_) {
        std::byte* at = clean.address;
        while (at < end_of(clean)) {
            next = std::find_if(next, dirty.end(), [at](const memory_run& run) { return end_of(run) > at; });
            std::byte* const until = next == dirty.end() ? end_of(clean) : std::min(next->address, end_of(clean));
            if (at < until) {
                drop(at, until);
            }
            at = next == dirty.end() ? end_of(clean) : std::max(until, std::min(end_of(*next), end_of(clean)));
        }
    }
    drop_private_pages(std::span{batch}.first(count));
    clean_.clear();
}

}  // namespace holdfast::segment
