#include "lane/replay.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "base/units.hpp"
#include "lane/head.hpp"
#include "lane/record.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::lane {

namespace {

using base::failure;
using base::failure_code;

/// No number is 0.
class number_set {
public:
    explicit number_set(std::size_t most) : places_(std::bit_ceil(2 * most + 2)) {}
    [[nodiscard]] bool insert(std::uint64_t number) noexcept {
        constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;
        const std::size_t mask = places_.size() - 1;
        for (std::size_t i = (number * golden_ratio >> 20U) & mask;; i = (i + 1) & mask) {
            if (places_[i] == 0) {
                places_[i] = number;
                return true;
            }
            if (places_[i] == number) {
                return false;
            }
        }
    }

private:
    std::vector<std::uint64_t> places_;
};

class range_union {
public:
    void add(std::uint64_t begin, std::uint64_t end) {
        auto next = ranges_.upper_bound(begin);
        if (next != ranges_.begin()) {
            const auto before = std::prev(next);
            if (before->second >= begin) {
                begin = before->first;
                end = std::max(end, before->second);
                ranges_.erase(before);
            }
        }
        while (next != ranges_.end() && next->first <= end) {
            end = std::max(end, next->second);
            next = ranges_.erase(next);
        }
        ranges_.emplace(begin, end);
    }
    [[nodiscard]] bool contains(std::uint64_t offset) const {
        const auto next = ranges_.upper_bound(offset);
        return next != ranges_.begin() && std::prev(next)->second > offset;
    }

private:
    std::map<std::uint64_t, std::uint64_t> ranges_;  ///< begin -> end
};

const record_on_media* slots_of(const replay_source& source, std::uint64_t index) noexcept {
    return reinterpret_cast<const record_on_media*>(source.lanes.data() + lanes_at + index * lane_size(source.slots) +
                                                    lane_header_size);
}

base::result<void> validate(const record_on_media& record, std::uint64_t lane, std::uint64_t slot,
                            std::uint64_t frontier) {
    const auto wrong = [&](const char* field, std::uint64_t offset, std::uint64_t block) {
        return corrupt(fmt::format("lane {}, record in slot {}, {}", lane, slot, field),
                       fmt::format("offset {:#x}, block {:#x}", offset, block),
                       fmt::format("a block or destination below {:#x}", frontier));
    };
    // LANE-27.
    if (record.time > largest_number || number_of(record) > largest_sequence) {
        return corrupt(fmt::format("lane {}, record in slot {}", lane, slot),
                       fmt::format("time {:#x}, sequence {:#x}", record.time, number_of(record)),
                       fmt::format("at most {:#x} and {:#x}", largest_number, largest_sequence));
    }
    // LANE-30.
    if ((record.sequence & ~(sequence_mask | group_flag | last_flag | data_flag)) != 0 ||
        (has_flag(record, last_flag | data_flag) && !has_flag(record, group_flag)) ||
        (has_flag(record, last_flag) && !has_flag(record, data_flag))) {
        return corrupt(fmt::format("lane {}, record in slot {}, flags", lane, slot),
                       fmt::format("{:#x}", record.sequence & ~sequence_mask), "those of a group");
    }
    if (has_flag(record, data_flag)) {
        const data_place place = decode_data(record.destination);
        if (place.words == payload_marker) {
            const payload_place payload = payload_of(record);
            if (!has_flag(record, last_flag) || payload.records == 0 || payload.offset % sizeof record != 0 ||
                payload.offset > frontier || payload.records > (frontier - payload.offset) / sizeof record) {
                return wrong("payload", payload.offset, payload.records);
            }
            return {};
        }
        if (place.words > data_words || place.offset % sizeof(std::uint64_t) != 0 || place.offset > frontier ||
            place.words * sizeof(std::uint64_t) > frontier - place.offset) {
            return wrong("data", place.offset, place.words);
        }
        return {};
    }
    // LANE-23.
    if (record.destination != nowhere && !is_possible_destination(destination_offset(record.destination), frontier)) {
        return wrong("destination", destination_offset(record.destination), 0);
    }
    // LANE-22.
    if (record.allocated != nowhere &&
        !is_possible_block(record.allocated, decode_block(record.allocated_block), frontier)) {
        return wrong("allocated", record.allocated, record.allocated_block);
    }
    if (record.freed != nowhere && !is_possible_block(record.freed, decode_block(record.freed_block), frontier)) {
        return wrong("freed", record.freed, record.freed_block);
    }
    return {};
}

struct pending_record {
    std::uint64_t time;
    const record_on_media* record;
};

struct gathered_records {
    std::vector<pending_record> pending;
    std::vector<const record_on_media*> records;
    bool have_data = false;
    std::uint64_t newest_time = 0;  ///< LANE-1
};

/// Damage is no crash: the payload was durable before the record that leads to it (LANE-32).
base::result<void> gather_payload(const replay_source& source, const record_on_media& last, std::uint64_t lane,
                                  std::uint64_t seed, std::vector<pending_record>& pending) {
    const payload_place place = payload_of(last);
    const auto* const first = reinterpret_cast<const record_on_media*>(source.space.address({place.offset}));
    const std::span<const record_on_media> records(first, place.records);
    if (const std::uint64_t checksum = checksum_of(records, seed); checksum != place.checksum) {
        return corrupt(fmt::format("lane {}, record {}, payload at {:#x}", lane, number_of(last), place.offset),
                       fmt::format("{:#x}", checksum), fmt::format("{:#x}", place.checksum));
    }
    for (const record_on_media& each : records) {
        if (!has_flag(each, group_flag) || has_flag(each, last_flag)) {
            return corrupt(fmt::format("lane {}, record {}, payload at {:#x}", lane, number_of(last), place.offset),
                           "a record of another group", "members of this one");
        }
        HF_TRY(validate(each, lane, number_of(last), source.frontier));
        pending.push_back({last.time, &each});
    }
    return {};
}

/// LANE-29. Another number in a slot is that of an earlier turn of the ring.
base::result<bool> gather_group(const replay_source& source, const record_on_media& last, const record_on_media* slots,
                                std::uint64_t used, std::uint64_t lane, std::uint64_t seed,
                                std::vector<pending_record>& pending) {
    const std::uint64_t count = decode_data(last.destination).group;
    const std::uint64_t end = number_of(last);
    if (count == 0 || count > end || count > used) {
        return corrupt(fmt::format("lane {}, record {}, records of the group", lane, end), fmt::format("{}", count),
                       fmt::format("1 to {}", std::min(end, used)));
    }
    for (std::uint64_t number = end - count + 1; number < end; ++number) {
        const std::uint64_t slot = number & (used - 1);
        const record_on_media& each = slots[slot];
        if (!is_whole(each, seed, slot, used) || number_of(each) != number || each.time != last.time ||
            !has_flag(each, group_flag) || has_flag(each, last_flag)) {
            return false;
        }
    }
    for (std::uint64_t number = end - count + 1; number <= end; ++number) {
        const std::uint64_t slot = number & (used - 1);
        HF_TRY(validate(slots[slot], lane, slot, source.frontier));
        if (has_payload(slots[slot])) {
            HF_TRY(gather_payload(source, slots[slot], lane, seed, pending));
        } else {
            pending.push_back({slots[slot].time, &slots[slot]});
        }
    }
    return true;
}

/// LANE-29.
base::result<bool> gather_group_of_log(const replay_source& source, std::span<const record_on_media* const> records,
                                       std::size_t last, std::uint64_t lane, std::uint64_t seed,
                                       std::vector<pending_record>& pending) {
    const record_on_media& end = *records[last];
    const std::uint64_t count = decode_data(end.destination).group;
    const std::uint64_t within_lane = number_of(end) & ((std::uint64_t{1} << log_lane_shift) - 1);
    if (count == 0 || count > within_lane || count > source.slots) {
        return corrupt(fmt::format("lane {}, record {}, records of the group", lane, within_lane),
                       fmt::format("{}", count), fmt::format("1 to {}", std::min(within_lane, source.slots)));
    }
    for (std::uint64_t back = 1; back < count; ++back) {
        const bool is_there = back <= last;
        const record_on_media& each = *records[is_there ? last - back : last];
        if (!is_there || number_of(each) != number_of(end) - back || each.time != end.time ||
            !has_flag(each, group_flag) || has_flag(each, last_flag)) {
            return false;
        }
    }
    for (std::uint64_t back = std::min<std::uint64_t>(count, last + 1); back-- > 0;) {
        const record_on_media& each = *records[last - back];
        if (has_payload(each)) {
            HF_TRY(gather_payload(source, each, lane, seed, pending));
        } else {
            pending.push_back({each.time, &each});
        }
    }
    return true;
}

base::result<gathered_records> gather_log(const replay_source& source, std::uint64_t checkpoint_time,
                                          replay_report& report) {
    gathered_records found;
    const std::uint64_t seed = seed_of(source.heap_key, source.incarnation, 0);
    std::vector<const record_on_media*>& records = found.records;
    report.lanes = 0;
    for (std::size_t i = 0; i < source.log.size(); ++i) {
        const record_on_media& record = source.log[i];
        if (record.time <= checkpoint_time) {
            continue;
        }
        const std::uint64_t lane = number_of(record) >> log_lane_shift;
        HF_TRY(validate(record, lane, i, source.frontier));
        records.push_back(&record);
        report.lanes = std::max(report.lanes, lane + 1);
        found.newest_time = std::max(found.newest_time, record.time);
        found.have_data = found.have_data || has_flag(record, data_flag);
    }
    std::ranges::sort(records, {}, [](const record_on_media* record) { return number_of(*record); });
    for (std::size_t i = 0; i < records.size(); ++i) {
        const record_on_media& record = *records[i];
        const std::uint64_t lane = number_of(record) >> log_lane_shift;
        if (i != 0 && number_of(record) == number_of(*records[i - 1])) {  // LANE-41
            return corrupt(fmt::format("log, number of a record of lane {}", lane),
                           fmt::format("{:#x}, in two records", number_of(record)), "one that no other record has");
        }
        if (!has_flag(record, group_flag)) {
            found.pending.push_back({record.time, &record});
        } else if (has_flag(record, last_flag)) {
            HF_TRY_ASSIGN(const bool whole, gather_group_of_log(source, records, i, lane, seed, found.pending));
            report.rolled_back += whole ? 0 : 1;
        }
    }
    return found;
}

base::result<gathered_records> gather(const replay_source& source, std::uint64_t checkpoint_time,
                                      replay_report& report) {
    gathered_records found;
    std::vector<pending_record>& pending = found.pending;
    const bool by_clock = source.order == record_order::clock;
    const std::uint64_t used = by_clock ? source.slots : std::min(source.slots, in_flight_slots);
    for (std::uint64_t lane = 0; lane < report.lanes; ++lane) {
        const record_on_media* const slots = slots_of(source, lane);
        const auto* const header = reinterpret_cast<const lane_header_on_media*>(source.lanes.data() + lanes_at +
                                                                                 lane * lane_size(source.slots));
        const std::uint64_t seed = seed_of(source.heap_key, source.incarnation, lane);
        // LANE-27.
        if (!by_clock && header->completed > largest_sequence) {
            return corrupt(fmt::format("lane {}, completed records", lane), fmt::format("{:#x}", header->completed),
                           fmt::format("at most {:#x}", largest_sequence));
        }
        std::uint64_t newest = 0;
        for (std::uint64_t slot = 0; slot < used; ++slot) {
            const record_on_media& record = slots[slot];
            const bool counts = by_clock ? record.time > checkpoint_time : number_of(record) > header->completed;
            if (!counts) {
                continue;
            }
            if (!is_whole(record, seed, slot, used)) {
                continue;
            }
            HF_TRY(validate(record, lane, slot, source.frontier));
            found.records.push_back(&record);
            newest = std::max(newest, number_of(record));
            found.newest_time = std::max(found.newest_time, record.time);
            found.have_data = found.have_data || has_flag(record, data_flag);
            if (has_flag(record, last_flag)) {
                HF_TRY_ASSIGN(const bool whole, gather_group(source, record, slots, used, lane, seed, pending));
                report.rolled_back += whole ? 0 : 1;
            } else if (!has_flag(record, group_flag)) {
                pending.push_back({record.time, &record});
            }
        }
        // The slot behind the newest record may hold a part of the next one.
        const std::uint64_t behind = (newest + 1) & (used - 1);
        const record_on_media& next = slots[behind];
        if (newest != 0 && number_of(next) == newest + 1 && !is_whole(next, seed, behind, used)) {
            ++report.rolled_back;
        }
    }
    return found;
}

/// Decides from the newest call to the oldest. The records of one call are one operation.
class decider {
public:
    decider(const replay_source& source, const gathered_records& records)
        : source_(source),
          have_data_(records.have_data),
          blocks_(4 * records.pending.size()),
          destinations_(data_words * records.pending.size()) {}

    void consider(std::span<const pending_record> call) {
        target_freed_later_.clear();
        for (const pending_record& each : call) {
            const bool allocates = !has_flag(*each.record, data_flag) && each.record->allocated != nowhere;
            target_freed_later_.push_back(allocates && freed_.contains(each.record->allocated));
        }
        for (const pending_record& each : call) {
            if (has_flag(*each.record, data_flag)) {
                continue;
            }
            const block_word freed = decode_block(each.record->freed_block);
            // The blocks of a released slab were freed before, by records of their own.
            if (each.record->freed != nowhere && freed.kind != block_kind::slab) {
                freed_.add(each.record->freed, each.record->freed + bytes_of(freed));
            }
        }
        for (std::size_t i = 0; i < call.size(); ++i) {
            const record_on_media& record = *call[i].record;
            if (has_flag(record, data_flag)) {
                decide_data(record);
                continue;
            }
            decide_block(record.allocated, record.allocated_block, true, morphed_from(record));
            decide_block(record.freed, record.freed_block, false, {});
            if (record.destination != nowhere) {
                decide_destination(record, target_freed_later_[i]);
            }
        }
    }

    [[nodiscard]] std::vector<word_write> take() && { return std::move(writes_); }

private:
    // LANE-11.
    void decide_block(std::uint64_t offset, std::uint64_t encoded, bool allocate, block_word morphed_from) {
        if (offset == nowhere) {
            return;
        }
        const block_word block = decode_block(encoded);
        const block_place place = place_of(source_.space, offset, block);
        const std::uint64_t bit =
            place.mask == ~std::uint64_t{0} ? 0 : static_cast<std::uint64_t>(std::countr_zero(place.mask));
        // Words lie at multiples of 8, so (address * 8 + bit) is unique.
        if (!blocks_.insert(reinterpret_cast<std::uintptr_t>(place.word) * 8 + bit)) {
            return;
        }
        if (block.kind == block_kind::slab && allocate) {
            store_slab_header(
                source_.space, offset, block, morphed_from,
                [this](std::uint64_t& word, std::uint64_t value) { write(&word, ~std::uint64_t{0}, value); });
        }
        write(place.word, place.mask, allocate ? place.set : 0);
    }

    // LANE-24, LANE-12, LANE-13.
    void decide_destination(const record_on_media& record, bool target_freed_later) {
        const std::uint64_t offset = destination_offset(record.destination);
        if (!destinations_.insert(offset + 1)) {
            return;
        }
        if (freed_.contains(offset)) {
            return;
        }
        const std::uint16_t stamp = destination_stamp(record.destination);
        const bool null = record.allocated == nowhere || target_freed_later;
        const std::uint64_t value =
            null ? segment::null_pointer(stamp) : segment::encode_pointer(offset, record.allocated, stamp);
        auto* const word = reinterpret_cast<std::uint64_t*>(source_.space.address({offset}));
        if (segment::stamp_of(*word) != stamp) {
            write(word, ~std::uint64_t{0}, value);
            return;
        }
        write(word, ~std::uint64_t{0}, *word);  // LANE-38
        if (have_data_) {
            left_alone_.emplace(offset, value);
        }
    }

    // LANE-31, LANE-34, LANE-35. Where an earlier group stored the word, media may hold a former block's content, which
    // looks like the stamp by chance.
    void decide_data(const record_on_media& record) {
        const data_place place = decode_data(record.destination);
        const auto words = words_of(record);
        for (std::uint64_t i = 0; i < place.words; ++i) {
            const std::uint64_t offset = place.offset + i * sizeof(std::uint64_t);
            auto* const word = reinterpret_cast<std::uint64_t*>(source_.space.address({offset}));
            const bool decided = !destinations_.insert(offset + 1);
            if (freed_.contains(offset)) {
                continue;
            }
            if (!decided) {
                write(word, ~std::uint64_t{0}, words[i]);
            } else if (const auto left = left_alone_.find(offset); left != left_alone_.end()) {
                write(word, ~std::uint64_t{0}, left->second);
                left_alone_.erase(left);
            }
        }
    }

    void write(std::uint64_t* word, std::uint64_t mask, std::uint64_t bits) {
        if (mask != ~std::uint64_t{0}) {
            const auto [place, added] = bit_words_.try_emplace(word, writes_.size());
            if (!added) {
                std::uint64_t& value = writes_[place->second].value;
                value = (value & ~mask) | bits;
                return;
            }
            bits |= *word & ~mask;
        }
        writes_.push_back({word, bits});
    }

    const replay_source& source_;
    bool have_data_;
    number_set blocks_;
    number_set destinations_;
    range_union freed_;
    std::map<std::uint64_t, std::uint64_t> left_alone_;  ///< destinations with their stamp
    std::vector<bool> target_freed_later_;
    std::map<std::uint64_t*, std::size_t> bit_words_;  ///< index of the word's write
    std::vector<word_write> writes_;
};

/// Keeps the last write of each word.
std::vector<word_write> in_order(std::vector<word_write> writes) {
    std::ranges::stable_sort(writes, {}, &word_write::word);
    const auto kept = std::unique(writes.rbegin(), writes.rend(),
                                  [](const word_write& a, const word_write& b) { return a.word == b.word; });
    writes.erase(writes.begin(), kept.base());
    return writes;
}

}  // namespace

base::result<replay_plan> make_replay(const replay_source& source) {
    replay_plan plan;
    HF_TRY_ASSIGN(plan.checkpoint, read_checkpoint(source.lanes, source.heap_key));
    HF_TRY(read_lane_count(source.lanes, source.lanes.size(), source.slots, source.order, source.heap_key));
    const bool logged = source.order == record_order::logged;
    const std::uint64_t checkpoint_time = plan.checkpoint.time;
    plan.newest_time = checkpoint_time;
    // The number in force may be that of an older copy, which leaves out the newest lane.
    plan.report.lanes = (source.lanes.size() - lanes_at) / lane_size(source.slots);
    HF_TRY_ASSIGN(gathered_records found, logged ? gather_log(source, checkpoint_time, plan.report)
                                                 : gather(source, checkpoint_time, plan.report));
    std::vector<pending_record>& pending = found.pending;
    plan.newest_time = std::max(plan.newest_time, found.newest_time);
    plan.report.pending = pending.size();
    std::sort(pending.begin(), pending.end(), [](const pending_record& a, const pending_record& b) {
        return a.time != b.time ? a.time > b.time : number_of(*a.record) > number_of(*b.record);
    });
    plan.records = std::move(found.records);
    decider decide(source, found);
    for (std::span<const pending_record> rest(pending); !rest.empty();) {
        const std::uint64_t time = rest.front().time;
        const auto end = std::find_if(rest.begin(), rest.end(), [time](const auto& each) { return each.time != time; });
        const auto call = rest.first(static_cast<std::size_t>(end - rest.begin()));
        plan.newest_time = std::max(plan.newest_time, time);
        decide.consider(call);
        rest = rest.subspan(call.size());
    }
    plan.writes = in_order(std::move(decide).take());
    plan.report.replayed = static_cast<std::uint64_t>(
        std::ranges::count_if(plan.writes, [](const word_write& write) { return *write.word != write.value; }));
    return plan;
}

}  // namespace holdfast::lane
