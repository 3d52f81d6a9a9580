// Pages that the next commit will reserve (heap_location::reserves_at_commit()).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

/// Thread-safe.
class promised_space {
public:
    promised_space() = default;
    promised_space(const promised_space&) = delete;
    promised_space& operator=(const promised_space&) = delete;
    ~promised_space() = default;

    /// no_space where one of `directories` has no room for all promised pages.
    base::result<void> add(persist::storage& storage, const std::vector<std::string>& directories, base::pages start,
                           base::pages length);
    /// May throw std::bad_alloc.
    [[nodiscard]] std::vector<page_run> runs(base::pages frontier, std::uint64_t pages_of_segment) const;
    void clear() noexcept;

private:
    mutable base::mutex mutex_;
    free_runs added_ HF_GUARDED_BY(mutex_);
    std::uint64_t pages_ HF_GUARDED_BY(mutex_) = 0;
};

}  // namespace holdfast::segment
