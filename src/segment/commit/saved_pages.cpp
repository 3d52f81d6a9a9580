#include "segment/commit/saved_pages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/units.hpp"

namespace holdfast::segment {

using base::page_size;

namespace {

memory_run between(std::byte* begin, const std::byte* end) noexcept {
    return {begin, static_cast<std::uint64_t>(end - begin) / page_size};
}

}  // namespace

void saved_pages::add(const memory_run& run) {
    copied_run made{run, std::make_unique_for_overwrite<std::byte[]>(run.pages * page_size)};
    std::memcpy(made.content.get(), run.address, run.pages * page_size);
    runs_.push_back(std::move(made));
    count_ += run.pages;
}

void saved_pages::put_back(base::function_ref<bool(const std::byte*)> may_store) const noexcept {
    for (const copied_run& each : runs_) {
        for (std::uint64_t at = 0; at < each.run.pages * page_size; at += page_size) {
            if (may_store(each.run.address + at)) {
                std::memcpy(each.run.address + at, each.content.get() + at, page_size);
            }
        }
    }
}

void saved_pages::for_each_other(const memory_run& range,
                                 base::function_ref<void(const memory_run&)> each) const noexcept {
    std::byte* at = range.address;
    std::byte* const end = end_of(range);
    auto next = std::ranges::upper_bound(runs_, at, {}, [](const copied_run& saved) { return end_of(saved.run); });
    for (; next != runs_.end() && next->run.address < end; ++next) {
        if (at < next->run.address) {
            each(between(at, next->run.address));
        }
        at = end_of(next->run);
    }
    if (at < end) {
        each(between(at, end));
    }
}

}  // namespace holdfast::segment
