// The log of the domain `disk`: one write makes the records of all threads durable that wait.
//
// Rings in DRAM are never full here, so only the log limits what is pending. A thread's records stay in its own state
// until a leader puts them into the log. A leader reads the lanes one after the other while others append, so it may
// find any number of another thread's records, from the first on; all those of its own.
#include <algorithm>

#include "model/protocol_steps.hpp"

namespace holdfast::model {

/// Whether the thread has appended its records and waits until they are durable.
bool stepper::is_waiting(const thread& each) const {
    return each.doing == activity::call && each.durable == 0 && plan(each)[each.step].step == call_step::fence;
}

/// Calls in flight have their room, except those that have yet to claim it. The block that is being filled is not free
/// before the next one is.
bool stepper::has_room_in_log(const state& from, const thread& self) const {
    int claimed = from.log_used + self.elements;
    for (const thread& each : from.threads) {
        const bool has_claimed =
            &each != &self && each.doing == activity::call && plan(each)[each.step].step != call_step::claim_room;
        claimed += has_claimed ? each.elements - each.put : 0;
    }
    return claimed <= (rules_.about.log_blocks - 1) * rules_.about.slots;
}

/// The thread waits for the write of another, ends its own, or begins one.
void stepper::work_on_log(const state& from, int who, const visitor& visit) const {
    const thread& self = from.threads[index_of(who)];
    const bool is_led =
        std::any_of(from.threads.begin(), from.threads.end(), [](const thread& each) { return each.leads != 0; });
    if (self.leads != 0) {
        state next = from;
        end_write(next, who);
        emit(next, {event::written, static_cast<byte>(who)}, visit);
    } else if (!is_led) {
        state next = from;
        next.threads[index_of(who)].leads = 1;
        if (rules_.wrong.log_block_written_from_scratch) {
            const auto slots = index_of(rules_.about.slots);
            auto& last = next.rings[next.log_end / slots];
            for (std::size_t at = 0; at < next.log_end % slots; ++at) {
                last[at].pending = last[at].newest();
                last[at].media = {};
            }
        }
        gather(next, who, 0, visit);
    }
}

/// A successor for each number of records of each other thread that waits.
void stepper::gather(const state& from, int who, int next_thread, const visitor& visit) const {
    if (next_thread == rules_.about.threads) {
        emit(from, {event::gather, static_cast<byte>(who)}, visit);
        return;
    }
    state next = from;
    thread& other = next.threads[index_of(next_thread)];
    const bool waits = is_waiting(other);
    if (next_thread != who) {
        gather(next, who, next_thread + 1, visit);
    }
    while (waits && other.put < other.elements) {
        put_record(next, other);
        if (next_thread != who || other.put == other.elements) {
            gather(next, who, next_thread + 1, visit);
        }
    }
}

/// Of a block that is used again, the write leaves nothing that it held.
void stepper::put_record(state& next, thread& self) const {
    const auto slots = index_of(rules_.about.slots);
    auto& block = next.rings[next.log_end / slots];
    const std::size_t at = next.log_end % slots;
    if (at == 0) {
        for (slot& old : block) {
            old.pending = old.media.is_void() ? record{} : wiped;
        }
    }
    block[at].pending = record_of(self, self.put++);
    block[at].status = slot_status::in_flight;
    next.log_end = static_cast<byte>((next.log_end + 1) % (rules_.about.log_blocks * rules_.about.slots));
    ++next.log_used;
}

/// All that was put is durable, and so is each group of which that is the last.
void stepper::end_write(state& next, int who) const {
    for (auto& block : next.rings) {
        for (slot& each : block) {
            if (each.pending == record{} || rules_.wrong.log_not_synced) {
                continue;
            }
            each.media = each.pending == wiped ? record{} : each.pending;
            each.pending = {};
        }
    }
    for (int each = 0; each < rules_.about.threads; ++each) {
        const thread& other = next.threads[index_of(each)];
        const bool gathered = other.put == other.elements || rules_.wrong.log_acknowledges_what_it_did_not_gather;
        if (is_waiting(other) && gathered) {
            settle(next, each);
        }
    }
    next.threads[index_of(who)].leads = 0;
}

/// From the oldest block on, up to the first that holds a record that is not void, or that is not full.
void stepper::release_log(state& next) const {
    const auto slots = index_of(rules_.about.slots);
    const std::size_t records = index_of(rules_.about.log_blocks) * slots;
    const auto is_void = [](const slot& each) { return each.status == slot_status::reusable; };
    while (next.log_used >= slots) {
        const auto& oldest = next.rings[(next.log_end + records - next.log_used) % records / slots];
        if (!std::all_of(oldest.begin(), oldest.end(), is_void) && !rules_.wrong.log_reused_while_pending) {
            break;
        }
        next.log_used = static_cast<byte>(next.log_used - slots);
    }
}

/// The block that gets the next record becomes the first.
void stepper::normalise_log(state& each) const {
    const auto blocks = each.rings.begin();
    std::rotate(blocks, blocks + each.log_end / rules_.about.slots, blocks + rules_.about.log_blocks);
    each.log_end = static_cast<byte>(each.log_end % rules_.about.slots);
}

bool stepper::is_stuck(const state& from) const {
    if (!has_log()) {
        return false;
    }
    bool someone_waits = false;
    byte mark = newest_time(from);
    for (const thread& each : from.threads) {
        if (each.doing == activity::idle) {
            continue;
        }
        const bool waits = each.doing == activity::call && plan(each)[each.step].step == call_step::claim_room &&
                           !has_room_in_log(from, each);
        if (!waits) {
            return false;
        }
        someone_waits = true;
        mark = std::min(mark, each.announced);
    }
    const auto can_become_void = [mark](const slot& each) {
        return each.status == slot_status::complete && each.newest().time <= mark;
    };
    return someone_waits && std::none_of(from.rings.begin(), from.rings.end(), [&](const auto& block) {
               return std::any_of(block.begin(), block.end(), can_become_void);
           });
}

/// Space is durable before a record names it.
void stepper::start_growth(const state& from, int who, const visitor& visit) const {
    if (from.grown != growth::none) {
        return;
    }
    state next = from;
    next.grown = rules_.wrong.growth_after_record ? growth::pending : growth::durable;
    next.cached_blocks |= block_bit(block_count);
    emit(next, {event::grow, static_cast<byte>(who)}, visit);
}

}  // namespace holdfast::model
