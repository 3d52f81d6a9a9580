// Calls, and the program's actions between them. Checkpoints and the normal form: protocol_checkpoint.cpp.
#include "model/protocol_steps.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace holdfast::model {

std::vector<planned_step> plan_of_call(const rules& chosen, std::size_t elements) {
    using enum call_step;
    const wrongs& wrong = chosen.wrong;
    std::vector<planned_step> plan;
    const auto group = [&](std::initializer_list<call_step> steps, std::size_t element) {
        for (const call_step step : steps) {
            plan.push_back({step, element});
        }
        plan.push_back({boundary, element});
    };
    const auto for_each_element = [&](std::initializer_list<call_step> steps) {
        for (std::size_t element = 0; element < elements; ++element) {
            group(steps, element);
        }
    };
    const auto stores = [&] {
        for (std::size_t element = 0; element < elements; ++element) {
            group({destination}, element);
            group({bits}, element);
        }
    };
    if (wrong.timestamp_before_choice) {
        group({announce, time}, 0);
        group({choose, write}, 0);
    } else if (wrong.announced_after_timestamp) {
        group({choose, time}, 0);
        group({announce, write}, 0);
    } else if (wrong.record_after_stores) {
        group({choose, announce}, 0);
        stores();
        for_each_element({time, write});
        group({fence}, 0);
        group({finish}, 0);
        return plan;
    } else {
        group({choose, announce}, 0);
        for_each_element({time, write});
    }
    if (wrong.stores_before_fence) {
        stores();
        group({fence}, 0);
    } else {
        if (!wrong.no_fence) {
            group({fence}, 0);
        }
        stores();
    }
    group({finish}, 0);
    return plan;
}

stepper::stepper(const rules& chosen)
    : rules_(chosen), plans_{plan_of_call(chosen, 1), plan_of_call(chosen, 2)}, group_plan_(plan_of_group(chosen)) {
    std::array<int, max_lines> used{};
    for (int word = 0; word < word_count(); ++word) {
        shift_[index_of(word)] = 5 * used[index_of(line_of(word))]++;
    }
    list_groups();
}

state stepper::initial() const {
    state created;
    created.cached_blocks = static_cast<byte>((1 << block_count) - 1);
    created.grown = rules_.about.grows ? growth::none : growth::durable;
    if (rules_.about.grows) {
        created.cached_blocks = block_bit(1);
    }
    for (int word = 0; word < word_count(); ++word) {
        created.allowed[index_of(word)] = holder_of(word) == 0 ? 1 : 0;
    }
    return created;
}

void stepper::emit(state next, const label& step, const visitor& visit) const {
    normalise(next);
    visit(next, step);
}

// --- memory ---

int stepper::content_of(const state& from, int word) const {
    return from.lines[index_of(line_of(word))].current >> shift_[index_of(word)] & 31;
}

void stepper::store(state& next, int line_index, int content) const {
    line& target = next.lines[index_of(line_index)];
    target.current = static_cast<std::uint16_t>(content);
    if (rules_.about.page_cache) {
        flush(next, line_index);
        return;
    }
    const auto end = target.possible.begin() + target.count;
    const auto place = std::lower_bound(target.possible.begin(), end, target.current);
    if (place != end && *place == target.current) {
        return;
    }
    std::copy_backward(place, end, target.possible.begin() + target.count + 1);
    *place = target.current;
    // The rings hold fewer records than max_contents; the last place stays free.
    if (++target.count == max_contents) {
        std::abort();
    }
}

void stepper::store_word(state& next, int word, int content) const {
    const int shift = shift_[index_of(word)];
    const int others = next.lines[index_of(line_of(word))].current & ~(31 << shift);
    store(next, line_of(word), others | content << shift);
}

void stepper::flush(state& next, int line_index) const {
    line& target = next.lines[index_of(line_index)];
    target.possible = {};
    target.possible[0] = target.current;
    target.count = 1;
}

// --- what the program may do ---

bool stepper::is_usable(const state& from, int word) const {
    const int holder = holder_of(word);
    if ((from.busy_words & bit_of(word)) != 0) {
        return false;
    }
    return holder == 0 ||
           ((from.settled_blocks & block_bit(holder)) != 0 && from.modes[index_of(holder - 1)] == block_mode::pointers);
}

byte stepper::words_inside(int block) const {
    byte words = 0;
    for (int word = 0; word < word_count(); ++word) {
        if (holder_of(word) == block) {
            words |= bit_of(word);
        }
    }
    return words;
}

/// A block is not freed through a destination in it, nor while a destination in it is in use, nor while one points to a
/// block, unless the program may lose blocks.
bool stepper::may_free_through(const state& from, int word) const {
    const int block = target_of(content_of(from, word));
    const byte inside = words_inside(block);
    if (holder_of(word) == block || (from.busy_words & inside) != 0) {
        return false;
    }
    if (rules_.about.drops || from.modes[index_of(block - 1)] != block_mode::pointers) {
        return true;
    }
    for (int each = 0; each < word_count(); ++each) {
        if ((inside & bit_of(each)) != 0 && target_of(content_of(from, each)) != 0) {
            return false;
        }
    }
    return true;
}

void stepper::start_calls(const state& from, int who, const visitor& visit) const {
    const thread& self = from.threads[index_of(who)];
    if (from.rings[index_of(who)][self.next_slot].status != slot_status::reusable) {
        return;
    }
    for (int word = 0; word < word_count(); ++word) {
        if (!is_usable(from, word)) {
            continue;
        }
        const auto number = static_cast<byte>(word);
        if (target_of(content_of(from, word)) == 0) {
            start_call(from, who, operation::allocate, {number}, visit);
        } else if (may_free_through(from, word)) {
            start_call(from, who, operation::release, {number}, visit);
            if (rules_.about.reallocates) {
                start_call(from, who, operation::reallocate, {number}, visit);
            }
        }
    }
}

void stepper::start_batches(const state& from, int who, const visitor& visit) const {
    for (const slot& each : from.rings[index_of(who)]) {
        if (each.status != slot_status::reusable) {
            return;
        }
    }
    for (int word = 0; word < word_count(); ++word) {
        for (int other = word + 1; other < word_count(); ++other) {
            if (!is_usable(from, word) || !is_usable(from, other)) {
                continue;
            }
            const int target = target_of(content_of(from, word));
            const int other_target = target_of(content_of(from, other));
            const std::vector<byte> words{static_cast<byte>(word), static_cast<byte>(other)};
            if (target == 0 && other_target == 0) {
                start_call(from, who, operation::allocate, words, visit);
            } else if (target != 0 && other_target != 0 && may_free_through(from, word) &&
                       may_free_through(from, other) &&
                       (rules_.about.batches_have_one_time || rules_.wrong.program_frees_holder_in_batch ||
                        (holder_of(word) != other_target && holder_of(other) != target))) {
                start_call(from, who, operation::release, words, visit);
            }
        }
    }
}

void stepper::start_call(state next, int who, operation kind, std::vector<byte> words, const visitor& visit) const {
    thread& self = next.threads[index_of(who)];
    self.doing = activity::call;
    self.kind = kind;
    self.step = 0;
    self.elements = static_cast<byte>(words.size());
    for (std::size_t element = 0; element < words.size(); ++element) {
        self.word[element] = words[element];
        next.busy_words |= bit_of(words[element]);
        if (kind != operation::allocate) {
            self.freed[element] = static_cast<byte>(target_of(content_of(next, words[element])));
            const byte inside = words_inside(self.freed[element]);
            next.busy_words |= inside;
            for (int each = 0; each < word_count(); ++each) {
                if ((inside & bit_of(each)) != 0 &&
                    next.modes[index_of(self.freed[element] - 1)] == block_mode::pointers) {
                    next.dropped_blocks |= block_bit(target_of(content_of(next, each)));
                }
            }
        }
    }
    const auto thread_number = static_cast<byte>(who);
    continue_call(next, who, {event::call, thread_number, static_cast<byte>(kind), words[0]}, visit);
}

/// head = tmp. continue_move() does the later steps.
void stepper::start_moves(const state& from, int who, const visitor& visit) const {
    for (int source = 0; source < word_count(); ++source) {
        for (int target = 0; target < word_count(); ++target) {
            const int content = content_of(from, source);
            if (source == target || !is_usable(from, source) || !is_usable(from, target) || target_of(content) == 0 ||
                target_of(content_of(from, target)) != 0 || holder_of(target) == target_of(content)) {
                continue;
            }
            state next = from;
            thread& self = next.threads[index_of(who)];
            self.doing = activity::move;
            self.step = 1;
            self.word = {static_cast<byte>(source), static_cast<byte>(target)};
            next.busy_words |= static_cast<byte>(bit_of(source) | bit_of(target));
            const int stamp = stamp_of(rules_.wrong.program_copies_stamps ? content : content_of(from, target));
            store_word(next, target, make_word(target_of(content), stamp));
            next.allowed[index_of(target)] |= bit_of(target_of(content));
            next.unpersisted_words |= bit_of(target);
            if (rules_.about.moves == program_moves::persist_nothing) {
                next.dropped_blocks |= block_bit(target_of(content));
            }
            emit(next, {event::move, static_cast<byte>(who), self.word[0], self.word[1]}, visit);
        }
    }
}

void stepper::continue_move(const state& from, int who, const visitor& visit) const {
    state next = from;
    thread& self = next.threads[index_of(who)];
    const bool skips_first = rules_.about.moves == program_moves::persist_nothing && !rules_.about.page_cache;
    const bool skips_second = rules_.about.moves != program_moves::persist_both && !rules_.about.page_cache;
    const auto persist = [&](byte word) {
        flush(next, line_of(word));
        next.allowed[word] = bit_of(target_of(content_of(next, word)));
        next.unpersisted_words = without(next.unpersisted_words, bit_of(word));
    };
    if (self.step == 1 && !skips_first) {
        persist(self.word[1]);
        self.step = 2;
    } else if (self.step <= 2) {
        store_word(next, self.word[0], make_word(0, stamp_of(content_of(next, self.word[0]))));
        next.allowed[self.word[0]] |= bit_of(0);
        next.unpersisted_words |= bit_of(self.word[0]);
        self.step = 3;
    } else {
        persist(self.word[0]);
        self.step = 4;
    }
    const label step{event::move, static_cast<byte>(who), self.word[0], self.word[1]};
    if (self.step == 4 || (self.step == 3 && skips_second)) {
        next.busy_words = without(next.busy_words, static_cast<byte>(bit_of(self.word[0]) | bit_of(self.word[1])));
        const byte next_slot = self.next_slot;
        self = {};
        self.next_slot = next_slot;
    }
    emit(next, step, visit);
}

/// A new block durably gets destinations, or gets data.
void stepper::start_uses(const state& from, int who, const visitor& visit) const {
    for (int block = 1; block <= block_count; ++block) {
        const byte inside = words_inside(block);
        if (inside == 0 || (from.settled_blocks & block_bit(block)) == 0 || (from.busy_words & inside) != 0 ||
            from.modes[index_of(block - 1)] != block_mode::raw) {
            continue;
        }
        const auto thread_number = static_cast<byte>(who);
        const auto use = [&](block_mode mode, int target, int stamp) {
            state next = from;
            next.modes[index_of(block - 1)] = mode;
            for (int word = 0; word < word_count(); ++word) {
                if ((inside & bit_of(word)) != 0) {
                    store_word(next, word, make_word(target, stamp));
                    next.allowed[index_of(word)] = mode == block_mode::pointers ? 1 : 0;
                    if (mode == block_mode::pointers && !rules_.wrong.program_does_not_initialise) {
                        flush(next, line_of(word));
                    }
                }
            }
            const event what = mode == block_mode::pointers ? event::initialise : event::scribble;
            emit(next, {what, thread_number, static_cast<byte>(block), make_word(target, stamp)}, visit);
        };
        for (int stamp = 0; stamp < rules_.about.stamps; ++stamp) {
            use(block_mode::pointers, 0, stamp);
        }
        const int word = std::countr_zero(inside);
        const bool scribbles =
            rules_.about.scribbles && from.lines[index_of(line_of(word))].count <= max_contents_for_data;
        for (int age = 0; scribbles && age < 2; ++age) {
            const int stamp = stamp_of(content_of(from, word)) + rules_.about.stamps - age;
            use(block_mode::data, block % block_count + 1, stamp % rules_.about.stamps);
        }
    }
}

// --- a call ---

void stepper::continue_call(state next, int who, label step, const visitor& visit) const {
    thread& self = next.threads[index_of(who)];
    const auto& steps = plan(self);
    for (;;) {
        const planned_step planned = steps[self.step++];
        switch (planned.step) {
            case call_step::choose:
                if (self.kind == operation::group) {
                    choose_in_group(next, who, 0, step, visit);
                } else {
                    choose(next, who, 0, step, visit);
                }
                return;
            case call_step::lock:
                if (!may_lock(next, self)) {
                    return;
                }
                break;
            case call_step::claim_room:
                if (!has_room_in_log(next, self)) {
                    return;
                }
                break;
            case call_step::announce:
                // Below the call's own time, and below all later ones.
                (rules_.about.store_buffers ? self.buffered : self.announced) =
                    self.time[0] == 0 ? newest_time(next) : static_cast<byte>(self.time[0] - 1);
                break;
            case call_step::time: take_time(next, who, planned.element); break;
            case call_step::write:
                if (self.kind == operation::group) {
                    append_group(next, who);
                } else {
                    write_record(next, who, planned.element);
                }
                break;
            case call_step::fence: fence(next, who); break;
            case call_step::destination:
                store_word(next, self.word[planned.element],
                           make_word(self.allocated[planned.element], self.stamp[planned.element]));
                break;
            case call_step::bits: store_bits(next, who, planned.element); break;
            case call_step::store_one: store_part(next, who, planned.element); break;
            case call_step::store_all: store_group(next, who); break;
            case call_step::unlock: unlock(next, who); break;
            case call_step::finish:
                if (self.kind == operation::group) {
                    finish_group(next, who);
                } else {
                    finish(next, who);
                }
                emit(next, step, visit);
                return;
            case call_step::boundary: emit(next, step, visit); return;
        }
    }
}

/// A successor for each block that may be taken. A call that finds none waits.
void stepper::choose(const state& from, int who, std::size_t element, label step, const visitor& visit) const {
    const thread& before = from.threads[index_of(who)];
    if (element == before.elements) {
        continue_call(from, who, step, visit);
        return;
    }
    const auto take = [&](byte block) {
        state next = from;
        thread& self = next.threads[index_of(who)];
        self.allocated[element] = block;
        next.cached_blocks = without(next.cached_blocks, block_bit(block));
        const int word = self.word[element];
        const int stamp = stamp_of(content_of(next, word)) + (rules_.wrong.stamp_unchanged ? 0 : 1);
        self.stamp[element] = static_cast<byte>(stamp % rules_.about.stamps);
        if (rules_.about.flushes_at_half && self.stamp[element] % (rules_.about.stamps / 2) == 0) {
            flush(next, line_of(word));
        }
        choose(next, who, element + 1, step, visit);
    };
    if (before.kind == operation::release) {
        take(0);
        return;
    }
    for (int block = 1; block <= block_count; ++block) {
        if ((from.cached_blocks & block_bit(block)) != 0) {
            take(static_cast<byte>(block));
        }
    }
}

void stepper::take_time(state& next, int who, std::size_t element) const {
    thread& self = next.threads[index_of(who)];
    if (element == 0 || !rules_.about.batches_have_one_time) {
        self.time[element] = static_cast<byte>(newest_time(next) + 1);
    } else {
        self.time[element] = next.rings[index_of(who)][self.next_slot].pending.time;
    }
}

void stepper::write_record(state& next, int who, std::size_t element) const {
    thread& self = next.threads[index_of(who)];
    slot& target = next.rings[index_of(who)][(self.next_slot + element) % index_of(rules_.about.slots)];
    target.pending = {.time = self.time[element],
                      .destination = self.word[element],
                      .stamp = self.stamp[element],
                      .allocated = self.allocated[element],
                      .freed = self.freed[element]};
    target.status = slot_status::in_flight;
    self.time[element] = 0;
}

void stepper::fence(state& next, int who) const {
    thread& self = next.threads[index_of(who)];
    if (has_log()) {
        return;  // end_write() has settled it
    }
    for (slot& each : next.rings[index_of(who)]) {
        if (!each.pending.is_void()) {
            each.media = each.pending;
            each.pending = {};
        }
    }
    if (self.buffered != nothing) {
        self.announced = self.buffered;
        self.buffered = nothing;
    }
    if (self.kind == operation::group) {
        settle(next, who);
    }
    if (rules_.wrong.freed_block_reused_early) {
        next.cached_blocks |= block_bit(self.freed[0]);
        next.settled_blocks = without(next.settled_blocks, block_bit(self.freed[0]));
    }
}

void stepper::store_bits(state& next, int who, std::size_t element) const {
    const thread& self = next.threads[index_of(who)];
    if (self.allocated[element] != 0) {
        store(next, 0, next.lines[0].current | block_bit(self.allocated[element]));
    }
    if (self.freed[element] != 0) {
        store(next, 0, next.lines[0].current & ~block_bit(self.freed[element]));
    }
}

/// Completion mark, end of the announcement, block into the cache, return: others cannot tell these apart, because a
/// checkpoint does not look at announced calls, and a block that comes later is only later.
void stepper::finish(state& next, int who) const {
    thread& self = next.threads[index_of(who)];
    for (std::size_t element = 0; element < self.elements; ++element) {
        slot& used = next.rings[index_of(who)][(self.next_slot + element) % index_of(rules_.about.slots)];
        used.status = slot_status::complete;
        if (rules_.about.page_cache) {
            used = {};
        }
        const int word = self.word[element];
        const byte allocated = block_bit(self.allocated[element]);
        const byte freed = block_bit(self.freed[element]);
        next.settled_blocks |= allocated;
        next.dropped_blocks = without(next.dropped_blocks, allocated);
        if (!rules_.wrong.freed_block_reused_early) {
            next.settled_blocks = without(next.settled_blocks, freed);
            next.dropped_blocks = without(next.dropped_blocks, freed);
            next.cached_blocks |= freed;
        }
        for (const int block : {self.allocated[element], self.freed[element]}) {
            if (block != 0) {
                next.modes[index_of(block - 1)] = block_mode::raw;
            }
        }
        next.allowed[index_of(word)] = bit_of(self.allocated[element]);
        next.unpersisted_words = without(next.unpersisted_words, bit_of(word));
        const byte inside = words_inside(self.freed[element]);
        next.unpersisted_words = without(next.unpersisted_words, self.freed[element] == 0 ? byte{0} : inside);
        next.busy_words = without(next.busy_words, bit_of(word));
        next.busy_words = without(next.busy_words, self.freed[element] == 0 ? byte{0} : inside);
    }
    const auto next_slot = static_cast<byte>((self.next_slot + self.elements) % rules_.about.slots);
    self = {};
    self.next_slot = next_slot;
}

void stepper::for_each_successor(const state& from, const visitor& visit) const {
    for (int who = 0; who < rules_.about.threads; ++who) {
        const thread& self = from.threads[index_of(who)];
        const auto thread_number = static_cast<byte>(who);
        switch (self.doing) {
            case activity::idle:
                if (has_groups()) {
                    start_groups(from, who, visit);
                    start_raw_stores(from, who, visit);
                    start_uses_of_unfilled(from, who, visit);
                    start_growth(from, who, visit);
                    start_checkpoint(from, who, visit);
                    break;
                }
                start_calls(from, who, visit);
                if (rules_.about.batches) {
                    start_batches(from, who, visit);
                }
                if (rules_.about.moves != program_moves::none) {
                    start_moves(from, who, visit);
                }
                start_uses(from, who, visit);
                start_checkpoint(from, who, visit);
                break;
            case activity::call: {
                using enum event;
                static constexpr std::array events{proceed,     proceed,   write,  write,   fence,
                                                   destination, bits,      finish, proceed, proceed,
                                                   store_all,   store_all, unlock, proceed};
                const planned_step planned = plan(self)[self.step];
                if (has_log() && planned.step == call_step::fence && self.durable == 0) {
                    work_on_log(from, who, visit);
                    break;
                }
                const event what = events[static_cast<std::size_t>(planned.step)];
                continue_call(from, who, {what, thread_number, self.word[planned.element]}, visit);
                break;
            }
            case activity::move: continue_move(from, who, visit); break;
            case activity::checkpoint: continue_checkpoint(from, who, visit); break;
        }
    }
}

}  // namespace holdfast::model
