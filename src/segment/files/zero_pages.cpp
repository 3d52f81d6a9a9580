#include "segment/files/zero_pages.hpp"

#include <new>

#include "persist/backing.hpp"
#include "persist/posix_io.hpp"
#include "segment/files/private_memory.hpp"

namespace holdfast::segment {

using base::page_size;
using persist::domain_kind;

bool zero_pages::is_asked_about(std::uint64_t bytes) const noexcept {
    if (location_ == nullptr || bytes < least_asked_about) {
        return false;
    }
    const domain_kind domain = location_->domain();
    const bool has_page_cache =
        domain == domain_kind::page_cache || domain == domain_kind::disk || domain == domain_kind::emulated;
    return location_->shared() && !location_->is_scratch() && has_page_cache;
}

void zero_pages::for_each_other(std::byte* begin, std::uint64_t bytes, visitor each) const noexcept {
    if (!is_asked_about(bytes)) {
        each(begin, bytes);
        return;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const std::uint64_t head = base::align_up(address, page_size) - address;
    const std::uint64_t pages = (bytes - head) / page_size;
    const std::uint64_t tail = bytes - head - pages * page_size;
    if (head != 0) {
        each(begin, head);
    }
    if (tail != 0) {
        each(begin + bytes - tail, tail);
    }
    bool is_answered = false;
    try {
        is_answered = ask(begin + head, pages, each).ok();
    } catch (const std::bad_alloc&) {
        is_answered = false;
    }
    if (!is_answered) {
        each(begin + head, pages * page_size);
    }
}

base::result<void> zero_pages::ask(std::byte* begin, std::uint64_t pages, visitor each) const {
    const base::pages start{view_->offset(begin).value / page_size};
    std::byte* at = begin;
    return segments_->for_each(
        start, {pages}, [&](persist::file& file, std::uint64_t first, std::uint64_t count) -> base::result<void> {
            HF_TRY(ask_file(file, first, count, at, each));
            at += count * page_size;
            return {};
        });
}

base::result<void> zero_pages::ask_file(persist::file& file, std::uint64_t first, std::uint64_t count, std::byte* at,
                                        visitor each) const {
    HF_TRY_ASSIGN(const bool is_known, persist::tells_reserved_space(file));
    if (!is_known) {
        each(at, count * page_size);
        return {};
    }
    const std::uint64_t end = (first + count) * page_size;
    bool is_any_zero = false;
    for (std::uint64_t from = first * page_size; from < end;) {
        HF_TRY_ASSIGN(const persist::byte_range data, persist::next_data(file.native_handle(), from, end, file.path()));
        is_any_zero = is_any_zero || data.begin != from;
        if (data.begin < data.end) {
            each(at + (data.begin - first * page_size), data.end - data.begin);
        }
        from = data.end;
    }
    // A hole that was made a moment ago must not have its old content again after a loss of power.
    return is_any_zero && location_->domain() == domain_kind::disk ? file.sync("space.zeros.sync")
                                                                   : base::result<void>();
}

}  // namespace holdfast::segment
