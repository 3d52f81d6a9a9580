// Replay: makes the metadata and the destinations of a crashed heap agree with the records of its lanes.
//
// make_replay() reads the lanes and decides what every word that a pending record changes must hold; it knows no
// domain. apply() stores and flushes these words, then makes the time of the newest record the time of the last
// checkpoint; it knows no protocol. A crash may cut off both anywhere; they are then run again.
//
// The rules (docs/atomic-protocol.md, "Replay"), for records from the newest to the oldest:
//   the last record of a block decides whether it is allocated (LANE-11);
//   a destination in memory that its own call or a later one frees is left alone (LANE-12);
//   a destination whose block was freed later becomes null (LANE-13);
//   LANE-24: only the last record of a destination may rewrite it, and only where the word does not have its stamp yet;
//   the records of a group count if all of them are whole, else none does (LANE-29);
//   the last group that stored a word decides it (LANE-31), unless that group or a later call freed the word's block
//   (LANE-35);
//   a stamp says nothing about a word that an earlier pending record of data covers (LANE-34);
//   LANE-38: what a killed process has left may be visible and not be on media yet. So the head and the records that
//            count are durable before replay stores a word because of them. And a word that a record decides, or whose
//            stamp speaks for it, is durable before T moves, also where it has its value already.
//
//   LANE-30: a record has no flags, or those of a group; its data and its payload lie below the frontier.
//   LANE-32: a payload is durable before the record that leads to it, and its memory is held until that record is void.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "lane/effects.hpp"
#include "lane/head.hpp"
#include "lane/lane_format.hpp"
#include "lane/record.hpp"
#include "persist/domain.hpp"
#include "persist/mutant.hpp"
#include "segment/space.hpp"

namespace holdfast::lane {

/// The lanes, and the numbers of the superblock that say how to read them.
struct replay_source {
    segment::space_view space;
    std::span<std::byte> lanes;  ///< the file as mapped
    std::uint64_t slots = default_slots;
    record_order order = record_order::clock;
    std::uint64_t heap_key = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t frontier = 0;  ///< bytes of user space
};

/// What a recovery found and did.
struct replay_report {
    std::uint64_t lanes = 0;
    std::uint64_t pending = 0;      ///< whole records that are not void
    std::uint64_t replayed = 0;     ///< words on media that were rewritten
    std::uint64_t rolled_back = 0;  ///< records that the crash cut off: their calls had not returned
    std::uint64_t time_ns = 0;
};

struct word_write {
    std::uint64_t* word = nullptr;
    std::uint64_t value = 0;
};

struct replay_plan {
    /// The words that pending records decide, by address, each once. Where a word has its value already, apply() writes
    /// it back: it may be visible to this process and not be on media yet.
    std::vector<word_write> writes;
    std::vector<const record_on_media*> records;  ///< whole ones that are not void, in their rings
    std::uint64_t checkpoint_time = 0;            ///< in force now
    std::uint64_t newest_time = 0;  ///< of all whole records, groups that do not count included: for apply()
    replay_report report;
};

/// Writes nothing. Fails with corrupt where lanes are missing, where no copy of a number in the head counts, or where a
/// whole record is impossible (LANE-22, LANE-23, LANE-27). May throw std::bad_alloc.
[[nodiscard]] base::result<replay_plan> make_replay(const replay_source& source);

/// Carries out the plan, durably. No other thread uses the heap.
template <persist::persistence_domain Domain>
void apply(const replay_plan& plan, const replay_source& source, Domain& domain) noexcept;

template <persist::persistence_domain Domain>
void apply(const replay_plan& plan, const replay_source& source, Domain& domain) noexcept {
    domain.flush(source.lanes.data(), sizeof(lanes_head_on_media), "replay.head.flush");
    for (const record_on_media* const record : plan.records) {
        domain.flush(record, sizeof *record, "replay.records.flush");
    }
    domain.fence("replay.records.fence");
    const auto line_of = [](const word_write& write) {
        return reinterpret_cast<std::uintptr_t>(write.word) / base::cache_line_size;
    };
    for (std::size_t i = 0; i < plan.writes.size(); ++i) {
        const word_write& write = plan.writes[i];
        // After a failed sync a page may be clean, and not be on media: a store makes the kernel write it again.
        if (*write.word != write.value || Domain::kind == persist::domain_kind::disk) {
            domain.store(*write.word, write.value, "replay.store");
        } else if (HF_MUTANT("replay.flush_equal")) {
            continue;
        }
        if (i + 1 == plan.writes.size() || line_of(plan.writes[i + 1]) != line_of(write)) {
            domain.flush(write.word, sizeof *write.word, "replay.flush");
        }
    }
    domain.fence("replay.fence");
    if (plan.newest_time > plan.checkpoint_time) {
        auto& head = *reinterpret_cast<lanes_head_on_media*>(source.lanes.data());
        write_in_turn(head.checkpoint_times, sealed_kind::checkpoint_time, plan.newest_time, source.heap_key, domain,
                      "replay.time.write", "replay.time.fence");
    }
}

}  // namespace holdfast::lane
