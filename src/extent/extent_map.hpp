// What is known of extents: their page entries on media, an index of them, and which free pages have space.
//
// Page entries, index and backing agree (EXT-1 to EXT-8) before and after each function of extent_map. Every prefix of
// the stores of page entries leaves a tiling of the space: the store that makes an extent visible comes last, and the
// store that frees one comes first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "base/units.hpp"
#include "extent/free_index.hpp"
#include "extent/page_backing.hpp"
#include "extent/page_entries.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

/// At which pages extents start, and which are free, in DRAM. Who changes it stores the page entries (EXT-7), in that
/// order. The caller holds a lock, except for starts_at(). Threads may call note_start() at once if 64 pages, from a
/// multiple of 64 on, belong to one of them.
class extent_index {
public:
    /// Page entries change from used to reserved and back without the lock, so these kinds are counted together.
    class kind_counts {
    public:
        [[nodiscard]] std::uint64_t& operator[](segment::extent_kind kind) noexcept { return counts_[place(kind)]; }
        [[nodiscard]] std::uint64_t operator[](segment::extent_kind kind) const noexcept {
            return counts_[place(kind)];
        }
        void operator+=(const kind_counts& other) noexcept {
            for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
                counts_[kind] += other.counts_[kind];
            }
        }
        [[nodiscard]] bool operator==(const kind_counts&) const = default;

    private:
        [[nodiscard]] static std::size_t place(segment::extent_kind kind) noexcept {
            return static_cast<std::size_t>(kind == segment::extent_kind::reserved ? segment::extent_kind::used : kind);
        }
        std::array<std::uint64_t, 6> counts_{};
    };

    /// Makes the index empty. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> reset(base::pages pages, node_layout layout);

    void add(base::pages start, segment::extent_kind kind) noexcept {
        starts_.set(start);
        ++counts_[kind];
    }
    void add_free(const free_index::run& added) noexcept {
        add(added.start, segment::extent_kind::free);
        free_.insert(added);
    }
    void remove(base::pages start, segment::extent_kind kind) noexcept {
        starts_.clear(start);
        --counts_[kind];
    }
    free_index::run remove_free(base::pages start) noexcept {
        remove(start, segment::extent_kind::free);
        return free_.erase(start);
    }
    /// So many pages more are not known to be holes. The extent becomes the youngest.
    void add_backed(base::pages start, base::pages pages) noexcept;
    /// So many pages more are known to be holes. The extent becomes the youngest.
    void remove_backed(base::pages start, base::pages pages) noexcept;
    /// Returns how many pages were not known to be holes.
    base::pages remove_all_backed(base::pages start) noexcept;
    void recount(segment::extent_kind before, segment::extent_kind now) noexcept {
        --counts_[before];
        ++counts_[now];
    }

    /// add() for several threads.
    void note_start(base::pages start) noexcept { starts_.set(start); }
    void add_counts(const kind_counts& counts) noexcept { counts_ += counts; }

    /// Entries of other pages are never believed, whatever media say.
    [[nodiscard]] bool starts_at(base::pages page) const noexcept { return starts_[page]; }
    [[nodiscard]] std::optional<base::pages> last_start_up_to(base::pages page) const noexcept {
        return starts_.last_up_to(page);
    }
    [[nodiscard]] std::uint64_t starts_in(base::pages start, base::pages length) const noexcept {
        return starts_.count(start, length).value;
    }
    [[nodiscard]] const kind_counts& counts() const noexcept { return counts_; }
    [[nodiscard]] const free_index& free() const noexcept { return free_; }

private:
    free_index free_;
    page_bits starts_;
    kind_counts counts_;
};

/// The caller holds a lock, except for frontier(), entries(), find() and claim().
class extent_map {
public:
    explicit extent_map(const segment::space_view& space) noexcept : entries_(space) {}
    extent_map(const extent_map&) = delete;
    extent_map& operator=(const extent_map&) = delete;
    ~extent_map() = default;

    /// Comes before reset().
    void set_nodes(std::uint32_t nodes) noexcept { layout_ = {nodes, {entries_.space().shape().pages()}}; }
    [[nodiscard]] const node_layout& layout() const noexcept { return layout_; }

    /// May throw std::bad_alloc.
    [[nodiscard]] base::result<void> reset();
    /// `backed`: the first pages of the free rest.
    void format(base::pages frontier, base::pages backed) noexcept;
    [[nodiscard]] base::pages frontier() const noexcept { return {frontier_.load(std::memory_order_acquire)}; }
    void set_frontier(base::pages frontier) noexcept { frontier_.store(frontier.value, std::memory_order_release); }

    [[nodiscard]] const page_entries& entries() const noexcept { return entries_; }
    [[nodiscard]] const extent_index& index() const noexcept { return index_; }
    [[nodiscard]] extent_index& index() noexcept { return index_; }
    [[nodiscard]] const free_index& free() const noexcept { return index_.free(); }
    [[nodiscard]] const page_backing& backing() const noexcept { return backing_; }
    [[nodiscard]] page_backing& backing() noexcept { return backing_; }

    /// The pages must be backed.
    base::pages carve(const free_index::placement& place, segment::page_entry wanted) noexcept;
    /// The pages must be backed and suffice.
    void carve_some(const free_index::placement& place, base::pages length, std::span<base::pages> out) noexcept;
    /// Reserves the last pages of the extent that are not known to be holes, at most `most`.
    [[nodiscard]] free_index::run reserve_backed_end(const free_index::run& from, base::pages most) noexcept;

    /// Why a free must be refused; nothing where an extent of that kind starts there.
    [[nodiscard]] std::optional<base::failure> refusal(base::pages start, segment::extent_kind kind) const;
    /// Takes an extent out of the index and returns its length. Its page entry says reserved from here on. Of several
    /// threads, one succeeds. Fails with bad_address or corrupt, with nothing changed.
    [[nodiscard]] base::result<base::pages> withdraw(base::pages start, segment::extent_kind kind);
    /// Frees an extent that is in no index, with its free neighbours.
    void unite(const free_index::run& one) noexcept;
    /// The extents are reserved and backed, and lie side by side.
    void unite_reserved(std::span<const extent> run) noexcept;

    /// The pages behind it must be free and backed. False where another thread frees the extent at this moment, by
    /// mistake.
    [[nodiscard]] bool extend(base::pages start, const segment::page_entry& now, base::pages wanted) noexcept;
    /// False as for extend().
    [[nodiscard]] bool trim(base::pages start, const segment::page_entry& now, base::pages wanted) noexcept;
    [[nodiscard]] std::optional<extent> claim(base::pages start, base::pages least, base::pages most) noexcept;
    /// The extent is reserved, and a granule.
    void make_slab(base::pages start) noexcept;

    /// `not_holes`: new pages that are not known to be holes.
    void append(base::pages new_frontier, base::pages not_holes) noexcept;
    /// `to` lies in the free extent at the end of the space, or is that end.
    void cut(base::pages to) noexcept;

    [[nodiscard]] std::optional<segment::page_entry> find(base::pages start) const noexcept {
        if (start >= frontier() || !index_.starts_at(start)) {
            return std::nullopt;
        }
        return segment::decode_page_entry(entries_.load(start));
    }
    [[nodiscard]] std::optional<extent> containing(base::pages page) const noexcept;
    using some_extents = std::array<extent, 128>;
    /// Copies the next extents, and moves `position` beyond them. 0 at the end.
    [[nodiscard]] std::size_t copy_some(base::pages& position, some_extents& some) const noexcept;

private:
    [[nodiscard]] bool change_length(base::pages start, const segment::page_entry& now,
                                     base::pages wanted) const noexcept;

    page_entries entries_;
    node_layout layout_;
    std::atomic<std::uint64_t> frontier_{0};
    extent_index index_;
    page_backing backing_;
};

}  // namespace holdfast::extent
