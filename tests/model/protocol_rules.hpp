// What a run of the model is about: its bounds, what the program does, and the rules, right or wrong, that it follows.
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
    persist_new_only,  ///< the emptied word is never persisted
    persist_nothing,
};

/// How large the world is and what the program in it does.
struct world {
    int threads = 2;
    int slots = 1;
    /// For each destination: the block it lies in, 0 for a root; and its line (1 or more).
    std::vector<int> holders{0, 1};
    std::vector<int> lines{1, 2};
    program_moves moves = program_moves::none;
    /// A block is filled with data instead of destinations, with bytes that look like pointers with old stamps.
    bool scribbles = false;
    /// A block is freed while the destinations inside it still point somewhere.
    bool drops = false;
    bool reallocates = false;
    bool batches = false;
    /// The records of a batch bear one time, and a batch may free a block together with what it points to.
    bool batches_have_one_time = false;
    /// An announcement may stay in its thread's store buffer until that thread's next fence.
    bool store_buffers = false;
    /// What is stored survives; a crash ends the processes only.
    bool page_cache = false;
    int stamps = max_stamps;
    /// Rule 5: where a stamp passes a multiple of half the number of stamps, the destination is flushed first.
    bool flushes_at_half = false;
    /// 0: until every state was seen.
    std::size_t state_limit = 0;
};

/// The steps of a call. `boundary` ends what other threads cannot observe, or cannot tell from a later time.
enum class call_step : byte { choose, announce, time, write, fence, destination, bits, finish, boundary };

/// What is done wrong; everything false is the protocol.
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
    // The program's promises, broken.
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

/// The steps of a call under these rules, for a batch of so many elements.
std::vector<planned_step> plan_of_call(const rules& chosen, std::size_t elements);

struct outcome {
    std::size_t states = 0;
    std::size_t images = 0;
    /// Steps of the longest shortest path: how far the search went.
    std::size_t depth = 0;
    /// False where the limit of states ended the search.
    bool complete = false;
    /// Empty: nothing is wrong. Else what is, and the steps that lead there.
    std::string violation;
    std::vector<std::string> path;
};

/// Breadth first, so a path to a violation is as short as any.
outcome explore(const rules& chosen);

}  // namespace holdfast::model
