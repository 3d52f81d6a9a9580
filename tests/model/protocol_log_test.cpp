// Groups on the log of the domain `disk`: they hold in every world that the model explores, and every wrong variant is
// found. See docs/atomic-protocol.md, "On disks".
#include <gtest/gtest.h>

#include "model/scenario.hpp"

namespace holdfast::model {
namespace {

class log_model : public testing::TestWithParam<scenario> {};

TEST_P(log_model, holds_in_every_state) {
    const scenario& each = GetParam();
    if (each.only_in_soak && !soak) {
        GTEST_SKIP() << "a larger world: --soak";
    }
    expect_right(each);
}

const std::vector<content_kind> filled_before{content_kind::before_group};

/// Two threads that do the same, groups of two records, and a log of three blocks of two.
world on_log(world about) {
    about.slots = std::max(about.slots, 2);
    about.group_records = std::max<std::size_t>(about.group_records, 2);
    about.log_blocks = about.log_blocks == 0 ? 3 : about.log_blocks;
    about.threads_are_alike = true;
    return about;
}

const world two_words_on_log = on_log({.holders = {0, 0}, .lines = {1, 2}, .data_words = 3});

const scenario right_on_log[] = {
    {"log_two_words", two_words_on_log},
    {"log_two_words_in_one_line", on_log({.holders = {0, 0}, .lines = {1, 1}, .data_words = 3})},
    {"log_of_two_blocks_of_three",
     on_log({.slots = 3, .holders = {0, 0}, .lines = {1, 2}, .data_words = 3, .log_blocks = 2})},
    {"log_announcements_in_store_buffers",
     on_log({.holders = {0, 0}, .lines = {1, 2}, .store_buffers = true, .data_words = 3})},
    {"log_word_in_a_block_and_growth",
     on_log({.holders = {0, 1}, .lines = {1, 2}, .data_words = 2, .contents = filled_before, .grows = true})},
    {"log_destination_in_a_block",
     on_log({.holders = {0, 1}, .lines = {1, 2}, .drops = true, .contents = filled_before})},
    {"log_block_reused_and_overwritten",
     on_log({.holders = {0, 1},
             .lines = {1, 2},
             .scribbles = true,
             .data_words = 2,
             .contents = {content_kind::unfilled, content_kind::before_group, content_kind::in_group},
             .state_limit = 400'000})},
};
INSTANTIATE_TEST_SUITE_P(world, log_model, testing::ValuesIn(right_on_log), name_of);

const scenario right_on_large_logs[] = {
    {"log_of_three_blocks_of_three",
     on_log({.slots = 3, .holders = {0, 0}, .lines = {1, 2}, .data_words = 3}),
     {},
     true},
    {"log_of_three_threads",
     on_log({.threads = 3, .holders = {0, 0, 0}, .lines = {1, 2, 3}, .data_words = 7, .state_limit = 10'000'000}),
     {},
     true},
    {"log_moves_into_a_block",
     on_log({.holders = {0, 0, 1}, .lines = {1, 2, 3}, .contents = filled_before, .group_moves = true, .grows = true}),
     {},
     true},
};
INSTANTIATE_TEST_SUITE_P(large_world, log_model, testing::ValuesIn(right_on_large_logs), name_of);

class wrong_log : public testing::TestWithParam<scenario> {};

TEST_P(wrong_log, is_found_out) { expect_wrong(GetParam()); }

const world growing = on_log({.holders = {0}, .lines = {1}, .contents = filled_before, .grows = true});

const scenario mistaken_logs[] = {
    {"log_not_synced_before_the_acknowledgement", two_words_on_log, {.log_not_synced = true}},
    {"log_acknowledges_what_it_did_not_gather", two_words_on_log, {.log_acknowledges_what_it_did_not_gather = true}},
    {"log_reused_while_its_records_are_pending", two_words_on_log, {.log_reused_while_pending = true}},
    {"log_reused_before_time_is_durable", two_words_on_log, {.slots_reused_before_time_is_durable = true}},
    {"last_block_of_the_log_written_from_scratch", two_words_on_log, {.log_block_written_from_scratch = true}},
    {"room_in_the_log_claimed_in_flight", two_words_on_log, {.log_room_claimed_in_flight = true}},
    {"torn_records_of_the_log_count", two_words_on_log, {.torn_records_count = true}},
    {"half_a_group_on_the_log_counts", two_words_on_log, {.group_counts_per_record = true}},
    {"stores_before_the_log_is_written", two_words_on_log, {.stores_before_fence = true}},
    {"time_durable_before_the_segments", two_words_on_log, {.time_durable_before_lines = true}},
    {"checkpoint_ignores_groups_that_wait_for_the_log", two_words_on_log, {.checkpoint_ignores_calls_in_flight = true}},
    {"log_replayed_without_sorting", two_words_on_log, {.lanes_not_sorted = true}},
    {"records_name_space_before_it_is_durable", growing, {.growth_after_record = true}},
};
INSTANTIATE_TEST_SUITE_P(mistake, wrong_log, testing::ValuesIn(mistaken_logs), name_of);

}  // namespace
}  // namespace holdfast::model
