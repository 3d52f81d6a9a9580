// Copies of pages in memory, to which aborted transactions go back: a stack of savepoints.
//
// Home has the last version, or a copy does (lagging_home), so a page that nobody has stored to since the last commit
// needs no copy. A page has a copy at the savepoint behind the last store to it, and not again at later ones.
//
// Invariants:
//   UNDO-1: a page was at a savepoint as the last copy at it or below says, or, where there is none, as the last commit
//           has it.
//   UNDO-2: what was stored to since the last savepoint is what the scanner finds since then, and what ended_ has.
//
// Not thread-safe: no other thread stores meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "segment/commit/last_version.hpp"

namespace holdfast::segment {

enum class memory_is {
    unknown,
    as_committed,  ///< but for tables, and pages that stay as they are
};

class page_savepoints {
public:
    explicit page_savepoints(last_version& last) noexcept : last_(last) {}
    page_savepoints(const page_savepoints&) = delete;
    page_savepoints& operator=(const page_savepoints&) = delete;
    ~page_savepoints() = default;

    /// False: the page has no access, so it is free, and what it has does not matter.
    using access_check = base::function_ref<bool(const std::byte* page)>;

    /// Opens one. May throw std::bad_alloc.
    base::result<void> begin(access_check has_access);
    /// Opens the first one, where nobody has stored to anything since the last commit. Looks for nothing.
    void begin_as_committed();
    /// Forgets the last one. Needs no memory.
    void keep() noexcept;
    /// Pages are as at the last one, which is forgotten. Needs no memory. False: nothing was stored to the directory of
    /// objects.
    bool roll_back(access_check has_access) noexcept;
    /// All of them: the heap was committed.
    void forget() noexcept;
    /// So many were copied since the last commit, several times perhaps.
    [[nodiscard]] std::uint64_t copied_pages() const noexcept { return copied_; }

private:
    using copies = std::map<std::byte*, std::unique_ptr<std::byte[]>>;
    /// First the copies. Then come, without content, pages that were stored to since.
    using level = std::list<copies>;

    void copy(copies& to, std::byte* page);
    [[nodiscard]] const std::byte* find(std::byte* page) const noexcept;
    [[nodiscard]] std::byte* next_copied(std::byte* from, std::byte* end) const noexcept;
    void go_back(std::byte* begin, std::byte* end, access_check has_access) const noexcept;
    void end_last() noexcept;

    last_version& last_;
    std::vector<level> levels_;
    level ended_;  ///< the last one above levels_, whose copies the next one goes on from; or empty
    std::uint64_t version_ = 0;
    std::uint64_t copied_ = 0;
};

}  // namespace holdfast::segment
