#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <new>

#include "persist/mutant.hpp"
#include "segment/commit/committer.hpp"
#include "segment/files/address_range.hpp"
#include "segment/page_runs.hpp"

namespace holdfast::segment {

using base::failure_code;
using base::page_size;
using persist::access_mode;

base::result<void> committer::find_stores(std::vector<memory_run>& user, std::vector<memory_run>& objects) {
    const noted_pages noted = scanner_->find_noted();
    HF_TRY(scanner_->scan(mapping_.view().base(), base::to_bytes(mapping_.frontier()), user, noted));
    return scanner_->scan(objects_.begin(), objects_.size(), objects, noted, dirty_scanner::memory_of::tables);
}

base::result<void> committer::save(saved_pages& to) {
    std::vector<memory_run> user;
    std::vector<memory_run> objects;
    HF_TRY(find_stores(user, objects));
    const space_view& view = mapping_.view();
    free_runs found;
    for (const memory_run& run : user) {
        append_run(found, base::page_of(view.offset(run.address)),
                   base::page_of(view.offset(run.address)) + base::pages{run.pages});
    }
    std::vector<memory_run> all;
    for (const auto& [first, length] : without(found, kept())) {
        all.push_back({view.address(base::offset_of(first)), length.value});
    }
    all.insert(all.end(), objects.begin(), objects.end());
    std::ranges::sort(all, {}, &memory_run::address);
    for (const memory_run& run : all) {
        if (!log_.lag().is_on()) {
            to.add(run);
            continue;
        }
        for (std::uint64_t i = 0; i < run.pages; ++i) {
            std::byte* const page = run.address + i * page_size;
            if (!log_.lag().is_as_committed(mapping_.place_at(page), page)) {
                to.add({page, 1});
            }
        }
    }
    return {};
}

/// Where home lags, a page that is dropped would show an older version: it gets the last one instead.
void committer::restore_behind(std::byte* begin, std::byte* end) noexcept {
    while (begin < end) {
        std::byte* until = begin;
        const std::byte* last = nullptr;
        while (until < end && (last = log_.lag().find(mapping_.place_at(until))) == nullptr) {
            until += page_size;
        }
        drop_mapped(begin, until);
        if (last != nullptr) {
            if (std::memcmp(until, last, page_size) != 0) {
                std::memcpy(until, last, page_size);
            }
            until += page_size;
        }
        begin = until;
    }
}

void committer::drop(std::byte* begin, std::byte* end) noexcept {
    if (log_.lag().is_on()) {
        restore_behind(begin, end);
    } else {
        drop_mapped(begin, end);
    }
}

/// Where the process has locked the pages in memory, they cannot be dropped.
void committer::drop_mapped(std::byte* begin, const std::byte* end) noexcept {
    const auto bytes = static_cast<std::uint64_t>(end - begin);
    try {
        if (bytes == 0 || try_to_drop_private_pages(begin, bytes) || read_home(begin, bytes)) {
            return;
        }
    } catch (const std::bad_alloc&) {  // the memory is not what it was: the program must not go on with it
    }
    poison_.code = failure_code::out_of_memory;
}

base::result<void> committer::read_home(std::byte* begin, std::uint64_t bytes) const {
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

/// A page that is kept stays as it is.
void committer::drop_others(const saved_pages& from, const memory_run& range) noexcept {
    const space_view& view = mapping_.view();
    from.for_each_other(range, [&](const memory_run& other) {
        std::byte* at = other.address;
        std::byte* const end = at + other.pages * page_size;
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
            drop(at, stop);
            at = go_on;
        }
    });
}

bool committer::restore(const saved_pages& from, base::function_ref<bool(const std::byte*)> may_store) noexcept {
    std::vector<memory_run> user;
    std::vector<memory_run> objects;
    bool is_found = false;
    try {
        is_found = find_stores(user, objects).ok();
    } catch (const std::bad_alloc&) {
        is_found = false;
    }
    bool has_objects = !objects.empty();
    const auto drop = [&](const memory_run& range) { drop_others(from, range); };
    if (is_found) {
        std::ranges::for_each(user, drop);
        std::ranges::for_each(objects, drop);
    } else {  // a page that is dropped though nobody has stored to it is read again
        drop({mapping_.view().base(), mapping_.frontier().value});
        drop({objects_.begin(), objects_.size() / page_size});
        has_objects = true;
    }
    if (!HF_MUTANT("undo.saved_pages")) {
        from.put_back(may_store);
    }
    return has_objects;
}

}  // namespace holdfast::segment
