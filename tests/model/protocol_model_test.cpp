// The one-fence protocol holds in every world that the model explores, and every wrong variant is found.
//
// `--soak` adds the larger worlds. A world without a limit is explored completely; one with a limit of states is
// searched breadth first up to it. See docs/atomic-protocol.md. Worlds of groups: protocol_groups_test.cpp.
#include <cstring>

#include <gtest/gtest.h>

#include "model/scenario.hpp"

namespace holdfast::model {
namespace {

// --- worlds in which the protocol holds ---

class protocol_model : public testing::TestWithParam<scenario> {};

TEST_P(protocol_model, holds_in_every_state) {
    const scenario& each = GetParam();
    if (each.only_in_soak && !soak) {
        GTEST_SKIP() << "a larger world: --soak";
    }
    expect_right(each);
}

constexpr auto strict = program_moves::persist_both;
const std::vector<int> two_roots{0, 0};
const std::vector<int> two_roots_and_inner{0, 0, 1};
const std::vector<int> three_lines{1, 2, 3};

const scenario right[] = {
    {"a_root_and_a_destination_in_a_block", {.moves = strict, .drops = true}},
    {"two_roots_and_a_destination_in_a_block",
     {.holders = two_roots_and_inner, .lines = three_lines, .moves = strict, .drops = true, .reallocates = true}},
    {"emptied_words_not_persisted",
     {.holders = two_roots_and_inner, .lines = three_lines, .moves = program_moves::persist_new_only, .drops = true}},
    {"announcements_in_store_buffers",
     {.holders = two_roots_and_inner, .lines = three_lines, .moves = strict, .drops = true, .store_buffers = true}},
    {"roots_in_one_line",
     {.holders = two_roots_and_inner, .lines = {1, 1, 2}, .moves = strict, .drops = true, .store_buffers = true}},
    {"destinations_of_one_block_in_one_line",
     {.holders = {0, 1, 1}, .lines = {1, 2, 2}, .moves = strict, .drops = true}},
    {"rings_of_two", {.slots = 2, .holders = {0}, .lines = {1}, .store_buffers = true}},
    {"four_stamps_flushed_at_each_half",
     {.slots = 2, .holders = {0}, .lines = {1}, .stamps = 4, .flushes_at_half = true}},
    {"batches_into_one_line",
     {.slots = 2, .holders = two_roots, .lines = {1, 1}, .batches = true, .state_limit = 400'000}},
    {"batches_with_one_time_free_a_block_and_what_it_holds",
     {.slots = 2,
      .scribbles = true,
      .drops = true,
      .batches = true,
      .batches_have_one_time = true,
      .state_limit = 500'000}},
    {"block_reused_and_overwritten", {.moves = strict, .scribbles = true, .drops = true}},
    {"block_reused_and_overwritten_two_roots",
     {.holders = two_roots_and_inner, .lines = three_lines, .moves = strict, .scribbles = true, .drops = true}},
    {"page_cache",
     {.holders = two_roots_and_inner,
      .lines = three_lines,
      .moves = strict,
      .scribbles = true,
      .drops = true,
      .reallocates = true,
      .page_cache = true}},
    {"page_cache_batches",
     {.slots = 2,
      .holders = two_roots_and_inner,
      .lines = three_lines,
      .moves = strict,
      .scribbles = true,
      .drops = true,
      .batches = true,
      .page_cache = true}},
};
INSTANTIATE_TEST_SUITE_P(world, protocol_model, testing::ValuesIn(right), name_of);

const scenario right_and_large[] = {
    {"nothing_persisted_by_the_program",
     {.holders = two_roots_and_inner, .lines = three_lines, .moves = program_moves::persist_nothing, .drops = true},
     {},
     true},
    {"three_threads_two_roots", {.threads = 3, .holders = two_roots, .lines = {1, 2}}, {}, true},
    {"rings_of_two_and_two_roots", {.slots = 2, .holders = two_roots, .lines = {1, 2}}, {}, true},
    {"rings_of_two_batches", {.slots = 2, .holders = two_roots, .lines = {1, 2}, .batches = true}, {}, true},
    {"rings_of_two_four_stamps",
     {.slots = 2, .holders = two_roots, .lines = {1, 2}, .stamps = 4, .flushes_at_half = true},
     {},
     true},
    {"three_threads_reuse_and_overwrite", {.threads = 3, .moves = strict, .scribbles = true, .drops = true}, {}, true},
    {"rings_of_two_reuse_and_overwrite", {.slots = 2, .moves = strict, .scribbles = true, .drops = true}, {}, true},
    {"rings_of_two_four_stamps_and_reuse",
     {.slots = 2, .scribbles = true, .drops = true, .stamps = 4, .flushes_at_half = true},
     {},
     true},
    {"batches_with_one_time",
     {.slots = 2, .scribbles = true, .drops = true, .batches = true, .batches_have_one_time = true},
     {},
     true},
    {"three_threads_and_moves",
     {.threads = 3, .holders = two_roots_and_inner, .lines = three_lines, .moves = strict, .state_limit = 30'000'000},
     {},
     true},
    {"rings_of_two_and_moves",
     {.slots = 2, .holders = two_roots_and_inner, .lines = three_lines, .moves = strict, .state_limit = 30'000'000},
     {},
     true},
};
INSTANTIATE_TEST_SUITE_P(large_world, protocol_model, testing::ValuesIn(right_and_large), name_of);

// --- the protocol done wrong ---

class wrong_protocol : public testing::TestWithParam<scenario> {};

TEST_P(wrong_protocol, is_found_out) {
    const scenario& each = GetParam();
    if (each.only_in_soak && !soak) {
        GTEST_SKIP() << "needs a larger world: --soak";
    }
    expect_wrong(each);
}

const world small{.holders = two_roots, .lines = {1, 2}};
const world with_a_block_for_destinations{};
const world buffered{.holders = two_roots, .lines = {1, 2}, .store_buffers = true};
const world with_reuse{.slots = 2, .scribbles = true, .drops = true};

const scenario wrong[] = {
    {"fence_left_out", small, {.no_fence = true}},
    {"stamp_not_changed", small, {.stamp_unchanged = true}},
    {"checkpoint_ignores_calls_in_flight", small, {.checkpoint_ignores_calls_in_flight = true}},
    {"lines_chosen_before_the_announcements", small, {.lines_chosen_before_announcements = true}},
    {"replay_ignores_freed_holders", with_reuse, {.replay_ignores_freed_holders = true}},
    {"replay_ignores_freed_targets",
     {.holders = two_roots, .lines = {1, 2}, .moves = program_moves::persist_new_only},
     {.replay_ignores_freed_targets = true}},
    {"time_durable_before_the_lines", small, {.time_durable_before_lines = true}},
    {"lanes_replayed_without_sorting", small, {.lanes_not_sorted = true}},
    {"announced_after_the_timestamp", small, {.announced_after_timestamp = true}},
    {"timestamp_before_the_choice_of_block", small, {.timestamp_before_choice = true}},
    {"announcement_not_visible", buffered, {.no_membarrier = true}},
    {"blind_store_of_time_by_two_checkpoints",
     {.slots = 2, .holders = two_roots, .lines = {1, 2}},
     {.blind_store_of_time = true},
     true},
    {"slots_reused_before_time_is_durable", small, {.slots_reused_before_time_is_durable = true}},
    {"stores_before_the_fence", small, {.stores_before_fence = true}},
    {"freed_block_reused_before_its_stores", small, {.freed_block_reused_early = true}},
    {"recovery_sets_time_before_its_stores", small, {.recovery_sets_time_first = true}},
    {"stamps_wrap_without_flush", {.slots = 2, .holders = {0}, .lines = {1}, .stamps = 4}, {}},
    {"page_cache_record_after_stores",
     {.holders = two_roots, .lines = {1, 2}, .page_cache = true},
     {.record_after_stores = true}},
    {"program_copies_stamps",
     {.slots = 2, .holders = two_roots, .lines = {1, 2}, .moves = strict},
     {.program_copies_stamps = true}},
    {"program_does_not_initialise", with_a_block_for_destinations, {.program_does_not_initialise = true}},
    {"program_frees_a_holder_in_one_batch_with_what_it_holds",
     {.slots = 2, .scribbles = true, .drops = true, .batches = true},
     {.program_frees_holder_in_batch = true}},
    {"program_frees_before_it_persists",
     {.holders = two_roots, .lines = {1, 2}, .moves = program_moves::persist_new_only},
     {.program_frees_unpersisted = true}},
};
INSTANTIATE_TEST_SUITE_P(mistake, wrong_protocol, testing::ValuesIn(wrong), name_of);

}  // namespace
}  // namespace holdfast::model

int main(int count, char** arguments) {
    testing::InitGoogleTest(&count, arguments);
    for (int each = 1; each < count; ++each) {
        holdfast::model::soak = holdfast::model::soak || std::strcmp(arguments[each], "--soak") == 0;
    }
    return RUN_ALL_TESTS();
}
