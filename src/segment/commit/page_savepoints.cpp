#include "segment/commit/page_savepoints.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/units.hpp"

namespace holdfast::segment {

using base::page_size;

/// Below all others a page that is as the last commit has it needs no copy.
void page_savepoints::copy(copies& to, std::byte* page) {
    auto at = to.find(page);
    if (at == to.end()) {
        if (levels_.empty() && last_.has(page)) {
            return;
        }
        at = to.try_emplace(page, std::make_unique_for_overwrite<std::byte[]>(page_size)).first;
    }
    std::memcpy(at->second.get(), page, page_size);
    ++copied_;
}

base::result<void> page_savepoints::begin(access_check has_access) {
    if (version_ != last_.number()) {
        forget();
        version_ = last_.number();
    }
    levels_.reserve(levels_.size() + 1);
    if (ended_.empty()) {
        ended_.emplace_back();
    }
    std::vector<memory_run> stored;
    HF_TRY(last_.take_stores(stored));
    try {
        copies& to = ended_.front();
        for (auto later = std::next(ended_.begin()); later != ended_.end(); ++later) {
            for (const auto& [page, none] : *later) {
                if (has_access(page)) {
                    copy(to, page);
                }
            }
        }
        for (const memory_run& run : stored) {
            for (std::uint64_t i = 0; i < run.pages; ++i) {
                copy(to, run.address + i * page_size);
            }
        }
    } catch (const std::bad_alloc&) {
        last_.find_stores_again();
        throw;
    }
    ended_.resize(1);
    levels_.push_back(std::move(ended_));
    ended_.clear();
    return {};
}

void page_savepoints::begin_as_committed() {
    forget();
    version_ = last_.number();
    ended_.emplace_back();
    levels_.push_back(std::move(ended_));
    ended_.clear();
}

/// What was stored to above it was stored to since it.
void page_savepoints::end_last() noexcept {
    level last = std::move(levels_.back());
    levels_.pop_back();
    for (copies& later : ended_) {
        for (auto& [page, content] : later) {
            content.reset();
        }
    }
    last.splice(last.end(), ended_);
    ended_ = std::move(last);
}

void page_savepoints::keep() noexcept { end_last(); }

void page_savepoints::forget() noexcept {
    levels_.clear();
    ended_.clear();
    copied_ = 0;
}

const std::byte* page_savepoints::find(std::byte* page) const noexcept {
    for (auto each = levels_.rbegin(); each != levels_.rend(); ++each) {
        const auto found = each->front().find(page);
        if (found != each->front().end()) {
            return found->second.get();
        }
    }
    return nullptr;
}

std::byte* page_savepoints::next_copied(std::byte* from, std::byte* end) const noexcept {
    std::byte* next = end;
    for (const level& each : levels_) {
        const auto found = each.front().lower_bound(from);
        next = found == each.front().end() ? next : std::min(next, found->first);
    }
    return next;
}

void page_savepoints::go_back(std::byte* begin, std::byte* end, access_check has_access) const noexcept {
    for (std::byte* at = begin; at < end; at += page_size) {
        std::byte* const copied = next_copied(at, end);
        last_.go_back({at, static_cast<std::uint64_t>(copied - at) / page_size}, has_access);
        at = copied;
        const std::byte* const content = at < end ? find(at) : nullptr;
        if (content != nullptr && has_access(at) && std::memcmp(at, content, page_size) != 0) {
            std::memcpy(at, content, page_size);
        }
    }
}

bool page_savepoints::roll_back(access_check has_access) noexcept {
    std::vector<memory_run> stored;
    bool is_found = false;
    try {
        is_found = last_.find_stores(stored).ok();
    } catch (const std::bad_alloc&) {
        is_found = false;
    }
    if (!is_found) {  // a page that is dropped though nobody has stored to it is read again
        for (const memory_run& all : last_.memory()) {
            go_back(all.address, end_of(all), has_access);
        }
        end_last();
        return true;
    }
    bool has_objects = false;
    for (const memory_run& run : stored) {
        has_objects = has_objects || last_.is_of_objects(run.address);
        go_back(run.address, end_of(run), has_access);
    }
    for (const copies& later : ended_) {
        for (const auto& [page, content] : later) {
            has_objects = has_objects || last_.is_of_objects(page);
            go_back(page, page + page_size, has_access);
        }
    }
    end_last();
    return has_objects;
}

}  // namespace holdfast::segment
