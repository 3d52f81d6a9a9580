#include "model/protocol_replay.hpp"

#include <algorithm>
#include <span>

namespace holdfast::model {

namespace {

/// The records to replay, last first.
struct record_list {
    std::array<record, max_threads * max_slots> records;
    std::size_t count = 0;

    /// Inserts by descending time, behind the first `kept` records.
    void insert(const record& added, std::size_t kept) {
        std::size_t at = count++;
        for (; at > kept && records[at - 1].time < added.time; --at) {
            records[at] = records[at - 1];
        }
        records[at] = added;
    }
};

/// Whether a record counts: in worlds of groups, whether its group is whole. The group lies in one ring, or anywhere in
/// a log.
bool counts(const rules& chosen, std::span<const std::array<record, max_slots>> rings, const record& each) {
    if (chosen.about.group_records == 0 || chosen.wrong.group_counts_per_record) {
        return true;
    }
    std::size_t members = 0;
    std::size_t number = 0;
    for (const auto& ring : rings) {
        for (const record& other : ring) {
            members += other.time == each.time ? 1 : 0;
            number = other.time == each.time ? std::max<std::size_t>(number, other.number) : number;
        }
    }
    return number != 0 && (members == number || chosen.wrong.group_number_not_checked);
}

/// The mistake: whatever lies in the slots before the last record of a group is taken for its other records.
void take_older_records(const rules& chosen, std::array<record, max_slots>& ring) {
    const auto slots = static_cast<std::size_t>(chosen.about.slots);
    for (std::size_t last = 0; last < slots; ++last) {
        for (std::size_t before = 1; before < ring[last].number; ++before) {
            record& member = ring[(last + slots - before) % slots];
            if (!member.is_void() && member.time != ring[last].time) {
                member.time = ring[last].time;
                member.number = 0;
            }
        }
    }
}

record_list records_to_replay(const rules& chosen, const image& crashed) {
    // On the page cache there is no clock: only the records of one lane are ordered.
    const bool sorts_lanes = !chosen.wrong.lanes_not_sorted && !chosen.about.page_cache;
    record_list list;
    for (auto on_media = crashed.rings.rbegin(); on_media != crashed.rings.rend(); ++on_media) {
        const std::size_t kept = sorts_lanes ? 0 : list.count;
        auto ring = *on_media;
        if (chosen.wrong.older_records_count_as_members) {
            take_older_records(chosen, ring);
        }
        for (const record& each : ring) {
            const bool whole =
                chosen.about.log_blocks != 0 ? counts(chosen, crashed.rings, each) : counts(chosen, {&ring, 1}, each);
            if (each.time > crashed.time && whole) {
                list.insert(each, kept);
            }
        }
    }
    return list;
}

byte holder_bit(const rules& chosen, int word) {
    return block_bit(chosen.about.holders[static_cast<std::size_t>(word)]);
}

/// Whether a call in flight allocates (or frees) the block.
bool in_flight(const state& before, int block, std::array<byte, max_elements> thread::*blocks) {
    return std::any_of(before.threads.begin(), before.threads.end(), [&](const thread& each) {
        const auto& chosen_blocks = each.*blocks;
        return each.doing == activity::call && (chosen_blocks[0] == block || chosen_blocks[1] == block);
    });
}

/// The targets that returned calls, or the one in flight, allow for the destination.
byte targets_allowed(const state& before, int word) {
    byte targets = before.allowed[static_cast<std::size_t>(word)];
    for (const thread& each : before.threads) {
        for (std::size_t element = 0; each.doing == activity::call && element < each.elements; ++element) {
            if (each.word[element] == word && (each.allocated[element] != 0 || each.freed[element] != 0)) {
                targets |= static_cast<byte>(1 << each.allocated[element]);
            }
        }
    }
    return targets;
}

bool is_pointer(const rules& chosen, const state& before, byte blocks, int word) {
    const int holder = chosen.about.holders[static_cast<std::size_t>(word)];
    if (holder == 0) {
        return true;
    }
    return (blocks & block_bit(holder)) != 0 && !in_flight(before, holder, &thread::allocated) &&
           before.modes[static_cast<std::size_t>(holder - 1)] == block_mode::pointers;
}

std::string examine_word(const rules& chosen, const state& before, const image& crashed, const image& recovered,
                         int word, bool& excused) {
    const auto at = static_cast<std::size_t>(word);
    const int holder = chosen.about.holders[at];
    if (!is_pointer(chosen, before, recovered.blocks, word)) {
        const bool owned = (recovered.blocks & holder_bit(chosen, word)) != 0;
        if (owned && !in_flight(before, holder, &thread::allocated) && crashed.words[at] != recovered.words[at]) {
            return "recovery wrote into the data of a block";
        }
        return {};
    }
    const int target = target_of(recovered.words[at]);
    if ((targets_allowed(before, word) >> target & 1) == 0) {
        return "a destination is neither as before nor as after its last call";
    }
    if (target != 0 && (recovered.blocks & block_bit(target)) == 0) {
        if (crashed.words[at] != recovered.words[at]) {
            return "recovery stored a pointer to a free block";
        }
        const bool unpersisted = (before.unpersisted_words >> word & 1) != 0;
        if (unpersisted && chosen.about.moves != program_moves::persist_both &&
            !chosen.wrong.program_frees_unpersisted) {
            excused = true;
            return {};
        }
        return "a destination points to a free block";
    }
    return {};
}

/// Decides what each word must hold. Sees the records from the newest to the oldest.
class word_decider {
public:
    word_decider(const rules& chosen, const image& crashed, image& recovered)
        : chosen_(chosen), crashed_(crashed), recovered_(recovered) {}

    void decide_destination(const record& each, byte freed_now_or_later, bool target_freed) {
        const byte word = each.destination;
        const byte content = make_word(target_freed ? 0 : each.allocated, each.stamp);
        if (is_decided(word)) {
            return;
        }
        decided_ |= static_cast<byte>(1 << word);
        const bool holder_freed = (freed_now_or_later & holder_bit(chosen_, word)) != 0;
        if (holder_freed && !chosen_.wrong.replay_ignores_freed_holders) {
            return;
        }
        if (stamp_of(crashed_.words[word]) != each.stamp) {
            recovered_.words[word] = content;
        } else {
            left_ |= static_cast<byte>(1 << word);
            wanted_[word] = content;
        }
    }

    void decide_data(const record& each, byte freed_now_or_later) {
        const byte word = each.destination;
        const bool holder_freed = (freed_now_or_later & holder_bit(chosen_, word)) != 0;
        const bool writes = !holder_freed || chosen_.wrong.replay_writes_into_freed_blocks;
        if (is_decided(word)) {
            // The stamp on media may be older than this record, which bears none: only the newer record tells.
            if (writes && (left_ >> word & 1) != 0 && !chosen_.wrong.stamps_decide_after_data) {
                recovered_.words[word] = wanted_[word];
            }
            return;
        }
        decided_ |= static_cast<byte>(chosen_.wrong.data_does_not_decide_destinations ? 0 : 1 << word);
        if (writes) {
            recovered_.words[word] = make_word(each.target, each.stamp);
        }
    }

private:
    [[nodiscard]] bool is_decided(byte word) const { return (decided_ >> word & 1) != 0; }

    const rules& chosen_;
    const image& crashed_;
    image& recovered_;
    byte decided_ = 0;
    /// Destinations left alone because of their stamp, and what their records say.
    byte left_ = 0;
    std::array<byte, max_words> wanted_{};
};

}  // namespace

image replay(const rules& chosen, const image& crashed) {
    const record_list list = records_to_replay(chosen, crashed);
    image recovered = crashed;
    byte decided_blocks = 0;
    byte freed_later = 0;
    byte freed_now_or_later = 0;
    word_decider words(chosen, crashed, recovered);
    for (std::size_t index = 0; index < list.count; ++index) {
        const record& each = list.records[index];
        if (index == 0 || list.records[index - 1].time != each.time) {
            freed_later = freed_now_or_later;
            for (std::size_t same = index; same < list.count && list.records[same].time == each.time; ++same) {
                freed_now_or_later |= block_bit(list.records[same].freed);
            }
        }
        if ((decided_blocks & block_bit(each.allocated)) == 0) {
            recovered.blocks |= block_bit(each.allocated);
        }
        if ((decided_blocks & block_bit(each.freed)) == 0) {
            recovered.blocks = static_cast<byte>(recovered.blocks & ~block_bit(each.freed));
        }
        decided_blocks |= static_cast<byte>(block_bit(each.allocated) | block_bit(each.freed));
        if (each.data != 0) {
            words.decide_data(each, freed_now_or_later);
        } else {
            const bool target_freed =
                !chosen.wrong.replay_ignores_freed_targets && (freed_later & block_bit(each.allocated)) != 0;
            words.decide_destination(each, freed_now_or_later, target_freed);
        }
        recovered.time = std::max(recovered.time, each.time);
    }
    return recovered;
}

std::string examine(const rules& chosen, const state& before, const image& crashed, const image& recovered,
                    bool& excused) {
    if (chosen.about.group_records != 0) {
        return examine_groups(chosen, before, crashed, recovered);
    }
    byte reached = 0;
    for (int word = 0; word < static_cast<int>(chosen.about.holders.size()); ++word) {
        if (std::string wrong = examine_word(chosen, before, crashed, recovered, word, excused); !wrong.empty()) {
            return wrong;
        }
        if (is_pointer(chosen, before, recovered.blocks, word)) {
            reached |= block_bit(target_of(recovered.words[static_cast<std::size_t>(word)]));
        }
    }
    for (int block = 1; block <= block_count; ++block) {
        const byte bit = block_bit(block);
        const bool undecided = in_flight(before, block, &thread::allocated) || in_flight(before, block, &thread::freed);
        if (!undecided && (recovered.blocks & bit) != (before.settled_blocks & bit)) {
            return "a call that returned is not there: the bit of a block is wrong";
        }
        if ((recovered.blocks & bit) != 0 && (reached & bit) == 0 && (before.dropped_blocks & bit) == 0) {
            return "a leak: nothing points to an allocated block";
        }
    }
    return {};
}

std::string examine_second_crash(const rules& chosen, const image& crashed, const image& recovered) {
    // Any subset of the changed words may be on media before T is.
    const auto words = static_cast<int>(chosen.about.holders.size());
    for (int subset = 0; subset < 1 << (words + block_count); ++subset) {
        image again = crashed;
        bool same = false;
        for (int word = 0; word < words; ++word) {
            const auto at = static_cast<std::size_t>(word);
            if ((subset >> word & 1) != 0) {
                same = same || crashed.words[at] == recovered.words[at];
                again.words[at] = recovered.words[at];
            }
        }
        const auto changed = static_cast<byte>(subset >> words);
        same = same || ((crashed.blocks ^ recovered.blocks) & changed) != changed;
        if (same) {
            continue;
        }
        again.blocks ^= changed;
        if (chosen.wrong.recovery_sets_time_first) {
            again.time = recovered.time;
        }
        const image second = replay(chosen, again);
        if (second.words != recovered.words || second.blocks != recovered.blocks) {
            return "a second crash, inside recovery, changes what recovery makes";
        }
    }
    return {};
}

state reopen(const rules& chosen, const state& before, const image& recovered) {
    if (chosen.about.group_records != 0) {
        return reopen_groups(chosen, before, recovered);
    }
    state after;
    const auto words = static_cast<int>(chosen.about.holders.size());
    after.grown = growth::durable;
    after.lines[0].current = recovered.blocks;
    for (int block = 1; block <= block_count; ++block) {
        const byte bit = block_bit(block);
        const bool fresh = in_flight(before, block, &thread::allocated) || (recovered.blocks & bit) == 0;
        after.modes[static_cast<std::size_t>(block - 1)] =
            fresh ? block_mode::raw : before.modes[static_cast<std::size_t>(block - 1)];
        after.cached_blocks |= static_cast<byte>(~recovered.blocks & bit);
    }
    after.settled_blocks = recovered.blocks;
    after.dropped_blocks = before.dropped_blocks & recovered.blocks;
    std::array<int, max_lines> used{};
    byte targets = 0;
    for (int word = 0; word < words; ++word) {
        const auto at = static_cast<std::size_t>(word);
        const auto line_index = static_cast<std::size_t>(chosen.about.lines[at]);
        const int holder = chosen.about.holders[at];
        // The next owner of a free block overwrites its content.
        const bool owned = holder == 0 || (recovered.blocks & block_bit(holder)) != 0;
        int content = owned ? recovered.words[at] : 0;
        if (is_pointer(chosen, before, recovered.blocks, word)) {
            // A move was cut between its two stores: the program's own recovery durably empties one of the two words.
            const byte target = block_bit(target_of(content));
            content = (targets & target) != 0 ? make_word(0, stamp_of(content)) : content;
            targets |= target;
            after.allowed[at] = static_cast<byte>(1 << target_of(content));
        }
        after.lines[line_index].current |= static_cast<std::uint16_t>(content << 5 * used[line_index]++);
    }
    for (line& each : after.lines) {
        each.possible[0] = each.current;
    }
    return after;
}

}  // namespace holdfast::model
