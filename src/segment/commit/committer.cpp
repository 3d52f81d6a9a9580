#include "segment/commit/committer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "base/interruption.hpp"
#include "segment/commit/captured_commit.hpp"
#include "segment/commit/commit_builder.hpp"
#include "segment/commit/first_commit.hpp"
#include "segment/format/page_runs.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using clock = std::chrono::steady_clock;

std::uint64_t elapsed_ns(clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start).count());
}

}  // namespace

committer::committer(const committer_parts& parts) noexcept
    : location_(parts.location),
      superblock_(parts.superblock),
      log_(parts.log),
      segments_(parts.segments),
      mapping_(parts.mapping),
      objects_(parts.objects),
      space_(parts.space),
      last_(parts, scanner_, pinned_, poison_) {}

committer::~committer() = default;

base::result<void> committer::start(store_watch watch) {
    // On persistent memory that is mapped by huge pages Linux was seen to note no store.
    const bool persistent =
        location_.domain() == persist::domain_kind::dax || location_.domain() == persist::domain_kind::eadr;
    HF_TRY_ASSIGN(dirty_scanner scanner,
                  dirty_scanner::open(&mapping_.watch(), persistent ? store_watch::never : watch));
    scanner_ = std::make_unique<dirty_scanner>(std::move(scanner));
    return {};
}

void committer::keep(const free_runs& pages) {
    std::vector<memory_run> memory;
    memory.reserve(pages.size());
    for (const auto& [first, length] : pages) {
        memory.push_back({mapping_.view().address(base::offset_of(first)), length.value});
    }
    free_runs pinned = pages;
    if (scanner_ != nullptr) {
        scanner_->keep(std::move(memory));
    }
    pinned_ = std::move(pinned);
}

commit_builder committer::builder(const free_runs& free, const space_going& going, const free_runs& kept,
                                  const noted_pages& noted) {
    return {{mapping_, objects_, *scanner_, location_.paths(), location_.storage(), committed_free_, kept, log_.lag(),
             noted},
            free,
            going};
}

base::result<bool> committer::unchanged(const free_runs& free) {
    HF_TRY(location_.check_process());
    if (mapping_.frontier() != mapping_.committed() || objects_.size() != objects_.committed_size()) {
        return false;
    }
    const space_going nothing_goes;
    const free_runs stay = last_.kept();
    const noted_pages none;
    commit_builder changes = builder(free, nothing_goes, stay, none);
    HF_TRY(changes.scan());
    return changes.empty();
}

base::result<void> committer::may_commit() const {
    HF_TRY(location_.check_process());  // the scanner would look at the parent's memory
    HF_TRY(location_.check_writer(location_.paths().directory(), "commit"));
    if (poison_.code != failure_code::none) {
        return poisoned();
    }
    if (superblock_.now().sequence == std::numeric_limits<std::uint64_t>::max()) {
        return failure{failure_code::limit,
                       location_.paths().superblock(),
                       "sequence",
                       "the last number",
                       "one that has a next",
                       {},
                       0};
    }
    return {};
}

base::result<commit_statistics> committer::commit(const free_runs& free, const space_going& going, metadata_check check,
                                                  commit_of what) {
    HF_TRY(finish());
    HF_TRY(may_commit());
    const base::cancellation_off until_done;  // a commit that is cut off would poison the heap
    const base::pages before = mapping_.frontier();
    mapping_.set_frontier(going.frontier.value_or(before));
    bool is_in_log = false;
    try {
        auto done = commit_scanned(free, going, check, what);
        if (!done) {
            scanner_->give_up();
            mapping_.set_frontier(before);
            log_.home().forget();
            return done;
        }
        is_in_log = true;
        if (mapping_.frontier() < before) {
            space_.remove_beyond(mapping_.frontier(), before);
            log_.forget_beyond(mapping_.segment_count(mapping_.frontier()));
        }
        done->given_back_pages = space_.punch(going.holes);
        HF_TRY(after_commit(superblock_.maintain_log()));
        return done;
    } catch (const std::bad_alloc&) {
        if (is_in_log) {  // who goes back to before the commit would lose it: an open finishes it
            poison_.code = failure_code::out_of_memory;
            throw;
        }
        scanner_->give_up();
        if (mapping_.committed() != mapping_.frontier()) {
            mapping_.set_frontier(before);
        }
        throw;
    }
}

base::result<commit_statistics> committer::commit_scanned(const free_runs& free, const space_going& going,
                                                          metadata_check check, commit_of what) {
    const auto start = clock::now();
    commit_statistics statistics;
    const bool moves_space = !going.holes.empty() || going.frontier || mapping_.frontier() != mapping_.committed() ||
                             objects_.size() != objects_.committed_size() || segments_.names_changed();
    HF_TRY(follow_readers(moves_space ? commit_log::go_home::always : commit_log::go_home::where_worth_it));
    const free_runs stay = last_.kept();
    scanner_->begin_commit();
    const noted_pages noted = what == commit_of::transaction ? scanner_->find_noted() : noted_pages();
    commit_builder changes = builder(free, going, stay, noted);
    HF_TRY(changes.scan());
    HF_TRY(changes.check_metadata(check));
    drop_clean(changes.found());
    statistics.scan_ns = elapsed_ns(start);
    if (what == commit_of::transaction && changes.empty() && !moves_space && superblock_.is_on_media()) {
        scanner_->end_commit();
        statistics.record = log_.appended(superblock_.now().sequence);  // what it has read may not be durable yet
        statistics.total_ns = elapsed_ns(start);
        return statistics;
    }
    HF_TRY(superblock_.mark_running());
    commit_plan plan;
    transaction_report report;
    try {
        plan_commit(changes, plan, statistics, what);
    } catch (const std::bad_alloc&) {
        changes.restore_checksums();
        throw;
    }
    HF_TRY(write_commit(changes, plan, report));
    changes.release();
    scanner_->end_commit();
    adopt(plan);
    note_free(free);
    statistics.write_ns = report.write_ns;
    statistics.sync_ns = report.sync_ns;
    statistics.written_bytes = report.written_bytes;
    statistics.total_ns = elapsed_ns(start);
    if (what == commit_of::everything) {
        room_ = {};
    }
    if (plan.is_waited_for) {
        statistics.record = log_.appended(plan.superblock.sequence);
    }
    return statistics;
}

void committer::plan_commit(commit_builder& builder, commit_plan& plan, commit_statistics& statistics, commit_of what) {
    builder.build(plan, statistics);
    plan.superblock = superblock_.next(mapping_.view().base(), mapping_.frontier(), objects_.size());
    plan.names_changed = segments_.names_changed();
    plan.reserved = space_.promised();
    plan.may_stay_behind = superblock_.is_on_media() && log_.leaves_behind() && builder.is_small_change() &&
                           plan.fresh_checksums.size() <= log_.limits().logged_fresh_pages;
    plan.is_waited_for = plan.may_stay_behind && what == commit_of::transaction;
    if (!plan.may_stay_behind && log_.leaves_behind()) {
        const bool others_waited = others_wait_ && what == commit_of::transaction;
        builder.note_loss(others_waited ? log_.appended(0).last_write() : std::chrono::nanoseconds());
    }
}

base::result<void> committer::write_commit(commit_builder& builder, commit_plan& plan, transaction_report& report) {
    try {
        auto done = plan.may_stay_behind ? base::result<void>() : follow_readers(commit_log::go_home::always);
        if (done) {
            done = run(plan, report);
        }
        if (done) {
            return done;
        }
        commit_failed_ = true;
        builder.restore_checksums();
        failure why = std::move(done).error();
        if (report.stage != commit_stage::unchanged) {
            poison_.code = why.code;  // first: the text needs memory
        }
        if (why.path.empty()) {  // who had no memory had none for more words
            why.path = location_.paths().directory();
            why.field = "commit";
        }
        if (report.stage == commit_stage::durable) {
            why.hint = "the commit itself is durable; opening the heap again finishes it";
        }
        if (report.stage != commit_stage::unchanged) {
            poison_ = why;
        }
        return why;
    } catch (const std::bad_alloc&) {
        commit_failed_ = true;
        builder.restore_checksums();
        if (report.stage != commit_stage::unchanged && poison_.code == failure_code::none) {
            poison_.code = failure_code::out_of_memory;
        }
        throw;
    }
}

base::result<void> committer::run(commit_plan& plan, transaction_report& report) {
    if (superblock_.is_on_media()) {
        return run_commit(location_.storage(), location_.paths(), log_, plan, superblock_.of_commit(), report);
    }
    HF_TRY(write_first_commit(location_, plan, report));
    superblock_.set_on_media();
    return {};
}

void committer::adopt(const commit_plan& plan) noexcept {
    superblock_.adopt(plan.superblock);
    segments_.set_names_changed(false);
    space_.forget_promised();
    mapping_.commit_frontier();
    objects_.commit_size();
    // Pages that cannot be mapped stay memory; every commit writes them and tries again.
    try {
        static_cast<void>(map_adopted().ok());
    } catch (const std::bad_alloc&) {
        return;
    }
}

base::result<void> committer::map_adopted() {
    HF_TRY(mapping_.map_adopted(pinned_));
    return objects_.map_adopted();
}

base::result<private_memory> committer::find_private() const {
    std::optional<pagemap> anew;
    // That of the commits, while it is open: the process may have no descriptor left, or another root directory.
    const pagemap* tables = scanner_ != nullptr && location_.check_process() ? &scanner_->tables() : nullptr;
    if (tables == nullptr) {
        HF_TRY_ASSIGN(anew, pagemap::open());
        tables = &*anew;
    }
    const space_view& view = mapping_.view();
    const std::uint64_t user = base::to_bytes(mapping_.frontier());
    const std::uint64_t committed = std::min(user, base::to_bytes(mapping_.committed()));
    const std::uint64_t metadata = mapping_.segment_count(mapping_.frontier()) * view.shape().metadata_size();
    private_memory all;
    std::vector<memory_run> runs;
    const auto add = [&](std::byte* begin, std::uint64_t bytes) -> base::result<std::uint64_t> {
        runs.clear();
        if (bytes == 0) {
            return std::uint64_t{0};
        }
        if (!tables->find_private(begin, bytes, pagemap::swapped::left_out, runs)) {
            HF_TRY(tables->find_private_by_entries(begin, bytes, runs));
        }
        std::uint64_t pages = 0;
        for (const memory_run& run : runs) {
            pages += run.pages;
        }
        all.bytes += pages * base::page_size;
        return pages;
    };
    HF_TRY_ASSIGN(all.stored_pages, add(view.base(), committed));
    all.stored_runs = runs.size();
    HF_TRY(add(view.base() + committed, user - committed));
    HF_TRY(add(view.metadata_of(0), metadata));
    HF_TRY(add(objects_.begin(), objects_.size()));
    return all;
}

/// Where home lags, a page that was used since home's version is not free for a reader of it. Takes at most one byte
/// for each page of the heap: the shortest runs are left out.
void committer::note_free(const free_runs& free) noexcept {
    if (log_.lag().is_on() && log_.is_read()) {
        try {
            committed_free_ = common(committed_free_, free);
        } catch (const std::bad_alloc&) {
            committed_free_.clear();
        }
        return;
    }
    constexpr std::uint64_t few = 1024;
    constexpr std::uint64_t long_enough = sizeof(free_runs::value_type);  // pages: all such runs have room
    const std::uint64_t most = std::max(few, mapping_.frontier().value / sizeof(free_runs::value_type));
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

/// The commit is durable. A checkpoint that fails before its syncs is tried again by the next commit.
base::result<void> committer::after_commit(base::result<void> done) {
    if (done || !persist::is_failed_sync(done.error())) {
        return {};
    }
    failure what = std::move(done).error();
    poison_.code = what.code;  // first: the text needs memory
    what.hint = "the commit itself is durable; opening the heap again finishes it";
    poison_ = what;
    return what;
}

base::result<void> committer::finish_log(base::function_ref<base::result<void>()> how) {
    HF_TRY(finish());
    if (poison_.code != failure_code::none) {
        return poisoned();
    }
    const base::cancellation_off until_done;
    auto done = how();
    HF_TRY(after_commit(done));
    return done;
}

base::result<void> committer::checkpoint() {
    return finish_log([this]() -> base::result<void> {
        HF_TRY(follow_readers(commit_log::go_home::always));
        return superblock_.checkpoint();
    });
}

base::result<void> committer::end_log() {
    return finish_log([this]() -> base::result<void> {
        HF_TRY(follow_readers(commit_log::go_home::always));
        return superblock_.end_log();
    });
}

base::result<void> committer::begin_behind(const superblock_on_media& home, const log_content& content,
                                           const log::mark& end) {
    log_.go_on_behind(home, end);
    const std::uint64_t version = superblock_.now().sequence;
    for (const log_content::patch& patch : content.patches()) {
        if (log_.lag().find(patch.place) == nullptr) {
            log_.lag().put(patch.place, {mapping_.address_of(patch.place), base::page_size}, version);
        }
    }
    return {};
}

base::result<void> committer::follow_readers(commit_log::go_home when) {
    if (!log_.lag().is_on()) {
        return {};
    }
    const std::uint64_t before = log_.lag().home().sequence;
    HF_TRY_ASSIGN(const bool is_home,
                  log_.follow_readers(location_.storage(), location_.paths(), superblock_.now(), when));
    if (is_home || log_.lag().home().sequence != before) {
        drop_what_is_home(log_.lag().home().sequence);
    }
    if (is_home) {
        log_.lag().end();
    }
    return {};
}

/// Pages with stores since stay as they are, and so do warm ones and those that the files are not mapped for (MAP-2,
/// MAP-3).
void committer::drop_what_is_home(std::uint64_t version) noexcept {
    const std::uint64_t user_pages = mapping_.view().shape().pages();
    const base::pages adopted = mapping_.adopted();
    const auto is_mapped = [&](std::uint64_t place) {
        const std::uint64_t file = file_of(place);
        const std::uint64_t page = page_of_place(place);
        if (file == objects_file_id) {
            return (page + 1) * base::page_size <= objects_.adopted_size();
        }
        if (page >= user_pages) {
            return file < mapping_.segment_count(adopted);
        }
        const base::pages at{file * user_pages + page};
        const auto has = [at](const free_runs& runs) {
            return std::ranges::any_of(runs, [at](const auto& run) { return run.first <= at && at < end_of(run); });
        };
        return at < adopted && !has(pinned_) && !has(mapping_.memory_below());
    };
    std::array<std::span<std::byte>, 256> batch;
    std::size_t count = 0;
    log_.lag().forget(version, [&](std::uint64_t place, const std::byte* content) {
        std::byte* const memory = mapping_.address_of(place);
        if (is_mapped(place) && !scanner_->warm().has(memory) && std::memcmp(memory, content, base::page_size) == 0) {
            batch.at(count++) = {memory, base::page_size};
        }
        if (count == batch.size()) {
            drop_private_pages(batch);
            count = 0;
        }
    });
    drop_private_pages(std::span{batch}.first(count));
}

base::result<void> committer::close_unchanged() {
    captured_.reset();
    return poison_.code != failure_code::none || commit_failed_ ? base::result<void>() : close_cleanly();
}

base::result<void> committer::close_cleanly() {
    HF_TRY(finish());
    if (poison_.code != failure_code::none) {
        return poisoned();
    }
    if (superblock_.now().state == heap_state::clean) {
        return {};
    }
    const base::cancellation_off until_done;
    HF_TRY(follow_readers(commit_log::go_home::always));
    if (!space_.clear_content_beyond()) {
        return {};  // the next open removes the content, as after a crash
    }
    // Should an exception end the close.
    poison_.code = failure_code::out_of_memory;
    auto closed = superblock_.close_cleanly();
    poison_ = closed ? failure{} : closed.error();
    return closed;
}

failure committer::poisoned() const {
    failure what = poison_;
    what.code = failure_code::poisoned;
    if (what.path.empty()) {
        // There was no memory for the text.
        what.path = location_.paths().directory();
        what.field = "commit";
        what.found = "no memory in the middle of it";
        what.expected = "free memory";
    }
    what.hint =
        "an earlier commit failed at a point after which nothing can be promised; close the heap without commit and "
        "open it again. " +
        poison_.hint;
    return what;
}

}  // namespace holdfast::segment
