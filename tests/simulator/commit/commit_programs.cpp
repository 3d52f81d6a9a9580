#include "simulator/commit/commit_scenarios.hpp"

namespace holdfast::simulator {

namespace {

using segment::objects_file_id;

constexpr std::uint64_t small_segment = segment::minimum_segment_size;  // 512 user pages, then metadata pages 512 to
                                                                        // 521
constexpr std::uint64_t large_segment = 2 * small_segment;

/// As the heap layer creates: one region, a few metadata pages, one page of objects.
model_step creation() { return {pages(0, {0}) + pages(objects_file_id, {1}), 1, 65536, false}; }

model_step change(std::vector<page_place> dirty) { return {std::move(dirty), 0, 0, false, {}, 0}; }
model_step closing(std::vector<page_place> dirty) { return {std::move(dirty), 0, 0, true, {}, 0}; }
model_step growing(std::vector<page_place> dirty) { return {std::move(dirty), 1, 0, false, {}, 0}; }
/// A commit that gives space back.
model_step giving(std::vector<page_place> dirty, std::vector<page_place> holes, std::uint64_t lower, bool close) {
    return {std::move(dirty), 0, 0, close, std::move(holes), lower};
}

std::vector<commit_scenario> scenarios_of_space() {
    std::vector<commit_scenario> all;
    const model_step begin{pages(0, {0, 1, 5}) + pages(objects_file_id, {1}), 1, 65536, false, {}, 0};
    all.push_back({"holes_that_are_used_again",
                   small_segment,
                   {begin, giving(pages(0, {0}), pages(0, {1, 5}), 0, false), change(pages(0, {1, 9}))},
                   1});
    all.push_back(
        {"holes_and_a_close", small_segment, {begin, giving({}, pages(0, {5}), 0, true), change(pages(0, {5}))}, 1});
    // The log goes on to have what the page was before it became a hole (LOG-10).
    all.push_back(
        {"pages_go_home_that_the_log_has",
         small_segment,
         {begin, change(pages(0, {5})), giving({}, pages(0, {0, 1, 5}), 0, false), change(pages(0, {0, 1, 5}))},
         1});
    // The log goes on to have what pages were before the heap ended below them, and comes again without them.
    all.push_back({"a_segment_goes_that_a_long_log_has",
                   small_segment,
                   {begin, growing(pages(1, {0, 10})), change(pages(0, {1}) + pages(1, {0, 9, 10})),
                    giving(pages(0, {1}), {}, 1, false), growing(pages(1, {3})), change(pages(0, {0}))},
                   2,
                   model_log::of_many_commits});
    all.push_back({"holes_beside_what_is_kept",
                   small_segment,
                   {begin, giving(pages(0, {0}), pages(0, {1, 5}), 0, false), change(pages(0, {0, 1})),
                    giving(pages(0, {0}), pages(0, {1}), 0, false), change(pages(0, {0, 1, 5}))},
                   2});
    all.push_back({"a_segment_goes_and_comes_again",
                   small_segment,
                   {begin, growing(pages(1, {0, 10, 513})), giving(pages(0, {1}), pages(0, {5}), 1, false),
                    growing(pages(1, {10}))},
                   2});
    all.push_back({"a_segment_that_is_home_and_not_synced_goes",
                   small_segment,
                   {begin, growing(pages(1, {0, 10})), change(pages(0, {1}) + pages(1, {0, 10})),
                    giving(pages(0, {1}), {}, 1, true), growing({})},
                   2});
    all.push_back({"a_segment_goes_and_the_heap_is_closed",
                   small_segment,
                   {begin, growing(pages(1, {0, 10})), giving({}, {}, 1, true), growing({})},
                   2});
    all.push_back({"the_end_moves_within_a_segment",
                   large_segment,
                   {begin, growing(pages(0, {600, 700})), giving(pages(0, {1}), {}, 1, false), growing(pages(0, {650})),
                    giving({}, pages(0, {5}), 1, true)},
                   2});
    all.push_back({"the_end_moves_and_the_heap_is_closed",
                   large_segment,
                   {begin, growing(pages(0, {600, 700})), giving({}, {}, 1, true), growing(pages(0, {1}))},
                   2});
    return all;
}

model_step beside(const std::string& readers, model_step step) {
    step.readers = readers;
    return step;
}

/// Home waits for readers, and goes on behind them.
std::vector<commit_scenario> scenarios_of_readers() {
    std::vector<commit_scenario> all;
    const model_step begin{pages(0, {0, 1, 5}) + pages(objects_file_id, {1}), 1, 65536, false, {}, 0};
    all.push_back({"a_reader_stays",
                   small_segment,
                   {begin, beside("o", change(pages(0, {0, 1}))), change(pages(0, {1})), change(pages(0, {0, 5}))},
                   1});
    all.push_back({"a_reader_follows",
                   small_segment,
                   {begin, beside("o", change(pages(0, {0, 1}))), beside("r", change(pages(0, {1, 5}))),
                    beside("r", change(pages(0, {1}))), beside("r", change(pages(0, {0, 1})))},
                   1});
    all.push_back({"readers_of_two_versions",
                   small_segment,
                   {begin, beside("o", change(pages(0, {0, 1}))), beside("o", change(pages(0, {1, 5}))),
                    beside("r", change(pages(0, {0}))), beside("a", change(pages(0, {0, 5})))},
                   1});
    all.push_back({"a_reader_leaves",
                   small_segment,
                   {begin, beside("o", change(pages(0, {0}))), beside("l", change(pages(0, {1}))), closing({})},
                   1});
    all.push_back({"a_heap_grows_beside_a_reader",
                   small_segment,
                   {begin, beside("o", growing(pages(0, {1}) + pages(1, {0, 10}))), change(pages(1, {0, 3})),
                    beside("r", change(pages(1, {10}))), beside("r", change(pages(0, {0})))},
                   1});
    return all;
}

model_step staying(model_step step) {
    step.stays = true;
    return step;
}

model_step appended(model_step step, bool goes_home = false) {
    step.waits = true;
    step.goes_home = goes_home;
    return staying(std::move(step));
}

model_step left(model_step step) {
    step.is_left = true;
    return appended(std::move(step));
}

/// Pages of small commits go home together.
std::vector<commit_scenario> scenarios_of_pages_that_stay() {
    std::vector<commit_scenario> all;
    const model_step begin{pages(0, {0, 1, 5}) + pages(objects_file_id, {1}), 1, 65536, false, {}, 0};
    all.push_back({"pages_stay_behind",
                   small_segment,
                   {begin, staying(change(pages(0, {0, 1}))), staying(change(pages(0, {1}))), change(pages(0, {5})),
                    staying(change(pages(0, {1})))},
                   1});
    all.push_back({"pages_stay_behind_and_are_too_many",
                   small_segment,
                   {begin, staying(change(pages(0, {0}))), staying(change(pages(0, {1, 5}))),
                    staying(change(pages(0, {0}))), staying(change(pages(0, {5})))},
                   1});
    all.push_back({"pages_stay_behind_and_the_heap_is_closed",
                   small_segment,
                   {begin, staying(change(pages(0, {0, 1}))), closing(pages(0, {1})), staying(change(pages(0, {5})))},
                   1});
    all.push_back({"pages_stay_behind_and_the_heap_grows",
                   small_segment,
                   {begin, staying(change(pages(0, {0, 1}))), growing(pages(0, {1}) + pages(1, {0, 10})),
                    staying(change(pages(1, {0}))), staying(change(pages(0, {0})))},
                   1});
    all.push_back({"pages_stay_behind_and_become_holes",
                   large_segment,
                   {begin, staying(change(pages(0, {1, 5}))), giving({}, pages(0, {5}), 0, false),
                    staying(change(pages(0, {5}))), staying(change(pages(0, {1, 5})))},
                   1});
    all.push_back({"others_wait_for_records",
                   small_segment,
                   {begin, appended(change(pages(0, {0, 1}))), appended(change(pages(0, {1}))),
                    appended(change(pages(0, {1, 5})), true), change(pages(0, {0}))},
                   1});
    all.push_back({"records_are_written_together",
                   small_segment,
                   {begin, left(change(pages(0, {0, 1}))), left(change(pages(0, {1}))), left(change(pages(0, {0, 5}))),
                    appended(change(pages(0, {0}))), appended(change(pages(0, {1})))},
                   1});
    all.push_back({"others_wait_for_records_beside_a_reader",
                   small_segment,
                   {begin, appended(change(pages(0, {0, 1}))), beside("o", change(pages(0, {1}))),
                    beside("l", appended(change(pages(0, {0})), true)), beside("o", change(pages(0, {5})))},
                   1});
    all.push_back({"pages_stay_behind_and_a_reader_comes",
                   small_segment,
                   {begin, staying(change(pages(0, {0, 1}))), beside("o", staying(change(pages(0, {1})))),
                    beside("r", change(pages(0, {5}))), beside("l", staying(change(pages(0, {0}))))},
                   1});
    return all;
}

}  // namespace

std::vector<commit_scenario> make_scenarios() {
    std::vector<commit_scenario> all;
    all.push_back({"creation", small_segment, {creation()}, 0});
    all.push_back({"creation_large",
                   small_segment,
                   {{pages(0, {0, 1, 5, 512, 513}) + pages(objects_file_id, {1, 2}), 1, 65536, false}},
                   0});
    all.push_back({"first_commit", small_segment, {creation(), change(pages(0, {0}))}, 1});
    all.push_back({"empty_commit", small_segment, {creation(), change({}), change({})}, 1});
    all.push_back({"page_rewritten",
                   small_segment,
                   {creation(), change(pages(0, {0})), change(pages(0, {0})), change(pages(0, {0}))},
                   1});
    all.push_back({"pages_rewritten",
                   small_segment,
                   {{pages(0, {0, 1, 5, 512, 513}) + pages(objects_file_id, {1}), 1, 65536, false},
                    change(pages(0, {0, 5, 512})),
                    change(pages(0, {1, 5, 513}))},
                   1});
    all.push_back({"journal_shrinks_and_grows",
                   small_segment,
                   {creation(), change(pages(0, {0, 1, 2, 3})), change(pages(0, {1})), change(pages(0, {2, 3, 7}))},
                   1});
    all.push_back({"user_metadata_and_objects",
                   small_segment,
                   {creation(), change(pages(0, {3, 4, 512, 521}) + pages(objects_file_id, {1})),
                    change(pages(0, {3, 520}) + pages(objects_file_id, {2}))},
                   1});
    all.push_back({"growth_by_a_segment",
                   small_segment,
                   {creation(),
                    {pages(0, {1, 513}) + pages(1, {0, 10, 513}), 1, 0, false},
                    change(pages(0, {2}) + pages(1, {0}))},
                   1});
    all.push_back({"growth_that_touches_nothing",
                   small_segment,
                   {creation(), {pages(0, {1}), 1, 0, false}, change(pages(0, {2}))},
                   1});
    all.push_back({"growth_within_a_segment",
                   large_segment,
                   {creation(), {pages(0, {1, 513, 600}), 1, 0, false}, change(pages(0, {600, 2}))},
                   1});
    all.push_back(
        {"objects_grow",
         small_segment,
         {creation(), {pages(objects_file_id, {1, 17}), 0, 65536, false}, change(pages(objects_file_id, {17}))},
         1});
    all.push_back({"objects_grow_untouched",
                   small_segment,
                   {creation(), {pages(0, {1}), 0, 65536, false}, change(pages(0, {1}))},
                   1});
    all.push_back({"close", small_segment, {creation(), closing(pages(0, {1}))}, 1});
    all.push_back({"close_and_go_on",
                   small_segment,
                   {creation(), closing(pages(0, {1})), change(pages(0, {1, 2})), closing({}), change(pages(0, {3}))},
                   1});
    for (const auto& more : {scenarios_of_space(), scenarios_of_readers(), scenarios_of_pages_that_stay()}) {
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

}  // namespace holdfast::simulator
