// Successors of a state of the model.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "model/protocol_rules.hpp"

namespace holdfast::model {

constexpr std::size_t index_of(int number) { return static_cast<std::size_t>(number); }

enum class event : byte {
    call,
    proceed,
    write,
    fence,
    destination,
    bits,
    finish,
    store_all,
    unlock,
    move,
    initialise,
    scribble,
    raw_store,
    gather,
    written,
    grow,
    checkpoint,
    crash
};

struct label {
    event what = event::crash;
    byte thread = 0;
    byte first = 0;
    byte second = 0;
};

std::string describe(const label& step);

/// Generates successors in normal form (normalise()).
class stepper {
public:
    using visitor = std::function<void(const state&, const label&)>;

    explicit stepper(const rules& chosen);

    /// A heap just created: all blocks free, all roots null.
    [[nodiscard]] state initial() const;

    void for_each_successor(const state& from, const visitor& visit) const;

    /// True if the next state has all images of this one and is judged alike, so that this one needs no cut.
    [[nodiscard]] bool next_state_has_all_images(const state& from) const;

    /// A thread waits for room in the log, and nothing that any thread can do makes room (LANE-40).
    [[nodiscard]] bool is_stuck(const state& from) const;

    /// Renames times and stamps, of which only order and difference matter, and forgets void records.
    void normalise(state& each) const;

private:
    void start_calls(const state& from, int who, const visitor& visit) const;
    void start_batches(const state& from, int who, const visitor& visit) const;
    void start_call(state next, int who, operation kind, std::vector<byte> words, const visitor& visit) const;
    void start_moves(const state& from, int who, const visitor& visit) const;
    void start_uses(const state& from, int who, const visitor& visit) const;
    void start_checkpoint(const state& from, int who, const visitor& visit) const;

    void continue_call(state next, int who, label step, const visitor& visit) const;
    void choose(const state& from, int who, std::size_t element, label step, const visitor& visit) const;
    void take_time(state& next, int who, std::size_t element) const;
    void write_record(state& next, int who, std::size_t element) const;
    void fence(state& next, int who) const;
    void store_bits(state& next, int who, std::size_t element) const;
    void finish(state& next, int who) const;

    // Groups: protocol_groups.cpp.
    void list_groups();
    void start_groups(const state& from, int who, const visitor& visit) const;
    [[nodiscard]] bool may_store(const state& from, int word) const;
    void start_raw_stores(const state& from, int who, const visitor& visit) const;
    void start_uses_of_unfilled(const state& from, int who, const visitor& visit) const;
    [[nodiscard]] bool may_lock(const state& from, const thread& self) const;
    [[nodiscard]] bool may_take(const state& from, const thread& self, std::size_t element) const;
    [[nodiscard]] bool is_freeable_in_group(const state& from, const thread& self, std::size_t element) const;
    [[nodiscard]] byte words_of_group(const thread& self) const;
    void choose_in_group(const state& from, int who, std::size_t element, const label& step,
                         const visitor& visit) const;
    [[nodiscard]] int change_by_filling(int word) const;
    [[nodiscard]] bool fill_new_blocks(state& next, int who) const;
    void append_group(state& next, int who) const;
    void settle(state& next, int who) const;
    void store_part(state& next, int who, std::size_t part) const;
    void store_group(state& next, int who) const;
    void unlock(state& next, int who) const;
    void finish_group(state& next, int who) const;
    void normalise_groups(state& each) const;

    // The log: protocol_log.cpp.
    [[nodiscard]] bool has_room_in_log(const state& from, const thread& self) const;
    [[nodiscard]] bool is_waiting(const thread& each) const;
    void work_on_log(const state& from, int who, const visitor& visit) const;
    void gather(const state& from, int who, int next_thread, const visitor& visit) const;
    void put_record(state& next, thread& self) const;
    void end_write(state& next, int who) const;
    void release_log(state& next) const;
    void normalise_log(state& each) const;
    void start_growth(const state& from, int who, const visitor& visit) const;
    [[nodiscard]] record record_of(const thread& self, std::size_t element) const;

    void continue_move(const state& from, int who, const visitor& visit) const;
    void continue_checkpoint(const state& from, int who, const visitor& visit) const;
    void choose_lines(state& next, thread& self) const;
    void end_checkpoint(state& next, thread& self) const;
    void release_slots(state& next, byte mark) const;

    void emit(state next, const label& step, const visitor& visit) const;
    [[nodiscard]] int content_of(const state& from, int word) const;
    void store(state& next, int line_index, int content) const;
    void store_word(state& next, int word, int content) const;
    void flush(state& next, int line_index) const;
    [[nodiscard]] bool is_usable(const state& from, int word) const;
    [[nodiscard]] bool may_free_through(const state& from, int word) const;
    [[nodiscard]] byte words_inside(int block) const;
    void compress_times(state& each) const;
    void rotate_stamps(state& each, int word, int seen) const;

    int word_count() const { return static_cast<int>(rules_.about.holders.size()); }
    int line_of(int word) const { return rules_.about.lines[static_cast<std::size_t>(word)]; }
    int holder_of(int word) const { return rules_.about.holders[static_cast<std::size_t>(word)]; }
    bool is_data(int word) const { return (rules_.about.data_words >> word & 1) != 0; }
    bool has_log() const { return rules_.about.log_blocks != 0; }
    bool has_groups() const { return rules_.about.group_records != 0; }
    const std::vector<planned_step>& plan(const thread& self) const {
        return self.kind == operation::group ? group_plan_ : plans_[self.elements - 1U];
    }

    struct planned_group {
        std::vector<role> roles;
        std::vector<byte> words;
        bool allocates = false;
    };

    rules rules_;
    std::array<std::vector<planned_step>, 2> plans_;
    std::vector<planned_step> group_plan_;
    std::vector<planned_group> groups_;
    std::array<int, max_words> shift_{};
};

}  // namespace holdfast::model
