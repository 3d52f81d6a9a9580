// Groups: what one transaction writes to destinations, blocks and words of data.
//
// Steps that no other thread can tell apart are one step here, too. Locked words and new blocks are seen by their
// thread alone, so filling a new block belongs to its choice, and the stores in place are one step: a crash, or a
// checkpoint that flushes a line between two of them, leaves nothing that it could not leave before the first or after
// the last. (With a step for each store the images are the same.)
#include <algorithm>
#include <bit>
#include <cstring>

#include "model/protocol_steps.hpp"

namespace holdfast::model {

namespace {

/// Runs `visit` for each word of the set.
template <class Visit>
void for_each_word(byte words, Visit visit) {
    for (int word = 0; word < max_words; ++word) {
        if ((words & bit_of(word)) != 0) {
            visit(word);
        }
    }
}

}  // namespace

std::vector<planned_step> plan_of_group(const rules& chosen) {
    using enum call_step;
    const wrongs& wrong = chosen.wrong;
    std::vector<planned_step> plan;
    const auto together = [&](std::initializer_list<call_step> steps) {
        for (const call_step step : steps) {
            plan.push_back({step, 0});
        }
        plan.push_back({boundary, 0});
    };
    if (chosen.about.log_blocks != 0 && wrong.log_room_claimed_in_flight) {
        together({lock, choose, announce});
        together({claim_room, time, write});
    } else if (chosen.about.log_blocks != 0) {
        together({lock, choose, claim_room, announce});
        together({time, write});
    } else if (wrong.time_before_lock) {
        together({announce, time});
        together({lock, choose, write});
    } else {
        together({lock, choose, announce});
        together({time, write});
    }
    // Where records end in the order of their numbers, a word stays locked until its record has ended.
    const bool unlocks_early = !chosen.about.page_cache || wrong.unlocked_before_complete;
    if (wrong.stores_before_fence) {
        together({store_all});
        together({fence});
        together({unlock, finish});
        return plan;
    }
    together({fence});
    if (chosen.about.page_cache) {
        // A killed process leaves what it has stored so far, and nothing else.
        for (std::size_t part = 0; part < std::size_t{2 * max_elements}; ++part) {
            plan.insert(plan.end(), {{store_one, part}, {boundary, part}});
        }
    }
    if (wrong.unlocked_before_stores) {
        together({unlock});
        together({store_all});
        together({finish});
    } else if (unlocks_early) {
        together({store_all, unlock});
        together({finish});
    } else {
        together({store_all});
        together({unlock, finish});
    }
    return plan;
}

/// All groups of one or two changes that fit; may_lock() says which are possible in a state.
void stepper::list_groups() {
    std::vector<planned_group> single;
    std::vector<planned_group> moves;
    for (int word = 0; has_groups() && word < word_count(); ++word) {
        const auto number = static_cast<byte>(word);
        if (is_data(word)) {
            single.push_back({{role::write}, {number}});
            continue;
        }
        single.push_back({{role::allocate}, {number}, true});
        single.push_back({{role::release}, {number}});
        for (int source = 0; rules_.about.group_moves && source < word_count(); ++source) {
            if (source != word && !is_data(source)) {
                moves.push_back({{role::move_to, role::move_from}, {number, static_cast<byte>(source)}});
            }
        }
    }
    groups_ = single;
    const auto join = [&](const planned_group& first, const planned_group& second) {
        const bool shares = std::find_first_of(first.words.begin(), first.words.end(), second.words.begin(),
                                               second.words.end()) != first.words.end();
        if (shares || first.words.size() + second.words.size() > rules_.about.group_records) {
            return;
        }
        planned_group joined = first;
        joined.roles.insert(joined.roles.end(), second.roles.begin(), second.roles.end());
        joined.words.insert(joined.words.end(), second.words.begin(), second.words.end());
        joined.allocates = first.allocates || second.allocates;
        groups_.push_back(joined);
    };
    for (std::size_t first = 0; first < single.size(); ++first) {
        for (std::size_t second = first + 1; second < single.size(); ++second) {
            join(single[first], single[second]);
        }
        for (const planned_group& move : moves) {
            join(move, single[first]);
        }
    }
    groups_.insert(groups_.end(), moves.begin(), moves.end());
}

void stepper::start_groups(const state& from, int who, const visitor& visit) const {
    const auto thread_number = static_cast<byte>(who);
    for (const planned_group& each : groups_) {
        state next = from;
        thread& self = next.threads[index_of(who)];
        self.doing = activity::call;
        self.kind = operation::group;
        self.elements = static_cast<byte>(each.words.size());
        std::copy(each.roles.begin(), each.roles.end(), self.roles.begin());
        std::copy(each.words.begin(), each.words.end(), self.word.begin());
        const label step{event::call, thread_number, static_cast<byte>(operation::group), each.words[0]};
        if (!each.allocates) {
            continue_call(next, who, step, visit);
            continue;
        }
        for (const content_kind content : rules_.about.contents) {
            self.content = content;
            continue_call(next, who, step, visit);
        }
    }
}

/// Whether the program may store to a word by itself: it is not locked, and no record of data on it is pending.
bool stepper::may_store(const state& from, int word) const {
    const int durable_time = std::countr_zero(from.possible_times);
    bool pending = false;
    for (const auto& ring : from.rings) {
        pending = pending || std::any_of(ring.begin(), ring.end(), [&](const slot& each) {
                      const record& newest = each.newest();
                      return newest.destination == word && newest.data != 0 && newest.time > durable_time;
                  });
    }
    return is_usable(from, word) && (!pending || rules_.wrong.program_stores_to_pending_words);
}

/// The program stores to a word of data, or moves a pointer, and persists it.
void stepper::start_raw_stores(const state& from, int who, const visitor& visit) const {
    const auto put = [this](state& next, int word, int content) {
        store_word(next, word, content);
        flush(next, line_of(word));
        next.settled_words[index_of(word)] = static_cast<byte>(content);
    };
    for (int word = 0; rules_.about.raw_stores && word < word_count(); ++word) {
        const int content = content_of(from, word);
        if (!may_store(from, word)) {
            continue;
        }
        if (is_data(word)) {
            state next = from;
            put(next, word, make_word(0, (stamp_of(content) + 1) % rules_.about.stamps));
            emit(next, {event::raw_store, static_cast<byte>(who), static_cast<byte>(word), 0}, visit);
            continue;
        }
        for (int source = 0; source < word_count(); ++source) {
            const int moved = target_of(content_of(from, source));
            if (source != word && !is_data(source) && target_of(content) == 0 && moved != 0 &&
                moved != holder_of(word) && may_store(from, source)) {
                state next = from;
                put(next, word, make_word(moved, stamp_of(content)));
                put(next, source, make_word(0, stamp_of(content_of(from, source))));
                emit(next, {event::move, static_cast<byte>(who), static_cast<byte>(source), static_cast<byte>(word)},
                     visit);
            }
        }
    }
}

/// The owner of a block that its group did not fill durably initialises its words for transactions, or fills it with
/// bytes that look like pointers with old stamps.
void stepper::start_uses_of_unfilled(const state& from, int who, const visitor& visit) const {
    for (int block = 1; block <= block_count; ++block) {
        const byte inside = words_inside(block);
        if (inside == 0 || (from.settled_blocks & block_bit(block)) == 0 || (from.busy_words & inside) != 0 ||
            from.modes[index_of(block - 1)] != block_mode::raw) {
            continue;
        }
        const auto use = [&](block_mode mode, int target, int age) {
            state next = from;
            next.modes[index_of(block - 1)] = mode;
            for_each_word(inside, [&](int word) {
                const int change = mode == block_mode::pointers ? change_by_filling(word) : rules_.about.stamps - age;
                const int stamp = (stamp_of(content_of(from, word)) + change) % rules_.about.stamps;
                store_word(next, word, make_word(target, stamp));
                if (mode == block_mode::pointers) {
                    flush(next, line_of(word));
                    next.settled_words[index_of(word)] = make_word(target, stamp);
                }
            });
            const event what = mode == block_mode::pointers ? event::initialise : event::scribble;
            emit(next, {what, static_cast<byte>(who), static_cast<byte>(block), 0}, visit);
        };
        use(block_mode::pointers, 0, 0);
        const line& first_line = from.lines[index_of(line_of(std::countr_zero(inside)))];
        for (int age = 0; rules_.about.scribbles && first_line.count <= max_contents_for_data && age < 2; ++age) {
            use(block_mode::data, block % block_count + 1, age);
        }
    }
}

// --- locks and choices ---

bool stepper::may_lock(const state& from, const thread& self) const {
    for (std::size_t element = 0; element < self.elements; ++element) {
        if (!is_usable(from, self.word[element]) || !may_take(from, self, element)) {
            return false;
        }
    }
    return true;
}

bool stepper::may_take(const state& from, const thread& self, std::size_t element) const {
    const int word = self.word[element];
    const int target = target_of(content_of(from, word));
    const auto holder_is_freed = [&] {
        for (std::size_t other = 0; other < self.elements; ++other) {
            if (self.roles[other] == role::release &&
                target_of(content_of(from, self.word[other])) == holder_of(word)) {
                return holder_of(word) != 0;
            }
        }
        return false;
    };
    switch (self.roles[element]) {
        case role::allocate: return target == 0 && !holder_is_freed();
        case role::release: return target != 0 && is_freeable_in_group(from, self, element);
        case role::move_to: {
            const int moved = target_of(content_of(from, self.word[element + 1]));
            return target == 0 && moved != 0 && moved != holder_of(word) && !holder_is_freed();
        }
        default: return true;
    }
}

/// A block is not freed through a destination in it, nor while a word in it is locked. What it points to goes with the
/// group, or stays allocated where the program may lose blocks.
bool stepper::is_freeable_in_group(const state& from, const thread& self, std::size_t element) const {
    const int block = target_of(content_of(from, self.word[element]));
    const byte inside = words_inside(block);
    if (holder_of(self.word[element]) == block || (from.busy_words & inside) != 0) {
        return false;
    }
    if (rules_.about.drops || from.modes[index_of(block - 1)] != block_mode::pointers) {
        return true;
    }
    byte emptied = 0;
    for (std::size_t other = 0; other < self.elements; ++other) {
        const bool empties = self.roles[other] == role::release || self.roles[other] == role::move_from;
        emptied |= empties ? bit_of(self.word[other]) : byte{0};
    }
    bool free = true;
    for_each_word(without(inside, emptied), [&](int word) { free = free && target_of(content_of(from, word)) == 0; });
    return free;
}

byte stepper::words_of_group(const thread& self) const {
    byte words = 0;
    for (std::size_t element = 0; element < self.elements; ++element) {
        words |= bit_of(self.word[element]);
        words |= self.allocated[element] == 0 ? byte{0} : words_inside(self.allocated[element]);
        words |= self.freed[element] == 0 ? byte{0} : words_inside(self.freed[element]);
    }
    return words;
}

/// A successor for each block that may be taken, with what each word will hold. A group that finds none waits.
void stepper::choose_in_group(const state& from, int who, std::size_t element, const label& step,
                              const visitor& visit) const {
    const thread& before = from.threads[index_of(who)];
    state next = from;
    thread& self = next.threads[index_of(who)];
    if (element == before.elements) {
        if (fill_new_blocks(next, who)) {
            next.busy_words |= words_of_group(self);
            continue_call(next, who, step, visit);
        }
        return;
    }
    const int content = content_of(from, before.word[element]);
    const bool keeps_stamp = before.roles[element] == role::move_to || before.roles[element] == role::move_from;
    // Where two threads may change a word at once, they write different contents.
    const int change = keeps_stamp ? 0 : rules_.wrong.unlocked_before_stores ? 1 + who : 1;
    self.stamp[element] = static_cast<byte>((stamp_of(content) + change) % rules_.about.stamps);
    if (before.roles[element] == role::move_to) {
        const int source = content_of(from, before.word[element + 1]);
        self.target[element] = static_cast<byte>(target_of(source));
        self.stamp[element] = static_cast<byte>(stamp_of(rules_.about.moves_copy_stamps ? source : content));
    } else if (before.roles[element] == role::release) {
        self.freed[element] = static_cast<byte>(target_of(content));
    }
    if (before.roles[element] != role::allocate) {
        choose_in_group(next, who, element + 1, step, visit);
        return;
    }
    for (int block = 1; block <= block_count; ++block) {
        if ((from.cached_blocks & block_bit(block)) != 0) {
            self.allocated[element] = static_cast<byte>(block);
            next.cached_blocks = without(from.cached_blocks, block_bit(block));
            choose_in_group(next, who, element + 1, step, visit);
        }
    }
}

/// A destination gets the stamp with which its next record has the stamp of the garbage that is there.
int stepper::change_by_filling(int word) const { return is_data(word) ? 1 : rules_.about.stamps - 1; }

/// Content goes into the group, or is stored, flushed and fenced now. False if the ring has no room for the group, or
/// if another kind of content gives the same.
bool stepper::fill_new_blocks(state& next, int who) const {
    thread& self = next.threads[index_of(who)];
    byte inside = 0;
    for (std::size_t element = 0; element < self.elements; ++element) {
        inside |= self.allocated[element] == 0 ? byte{0} : words_inside(self.allocated[element]);
    }
    if (inside == 0) {
        if (self.content != content_kind::unfilled && self.content != rules_.about.contents.front()) {
            return false;
        }
        self.content = content_kind::unfilled;
    }
    bool fits = true;
    for_each_word(self.content == content_kind::unfilled ? byte{0} : inside, [&](int word) {
        const int old = stamp_of(content_of(next, word));
        const auto stamp = static_cast<byte>((old + change_by_filling(word)) % rules_.about.stamps);
        if (self.content == content_kind::before_group) {
            store_word(next, word, make_word(0, stamp));
            if (!rules_.wrong.new_content_not_fenced) {
                flush(next, line_of(word));
            }
        } else if (self.elements < rules_.about.group_records) {
            const std::size_t added = self.elements++;
            self.roles[added] = role::initialise;
            self.word[added] = static_cast<byte>(word);
            self.stamp[added] = stamp;
        } else {
            fits = false;
        }
    });
    if (has_log()) {
        return fits;
    }
    for (std::size_t element = 0; fits && element < self.elements; ++element) {
        const std::size_t at = (self.next_slot + element) % index_of(rules_.about.slots);
        fits = next.rings[index_of(who)][at].status == slot_status::reusable;
    }
    return fits && self.elements <= rules_.about.slots;
}

// --- records, stores, the end ---

record stepper::record_of(const thread& self, std::size_t element) const {
    const bool data = self.roles[element] != role::allocate && self.roles[element] != role::release;
    return {.time = self.time[0],
            .destination = self.word[element],
            .stamp = self.stamp[element],
            .allocated = self.allocated[element],
            .freed = self.freed[element],
            .target = self.target[element],
            .data = data ? byte{1} : byte{0},
            .number = element + 1 == self.elements ? self.elements : byte{0}};
}

void stepper::append_group(state& next, int who) const {
    thread& self = next.threads[index_of(who)];
    if (has_log()) {
        return;  // to a ring in DRAM, from which a leader takes them
    }
    for (std::size_t element = 0; element < self.elements; ++element) {
        slot& target = next.rings[index_of(who)][(self.next_slot + element) % index_of(rules_.about.slots)];
        target.pending = record_of(self, element);
        target.status = slot_status::in_flight;
    }
    self.time[0] = 0;
}

/// The observer notes what must be there after a crash from now on.
void stepper::settle(state& next, int who) const {
    thread& self = next.threads[index_of(who)];
    for (std::size_t element = 0; element < self.elements; ++element) {
        next.settled_words[self.word[element]] =
            make_word(self.allocated[element] | self.target[element], self.stamp[element]);
    }
    for (std::size_t element = 0; element < self.elements; ++element) {
        const int allocated = self.allocated[element];
        const int freed = self.freed[element];
        next.settled_blocks |= block_bit(allocated);
        next.settled_blocks = without(next.settled_blocks, block_bit(freed));
        if (allocated != 0) {
            const bool filled = self.content != content_kind::unfilled;
            next.modes[index_of(allocated - 1)] = filled ? block_mode::pointers : block_mode::raw;
            if (self.content == content_kind::before_group) {
                for_each_word(words_inside(allocated), [&](int word) {
                    next.settled_words[index_of(word)] = static_cast<byte>(content_of(next, word));
                });
            }
        }
        if (freed != 0) {
            next.modes[index_of(freed - 1)] = block_mode::raw;
        }
    }
    self.durable = 1;
}

/// First the words, then the bits.
void stepper::store_part(state& next, int who, std::size_t part) const {
    const thread& self = next.threads[index_of(who)];
    if (part < self.elements) {
        store_word(next, self.word[part], make_word(self.allocated[part] | self.target[part], self.stamp[part]));
    } else if (part >= max_elements) {
        store_bits(next, who, part - max_elements);
    }
}

void stepper::store_group(state& next, int who) const {
    for (std::size_t part = 0; part < std::size_t{2 * max_elements}; ++part) {
        store_part(next, who, part);
    }
}

void stepper::unlock(state& next, int who) const {
    thread& self = next.threads[index_of(who)];
    next.busy_words = without(next.busy_words, words_of_group(self));
    if (rules_.wrong.unlocked_before_stores) {
        return;
    }
    // What is not needed any more would only tell equal states apart.
    self.word = {};
    self.roles = {};
    self.stamp = {};
    self.target = {};
    self.allocated = {};
    self.content = content_kind::unfilled;
}

/// Completion mark, end of the announcement, blocks into the cache, return: see finish().
void stepper::finish_group(state& next, int who) const {
    thread& self = next.threads[index_of(who)];
    for (std::size_t element = 0; element < self.elements; ++element) {
        if (!has_log()) {
            slot& used = next.rings[index_of(who)][(self.next_slot + element) % index_of(rules_.about.slots)];
            used.status = slot_status::complete;
            if (rules_.about.page_cache) {
                used = {};
            }
        }
        next.cached_blocks |= block_bit(self.freed[element]);
    }
    if (has_log()) {
        for (auto& block : next.rings) {
            for (slot& used : block) {
                const bool own = !used.newest().is_void() && used.newest().time == self.time[0];
                used.status = own ? slot_status::complete : used.status;
            }
        }
        self = {};
        return;
    }
    const auto next_slot = static_cast<byte>((self.next_slot + self.elements) % rules_.about.slots);
    self = {};
    self.next_slot = next_slot;
}

/// Words without an owner have no settled content. Slots are told apart by their order in the ring alone.
void stepper::normalise_groups(state& each) const {
    for (int word = 0; word < max_words; ++word) {
        const int holder = word < word_count() ? holder_of(word) : 1;
        const bool owned =
            word < word_count() && (holder == 0 || ((each.settled_blocks & block_bit(holder)) != 0 &&
                                                    each.modes[index_of(holder - 1)] == block_mode::pointers));
        each.settled_words[index_of(word)] = owned ? each.settled_words[index_of(word)] : byte{0};
    }
    for (int who = 0; !has_log() && who < rules_.about.threads; ++who) {
        auto& ring = each.rings[index_of(who)];
        byte& first = each.threads[index_of(who)].next_slot;
        std::rotate(ring.begin(), ring.begin() + first, ring.begin() + rules_.about.slots);
        first = 0;
    }
    const bool reads_lanes =
        std::any_of(each.threads.begin(), each.threads.end(), [](const thread& other) { return other.lane == 1; });
    if (!rules_.about.threads_are_alike || rules_.about.threads != 2 || reads_lanes) {
        return;
    }
    const auto differs = [](const auto& first, const auto& second) {
        return std::memcmp(&first, &second, sizeof first);
    };
    const int order = differs(each.threads[0], each.threads[1]);
    const bool rings_differ = !has_log() && differs(each.rings[0], each.rings[1]) > 0;
    if (order > 0 || (order == 0 && rings_differ)) {
        std::swap(each.threads[0], each.threads[1]);
        if (!has_log()) {
            std::swap(each.rings[0], each.rings[1]);
        }
    }
}

}  // namespace holdfast::model
