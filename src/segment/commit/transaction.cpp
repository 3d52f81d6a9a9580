#include "segment/commit/transaction.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>

#include "persist/mutant.hpp"
#include "persist/posix_io.hpp"
#include "segment/commit/writeback.hpp"

namespace holdfast::segment {

namespace {

class stopwatch {
public:
    explicit stopwatch(std::uint64_t& total) noexcept : total_(total), start_(std::chrono::steady_clock::now()) {}
    stopwatch(const stopwatch&) = delete;
    stopwatch& operator=(const stopwatch&) = delete;
    ~stopwatch() {
        total_ += static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count());
    }

private:
    std::uint64_t& total_;
    std::chrono::steady_clock::time_point start_;
};

class page_writer {
public:
    page_writer(const pages_to_write& pages, persist::site where, transaction_report& report)
        : pages_(pages), where_(where), report_(report) {
        if (!pages.sums.empty()) {
            copies_.emplace(pages.sums.size());
        }
    }

    base::result<void> write(persist::file& file, std::span<const page_run> runs) {
        const stopwatch watch(report_.write_ns);
        for (const page_run& run : runs) {
            if (run.count == 0) {
                continue;  // the file grew and must only be synced
            }
            HF_TRY(copies_ ? write_copies(file, run) : file.write_at(run.page * base::page_size, run.bytes(), where_));
            report_.written_bytes += run.count * base::page_size;
        }
        return {};
    }

private:
    base::result<void> write_copies(persist::file& file, const page_run& run) {
        for (std::uint64_t done = 0; done < run.count;) {
            copies_->clear();
            const page_run part = run.part(done, std::min(run.count - done, copies_->room()));
            const auto replace = [&](std::uint64_t index, std::span<std::byte> page) -> base::result<void> {
                return pages_.elsewhere ? (*pages_.elsewhere)(next_ + index, page)
                                        : stored_meanwhile(file.path(), part.page + index);
            };
            HF_TRY(copies_->add(part, pages_.sums.subspan(next_, part.count), replace));
            HF_TRY(file.write_at(part.page * base::page_size, copies_->bytes(), where_));
            next_ += part.count;
            done += part.count;
        }
        return {};
    }

    const pages_to_write& pages_;
    persist::site where_;
    transaction_report& report_;
    std::optional<page_copies> copies_;
    std::uint64_t next_ = 0;
};

base::result<void> sync_file(persist::file& file, persist::site where, transaction_report& report) {
    const stopwatch watch(report.sync_ns);
    return file.sync(where);
}

constexpr std::size_t files_at_once = 64;
/// Below, a second thread costs more than it saves.
constexpr std::uint64_t writeback_pages = 256;

std::uint64_t page_count(std::span<const page_run> runs) noexcept {
    std::uint64_t pages = 0;
    for (const page_run& run : runs) {
        pages += run.count;
    }
    return pages;
}

bool is_out_of_descriptors(const base::result<std::unique_ptr<persist::file>>& opened) noexcept {
    return !opened && (opened.error().os_error == EMFILE || opened.error().os_error == ENFILE);
}

/// Syncs begin with the last file, while the device writes the first.
base::result<void> write_some_files(persist::storage& storage, const heap_paths& paths, std::span<const page_run>& runs,
                                    page_writer& writer, persist::site sync_site, transaction_report& report) {
    const bool starts_writeback = page_count(runs) >= writeback_pages;
    std::vector<std::unique_ptr<persist::file>> files;
    writeback device;
    while (!runs.empty() && files.size() < files_at_once) {
        const std::uint64_t id = runs.front().file;
        const auto end = std::find_if(runs.begin(), runs.end(), [id](const page_run& run) { return run.file != id; });
        const auto of_file = runs.first(static_cast<std::size_t>(end - runs.begin()));
        auto opened = storage.open(paths.file(id), persist::access_mode::read_write);
        if (is_out_of_descriptors(opened) && !files.empty()) {
            break;  // the files that are open give theirs back
        }
        HF_TRY_ASSIGN(auto file, std::move(opened));
        HF_TRY(writer.write(*file, of_file));
        files.push_back(std::move(file));
        if (starts_writeback) {
            device.start(*files.back());
        }
        runs = runs.subspan(of_file.size());
    }
    const commit_stage before = report.stage;
    report.stage = std::max(before, commit_stage::uncertain);
    for (auto file = files.rbegin(); file != files.rend(); ++file) {
        HF_TRY(sync_file(**file, sync_site, report));
    }
    report.stage = before;
    return {};
}

base::result<void> write_fresh(persist::storage& storage, const heap_paths& paths, const commit_plan& plan,
                               transaction_report& report) {
    // A failed write may be tried again when there is space; a failed sync may not: fsync reports an error once.
    HF_TRY(write_home(storage, paths, {plan.fresh, plan.fresh_sums, {}}, "commit.fresh.write", "commit.fresh.sync",
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

base::result<void> write_commit_point(persist::file& journal, const commit_plan& plan, transaction_report& report) {
    {
        const stopwatch watch(report.write_ns);
        HF_TRY(write_journal(journal, plan.superblock, plan.changed, plan.changed_sums));
    }
    report.written_bytes += plan.changed_sums.size() * base::page_size;
    report.stage = commit_stage::uncertain;
    return sync_file(journal, "journal.sync", report);
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

base::result<void> run_transaction(persist::storage& storage, const heap_paths& paths, const commit_plan& plan,
                                   transaction_report& report) {
    report.stage = commit_stage::unchanged;
    // Somebody may have exchanged the files of the directory.
    HF_TRY_ASSIGN(auto superblock, storage.open(paths.superblock(), persist::access_mode::read_write));
    HF_TRY_ASSIGN(const superblock_copies_read there, read_superblocks(*superblock));
    HF_TRY(check_own(there, plan.superblock, superblock->path()));
    HF_TRY_ASSIGN(auto journal, storage.open(paths.journal(), persist::access_mode::read_write));
    HF_TRY(check_own_journal(*journal, plan.superblock));
    HF_TRY(check_way_home(paths, plan.changed));
    HF_TRY(write_fresh(storage, paths, plan, report));
    HF_TRY(reserve(storage, paths, plan.reserved));
    const auto home = [&]() -> base::result<void> {
        // The durable journal has the content of pages that were stored to meanwhile.
        const auto journaled = [&](std::uint64_t index, std::span<std::byte> page) {
            return read_written_page(*journal, plan.changed_sums.size(), index, page);
        };
        return write_home(storage, paths, {plan.changed, plan.changed_sums, page_copies::replacement(journaled)},
                          "commit.home.write", "commit.home.sync", report);
    };
    if (HF_MUTANT("commit.home_before_journal")) {
        HF_TRY(home());
    }
    HF_TRY(write_commit_point(*journal, plan, report));
    report.stage = commit_stage::durable;
    HF_TRY(home());
    {
        const stopwatch watch(report.sync_ns);
        HF_TRY(write_superblocks(*superblock, plan.superblock));
    }
    report.stage = commit_stage::complete;
    return {};
}

base::result<void> write_state(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                               heap_state state, bool durable) {
    const auto next = std::make_unique<superblock_on_media>(superblock);
    next->state = state;
    seal(*next);
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), persist::access_mode::read_write));
    const auto bytes = std::as_bytes(std::span{next.get(), 1});
    // A failed write may have left a torn copy. It is written first, because the other is the only good one.
    HF_TRY_ASSIGN(const superblock_copies_read there, read_superblocks(*file));
    HF_TRY(check_own(there, superblock, file->path()));
    const std::uint64_t first = there.good[0] && !there.good[1] ? superblock_size : 0;
    HF_TRY(file->write_at(first, bytes, "state.write.first"));
    if (durable) {
        HF_TRY(file->sync("state.sync.first"));
    }
    HF_TRY(file->write_at(superblock_size - first, bytes, "state.write.second"));
    if (durable) {
        HF_TRY(file->sync("state.sync.second"));
    }
    superblock = *next;
    return {};
}

base::result<void> close_cleanly(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock) {
    HF_ASSERT(superblock.state == heap_state::running);
    HF_TRY_ASSIGN(auto journal, storage.open(paths.journal(), persist::access_mode::read_write));
    HF_TRY(check_own_journal(*journal, superblock));
    HF_TRY(write_void_journal(*journal, superblock));
    return write_state(storage, paths, superblock, heap_state::clean);
}

}  // namespace holdfast::segment
