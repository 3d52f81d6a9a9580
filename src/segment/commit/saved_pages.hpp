// Copies of pages in memory, to which an aborted transaction goes back.
//
// Home has the last version, or a copy does (lagging_home), so pages that nobody has stored to since the last commit
// need no copy here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/function_ref.hpp"
#include "segment/commit/pagemap.hpp"

namespace holdfast::segment {

/// Runs are sorted by address and disjoint.
class saved_pages {
public:
    /// Appends the run with its present content. May throw std::bad_alloc.
    void add(const memory_run& run);
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    /// Stores the content where it was, but not to pages that `may_store` refuses.
    void put_back(base::function_ref<bool(const std::byte* page)> may_store) const noexcept;
    /// Calls `each` for the parts of the range that are not saved, in order of address. Needs no memory.
    void for_each_other(const memory_run& range, base::function_ref<void(const memory_run&)> each) const noexcept;

private:
    struct copied_run {
        memory_run run;
        std::unique_ptr<std::byte[]> content;
    };
    std::vector<copied_run> runs_;
    std::uint64_t count_ = 0;
};

}  // namespace holdfast::segment
