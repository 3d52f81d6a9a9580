// One open heap: files, extents, slabs, objects and roots put together. The face of this layer to api/.
//
// Thread safety: allocate, deallocate and usable_size by any number of threads; objects() under object_mutex(); commit,
// close, check and statistics while nothing else runs. A commit keeps calls that do run out of what it writes
// (slab/commit_gate.hpp).
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

enum class durability_kind : std::uint8_t { commit = 1, collect = 2, atomic = 3 };

struct engine_options {
    durability_kind durability = durability_kind::commit;
    segment::creation_options files;  ///< for open: files.mapping alone
    std::uint64_t initial_bytes = 0;  ///< create: user space reserved at once
    /// Durability `atomic` and `collect`: the domain to work in instead of the one that is found.
    std::optional<persist::domain_kind> domain;
    /// Durability `atomic` and `collect` where the domain is page-cache: that it covers crashes of the process alone is
    /// understood.
    bool accept_process_crash_only = false;
    trace_mode recovery = trace_mode::conservative;  ///< after a crash in durability `collect`
    std::uint64_t lane_slots = lane::default_slots;
    bool hardened = false;  ///< open for writing: open_options::hardened
    /// How long free memory may keep its space on disk, in all; extent::decay_curve says more.
    std::uint64_t decay_ns = 10'000'000'000;
    /// Where the files are; crash tests have one of their own. Copies and snapshots are the kernel's alone.
    persist::storage* storage = &persist::posix_storage();
};

/// What shrink() did; bytes. `charged`: by the file system, of all files of the heap.
struct shrink_report {
    std::uint64_t charged_before = 0;
    std::uint64_t charged_after = 0;
    std::uint64_t apparent_before = 0;
    std::uint64_t apparent_after = 0;
    std::uint64_t given_back = 0;  ///< free space that became holes
    std::uint64_t shortened = 0;   ///< addresses by which the heap ends earlier
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

/// What a heap keeps at its end when it is committed or closed, so that one that breathes does not ask the file system
/// each time.
[[nodiscard]] constexpr base::pages kept_at_the_end(base::pages frontier) noexcept {
    constexpr std::uint64_t least = 64 * base::mebibyte / base::page_size;
    return {std::max(least, frontier.value / 8)};
}

/// One extent of the user space, and what it costs.
struct extent_state {
    extent::extent run;
    slab::slab_occupancy slab;  ///< of a slab; else zero
    segment::backed_bytes backed;
};

class engine {
public:
    /// Durable and empty when it returns; nothing is left behind on failure.
    static base::result<std::unique_ptr<engine>> create(const std::string& path, const engine_options& options);
    /// `hold`: of one that had the heap open before, and is gone; without it, what the path leads to.
    static base::result<std::unique_ptr<engine>> open(const std::string& path, persist::access_mode mode,
                                                      const engine_options& options,
                                                      const std::shared_ptr<segment::heap_hold>& hold = nullptr);
    /// Opens what is there, or creates it. Where other processes come at once, one creates; the
    /// others open what it made when it has closed it, or are told `locked`.
    static base::result<std::unique_ptr<engine>> open_or_create(const std::string& path,
                                                                const engine_options& opened_with,
                                                                const engine_options& created_with);
    /// A heap without files, in memory of this process alone: allocation, and nothing else. It has no key that anybody
    /// finds it by.
    static base::result<std::unique_ptr<engine>> create_scratch(const engine_options& options);
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    ~engine();

    base::result<segment::commit_statistics> commit();
    /// Gives space back to the file system until it charges no more than `target` bytes, or nothing is left to give:
    /// slabs without a block, free extents, segments at the end. Durability `atomic`, `collect`: beside other threads;
    /// `commit`: commits, as commit(). `progress` hears of the present numbers now and then. Crash-safe at every
    /// moment.
    using shrink_progress = base::function_ref<void(const shrink_report&)>;
    base::result<shrink_report> shrink(std::uint64_t target, shrink_progress progress);
    /// Commits where asked and leaves the heap clean on media; the destructor then only unmaps. On failure the heap
    /// stays usable.
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
    /// False, and nothing changed, where the address is not the start of an allocated block; last_failure() says more.
    /// For paths that cannot afford a result.
    [[nodiscard]] bool try_deallocate(void* address) noexcept {
        if (keep_back_) [[unlikely]] {
            return free_filtered(address);
        }
        return free_at_once(address);
    }
    /// The same, whatever a filter would say.
    [[nodiscard]] bool free_at_once(void* address) noexcept {
        if (headers_ != nullptr) [[unlikely]] {
            return headers_->deallocate(address);
        }
        return atomic_ != nullptr ? atomic_->deallocate(address) : blocks_.try_free(address);
    }
    /// Sees every free of an allocated block from now on, in the thread that frees; true: it keeps the block back, and
    /// calls free_at_once() later. It must not throw. Empty: none. While no other thread uses the heap.
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

    /// Blocks with their destinations, in the heap's durability; null where it is open read-only.
    [[nodiscard]] destination_operations* destinations() noexcept { return destinations_; }
    /// Marks a block of block_allocator::hold() allocated: durably, where media must know it before anything leads to
    /// it. Durability `commit` and `collect`.
    void keep(const slab::held_block& held) noexcept {
        if (headers_ != nullptr) {
            headers_->keep(held);
        } else {
            blocks_.keep(held);
        }
    }
    /// The operations of durability `atomic`; null in others.
    [[nodiscard]] atomic_operations* atomic() noexcept { return atomic_.get(); }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    /// Their shortest ways, where calls for small blocks need nothing else: open for writing, durability `commit` or
    /// `collect`, not hardened, and nobody sees the frees; else those of no heap. Never null.
    [[nodiscard]] const slab::plain_blocks* plain() const noexcept { return plain_; }
    /// block_allocator::follow_this_thread().
    bool follow_this_thread() noexcept { return !read_only() && blocks_.follow_this_thread(); }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return extents_; }
    [[nodiscard]] type_registry& types() noexcept { return types_; }
    [[nodiscard]] durability_kind durability() const noexcept {
        return atomic_ != nullptr ? durability_kind::atomic
               : collects_        ? durability_kind::collect
                                  : durability_kind::commit;
    }
    /// The user's data: starts a write-back; waits for all that this thread started; both. They do nothing where it
    /// would not help.
    void flush(const void* begin, std::uint64_t bytes) noexcept;
    void drain() noexcept;
    void persist(const void* begin, std::uint64_t bytes) noexcept {
        flush(begin, bytes);
        drain();
    }
    /// What the recovery of this open traced; nothing where the heap had not crashed in durability `collect`.
    [[nodiscard]] const std::optional<trace_report>& traced() const noexcept { return traced_; }
    /// What the recovery of this open did with the lanes; all zero where there was none.
    [[nodiscard]] const lane::replay_report& replayed() const noexcept { return replayed_; }
    /// In a child of fork, for a heap whose memory it does not have. Durabilities `atomic` and `collect`: every call
    /// fails from here on.
    void abandon_in_child() noexcept;
    /// The child of a fork shall go on with a copy, as a scratch heap, of a scratch heap or one in durability
    /// `collect`: from now on abandon_in_child() does nothing, and the caller, while no other thread is in a call:
    void keep_in_children() noexcept { keeps_children_ = true; }
    /// before fork(): its pages are the child's, too;
    base::result<void> prepare_fork();
    /// in the parent, once the child has its copy;
    void resume_after_fork() noexcept;
    /// in the child. On failure it must not touch the heap any more.
    base::result<void> continue_in_child();

    [[nodiscard]] segment::heap_files& files() noexcept { return *files_; }
    [[nodiscard]] const segment::heap_files& files() const noexcept { return *files_; }
    [[nodiscard]] object_directory& objects() noexcept { return objects_; }
    [[nodiscard]] std::recursive_mutex& object_mutex() noexcept { return object_mutex_; }
    /// The first of root_count ptr words.
    [[nodiscard]] std::byte* roots() const noexcept { return files_->view().base(); }
    [[nodiscard]] std::uint64_t key() const noexcept { return files_->superblock().heap_key; }
    /// It was created so: no two blocks share a cache line.
    [[nodiscard]] bool separates_cache_lines() const noexcept {
        return (files_->superblock().flags & segment::flag_separate_lines) != 0;
    }
    [[nodiscard]] bool read_only() const noexcept { return files_->mode() == persist::access_mode::read_only; }
    /// `wrong_process` in a child of fork.
    base::result<void> check_process() const;

    base::result<engine_statistics> statistics();
    /// Calls `each` for all extents in order of address. It may allocate and free: what comes or goes meanwhile may be
    /// missed or seen.
    base::result<void> for_each_extent(base::function_ref<void(const extent_state&)> each);
    /// Every broken invariant, a line each. `pages`: SEG-2 too.
    std::vector<std::string> check(bool pages);
    /// Of the last check() of pages, or of the open that compared them.
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
    base::result<void> trace_after_crash(trace_mode mode);
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
    std::unique_ptr<destination_operations> ordered_;  ///< of the other durabilities
    destination_operations* destinations_ = nullptr;
    struct {
        atomic_operations* of = nullptr;
        bool operator()() const noexcept { return of == nullptr || of->settle(); }
    } settle_;
    std::unique_ptr<collect_operations> header_operations_;
    collect_operations* headers_ = nullptr;  ///< durability `collect`, but on the page cache
    bool collects_ = false;
    bool keeps_children_ = false;
    lane::replay_report replayed_;
    std::optional<trace_report> traced_;
    bool keeps_space_ = false;  ///< free space stays: it was promised, or decay is off
};

/// Without opening: the superblock of the newest good copy.
base::result<segment::superblock_on_media> read_superblock(const std::string& path);
base::result<segment::superblock_on_media> read_superblock(persist::storage& storage, const segment::heap_paths& paths);
base::result<void> copy(const std::string& source, const std::string& destination,
                        std::span<const std::string> node_places = {});
base::result<bool> remove(const std::string& path);

}  // namespace holdfast::heap
