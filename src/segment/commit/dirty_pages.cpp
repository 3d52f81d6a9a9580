#include "segment/commit/dirty_pages.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "segment/commit/pagemap.hpp"
#include "segment/files/address_range.hpp"

namespace holdfast::segment {

namespace {

using std::chrono::nanoseconds;
using swapped = pagemap::swapped;
using written = pagemap::written;

/// The program's other threads stand still meanwhile.
constexpr unsigned most_scanners = 4;
constexpr std::uint64_t least_share = std::uint64_t{512} << 20U;  // 4 ms; a thread costs 0.1

constexpr std::uint64_t zone_size = 256 * base::mebibyte;
/// In watched memory the kernel maps each page that is not mapped yet in a fault of its own, up to half a microsecond,
/// and not sixteen in one. Memory is watched when its scans have cost as much: at worst they cost twice the best.
constexpr nanoseconds watching_a_page{500};
constexpr nanoseconds finding_a_page{100};  ///< that was stored to
/// Where pages are mapped by huge ones, or not at all, it takes less to look for private pages.
constexpr nanoseconds scanning_two_watched_pages{3};
/// Of transactions, whose pages are mostly warm.
constexpr std::int64_t searches_a_scan = 8;
constexpr nanoseconds asking_the_kernel{2000};

nanoseconds time_of_thread() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

nanoseconds worth_watching(std::uint64_t bytes) noexcept {
    return watching_a_page * static_cast<std::int64_t>(bytes / base::page_size);
}

/// Both are sorted.
std::vector<memory_run> united(const std::vector<memory_run>& a, const std::vector<memory_run>& b) {
    std::vector<memory_run> all(a.size() + b.size());
    std::ranges::merge(a, b, all.begin(), {}, &memory_run::address, &memory_run::address);
    std::vector<memory_run> runs;
    for (memory_run run : all) {
        std::byte* const covered = runs.empty() ? nullptr : runs.back().address + runs.back().pages * base::page_size;
        const std::uint64_t twice =
            run.address < covered ? std::min<std::uint64_t>(
                                        run.pages, static_cast<std::uint64_t>(covered - run.address) / base::page_size)
                                  : 0;
        run.address += twice * base::page_size;
        run.pages -= twice;
        if (run.pages != 0) {
            append(runs, run);
        }
    }
    return runs;
}

/// What of the sorted runs lies in the range.
void append_part(const std::vector<memory_run>& of, std::byte* begin, std::uint64_t bytes,
                 std::vector<memory_run>& runs) {
    for (const memory_run& run : of) {
        std::byte* const first = std::max(run.address, begin);
        std::byte* const end = std::min(end_of(run), begin + bytes);
        if (first < end) {
            append(runs, {first, static_cast<std::uint64_t>(end - first) / base::page_size});
        }
    }
}

std::uint64_t pages_in(const std::vector<memory_run>& runs) noexcept {
    std::uint64_t pages = 0;
    for (const memory_run& run : runs) {
        pages += run.pages;
    }
    return pages;
}

}  // namespace

base::result<dirty_scanner> dirty_scanner::open(write_watch* watch, store_watch when) {
    HF_TRY_ASSIGN(pagemap pages, pagemap::open());
    // Kernels before 6.7 answer ENOTTY.
    alignas(base::page_size) static std::array<std::byte, base::page_size> probe{};
    std::vector<memory_run> runs;
    const bool scans = pages.find_private(probe.data(), probe.size(), swapped::found, runs).ok();
    return dirty_scanner(std::move(pages), scans ? method::pagemap_scan : method::pagemap_bits, watch,
                         scans && watch != nullptr ? when : store_watch::never);
}

base::result<dirty_scanner> dirty_scanner::open(method how) {
    HF_TRY_ASSIGN(pagemap pages, pagemap::open());
    return dirty_scanner(std::move(pages), how, nullptr, store_watch::never);
}

std::string dirty_scanner::describe() {
    const auto scanner = open();
    if (!scanner) {
        return scanner.error().message();
    }
    if (scanner->method_ == method::pagemap_bits) {
        return "entries of /proc/self/pagemap (PAGEMAP_SCAN is not there)";
    }
    write_watch trial;
    const auto started = trial.start(scanner->pages_);
    return started ? "PAGEMAP_SCAN, and userfaultfd where that takes long"
                   : fmt::format("PAGEMAP_SCAN alone ({})", started.error().message());
}

void dirty_scanner::begin(taking what) noexcept {
    takes_ = what;
    others_faults_ = faults_of_process() - faults_of_thread();
    found_in_vain_.clear();
    taken_.clear();
    for (auto& [begin, of] : zones_) {
        of.scanned = false;
    }
}

void dirty_scanner::end_savepoint() {
    std::ranges::sort(taken_, {}, &memory_run::address);
    since_commit_ = united(since_commit_, taken_);
    takes_ = taking::nothing;
    found_in_vain_.clear();
    if (faults_) {
        faults_ = others_faults_ + faults_of_thread();
    }
}

void dirty_scanner::end_commit() noexcept {
    takes_ = taking::nothing;
    found_in_vain_.clear();
    since_commit_.clear();
    // What a commit does not scan is no part of the heap any more.
    std::erase_if(zones_, [](const auto& each) { return !each.second.scanned; });
    for (auto& [begin, of] : zones_) {
        of.exact = true;
    }
    // The commit's own faults are no stores of others: its stores were noted by note_own_stores().
    faults_ = others_faults_ + faults_of_thread();
}

void dirty_scanner::give_up() noexcept {
    takes_ = taking::nothing;
    found_in_vain_.clear();
    since_commit_.clear();
    for (auto& [begin, of] : zones_) {
        of.exact = false;
    }
}

std::byte* dirty_scanner::watching_zone(const std::byte* page) const noexcept {
    const auto above = zones_.upper_bound(const_cast<std::byte*>(page));
    if (above == zones_.begin()) {
        return nullptr;
    }
    const auto at = std::prev(above);
    return page < at->first + at->second.watched ? at->first : nullptr;
}

bool dirty_scanner::watches(const std::byte* begin, std::uint64_t pages) const noexcept {
    const std::byte* const zone = watching_zone(begin);
    return zone != nullptr && watching_zone(begin + (pages - 1) * base::page_size) == zone;
}

void dirty_scanner::note_own_stores(std::byte* begin, std::uint64_t pages) noexcept {
    std::byte* const zone = watching_zone(begin);
    if (zone != nullptr && !watch_->protect_again(begin, pages * base::page_size)) {
        zones_.find(zone)->second.watched = 0;
    }
}

void dirty_scanner::note_loss(const std::byte* page, nanoseconds lost) noexcept {
    const auto above = zones_.upper_bound(const_cast<std::byte*>(page));
    if (above != zones_.begin() && page < std::prev(above)->first + zone_size) {
        std::prev(above)->second.noted_loss += lost;
    }
}

bool dirty_scanner::keep_warm(std::byte* page) noexcept {
    return watch_ != nullptr && watch_->started() && watch_->counts_faults() && watching_zone(page) != nullptr &&
           warm_.add(page);
}

/// The watched memory of the warm blocks, sorted, neighbours united.
std::vector<memory_run> dirty_scanner::warm_memory() const {
    std::vector<memory_run> blocks;
    for (const warm_pages::block& block : warm_.blocks()) {
        std::byte* const end_of_block = block.begin + warm_pages::block_size;
        for (auto at = zones_.upper_bound(end_of_block - 1); at != zones_.begin();) {
            --at;
            if (at->first + zone_size <= block.begin) {
                break;
            }
            std::byte* const begin = std::max(block.begin, at->first);
            std::byte* const end = std::min(end_of_block, at->first + at->second.watched);
            if (begin < end) {
                blocks.push_back({begin, static_cast<std::uint64_t>(end - begin) / base::page_size});
            }
        }
    }
    std::ranges::sort(blocks, {}, &memory_run::address);
    std::vector<memory_run> runs;
    for (const memory_run& block : blocks) {
        append(runs, block);
    }
    return runs;
}

/// The pages that were stored to among the warm blocks and their neighbours.
noted_pages dirty_scanner::find_among_warm(written afterwards) const {
    constexpr std::uint64_t near = 32;  // a system call costs as much as to look at so many pages
    std::vector<memory_run> where;
    std::vector<memory_run> noted;
    for (const memory_run& memory : warm_memory()) {
        noted.clear();
        if (!pages_.find_written(memory.address, memory.pages * base::page_size, written::stay, noted)) {
            return {};
        }
        const std::size_t first = where.size();
        for (const memory_run& run : noted) {
            std::byte* const end = end_of(run);
            if (where.size() > first && run.address <= end_of(where.back()) + near * base::page_size) {
                where.back().pages = static_cast<std::uint64_t>(end - where.back().address) / base::page_size;
            } else {
                where.push_back(run);
            }
        }
    }
    std::vector<memory_run> found;
    for (const memory_run& run : where) {
        if (!pages_.find_stored(run.address, run.pages * base::page_size, afterwards, found)) {
            return {};
        }
    }
    return found;
}

noted_pages dirty_scanner::find_noted() {
    constexpr std::uint64_t most_faults = 256;
    constexpr unsigned most_vain_searches = 7;  // then one commit in 17 searches
    searches_ = true;
    if (!faults_ || others_store_ || watch_ == nullptr || !watch_->counts_faults()) {
        return {};
    }
    const std::uint64_t faults = faults_of_process() - *faults_;
    if (faults > most_faults || (faults != 0 && warm_.is_full())) {
        return {};
    }
    if (searches_to_skip_ != 0) {
        searches_to_skip_ -= takes_ == taking::commit ? 1 : 0;
        return faults == 0 ? noted_pages(std::in_place) : noted_pages();
    }
    noted_pages found = find_among_warm(takes_ != taking::nothing ? written::are_protected_again : written::stay);
    const std::uint64_t count = found ? pages_in(*found) : 0;
    others_store_ = count > faults;
    if (found && count == faults) {
        vain_searches_ = faults == 0 ? vain_searches_ : 0;
        return found;
    }
    vain_searches_ = std::min(vain_searches_ + 1, most_vain_searches);
    searches_to_skip_ = (1U << vain_searches_) / 8;
    if (takes_ != taking::nothing && found) {
        found_in_vain_ = std::move(*found);
    } else if (takes_ != taking::nothing) {
        for (auto& [begin, of] : zones_) {
            of.exact = false;
        }
    }
    return {};
}

/// All memory was protected then, so that each store to it is a fault.
bool dirty_scanner::is_untouched() const noexcept {
    if (!faults_ || others_store_ || !kept_.empty() || watch_ == nullptr || !watch_->counts_faults() ||
        watch_->is_guarded()) {
        return false;
    }
    return std::ranges::all_of(
               zones_,
               [](const auto& each) { return each.second.exact && each.second.watched == each.second.bytes; }) &&
           faults_of_process() == *faults_;
}

void dirty_scanner::keep(std::vector<memory_run> memory) {
    // A device may have stored until now where none does from now on.
    kept_.swap(memory);
    warm_.forget();
    for (auto& [begin, of] : zones_) {
        const auto reaches_in = [begin](const memory_run& run) {
            return run.address < begin + zone_size && begin < end_of(run);
        };
        if (std::ranges::any_of(memory, reaches_in)) {
            of.exact = false;
        }
    }
}

std::uint64_t dirty_scanner::watched_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const auto& [begin, of] : zones_) {
        bytes += of.watched;
    }
    return bytes;
}

bool dirty_scanner::is_kept(const std::byte* begin, std::uint64_t bytes) const noexcept {
    return std::ranges::any_of(
        kept_, [&](const memory_run& run) { return run.address < begin + bytes && begin < end_of(run); });
}

bool dirty_scanner::pays(const zone& of, std::uint64_t bytes, memory_of what) const noexcept {
    return bytes != 0 && !of.refused &&
           (when_ == store_watch::everywhere || of.lost + of.noted_loss >= worth_watching(bytes) ||
            (wants_watch_ && when_ != store_watch::never) ||
            (what == memory_of::tables && when_ != store_watch::never && watch_->started()));
}

/// What is refused for want of descriptors or memory is tried again.
bool dirty_scanner::can_watch() noexcept {
    if (when_ == store_watch::never || watch_->started()) {
        return when_ != store_watch::never;
    }
    const auto started = watch_->start(pages_);
    if (!started && started.error().code != base::failure_code::limit) {
        when_ = store_watch::never;
    }
    return started.ok();
}

/// Decides how the part of one zone is scanned.
void dirty_scanner::plan_zone(std::byte* begin, std::uint64_t bytes, memory_of what, std::vector<piece>& pieces) {
    zone& of = zones_[begin];
    of.bytes = bytes;
    const std::uint64_t watched = std::min(of.watched, bytes);
    // A page that was dropped before it was guarded may be noted, and the commit would read it.
    const bool kept = is_kept(begin, bytes) || (watch_ != nullptr && watch_->is_guarded());
    const bool exact = of.exact && !kept;
    const bool watches =
        takes_ == taking::commit && !kept && (watched != 0 && !exact ? !of.refused : pays(of, bytes - watched, what));
    if (takes_ == taking::commit) {
        of.exact = false;
        of.scanned = true;
    }
    if (watches && can_watch()) {
        pieces.emplace_back(begin, bytes, &of, way::and_watch);
        pieces.back().is_marked = of.marked != 0;
        return;
    }
    of.watched = exact ? watched : 0;
    if (of.watched != 0) {
        pieces.emplace_back(begin, of.watched, &of, way::notes);
        pieces.back().is_marked = true;
    }
    if (of.watched != bytes) {
        pieces.emplace_back(begin + of.watched, bytes - of.watched, &of, way::look);
        pieces.back().at = of.watched;
        pieces.back().is_marked = of.marked > of.watched;
    }
}

base::result<void> dirty_scanner::scan(std::byte* begin, std::uint64_t bytes, std::vector<memory_run>& runs,
                                       const noted_pages& noted, memory_of what, stores_since since) {
    HF_ASSERT(base::is_aligned(reinterpret_cast<std::uintptr_t>(begin), base::page_size) &&
              bytes % base::page_size == 0);
    if (!noted) {
        keep_from_merging(begin, bytes);  // the program may have asked for it since
    }
    std::vector<piece> pieces;
    for (std::uint64_t at = 0; at < bytes; at += zone_size) {
        plan_zone(begin + at, std::min(zone_size, bytes - at), what, pieces);
    }
    for (piece& part : pieces) {
        if (noted && part.how == way::notes) {
            part.is_known = true;
            append_part(*noted, part.begin, part.bytes, part.runs);
        }
    }
    run(pieces);
    for (piece& part : pieces) {
        if (part.out_of_memory) {
            throw std::bad_alloc();
        }
        HF_TRY(part.done);
        const auto add = [&part](const std::vector<memory_run>& found) {
            if (!found.empty()) {
                std::vector<memory_run> here;
                append_part(found, part.begin, part.bytes, here);
                part.runs = united(part.runs, here);
            }
        };
        add(found_in_vain_);
        if (takes_ == taking::savepoint) {
            taken_.insert(taken_.end(), part.runs.begin(), part.runs.end());
        } else if (since == stores_since::commit && part.how == way::notes && !part.mapped_anew) {
            add(since_commit_);  // a look has found those that are still private
        }
        for (const memory_run& found : part.runs) {
            append(runs, found);
        }
    }
    return {};
}

void dirty_scanner::run(std::vector<piece>& pieces) {
    std::uint64_t slow = 0;
    for (const piece& part : pieces) {
        slow += part.how == way::notes ? 0 : part.bytes;
    }
    const unsigned workers = base::workers_for(slow, least_share, most_scanners);
    base::run_in_parallel(workers, [&](unsigned worker) noexcept {
        for (std::size_t i = pieces.size() * worker / workers; i < pieces.size() * (worker + 1) / workers; ++i) {
            run_piece(pieces[i]);
        }
    });
    std::ranges::for_each(pieces, [this](const piece& part) { note(part); });
}

/// What a piece's scan did to its zone.
void dirty_scanner::note(const piece& part) const noexcept {
    zone& of = *part.of;
    const bool looked = part.how != way::notes || part.mapped_anew;
    if (looked && part.at + part.bytes >= of.marked) {
        of.marked = std::min(of.marked, part.at);
    }
    switch (part.how) {
        case way::notes: of.watched = part.mapped_anew ? 0 : of.watched; break;
        case way::look: {
            const nanoseconds watched =
                scanning_two_watched_pages * static_cast<std::int64_t>(part.bytes / base::page_size / 2);
            of.lost += part.lost;
            const nanoseconds longer = std::max(nanoseconds{}, watched - part.took);
            of.noted_loss = std::max(nanoseconds{}, of.noted_loss - (searches_ ? longer / searches_a_scan : longer));
            break;
        }
        case way::and_watch:
            of.watched = part.is_watched ? part.bytes : 0;
            of.marked = std::max(of.marked, of.watched);
            of.refused = !part.is_watched;
            of.lost = {};
            of.noted_loss = {};
            break;
    }
}

void dirty_scanner::run_piece(piece& part) const noexcept {
    try {
        if (part.is_known) {
            return;
        }
        if (part.how == way::notes) {
            const written afterwards = takes_ != taking::nothing ? written::are_protected_again : written::stay;
            if (pages_.find_written(part.begin, part.bytes, afterwards, part.runs)) {
                return;
            }
            part.mapped_anew = true;
            part.runs.clear();
        }
        scan_piece(part);
    } catch (const std::bad_alloc&) {
        part.out_of_memory = true;
    }
}

/// Pages that are protected and not mapped would be found as well.
void dirty_scanner::scan_piece(piece& part) const {
    if (part.is_marked) {
        watch_->unprotect(part.begin, part.bytes);
    }
    const nanoseconds start = time_of_thread();
    part.done = method_ == method::pagemap_scan ? pages_.find_private(part.begin, part.bytes, swapped::found, part.runs)
                                                : pages_.find_private_by_entries(part.begin, part.bytes, part.runs);
    const auto found = static_cast<std::int64_t>(pages_in(part.runs));
    const auto pages = static_cast<std::int64_t>(part.bytes / base::page_size);
    part.took = time_of_thread() - start;
    const nanoseconds took = part.took - asking_the_kernel - finding_a_page * found;
    part.lost = std::max(nanoseconds{}, took) * (pages - found) / pages;
    if (part.how != way::and_watch || !part.done || !watch_->watch(part.begin, part.bytes)) {
        return;
    }
    part.is_watched = true;
    // A thread that does not stand still may have stored meanwhile, and nobody would note it.
    std::vector<memory_run> again;
    part.done = pages_.find_private(part.begin, part.bytes, swapped::left_out, again);
    part.runs = united(part.runs, again);
}

}  // namespace holdfast::segment
