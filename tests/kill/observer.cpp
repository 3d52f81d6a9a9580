#include "kill/observer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <system_error>
#include <vector>

#include "base/process_test_support.hpp"

namespace holdfast::test {

namespace {

constexpr int patience_ms = 120'000;  // a victim that says nothing for so long hangs

/// Becomes the program that runs now, as a victim.
int become_victim(const victim_plan& plan, int reports) {
    std::vector<std::string> words = plan.arguments();
    words.insert(words.begin(), {"/proc/self/exe", victim_flag});
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    if (::dup2(reports, victim_reports) == victim_reports) {
        ::execv(arguments.front(), arguments.data());
    }
    return 127;
}

bool is_no_heap(errc reason) {
    return reason == errc::not_found || reason == errc::not_a_heap || reason == errc::missing;
}

/// What we remove ourselves must not come back with the next power cut.
void sync_parent(const std::string& path) {
    const std::string parent = std::filesystem::path(path).parent_path();
    const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0 || ::fsync(directory) != 0) {
        throw std::system_error(errno, std::generic_category(), "fsync of " + parent);
    }
    ::close(directory);
}

}  // namespace

void tally::print(std::ostream& out, const std::string& title) const {
    out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << commits << " commits acknowledged\n"
        << "  ended inside commit, close or snapshot: " << inside_commit
        << "; inside create, open or recovery: " << inside_open
        << "; inside copy, create or snapshot of a second heap: " << inside_making
        << "; inside remove: " << inside_removing << "; between: " << between << "\n"
        << "  states found and compared: " << states_found << ", wrong: " << wrong << std::endl;
}

observer::observer(std::string directory, std::uint64_t seed) : directory_(std::move(directory)), source_(seed) {
    duration_ns_.fill(2e6);
}

observer::~observer() = default;

std::string observer::next_heap() {
    if (!heap_.empty()) {
        try {
            if (oracle_.must_exist() && !manager::remove(heap_)) {
                return "the heap is not there";
            }
            if (!oracle_.must_exist()) {
                std::filesystem::remove_all(heap_);
            }
        } catch (const error& failure) {
            return std::string("remove: ") + failure.what();
        }
        if (std::filesystem::exists(heap_)) {
            return "remove has left " + heap_;
        }
    }
    heap_ = directory_ + "/heap" + std::to_string(tally_.heaps++);
    second_ = heap_ + ".second";
    oracle_ = {};
    segment_size_ = (2U << 20U) << (source_() % 5);
    shard_bytes_ = std::uint64_t{64 * 1024} << (source_() % 7);
    huge_blocks_ = source_() % 4 == 0;
    return {};
}

victim_plan observer::make_plan() {
    victim_plan plan;
    plan.heap = heap_;
    plan.second_heap = second_;
    plan.seed = source_();
    const std::uint64_t dice = source_() % 100;
    plan.target = dice < 55   ? act::commit
                  : dice < 70 ? act::open
                  : dice < 78 ? act::close
                  : dice < 83 ? act::snapshot
                  : dice < 88 ? act::copy
                  : dice < 92 ? act::create
                  : dice < 96 ? act::remove
                              : act::change;
    plan.after = plan.target == act::open ? source_() % 8 / 7 : source_() % (source_() % 4 == 0 ? 10 : 2);
    const double longest = 1.05 * duration_ns_.at(static_cast<std::size_t>(plan.target));
    plan.delay_ns = source_() % static_cast<std::uint64_t>(std::clamp(longest, 1e4, 1e9));
    if (power_loss_) {
        plan.ends = source_() % 2 == 0 ? victim_plan::ending::lights_out : victim_plan::ending::dusk;
    } else {
        plan.ends = source_() % 6 == 0 ? victim_plan::ending::observer : victim_plan::ending::kill;
    }
    plan.segment_size = segment_size_;
    plan.shard_bytes = shard_bytes_;
    plan.huge_blocks = huge_blocks_;
    return plan;
}

std::string observer::listen(const report& said, const victim_plan& plan) {
    if (said.what == event::lights_out) {
        shut_down_ = true;
        return {};
    }
    if (said.what == event::failed && shut_down_) {
        return {};  // as every act on a file system that is gone
    }
    if (auto wrong = oracle_.hear(said)) {
        return *wrong;
    }
    const auto smooth = [this](act which, std::uint64_t duration) {
        double& mean = duration_ns_.at(static_cast<std::size_t>(which));
        mean += (static_cast<double>(duration) - mean) / 8;
    };
    switch (said.what) {
        case event::opened:
            ++tally_.states_found;
            smooth(act::open, said.duration_ns);
            break;
        case event::committed:
            ++tally_.commits;
            smooth(act::commit, said.duration_ns);
            break;
        case event::closed:
            ++tally_.commits;
            smooth(act::close, said.duration_ns);
            break;
        case event::made: smooth(plan.target == act::commit ? act::copy : plan.target, said.duration_ns); break;
        case event::removed: smooth(act::remove, said.duration_ns); break;
        default: break;
    }
    return {};
}

void observer::count_end() noexcept {
    switch (oracle_.last()) {
        case event::about_to_commit:
        case event::closing: ++tally_.inside_commit; break;
        case event::opening: ++tally_.inside_open; break;
        case event::making: ++tally_.inside_making; break;
        case event::removing: ++tally_.inside_removing; break;
        default: ++tally_.between; break;
    }
}

/// Reads until the victim is dead; kills it where that is the observer's part.
std::string observer::follow(const base::child_process& process, const report_pipe& reports, victim_plan& plan) {
    report said;
    std::string wrong;
    std::uint64_t heard = 0;
    const bool impatient = plan.ends == victim_plan::ending::observer;
    const std::uint64_t enough = source_() % 30;
    while (true) {
        const bool last = impatient && heard >= enough;
        const int wait = last ? static_cast<int>(source_() % 6) : shut_down_ ? 50 : patience_ms;
        const auto outcome = reports.read(said, wait);
        if (outcome == report_pipe::outcome::end) {
            return wrong;
        }
        if (outcome == report_pipe::outcome::silence || last) {
            if (!last && !shut_down_ && wrong.empty()) {
                wrong = "the victim says nothing any more";
            }
            process.send(SIGKILL);
        }
        if (outcome == report_pipe::outcome::record) {
            ++heard;
            std::string heard_wrong = listen(said, plan);
            if (wrong.empty()) {
                wrong = std::move(heard_wrong);
            }
        }
    }
}

std::string observer::judge_end(base::process_end end, bool power_loss) {
    // Pages of a file system that is gone cannot be read: SIGBUS. Calls fail: an exit status.
    const bool power_ended_it = power_loss && (end.signal() == SIGBUS || end.signal() == 0);
    return power_ended_it || end.was_killed() ? std::string() : "the victim " + end.text();
}

std::string observer::cycle() {
    std::string wrong = end_a_victim();
    if (wrong.empty()) {
        after_death_();
        wrong = examine_remains();
    }
    return wrong;
}

std::string observer::end_a_victim() {
    ++tally_.cycles;
    shut_down_ = false;
    victim_plan plan = make_plan();
    report_pipe reports;
    base::child_process process([&] { return become_victim(plan, reports.write_end()); });
    reports.close_write_end();
    std::string wrong = follow(process, reports, plan);
    const std::string end = judge_end(process.wait(), shut_down_);
    if (wrong.empty()) {
        wrong = end;
    }
    if (power_loss_ && !shut_down_ && wrong.empty()) {
        wrong = "the power did not fail";
    }
    count_end();
    if (!wrong.empty()) {
        ++tally_.wrong;
        wrong += std::string(" (victim ") + name_of(plan.target) + ", seed " + std::to_string(plan.seed) + ", cycle " +
                 std::to_string(tally_.cycles) + ")";
    }
    return wrong;
}

std::string observer::check_heap_at(const std::string& path, std::uint64_t digest) {
    open_options options;
    options.commit_on_close = false;
    const manager heap(open_only, path, options);
    const world_state state = examine_and_check(heap);
    ++tally_.states_found;
    if (!state.problems.empty()) {
        return path + ": " + state.problems.front();
    }
    return state.digest == digest ? std::string() : path + " has another content than it should";
}

/// What a reader sees is a state of the heap, and reading changes nothing.
std::string observer::look_read_only() {
    const manager heap(open_read_only, heap_);
    const world_state state = examine_and_check(heap);
    ++tally_.states_found;
    if (!state.problems.empty()) {
        return "read-only: " + state.problems.front();
    }
    if (auto wrong = oracle_.found(state.digest, heap.statistics().commit_sequence)) {
        return "read-only: " + *wrong;
    }
    return {};
}

/// A crashed heap can be copied as it is: the copy is a state of it.
std::string observer::copy_what_is_left() {
    const std::string path = heap_ + ".copy";
    manager::copy(heap_, path);
    std::string wrong;
    {
        open_options options;
        options.commit_on_close = false;
        const manager heap(open_only, path, options);
        const world_state state = examine_and_check(heap);
        ++tally_.states_found;
        if (!state.problems.empty()) {
            wrong = state.problems.front();
        } else if (auto other = oracle_.found(state.digest, heap.statistics().commit_sequence)) {
            wrong = *other;
        }
    }
    manager::remove(path);
    return wrong.empty() ? wrong : "copy: " + wrong;
}

/// Whole heaps are removed; of remains, remove or create makes something sound.
std::string observer::remove_second(bool whole) {
    if (!whole && std::filesystem::exists(second_) && source_() % 2 == 0) {
        const manager made(create_only, second_);
        const world_state state = examine_and_check(made);
        if (!state.problems.empty() || state.digest != empty_digest) {
            return "a heap created over remains is not empty and sound";
        }
        whole = true;
    }
    try {
        manager::remove(second_);
    } catch (const error& failure) {
        // An empty directory, or a lock alone, is not known to be ours.
        if (whole || failure.reason() != errc::not_a_heap) {
            throw;
        }
        std::filesystem::remove_all(second_);
        sync_parent(second_);
    }
    return std::filesystem::exists(second_) ? "remove has left " + second_ : std::string();
}

std::string observer::examine_second() {
    const oracle::second_heap expected = oracle_.second();
    using presence = oracle::second_heap::presence;
    if (expected.is == presence::absent) {
        return std::filesystem::exists(second_) ? second_ + " should not be there" : std::string();
    }
    bool whole = false;
    try {
        if (std::string wrong = check_heap_at(second_, expected.digest); !wrong.empty()) {
            return wrong;
        }
        whole = true;
    } catch (const error& failure) {
        if (expected.is == presence::present || !is_no_heap(failure.reason())) {
            return std::string("second heap: ") + failure.what();
        }
    }
    oracle_.second_is_gone();
    return remove_second(whole);
}

std::string observer::examine_remains() {
    std::string wrong;
    try {
        wrong = examine_second();
        if (wrong.empty() && oracle_.must_exist()) {
            const std::uint64_t dice = source_() % 10;
            if (dice == 0) {
                wrong = look_read_only();
            } else if (dice == 1) {
                wrong = copy_what_is_left();
            }
        }
    } catch (const std::exception& failure) {
        wrong = failure.what();
    }
    if (!wrong.empty()) {
        ++tally_.wrong;
        wrong += " (remains of cycle " + std::to_string(tally_.cycles) + ")";
    }
    return wrong;
}

}  // namespace holdfast::test
