// The slabs of a heap and the threads that allocate from them.
//
// A bin is one class in one arena: a lock, and a list of its slabs that have enough free blocks to be worth a look. A
// slab belongs to the bin that made or loaded it. A thread that needs blocks checks out a slab or a part of one. Until
// it checks it in again, it alone allocates from that part, by marks (live_marks.hpp) and without a lock. Any thread
// frees blocks of any slab by their marks. A countdown in the twin of each slab says when to look at the slab: when it
// may be empty, or worth listing. A slab without a block out goes back to the extents, but each bin keeps one, so that
// a program that frees and allocates one block does not make and unmake a slab each time.
//
// Durability `commit`: a commit writes the bitmaps on media from the marks. Slabs in which nothing has changed since
// are watched: a thread that allocates from one, or frees one of its blocks, first ends that state.
//
// Blocks with a type number lie in slabs of their own, one type each, with one bin for each type and class. No thread
// checks them out: their blocks are taken one by one, under the lock of the bin.
//
// After open(), slabs are known by their state byte alone ("unloaded"). A bin that needs blocks, or a free of one of
// its blocks, loads a slab: reads its live bitmap into marks. So an open reads one header and stores one byte for each
// slab. Where the bitmap can get no space on disk, the slab stays unloaded: a free of its blocks fails, an allocation
// goes to the next slab, and later calls try again.
//
// A slab may rest: its pages without a live block may have no space on disk. It is in no list to allocate from until it
// is woken, which first reserves that space (resting.cpp).
//
// Locks are taken in this order: the registry's of thread caches (thread_cache.cpp), a home's for merges
// (remote_frees.hpp), `fading_`, a bin's, an `unclaimed`'s, the extent layer's. `fading_` is only tried, and
// give_up_empty() only tries the locks of bins, because its caller may hold one. No other lock is taken while
// `typed_mutex_` or the lock of the pins is held, so these fit anywhere in the order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "base/thread_annotations.hpp"
#include "base/units.hpp"
#include "extent/extent.hpp"
#include "lane/lane_format.hpp"
#include "segment/space.hpp"
#include "slab/guard_ranges.hpp"
#include "slab/pinned_blocks.hpp"
#include "slab/remote_frees.hpp"
#include "slab/size_classes.hpp"
#include "slab/slab_table.hpp"

namespace holdfast::slab {

class commit_gate;

inline constexpr unsigned maximum_arenas = 64;

/// A slab of blocks of a kind (slab_state), without a type.
[[nodiscard]] lane::block_word slab_word(unsigned kind) noexcept;

/// Durability `atomic`: the records that must be durable before a slab's page entry may change. Implemented by heap/.
class slab_log {
public:
    slab_log() = default;
    slab_log(const slab_log&) = delete;
    slab_log& operator=(const slab_log&) = delete;
    virtual ~slab_log() = default;

    /// Writes a durable record, then the slab's header and its page entry.
    virtual void slab_created(base::granule slab, const size_class& kind, std::uint32_t type) noexcept = 0;
    /// Writes a durable record; then the page entry says that the extent is reserved.
    virtual void slab_released(base::granule slab, const size_class& kind, std::uint32_t type) noexcept = 0;
    /// A slab of one kind (slab_state) becomes a slab of another kind, whose bits lie in the other half of the bitmap.
    /// Writes a durable record, then the header.
    virtual void slab_morphed(base::granule slab, unsigned from, unsigned to) noexcept = 0;
    /// Some of the blocks that are older than the slab's present class are gone. Makes the bits of these blocks on
    /// media durable before others take their place. For durability `collect`, where a trace reads them.
    virtual void old_blocks_written(base::granule slab) noexcept = 0;
};

/// Parts of a slab that lie side by side, see parts_of().
struct slab_part {
    base::granule slab{};
    unsigned part = 0;
    unsigned parts = 1;
    friend bool operator==(const slab_part&, const slab_part&) = default;

    /// A bit for each part.
    [[nodiscard]] unsigned mask() const noexcept { return ((1U << parts) - 1) << part; }
    [[nodiscard]] block_range blocks(const size_class& kind) const noexcept {
        return blocks_of_parts(kind, part, parts);
    }
};

/// Up to so many threads for each arena, each takes whole slabs.
inline constexpr unsigned threads_an_arena = 8;

/// A class is idle when none of its blocks was asked for while so many slabs of other classes were wanted.
inline constexpr std::uint64_t idle_after = 32;

/// How many of a slab's `blocks` must be free to make it worth a look, after it had none free.
[[nodiscard]] constexpr std::uint32_t worth_a_look(std::uint32_t blocks) noexcept {
    return std::max({blocks / 16, std::min(blocks / 8, std::uint32_t{16}), std::uint32_t{1}});
}

[[nodiscard]] constexpr std::uint32_t link_to(base::granule slab) noexcept {
    return static_cast<std::uint32_t>(slab.value + 1);
}
[[nodiscard]] constexpr base::granule linked(std::uint32_t link) noexcept { return {std::uint64_t{link} - 1}; }

/// The slabs of one class in one arena, or of one class and type.
struct alignas(base::cache_line_size) slab_bin {
    base::mutex mutex;
    unsigned class_index = 0;
    unsigned arena = 0;
    std::uint32_t type = 0;
    std::uint32_t head HF_GUARDED_BY(mutex) = 0;   ///< granule + 1; slabs with free blocks, not empty
    std::uint32_t empty HF_GUARDED_BY(mutex) = 0;  ///< granule + 1; slabs without a block out, the youngest first
    std::uint32_t oldest_empty HF_GUARDED_BY(mutex) = 0;
    std::uint32_t empties HF_GUARDED_BY(mutex) = 0;  ///< number of empty slabs
    std::uint32_t idle HF_GUARDED_BY(mutex) = 0;     ///< the least value of `empties` in this period
    std::uint32_t resting HF_GUARDED_BY(mutex) = 0;  ///< granule + 1; slabs that rest, in a list of their own
    /// When it last gave a part or a block: the value of `wanted_`.
    std::uint64_t last_use HF_GUARDED_BY(mutex) = 0;
};

/// What a commit needs to know of slabs that rest: pages in which no block is live, in order of address.
struct resting_pages {
    segment::free_runs free;   ///< all of them: their content means nothing
    segment::free_runs holes;  ///< those that no commit has made holes so far
};

/// Blocks are named by their offset from the heap's base in bytes. Thread-safe, except for reset() and record().
class slab_pool {
public:
    /// `guard`, if not null, verifies the bitmaps of slabs that were there before. `gate` is the heap's, and need not
    /// be constructed yet.
    slab_pool(segment::space_view space, extent::extent_allocator& extents, segment::bitmap_guard* guard,
              commit_gate& gate) noexcept
        : space_(space), extents_(extents), guard_(guard), gate_(gate) {}
    slab_pool(const slab_pool&) = delete;
    slab_pool& operator=(const slab_pool&) = delete;
    ~slab_pool() = default;

    /// Forgets everything; makes one arena for each core, with the same number for each node. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> reset();
    /// From now on slabs are made and released through the log. `writes_bitmaps`: the owner of the log writes the
    /// bitmaps of loaded slabs; otherwise write_bitmaps() does.
    void set_log(slab_log* log, bool writes_bitmaps) noexcept {
        log_ = log;
        tracks_changes_ = !writes_bitmaps;
    }
    /// Durability `collect`: after a crash a trace decides which blocks are live, and old_blocks_written() matters.
    void set_traced(bool traced) noexcept { traced_ = traced; }
    /// From now on a new slab has a guard range behind it where there is room. Comes after reset(). Fails as
    /// guard_ranges::start() does.
    [[nodiscard]] base::result<void> start_guards(segment::page_access& access, segment::page_access::rights left) {
        return guards_.start(access, left, table_.granules());
    }
    [[nodiscard]] pinned_blocks& pins() noexcept { return pins_; }
    [[nodiscard]] const pinned_blocks& pins() const noexcept { return pins_; }
    /// Changes the mark of a block that starts at the offset from `from` to `to`, where its slab is loaded and the mark
    /// is `from`.
    void replace_mark(std::uint64_t offset, std::uint8_t from, std::uint8_t to) const noexcept;
    [[nodiscard]] guard_ranges& guards() noexcept { return guards_; }
    [[nodiscard]] const guard_ranges& guards() const noexcept { return guards_; }
    /// Makes all guard ranges free extents. Slabs that are made later may have guard ranges again.
    void free_guards() noexcept;
    /// guard_ranges::renew(): a granule that can no longer be a guard range becomes free.
    void renew_guards(base::pages from, base::pages end) noexcept;
    /// Notes a slab that open() found. Reads its header; a slab whose header breaks an invariant is quarantined. May
    /// throw std::bad_alloc.
    void record(base::granule found) HF_NO_THREAD_SAFETY_ANALYSIS;

    /// A multiple of extent_allocator::nodes(): arena i belongs to node i mod that number.
    [[nodiscard]] unsigned arenas() const noexcept { return arenas_; }
    /// The arena for the `turn`-th thread, which runs on this node of a machine with so many nodes.
    [[nodiscard]] unsigned arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept;
    [[nodiscard]] const slab_table& table() const noexcept { return table_; }
    [[nodiscard]] slab_table& table() noexcept { return table_; }
    /// The frees of other nodes' blocks, where the heap has several nodes.
    [[nodiscard]] const remote_frees& remote() const noexcept { return remote_; }
    [[nodiscard]] remote_frees& remote() noexcept { return remote_; }

    /// Gives the caller alone a part of a slab without a type, with at least one free block; where gives_whole_slabs(),
    /// with the free parts beside it. It comes from the arena's own slabs, from unloaded ones, or from a new one. Fails
    /// as extent_allocator::allocate() does. May throw std::bad_alloc.
    [[nodiscard]] base::result<slab_part> check_out(unsigned arena, unsigned class_index);
    /// Checks out when space has run out: a part of a slab of any arena. Nothing where no slab of the class has a free
    /// block.
    [[nodiscard]] std::optional<slab_part> check_out_anywhere(unsigned class_index) noexcept;
    /// Takes parts back: the caller allocates from them no more.
    void check_in(slab_part from) noexcept;
    /// Whether all blocks of the parts are free by their marks.
    [[nodiscard]] bool is_idle(slab_part part) const noexcept;
    /// A thread that checks parts out begins to use the heap, or ends.
    void thread_came() noexcept { threads_.fetch_add(1, std::memory_order_relaxed); }
    void thread_went() noexcept { threads_.fetch_sub(1, std::memory_order_relaxed); }
    /// Where there are at most threads_an_arena threads for each arena, and there is space, a thread takes all free
    /// parts of a slab. It then comes for more less often, and no two threads write marks and countdowns in one line.
    [[nodiscard]] bool gives_whole_slabs() const noexcept {
        return threads_.load(std::memory_order_relaxed) <= threads_an_arena * arenas_ && !is_space_short();
    }
    /// The offset of one block, whose mark is now `held`. For threads without a cache, and for blocks with a type, for
    /// which the arena does not matter. Fails as check_out() does.
    [[nodiscard]] base::result<std::uint64_t> take_one(unsigned arena, unsigned class_index, std::uint32_t type);
    /// Takes one block when space has run out, from any arena; 0 where there is none.
    [[nodiscard]] std::uint64_t take_one_anywhere(unsigned class_index, std::uint32_t type) noexcept;

    /// Makes the block at the offset, which take_one() gave, live.
    void hand_out(std::uint64_t offset) const noexcept;
    /// Whether slabs of the class may be morphed, and other slabs into slabs of this class.
    [[nodiscard]] static constexpr bool can_morph(unsigned class_index) noexcept {
        return size_classes[class_index].block_size >= segment::least_morphed_block;
    }
    /// Morphs a slab of another class, of which few blocks are live and no part is out, into one of `class_index` in
    /// that arena. False, and nothing is changed, where the slab does not fit. `covered_at_most`: how many of the new
    /// blocks may overlap live ones, in percent.
    bool morph(base::granule slab, unsigned arena, unsigned class_index, unsigned covered_at_most) noexcept;

    /// Space ran out, and no slab was made since. Then single free blocks are worth a look, because the alternative is
    /// another attempt to get space.
    [[nodiscard]] bool is_space_short() const noexcept { return space_is_short_.load(std::memory_order_relaxed); }
    /// A block of a loaded slab has become free by its mark: counts it.
    void note_free(base::granule slab) noexcept {
        if (table_.twin(slab).count_in()) [[unlikely]] {
            countdown_ended(slab);
        }
    }
    /// Comes where slab_twin::count_in() said that the slab should be looked at.
    void countdown_ended(base::granule slab) noexcept { look_at(slab, 0); }
    /// So many blocks of the slab have become free by their marks: counts them.
    void note_frees(base::granule slab, std::uint32_t blocks) noexcept {
        slab_twin& twin = table_.twin(slab);
        const std::int32_t left = twin.countdown.load(std::memory_order_relaxed) - static_cast<std::int32_t>(blocks);
        twin.countdown.store(left, std::memory_order_relaxed);
        if (left <= 0) [[unlikely]] {
            look_at(slab, 0);
        }
    }
    /// A block of a watched slab is about to become free.
    void note_change(base::granule slab) noexcept;
    /// Writes the bitmaps on media from the marks. All threads must stand still. Does nothing where the log's owner
    /// writes them.
    void write_bitmaps() noexcept;

    /// Durability `commit`, before write_bitmaps(), while all threads stand still: slabs of idle classes (`all`: of all
    /// classes) in which whole pages have no live block rest from now on. Returns the pages that the commit need not
    /// write. Empty in other durabilities. May throw std::bad_alloc, which loses nothing.
    [[nodiscard]] resting_pages rest_idle(bool all);
    /// Comes after that commit is durable and these pages are holes.
    void rested(const segment::free_runs& holes) noexcept;

    /// Loads an unloaded slab for the arena; afterwards it is loaded or quarantined. Does nothing where the slab is not
    /// unloaded. Fails as bitmap_guard::back() does: then the slab stays unloaded, and a later call may load it.
    [[nodiscard]] base::result<void> load(base::granule unloaded, unsigned arena) noexcept;
    /// `corrupt` where the slab's live bitmap differs from what was committed. Cheap after the first call.
    [[nodiscard]] base::result<void> admit(base::granule slab) const {
        return guard_ == nullptr ? base::result<void>() : guard_->admit(slab);
    }
    /// For checks: bitmap_guard::has_bitmap().
    [[nodiscard]] bool has_bitmap(base::granule of) const { return guard_ == nullptr || guard_->has_bitmap(of); }
    /// Looks at every slab, unloaded ones too: those without a block out go back to the extents; of the others, those
    /// with a free block are listed.
    void release_empty() noexcept;
    /// Says whether bins keep empty slabs as long as they are needed now and then (empty_slabs.cpp). Otherwise each bin
    /// keeps one.
    void keep_empty(bool kept) noexcept { keeps_empty_ = kept; }
    /// Gives empty slabs back to the extents, except for one in each bin. An empty slab that nobody has looked at
    /// stays.
    void flush_empty() noexcept;
    /// Gives all empty slabs back to the extents, but skips bins whose lock is taken. May be called with the lock of a
    /// bin held.
    void give_up_empty() noexcept;

private:
    friend class slab_checker;

    using bin = slab_bin;
    /// The bin of all slabs with one type and class. Lives until reset().
    struct typed_bin : bin {
        std::vector<std::uint32_t> waiting HF_GUARDED_BY(mutex);  ///< granules found at open; loaded ones may remain
        /// How many at the front of `waiting` were tried in this pass and had no space on disk for their bitmaps.
        std::size_t refused HF_GUARDED_BY(mutex) = 0;
        typed_bin* next = nullptr;  ///< in the list of all typed bins
    };
    /// The unloaded slabs of one class without a type, on one node. The search for them reads state bytes from the
    /// cursor on. The next pass begins at the first slab that was skipped because its bitmap had no space on disk.
    struct unclaimed {
        static constexpr std::uint64_t none = ~std::uint64_t{0};
        base::mutex mutex;
        std::uint64_t cursor HF_GUARDED_BY(mutex) = 0;
        std::uint64_t first_refused HF_GUARDED_BY(mutex) = none;  ///< the next pass begins here
        std::uint64_t count HF_GUARDED_BY(mutex) = 0;
    };

    [[nodiscard]] bin& bin_of(unsigned arena, unsigned class_index) const noexcept {
        return bins_[arena * class_count + class_index];
    }
    [[nodiscard]] unclaimed& unclaimed_of(std::uint32_t node, unsigned class_index) const noexcept {
        return unclaimed_[node * class_count + class_index];
    }
    [[nodiscard]] std::uint32_t node_of(base::granule slab) const noexcept {
        return extents_.node_of(base::first_page(slab));
    }
    [[nodiscard]] std::uint64_t granules_of_node(std::uint32_t node) const noexcept;
    [[nodiscard]] base::granule nth_of_node(std::uint32_t node, std::uint64_t nth) const noexcept;
    /// Null where no such slab was ever there.
    [[nodiscard]] typed_bin* find_typed_bin(unsigned class_index, std::uint32_t type) noexcept
        HF_EXCLUDES(typed_mutex_);
    [[nodiscard]] typed_bin& typed_bin_of(unsigned class_index, std::uint32_t type) HF_EXCLUDES(typed_mutex_);
    void release_oldest_empty(bin& owner) noexcept HF_REQUIRES(owner.mutex);
    void fade_empty() noexcept;
    void fade_some_empty(std::uint64_t now) noexcept HF_REQUIRES(fading_);
    void adopt(bin& owner, base::granule slab) const noexcept;
    void push(std::uint32_t& head, base::granule slab) const noexcept;
    void take_out(std::uint32_t& head, base::granule slab) const noexcept;
    void link(bin& owner, base::granule slab, bool empty) const noexcept HF_REQUIRES(owner.mutex);
    void note_use(bin& from, base::granule slab) const noexcept HF_REQUIRES(from.mutex);
    void unlink(bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] std::optional<slab_part> check_out_listed(bin& from) noexcept HF_REQUIRES(from.mutex);
    [[nodiscard]] base::granule first_listed(const bin& from) const noexcept HF_REQUIRES(from.mutex);
    [[nodiscard]] bool has_free(slab_part of, unsigned class_index) const noexcept;
    [[nodiscard]] slab_part widen(slab_part found, unsigned class_index) const noexcept;
    [[nodiscard]] std::uint64_t take_listed(bin& from) noexcept HF_REQUIRES(from.mutex);
    [[nodiscard]] std::uint64_t take_from(bin& from, base::granule slab) noexcept HF_REQUIRES(from.mutex);
    [[nodiscard]] std::uint64_t take_all_of(bin& from) noexcept;
    [[nodiscard]] std::uint64_t take_known(bin& from, int most_loads) noexcept;
    void fetch_remote_frees(unsigned arena) noexcept;
    [[nodiscard]] std::uint64_t bits_at_hand(base::granule slab, unsigned class_index, std::size_t word) const noexcept;
    void settle(bin& owner, base::granule slab, std::uint32_t worth) noexcept HF_REQUIRES(owner.mutex);
    void settle_empty(bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    void release(bin& owner, base::granule slab, bool backed = true) noexcept HF_REQUIRES(owner.mutex);
    void look_at(base::granule slab, std::uint32_t worth) noexcept;
    void look_at_some(unsigned arena) noexcept;
    void look_at_every_slab() noexcept;
    void unwatch(base::granule slab, unsigned class_index) const noexcept;
    /// Durability `commit`: stores to the heap are seen by nobody else until the commit.
    [[nodiscard]] bool is_private() const noexcept { return log_ == nullptr && tracks_changes_ && !traced_; }
    void rest(bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    void end_rest(bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    void settle_resting(bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] bool wake(bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] bool wake_next(bin& owner) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] std::optional<slab_part> check_out_resting(bin& from) noexcept HF_REQUIRES(from.mutex);
    [[nodiscard]] std::uint64_t take_resting(bin& from) noexcept HF_REQUIRES(from.mutex);
    void rest_slabs_of(std::uint64_t idle_classes) noexcept;
    void rest_if_sparse(base::granule slab) noexcept;
    [[nodiscard]] std::uint64_t idle_classes(std::uint64_t now) const noexcept;
    [[nodiscard]] std::uint16_t pages_without_blocks(base::granule slab) const noexcept;
    [[nodiscard]] std::uint16_t pages_with_blocks(base::granule slab, unsigned kind, bool present) const noexcept;
    /// The kind of a loaded slab.
    [[nodiscard]] unsigned kind_in(base::granule slab) const noexcept {
        return slab_state::kind_of(table_.state(slab));
    }
    /// Of a morphed slab: older blocks that are not free, and blocks of the present class that overlap them.
    struct older_blocks {
        std::uint32_t live = 0;
        std::uint32_t covered = 0;
    };
    older_blocks uncover(base::granule slab) noexcept;
    void write_old_bits(base::granule slab, unsigned old_kind, std::span<const std::uint64_t> bits) noexcept;
    void load_marks(base::granule slab) const noexcept;
    void mark_pinned(base::granule slab, const slab_kinds& kinds) const noexcept;
    void morph_some(bin& wanted) noexcept;
    bool morph_into(bin& wanted, base::granule slab, std::optional<unsigned> limit) noexcept;
    void become(bin& wanted, base::granule slab, unsigned from, unsigned to) noexcept;
    [[nodiscard]] base::result<void> create(bin& owner) HF_REQUIRES(owner.mutex);
    [[nodiscard]] base::result<base::pages> take_granule(std::uint32_t node);
    [[nodiscard]] std::optional<base::pages> take_guarded(std::uint32_t node);
    bool free_reserved(base::granule position) noexcept;
    void free_guard_of(base::granule slab) noexcept;
    [[nodiscard]] base::result<void> back_bitmap(base::granule slab, segment::bitmap_guard::slab_is use) const noexcept;
    [[nodiscard]] bool admitted(base::granule slab) const noexcept;
    void write_header(base::granule slab, const size_class& kind, std::uint32_t type) const noexcept;
    [[nodiscard]] bool load_next(bin& owner) noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] bool load_next_typed(typed_bin& owner) noexcept HF_REQUIRES(owner.mutex);
    /// A call that loads all unloaded slabs does so by one arena of each node: the other arenas would only retry slabs
    /// that could not be loaded.
    [[nodiscard]] bool loads_of_its_node(const bin& by) const noexcept { return by.arena < extents_.nodes(); }
    [[nodiscard]] base::result<void> load_typed(base::granule unloaded, unsigned class_index) noexcept;
    [[nodiscard]] base::result<void> load_into(bin& owner, base::granule slab) noexcept HF_REQUIRES(owner.mutex);

    /// How many free blocks make a slab that had none worth another look.
    [[nodiscard]] std::uint32_t worth(const bin& owner) const noexcept {
        return is_space_short() ? 1 : worth_a_look(size_classes[owner.class_index].block_count);
    }
    [[nodiscard]] std::optional<slab_part> check_out_listed_anywhere(unsigned class_index) noexcept;
    [[nodiscard]] std::uint64_t take_listed_anywhere(unsigned class_index) noexcept;

    segment::space_view space_;
    extent::extent_allocator& extents_;
    segment::bitmap_guard* guard_;
    commit_gate& gate_;
    slab_log* log_ = nullptr;
    std::atomic<bool> space_is_short_{false};
    /// The places among the granules of a node where the next searches begin.
    struct alignas(base::cache_line_size) node_hands {
        std::atomic<std::uint64_t> look{0};
        std::atomic<std::uint64_t> morph{0};
    };
    std::unique_ptr<node_hands[]> hands_;
    std::atomic<std::uint64_t> wanted_{0};  ///< slabs created, morphed or woken so far
    std::uint64_t looked_for_rest_ = 0;     ///< `wanted_` at the last rest_idle()
    bool keeps_empty_ = false;
    std::atomic<std::uint64_t> period_end_{0};  ///< nanoseconds: the next look at empty slabs
    base::mutex fading_;
    unsigned hand_ HF_GUARDED_BY(fading_) = 0;  ///< the bin whose idle empty slabs go next
    bool tracks_changes_ = true;                ///< slabs are watched after write_bitmaps()
    bool traced_ = false;
    slab_table table_;
    guard_ranges guards_;
    pinned_blocks pins_;
    remote_frees remote_;
    unsigned arenas_ = 0;
    std::atomic<unsigned> threads_{0};
    std::uint64_t recorded_end_ = 0;  ///< granules; no unloaded slab at or beyond it
    std::unique_ptr<bin[]> bins_;
    std::unique_ptr<unclaimed[]> unclaimed_;
    base::mutex typed_mutex_;
    std::unordered_map<std::uint64_t, std::unique_ptr<typed_bin>> typed_bins_ HF_GUARDED_BY(typed_mutex_);
    std::atomic<typed_bin*> first_typed_{nullptr};  ///< a list that only grows: walked without the lock
};

}  // namespace holdfast::slab
