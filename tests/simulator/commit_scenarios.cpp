#include "simulator/commit_scenarios.hpp"

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "segment/journal_format.hpp"

namespace holdfast::simulator {

namespace {

using segment::objects_file_id;

constexpr std::uint64_t small_segment = segment::minimum_segment_size;  // 512 user pages, metadata pages 512 to 521
constexpr std::uint64_t large_segment = 2 * small_segment;

std::vector<page_place> pages(std::uint64_t file, std::initializer_list<std::uint64_t> list) {
    std::vector<page_place> places;
    for (const std::uint64_t page : list) {
        places.emplace_back(file, page);
    }
    return places;
}

std::vector<page_place> operator+(std::vector<page_place> a, const std::vector<page_place>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// Creation as the heap layer does it: one region, a few metadata pages, one page of objects.
model_step creation() { return {pages(0, {0}) + pages(objects_file_id, {1}), 1, 65536, false}; }

model_step change(std::vector<page_place> dirty) { return {std::move(dirty), 0, 0, false}; }
model_step closing(std::vector<page_place> dirty) { return {std::move(dirty), 0, 0, true}; }

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
    return all;
}

/// All states that a scenario and the sessions after its crashes may commit. Their ids are what the explorer calls
/// states.
class state_book {
public:
    explicit state_book(const commit_scenario& one) : program_(one.program) {
        states_.push_back(model_state::none(one.segment_size));
        for (const model_step& step : program_) {
            note(step);
            states_.push_back(states_.back().after(step));
        }
        for (const model_step& step : later_steps()) {
            note(step);
        }
    }

    [[nodiscard]] const model_state& operator[](std::uint64_t id) const { return states_[id]; }
    [[nodiscard]] const std::set<page_place>& places() const { return places_; }
    [[nodiscard]] const std::vector<model_step>& program() const { return program_; }

    /// The steps that a session after a crash may take.
    static const std::vector<model_step>& later_steps() {
        static const std::vector<model_step> steps{
            {pages(0, {0, 9, 513}) + pages(objects_file_id, {1}), 0, 0, false},
            {pages(0, {1}), 1, 65536, true},
            {pages(0, {9}), 0, 0, true},
        };
        return steps;
    }
    /// The state after later_steps()[step] on top of `id`.
    std::uint64_t later(std::uint64_t id, std::size_t step) {
        const auto [found, is_new] = later_.try_emplace({id, step}, states_.size());
        if (is_new) {
            states_.push_back(states_[id].after(later_steps()[step]));
        }
        return found->second;
    }

    hash_set used;            ///< what recovery left, and a session went on with
    std::uint64_t turns = 0;  ///< what these sessions do goes round

private:
    void note(const model_step& step) { places_.insert(step.dirty.begin(), step.dirty.end()); }

    std::vector<model_step> program_;
    std::deque<model_state> states_;
    std::map<std::pair<std::uint64_t, std::size_t>, std::uint64_t> later_;
    std::set<page_place> places_;
};

base::result<void> run_step(model_heap& heap, const state_book& book, std::uint64_t step) {
    segment::transaction_report report;
    return step == 0 ? heap.create(book.program()[0], book[1])
                     : heap.commit(book.program()[step], book[step + 1], report);
}

std::string run_program(simulated_storage& storage, crash_explorer<simulated_storage>::timeline& marks,
                        const commit_scenario& one, const state_book& book) {
    model_heap heap(storage, book[one.first_cut]);
    for (std::uint64_t step = one.first_cut; step < one.program.size(); ++step) {
        marks.begins(step + 1);
        if (const auto done = run_step(heap, book, step); !done) {
            return "step " + std::to_string(step) + ": " + done.error().message();
        }
        marks.returned(step + 1);
    }
    return {};
}

using commit_trial = crash_explorer<simulated_storage>::trial;

/// The session after the crash: a writer removes what was left behind, and closes, or commits and so on. Cut off as
/// well.
std::string go_on(commit_trial& trial, state_book& book, std::uint64_t id, const segment::superblock_on_media* found) {
    auto& storage = trial.device();
    trial.go_on();
    const std::uint64_t turn = book.turns++;
    model_heap heap(storage, book[id], found);
    if (id == 0) {
        trial.begins(1);
        const auto done = heap.create(book.program()[0], book[1]);
        trial.returned(1);
        return done ? std::string{} : "create after the crash: " + done.error().message();
    }
    if (const auto done = heap.remove_leftovers(); !done) {
        return "open after the crash: " + done.error().message();
    }
    const std::size_t step = turn % (state_book::later_steps().size() + 1);
    if (step == state_book::later_steps().size()) {
        const auto done = heap.close();
        return done ? std::string{} : "close after the crash: " + done.error().message();
    }
    const std::uint64_t next = book.later(id, step);
    trial.begins(next);
    segment::transaction_report report;
    if (const auto done = heap.commit(state_book::later_steps()[step], book[next], report); !done) {
        return "commit after the crash: " + done.error().message();
    }
    trial.returned(next);
    return {};
}

/// Whether a session shall go on from here: once for all that differs in more than the content of a journal that nobody
/// will read again, and now and then for the others.
bool is_worth_using(const simulated_storage& storage, state_book& book, std::uint64_t id,
                    std::string_view journal_kind) {
    const std::string journal = segment::heap_paths{model_heap::directory}.journal();
    const std::uint64_t state = storage.current().hash_without(journal);
    return book.used.insert(mix(mix(state, id), std::hash<std::string_view>{}(journal_kind))) || state % 64 == 0;
}

std::string judge(commit_trial& trial, state_book& book) {
    auto& storage = trial.device();
    const expectation expected = trial.expected();
    const segment::heap_paths paths{model_heap::directory};
    const auto recovered = segment::recover(storage, paths, persist::access_mode::read_write);
    if (!recovered) {
        const bool no_heap = expected.oldest == 0 && recovered.error().code == base::failure_code::missing &&
                             recovered.error().path == paths.superblock();
        if (!no_heap) {
            return recovered.error().message();
        }
        trial.recovered(0);
        return is_worth_using(storage, book, 0, "none") ? go_on(trial, book, 0, nullptr) : std::string{};
    }
    const auto& superblock = recovered->superblock;
    std::uint64_t id = expected.newest;
    if (book[id].superblock.sequence != superblock.sequence) {
        id = expected.oldest;
    }
    const auto& wanted = book[id].superblock;
    if (wanted.sequence != superblock.sequence || wanted.frontier != superblock.frontier ||
        wanted.objects_size != superblock.objects_size) {
        return "recovered commit " + std::to_string(superblock.sequence);
    }
    trial.recovered(id);
    if (auto different = model_heap::difference(storage, book[id], book.places()); !different.empty()) {
        return different;
    }
    const std::string_view kind = recovered->rolled_forward ? "whole" : recovered->warnings.empty() ? "void" : "bad";
    return is_worth_using(storage, book, id, kind) ? go_on(trial, book, id, &superblock) : std::string{};
}

}  // namespace

const std::vector<commit_scenario>& commit_scenarios() {
    static const std::vector<commit_scenario> all = make_scenarios();
    return all;
}

explore_options full_effort() {
    explore_options options;
    options.recovery_depth = 2;
    return options;
}

explore_options mutant_effort() {
    explore_options options;
    options.cuts = {64, 24, 24, 24};
    options.cuts_in_recovery = {16, 6, 6, 6};
    options.recovery_depth = 1;
    return options;
}

explore_report explore(const commit_scenario& one, std::uint64_t atom_size, const explore_options& effort) {
    state_book book(one);
    simulated_storage calm(atom_size);
    model_heap heap(calm, book[0]);
    for (std::uint64_t step = 0; step < one.first_cut; ++step) {
        if (const auto done = run_step(heap, book, step); !done) {
            explore_report failed;
            failed.violations.push_back("before the first cut: " + done.error().message());
            return failed;
        }
    }
    simulated_storage machine(calm.current(), atom_size);
    return crash_explorer<simulated_storage>(effort).run(
        machine,
        [&](simulated_storage& storage, auto& marks) {
            if (one.first_cut > 0) {
                marks.returned(one.first_cut);
            }
            return run_program(storage, marks, one, book);
        },
        [&](auto& trial) { return judge(trial, book); });
}

}  // namespace holdfast::simulator
