// The log of commits holds in every world that the model explores, and every mistake is found. `make verify` adds the
// large worlds. A world with a limit of states is searched breadth first up to it. Each test prints how many states and
// media it has seen.
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "model/commit_log/world.hpp"

namespace holdfast::commit_log_model {
namespace {

struct scenario {
    const char* name;
    world about;
    mistake wrong = mistake::none;
};

std::ostream& operator<<(std::ostream& stream, const scenario& each) { return stream << each.name; }
std::string name_of(const testing::TestParamInfo<scenario>& info) { return info.param.name; }

outcome explore_and_tell(const scenario& each) {
    outcome found = explore(each.about, each.wrong);
    testing::Test::RecordProperty("states", std::to_string(found.states));
    testing::Test::RecordProperty("media", std::to_string(found.media));
    std::printf("%s: %llu states, %llu media%s\n", each.name, static_cast<unsigned long long>(found.states),
                static_cast<unsigned long long>(found.media), found.complete ? ", all" : "");
    return found;
}

std::string path_of(const outcome& found) {
    std::string text = found.violation;
    for (const std::string& step : found.path) {
        text += "\n  " + step;
    }
    return text;
}

class commit_log_model : public testing::TestWithParam<scenario> {};
class commit_log_model_large : public commit_log_model {};

TEST_P(commit_log_model, holds_in_every_state) {
    const outcome found = explore_and_tell(GetParam());
    EXPECT_TRUE(found.violation.empty()) << path_of(found);
    EXPECT_TRUE(found.complete);
}

TEST_P(commit_log_model_large, holds_in_every_state) {
    const outcome found = explore_and_tell(GetParam());
    EXPECT_TRUE(found.violation.empty()) << path_of(found);
    EXPECT_TRUE(found.complete || GetParam().about.state_limit != 0);
}

const scenario right[] = {
    {"one_page", {}},
    {"two_pages", {.used = 2}},
    {"log_of_two_records", {.slots = 2, .records = 4, .appends = 4, .readings = 1}},
    {"reader", {.readings = 1, .drops = true}},
    {"reader_that_opens_again", {.pages = 1, .readings = 2}},
    {"aborts", {.readings = 1, .aborts = 1, .drops = true}},
    {"two_writers_and_two_losses_of_power", {.appends = 4, .writers = 2, .power_losses = 2}},
    {"two_writers_and_torn_appends", {.appends = 4, .writers = 2, .deaths = 1, .torn_deaths = true}},
    {"two_writers_and_a_reader", {.used = 2, .records = 2, .appends = 2, .writers = 2, .readings = 1, .drops = true}},
    {"failed_syncs", {.records = 2, .appends = 3, .writers = 2, .deaths = 2, .failed_syncs = 1}},
    {"fresh_pages", {.pages = 3, .used = 2, .frees = true, .direct = true}},
};
INSTANTIATE_TEST_SUITE_P(world, commit_log_model, testing::ValuesIn(right), name_of);

const scenario right_and_large[] = {
    {"holes_beside_a_reader", {.readings = 1, .holes = 1, .frees = true}},
    {"fresh_pages_beside_a_reader", {.readings = 1, .frees = true, .direct = true}},
    {"holes_and_fresh_pages_beside_a_reader", {.readings = 1, .holes = 1, .frees = true, .direct = true}},
    {"holes_and_fresh_pages", {.records = 4, .appends = 4, .holes = 1, .frees = true, .direct = true}},
    {"failed_syncs_and_fresh_pages", {.deaths = 1, .failed_syncs = 1, .frees = true, .direct = true}},
    {"deaths_beside_a_reader", {.pages = 1, .writers = 2, .readings = 1, .deaths = 1}},
    {"two_writers_and_a_reader_of_two_pages",
     {.used = 2, .writers = 2, .readings = 1, .drops = true, .state_limit = 8'000'000}},
    {"everything",
     {.pages = 3,
      .used = 2,
      .slots = 2,
      .records = 4,
      .appends = 5,
      .writers = 2,
      .readings = 1,
      .power_losses = 2,
      .deaths = 1,
      .failed_syncs = 1,
      .aborts = 1,
      .holes = 1,
      .frees = true,
      .direct = true,
      .drops = true,
      .torn_deaths = true,
      .state_limit = 20'000'000}},
};
INSTANTIATE_TEST_SUITE_P(large_world, commit_log_model_large, testing::ValuesIn(right_and_large), name_of);

class wrong_commit_log : public testing::TestWithParam<scenario> {};

TEST_P(wrong_commit_log, is_found_out) {
    const outcome found = explore_and_tell(GetParam());
    EXPECT_FALSE(found.violation.empty());
    std::printf("%s\n", path_of(found).c_str());
}

constexpr world torn_tails{.records = 2, .power_losses = 0, .deaths = 2, .torn_deaths = true};
constexpr world failing{.records = 2, .deaths = 1, .failed_syncs = 1};
constexpr world reused{.frees = true, .direct = true};

const scenario wrong[] = {
    {"home_before_record", {}, mistake::home_before_record},
    {"home_beyond_a_reader", {.readings = 1}, mistake::home_beyond_reader},
    {"reuse_before_checkpoint", {.slots = 2}, mistake::reuse_before_checkpoint},
    {"reuse_under_a_reader", {.slots = 2, .readings = 1}, mistake::reuse_under_reader},
    {"begin_before_home_is_synced", {}, mistake::begin_before_home_is_synced},
    {"checkpoint_leaves_out_a_page", {}, mistake::checkpoint_leaves_out_a_page},
    {"base_of_a_difference_too_new", {.aborts = 1}, mistake::base_too_new},
    {"abort_to_what_home_has", {.aborts = 1}, mistake::abort_to_home},
    {"epoch_left_out", {.records = 2, .power_losses = 2}, mistake::epoch_left_out},
    {"epoch_left_out_behind_a_dead_writer", torn_tails, mistake::epoch_left_out},
    {"chain_left_out", {.records = 2, .power_losses = 2}, mistake::chain_left_out},
    {"tail_not_voided", {.records = 2, .power_losses = 2}, mistake::tail_not_voided},
    {"tail_not_voided_behind_a_dead_writer",
     {.records = 2, .deaths = 1, .torn_deaths = true},
     mistake::tail_not_voided},
    {"chain_left_out_behind_a_dead_writer", torn_tails, mistake::chain_left_out},
    {"freed_reused_written_home_without_revocation",
     {.records = 4, .appends = 4, .frees = true, .direct = true},
     mistake::no_revocation},
    {"dropped_page_loses_a_store", {.drops = true}, mistake::drop_loses_store},
    {"written_directly_beside_a_reader",
     {.used = 2, .readings = 1, .frees = true, .direct = true},
     mistake::direct_beside_reader},
    {"written_directly_and_not_synced", reused, mistake::direct_not_synced},
    {"punched_under_a_reader", {.readings = 1, .holes = 1, .frees = true}, mistake::hole_under_reader},
    {"free_that_is_not_durable", reused, mistake::free_not_durable},
    {"hole_behind_a_free_that_is_not_durable", {.holes = 1, .frees = true}, mistake::free_not_durable},
    {"reader_sees_written", {.readings = 1}, mistake::readers_see_written},
    {"written_taken_for_durable", {.deaths = 1}, mistake::written_taken_for_durable},
    {"registered_too_late", {.readings = 1}, mistake::registered_too_late},
    {"failed_sync_believed", {.records = 2, .failed_syncs = 1}, mistake::failed_sync_believed},
    {"tail_not_written_again_after_a_failed_sync", failing, mistake::tail_not_written_again},
    {"pages_not_written_again_after_a_failed_sync", failing, mistake::pages_not_written_again},
};
INSTANTIATE_TEST_SUITE_P(mistake, wrong_commit_log, testing::ValuesIn(wrong), name_of);

}  // namespace
}  // namespace holdfast::commit_log_model
