#include "heap/heap_space.hpp"

#include <ctime>
#include <iterator>
#include <mutex>
#include <optional>
#include <vector>

namespace holdfast::heap {

namespace {

/// Nanoseconds, at the kernel's tick, for every free of an extent.
std::uint64_t coarse_clock() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

segment::free_runs runs_of(const std::vector<extent::extent>& extents) {
    segment::free_runs runs;
    runs.reserve(extents.size());
    for (const extent::extent& one : extents) {
        runs.emplace_back(one.start, one.length);
    }
    return runs;
}

/// Inputs and result are sorted and disjoint.
segment::free_runs merged(const segment::free_runs& one, const segment::free_runs& other) {
    segment::free_runs both;
    both.reserve(one.size() + other.size());
    std::ranges::merge(one, other, std::back_inserter(both), {}, &segment::free_runs::value_type::first,
                       &segment::free_runs::value_type::first);
    return both;
}

/// Pages that a reader uses become no holes, and files no shorter. So space goes back only while nobody reads, and
/// nobody begins to.
class readers_kept_out {
public:
    explicit readers_kept_out(segment::versions_in_use* readers) noexcept
        : readers_(readers), holds_(readers == nullptr || readers->try_exclude()) {}
    readers_kept_out(const readers_kept_out&) = delete;
    readers_kept_out& operator=(const readers_kept_out&) = delete;
    ~readers_kept_out() {
        if (readers_ != nullptr && holds_) {
            readers_->admit();
        }
    }
    [[nodiscard]] bool holds() const noexcept { return holds_; }

private:
    segment::versions_in_use* readers_;
    bool holds_;
};

}  // namespace

base::result<void> heap_space::reserve_copied() {
    if (!heap_.files().copies().is_copied() || heap_.read_only()) {
        return {};
    }
    segment::free_runs used;
    segment::free_runs slabs;
    const auto add = [](segment::free_runs& runs, const extent::extent& added) {
        if (!runs.empty() && runs.back().first + runs.back().second == added.start) {
            runs.back().second = runs.back().second + added.length;
        } else {
            runs.emplace_back(added.start, added.length);
        }
    };
    heap_.extents().for_each([&](const extent::extent& found) {
        if (found.kind == segment::extent_kind::free) {
            return;
        }
        add(used, found);
        if (found.kind == segment::extent_kind::slab) {
            add(slabs, found);
        }
    });
    return heap_.files().copies().reserve(used, slabs);
}

base::result<void> heap_space::check_metadata(std::uint64_t segment, std::uint64_t at) {
    const segment::geometry& shape = heap_.files().view().shape();
    const base::granule first_granule{segment * shape.granules()};
    if (at >= shape.bitmaps_at()) {
        constexpr std::uint64_t count = base::page_size / segment::bitmap_size;
        return heap_.blocks().inspect().check_bitmaps(
            {first_granule.value + (at - shape.bitmaps_at()) / segment::bitmap_size}, count);
    }
    if (at >= shape.page_entries_at()) {
        constexpr base::pages count{base::page_size / segment::page_entry_size};
        const std::uint64_t in_segment = (at - shape.page_entries_at()) / segment::page_entry_size;
        return heap_.extents().check_entries({segment * shape.pages() + in_segment}, count);
    }
    constexpr std::uint64_t count = base::page_size / segment::slab_header_size;
    return heap_.blocks().inspect().check_headers({first_granule.value + at / segment::slab_header_size}, count);
}

segment::free_runs free_space_of(const extent::extent_allocator& extents) {
    segment::free_runs free;
    extents.for_each_free([&free](const extent::extent& run) { free.emplace_back(run.start, run.length); });
    return free;
}

void heap_space::start_decay(std::uint64_t total_ns) {
    keeps_space_ = total_ns == extent::decay_curve::never;
    heap_.extents().space().set_decay(total_ns, coarse_clock);
}

base::result<segment::commit_statistics> heap_space::commit(bool give_all_back) {
    // A failed commit leaves the heap as long as it was.
    struct end_of_heap {
        extent::extent_allocator& extents;
        bool moved;
        explicit end_of_heap(extent::extent_allocator& of, base::pages kept)
            : extents(of), moved(of.space().shrink_for_commit(kept).value != 0) {}
        end_of_heap(const end_of_heap&) = delete;
        end_of_heap& operator=(const end_of_heap&) = delete;
        ~end_of_heap() {
            if (moved) {
                extents.space().unshrink();
            }
        }
    };
    segment::heap_files& files = heap_.files();
    slab::block_allocator& blocks = heap_.blocks();
    const readers_kept_out alone(files.commits().log().lag().users());
    const std::lock_guard guard(heap_.object_mutex());
    const slab::block_allocator::pause pause(blocks);
    blocks.small().flush_idle_parts();
    blocks.flush_extents();  // cached extents need not be written
    const bool promised = (keeps_space_ && !give_all_back) || !alone.holds();
    const slab::sparse_pages sparse = promised ? slab::sparse_pages{} : blocks.slabs().make_sparse(give_all_back);
    blocks.slabs().write_bitmaps();
    const base::pages kept = give_all_back ? base::pages{} : kept_at_the_end(files.frontier());
    end_of_heap end(heap_.extents(), promised ? heap_.extents().frontier() : kept);
    const bool all =
        give_all_back || (!promised && files.location().is_space_short(heap_.extents().space().backed_free_pages()));
    const std::vector<extent::extent> going =
        alone.holds() ? heap_.extents().space().to_give_back(all) : std::vector<extent::extent>();
    segment::space_going space{merged(runs_of(going), sparse.holes), std::nullopt};
    if (end.moved) {
        space.frontier = heap_.extents().frontier();
    }
    const base::pages mapped_before = files.mapping().adopted();
    HF_TRY_ASSIGN(
        const segment::commit_statistics done,
        write_commit(merged(free_space_of(heap_.extents()), sparse.free), space, segment::commit_of::everything));
    end.moved = false;
    blocks.slabs().sparse().note_holes(sparse.holes);
    heap_.extents().space().gave_back(going);
    // Comes last: a range that cannot be renewed unites with free extents beside it.
    blocks.slabs().source().renew_guards(mapped_before, files.mapping().adopted());
    return done;
}

base::result<segment::commit_statistics> heap_space::write_commit(const segment::free_runs& free,
                                                                  const segment::space_going& going,
                                                                  segment::commit_of what) {
    object_directory::page_check directory(heap_.objects());
    const auto check = [&](std::uint64_t file, std::uint64_t at) { return check_page(directory, file, at); };
    return heap_.files().commits().commit(free, going, check, what);
}

base::result<void> heap_space::check_page(object_directory::page_check& directory, std::uint64_t file,
                                          std::uint64_t at) {
    return file == segment::objects_file_id ? directory.page(at) : check_metadata(file, at);
}

base::result<bool> heap_space::capture() {
    const std::lock_guard guard(heap_.object_mutex());
    const slab::block_allocator::pause pause(heap_.blocks());
    heap_.blocks().flush_extents();
    heap_.blocks().slabs().write_bitmaps();
    object_directory::page_check directory(heap_.objects());
    const auto check = [&](std::uint64_t file, std::uint64_t at) { return check_page(directory, file, at); };
    return heap_.files().commits().capture(free_space_of(heap_.extents()), check);
}

base::result<segment::commit_statistics> heap_space::commit_with_savepoint() {
    const std::lock_guard guard(heap_.object_mutex());
    const slab::block_allocator::pause pause(heap_.blocks());
    const base::pages mapped_before = heap_.files().mapping().adopted();
    heap_.blocks().flush_extents();
    slab::undo_of(heap_.blocks()).note_bitmaps();
    heap_.blocks().slabs().write_bitmaps();
    HF_TRY_ASSIGN(const segment::commit_statistics done,
                  write_commit(free_space_of(heap_.extents()), {}, segment::commit_of::transaction));
    heap_.blocks().slabs().source().renew_guards(mapped_before, heap_.files().mapping().adopted());
    return done;
}

void heap_space::give_back_decayed() noexcept {
    try {
        segment::versions_in_use* const readers = heap_.files().commits().log().lag().users();
        if (heap_.extents().space().is_due() &&
            (readers == nullptr || !readers->any(segment::dead_readers::do_not_count))) {
            static_cast<void>(commit(false).ok());
        }
    } catch (const std::bad_alloc&) {  // a later one does it
    }
}

base::result<base::pages> heap_space::shorten(base::pages keep) {
    heap_.blocks().flush_extents();
    return heap_.extents().space().shrink(
        keep, [this] { return heap_.atomic() == nullptr || heap_.atomic()->wait_until_obsolete(); });
}

base::result<shrink_report> heap_space::shrink(std::uint64_t target, shrink_progress progress) {
    HF_TRY(heap_.check_process());
    HF_TRY(heap_.refuse_scratch());
    constexpr base::pages at_once{64 * base::mebibyte / base::page_size};
    shrink_report report;
    const auto measure = [this](std::uint64_t& charged, std::uint64_t& apparent) -> base::result<void> {
        HF_TRY_ASSIGN(const segment::file_statistics files, heap_.files().statistics());
        charged = files.charged_bytes;
        apparent = files.apparent_bytes;
        return {};
    };
    HF_TRY(measure(report.charged_before, report.apparent_before));
    HF_TRY(measure(report.charged_after, report.apparent_after));
    progress(report);
    if (report.charged_after <= target) {
        return report;
    }
    heap_.blocks().small().release_unused();
    if (!heap_.files().shared()) {
        const base::pages before = heap_.files().frontier();
        HF_TRY_ASSIGN(const segment::commit_statistics done, commit(true));
        HF_TRY(heap_.files().commits().end_log());
        report.given_back = base::to_bytes(base::pages{done.given_back_pages});
        report.shortened = base::to_bytes(before - heap_.files().frontier());
        HF_TRY(measure(report.charged_after, report.apparent_after));
        progress(report);
        return report;
    }
    HF_TRY_ASSIGN(const base::pages cut, shorten({}));
    report.shortened = base::to_bytes(cut);
    HF_TRY(measure(report.charged_after, report.apparent_after));
    while (report.charged_after > target) {
        HF_TRY_ASSIGN(const base::pages gone, heap_.extents().space().give_back(at_once));
        if (gone.value == 0) {
            break;
        }
        report.given_back += base::to_bytes(gone);
        HF_TRY(measure(report.charged_after, report.apparent_after));
        progress(report);
    }
    return report;
}

}  // namespace holdfast::heap
