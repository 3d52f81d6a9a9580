// Which thread has which lane. A lane is made when a thread finds none that is free, and is kept for later threads when
// its thread ends; no lane goes before the heap is closed.
//
// Thread safety: any number of threads, except open().
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/function_ref.hpp"
#include "base/mutex.hpp"
#include "lane/lane.hpp"
#include "lane/lane_options.hpp"
#include "lane/record_log.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/space.hpp"

namespace holdfast::lane {

class lane_list {
public:
    /// Puts a number of lanes in force on media; the files are long enough for it.
    using seal_count = base::function_ref<void(std::uint64_t count)>;

    lane_list(segment::lane_area& area, const lane_options& options, std::uint64_t ring_slots) noexcept
        : area_(area), options_(options), ring_slots_(ring_slots) {}
    lane_list(const lane_list&) = delete;
    lane_list& operator=(const lane_list&) = delete;
    ~lane_list() = default;

    /// Makes lane 0. `sealed`: the number in force on media. False where memory is short.
    [[nodiscard]] bool open(std::uint64_t sealed) noexcept;

    /// As lane_pool::acquire().
    [[nodiscard]] lane* acquire(unsigned machine_node, seal_count seal) noexcept;
    /// As lane_pool::move().
    [[nodiscard]] lane* move(lane& given, unsigned machine_node, seal_count seal) noexcept;
    /// For a later thread.
    void put_back(lane& given) noexcept;

    [[nodiscard]] lane& operator[](std::uint64_t index) const noexcept { return *lanes_[index]; }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
    [[nodiscard]] lanes_view view() const noexcept { return {lanes_, count_}; }

private:
    [[nodiscard]] bool is_logged() const noexcept { return options_.order == record_order::logged; }
    [[nodiscard]] unsigned group_of(std::uint64_t index) const noexcept {
        return static_cast<unsigned>(index % options_.files) % options_.machine_nodes;
    }
    [[nodiscard]] unsigned group_of_threads(unsigned machine_node) const noexcept {
        return machine_node % std::min(options_.files, options_.machine_nodes);
    }
    [[nodiscard]] lane* make_lane() noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] lane* make_lanes(std::uint64_t count, seal_count seal) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] lane* find_or_make(unsigned group, seal_count seal) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] lane* take_free(unsigned group) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] bool extend(std::uint64_t wanted, seal_count seal) noexcept HF_REQUIRES(mutex_);
    void keep(lane& unused) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] std::uint64_t first_sequence_of(const lane& made) const noexcept;

    segment::lane_area& area_;
    const lane_options& options_;
    std::uint64_t ring_slots_;
    base::mutex mutex_;
    std::array<std::unique_ptr<lane>, maximum_lanes> lanes_;
    std::atomic<std::uint64_t> count_{0};
    std::uint64_t sealed_ HF_GUARDED_BY(mutex_) = 0;                                ///< lanes in force on media
    std::array<lane*, segment::maximum_nodes> first_free_ HF_GUARDED_BY(mutex_){};  ///< by group
};

}  // namespace holdfast::lane
