// A run of the model: its bounds, what the program does, and the rules that it follows or breaks.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "model/protocol_state.hpp"

namespace holdfast::model {

enum class program_moves {
    none,
    persist_both,      ///< head = tmp, persisted; tmp = null, persisted
    persist_new_only,  ///< persist_both without the second persist
    persist_nothing,
};

/// The bounds of the world, and what its program does.
struct world {
    int threads = 2;
    int slots = 1;
    /// For each destination: the block that holds it (0: a root), and its line (1 or more).
    std::vector<int> holders{0, 1};
    std::vector<int> lines{1, 2};
    program_moves moves = program_moves::none;
    /// Blocks may hold data that looks like pointers with old stamps, instead of destinations.
    bool scribbles = false;
    /// A block may be freed while destinations in it point somewhere.
    bool drops = false;
    bool reallocates = false;
    bool batches = false;
    /// The records of a batch have one time; a batch may free a block and what it points to.
    bool batches_have_one_time = false;
    /// An announcement may stay in the thread's store buffer until its next fence.
    bool store_buffers = false;
    /// A crash ends processes only: all stores survive.
    bool page_cache = false;
    int stamps = max_stamps;
    /// Rule 5: before a stamp enters a new half of the stamps, the destination is flushed.
    bool flushes_at_half = false;
    /// Groups instead of calls, and the records of the largest one (0: no groups).
    std::size_t group_records = 0;
    /// A bit for each word of data, which is no destination: it has no target, and its stamp is what it holds.
    byte data_words = 0;
    /// How blocks that groups allocate get their content.
    std::vector<content_kind> contents{};
    /// A group may move a pointer: two words of data that are destinations otherwise.
    bool group_moves = false;
    /// The new word gets the stamp of the old one, instead of keeping its own.
    bool moves_copy_stamps = false;
    /// The program itself stores to words of data and moves pointers, and persists them, where no record of data on
    /// them is pending.
    bool raw_stores = false;
    /// The slots are one log of so many blocks (0: a ring for each thread): the domain `disk`.
    int log_blocks = 0;
    /// Block 2 exists only after the heap has grown.
    bool grows = false;
    /// States that differ only in which thread does what are one state.
    bool threads_are_alike = false;
    /// 0: none
    std::size_t state_limit = 0;
};

/// The steps of a call. `boundary` ends a series of steps whose middle other threads cannot observe.
enum class call_step : byte {
    choose,
    announce,
    time,
    write,
    fence,
    destination,
    bits,
    finish,
    boundary,
    // Of groups alone:
    lock,
    store_one,
    store_all,
    unlock,
    // On a log alone:
    claim_room
};

/// Deviations; the protocol has none.
struct wrongs {
    bool no_fence = false;
    bool stamp_unchanged = false;
    bool checkpoint_ignores_calls_in_flight = false;
    bool lines_chosen_before_announcements = false;
    bool replay_ignores_freed_holders = false;
    bool replay_ignores_freed_targets = false;
    bool time_durable_before_lines = false;
    bool lanes_not_sorted = false;
    bool announced_after_timestamp = false;
    bool timestamp_before_choice = false;
    bool no_membarrier = false;
    bool blind_store_of_time = false;
    bool slots_reused_before_time_is_durable = false;
    bool stores_before_fence = false;
    bool freed_block_reused_early = false;
    bool recovery_sets_time_first = false;
    bool record_after_stores = false;
    // Of groups.
    bool group_counts_per_record = false;
    bool group_number_not_checked = false;
    bool older_records_count_as_members = false;
    bool replay_writes_into_freed_blocks = false;
    bool data_does_not_decide_destinations = false;
    bool stamps_decide_after_data = false;
    bool checkpoint_flushes_no_data = false;
    bool new_content_not_fenced = false;
    bool time_before_lock = false;
    bool unlocked_before_stores = false;
    bool unlocked_before_complete = false;
    // Of the log.
    bool log_not_synced = false;
    bool log_acknowledges_what_it_did_not_gather = false;
    bool log_reused_while_pending = false;
    bool log_block_written_from_scratch = false;
    bool log_room_claimed_in_flight = false;
    bool torn_records_count = false;
    bool growth_after_record = false;
    // Promises that the program breaks.
    bool program_stores_to_pending_words = false;
    bool program_copies_stamps = false;
    bool program_does_not_initialise = false;
    bool program_frees_unpersisted = false;
    bool program_frees_holder_in_batch = false;
};

struct rules {
    world about;
    wrongs wrong;
};

struct planned_step {
    call_step step;
    std::size_t element;
};

std::vector<planned_step> plan_of_call(const rules& chosen, std::size_t elements);
std::vector<planned_step> plan_of_group(const rules& chosen);

struct outcome {
    std::size_t states = 0;
    std::size_t images = 0;
    /// Length of the longest shortest path.
    std::size_t depth = 0;
    /// False if the limit of states ended the search.
    bool complete = false;
    /// What is wrong and the steps that lead there; empty if nothing.
    std::string violation;
    std::vector<std::string> path;
};

/// Breadth first, so the path to a violation is as short as possible.
outcome explore(const rules& chosen);

}  // namespace holdfast::model
