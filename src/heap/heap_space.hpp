// What a commit writes and gives back, and shrink().
//
// Invariants:
//   HEAP-12: a commit gives space back only after the state that does not use it is durable; a failed one leaves the
//            heap as long as it was.
//   HEAP-13: space that was promised at creation (initial_bytes) is given back by shrink() alone.
//
// Thread safety: commit() and shrink() in durability `commit` run alone; in the others other threads may go on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "heap/heap_operations.hpp"

namespace holdfast::heap {

/// `charged`: bytes, by the file system, for all files.
struct shrink_report {
    std::uint64_t charged_before = 0;
    std::uint64_t charged_after = 0;
    std::uint64_t apparent_before = 0;
    std::uint64_t apparent_after = 0;
    std::uint64_t given_back = 0;  ///< free space that became holes
    std::uint64_t shortened = 0;   ///< addresses cut off
};

/// So that a heap of varying size does not ask the file system each time.
[[nodiscard]] constexpr base::pages kept_at_the_end(base::pages frontier) noexcept {
    constexpr std::uint64_t least = 64 * base::mebibyte / base::page_size;
    return {std::max(least, frontier.value / 8)};
}

/// In order of address.
[[nodiscard]] segment::free_runs free_space_of(const extent::extent_allocator& extents);

class heap_space {
public:
    explicit heap_space(heap_operations& heap) noexcept : heap_(heap) {}

    /// Free space stays on disk that long (extent::decay_curve); decay_curve::never: for ever.
    void start_decay(std::uint64_t total_ns);
    /// Before any store to a copied heap: without space on disk it ends in SIGBUS.
    base::result<void> reserve_copied();
    /// Durability `commit`: gives back free space that has decayed, or all and what is kept_at_the_end(), and free
    /// pages of idle slabs.
    base::result<segment::commit_statistics> commit(bool give_all_back);
    /// As commit(), but gives nothing back, and slabs stay as they are. A failure may leave bitmaps that the savepoint
    /// does not have.
    base::result<segment::commit_statistics> commit_with_savepoint();
    /// As commit(), but gives nothing back, and takes what it writes, so that threads may go on: finish() of the
    /// committer makes it durable. False: nothing was done (committer::capture).
    base::result<bool> capture();
    /// Comes behind commit_with_savepoint(): once in a step of the decay, a commit of its own gives back what that one
    /// has not. It has nothing of the program, so its failure is the next commit's to tell.
    void give_back_decayed() noexcept;
    /// Durability `atomic` and `collect`: ends the heap `keep` pages behind its last used page. Returns the pages cut
    /// off.
    base::result<base::pages> shorten(base::pages keep);
    using shrink_progress = base::function_ref<void(const shrink_report&)>;
    base::result<shrink_report> shrink(std::uint64_t target, shrink_progress progress);

private:
    [[nodiscard]] base::result<segment::commit_statistics> write_commit(const segment::free_runs& free,
                                                                        const segment::space_going& going,
                                                                        segment::commit_of what);
    [[nodiscard]] base::result<void> check_metadata(std::uint64_t segment, std::uint64_t at);
    [[nodiscard]] base::result<void> check_page(object_directory::page_check& directory, std::uint64_t file,
                                                std::uint64_t at);

    heap_operations& heap_;
    bool keeps_space_ = false;  ///< it was promised, or decay is off
};

}  // namespace holdfast::heap
