// Processes that change one heap by turns, and readers beside them (--readers N), of which a random one is killed, or
// stopped for a while, at any moment. The others go on.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kill/cycles.hpp"
#include "kill/options.hpp"
#include "kill/turn_takers.hpp"

namespace holdfast::test {
namespace {

struct turn_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t writers_killed = 0;
    std::uint64_t readers_killed = 0;
    std::uint64_t stopped = 0;
    word steps = 0;
    word rounds = 0;
    std::uint64_t waits = 0;        ///< of processes that are left, for their next round
    std::uint64_t waits_short = 0;  ///< of at most 10 ms
    void print(std::ostream& out, const std::string& title) const {
        out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << writers_killed << " writers and "
            << readers_killed << " readers killed, " << stopped << " stopped; " << steps << " steps returned, in "
            << rounds << " rounds; the others went on within 10 ms " << waits_short << " of " << waits << " times\n";
    }
};

class turn_watcher {
public:
    turn_watcher(std::string directory, std::uint64_t seed) : heaps_(std::move(directory)), random_(seed) {}

    std::string next_heap() {
        if (std::string wrong = end_heap(); !wrong.empty()) {
            return wrong;
        }
        heaps_.next(random_());
        return {};
    }
    std::string cycle() {
        constexpr std::uint64_t longest = 50'000'000;
        ++tally_.cycles;
        for (std::size_t i = 0; i < count(); ++i) {
            if (workers_.at(i) == nullptr) {
                start(i);
            }
        }
        static_cast<void>(workers_.front()->ends_within(random_() % longest));
        const std::size_t victim = random_() % (count() + 1);
        if (victim == count()) {
            ++tally_.stopped;
            const auto& stopped = workers_.at(random_() % writer_count);
            stopped->send(SIGSTOP);
            static_cast<void>(stopped->ends_within(random_() % longest));
            stopped->send(SIGCONT);
        } else {
            end(victim);
            ++(victim >= writer_count ? tally_.readers_killed : tally_.writers_killed);
        }
        return problem().empty() ? others_go_on(victim) : problem();
    }
    [[nodiscard]] turn_tally numbers() const {
        turn_tally all = tally_;
        all.heaps = heaps_.count();
        all.steps = heaps_.steps();
        return all;
    }

private:
    static std::size_t count() noexcept { return writer_count + std::min(options().readers, most_readers); }
    void start(std::size_t i) {
        heaps_.shown(i).runs = false;
        heaps_.shown(i).problem[0] = 0;
        const std::uint64_t chance = random_();
        workers_.at(i) = std::make_unique<base::child_process>([&] { return heaps_.work(i, chance); });
    }
    void end(std::size_t i) {
        if (workers_.at(i) == nullptr) {
            return;
        }
        const bool runs = workers_.at(i)->runs_until([&] { return heaps_.shown(i).runs.load(); });
        const base::process_end how = workers_.at(i)->kill();
        if (problem_.empty() && (!runs || !how.was_killed())) {
            problem_ =
                fmt::format("process {} {}: {}", i, runs ? how.text() : "did not begin", &heaps_.shown(i).problem[0]);
        }
        tally_.rounds += heaps_.shown(i).rounds.exchange(0);
        workers_.at(i).reset();
    }
    /// A dead process holds no turn.
    std::string others_go_on(std::size_t victim) {
        constexpr std::chrono::milliseconds soon{10};
        const auto killed = std::chrono::steady_clock::now();
        std::array<word, writer_count + most_readers> before{};
        for (std::size_t i = 0; i < count(); ++i) {
            before.at(i) = heaps_.shown(i).rounds;
        }
        for (std::size_t i = 0; i < count(); ++i) {
            if (i == victim || workers_.at(i) == nullptr) {
                continue;
            }
            if (!workers_.at(i)->runs_until([&] { return heaps_.shown(i).rounds.load() > before.at(i); })) {
                return problem().empty() ? fmt::format("process {} does not go on", i) : problem();
            }
            ++tally_.waits;
            tally_.waits_short += std::chrono::steady_clock::now() - killed <= soon ? 1U : 0U;
        }
        return problem();
    }
    std::string problem() {
        const std::string found = heaps_.problem();
        return found.empty() ? problem_ : found;
    }
    std::string end_heap() {
        for (std::size_t i = 0; i < count(); ++i) {
            end(i);
        }
        const std::string wrong = problem();
        return wrong.empty() ? heaps_.end() : wrong;
    }

    turn_heaps heaps_;
    std::mt19937_64 random_;
    std::array<std::unique_ptr<base::child_process>, writer_count + most_readers> workers_;
    std::string problem_;
    turn_tally tally_;
};

void kill_who_take_turns(const std::string& parent, std::uint64_t cycles, std::uint64_t seed) {
    const turn_tally found = run_kills<turn_watcher>(parent, cycles, 60, seed);
    EXPECT_GE(found.rounds, cycles);
    expect_often(found.writers_killed, cycles, 4);
}

TEST(turns_kill, lose_nothing_in_memory_file_system) {
    kill_who_take_turns(options().memory_directory, cycles_in_memory(), options().seed + 8);
}

TEST(turns_kill, lose_nothing_on_disk) {
    kill_who_take_turns(options().disk_directory, cycles_on_disk(), options().seed + 9);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
