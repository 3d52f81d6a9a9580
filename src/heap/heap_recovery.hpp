// Recovers the metadata of a crashed heap, and builds the allocator's tables.
//
// Invariants:
//   HEAP-9: recovery stores to media only if the heap is mapped shared; else all that it changes is private to the
//           process.
//   HEAP-10: what recovery stores to shared media is durable when run() returns.
//   HEAP-22: what a crashed session left in the page cache is durable before a session relies on it that promises more.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "heap/heap_operations.hpp"
#include "heap/trace/trace.hpp"
#include "lane/record_log.hpp"
#include "lane/replay.hpp"

namespace holdfast::heap {

struct recovered_heap {
    lane::replay_report replayed;        ///< all zero without a replay
    std::optional<trace_report> traced;  ///< only if the heap had crashed in durability `collect`
};

/// May add offsets where the trace begins. What it throws ends the open.
using before_trace_call = std::function<void(heap_parts& heap, std::vector<std::uint64_t>& roots)>;

class heap_recovery {
public:
    explicit heap_recovery(heap_parts& heap) noexcept : heap_(heap) {}

    /// Replays the lanes or traces after a crash, opens the blocks and repairs the directory of objects.
    base::result<recovered_heap> run(const std::string& path, trace_mode mode, const before_trace_call& before);

private:
    base::result<void> replay_lanes();
    [[nodiscard]] base::result<lane::replay_plan> make_replay(lane::replay_source& source,
                                                              std::vector<lane::record_on_media>& log);
    base::result<void> back_bitmaps(const lane::replay_plan& plan);
    void apply(const lane::replay_plan& plan, const lane::replay_source& source);
    [[nodiscard]] base::result<void> check_synced() const;
    base::result<void> trace_after_crash(trace_mode mode, const before_trace_call& before);
    base::result<void> rebuild(const std::string& path);
    [[nodiscard]] bool may_show_lost_pages();
    void store_again();
    base::result<void> repair_objects(bool blocks_are_known);
    [[nodiscard]] bool is_pending() const noexcept;
    [[nodiscard]] bool flushes() const noexcept;
    [[nodiscard]] bool promises_more() const noexcept;

    heap_parts& heap_;
    recovered_heap done_;
};

}  // namespace holdfast::heap
