#include "segment/commit/page_writer.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/parallel.hpp"

namespace holdfast::segment {

namespace {

constexpr std::uint64_t least_pages_of_writer = 2048;  ///< pages of a thread
constexpr unsigned most_page_writers = 8;

}  // namespace

base::result<void> page_writer::write(std::span<const runs_of_file> files) {
    const stopwatch watch(report_.write_ns);
    std::vector<piece> pieces;
    for (const runs_of_file& each : files) {
        add_pieces(each, pieces);
    }
    // The n-th pieces of all files, then those that follow: as many files as possible are written at a time.
    const unsigned workers = base::workers_for(page_count_of(pieces), least_pages_of_writer, most_page_writers);
    if (workers > 1) {
        std::ranges::stable_sort(pieces, {}, &piece::turn);
    }
    std::atomic<std::size_t> next{0};
    base::run_in_parallel(workers, [&](unsigned) noexcept { write_pieces(pieces, next); });
    for (const piece& each : pieces) {
        report_.written_bytes += each.run.count * base::page_size;
    }
    const base::scoped_lock lock(mutex_);
    return failure_ ? base::result<void>(std::move(*failure_)) : base::result<void>();
}

void page_writer::add_pieces(const runs_of_file& of, std::vector<piece>& to) {
    std::uint64_t turn = 0;
    for (const page_run& run : of.runs) {  // without pages: the file grew and must only be synced
        for (std::uint64_t done = 0; done < run.count; done += page_copies::most) {
            const page_run part = run.part(done, std::min(run.count - done, page_copies::most));
            to.push_back({of.file.get(), part, next_, turn++});
            next_ += part.count;
        }
    }
}

std::uint64_t page_writer::page_count_of(std::span<const piece> pieces) noexcept {
    std::uint64_t pages = 0;
    for (const piece& each : pieces) {
        pages += each.run.count;
    }
    return pages;
}

void page_writer::write_pieces(std::span<const piece> pieces, std::atomic<std::size_t>& next) noexcept {
    const auto write_next = [&]() -> base::result<bool> {
        std::optional<page_copies> copies;
        for (std::size_t i = next.fetch_add(1); i < pieces.size(); i = next.fetch_add(1)) {
            HF_TRY(write_piece(pieces[i], copies));
        }
        return true;
    };
    std::optional<base::failure> failed;
    try {
        if (auto done = write_next(); !done) {
            failed = std::move(done).error();
        }
    } catch (const std::bad_alloc&) {
        failed = base::failure{};
        failed->code = base::failure_code::out_of_memory;
    }
    if (failed) {
        next.store(pieces.size());
        const base::scoped_lock lock(mutex_);
        if (!failure_) {
            failure_ = std::move(failed);
        }
    }
}

base::result<void> page_writer::write_piece(const piece& one, std::optional<page_copies>& copies) {
    const std::uint64_t at = one.run.page * base::page_size;
    if (pages_.checksums.empty()) {
        return one.file->write_at(at, one.run.bytes(), where_);
    }
    if (!copies) {
        copies.emplace(std::min<std::uint64_t>(pages_.checksums.size(), page_copies::most));
    }
    copies->clear();
    const auto replace = [&](std::uint64_t index, std::span<std::byte> page) -> base::result<void> {
        if (!pages_.elsewhere) {
            return stored_meanwhile(one.file->path(), one.run.page + index);
        }
        const base::scoped_lock lock(mutex_);
        return (*pages_.elsewhere)(one.first + index, page);
    };
    HF_TRY(copies->add(one.run, pages_.checksums.subspan(one.first, one.run.count), replace));
    return one.file->write_at(at, copies->bytes(), where_);
}

}  // namespace holdfast::segment
