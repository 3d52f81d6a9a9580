#include "segment/commit/commit_steps.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/parallel.hpp"
#include "persist/posix_io.hpp"
#include "persist/sync.hpp"
#include "segment/commit/commit_record.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/commit/page_writer.hpp"
#include "segment/commit/writeback.hpp"

namespace holdfast::segment {

namespace {

std::uint64_t page_count(std::span<const page_run> runs) noexcept {
    std::uint64_t pages = 0;
    for (const page_run& run : runs) {
        pages += run.count;
    }
    return pages;
}

constexpr unsigned most_files_at_once = 8;

/// As many as have a thread, where the device begins with them when they are written.
std::size_t files_at_once(bool starts_writeback) noexcept {
    return starts_writeback ? base::workers_for(most_files_at_once, 1, most_files_at_once) : most_files_at_once;
}

/// The runs of the first file are taken off.
std::span<const page_run> take_file(std::span<const page_run>& runs) noexcept {
    const std::uint64_t id = runs.front().file;
    const auto end = std::find_if(runs.begin(), runs.end(), [id](const page_run& run) { return run.file != id; });
    const auto of_file = runs.first(static_cast<std::size_t>(end - runs.begin()));
    runs = runs.subspan(of_file.size());
    return of_file;
}

/// Syncs begin with the last file, while the device writes the first.
base::result<void> write_some_files(persist::storage& storage, const heap_paths& paths, std::span<const page_run>& runs,
                                    page_writer& writer, persist::site sync_site, transaction_report& report) {
    const bool starts_writeback = page_count(runs) >= writeback_pages;
    std::vector<runs_of_file> files;
    while (!runs.empty() && files.size() < files_synced_at_once) {
        auto opened = storage.open(paths.file(runs.front().file), persist::access_mode::read_write);
        if (is_out_of_descriptors(opened) && !files.empty()) {
            break;  // the files that are open give theirs back
        }
        HF_TRY_ASSIGN(auto file, std::move(opened));
        files.push_back({std::move(file), take_file(runs)});
    }
    writeback device;
    const std::size_t at_once = files_at_once(starts_writeback);
    for (std::span<const runs_of_file> left = files; !left.empty();) {
        const auto some = left.first(std::min(left.size(), at_once));
        HF_TRY(writer.write(some));
        for (const runs_of_file& each : some) {
            if (starts_writeback) {
                device.start(each.file);
            }
        }
        left = left.subspan(some.size());
    }
    std::vector<std::shared_ptr<persist::file>> written;
    written.reserve(files.size());
    for (auto each = files.rbegin(); each != files.rend(); ++each) {
        written.push_back(std::move(each->file));
    }
    const commit_stage before = report.stage;
    report.stage = std::max(before, commit_stage::uncertain);
    const stopwatch watch(report.sync_ns);
    HF_TRY(persist::sync_together(written, sync_site));
    report.stage = before;
    return {};
}

base::result<void> write_fresh(persist::storage& storage, const heap_paths& paths, const commit_plan& plan,
                               transaction_report& report) {
    // A failed write may be tried again when there is space; a failed sync may not: fsync reports an error once.
    HF_TRY(write_home(storage, paths, {plan.fresh, plan.fresh_checksums, {}}, "commit.fresh.write", "commit.fresh.sync",
                      report));
    if (plan.names_changed) {
        report.stage = commit_stage::uncertain;
        HF_TRY(sync_segment_names(storage, paths, "commit.directory.sync"));
        report.stage = commit_stage::unchanged;
    }
    return {};
}

base::result<void> reserve(persist::storage& storage, const heap_paths& paths, std::span<const page_run> runs) {
    std::unique_ptr<persist::file> file;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (i == 0 || runs[i].file != runs[i - 1].file) {
            HF_TRY_ASSIGN(file, storage.open(paths.file(runs[i].file), persist::access_mode::read_write));
        }
        HF_TRY(file->allocate(runs[i].page * base::page_size, runs[i].count * base::page_size, "commit.reserve"));
    }
    return {};
}

/// A write that the process may not make must not end the way home.
base::result<void> check_way_home(const heap_paths& paths, std::span<const page_run> changed) {
    std::string path = paths.superblock();
    std::uint64_t end = superblock_copies * superblock_size;
    for (const page_run& run : changed) {
        if (const std::uint64_t home = (run.page + run.count) * base::page_size; home > end) {
            end = home;
            path = paths.file(run.file);
        }
    }
    return persist::check_file_length(end, path);
}

/// Pages that go into the record.
struct logged_pages {
    std::vector<page_run> runs;
    std::vector<std::uint64_t> checksums;
    std::vector<bool> since;
    std::span<const page_run> are_home;  ///< others, of which it says so
};

/// Of few fresh pages the record has the content; a file that grew must be synced first.
bool goes_home_first(const commit_plan& plan, std::uint64_t most) noexcept {
    return plan.names_changed || plan.fresh_checksums.size() > most ||
           std::ranges::any_of(plan.fresh, [](const page_run& run) { return run.count == 0; });
}

logged_pages pages_for_record(const commit_plan& plan, bool with_fresh) {
    if (!with_fresh || plan.fresh.empty()) {
        return {plan.changed, plan.changed_checksums, plan.changed_since, plan.fresh};
    }
    logged_pages both;
    std::size_t fresh = 0;
    std::size_t changed = 0;
    std::size_t fresh_page = 0;
    std::size_t changed_page = 0;
    while (fresh < plan.fresh.size() || changed < plan.changed.size()) {
        const bool takes_fresh =
            changed == plan.changed.size() ||
            (fresh < plan.fresh.size() && std::pair{plan.fresh[fresh].file, plan.fresh[fresh].page} <
                                              std::pair{plan.changed[changed].file, plan.changed[changed].page});
        const page_run& run = takes_fresh ? plan.fresh[fresh++] : plan.changed[changed++];
        both.runs.push_back(run);
        for (std::uint64_t i = 0; i < run.count; ++i) {
            both.checksums.push_back(takes_fresh ? plan.fresh_checksums[fresh_page]
                                                 : plan.changed_checksums[changed_page]);
            both.since.push_back(!takes_fresh && plan.changed_since[changed_page]);
            ++(takes_fresh ? fresh_page : changed_page);
        }
    }
    return both;
}

/// By samples.
bool differs_throughout(const std::byte* page, const std::byte* before) noexcept {
    constexpr std::uint64_t apart = 256;
    constexpr std::uint64_t length = 8;
    for (std::uint64_t at = 0; at < base::page_size; at += apart) {
        if (std::memcmp(page + at, before + at, length) == 0) {
            return false;
        }
    }
    return true;
}

class record_maker {
public:
    record_maker(persist::storage& storage, const heap_paths& paths, commit_log& log, log::log& to,
                 const logged_pages& pages, transaction_report& report)
        : storage_(storage), paths_(paths), log_(log), to_(to), pages_(pages), report_(report) {}

    /// Durable on return, if nobody else waits for it.
    base::result<void> write(const commit_plan& plan) {
        const stopwatch watch(report_.sync_ns);
        const auto take_part = [this](std::span<const std::byte> part) -> base::result<void> {
            HF_TRY_ASSIGN(end_, to_.append_part(record_part, part));
            report_.written_bytes += part.size();
            report_.stage = commit_stage::uncertain;
            HF_TRY(to_.write_out(end_.sequence));
            report_.stage = commit_stage::unchanged;
            return {};
        };
        record_writer writer(std::min(to_.largest_payload(), most_of_part), take_part);
        for (const page_run& run : pages_.are_home) {
            HF_TRY(writer.home(place_of(run.file, run.page), run.count));
        }
        for (const page_run& run : pages_.runs) {
            HF_TRY(add(writer, run));
        }
        const std::vector<std::byte> payload = writer.finish(plan.superblock);
        HF_TRY_ASSIGN(end_, to_.append(record_commit, payload));
        report_.written_bytes += payload.size();
        if (plan.is_waited_for) {
            report_.stage = commit_stage::uncertain;
            return {};
        }
        return wait(commit_stage::durable);
    }

private:
    base::result<void> wait(commit_stage then) {
        report_.stage = commit_stage::uncertain;
        HF_TRY(to_.wait(end_.sequence));
        report_.stage = then;
        return {};
    }

    base::result<void> add(record_writer& writer, const page_run& run) {
        for (std::uint64_t done = 0; done < run.count;) {
            copies_.clear();
            const page_run part = run.part(done, std::min(run.count - done, copies_.room()));
            const auto checksums = std::span(pages_.checksums).subspan(next_, part.count);
            const auto refuse = [&](std::uint64_t index, std::span<std::byte>) {
                return base::result<void>(stored_meanwhile(paths_.file(part.file), part.page + index));
            };
            HF_TRY(copies_.add(part, checksums, refuse));
            const std::uint64_t compared = count_compared(part.count);
            HF_TRY(read_before(part, compared));
            for (std::uint64_t i = 0; i < part.count; ++i) {
                const std::uint64_t place = place_of(part.file, part.page + i);
                const auto page = copies_.bytes().subspan(i * base::page_size, base::page_size);
                if (i >= compared || !pages_.since[next_ + i]) {
                    HF_TRY(writer.pages(place, page));
                    continue;
                }
                HF_TRY(writer.difference(place, page.data(), before(place, i)));
                whole_in_a_row_ = differs_throughout(page.data(), before(place, i)) ? whole_in_a_row_ + 1 : 0;
            }
            next_ += part.count;
            done += part.count;
        }
        return {};
    }
    /// Of so many next pages, the first ones that are compared. Behind pages that all changed throughout it is one of
    /// those that may be, and the others are taken for such: what they were is not read.
    [[nodiscard]] std::uint64_t count_compared(std::uint64_t count) const noexcept {
        if (whole_in_a_row_ < at_once) {
            return count;
        }
        std::uint64_t first = 0;
        while (first < count && !pages_.since[next_ + first]) {
            ++first;
        }
        return std::min(first + 1, count);
    }
    /// Reads from home what differences of the first pages are wanted against, but for those of which there is a copy.
    base::result<void> read_before(const page_run& part, std::uint64_t count) {
        before_.resize(part.count * base::page_size);
        const auto is_wanted = [&](std::uint64_t i) {
            return pages_.since[next_ + i] && log_.lag().find(place_of(part.file, part.page + i)) == nullptr;
        };
        for (std::uint64_t i = 0; i < count;) {
            std::uint64_t end = i;
            while (end < count && is_wanted(end)) {
                ++end;
            }
            if (end > i) {
                HF_TRY_ASSIGN(const auto file, log_.home().get(storage_, paths_, part.file));
                HF_TRY(file->read_at((part.page + i) * base::page_size,
                                     std::span(before_).subspan(i * base::page_size, (end - i) * base::page_size)));
            }
            i = end + 1;
        }
        return {};
    }
    /// Of the part that read_before() has read.
    [[nodiscard]] const std::byte* before(std::uint64_t place, std::uint64_t i) const noexcept {
        const std::byte* const copy = log_.lag().find(place);
        return copy != nullptr ? copy : before_.data() + i * base::page_size;
    }

    static constexpr std::uint64_t at_once = 64;
    static constexpr std::uint64_t most_of_part = base::mebibyte;

    persist::storage& storage_;
    const heap_paths& paths_;
    commit_log& log_;
    log::log& to_;
    const logged_pages& pages_;
    transaction_report& report_;
    page_copies copies_{std::min(at_once, page_count(pages_.runs))};
    std::vector<std::byte> before_;
    std::size_t next_ = 0;
    std::uint64_t whole_in_a_row_ = 0;
    log::mark end_;
};

/// The record has a page that was stored to after it was made.
class pages_of_record {
public:
    pages_of_record(persist::storage& storage, const heap_paths& paths, commit_log& log,
                    const superblock_on_media& before, const logged_pages& pages)
        : storage_(storage), paths_(paths), log_(log), before_(before), pages_(pages) {}

    base::result<void> read(std::uint64_t index, std::span<std::byte> page) {
        if (!content_) {
            HF_TRY_ASSIGN(content_, log_content::read(storage_, paths_, before_));
        }
        std::uint64_t left = index;
        for (const page_run& run : pages_.runs) {
            if (left < run.count) {
                HF_TRY_ASSIGN(const auto file, log_.home().get(storage_, paths_, run.file));
                HF_TRY(file->read_at((run.page + left) * base::page_size, page));
                log_.lag().lay_over(place_of(run.file, run.page + left), page);
                return patch_reader(storage_, paths_, *content_).lay_over(place_of(run.file, run.page + left), page);
            }
            left -= run.count;
        }
        return {};
    }

private:
    persist::storage& storage_;
    const heap_paths& paths_;
    commit_log& log_;
    const superblock_on_media& before_;
    const logged_pages& pages_;
    std::optional<log_content> content_;
};

/// The record is durable.
base::result<void> carry_home(persist::storage& storage, const heap_paths& paths, commit_log& log,
                              const logged_pages& pages, page_copies::replacement from_record,
                              transaction_report& report) {
    const pages_to_write wanted{pages.runs, pages.checksums, from_record};
    page_writer writer(wanted, "commit.home.write", report);
    const bool starts_writeback = page_count(pages.runs) >= writeback_pages;
    const std::size_t at_once = files_at_once(starts_writeback);
    for (std::span<const page_run> runs = pages.runs; !runs.empty();) {
        std::vector<runs_of_file> files;
        while (!runs.empty() && files.size() < at_once) {
            const std::uint64_t id = runs.front().file;
            HF_TRY_ASSIGN(auto file, log.home().get(storage, paths, id));
            files.push_back({std::move(file), take_file(runs)});
            log.note_home(id, page_count(files.back().runs));
        }
        HF_TRY(writer.write(files));
        for (const runs_of_file& each : files) {
            if (starts_writeback) {
                log.device().start(each.file);
            }
        }
    }
    return {};
}

/// The record is in the log, and somebody reads an older version, or the pages are few: they stay where they are
/// (LOG-4).
base::result<void> leave_behind(commit_log& log, const superblock_on_media& home, std::uint64_t version,
                                const logged_pages& pages, page_copies::replacement from_record) {
    constexpr std::uint64_t at_once = 64;
    page_copies copies(std::min(at_once, page_count(pages.runs)));
    std::size_t next = 0;
    if (!log.lag().is_on()) {
        log.lag().begin(home);
    }
    for (const page_run& run : pages.runs) {
        for (std::uint64_t done = 0; done < run.count;) {
            copies.clear();
            const page_run part = run.part(done, std::min(run.count - done, copies.room()));
            const auto replace = [&](std::uint64_t index, std::span<std::byte> page) {
                return from_record(next + index, page);
            };
            HF_TRY(copies.add(part, std::span(pages.checksums).subspan(next, part.count), replace));
            for (std::uint64_t i = 0; i < part.count; ++i) {
                const auto content = copies.bytes().subspan(i * base::page_size, base::page_size);
                log.lag().put(place_of(part.file, part.page + i), content, version);
            }
            next += part.count;
            done += part.count;
        }
    }
    return {};
}

/// A log or home of which nobody knows what media have.
bool is_uncertain(const base::failure& what) noexcept {
    return persist::is_failed_sync(what) || what.code == base::failure_code::poisoned;
}

/// A log that is full is emptied first. `before`: where the record's commit begins in the log, on return.
base::result<void> write_record(persist::storage& storage, const heap_paths& paths, commit_log& log,
                                const commit_plan& plan, const logged_pages& pages, superblock_on_media& on_media,
                                superblock_on_media& before, transaction_report& report) {
    const auto attempt = [&]() -> base::result<void> {
        HF_TRY_ASSIGN(log::log* const to, log.get(storage, paths, on_media));
        before.log_begin = to->end();
        before.flags |= flag_log;
        return record_maker(storage, paths, log, *to, pages, report).write(plan);
    };
    auto done = attempt();
    const bool is_full = !done && done.error().code == base::failure_code::no_space && !log.is_empty();
    if (!is_full || report.stage != commit_stage::unchanged) {
        return done;
    }
    if (auto emptied = log.checkpoint(storage, paths, on_media); !emptied) {
        if (is_uncertain(emptied.error())) {
            report.stage = commit_stage::uncertain;
        }
        return emptied;
    }
    return attempt();
}

/// The record is durable, or its pages stay behind. `before`: the last version, with its end in the log.
base::result<void> home_or_behind(persist::storage& storage, const heap_paths& paths, commit_log& log,
                                  const commit_plan& plan, const logged_pages& pages,
                                  page_copies::replacement from_record, const superblock_on_media& before,
                                  transaction_report& report) {
    lagging_home& lag = log.lag();
    const std::uint64_t version = plan.superblock.sequence;
    if (!plan.is_waited_for) {
        log.publish(version);
    }
    const bool is_read = lag.oldest_in_use(version) < version;
    if (!lag.is_on() && !is_read && !plan.may_stay_behind) {
        HF_TRY(carry_home(storage, paths, log, pages, from_record, report));
        if (lag.users() != nullptr) {
            lag.users()->publish_home(version);
        }
        return {};
    }
    HF_TRY(leave_behind(log, before, version, pages, from_record));
    // They were free in each version that somebody may read, and memory becomes a mapping of them.
    if (pages.are_home.empty() && !plan.fresh.empty() && !plan.may_stay_behind) {
        logged_pages fresh;
        fresh.runs = plan.fresh;
        fresh.checksums = plan.fresh_checksums;
        pages_of_record record(storage, paths, log, before, fresh);
        const auto from = [&record](std::uint64_t index, std::span<std::byte> page) {
            return record.read(index, page);
        };
        return carry_home(storage, paths, log, fresh, from, report);
    }
    return {};
}

}  // namespace

base::result<void> write_home(persist::storage& storage, const heap_paths& paths, const pages_to_write& pages,
                              persist::site write_site, persist::site sync_site, transaction_report& report) {
    page_writer writer(pages, write_site, report);
    std::span<const page_run> runs = pages.runs;
    while (!runs.empty()) {
        HF_TRY(write_some_files(storage, paths, runs, writer, sync_site, report));
    }
    return {};
}

base::result<void> run_commit(persist::storage& storage, const heap_paths& paths, commit_log& log,
                              const commit_plan& plan, superblock_on_media& on_media, transaction_report& report) {
    report.stage = commit_stage::unchanged;
    HF_TRY(log.check_own(storage, paths, plan.superblock));
    // Of a fresh page that went home, a record from before must not go there again (LOG-10), so that a record says so.
    const bool lags = log.lag().is_on() && !plan.may_stay_behind;
    const bool fresh_goes_home = goes_home_first(plan, lags ? 0 : log.limits().logged_fresh_pages);
    const logged_pages pages = pages_for_record(plan, !fresh_goes_home);
    HF_TRY(check_way_home(paths, pages.runs));
    if (auto ready = log.lengthen_files(storage, paths, on_media, pages.checksums.size() * base::page_size); !ready) {
        report.stage = is_uncertain(ready.error()) ? commit_stage::uncertain : commit_stage::unchanged;
        return ready;
    }
    if (fresh_goes_home) {
        HF_TRY(write_fresh(storage, paths, plan, report));
    }
    HF_TRY(reserve(storage, paths, plan.reserved));
    superblock_on_media before = on_media;
    pages_of_record record(storage, paths, log, before, pages);
    const auto from_record = [&](std::uint64_t index, std::span<std::byte> page) -> base::result<void> {
        HF_TRY(log.appended(plan.superblock.sequence).wait());
        return record.read(index, page);
    };
    HF_TRY(write_record(storage, paths, log, plan, pages, on_media, before, report));
    HF_TRY(home_or_behind(storage, paths, log, plan, pages, from_record, before, report));
    report.stage = commit_stage::complete;
    return {};
}

base::result<void> close_cleanly(persist::storage& storage, const heap_paths& paths, commit_log& log,
                                 superblock_on_media& superblock) {
    HF_ASSERT(superblock.state == heap_state::running);
    return log.end(storage, paths, superblock, heap_state::clean);
}

}  // namespace holdfast::segment
