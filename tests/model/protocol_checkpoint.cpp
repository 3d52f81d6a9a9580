// Checkpoints, and the normal form of states.
#include <algorithm>
#include <bit>

#include "model/protocol_steps.hpp"

namespace holdfast::model {

namespace {

enum checkpoint_step : byte { barrier = 1, read_lane, choose_the_lines, write_back, store_time, persist_time, release };

}  // namespace

void stepper::release_slots(state& next, byte mark) const {
    for (auto& ring : next.rings) {
        for (slot& each : ring) {
            if (each.status == slot_status::complete && each.newest().time <= mark) {
                each.status = slot_status::reusable;
            }
        }
    }
    if (has_log()) {
        release_log(next);
    }
}

/// The thread takes the mutex and reads the clock.
void stepper::start_checkpoint(const state& from, int who, const visitor& visit) const {
    if (rules_.about.page_cache || (from.checkpointer_busy != 0 && !rules_.wrong.blind_store_of_time)) {
        return;
    }
    const bool useful = std::any_of(from.rings.begin(), from.rings.end(), [](const auto& ring) {
        return std::any_of(ring.begin(), ring.end(),
                           [](const slot& each) { return each.status == slot_status::complete; });
    });
    if (!useful) {
        return;
    }
    state next = from;
    thread& self = next.threads[index_of(who)];
    next.checkpointer_busy = 1;
    self.doing = activity::checkpoint;
    self.step = rules_.about.store_buffers ? barrier : read_lane;
    self.mark = newest_time(from);
    self.lane = 0;
    emit(next, {event::checkpoint, static_cast<byte>(who), 0, 0}, visit);
}

void stepper::continue_checkpoint(const state& from, int who, const visitor& visit) const {
    state next = from;
    thread& self = next.threads[index_of(who)];
    const bool time_first = rules_.wrong.time_durable_before_lines;
    const byte step = self.step;
    switch (step) {
        case barrier:
            for (thread& each : next.threads) {
                if (each.buffered != nothing && !rules_.wrong.no_membarrier) {
                    each.announced = each.buffered;
                    each.buffered = nothing;
                }
            }
            self.step = read_lane;
            break;
        case read_lane:
            if (self.lane == 0 && rules_.wrong.lines_chosen_before_announcements) {
                choose_lines(next, self);
            }
            if (!rules_.wrong.checkpoint_ignores_calls_in_flight) {
                self.mark = std::min(self.mark, next.threads[self.lane].announced);
            }
            if (++self.lane == rules_.about.threads) {
                self.step = choose_the_lines;
            }
            break;
        case choose_the_lines:
            if (!rules_.wrong.lines_chosen_before_announcements) {
                choose_lines(next, self);
            }
            self.step = time_first ? store_time : write_back;
            if (self.mark <= next.checkpoint_time && !rules_.wrong.blind_store_of_time) {
                end_checkpoint(next, self);
            }
            break;
        case write_back: {
            const byte last = std::bit_floor(self.lines);
            flush(next, std::countr_zero(last));
            self.lines = without(self.lines, last);
            if (self.lines == 0) {
                self.step = time_first ? release : store_time;
            }
            break;
        }
        case store_time:
            next.checkpoint_time = self.mark;
            next.possible_times |= static_cast<std::uint16_t>(1 << self.mark);
            self.step = persist_time;
            if (rules_.wrong.slots_reused_before_time_is_durable) {
                release_slots(next, self.mark);
            }
            break;
        case persist_time:
            next.possible_times = static_cast<std::uint16_t>(1 << next.checkpoint_time);
            self.step = write_back;
            if (!time_first) {
                release_slots(next, self.mark);
                end_checkpoint(next, self);
            }
            break;
        default:
            release_slots(next, self.mark);
            end_checkpoint(next, self);
            break;
    }
    emit(next, {event::checkpoint, static_cast<byte>(who), step, 0}, visit);
}

/// The lines of the bitmap and of the destinations of all complete calls up to the chosen time.
void stepper::choose_lines(state& next, thread& self) const {
    self.lines = 0;
    for (const auto& ring : next.rings) {
        for (const slot& each : ring) {
            const bool flushed = each.newest().data == 0 || !rules_.wrong.checkpoint_flushes_no_data;
            if (each.status == slot_status::complete && each.newest().time <= self.mark && flushed) {
                self.lines |= static_cast<byte>(1 | 1 << line_of(each.newest().destination));
            }
        }
    }
    // If there are none, the bitmap's line stands for the fence.
    self.lines |= 1;
}

void stepper::end_checkpoint(state& next, thread& self) const {
    const byte next_slot = self.next_slot;
    self = {};
    self.next_slot = next_slot;
    next.checkpointer_busy = 0;
}

bool stepper::next_state_has_all_images(const state& from) const {
    if (rules_.about.page_cache) {
        return false;
    }
    return std::any_of(from.threads.begin(), from.threads.end(), [&](const thread& each) {
        if (each.doing != activity::call) {
            return false;
        }
        const call_step next = plan(each)[each.step].step;
        return next == call_step::destination || next == call_step::bits || next == call_step::store_all;
    });
}

// --- the normal form ---

void stepper::normalise(state& each) const {
    int oldest_time = std::countr_zero(each.possible_times);
    for (const thread& other : each.threads) {
        if (other.doing == activity::checkpoint && other.step > choose_the_lines) {
            oldest_time = std::min<int>(oldest_time, other.mark);
        }
    }
    for (auto& ring : each.rings) {
        for (slot& old : ring) {
            // The media still hold it, but T on media is and stays at its time or above.
            const bool replaced = old.status == slot_status::reusable || !old.pending.is_void();
            const bool forgotten = old.media.time <= oldest_time && !rules_.wrong.older_records_count_as_members;
            if (replaced && forgotten) {
                old.media = {};
                old.pending = old.pending == wiped ? record{} : old.pending;
            }
        }
    }
    compress_times(each);
    // If the program copies stamps from word to word, stamps of different words must stay comparable.
    const int seen = stamp_of(content_of(each, 0));
    for (int word = 0; word < word_count() && !rules_.wrong.program_copies_stamps; ++word) {
        rotate_stamps(each, word, rules_.about.moves_copy_stamps ? seen : stamp_of(content_of(each, word)));
    }
    if (has_log()) {
        normalise_log(each);
    }
    if (has_groups()) {
        normalise_groups(each);
    }
}

/// Times become ranks among the times of present records. A bound (T, an announcement) becomes the highest rank it
/// includes.
void stepper::compress_times(state& each) const {
    std::uint32_t present = 0;
    const auto note = [&](byte time) { present |= time == 0 ? 0U : 1U << time; };
    for (const auto& ring : each.rings) {
        for (const slot& used : ring) {
            note(used.media.time);
            note(used.pending.time);
        }
    }
    for (const thread& other : each.threads) {
        std::for_each(other.time.begin(), other.time.end(), note);
    }
    const auto rank = [present](byte time) { return static_cast<byte>(std::popcount(present & ((2U << time) - 1U))); };
    for (auto& ring : each.rings) {
        for (slot& used : ring) {
            used.media.time = rank(used.media.time);
            used.pending.time = rank(used.pending.time);
        }
    }
    for (thread& other : each.threads) {
        std::transform(other.time.begin(), other.time.end(), other.time.begin(), rank);
        other.mark = rank(other.mark);
        other.announced = other.announced == nothing ? nothing : rank(other.announced);
        other.buffered = other.buffered == nothing ? nothing : rank(other.buffered);
    }
    each.checkpoint_time = rank(each.checkpoint_time);
    std::uint16_t times = 0;
    for (byte time = 0; each.possible_times >> time != 0; ++time) {
        if ((each.possible_times >> time & 1) != 0) {
            times |= static_cast<std::uint16_t>(1 << rank(time));
        }
    }
    each.possible_times = times;
}

/// The stamp that threads see becomes 0; under rule 5, the first stamp of its half does.
void stepper::rotate_stamps(state& each, int word, int seen) const {
    const int stamps = rules_.about.stamps;
    const int rotation = rules_.about.flushes_at_half ? seen - seen % (stamps / 2) : seen;
    if (rotation == 0) {
        return;
    }
    const auto rotated = [&](int stamp) { return static_cast<byte>((stamp + stamps - rotation) % stamps); };
    const int shift = shift_[index_of(word)];
    const auto rotate_content = [&](std::uint16_t& content) {
        const int old = content >> shift & 31;
        const int renamed = make_word(target_of(old), rotated(stamp_of(old)));
        content = static_cast<std::uint16_t>((content & ~(31 << shift)) | renamed << shift);
    };
    line& target = each.lines[index_of(line_of(word))];
    rotate_content(target.current);
    std::for_each(target.possible.begin(), target.possible.begin() + target.count, rotate_content);
    byte& settled = each.settled_words[index_of(word)];
    settled = has_groups() ? make_word(target_of(settled), rotated(stamp_of(settled))) : settled;
    std::sort(target.possible.begin(), target.possible.begin() + target.count);
    for (auto& ring : each.rings) {
        for (slot& used : ring) {
            for (record* one : {&used.media, &used.pending}) {
                if (!one->is_void() && one->destination == word) {
                    one->stamp = rotated(one->stamp);
                }
            }
        }
    }
    for (thread& other : each.threads) {
        for (std::size_t element = 0; other.doing == activity::call && element < other.elements; ++element) {
            const bool has_chosen =
                other.allocated[element] != 0 || other.kind == operation::release || other.kind == operation::group;
            if (has_chosen && other.word[element] == word) {
                other.stamp[element] = rotated(other.stamp[element]);
            }
        }
    }
}

// --- descriptions for a path ---

std::string describe(const label& step) {
    static constexpr std::array calls{"?", "allocate_to", "free_from", "realloc_to", "group"};
    static constexpr std::array checkpoints{"reads the clock", "membarrier",     "reads an announcement",
                                            "chooses lines",   "flushes a line", "stores T",
                                            "flushes T",       "releases slots"};
    const std::string who = "thread " + std::to_string(step.thread) + ": ";
    const std::string first = std::to_string(step.first);
    switch (step.what) {
        case event::call: return who + "begins " + calls[step.first] + "(word " + std::to_string(step.second) + ")";
        case event::proceed: return who + "proceeds with its call";
        case event::write: return who + "takes the time, writes the record";
        case event::fence: return who + "fence";
        case event::destination: return who + "stores the destination, word " + first;
        case event::bits: return who + "stores the bits";
        case event::finish: return who + "marks it complete, returns";
        case event::store_all: return who + "stores in place";
        case event::unlock: return who + "unlocks";
        case event::gather: return who + "writes to the log what it finds";
        case event::written: return who + "the write to the log returns";
        case event::grow: return who + "the heap grows";
        case event::raw_store: return who + "stores to word " + first + ", persists it";
        case event::move: return who + "moves word " + first + " to word " + std::to_string(step.second) + ", one step";
        case event::initialise: return who + "makes block " + first + " a home of destinations";
        case event::scribble: return who + "fills block " + first + " with data";
        case event::checkpoint: return who + "checkpoint " + checkpoints[step.first];
        case event::crash: return "crash, recovery";
    }
    return {};
}

}  // namespace holdfast::model
