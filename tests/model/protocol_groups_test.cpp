// Groups hold in every world that the model explores, and every wrong variant is found. See docs/atomic-protocol.md,
// "Groups".
#include <algorithm>

#include <gtest/gtest.h>

#include "model/scenario.hpp"

namespace holdfast::model {
namespace {

class group_model : public testing::TestWithParam<scenario> {};

TEST_P(group_model, holds_in_every_state) {
    const scenario& each = GetParam();
    if (each.only_in_soak && !soak) {
        GTEST_SKIP() << "a larger world: --soak";
    }
    expect_right(each);
}

const std::vector<content_kind> before{content_kind::before_group};
const std::vector<content_kind> within{content_kind::in_group};
const std::vector<content_kind> filled{content_kind::before_group, content_kind::in_group};
const std::vector<content_kind> any{content_kind::unfilled, content_kind::before_group, content_kind::in_group};

/// Two threads that do the same, and groups of two records.
world groups_in(world about) {
    about.slots = std::max(about.slots, 2);
    about.group_records = std::max<std::size_t>(about.group_records, 2);
    about.threads_are_alike = true;
    return about;
}

const scenario right_groups[] = {
    {"groups_two_words", groups_in({.holders = {0, 0}, .lines = {1, 2}, .data_words = 3})},
    {"groups_two_words_in_one_line", groups_in({.holders = {0, 0}, .lines = {1, 1}, .data_words = 3})},
    {"groups_rings_of_three",
     groups_in({.slots = 3, .holders = {0, 0}, .lines = {1, 1}, .data_words = 3, .state_limit = 300'000})},
    {"groups_and_stores_by_the_program",
     groups_in({.holders = {0, 0}, .lines = {1, 2}, .data_words = 3, .raw_stores = true})},
    {"groups_word_in_a_block", groups_in({.holders = {0, 1}, .lines = {1, 2}, .data_words = 2, .contents = filled})},
    {"groups_two_words_in_a_block",
     groups_in({.holders = {0, 1, 1}, .lines = {1, 2, 3}, .data_words = 6, .contents = before})},
    {"groups_two_words_in_a_block_in_one_line",
     groups_in({.holders = {0, 1, 1}, .lines = {1, 2, 2}, .data_words = 6, .contents = before})},
    {"groups_of_three_fill_a_block", groups_in({.slots = 3,
                                                .holders = {0, 1, 1},
                                                .lines = {1, 2, 2},
                                                .group_records = 3,
                                                .data_words = 6,
                                                .contents = within,
                                                .state_limit = 300'000})},
    {"groups_block_reused_and_overwritten",
     groups_in({.holders = {0, 1}, .lines = {1, 2}, .scribbles = true, .data_words = 2, .contents = any})},
    {"groups_word_and_a_word_in_a_block",
     groups_in({.holders = {0, 0, 1}, .lines = {1, 2, 3}, .data_words = 6, .contents = filled})},
    {"groups_move_pointers", groups_in({.holders = {0, 0}, .lines = {1, 2}, .contents = before, .group_moves = true})},
    {"groups_and_moves_by_the_program", groups_in({.threads = 1,
                                                   .holders = {0, 0},
                                                   .lines = {1, 2},
                                                   .contents = before,
                                                   .group_moves = true,
                                                   .raw_stores = true})},
    {"groups_destination_in_a_block",
     groups_in({.holders = {0, 1}, .lines = {1, 2}, .drops = true, .contents = filled})},
    {"groups_destination_in_a_block_overwritten",
     groups_in({.holders = {0, 1}, .lines = {1, 2}, .scribbles = true, .drops = true, .contents = any})},
    {"groups_destination_and_word_in_a_block",
     groups_in({.holders = {0, 1, 1}, .lines = {1, 2, 2}, .data_words = 4, .contents = before})},
    {"groups_page_cache", groups_in({.holders = {0, 0, 1},
                                     .lines = {1, 2, 3},
                                     .scribbles = true,
                                     .page_cache = true,
                                     .data_words = 6,
                                     .contents = any,
                                     .raw_stores = true})},
    {"groups_page_cache_and_moves", groups_in({.holders = {0, 0, 1},
                                               .lines = {1, 2, 3},
                                               .scribbles = true,
                                               .drops = true,
                                               .page_cache = true,
                                               .contents = any,
                                               .group_moves = true,
                                               .raw_stores = true})},
};
INSTANTIATE_TEST_SUITE_P(world, group_model, testing::ValuesIn(right_groups), name_of);

const scenario right_and_large_groups[] = {
    {"groups_two_roots", groups_in({.holders = {0, 0}, .lines = {1, 2}, .contents = before}), {}, true},
    {"groups_two_roots_and_a_word_in_a_block",
     groups_in({.holders = {0, 0, 1}, .lines = {1, 2, 3}, .data_words = 4, .contents = filled}),
     {},
     true},
    {"groups_move_into_a_block",
     groups_in({.holders = {0, 0, 1}, .lines = {1, 2, 3}, .contents = filled, .group_moves = true}),
     {},
     true},
    {"groups_and_moves_by_the_program_two_threads",
     groups_in({.holders = {0, 0}, .lines = {1, 2}, .contents = before, .group_moves = true, .raw_stores = true}),
     {},
     true},
    {"groups_word_and_a_destination_in_a_block",
     groups_in({.holders = {0, 0, 1}, .lines = {1, 2, 3}, .drops = true, .data_words = 2, .contents = filled}),
     {},
     true},
    {"groups_two_words_in_a_block_overwritten",
     groups_in({.holders = {0, 1, 1}, .lines = {1, 2, 2}, .scribbles = true, .data_words = 6, .contents = any}),
     {},
     true},
    {"groups_moves_copy_stamps",
     groups_in(
         {.holders = {0, 0}, .lines = {1, 2}, .contents = before, .group_moves = true, .moves_copy_stamps = true}),
     {},
     true},
    {"groups_rings_of_three_complete",
     groups_in({.slots = 3, .holders = {0, 0}, .lines = {1, 1}, .data_words = 3}),
     {},
     true},
    {"groups_of_three_fill_a_block_complete",
     groups_in({.slots = 3,
                .holders = {0, 1, 1},
                .lines = {1, 2, 2},
                .group_records = 3,
                .data_words = 6,
                .contents = within}),
     {},
     true},
    {"groups_rings_of_three_and_a_block",
     groups_in({.slots = 3, .holders = {0, 1}, .lines = {1, 2}, .data_words = 2, .contents = filled}),
     {},
     true},
    {"groups_three_threads",
     groups_in({.threads = 3, .holders = {0, 0}, .lines = {1, 2}, .data_words = 3, .state_limit = 10'000'000}),
     {},
     true},
};
INSTANTIATE_TEST_SUITE_P(large_world, group_model, testing::ValuesIn(right_and_large_groups), name_of);

class wrong_groups : public testing::TestWithParam<scenario> {};

TEST_P(wrong_groups, are_found_out) { expect_wrong(GetParam()); }

const world two_words{.slots = 2, .holders = {0, 0}, .lines = {1, 2}, .group_records = 2, .data_words = 3};
const world word_in_block{
    .slots = 2, .holders = {0, 1}, .lines = {1, 2}, .group_records = 2, .data_words = 2, .contents = filled};
const world pointer_in_block{
    .slots = 2, .holders = {0, 1}, .lines = {1, 2}, .drops = true, .group_records = 2, .contents = within};
const world pointer_in_filled_block{
    .slots = 2, .holders = {0, 1}, .lines = {1, 2}, .drops = true, .group_records = 2, .contents = before};
const world moves{
    .slots = 2, .holders = {0, 0}, .lines = {1, 2}, .group_records = 2, .contents = before, .group_moves = true};
const world moves_with_stamps{.slots = 2,
                              .holders = {0, 0},
                              .lines = {1, 2},
                              .group_records = 2,
                              .contents = before,
                              .group_moves = true,
                              .moves_copy_stamps = true};

const scenario mistaken_groups[] = {
    {"group_counts_per_record", two_words, {.group_counts_per_record = true}},
    {"group_number_not_checked", two_words, {.group_number_not_checked = true}},
    {"older_records_count_as_members", two_words, {.older_records_count_as_members = true}},
    {"words_of_freed_blocks_written", word_in_block, {.replay_writes_into_freed_blocks = true}},
    {"groups_replayed_without_sorting", two_words, {.lanes_not_sorted = true}},
    {"data_stored_before_the_fence", two_words, {.stores_before_fence = true}},
    {"checkpoint_flushes_no_data", two_words, {.checkpoint_flushes_no_data = true}},
    {"time_durable_before_the_data", two_words, {.time_durable_before_lines = true}},
    {"checkpoint_ignores_groups_in_flight", two_words, {.checkpoint_ignores_calls_in_flight = true}},
    {"slots_of_groups_reused_before_time_is_durable", two_words, {.slots_reused_before_time_is_durable = true}},
    {"content_neither_in_the_group_nor_fenced", word_in_block, {.new_content_not_fenced = true}},
    {"time_before_the_lock", two_words, {.time_before_lock = true}},
    {"freed_holders_ignored_by_groups", pointer_in_filled_block, {.replay_ignores_freed_holders = true}},
    {"destination_written_after_a_newer_group", moves, {.data_does_not_decide_destinations = true}},
    {"stamps_decide_after_data", pointer_in_block, {.stamps_decide_after_data = true}},
    {"stamps_decide_after_copied_stamps", moves_with_stamps, {.stamps_decide_after_data = true}},
    {"unlocked_before_the_stores", two_words, {.unlocked_before_stores = true}},
    {"page_cache_unlocked_before_complete",
     {.slots = 2, .holders = {0, 0}, .lines = {1, 2}, .page_cache = true, .group_records = 2, .data_words = 3},
     {.unlocked_before_complete = true}},
    {"program_stores_to_words_of_pending_groups",
     {.slots = 2, .holders = {0, 0}, .lines = {1, 2}, .group_records = 2, .data_words = 3, .raw_stores = true},
     {.program_stores_to_pending_words = true}},
    {"program_moves_pointers_of_pending_groups",
     {.slots = 2,
      .holders = {0, 0},
      .lines = {1, 2},
      .group_records = 2,
      .contents = before,
      .group_moves = true,
      .raw_stores = true},
     {.program_stores_to_pending_words = true}},
};
INSTANTIATE_TEST_SUITE_P(mistake, wrong_groups, testing::ValuesIn(mistaken_groups), name_of);

}  // namespace
}  // namespace holdfast::model
