// Processes that change one heap by turns, and a reader beside them, of which one at a time goes on, from one system
// call to the next (ptrace). So each of them is killed, or stands still while others go on, between any two of its
// steps, which free processes are at all but never.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kill/cycles.hpp"
#include "kill/turn_takers.hpp"

namespace holdfast::test {
namespace {

/// Stands still but in go_on().
class stepped_process {
public:
    template <class Work>
    explicit stepped_process(Work&& work)
        : process_([&work] {
              if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
                  return 4;
              }
              ::raise(SIGSTOP);
              return work();
          }) {
        static_cast<void>(waits_for_stop(std::chrono::seconds(60)));
        ::ptrace(PTRACE_SETOPTIONS, process_.id(), nullptr, PTRACE_O_TRACESYSGOOD);
    }
    stepped_process(const stepped_process&) = delete;
    stepped_process& operator=(const stepped_process&) = delete;
    ~stepped_process() { kill(); }

    /// Up to so many begins and ends of system calls, or to one that waits. False: it has not moved.
    bool go_on(std::uint64_t stops) {
        bool has_moved = false;
        for (; stops != 0 && !has_ended_; --stops) {
            if (runs_) {  // it waited when it was looked at last
                if (!waits_for_stop({})) {
                    return has_moved;
                }
            }
            if (has_ended_ || ::ptrace(PTRACE_SYSCALL, process_.id(), nullptr, signal_) != 0) {
                return has_moved;
            }
            runs_ = true;
            if (!waits_for_stop(std::chrono::microseconds(500))) {
                return has_moved;
            }
            has_moved = true;
        }
        return has_moved;
    }
    [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
    void kill() noexcept {
        if (!has_ended_) {
            process_.send(SIGKILL);
            while (!has_ended_) {
                static_cast<void>(waits_for_stop(std::chrono::seconds(1)));
            }
        }
    }

private:
    bool waits_for_stop(std::chrono::nanoseconds longest) noexcept {
        const auto end = std::chrono::steady_clock::now() + longest;
        for (;;) {
            int status = 0;
            const pid_t found = ::waitpid(process_.id(), &status, WNOHANG | __WALL);
            if (found == process_.id()) {
                runs_ = false;
                has_ended_ = WIFEXITED(status) || WIFSIGNALED(status);
                const int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
                signal_ = signal == (SIGTRAP | 0x80) || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal;
                return true;
            }
            if (found < 0 && errno == ECHILD) {
                has_ended_ = true;
                return true;
            }
            if (std::chrono::steady_clock::now() >= end) {
                return false;
            }
            std::this_thread::yield();
        }
    }

    base::child_process process_;
    bool runs_ = true;
    bool has_ended_ = false;
    long signal_ = 0;
};

struct step_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t killed = 0;
    word steps = 0;
    word rounds = 0;
    void print(std::ostream& out, const std::string& title) const {
        out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << killed << " processes killed; "
            << steps << " steps returned, in " << rounds << " rounds\n";
    }
};

class step_watcher {
public:
    step_watcher(std::string directory, std::uint64_t seed) : heaps_(std::move(directory)), random_(seed) {}

    std::string next_heap() {
        for (std::size_t i = 0; i <= writer_count; ++i) {
            end(i);
        }
        std::string wrong = heaps_.problem();
        wrong = wrong.empty() ? heaps_.end() : wrong;
        if (wrong.empty()) {
            heaps_.next(random_());
        }
        return wrong;
    }
    /// Bursts of random ones, then the death of a random one.
    std::string cycle() {
        ++tally_.cycles;
        for (std::size_t i = 0; i <= writer_count; ++i) {
            if (workers_.at(i) == nullptr) {
                start(i);
            }
        }
        const auto longest = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        for (std::uint64_t left = 5 + random_() % 200; left > 0;) {
            // A reader's steps are many, and mostly find nothing new.
            const std::size_t next = random_() % (2 * workers_.size());
            const bool is_reader = next >= 2 * writer_count;
            const bool has_moved =
                workers_.at(is_reader ? writer_count : next / 2)->go_on(burst() / (is_reader ? 4 : 1) + 1);
            if (has_moved) {
                --left;
            } else if (std::chrono::steady_clock::now() > longest) {
                return "nobody goes on";
            }
            if (std::string wrong = problem(); !wrong.empty()) {
                return wrong;
            }
        }
        const std::size_t victim = random_() % (writer_count + 1);
        end(victim);
        ++tally_.killed;
        return problem();
    }
    [[nodiscard]] step_tally numbers() const {
        step_tally all = tally_;
        all.heaps = heaps_.count();
        all.steps = heaps_.steps();
        return all;
    }

private:
    std::uint64_t burst() {
        switch (random_() % 8) {
            case 0:
            case 1:
            case 2: return 1 + random_() % 4;
            case 3:
            case 4: return 1 + random_() % 40;
            case 5:
            case 6: return 1 + random_() % 400;
            default: return 1 + random_() % 4000;
        }
    }
    void start(std::size_t i) {
        heaps_.shown(i).runs = false;
        heaps_.shown(i).problem[0] = 0;
        const std::uint64_t chance = random_();
        workers_.at(i) = std::make_unique<stepped_process>([this, i, chance] { return heaps_.work(i, chance); });
    }
    void end(std::size_t i) {
        workers_.at(i).reset();
        tally_.rounds += heaps_.shown(i).rounds.exchange(0);
    }
    std::string problem() {
        for (std::size_t i = 0; i <= writer_count; ++i) {
            if (workers_.at(i) != nullptr && workers_.at(i)->has_ended() && heaps_.problem().empty()) {
                return fmt::format("process {} has ended", i);
            }
        }
        return heaps_.problem();
    }

    turn_heaps heaps_;
    std::mt19937_64 random_;
    std::array<std::unique_ptr<stepped_process>, writer_count + 1> workers_;
    step_tally tally_;
};

TEST(turns_steps, lose_nothing_between_any_two) {
    if (!base::succeeds_in_child([] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0; })) {
        GTEST_SKIP() << "NOT TESTED HERE: a process may not stop its children between system calls (ptrace)";
    }
    const step_tally found =
        run_kills<step_watcher>(options().memory_directory, options().cycles, 60, options().seed + 10);
    EXPECT_GE(found.rounds, found.cycles / 4);
    EXPECT_EQ(found.killed, found.cycles);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
