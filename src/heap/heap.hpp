// One open heap: files, extents, slabs, objects and roots; the interface of this layer to api/.
//
// Thread safety: any number of threads may allocate, free, ask for sizes and types, and use destinations(). objects()
// needs object_mutex(). commit, close, check and statistics run alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "heap/heap_forks.hpp"
#include "heap/heap_inspection.hpp"
#include "heap/heap_operations.hpp"
#include "heap/heap_recovery.hpp"
#include "heap/heap_space.hpp"
#include "heap/savepoints.hpp"
#include "heap/trace/trace.hpp"
#include "lane/replay.hpp"
#include "segment/heap_files.hpp"

namespace holdfast::heap {

inline constexpr std::uint64_t default_decay_ns = 10'000'000'000;

struct engine_options {
    durability_kind durability = durability_kind::commit;
    segment::creation_options files;  ///< open() uses `mapping` alone
    std::uint64_t initial_bytes = 0;  ///< create(): user space reserved at once
    /// Durability `atomic` and `collect`: instead of the one found.
    std::optional<persist::domain_kind> domain;
    /// Durability `atomic` and `collect` on the page cache: a power loss is not covered.
    bool accept_process_crash_only = false;
    /// A heap that was open in such a session when the machine stopped.
    bool accept_machine_restart = false;
    trace_mode recovery = trace_mode::conservative;  ///< after a crash in durability `collect`
    before_trace_call before_trace;
    std::uint64_t lane_slots = lane::default_slots;
    bool hardened = false;  ///< as open_options::hardened
    /// Durability `commit`: other processes do so, too (segment/files/heap_turns.hpp). The open has the turn.
    bool by_turns = false;
    /// The longest time that free memory keeps its space on disk.
    std::uint64_t decay_ns = default_decay_ns;
    /// For crash tests. Copies and snapshots use the kernel's file system.
    persist::storage* storage = &persist::posix_storage();
};

class engine : public heap_operations {
public:
    /// The new heap is empty and durable.
    static base::result<std::unique_ptr<engine>> create(const std::string& path, const engine_options& options);
    /// `directories`: of an engine that had the heap open and is gone.
    static base::result<std::unique_ptr<engine>> open(
        const std::string& path, persist::access_mode mode, const engine_options& options,
        const std::shared_ptr<segment::heap_directories>& directories = nullptr);
    /// Of several processes at once, one creates the heap; the others fail with `locked` while it is open.
    static base::result<std::unique_ptr<engine>> open_or_create(const std::string& path,
                                                                const engine_options& opened_with,
                                                                const engine_options& created_with);
    /// Without files: allocation alone. find_engine() does not find it.
    static base::result<std::unique_ptr<engine>> create_scratch(const engine_options& options);
    /// A reader's files show another version: all that `old` has read of the tables is read anew. Null on failure.
    static base::result<std::unique_ptr<engine>> read_anew(std::unique_ptr<engine> old);
    ~engine();

    base::result<segment::commit_statistics> commit();
    /// Gives space back until the file system charges at most `target` bytes or nothing is left. Durability `commit`
    /// commits, under commit()'s rules; in the others threads may go on. A crash leaves a sound heap.
    base::result<shrink_report> shrink(std::uint64_t target, heap_space::shrink_progress progress) {
        return space_.shrink(target, progress);
    }
    /// Commits if asked, then marks the heap clean on media. After a failure the heap stays usable; after a failed
    /// sync, for a close without commit.
    base::result<void> close(bool commit_changes);
    /// Commits, then copies the heap.
    base::result<void> snapshot(const std::string& destination);
    [[nodiscard]] heap_forks& forks() noexcept { return forks_; }
    /// In a child of fork, in the place of the destructor (HEAP-27): gives descriptors, locks and addresses back. The
    /// object is never used or destroyed then.
    void leave_to_parent() noexcept;
    [[nodiscard]] savepoints& undo() noexcept { return undo_; }

    /// What a crash made necessary when the heap was opened.
    [[nodiscard]] const recovered_heap& recovered() const noexcept { return recovered_; }
    [[nodiscard]] heap_inspection& inspection() noexcept { return inspection_; }
    base::result<engine_statistics> statistics() { return inspection_.statistics(); }
    std::vector<std::string> check(bool pages) { return inspection_.check(pages); }

private:
    friend class heap_opening;
    friend class turns_of_heap;

    explicit engine(std::unique_ptr<segment::heap_files> files);
    base::result<void> close_shared();
    base::result<void> close_poisoned();

    heap_space space_;
    savepoints undo_;
    heap_forks forks_;
    heap_inspection inspection_;
    recovered_heap recovered_;
};

/// Of a heap that is not open, from its newest valid copy.
base::result<segment::superblock_on_media> read_superblock(const std::string& path);
base::result<segment::superblock_on_media> read_superblock(persist::storage& storage, const segment::heap_paths& paths);
base::result<void> copy(const std::string& source, const std::string& destination,
                        std::span<const std::string> node_places = {});
base::result<bool> remove(const std::string& path);

/// Records written in durability `atomic`; 0 in the others. They tell whether threads that should stand still go on, as
/// far as it can be seen.
[[nodiscard]] inline std::uint64_t record_count(engine& of) {
    return of.atomic() == nullptr ? 0 : of.atomic()->lanes().statistics().records;
}

}  // namespace holdfast::heap
