#include "segment/commit/last_version.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <new>

#include "segment/files/address_range.hpp"
#include "segment/format/page_runs.hpp"

namespace holdfast::segment {

using base::failure_code;
using base::page_size;
using persist::access_mode;

free_runs last_version::kept() const { return either(pinned_, mapping_.memory_below()); }

std::array<memory_run, 2> last_version::memory() const noexcept {
    return {{{mapping_.view().base(), mapping_.frontier().value}, {objects_.begin(), objects_.size() / page_size}}};
}

base::result<void> last_version::take_stores(std::vector<memory_run>& to) {
    scanner_->begin_savepoint();
    try {
        const noted_pages noted = scanner_->find_noted();
        std::vector<memory_run> user;
        const auto find = [&]() -> base::result<void> {
            const space_view& view = mapping_.view();
            const std::uint64_t tables = mapping_.segment_count(mapping_.frontier()) * view.shape().metadata_size();
            HF_TRY(scanner_->scan(view.base(), base::to_bytes(mapping_.frontier()), user, noted));
            std::vector<memory_run> of_tables;  // of which no abort takes anything back
            HF_TRY(scanner_->scan(view.metadata_of(0), tables, of_tables, noted, dirty_scanner::memory_of::tables));
            return scanner_->scan(objects_.begin(), objects_.size(), to, noted, dirty_scanner::memory_of::tables);
        };
        if (auto done = find(); !done) {
            scanner_->give_up();
            return done;
        }
        free_runs found;
        for (const memory_run& run : user) {
            const base::pages first = base::page_of(mapping_.view().offset(run.address));
            append_run(found, first, first + base::pages{run.pages});
        }
        for (const auto& [first, length] : without(found, kept())) {
            to.push_back({mapping_.view().address(base::offset_of(first)), length.value});
        }
        scanner_->end_savepoint();
    } catch (const std::bad_alloc&) {
        scanner_->give_up();
        throw;
    }
    return {};
}

base::result<void> last_version::find_stores(std::vector<memory_run>& to) {
    const noted_pages noted = scanner_->find_noted();
    const auto since = stores_since::savepoint;
    HF_TRY(scanner_->scan(mapping_.view().base(), base::to_bytes(mapping_.frontier()), to, noted,
                          dirty_scanner::memory_of::user, since));
    return scanner_->scan(objects_.begin(), objects_.size(), to, noted, dirty_scanner::memory_of::tables, since);
}

/// Where home lags, a page that is dropped would show an older version: it gets the last one instead.
void last_version::restore_behind(std::byte* begin, std::byte* end, access_check has_access) noexcept {
    while (begin < end) {
        std::byte* until = begin;
        const std::byte* last = nullptr;
        while (until < end && (last = log_.lag().find(mapping_.place_at(until))) == nullptr) {
            until += page_size;
        }
        drop_mapped(begin, until);
        if (last != nullptr) {
            if (has_access(until) && std::memcmp(until, last, page_size) != 0) {
                std::memcpy(until, last, page_size);
            }
            until += page_size;
        }
        begin = until;
    }
}

void last_version::drop(std::byte* begin, std::byte* end, access_check has_access) noexcept {
    if (log_.lag().is_on()) {
        restore_behind(begin, end, has_access);
    } else {
        drop_mapped(begin, end);
    }
}

/// Where the process has locked the pages in memory, they cannot be dropped.
void last_version::drop_mapped(std::byte* begin, const std::byte* end) noexcept {
    const auto bytes = static_cast<std::uint64_t>(end - begin);
    try {
        if (bytes == 0 || try_to_drop_private_pages(begin, bytes) || read_home(begin, bytes)) {
            return;
        }
    } catch (const std::bad_alloc&) {  // the memory is not what it was: the program must not go on with it
    }
    poison_.code = failure_code::out_of_memory;
}

base::result<void> last_version::read_home(std::byte* begin, std::uint64_t bytes) const {
    if (begin >= objects_.begin() && begin < objects_.begin() + objects_.size()) {
        const auto at = static_cast<std::uint64_t>(begin - objects_.begin());
        const std::uint64_t there = std::min(bytes, objects_.adopted_size() - std::min(at, objects_.adopted_size()));
        std::memset(begin + there, 0, bytes - there);
        HF_TRY_ASSIGN(const auto file, location_.storage().open(location_.paths().objects(), access_mode::read_only));
        return there == 0 ? base::result<void>() : file->read_at(at, {begin, there});
    }
    const std::uint64_t per_segment = mapping_.view().shape().pages() * page_size;
    const std::uint64_t adopted = base::to_bytes(mapping_.adopted());
    for (std::uint64_t at = mapping_.view().offset(begin).value; bytes != 0;) {
        const bool is_memory = at >= adopted;
        const std::uint64_t here = std::min({bytes, per_segment - at % per_segment, is_memory ? bytes : adopted - at});
        if (is_memory) {
            std::memset(begin, 0, here);
        } else {
            HF_TRY_ASSIGN(const auto file, location_.storage().open(location_.paths().segment(at / per_segment),
                                                                    access_mode::read_only));
            HF_TRY(file->read_at(at % per_segment, {begin, here}));
        }
        at += here;
        begin += here;
        bytes -= here;
    }
    return {};
}

void last_version::go_back(const memory_run& pages, access_check has_access) noexcept {
    const space_view& view = mapping_.view();
    std::byte* at = pages.address;
    std::byte* const end = end_of(pages);
    // Two lists that may overlap, both few: what either has stays.
    while (at < end) {
        std::byte* stop = end;
        std::byte* go_on = end;
        for (const free_runs* const list :
             std::initializer_list<const free_runs*>{&pinned_, &mapping_.memory_below()}) {
            for (const auto& run : *list) {
                std::byte* const first = view.address(base::offset_of(run.first));
                std::byte* const last = view.address(base::offset_of(end_of(run)));
                if (last > at && first < stop) {
                    stop = std::max(first, at);
                    go_on = std::min(last, end);
                }
            }
        }
        drop(at, stop, has_access);
        at = go_on;
    }
}

}  // namespace holdfast::segment
