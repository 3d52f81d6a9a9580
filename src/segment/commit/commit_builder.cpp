#include "segment/commit/commit_builder.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "base/parallel.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/page_runs.hpp"

namespace holdfast::segment {

namespace {

using base::page_size;

/// Of a commit whose pages stay in memory.
constexpr std::size_t most_pages_kept = 64;

template <class T>
void sort_unique(std::vector<T>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

base::result<void> commit_builder::scan() {
    const space_view& view = from_.mapping.view();
    const geometry& shape = view.shape();
    frontier_ = from_.mapping.frontier();
    objects_size_ = from_.objects.size();
    std::vector<memory_run> dirty;
    HF_TRY(from_.scanner.scan(view.base(), base::to_bytes(frontier_), dirty, from_.noted));
    HF_TRY(scan_user_runs(dirty));
    found_ = dirty;

    // The tables of all segments lie side by side.
    const std::uint64_t segments = from_.mapping.segment_count(frontier_);
    const std::uint64_t committed = from_.mapping.segment_count(from_.mapping.committed());
    std::byte* const metadata = view.metadata_of(0);
    dirty.clear();
    HF_TRY(from_.scanner.scan(metadata, segments * shape.metadata_size(), dirty, from_.noted,
                              dirty_scanner::memory_of::tables));
    found_.insert(found_.end(), dirty.begin(), dirty.end());
    for (const memory_run& run : dirty) {
        for (std::uint64_t k = 0; k < run.pages; ++k) {
            std::byte* const page = run.address + k * page_size;
            const auto distance = static_cast<std::uint64_t>(page - metadata);
            const std::uint64_t i = distance / shape.metadata_size();
            const std::uint64_t offset = distance % shape.metadata_size();
            if (from_.lag.is_as_committed(place_of(i, shape.pages() + offset / page_size), page)) {
                continue;
            }
            if (offset >= shape.checksums_at()) {
                checksum_pages_.emplace_back(i, (offset - shape.checksums_at()) / page_size);
            } else {
                add({i, shape.pages() + offset / page_size, 1, page}, i >= committed ? content::none : content::known);
            }
        }
    }
    dirty.clear();
    HF_TRY(
        from_.scanner.scan(from_.objects.begin(), objects_size_, dirty, from_.noted, dirty_scanner::memory_of::tables));
    found_.insert(found_.end(), dirty.begin(), dirty.end());
    std::ranges::sort(found_, {}, &memory_run::address);
    const std::uint64_t committed_objects = from_.objects.committed_size() / page_size;
    for (const memory_run& run : dirty) {
        for (std::uint64_t k = 0; k < run.pages; ++k) {
            std::byte* const address = run.address + k * page_size;
            const auto page = static_cast<std::uint64_t>(address - from_.objects.begin()) / page_size;
            if (from_.lag.is_as_committed(place_of(objects_file_id, page), address)) {
                continue;
            }
            if (page % objects_group_pages == 0) {
                object_groups_.push_back(page / objects_group_pages);
            } else {
                add({objects_file_id, page, 1, address}, page >= committed_objects ? content::none : content::known);
            }
        }
    }
    return {};
}

base::result<void> commit_builder::check_metadata(metadata_check check) const {
    const std::uint64_t user_pages = from_.mapping.view().shape().pages();
    for (const checksummed_run& each : runs_) {
        const page_run& run = each.run;
        const bool is_directory = run.file == objects_file_id;
        if (!is_directory && run.page < user_pages) {
            continue;
        }
        const std::uint64_t first = is_directory ? run.page : run.page - user_pages;
        for (std::uint64_t i = 0; i < run.count; ++i) {
            auto checked = check(run.file, (first + i) * page_size);
            if (!checked) {
                base::failure what = std::move(checked).error();
                what.path = from_.paths.file(run.file);
                what.hint =
                    "the commit was refused, the last one stands: another thread called the heap or stored to it "
                    "during the commit, or a store to a wrong address has hit the heap's own tables";
                return what;
            }
        }
    }
    return {};
}

base::result<void> commit_builder::scan_user_runs(const std::vector<memory_run>& dirty) {
    auto free = free_.begin();
    for (const memory_run& run : dirty) {
        const base::pages first = base::page_of(from_.mapping.view().offset(run.address));
        std::uint64_t position = first.value;
        const std::uint64_t end = position + run.pages;
        while (position < end) {
            while (free != free_.end() && free->first.value + free->second.value <= position) {
                ++free;
            }
            const std::uint64_t free_from = free == free_.end() ? end : std::clamp(free->first.value, position, end);
            if (free_from > position) {
                HF_TRY(from_.lag.is_on() ? add_dirty_but_for_lag({position}, free_from - position)
                                         : add_dirty({position}, free_from - position));
            }
            const std::uint64_t free_to =
                free == free_.end() ? end : std::min(end, std::max(free_from, free->first.value + free->second.value));
            if (free_to > free_from) {
                drop_free({free_from}, free_to - free_from);
            }
            position = std::max(free_to, free_from);
        }
    }
    return {};
}

/// What home has of a page that lags is older than what the log has, even of a free one.
void commit_builder::drop_free(base::pages first, std::uint64_t count) {
    const std::uint64_t per_segment = from_.mapping.view().shape().pages();
    for (const base::pages end = first + base::pages{count}; first < end;) {
        base::pages until = end;
        if (from_.lag.is_on()) {
            until = first;
            while (until < end &&
                   from_.lag.find(place_of(until.value / per_segment, until.value % per_segment)) == nullptr) {
                ++until.value;
            }
        }
        if (first < until) {
            dropped_.push_back({from_.mapping.view().address(base::offset_of(first)), (until - first).value});
        }
        first = until < end ? until + base::pages{1} : end;
    }
}

/// Pages that lag are found by every scan.
base::result<void> commit_builder::add_dirty_but_for_lag(base::pages first, std::uint64_t count) {
    const std::uint64_t per_segment = from_.mapping.view().shape().pages();
    for (const base::pages end = first + base::pages{count}; first < end; ++first.value) {
        const std::uint64_t place = place_of(first.value / per_segment, first.value % per_segment);
        if (!from_.lag.is_as_committed(place, from_.mapping.view().address(base::offset_of(first)))) {
            HF_TRY(add_dirty(first, 1));
        }
    }
    return {};
}

/// Calls ascend.
base::result<void> commit_builder::add_dirty(base::pages first, std::uint64_t count) {
    while (count > 0) {
        while (next_kept_ != from_.kept.end() && !(first < end_of(*next_kept_))) {
            ++next_kept_;
        }
        const bool is_kept = next_kept_ != from_.kept.end() && !(first < next_kept_->first);
        const std::uint64_t until = next_kept_ == from_.kept.end() ? first.value + count
                                    : is_kept                      ? end_of(*next_kept_).value
                                                                   : next_kept_->first.value;
        const std::uint64_t now = std::min(count, until - first.value);
        if (is_kept) {
            HF_TRY(add_kept(first, now));
        } else {
            add_user(first, now);
        }
        first.value += now;
        count -= now;
    }
    return {};
}

// Pages that stay private are found by every scan, and a device may store to them at any time. So their content is
// copied, and written where it is not what the media hold.
base::result<void> commit_builder::add_kept(base::pages first, std::uint64_t count) {
    constexpr std::uint64_t at_once = 256;
    const std::uint64_t per_segment = from_.mapping.view().shape().pages();
    while (count > 0) {
        const std::uint64_t index = first.value / per_segment;
        const auto [before, now] =
            content_before(first, std::min({count, at_once, (index + 1) * per_segment - first.value}));
        HF_TRY(add_changed_of(index, first, now, before));
        first.value += now;
        count -= now;
    }
    return {};
}

base::result<void> commit_builder::add_changed_of(std::uint64_t segment, base::pages first, std::uint64_t count,
                                                  content before) {
    const std::uint64_t bytes = count * page_size;
    const std::uint64_t page = first.value % from_.mapping.view().shape().pages();
    auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(copy.get(), from_.mapping.view().address(base::offset_of(first)), bytes);
    std::unique_ptr<std::byte[]> there;
    if (before == content::known) {
        there = std::make_unique_for_overwrite<std::byte[]>(bytes);
        HF_TRY_ASSIGN(const auto file,
                      from_.storage.open(from_.paths.segment(segment), persist::access_mode::read_only));
        HF_TRY(file->read_at(page * page_size, {there.get(), bytes}));
        from_.lag.lay_over(place_of(segment, page), {there.get(), bytes});
    }
    bool is_used = false;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::byte* const now = copy.get() + i * page_size;
        if (there == nullptr || std::memcmp(now, there.get() + i * page_size, page_size) != 0) {
            add({segment, page + i, 1, now}, before, true);
            is_used = true;
        }
    }
    if (is_used) {
        copies_.push_back(std::move(copy));
    }
    return {};
}

void commit_builder::add_user(base::pages first, std::uint64_t count) {
    const std::uint64_t per_segment = from_.mapping.view().shape().pages();
    while (count > 0) {
        const std::uint64_t index = first.value / per_segment;
        const auto [before, now] = content_before(first, std::min(count, (index + 1) * per_segment - first.value));
        add({index, first.value % per_segment, now, from_.mapping.view().address(base::offset_of(first))}, before);
        first.value += now;
        count -= now;
    }
}

/// Answers for at most `most` pages. Calls ascend.
std::pair<commit_builder::content, std::uint64_t> commit_builder::content_before(base::pages first,
                                                                                 std::uint64_t most) {
    const base::pages committed = from_.mapping.committed();
    if (first >= committed) {
        return {content::none, most};
    }
    const free_runs& free = from_.committed_free;
    while (next_free_ != free.end() && next_free_->first + next_free_->second <= first) {
        ++next_free_;
    }
    const bool is_free = next_free_ != free.end() && next_free_->first <= first;
    base::pages end = std::min(committed, first + base::pages{most});
    if (is_free) {
        end = std::min(end, next_free_->first + next_free_->second);
    } else if (next_free_ != free.end()) {
        end = std::min(end, next_free_->first);
    }
    const bool blank = is_blank(first, is_free);
    base::pages same = first + base::pages{1};
    while (same < end && is_blank(same, is_free) == blank) {
        ++same.value;
    }
    return {blank ? content::blank : content::known, (same - first).value};
}

/// Below the end of the last commit LOG-9 lets a page go home without a record only where that commit has it free and
/// without a checksum: neither commit that a crash may leave needs its old content. A used page without a checksum was
/// never written, and must go on to read as zero. A free page with a checksum is still compared.
bool commit_builder::is_blank(base::pages page, bool free) const noexcept {
    if (!free) {
        return false;
    }
    const std::uint64_t per_segment = from_.mapping.view().shape().pages();
    const checksum_place place = place_of_checksum(page.value % per_segment);
    return checksum_page(page.value / per_segment, place.checksum_page)[place.entry] == 0;
}

void commit_builder::add(const page_run& run, content before, bool is_copy) {
    if (!runs_.empty()) {
        checksummed_run& last = runs_.back();
        if (last.before == before && last.is_copy == is_copy && last.run.file == run.file &&
            last.run.page + last.run.count == run.page &&
            last.run.content + last.run.count * page_size == run.content) {
            last.run.count += run.count;
            return;
        }
    }
    runs_.push_back({run, 0, before, is_copy});
}

bool commit_builder::empty() const noexcept {
    return runs_.empty() && checksum_pages_.empty() && object_groups_.empty();
}

std::uint32_t* commit_builder::checksum_page(std::uint64_t segment, std::uint64_t index) const noexcept {
    return reinterpret_cast<std::uint32_t*>(from_.mapping.view().metadata_of(segment) +
                                            from_.mapping.view().shape().checksums_at() + index * page_size);
}

void commit_builder::checksum_segment_run(const page_run& run, std::size_t first_checksum) {
    for (std::uint64_t i = 0; i < run.count; ++i) {
        const std::uint64_t checksum = checksums_[first_checksum + i];
        const checksum_place place = place_of_checksum(run.page + i);
        std::uint32_t& entry = checksum_page(run.file, place.checksum_page)[place.entry];
        replaced_checksums_.emplace_back(&entry, entry);
        had_checksum_[first_checksum + i] = entry != 0;
        entry = narrow_checksum(checksum);
        if (checksum_pages_.empty() || checksum_pages_.back() != std::pair{run.file, place.checksum_page}) {
            checksum_pages_.emplace_back(run.file, place.checksum_page);
        }
    }
}

void commit_builder::checksum_objects_run(const page_run& run, std::size_t first_checksum) {
    for (std::uint64_t i = 0; i < run.count; ++i) {
        const std::uint64_t checksum = checksums_[first_checksum + i];
        const std::uint64_t page = run.page + i;
        auto* const group = reinterpret_cast<std::uint64_t*>(from_.objects.begin() +
                                                             base::align_down(page, objects_group_pages) * page_size);
        had_checksum_[first_checksum + i] = group[page % objects_group_pages] != 0;
        group[page % objects_group_pages] = nonzero_checksum(checksum);
        object_groups_.push_back(page / objects_group_pages);
    }
}

/// A page that becomes a hole reads as zero.
void commit_builder::forget_checksums(base::pages first, base::pages end) {
    const std::uint64_t per_segment = from_.mapping.view().shape().pages();
    for (base::pages page = first; page < end; ++page.value) {
        const std::uint64_t segment = page.value / per_segment;
        const checksum_place place = place_of_checksum(page.value % per_segment);
        std::uint32_t& entry = checksum_page(segment, place.checksum_page)[place.entry];
        if (entry != 0) {
            replaced_checksums_.emplace_back(&entry, entry);
            entry = 0;
            if (checksum_pages_.empty() || checksum_pages_.back() != std::pair{segment, place.checksum_page}) {
                checksum_pages_.emplace_back(segment, place.checksum_page);
            }
        }
    }
}

void commit_builder::forget_checksums_of_going() {
    for (const auto& [start, length] : going_.holes) {
        forget_checksums(start, start + length);
    }
    if (going_.frontier) {
        const std::uint64_t per_segment = from_.mapping.view().shape().pages();
        forget_checksums(*going_.frontier, {base::align_up(going_.frontier->value, per_segment)});
    }
}

/// Checksum pages are summed last: each covers entries of all other pages.
void commit_builder::close_checksum_pages() {
    sort_unique(checksum_pages_);
    const std::uint64_t committed = from_.mapping.segment_count(from_.mapping.committed());
    const geometry& shape = from_.mapping.view().shape();
    for (const auto& [segment, index] : checksum_pages_) {
        std::uint32_t* const page = checksum_page(segment, index);
        page[checksums_per_page] = own_checksum({page, checksums_per_page + 1});
        auto* const bytes = reinterpret_cast<std::byte*>(page);
        stored_checksum_pages_.push_back(bytes);
        const std::uint64_t file_page = shape.pages() + shape.checksums_at() / page_size + index;
        runs_.push_back({{segment, file_page, 1, bytes},
                         checksums_.size(),
                         segment >= committed ? content::none : content::known,
                         false});
        checksums_.push_back(base::checksum64({bytes, page_size}));
        had_checksum_.push_back(true);  // only commits change it
    }
}

void commit_builder::close_object_groups() {
    sort_unique(object_groups_);
    for (const std::uint64_t group : object_groups_) {
        const std::uint64_t page = group * objects_group_pages;
        auto* const bytes = from_.objects.begin() + page * page_size;
        auto* const entries = reinterpret_cast<std::uint64_t*>(bytes);
        entries[0] = own_group_checksum({entries, objects_group_pages});
        stored_checksum_pages_.push_back(bytes);
        const bool beyond = page >= from_.objects.committed_size() / page_size;
        runs_.push_back(
            {{objects_file_id, page, 1, bytes}, checksums_.size(), beyond ? content::none : content::known, false});
        checksums_.push_back(base::checksum64({bytes, page_size}));
        had_checksum_.push_back(true);  // only commits change it
    }
}

void commit_builder::build(commit_plan& plan, commit_statistics& statistics) {
    std::size_t pages = 0;
    for (checksummed_run& run : runs_) {
        run.first_checksum = pages;
        pages += run.run.count;
    }
    checksums_.resize(pages);
    had_checksum_.resize(pages);
    in_shares([this](const checksummed_run& each, std::uint64_t from, std::uint64_t until, std::uint64_t at) noexcept {
        for (; from < until; ++from) {
            checksums_[at++] = base::checksum64({each.run.content + from * page_size, page_size});
        }
    });
    for (const checksummed_run& run : runs_) {
        if (run.run.file == objects_file_id) {
            checksum_objects_run(run.run, run.first_checksum);
        } else {
            checksum_segment_run(run.run, run.first_checksum);
        }
    }
    statistics.dirty_pages = pages;
    forget_checksums_of_going();
    close_checksum_pages();
    close_object_groups();
    // A file that grew is synced in any case: its size is part of the commit.
    for (std::uint64_t index = from_.mapping.segment_count(from_.mapping.committed());
         index < from_.mapping.segment_count(frontier_); ++index) {
        runs_.push_back({{index, 0, 0, nullptr}, checksums_.size(), content::none, false});
    }
    if (objects_size_ != from_.objects.committed_size()) {
        runs_.push_back({{objects_file_id, 0, 0, nullptr}, checksums_.size(), content::none, false});
    }
    std::sort(runs_.begin(), runs_.end(), [](const checksummed_run& a, const checksummed_run& b) {
        return std::tie(a.run.file, a.run.page) < std::tie(b.run.file, b.run.page);
    });
    for (const checksummed_run& run : runs_) {
        const auto checksums = std::span(checksums_).subspan(run.first_checksum, run.run.count);
        (run.fresh() ? plan.fresh : plan.changed).push_back(run.run);
        auto& of_kind = run.fresh() ? plan.fresh_checksums : plan.changed_checksums;
        of_kind.insert(of_kind.end(), checksums.begin(), checksums.end());
        if (!run.fresh()) {
            const auto first = had_checksum_.begin() + static_cast<std::ptrdiff_t>(run.first_checksum);
            plan.changed_since.insert(plan.changed_since.end(), first,
                                      first + static_cast<std::ptrdiff_t>(run.run.count));
        }
    }
    statistics.fresh_pages = plan.fresh_checksums.size();
    statistics.logged_pages = plan.changed_checksums.size();
}

void commit_builder::restore_checksums() noexcept {
    for (const auto& [entry, checksum] : replaced_checksums_) {
        *entry = checksum;
    }
}

/// Whether the file's content appears where private pages are dropped (MAP-2).
bool commit_builder::is_file_below(const page_run& run) const noexcept {
    if (run.file == objects_file_id) {
        return (run.page + run.count) * page_size <= from_.objects.adopted_size();
    }
    const std::uint64_t user_pages = from_.mapping.view().shape().pages();
    if (run.page >= user_pages) {
        return run.file < from_.mapping.segment_count(from_.mapping.adopted());
    }
    return run.file * user_pages + run.page + run.count <= from_.mapping.adopted().value;
}

bool commit_builder::is_of_tables(const page_run& run) const noexcept {
    return run.file == objects_file_id || run.page >= from_.mapping.view().shape().pages();
}

/// Pages in which holes are to be, or that leave the heap, show nothing of before. Others go where the scan would have
/// found them if somebody had stored to them.
template <class Drop>
void commit_builder::let_warm_go(Drop&& drop) noexcept {
    const auto drop_page = [&](std::byte* page) {
        if (!from_.lag.is_on() || from_.lag.find(from_.mapping.place_at(page)) == nullptr) {
            drop(page, 1);
        }
    };
    if (!going_.holes.empty() || going_.frontier) {
        from_.scanner.warm().drop_all(drop_page);
    } else if (!from_.noted && from_.scanner.warm().is_full()) {
        from_.scanner.warm().shrink(drop_page);
    }
}

bool commit_builder::is_over_files() const noexcept {
    return std::ranges::all_of(runs_, [this](const checksummed_run& each) {
        return is_over_file(each) && from_.scanner.watches(each.run.content, each.run.count);
    });
}

bool commit_builder::is_small() const noexcept {
    return checksums_.size() <= most_pages_kept && going_.holes.empty() && !going_.frontier;
}

bool commit_builder::is_small_change() const noexcept { return is_small() && is_over_files(); }

void commit_builder::note_loss(std::chrono::nanoseconds waited) const noexcept {
    // What differs from home is read, written there, dropped, and copied again by the next store.
    constexpr std::chrono::nanoseconds of_a_page{5000};
    const auto lies_over_file = [this](const checksummed_run& each) { return is_over_file(each); };
    if (!is_small() || !std::ranges::all_of(runs_, lies_over_file)) {
        return;
    }
    for (const checksummed_run& each : runs_) {
        if (!from_.scanner.watches(each.run.content, each.run.count)) {
            from_.scanner.note_loss(each.run.content, of_a_page * static_cast<std::int64_t>(each.run.count) + waited);
            waited = {};
        }
    }
}

std::uint64_t commit_builder::pages() const noexcept {
    std::uint64_t all = 0;
    for (const checksummed_run& each : runs_) {
        all += each.run.count;
    }
    return all;
}

/// Calls `act(run, from, until, at)` for pages of each run, of which the first is the `at`-th one of all, from several
/// threads.
template <class Act>
void commit_builder::in_shares(Act&& act) const {
    constexpr std::uint64_t least_share = 1024;  // pages: a millisecond, a thread costs 0.1
    constexpr unsigned most_workers = 8;
    const std::uint64_t all = pages();
    const unsigned workers = base::workers_for(all, least_share, most_workers);
    base::run_in_parallel(workers, [&](unsigned worker) noexcept {
        const std::uint64_t begin = all * worker / workers;
        const std::uint64_t end = all * (worker + 1) / workers;
        std::uint64_t at = 0;
        for (const checksummed_run& each : runs_) {
            const std::uint64_t from = std::clamp(begin, at, at + each.run.count) - at;
            const std::uint64_t until = std::clamp(end, at, at + each.run.count) - at;
            act(each, from, until, at + from);
            at += each.run.count;
        }
    });
}

/// The program stands still meanwhile.
void commit_builder::copy_pages(std::byte* to) noexcept {
    in_shares([to](const checksummed_run& each, std::uint64_t from, std::uint64_t until, std::uint64_t at) noexcept {
        std::memcpy(to + at * page_size, each.run.content + from * page_size, (until - from) * page_size);
    });
    for (checksummed_run& each : runs_) {
        each.run.content = to;
        to += each.run.count * page_size;
    }
}

void commit_builder::release_checksums() noexcept {
    for (std::byte* const page : stored_checksum_pages_) {
        from_.scanner.note_own_stores(page, 1);
    }
}

void commit_builder::release() noexcept {
    // adopt() replaces the memory beyond the end of the last commit by a mapping.
    std::array<std::span<std::byte>, 128> batch;
    std::size_t count = 0;
    const auto drop = [&](std::byte* address, std::uint64_t pages) {
        if (count == batch.size()) {
            drop_private_pages(batch);
            count = 0;
        }
        batch[count++] = {address, pages * page_size};
    };
    const bool is_small = checksums_.size() <= most_pages_kept;
    for (const checksummed_run& run : runs_) {
        auto* const memory = const_cast<std::byte*>(run.run.content);
        if (is_of_tables(run.run)) {
            from_.scanner.note_own_stores(memory, run.run.count);
        }
        if (run.before == content::none || run.is_copy || !is_file_below(run.run)) {
            continue;
        }
        if (!is_small && !from_.lag.is_on()) {
            drop(memory, run.run.count);
            continue;
        }
        for (std::uint64_t i = 0; i < run.run.count; ++i) {
            std::byte* const page = memory + i * page_size;
            const bool lags = from_.lag.is_on() && from_.lag.find(place_of(run.run.file, run.run.page + i)) != nullptr;
            if (!(is_small && from_.scanner.keep_warm(page)) && !lags) {
                drop(page, 1);
            }
        }
    }
    for (const memory_run& run : dropped_) {
        drop(run.address, run.pages);
    }
    let_warm_go(drop);
    drop_private_pages(std::span{batch}.first(count));
}

}  // namespace holdfast::segment
