// The log of commits (docs/decisions/0036-one-log.md), small enough to look at every state: writers by turns and a
// reader, each with private pages over one home; a log in a ring of slots, one record each; a superblock that says
// where the log begins. Any process may die and the power may fail at every step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::commit_log_model {

using byte = std::uint8_t;

inline constexpr int most_pages = 3;
inline constexpr int sectors = 2;
inline constexpr int most_slots = 3;
inline constexpr int most_records = 5;
inline constexpr int process_count = 3;
inline constexpr int reader = 2;  ///< the process that never takes the turn

/// Bounds, and what may happen.
struct world {
    int pages = 2;  ///< the first `used` of them hold data at first
    int used = 1;
    int slots = 3;    ///< of the log
    int records = 3;  ///< the longest history
    int appends = 3;  ///< of all histories
    int writers = 1;
    int readings = 0;  ///< how often the reader opens
    int power_losses = 1;
    int deaths = 0;  ///< of writers
    int failed_syncs = 0;
    int aborts = 0;
    int holes = 0;
    bool stores = true;             ///< commits that change a sector of a page
    bool frees = false;             ///< commits that free a page or use a free one
    bool direct = false;            ///< fresh pages may go home before their record
    bool drops = false;             ///< processes drop private pages that home has
    bool torn_deaths = false;       ///< a writer may die within an append
    std::uint64_t state_limit = 0;  ///< 0: explore all
};

/// What is done wrong.
enum class mistake : byte {
    none,
    home_before_record,
    home_beyond_reader,
    reuse_before_checkpoint,
    reuse_under_reader,
    begin_before_home_is_synced,
    checkpoint_leaves_out_a_page,
    base_too_new,
    abort_to_home,
    epoch_left_out,
    chain_left_out,
    tail_not_voided,
    no_revocation,
    drop_loses_store,
    direct_beside_reader,
    direct_not_synced,
    hole_under_reader,
    free_not_durable,
    readers_see_written,
    written_taken_for_durable,
    registered_too_late,
    failed_sync_believed,
    tail_not_written_again,
    pages_not_written_again,
};

struct outcome {
    std::uint64_t states = 0;
    std::uint64_t media = 0;  ///< what losses of power left, each once
    bool complete = false;    ///< nothing was left out
    std::string violation;    ///< empty: none
    std::vector<std::string> path;
};

[[nodiscard]] outcome explore(const world& about, mistake wrong);

}  // namespace holdfast::commit_log_model
