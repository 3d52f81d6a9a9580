// The files of one open heap, mapped: reservation, growth, commit. The interface of this layer to the heap layer.
//
// Invariants (no function checks them at run time; tests and the kernel's mappings show them):
//
//   MAP-1: user space [0, frontier) is mapped readable and writable, except for what forbid() has taken; beyond the
//          frontier nothing is accessible. Its pages have space on disk, except for those that give_back() took, new
//          pages that a growth did not reserve (the `skipped` ones of grow_beyond(), and those from backed_end() on),
//          and those that reserves_at_commit() leaves to the commit. take_back() reserves what give_back() and growths
//          left.
//   MAP-2: pages below the committed frontier are mappings of their files; pages beyond it are zeroed memory until the
//          commit that writes them to their files. Where the kernel refused to map a committed page, the page stays
//          memory, lies beyond the adopted frontier, and counts as changed.
//
// Thread safety: callers serialise grow(), and they serialise grow_objects(); one call of each may run at once.
// commit() and close_cleanly() run alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/thread_annotations.hpp"
#include "persist/backing.hpp"
#include "persist/domain.hpp"
#include "persist/topology.hpp"
#include "segment/address_range.hpp"
#include "segment/dirty_pages.hpp"
#include "segment/folio_policy.hpp"
#include "segment/heap_hold.hpp"
#include "segment/open_segment.hpp"
#include "segment/promised_space.hpp"
#include "segment/recovery.hpp"
#include "segment/space.hpp"
#include "segment/transaction.hpp"

namespace holdfast::segment {

class commit_builder;

struct mapping_options {
    std::uint64_t reservation = 0;      ///< bytes of user addresses; 0: the default
    std::byte* base_address = nullptr;  ///< map exactly there; null: anywhere
    std::uint64_t capacity = 0;         ///< limit of the frontier; 0: none
    bool verify = false;                ///< check SEG-2 before the open returns
    /// Durability `atomic` and `collect`: a store is in the file at once, and nobody calls commit().
    bool shared = false;
    huge_pages user_pages = huge_pages::advise;  ///< never for metadata, whose space is reserved page by page
    const persist::topology* topology = &persist::machine_topology::here();
    std::optional<persist::domain_kind> domain;  ///< shared: replaces the found one; no more than the media can do
};

struct creation_options {
    mapping_options mapping;
    std::uint64_t segment_size = default_segment_size;
    bool same_address = false;
    bool separate_cache_lines = false;  ///< flag_separate_lines
    /// One directory for each node, in which the segments lie by turns; "": one inside the heap's directory. Empty: all
    /// segments lie in the heap's directory.
    std::vector<std::string> node_places;
};

/// The space that goes back to the file system with a commit.
struct space_going {
    free_runs holes;                      ///< free space that needs none on disk; sorted
    std::optional<base::pages> frontier;  ///< the heap's new end
};

struct commit_statistics {
    std::uint64_t given_back_pages = 0;
    std::uint64_t dirty_pages = 0;
    std::uint64_t fresh_pages = 0;
    std::uint64_t journaled_pages = 0;
    std::uint64_t written_bytes = 0;
    std::uint64_t scan_ns = 0;
    std::uint64_t write_ns = 0;
    std::uint64_t sync_ns = 0;
    std::uint64_t total_ns = 0;
};

struct file_statistics {
    std::uint64_t apparent_bytes = 0;
    std::uint64_t charged_bytes = 0;
    std::uint64_t segments = 0;
};

/// Bytes [offset, offset + size) of a file, and where they are mapped.
struct mapped_window {
    std::byte* address;
    std::uint64_t offset;
    std::uint64_t size;
};

class heap_files final : public space_growth, public bitmap_guard, public lane_area, public page_access {
public:
    /// Makes the directory and its files, and maps an empty user space (frontier 0). Other processes see a heap from
    /// the first commit() on. abandon(), or the destructor before that commit, removes what was made.
    static base::result<std::unique_ptr<heap_files>> create(persist::storage& storage, const std::string& directory,
                                                            const creation_options& options);
    /// Locks, recovers, maps. access_mode::read_only changes nothing on media. `hold`: the hold of an earlier object
    /// that had this heap open in this mode and was destroyed; null: open what the path leads to.
    static base::result<std::unique_ptr<heap_files>> open(persist::storage& storage, const std::string& directory,
                                                          persist::access_mode mode, const mapping_options& options,
                                                          std::shared_ptr<heap_hold> hold = nullptr);
    /// A heap without files, in memory of this process. A child of fork has a copy of it (continue_in_child()). Nothing
    /// is ever on media: there is no commit and no close. Frontier 0, as after create().
    static base::result<std::unique_ptr<heap_files>> create_scratch(persist::storage& storage,
                                                                    const creation_options& options);
    ~heap_files() override;

    [[nodiscard]] const space_view& view() const noexcept { return view_; }
    [[nodiscard]] const superblock_on_media& superblock() const noexcept { return superblock_; }
    [[nodiscard]] const heap_paths& paths() const noexcept { return paths_; }
    /// The storage in which paths() lead to the files, even after the heap's directory was moved.
    [[nodiscard]] persist::storage& storage() const noexcept { return hold_ != nullptr ? *hold_->storage : storage_; }
    /// The storage that create() or open() was given, in which paths mean what they mean now.
    [[nodiscard]] persist::storage& outer_storage() const noexcept { return storage_; }
    [[nodiscard]] std::shared_ptr<heap_hold> hold() const noexcept { return hold_; }
    [[nodiscard]] persist::access_mode mode() const noexcept { return mode_; }
    /// The number of nodes in whose directories the segments lie by turns; 0: the segments lie in the heap's directory.
    [[nodiscard]] std::uint32_t nodes() const noexcept { return paths_.nodes(); }
    /// Among how many nodes a thread should choose its own: 1 where the machine has one node.
    [[nodiscard]] std::uint32_t nodes_of_threads() const noexcept {
        return nodes() == 0 || topology_->nodes() == 1 ? 1 : nodes();
    }
    [[nodiscard]] const persist::topology& topology() const noexcept { return *topology_; }
    [[nodiscard]] persist::domain_kind domain() const noexcept { return domain_; }
    [[nodiscard]] bool recovered() const noexcept { return recovered_; }
    [[nodiscard]] bool rolled_forward() const noexcept { return rolled_forward_; }
    [[nodiscard]] const std::vector<base::failure>& warnings() const noexcept { return warnings_; }

    // space_growth
    /// May be asked while another thread grows the heap.
    [[nodiscard]] base::pages frontier() const noexcept override {
        return base::pages{__atomic_load_n(&frontier_.value, __ATOMIC_ACQUIRE)};
    }
    base::result<base::pages> grow(base::pages wanted) override;
    base::result<base::pages> grow_beyond(base::pages skipped, base::pages wanted, base::pages most) override;
    [[nodiscard]] base::pages backed_end() const noexcept override { return backed_end_; }
    [[nodiscard]] steps reserve_steps() const noexcept override;
    [[nodiscard]] bool has_room(base::pages wanted) const noexcept override;
    [[nodiscard]] bool gives_back_at_once() const noexcept override { return shared() || scratch_; }
    base::result<void> give_back(base::pages start, base::pages length) override;
    base::result<void> take_back(base::pages start, base::pages length) override;
    base::result<void> shrink(base::pages to) override;

    /// True in durability `commit` on a file system in memory. To reserve space there is to take memory, but private
    /// pages that are no mapping of the file yet (MAP-2) have their memory already. So a growth only asks whether there
    /// is room for such pages; the commit that maps the file in their place reserves them before its commit point.
    [[nodiscard]] bool reserves_at_commit() const noexcept { return in_memory_ && !shared(); }

    // bitmap_guard
    base::result<void> admit(base::granule position) override;
    base::result<void> back(base::granule position, slab_is use) override;
    [[nodiscard]] bool has_bitmap(base::granule position) override;
    /// Verifies all live bitmaps that were not used yet.
    base::result<void> admit_all();

    // page_access. A commit that replaces memory by a mapping of the file (MAP-2) gives access back: its caller must
    // forbid again the ranges between file_backed_end() before the commit and after it. continue_in_child() gives
    // access back to every range.
    base::result<void> forbid(base::pages start, base::pages length, rights left) override;
    base::result<void> permit(base::pages start, base::pages length) override;
    [[nodiscard]] std::uint64_t most_ranges() const override;
    [[nodiscard]] base::pages file_backed_end() const noexcept { return adopted_frontier_; }

    // lane_area: the mapped file `lanes`; empty until open_lanes().
    [[nodiscard]] std::byte* lanes() const noexcept override { return lanes_range_.begin(); }
    [[nodiscard]] std::uint64_t lanes_size() const noexcept override { return lanes_size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override;
    /// Maps the file `lanes` as far as it goes, with the sharing of the heap, and sets addresses aside for `limit`
    /// bytes.
    base::result<void> open_lanes(std::uint64_t limit);

    // --- shared pages -----------------------------------------------------------------------------------------------
    [[nodiscard]] bool shared() const noexcept { return sharing_ != page_sharing::private_pages; }
    /// The last writer had durability `atomic` and crashed: its lanes must be replayed first.
    [[nodiscard]] bool has_pending_lanes() const noexcept {
        return (superblock_.flags & flag_lanes) != 0 && superblock_.state != heap_state::clean;
    }
    /// The last writer had durability `collect` and crashed: a trace must find the live blocks first.
    [[nodiscard]] bool has_pending_tracing() const noexcept {
        return (superblock_.flags & flag_tracing) != 0 && superblock_.state != heap_state::clean;
    }
    /// Durability `collect` begins, durably: after a crash from here on, the next open traces.
    base::result<void> begin_tracing();
    /// Recovery is over, and the lanes are made: a new incarnation begins, durably. A crash from here on is a crash of
    /// this incarnation.
    base::result<void> begin_incarnation(std::uint32_t lane_slots, std::uint32_t record_order);
    /// Makes the contents of all mapped pages durable with system calls. Not atomic.
    base::result<void> sync_shared();
    /// Calls sync_shared(), then marks the heap clean: no record counts any more, and no trace is needed.
    base::result<void> close_shared(std::uint64_t checkpoint_clock);

    // --- copies -----------------------------------------------------------------------------------------------------
    /// The files are copies of those of a heap: space that was reserved and never written may be holes. When open()
    /// returns to a writer, tables and objects have their space again; after a crash in durability `atomic` or
    /// `collect`, everything has.
    [[nodiscard]] bool is_copied() const noexcept { return copied_; }
    /// Reserves, durably, what is in use in a heap that is_copied(): the extents `used`, and the live bitmaps of
    /// `slabs`; both sorted. Then is_copied() is false. On no_space it stays true. Must come before the first store to
    /// any of these pages.
    base::result<void> reserve_copied(const free_runs& used, const free_runs& slabs);

    // --- fork -------------------------------------------------------------------------------------------------------
    [[nodiscard]] bool is_scratch() const noexcept { return scratch_; }
    /// Shared pages: says whether a child of fork has the mappings, too. To be switched on only around a fork() whose
    /// child calls continue_in_child() before anything else.
    base::result<void> show_to_child(bool shown) const;
    /// In a child of fork, for a scratch heap, or for a heap of shared pages after show_to_child(true): from here on
    /// the child has a scratch heap of its own with the content of its parent's heap. Of shared pages it copies `used`
    /// (extents that are not free) and the bitmaps of `slabs`; the parent must not change them meanwhile. On failure
    /// the child must not touch the heap.
    base::result<void> continue_in_child(const free_runs& used, std::span<const base::granule> slabs);

    /// `wrong_process` in a child of fork: the files are its parent's to change.
    [[nodiscard]] base::result<void> check_process() const;

    /// The objects file as mapped: [begin, begin + objects_size()).
    [[nodiscard]] std::byte* objects() const noexcept { return objects_; }
    [[nodiscard]] std::uint64_t objects_size() const noexcept { return objects_size_; }
    /// Extends the objects file by at least `bytes`; new bytes read as zero.
    base::result<void> grow_objects(std::uint64_t bytes);

    /// Makes the mapped state durable. All other threads must stand still. After a failed sync it answers `poisoned`.
    base::result<commit_statistics> commit(const free_runs& free, const space_going& going = {}) {
        return commit(free, going, [](std::uint64_t, std::uint64_t) { return base::result<void>(); });
    }
    /// Makes the mapped state durable, then gives the space in `going` back to the file system; a failure to give it
    /// back does not fail the commit. `check` is called for each page of metadata that will be written, checksum pages
    /// excepted, with the segment's index and the page's place in its metadata in bytes (geometry.hpp). Its failure
    /// refuses the commit before anything is written.
    using metadata_check = base::function_ref<base::result<void>(std::uint64_t segment, std::uint64_t at)>;
    base::result<commit_statistics> commit(const free_runs& free, const space_going& going, metadata_check check);
    /// Says what is free in the last commit; to be called after an open, before anything is changed. Without it, pages
    /// of free space go through the journal.
    void note_free(const free_runs& free) noexcept;
    /// True where a commit would write nothing.
    base::result<bool> unchanged(const free_runs& free);
    /// Leaves a clean heap on media. The last commit() must have everything.
    base::result<void> close_cleanly();
    /// Leaves a clean heap on media, and forgets what was changed since the last commit(). Where a commit() failed, it
    /// leaves the heap as a crash would; the next open removes what the failed commit wrote.
    base::result<void> close_unchanged();
    /// Whether a file system of the heap has less space left than for `free` pages and 64 MiB.
    [[nodiscard]] bool is_space_short(base::pages free) const;
    /// Removes all files of a heap whose creation did not succeed.
    void abandon() noexcept;

    base::result<file_statistics> statistics() const;
    /// SEG-2 over the committed files.
    base::result<page_comparison> verify(std::vector<base::failure>& problems, std::size_t limit) const;
    /// What open() compared, with mapping_options::verify.
    [[nodiscard]] const page_comparison& compared() const noexcept { return compared_; }

private:
    friend class commit_builder;
    heap_files(persist::storage& storage, std::string directory, persist::access_mode mode);

    base::result<void> prepare_directory();
    base::result<bool> take_directory();
    base::result<void> lock_directory();
    base::result<void> check_empty(std::vector<std::string>& remains) const;
    base::result<void> initialise_superblock(const creation_options& options);
    base::result<void> create_files();
    void place(std::uint64_t index, std::byte* address, std::uint64_t bytes, bool fresh) const noexcept;
    [[nodiscard]] bool has_place() const noexcept { return paths_.nodes() > 1 && topology_->nodes() > 1; }
    [[nodiscard]] unsigned node_of_segment(std::uint64_t index) const noexcept {
        return static_cast<unsigned>(index % paths_.nodes() % topology_->nodes());
    }
    /// Set around calls that reserve space of a segment: on a file system in memory, the memory is taken from this
    /// node.
    [[nodiscard]] persist::topology::preference near(std::uint64_t index) const noexcept {
        return has_place() ? persist::topology::preference(*topology_, node_of_segment(index))
                           : persist::topology::preference();
    }
    base::result<void> create_nodes(std::span<const std::string> places);
    base::result<persist::domain_kind> domain_of_files() const;
    base::result<void> add_sizes(const std::string& directory, file_statistics& sizes) const;
    base::result<void> reserve(const mapping_options& options);
    template <class Each>
    base::result<void> for_each_shared_range(Each each) const;
    base::result<void> map_committed();
    base::result<void> map_committed_segment(std::uint64_t index, std::uint64_t from_page, bool fresh = false);
    base::result<void> map_committed_objects(std::uint64_t from);
    base::result<void> look_whether_copied();
    base::result<void> reserve_copied_tables();
    base::result<void> reserve_copied_segment(std::uint64_t index, bool all);
    base::result<void> check_room(std::uint64_t wanted) const;
    base::result<void> cover_holes(persist::file& file, std::span<const mapped_window> windows);
    static base::result<void> allocate_tables(persist::file& file, const geometry& shape, std::uint64_t first_page,
                                              std::uint64_t last_page);
    base::result<void> apply_overlay(const journal_content& journal);
    base::result<void> verify_tables();
    base::result<void> choose_sharing(const mapping_options& options);
    base::result<void> forget_stale_sums();
    base::result<void> grow_shared(base::pages to);
    base::result<void> verify_mapped_page(std::uint64_t segment, std::uint64_t metadata_page) const;
    base::result<void> remove_leftovers();
    base::result<void> mark_running();
    /// May be called while the heap is in use. User space and objects grow under different locks, and both growths
    /// change the superblock.
    base::result<void> change_superblock(base::function_ref<void(superblock_on_media&)> change);
    base::result<void> begin_growth(base::pages wanted);
    base::result<base::pages> grow_by(base::pages skipped, base::pages wanted, base::pages generous);
    base::result<void> reserve_growth(base::pages to, base::pages backed_from, base::pages backed_to);
    base::result<void> map_growth(base::pages to);
    base::result<void> reserve_on_disk(base::pages from, base::pages to, base::pages backed_from,
                                       base::pages backed_to);
    base::result<void> reserve_in_segment(std::uint64_t index, std::uint64_t first_page, std::uint64_t last_page);
    base::result<void> look_whether_in_memory();
    base::result<void> map_fresh(base::pages from, base::pages to);
    void give_back_on_disk(base::pages from, base::pages to) noexcept;
    void remove_beyond(base::pages to, base::pages from) noexcept;
    base::result<void> change_frontier(base::pages to, base::pages in_doubt);
    base::result<void> clear_beyond(base::pages end);
    [[nodiscard]] std::uint64_t punch(const free_runs& holes) noexcept;
    using file_visitor = base::function_ref<base::result<void>(persist::file&, std::uint64_t, std::uint64_t)>;
    base::result<void> for_each_file(base::pages start, base::pages length, file_visitor each);
    base::result<void> reserve_journal(base::pages frontier);
    void shorten_journal() noexcept;
    base::result<void> check_mappings(base::pages from, base::pages to) const;
    base::result<void> check_mappings_in_use(base::pages from, base::pages to) const;
    base::result<void> finish_creation(commit_plan& plan, transaction_report& report);
    base::result<void> run(commit_plan& plan, transaction_report& report);
    void adopt(const commit_plan& plan) noexcept;
    base::result<void> map_adopted();
    base::result<commit_statistics> commit_scanned(const free_runs& free, const space_going& going,
                                                   metadata_check check);
    base::result<void> write_commit(commit_builder& builder, commit_plan& plan, commit_statistics& statistics,
                                    transaction_report& report);
    [[nodiscard]] superblock_on_media next_superblock() const;
    [[nodiscard]] std::uint64_t segment_count(base::pages frontier) const noexcept;
    [[nodiscard]] base::failure poisoned() const;

    persist::storage& storage_;
    heap_paths paths_;
    persist::access_mode mode_;
    pid_t owner_;
    persist::domain_kind domain_ = persist::domain_kind::page_cache;
    const persist::topology* topology_ = nullptr;
    huge_pages user_pages_ = huge_pages::advise;
    std::shared_ptr<heap_hold> hold_;
    address_range range_;
    space_view view_;
    std::byte* objects_ = nullptr;
    superblock_on_media superblock_{};  ///< as it is on media
    base::mutex superblock_mutex_;      ///< for change_superblock()
    base::pages frontier_{};
    base::pages committed_frontier_{};
    free_runs committed_free_;  ///< free extents of the last commit; perhaps not all
    std::uint64_t objects_size_ = 0;
    std::uint64_t committed_objects_size_ = 0;
    base::pages backed_end_{};
    open_segment open_segment_;
    bool in_memory_ = false;          ///< all segments lie in file systems that are memory
    promised_space promised_;         ///< used where reserves_at_commit() is true
    base::pages adopted_frontier_{};  ///< pages below are mappings of their files, not memory
    std::uint64_t adopted_objects_size_ = 0;
    std::uint64_t capacity_ = 0;
    page_comparison compared_;
    std::unique_ptr<dirty_scanner> scanner_;
    page_sharing sharing_ = page_sharing::private_pages;
    address_range lanes_range_;
    std::uint64_t lanes_size_ = 0;
    bool scratch_ = false;             ///< there are no files
    bool copied_ = false;              ///< is_copied()
    std::uint64_t birth_ = 0;          ///< of the superblock's file
    std::uint64_t covered_holes_ = 0;  ///< by cover_holes()
    bool names_changed_ = false;
    bool recovered_ = false;
    bool rolled_forward_ = false;
    bool born_ = false;              ///< the heap has its superblock on media
    bool made_directory_ = false;    ///< create() made the directory; nobody else has files in it
    bool owns_files_ = false;        ///< create() checked under the lock that all files are its own
    bool commit_failed_ = false;     ///< media may have content beyond the frontier
    bool content_beyond_ = false;    ///< media have content beyond the frontier that clear_beyond() did not remove
    bool end_in_doubt_ = false;      ///< shared: the frontier on media may differ from frontier_
    bool recovery_counted_ = false;  ///< a commit has counted the recovery
    base::mutex admitted_mutex_;
    std::vector<bool> admitted_
        HF_GUARDED_BY(admitted_mutex_);  ///< by bitmap page of the segments that were committed at open
    base::mutex backed_bitmaps_mutex_;
    std::uint64_t examined_segment_ HF_GUARDED_BY(backed_bitmaps_mutex_) = ~std::uint64_t{0};
    persist::file_backing examined_ HF_GUARDED_BY(backed_bitmaps_mutex_);  ///< of that segment's file, for has_bitmap()
    std::vector<bool> backed_bitmaps_ HF_GUARDED_BY(backed_bitmaps_mutex_);  ///< by bitmap page of all segments
    folio_policy folios_{sharing_, view_};
    /// Read-only: the commit whose pages lie over the mappings of the files; verify() needs it, too.
    std::optional<journal_content> overlay_;
    std::vector<base::failure> warnings_;
    base::failure poison_;
};

}  // namespace holdfast::segment
