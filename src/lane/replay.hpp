// Makes a crashed heap agree with the records of its lanes: apply() makes the words of make_replay() durable, then the
// newest record's time as that of the last checkpoint. After a crash both run again. The rules are LANE-11 to LANE-13,
// LANE-29, LANE-31, LANE-34 and LANE-35 (docs/atomic-protocol.md), and:
//
//   LANE-24: only the last record of a destination may rewrite it, and only where the word does not have its stamp yet.
//   LANE-38: what a killed process left may be visible and not on media. So the head and the records that count are
//            durable before replay stores a word because of them. A word that a record decides, or whose stamp speaks
//            for it, is durable before T moves, even where it has its value already.
//   LANE-42: on a disk replay stores such words again, and a word of each record that counts: behind a write that
//            failed, the kernel keeps the page as it was stored and takes it for written, until the next store.
//   LANE-30: a record has no flags, or those of a group; its data and its payload lie below the frontier.
//   LANE-32: a payload is durable before the record that leads to it, and its memory is held until that record is
//   obsolete.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "lane/effects.hpp"
#include "lane/head.hpp"
#include "lane/lane_format.hpp"
#include "lane/record.hpp"
#include "persist/domain.hpp"
#include "segment/format/space.hpp"

namespace holdfast::lane {

struct replay_source {
    segment::space_view space;
    std::span<std::byte> lanes;
    std::uint64_t slots = default_slots;
    record_order order = record_order::clock;
    std::uint64_t heap_key = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t frontier = 0;  ///< bytes
    bool stores_again = false;   ///< memory may show what a failed write has lost (LANE-42)
    /// Order `logged`: what read_log() gave.
    std::span<const record_on_media> log;
};

struct replay_report {
    std::uint64_t lanes = 0;
    std::uint64_t pending = 0;      ///< not obsolete
    std::uint64_t replayed = 0;     ///< words on media
    std::uint64_t rolled_back = 0;  ///< cut off by the crash
    std::uint64_t time_ns = 0;
};

struct word_write {
    std::uint64_t* word = nullptr;
    std::uint64_t value = 0;
};

struct replay_plan {
    /// By address, each word once; even words that have their value already (LANE-38).
    std::vector<word_write> writes;
    std::vector<const record_on_media*> records;  ///< not obsolete
    checkpoint_on_media checkpoint{};             ///< in force
    std::uint64_t newest_time = 0;                ///< even of groups that do not count (LANE-1)
    replay_report report;
};

/// Writes nothing. `corrupt`: lanes are missing, no copy of a number in the head counts, a payload is damaged, or a
/// whole record is impossible (LANE-22, LANE-23, LANE-27, LANE-30, LANE-41). May throw std::bad_alloc.
[[nodiscard]] base::result<replay_plan> make_replay(const replay_source& source);

/// Durable on return. No other thread uses the heap.
template <persist::persistence_domain Domain>
void apply(const replay_plan& plan, const replay_source& source, Domain& domain) noexcept;

template <persist::persistence_domain Domain>
void apply(const replay_plan& plan, const replay_source& source, Domain& domain) noexcept {
    // LANE-42.
    const auto store_again = [&](std::uint64_t& word) {
        if (source.stores_again) {
            domain.store(word, word, "replay.again");
        }
    };
    store_again(*reinterpret_cast<std::uint64_t*>(source.lanes.data()));
    domain.flush(source.lanes.data(), sizeof(lanes_head_on_media), "replay.head.flush");
    const bool has_log = source.order == record_order::logged;  // which is durable since it was read
    for (const record_on_media* const record : plan.records) {
        if (!has_log) {
            store_again(const_cast<record_on_media*>(record)->checksum);
            domain.flush(record, sizeof *record, "replay.records.flush");
        }
    }
    domain.fence("replay.records.fence");
    const auto line_of = [](const word_write& write) {
        return reinterpret_cast<std::uintptr_t>(write.word) / base::cache_line_size;
    };
    for (std::size_t i = 0; i < plan.writes.size(); ++i) {
        const word_write& write = plan.writes[i];
        if (*write.word != write.value) {
            domain.store(*write.word, write.value, "replay.store");
        } else {
            store_again(*write.word);
        }
        if (i + 1 == plan.writes.size() || line_of(plan.writes[i + 1]) != line_of(write)) {
            domain.flush(write.word, sizeof *write.word, "replay.flush");
        }
    }
    domain.fence("replay.fence");
    checkpoint_on_media next{plan.newest_time, {}};
    if (has_log && plan.checkpoint.log_begin.position != nothing_logged) {
        next = {std::max(plan.newest_time, plan.checkpoint.time + 1), {nothing_logged, 0, 0}};
    }
    if (next.time > plan.checkpoint.time) {
        auto& head = *reinterpret_cast<lanes_head_on_media*>(source.lanes.data());
        write_in_turn(head.checkpoints, next, source.heap_key, domain, "replay.time.write", "replay.time.fence");
    }
}

}  // namespace holdfast::lane
