// A small heap in tracked memory with the real lanes, slabs, extents, atomic operations and recovery.
//
// User space has 512 KiB, half of it at first; metadata and lanes follow in the same memory. The superblock's facts
// (frontier, size of the lanes, incarnation) are durable at once: a real heap changes them durably before anything
// refers to the change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "extent/extent.hpp"
#include "heap/atomic/atomic_operations_of.hpp"
#include "lane/record_log.hpp"
#include "lane/replay.hpp"
#include "log/files_in_memory_test_support.hpp"
#include "persist/machine.hpp"
#include "simulator/memory/atomic_memory.hpp"
#include "simulator/storage/sparse_content.hpp"
#include "slab/slab.hpp"

namespace holdfast::simulator {

struct atomic_setting {
    std::uint64_t slots = 8;
    lane::record_order order = lane::record_order::clock;
    crash_kind crash = crash_kind::power_loss;
    std::uint64_t lanes = 4;            ///< most of them; in order `logged` they take no place
    std::uint64_t log_records = 8;      ///< order `logged`: that the log holds at most
    bool gives_back = false;            ///< free space goes back, and the heap can become shorter
    bool decays = true;                 ///< with gives_back: freed space goes back at once
    std::uint64_t lanes_for_ahead = 3;  ///< that of all threads, and of two
    unsigned nodes = 1;                 ///< all memory is node 0's, and the program begins on the last node
};

/// From the superblock.
struct heap_facts {
    std::uint64_t frontier_pages = 0;
    std::uint64_t lanes_size = 0;
    std::uint64_t incarnation = 0;
    bool clean = true;  ///< no record counts
    std::uint64_t checkpoint_clock = 0;
    [[nodiscard]] std::uint64_t hash() const noexcept {
        return mix(mix(mix(frontier_pages, lanes_size), incarnation * 2 + (clean ? 1 : 0)), checkpoint_clock);
    }
};

inline constexpr std::uint64_t heap_user_bytes = 512 * base::kibibyte;
inline constexpr std::uint64_t heap_first_pages = heap_user_bytes / 2 / base::page_size;
inline constexpr std::uint64_t heap_key = 0x5eed;
inline constexpr segment::geometry heap_shape{heap_user_bytes};
inline constexpr std::uint64_t heap_metadata_at = heap_user_bytes;
inline constexpr std::uint64_t heap_lanes_at = heap_metadata_at + heap_shape.metadata_size();
inline constexpr std::uint64_t heap_log_files = 4;

[[nodiscard]] tracked_memory::layout layout_for(const atomic_setting& setting);

/// The files of the log. Until one is synced, of each 64 bytes that were written to it a part from the front may be on
/// media, and so with names: disks tear at sectors, which are larger.
class tracked_files final : public log::files_in_memory {
public:
    tracked_files(tracked_memory& memory, std::uint64_t at)
        : files_in_memory(memory.address() + at, heap_log_files, log::least_file_size),
          memory_(memory),
          begin_(memory.address() + at) {}

private:
    void put(std::uint64_t at, std::span<const std::byte> data, persist::site where) override;
    void make_durable(std::uint64_t at, std::uint64_t bytes, persist::site where) override;
    [[nodiscard]] std::uint64_t in_place_of_missing() const override;

    tracked_memory& memory_;
    std::byte* begin_;
};

class atomic_space final : public segment::space_growth, public segment::lane_area {
public:
    atomic_space(tracked_memory& memory, const atomic_setting& setting);

    [[nodiscard]] heap_facts& facts() noexcept { return facts_; }
    [[nodiscard]] const segment::space_view& view() const noexcept { return view_; }
    [[nodiscard]] const atomic_setting& setting() const noexcept { return setting_; }
    [[nodiscard]] tracked_memory& memory() noexcept { return memory_; }

    [[nodiscard]] base::pages frontier() const noexcept override { return {facts_.frontier_pages}; }
    base::result<base::pages> grow(base::pages wanted) override;
    /// Half of the user space, so that the heap can become shorter.
    [[nodiscard]] base::pages unit() const noexcept override { return {heap_first_pages}; }
    [[nodiscard]] bool gives_back_at_once() const noexcept override { return setting_.gives_back; }
    base::result<void> give_back(base::pages start, base::pages length) override;
    base::result<void> reserve_again(base::pages start, base::pages length) override;
    base::result<void> shrink(base::pages to) override;
    [[nodiscard]] std::byte* lanes() const noexcept override { return memory_.address() + heap_lanes_at; }
    [[nodiscard]] std::uint64_t lanes_size() const noexcept override { return facts_.lanes_size; }
    base::result<void> grow_lanes(std::uint64_t bytes) override;
    [[nodiscard]] segment::log_home log() const override { return {&log_files_, log_files_.place()}; }

    /// As engine::replay_lanes(), with the tracked domain. Returns what went wrong, or nothing.
    [[nodiscard]] std::string recover();
    /// What a second recovery would change; it must change nothing. `hints`: page entries of free extents count too.
    [[nodiscard]] std::string recover_again(bool hints);
    /// Whether the loss of the last lane with a record would go unnoticed; a description if so.
    [[nodiscard]] std::string miss_a_lost_lane() const;

private:
    [[nodiscard]] lane::replay_source replay_source() const noexcept;
    /// The source and its plan refer to what is read.
    [[nodiscard]] base::result<lane::replay_plan> plan(lane::replay_source& source, lane::log_access access);

    tracked_memory& memory_;
    atomic_setting setting_;
    segment::space_view view_;
    mutable tracked_files log_files_;
    std::vector<lane::record_on_media> log_;  ///< what plan() has read
    heap_facts facts_;
    extent::page_entries entries_;
};

/// One opening of the heap.
class atomic_session {
public:
    using operations = heap::atomic_operations_of<tracked_domain>;

    /// The heap is recovered. `format`: makes a new heap instead, clean and without lanes.
    explicit atomic_session(atomic_space& space, bool format = false);
    atomic_session(const atomic_session&) = delete;
    atomic_session& operator=(const atomic_session&) = delete;
    ~atomic_session();

    [[nodiscard]] operations& heap() noexcept { return *operations_; }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return extents_; }
    /// As engine::shorten().
    [[nodiscard]] bool shrink() { return extents_.space().shrink({}, settle_).ok(); }
    [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

private:
    struct {
        operations* of = nullptr;
        bool operator()() const noexcept { return of == nullptr || of->wait_until_obsolete(); }
    } settle_;
    persist::made_up_topology machine_;
    extent::extent_allocator extents_;
    slab::block_allocator blocks_;
    std::unique_ptr<operations> operations_;
    std::string fault_;
};

}  // namespace holdfast::simulator
