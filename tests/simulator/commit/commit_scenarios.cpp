#include "simulator/commit/commit_scenarios.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <malloc.h>

#include "log/log_files.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::simulator {

namespace {

using segment::objects_file_id;

/// All states that a scenario, and the sessions after its crashes, may commit. Their indices are the explorer's states.
class state_book {
public:
    explicit state_book(const commit_scenario& one) : log(one.log), program_(one.program) {
        const std::uint64_t metadata = one.segment_size / base::page_size;
        later_steps_ = {
            {pages(0, {0, 9, metadata + 1}) + pages(objects_file_id, {1}), 0, 0, false},
            {pages(0, {1}), 1, 65536, true},
            {pages(0, {9}), 0, 0, true},
        };
        states_.push_back(model_state::none(one.segment_size));
        for (const model_step& step : program_) {
            note(step);
            states_.push_back(states_.back().after(step));
        }
        for (const model_step& step : later_steps_) {
            note(step);
        }
    }

    [[nodiscard]] const model_state& operator[](std::uint64_t id) const { return states_[id]; }
    [[nodiscard]] const std::set<page_place>& places() const { return places_; }
    [[nodiscard]] bool gives_back() const noexcept { return gives_back_; }
    [[nodiscard]] const std::vector<model_step>& program() const { return program_; }

    [[nodiscard]] const std::vector<model_step>& later_steps() const { return later_steps_; }
    std::uint64_t later(std::uint64_t id, std::size_t step) {
        const auto [found, is_new] = later_.try_emplace({id, step}, states_.size());
        if (is_new) {
            states_.push_back(states_[id].after(later_steps()[step]));
        }
        return found->second;
    }

    const model_log log;
    hash_set used;  ///< recovered images on which a session went on
    std::uint64_t judged = 0;
    std::uint64_t turns = 0;  ///< counts sessions, which take the steps by turns

private:
    void note(const model_step& step) {
        places_.insert(step.dirty.begin(), step.dirty.end());
        gives_back_ = gives_back_ || !step.holes.empty() || step.lower_regions != 0;
    }

    std::vector<model_step> program_;
    std::vector<model_step> later_steps_;
    std::deque<model_state> states_;
    std::map<std::pair<std::uint64_t, std::size_t>, std::uint64_t> later_;
    std::set<page_place> places_;
    bool gives_back_ = false;
};

base::result<void> run_step(model_heap& heap, const state_book& book, std::uint64_t step) {
    segment::transaction_report report;
    return step == 0 ? heap.create(book.program()[0], book[1])
                     : heap.commit(book.program()[step], book[step + 1], report);
}

/// What a process knows that goes on, or the superblock of none.
segment::superblock_on_media superblock_on(simulated_storage& storage, const model_state& state) {
    const auto file =
        storage.open(segment::heap_paths{model_heap::directory}.superblock(), persist::access_mode::read_only);
    const auto copies = file ? segment::read_superblocks(**file) : std::move(file).error();
    return copies && copies->newest() != nullptr ? *copies->newest() : state.superblock;
}

using commit_timeline = crash_explorer<simulated_storage>::timeline;

std::string run_program(simulated_storage& storage, commit_timeline& marks, const commit_scenario& one,
                        const state_book& book) {
    const segment::superblock_on_media found = superblock_on(storage, book[one.first_cut]);
    model_heap heap(storage, book[one.first_cut], &found, storage.current().hash(), book.log);
    for (std::uint64_t step = one.first_cut; step < one.program.size(); ++step) {
        marks.begins(step + 1);
        if (const auto done = run_step(heap, book, step); !done) {
            return "step " + std::to_string(step) + ": " + done.error().message();
        }
        if (!one.program[step].is_left) {
            marks.returned(step + 1);
        }
        if (std::string different = heap.differing_copy(); !different.empty()) {
            return "step " + std::to_string(step) + ": " + different;
        }
        if (!heap.wrong_view().empty()) {
            return "step " + std::to_string(step) + ": " + heap.wrong_view();
        }
    }
    return {};
}

using commit_trial = crash_explorer<simulated_storage>::trial;

/// After a session without a crash.
std::string check_session(simulated_storage& storage, const model_heap& heap, const state_book& book,
                          std::uint64_t id) {
    std::string different = heap.differing_copy();
    if (different.empty()) {
        different = model_heap::difference(storage, book[id], book.places());
    }
    return different.empty() ? different : "the session after the crash: " + different;
}

/// The session after the crash, with cuts: a writer removes leftovers, then closes, or commits.
std::string go_on(commit_trial& trial, state_book& book, std::uint64_t id, const segment::recovered_state* recovered) {
    auto& storage = trial.device();
    trial.go_on();
    const std::uint64_t turn = book.turns++;
    model_heap heap(storage, book[id], recovered != nullptr ? &recovered->superblock : nullptr,
                    storage.current().hash(), book.log);
    if (id == 0) {
        trial.begins(1);
        const auto done = heap.create(book.program()[0], book[1]);
        trial.returned(1);
        return done ? check_session(storage, heap, book, 1) : "create after the crash: " + done.error().message();
    }
    if (const auto done = heap.remove_leftovers(recovered->crashed); !done) {
        return "open after the crash: " + done.error().message();
    }
    const std::size_t step = turn % (book.later_steps().size() + 1);
    if (step == book.later_steps().size()) {
        const auto done = heap.close();
        return done ? check_session(storage, heap, book, id) : "close after the crash: " + done.error().message();
    }
    const std::uint64_t next = book.later(id, step);
    trial.begins(next);
    segment::transaction_report report;
    if (const auto done = heap.commit(book.later_steps()[step], book[next], report); !done) {
        return "commit after the crash: " + done.error().message();
    }
    trial.returned(next);
    return check_session(storage, heap, book, next);
}

std::vector<std::string> log_files_of(const simulated_storage& storage) {
    const std::string prefix = std::string(model_heap::directory).substr(1) + "/" + segment::log_prefix;
    std::vector<std::string> found;
    for (const auto& [name, node] : *storage.current().names) {
        if (name.starts_with(prefix)) {
            found.push_back("/" + name);
        }
    }
    return found;
}

/// Whether a session should go on from here. Of images that differ only in a log that nobody reads again, the first
/// does, and a few of the others.
bool is_worth_using(const simulated_storage& storage, state_book& book, std::uint64_t id, std::string_view log_kind) {
    const std::uint64_t state = storage.current().hash();
    return book.used.insert(mix(mix(state, id), std::hash<std::string_view>{}(log_kind))) || state % 64 == 0;
}

/// Commits of the program that were left to a later one may be there or not.
std::uint64_t state_of(std::uint64_t sequence, const state_book& book, const expectation& expected) {
    std::uint64_t id = expected.newest;
    while (id > expected.oldest && book[id].superblock.sequence != sequence) {
        id = id <= book.program().size() ? id - 1 : expected.oldest;
    }
    return id;
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
    const std::uint64_t id = state_of(superblock.sequence, book, expected);
    const auto& wanted = book[id].superblock;
    if (wanted.sequence != superblock.sequence || wanted.frontier != superblock.frontier ||
        wanted.objects_size != superblock.objects_size) {
        return "recovered commit " + std::to_string(superblock.sequence);
    }
    trial.recovered(id);
    if (auto different = model_heap::difference(storage, book[id], book.places()); !different.empty()) {
        return different;
    }
    constexpr std::uint64_t verified_of = 8;                      // reading all pages dominates the time
    if (book.gives_back() && book.judged++ % verified_of == 0) {  // holes must have no checksum
        std::vector<base::failure> problems;
        if (const auto done = segment::verify_pages(storage, paths, superblock, problems, 1); !done) {
            return "SEG-2: " + done.error().message();
        }
        if (!problems.empty()) {
            return problems.front().message();
        }
    }
    const std::string_view kind = recovered->replayed.commits != 0 ? "whole"
                                  : recovered->warnings.empty()    ? "void"
                                                                   : "bad";
    return is_worth_using(storage, book, id, kind) ? go_on(trial, book, id, &*recovered) : std::string{};
}

base::result<void> damage_log(simulated_storage& storage, const std::string& path, std::uint64_t at) {
    HF_TRY_ASSIGN(auto file, storage.open(path, persist::access_mode::read_write));
    std::array<std::byte, 1> byte{};
    HF_TRY(file->read_at(at, byte));
    byte[0] ^= std::byte{1};
    return file->write_at(at, byte, "test.damage");
}

/// Recovery shows one commit, every page of it, or fails as corrupt. Where the last record is damaged and nothing of it
/// came home, no one can tell that it was whole; a record that others follow was.
std::string judge_damaged(simulated_storage& storage, const state_book& book, const expectation& expected,
                          std::uint64_t first) {
    const auto recovered =
        segment::recover(storage, segment::heap_paths{model_heap::directory}, persist::access_mode::read_write);
    if (!recovered) {
        const bool says_so = recovered.error().code == base::failure_code::corrupt;
        return says_so ? std::string{} : recovered.error().message();
    }
    std::string different;
    const std::uint64_t last_but_one = expected.oldest == 0 ? 0 : expected.oldest - 1;
    for (std::uint64_t id = std::max(first, last_but_one); id <= expected.newest; ++id) {
        different = model_heap::difference(storage, book[id], book.places());
        if (different.empty()) {
            return {};
        }
    }
    return different;
}

std::string judge_with_damage(commit_trial& trial, const state_book& book, std::uint64_t atom_size, std::uint64_t first,
                              std::uint64_t apart) {
    trial.run_in_peace();
    const auto image = trial.device().current();
    for (const std::string& path : log_files_of(trial.device())) {
        const std::uint64_t size = image.bytes_of(path).size();
        for (std::uint64_t at = mix(size) % 48; at < size; at += apart) {
            simulated_storage damaged(image, atom_size);
            damaged.run_in_peace();
            if (const auto done = damage_log(damaged, path, at); !done) {
                return done.error().message();
            }
            if (std::string wrong = judge_damaged(damaged, book, trial.expected(), first); !wrong.empty()) {
                return path + " is damaged at " + std::to_string(at) + ": " + wrong;
            }
        }
    }
    return {};
}

/// Recovery and verification allocate 1 MiB for each image. To return it to the kernel each time would take twice the
/// time of all the rest.
bool keep_freed_memory() {
    constexpr int large = 16 << 20;
    return ::mallopt(M_MMAP_THRESHOLD, large) != 0 && ::mallopt(M_TRIM_THRESHOLD, large) != 0;
}

/// Runs the scenario without cuts up to `first_cut`, and explores `rest` from there on.
explore_report explore_from_first_cut(const commit_scenario& one, std::uint64_t atom_size,
                                      const explore_options& effort, const state_book& book,
                                      const crash_explorer<simulated_storage>::scenario& rest,
                                      const crash_explorer<simulated_storage>::checker& check) {
    static const bool kept = keep_freed_memory();
    static_cast<void>(kept);
    simulated_storage calm(atom_size);
    model_heap heap(calm, book[0]);
    for (std::uint64_t step = 0; step < one.first_cut; ++step) {
        if (const auto done = run_step(heap, book, step); !done) {
            explore_report failed;
            failed.violations.push_back("before the first cut: " + done.error().message());
            return failed;
        }
    }
    if (const auto done = heap.checkpoint(); !done) {
        explore_report failed;
        failed.violations.push_back("before the first cut: " + done.error().message());
        return failed;
    }
    simulated_storage machine(calm.current(), atom_size);
    return crash_explorer<simulated_storage>(effort).run(machine, rest, check);
}

/// Runs the scenario without cuts up to `first_cut`, and with cuts from there on.
explore_report explore_with(const commit_scenario& one, std::uint64_t atom_size, const explore_options& effort,
                            const state_book& book, const crash_explorer<simulated_storage>::checker& check) {
    return explore_from_first_cut(
        one, atom_size, effort, book,
        [&](simulated_storage& storage, commit_timeline& marks) {
            if (one.first_cut > 0) {
                marks.returned(one.first_cut);
            }
            return run_program(storage, marks, one, book);
        },
        check);
}

/// Runs the program until its operation `at`, and dies there. Returns the states that are possible then; nothing where
/// the program has ended before.
std::optional<expectation> run_until_death(simulated_storage& storage, const commit_scenario& one,
                                           const state_book& book, std::uint64_t at) {
    std::uint64_t operations = 0;
    bool is_dead = false;
    storage.set_observer([&] {
        if (++operations == at) {
            is_dead = true;
            storage.die();
        }
    });
    expectation possible{one.first_cut, one.first_cut};
    {
        const segment::superblock_on_media found = superblock_on(storage, book[one.first_cut]);
        model_heap heap(storage, book[one.first_cut], &found, storage.current().hash(), book.log);
        for (std::uint64_t step = one.first_cut; step < one.program.size() && !is_dead; ++step) {
            possible.newest = step + 1;
            if (!run_step(heap, book, step) || is_dead) {
                break;
            }
            possible.oldest = one.program[step].is_left ? possible.oldest : step + 1;
        }
    }
    storage.revive();
    return is_dead ? std::optional(possible) : std::nullopt;
}

/// The process after one that died: what it has shown must stay, whatever media had of it when it came.
std::string live_after_death(simulated_storage& storage, commit_timeline& marks, state_book& book,
                             const expectation& possible, std::size_t later_step) {
    marks.starts(possible);
    const auto recovered =
        segment::recover(storage, segment::heap_paths{model_heap::directory}, persist::access_mode::read_write);
    if (!recovered) {
        return possible.oldest == 0 ? std::string{} : "after the death: " + recovered.error().message();
    }
    const std::uint64_t shown = state_of(recovered->superblock.sequence, book, possible);
    marks.returned(shown);
    model_heap heap(storage, book[shown], &recovered->superblock, storage.current().hash(), book.log);
    if (const auto done = heap.remove_leftovers(recovered->crashed); !done) {
        return "open after the death: " + done.error().message();
    }
    const std::uint64_t next = book.later(shown, later_step);
    marks.begins(next);
    segment::transaction_report report;
    if (const auto done = heap.commit(book.later_steps()[later_step], book[next], report); !done) {
        return "commit after the death: " + done.error().message();
    }
    marks.returned(next);
    return {};
}

}  // namespace

const std::vector<commit_scenario>& commit_scenarios() {
    static const std::vector<commit_scenario> all = make_scenarios();
    return all;
}

explore_options full_effort() {
    explore_options options;
    options.cuts = {choice_limits{1024, 128, 128, 128}, choice_limits{64, 16, 16, 16}, choice_limits{8, 2, 2, 2}};
    options.images_below_one = 40;
    return options;
}

explore_options quick_effort() {
    explore_options options;
    options.cuts = {choice_limits{128, 64, 64, 64}, choice_limits{32, 8, 8, 8}, choice_limits{4, 1, 1, 1}};
    options.images_below_one = 12;
    return options;
}

explore_options mutant_effort() {
    explore_options options;
    options.cuts = {choice_limits{64, 16, 16, 16}, choice_limits{8, 4, 4, 4}, choice_limits{4, 1, 1, 1}};
    options.images_below_one = 20;
    return options;
}

explore_options death_effort() {
    explore_options options;
    options.cuts = {choice_limits{16, 4, 4, 4}, choice_limits{}, choice_limits{}};
    options.recovery_depth = 0;
    return options;
}

explore_report explore(const commit_scenario& one, std::uint64_t atom_size, const explore_options& effort) {
    state_book book(one);
    return explore_with(one, atom_size, effort, book, [&](auto& trial) { return judge(trial, book); });
}

explore_report explore_deaths(const commit_scenario& one, std::uint64_t atom_size, const explore_options& effort,
                              std::uint64_t one_death_of) {
    explore_report all;
    state_book book(one);
    // Of few deaths, those of scenarios that follow each other are at other operations.
    const std::uint64_t first = 1 + std::hash<std::string>{}(one.name) % one_death_of;
    for (std::uint64_t at = first; all.violations.empty(); at += one_death_of) {
        bool has_died = false;
        const auto die_and_go_on = [&](simulated_storage& storage, commit_timeline& marks) {
            const auto possible = run_until_death(storage, one, book, at);
            has_died = possible.has_value();
            if (!has_died) {
                marks.starts({one.program.size(), one.program.size()});
                return std::string{};
            }
            std::string wrong = live_after_death(storage, marks, book, *possible, at % book.later_steps().size());
            return wrong.empty() ? wrong : "a death at operation " + std::to_string(at) + ": " + wrong;
        };
        all += explore_from_first_cut(one, atom_size, effort, book, die_and_go_on,
                                      [&](commit_trial& trial) { return judge(trial, book); });
        if (!has_died) {
            break;
        }
    }
    return all;
}

bool rewrites_under_one_checksum_page(const commit_scenario& one) {
    const std::vector<page_place>& first = one.program.front().dirty;
    return one.first_cut > 0 && one.segment_size == small_segment &&
           std::all_of(one.program.begin() + 1, one.program.end(), [&](const model_step& step) {
               return step.grow_regions == 0 && step.grow_objects == 0 && step.holes.empty() &&
                      step.lower_regions == 0 &&
                      std::all_of(step.dirty.begin(), step.dirty.end(), [&](page_place place) {
                          return place.first == 0 && std::find(first.begin(), first.end(), place) != first.end();
                      });
           });
}

explore_report explore_damaged_logs(const commit_scenario& one, const explore_options& effort, std::uint64_t apart) {
    constexpr std::uint64_t sector = 512;
    explore_options without_recoveries = effort;
    without_recoveries.recovery_depth = 0;
    state_book book(one);
    return explore_with(one, sector, without_recoveries, book,
                        [&](auto& trial) { return judge_with_damage(trial, book, sector, one.first_cut, apart); });
}

}  // namespace holdfast::simulator
