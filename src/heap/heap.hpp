// One open heap: files, extents, slabs, objects and roots. The interface of this layer to api/.
//
// Thread safety: any number of threads may allocate, free, ask for sizes and types, and use destinations(). objects()
// needs object_mutex(). commit, close, check and statistics run alone; a commit keeps calls that run nevertheless away
// from what it writes (slab/commit_gate.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "extent/extent.hpp"
#include "heap/atomic_operations.hpp"
#include "heap/collect_operations.hpp"
#include "heap/destination_operations.hpp"
#include "heap/object_directory.hpp"
#include "heap/trace.hpp"
#include "heap/type_registry.hpp"
#include "lane/replay.hpp"
#include "segment/backing_cursor.hpp"
#include "segment/heap_files.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class engine;

enum class durability_kind : std::uint8_t { commit = 1, collect = 2, atomic = 3 };

struct engine_options {
    durability_kind durability = durability_kind::commit;
    segment::creation_options files;  ///< open() uses `mapping` alone
    std::uint64_t initial_bytes = 0;  ///< create(): user space reserved at once
    /// Durability `atomic` and `collect`: the domain to work in, instead of the one that is found.
    std::optional<persist::domain_kind> domain;
    /// Durability `atomic` and `collect` on the page cache: the caller accepts that a power loss is not covered.
    bool accept_process_crash_only = false;
    trace_mode recovery = trace_mode::conservative;  ///< after a crash in durability `collect`
    /// Comes before that trace. Adds offsets, below the frontier, of blocks that the trace begins at, too. What it
    /// throws ends the open.
    std::function<void(engine& heap, std::vector<std::uint64_t>& roots)> before_trace;
    std::uint64_t lane_slots = lane::default_slots;
    bool hardened = false;  ///< open for writing: as open_options::hardened
    /// The longest time that free memory keeps its space on disk (extent::decay_curve).
    std::uint64_t decay_ns = 10'000'000'000;
    /// Replaced by crash tests. Copies and snapshots always use the kernel's file system.
    persist::storage* storage = &persist::posix_storage();
};

/// Bytes. `charged`: by the file system, for all files of the heap.
struct shrink_report {
    std::uint64_t charged_before = 0;
    std::uint64_t charged_after = 0;
    std::uint64_t apparent_before = 0;
    std::uint64_t apparent_after = 0;
    std::uint64_t given_back = 0;  ///< free space that became holes
    std::uint64_t shortened = 0;   ///< addresses cut off the end
};

inline constexpr std::uint64_t root_count = 512;

struct engine_statistics {
    segment::file_statistics files;
    std::uint64_t reservation = 0;
    std::uint64_t user_bytes = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t allocated_blocks = 0;
    std::uint64_t largest_free_block = 0;
    std::uint64_t slabs = 0;
    std::uint64_t extents = 0;
    std::uint64_t guard_ranges = 0;
};

/// Free pages that stay at the end of the heap in a commit or close, so that a heap of varying size does not ask the
/// file system each time.
[[nodiscard]] constexpr base::pages kept_at_the_end(base::pages frontier) noexcept {
    constexpr std::uint64_t least = 64 * base::mebibyte / base::page_size;
    return {std::max(least, frontier.value / 8)};
}

struct extent_state {
    extent::extent run;
    slab::slab_occupancy slab;  ///< zero unless the extent is a slab
    segment::backed_bytes backed;
};

class engine {
public:
    /// The new heap is empty and durable.
    static base::result<std::unique_ptr<engine>> create(const std::string& path, const engine_options& options);
    /// `hold`: of an engine that had this heap open and is gone.
    static base::result<std::unique_ptr<engine>> open(const std::string& path, persist::access_mode mode,
                                                      const engine_options& options,
                                                      const std::shared_ptr<segment::heap_hold>& hold = nullptr);
    /// Of several processes that call this at once, one creates the heap; the others fail with `locked` while it is
    /// open.
    static base::result<std::unique_ptr<engine>> open_or_create(const std::string& path,
                                                                const engine_options& opened_with,
                                                                const engine_options& created_with);
    /// A heap without files, in the memory of this process: allocation alone. find_engine() does not find it.
    static base::result<std::unique_ptr<engine>> create_scratch(const engine_options& options);
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    ~engine();

    base::result<segment::commit_statistics> commit();
    /// Gives space back (empty slabs, free extents, segments at the end) until the file system charges at most `target`
    /// bytes or nothing is left. In durability `atomic` and `collect` other threads may go on; `commit` commits, under
    /// commit()'s rules. `progress` is called from time to time. A crash leaves a sound heap.
    using shrink_progress = base::function_ref<void(const shrink_report&)>;
    base::result<shrink_report> shrink(std::uint64_t target, shrink_progress progress);
    /// Commits if asked, then marks the heap clean on media. After a failure the heap stays usable.
    base::result<void> close(bool commit_changes);
    /// Commits, then copies the heap.
    base::result<void> snapshot(const std::string& destination);

    /// Null on failure; last_failure() of this thread says why.
    [[nodiscard]] void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type = 0) noexcept {
        if (atomic_ != nullptr) {
            return atomic_->allocate({bytes, alignment, false, type});
        }
        if (headers_ != nullptr) [[unlikely]] {
            return headers_->allocate(bytes, alignment, type);
        }
        return type == 0 ? blocks_.allocate(bytes, alignment) : blocks_.allocate_typed(bytes, alignment, type);
    }
    [[nodiscard]] static const base::failure& last_failure() noexcept;
    /// For callers that cannot afford a result. False: `address` is not the start of an allocated block, and nothing
    /// changed.
    [[nodiscard]] bool try_deallocate(void* address) noexcept {
        if (keep_back_) [[unlikely]] {
            return free_filtered(address);
        }
        return free_at_once(address);
    }
    /// As try_deallocate(), past the filter of set_free_filter().
    [[nodiscard]] bool free_at_once(void* address) noexcept {
        if (headers_ != nullptr) [[unlikely]] {
            return headers_->deallocate(address);
        }
        return atomic_ != nullptr ? atomic_->deallocate(address) : blocks_.try_free(address);
    }
    /// The filter sees every free of an allocated block, in the freeing thread. True: it keeps the block, and calls
    /// free_at_once() later. It must not throw. Empty: no filter. Set it while no other thread uses the heap.
    using free_filter = std::function<bool(void*)>;
    void set_free_filter(free_filter filter) noexcept {
        keep_back_ = std::move(filter);
        find_plain_path();
    }
    /// Fails with bad_address and changes nothing where the address is not the start of an allocated block.
    base::result<void> deallocate(void* address);
    base::result<std::uint64_t> usable_size(const void* address);
    base::result<std::uint32_t> type_of(const void* address);
    [[nodiscard]] bool all_free();

    /// In the heap's durability; null if the heap is open read-only.
    [[nodiscard]] destination_operations* destinations() noexcept { return destinations_; }
    /// Marks a block of block_allocator::hold() allocated; durably, if media must know it before anything points to it.
    /// Durability `commit` and `collect`.
    void keep(const slab::held_block& held) noexcept {
        if (headers_ != nullptr) {
            headers_->keep(held);
        } else {
            blocks_.keep(held);
        }
    }
    /// Whether block_allocator::resize_pages() may be called: no record and no flush has to say that a block of whole
    /// pages has another length.
    [[nodiscard]] bool can_resize_in_place() const noexcept { return atomic_ == nullptr && headers_ == nullptr; }
    /// Null in other durabilities.
    [[nodiscard]] atomic_operations* atomic() noexcept { return atomic_.get(); }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    /// The inlined path for small blocks of this heap, if nothing else must see its calls: open for writing, durability
    /// `commit` or `collect`, not hardened, no free filter. Otherwise the path of no heap, which serves no call. Never
    /// null.
    [[nodiscard]] const slab::plain_blocks* plain() const noexcept { return plain_; }
    bool follow_this_thread() noexcept { return !read_only() && blocks_.threads().follow_this_thread(); }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return extents_; }
    [[nodiscard]] type_registry& types() noexcept { return types_; }
    [[nodiscard]] durability_kind durability() const noexcept {
        return atomic_ != nullptr ? durability_kind::atomic
               : collects_        ? durability_kind::collect
                                  : durability_kind::commit;
    }
    /// For the program's data: flush() starts a write-back, drain() waits for this thread's, persist() does both. They
    /// do nothing where the domain needs none.
    void flush(const void* begin, std::uint64_t bytes) noexcept;
    void drain() noexcept;
    void persist(const void* begin, std::uint64_t bytes) noexcept {
        flush(begin, bytes);
        drain();
    }
    /// The trace of this open's recovery; empty unless the heap had crashed in durability `collect`.
    [[nodiscard]] const std::optional<trace_report>& traced() const noexcept { return traced_; }
    /// The replay of this open's recovery; all zero if there was none.
    [[nodiscard]] const lane::replay_report& replayed() const noexcept { return replayed_; }
    /// For a child of fork without the heap's memory: every later call fails. Durability `atomic` and `collect`.
    void abandon_in_child() noexcept;
    /// Children of fork shall continue a copy of this heap (a scratch heap, or one of durability `collect`):
    /// abandon_in_child() does nothing. Of the next three functions each runs while no other thread is in a call.
    void keep_in_children() noexcept { keeps_children_ = true; }
    /// Before fork(): makes the pages the child's, too.
    base::result<void> prepare_fork();
    /// In the parent, after the child has its copy.
    void resume_after_fork() noexcept;
    /// In the child. After a failure it must not touch the heap.
    base::result<void> continue_in_child();

    [[nodiscard]] segment::heap_files& files() noexcept { return *files_; }
    [[nodiscard]] const segment::heap_files& files() const noexcept { return *files_; }
    [[nodiscard]] object_directory& objects() noexcept { return objects_; }
    [[nodiscard]] std::recursive_mutex& object_mutex() noexcept { return object_mutex_; }
    /// root_count words that hold a `ptr`.
    [[nodiscard]] std::byte* roots() const noexcept { return files_->view().base(); }
    [[nodiscard]] std::uint64_t key() const noexcept { return files_->superblock().heap_key; }
    /// Created so: no two blocks share a cache line.
    [[nodiscard]] bool separates_cache_lines() const noexcept {
        return (files_->superblock().flags & segment::flag_separate_lines) != 0;
    }
    [[nodiscard]] bool read_only() const noexcept { return files_->mode() == persist::access_mode::read_only; }
    /// Fails with `wrong_process` in a child of fork.
    base::result<void> check_process() const;

    base::result<engine_statistics> statistics();
    /// Visits all extents in order of address. `each` may allocate and free; it may or may not see such changes.
    base::result<void> for_each_extent(base::function_ref<void(const extent_state&)> each);
    /// A line for each broken invariant. `pages`: also SEG-2, the checksums of all pages.
    std::vector<std::string> check(bool pages);
    /// Of the last check() with `pages`, or of the open.
    [[nodiscard]] segment::page_comparison last_comparison() const { return compared_.value_or(files_->compared()); }

private:
    [[nodiscard]] bool free_filtered(void* address) noexcept;
    explicit engine(std::unique_ptr<segment::heap_files> files);
    base::result<void> format(std::uint64_t initial_bytes);
    [[nodiscard]] segment::free_runs free_space() const;
    void check_pointers(std::vector<std::string>& problems);
    [[nodiscard]] base::result<void> check_metadata(std::uint64_t segment, std::uint64_t at) const;
    base::result<segment::commit_statistics> commit_pages(bool give_all_back, base::pages keep);
    base::result<void> shorten(base::pages keep, shrink_report* report);
    void start_decay(std::uint64_t total_ns);
    base::result<void> reserve_copied();
    base::result<void> keep_extents(const std::string& path);
    base::result<void> rebuild(const std::string& path);
    base::result<void> replay_lanes();
    base::result<void> repair_objects(bool blocks_are_known);
    base::result<void> start_atomic(const engine_options& options);
    base::result<void> close_atomic();
    base::result<void> start_collect();
    void start_destinations();
    base::result<void> pin_objects();
    void harden();
    base::result<void> start_guards();
    base::result<void> trace_after_crash(const engine_options& opened_with);
    base::result<void> close_collect();
    [[nodiscard]] bool flushes_recovery() const noexcept;
    void persist_recovery(const void* begin, std::uint64_t bytes) const;
    void write_back() noexcept;
    [[nodiscard]] base::result<void> refuse_scratch() const;
    static base::result<std::unique_ptr<engine>> open_recovered(const std::string& path, const engine_options& options,
                                                                durability_kind crashed_in,
                                                                const std::shared_ptr<segment::heap_hold>& hold);
    static base::result<void> check_promise(const segment::heap_files& files, const engine_options& options);

    std::unique_ptr<segment::heap_files> files_;
    extent::extent_allocator extents_;
    slab::block_allocator blocks_;
    object_directory objects_;
    type_registry types_;
    void find_plain_path() noexcept {
        const bool refused = read_only() || atomic_ != nullptr || keep_back_ || blocks_.is_hardened();
        plain_ = refused ? &slab::plain_blocks::of_no_heap() : &blocks_.plain();
    }

    const slab::plain_blocks* plain_ = &slab::plain_blocks::of_no_heap();
    free_filter keep_back_;
    std::recursive_mutex object_mutex_;
    std::optional<segment::page_comparison> compared_;
    std::unique_ptr<atomic_operations> atomic_;
    std::unique_ptr<destination_operations> ordered_;  ///< of durability `commit` and `collect`
    destination_operations* destinations_ = nullptr;
    struct {
        atomic_operations* of = nullptr;
        bool operator()() const noexcept { return of == nullptr || of->settle(); }
    } settle_;
    std::unique_ptr<collect_operations> header_operations_;
    collect_operations* headers_ = nullptr;  ///< null in `atomic`; set in `collect` on media that need flushes, in
                                             ///< hardened heaps and in abandoned children
    bool collects_ = false;
    bool keeps_children_ = false;
    lane::replay_report replayed_;
    std::optional<trace_report> traced_;
    bool keeps_space_ = false;  ///< commits keep free space: it was promised, or decay is off
};

/// Of a heap that is not open: the newest valid copy of its superblock.
base::result<segment::superblock_on_media> read_superblock(const std::string& path);
base::result<segment::superblock_on_media> read_superblock(persist::storage& storage, const segment::heap_paths& paths);
base::result<void> copy(const std::string& source, const std::string& destination,
                        std::span<const std::string> node_places = {});
base::result<bool> remove(const std::string& path);

}  // namespace holdfast::heap
