#include "segment/commit/promised_space.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace holdfast::segment {

using base::pages;

base::result<void> promised_space::add(persist::storage& storage, const std::vector<std::string>& directories,
                                       pages start, pages length) {
    const base::scoped_lock lock(mutex_);
    const std::uint64_t wanted = base::to_bytes({pages_ + length.value});
    for (const std::string& directory : directories) {
        HF_TRY_ASSIGN(const std::uint64_t left, storage.available(directory));
        if (left < wanted) {
            base::failure what = base::os_failure(ENOSPC, "reserve", directory);
            what.found = fmt::format("{} ({} bytes left)", what.found, left);
            what.expected = fmt::format("{} bytes for the next commit", wanted);
            return what;
        }
    }
    if (!added_.empty() && added_.back().first + added_.back().second == start) {
        added_.back().second += length;
    } else {
        added_.emplace_back(start, length);
    }
    pages_ += length.value;
    return {};
}

std::vector<page_run> promised_space::runs(pages frontier, std::uint64_t pages_of_segment) const {
    const base::scoped_lock lock(mutex_);
    std::vector<page_run> all;
    for (const auto& [start, length] : added_) {
        const std::uint64_t end = std::min((start + length).value, frontier.value);
        for (std::uint64_t page = start.value; page < end;) {
            const std::uint64_t index = page / pages_of_segment;
            const std::uint64_t here = std::min(end, (index + 1) * pages_of_segment) - page;
            all.push_back({index, page % pages_of_segment, here, nullptr});
            page += here;
        }
    }
    return all;
}

void promised_space::clear() noexcept {
    const base::scoped_lock lock(mutex_);
    added_.clear();
    pages_ = 0;
}

}  // namespace holdfast::segment
