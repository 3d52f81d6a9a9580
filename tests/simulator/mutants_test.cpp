// Every step that makes a commit durable, and every test that recovery makes, is needed: with any of them left out the
// crash simulator finds an image that goes wrong.
//
// Each mutant runs in a process of its own, for a program without its checks may crash or never end; both count as
// noticed.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/commit_scenarios.hpp"

namespace holdfast::simulator {
namespace {

/// A mutant that takes longer is neither killed nor equivalent: the test fails.
constexpr unsigned seconds_a_mutant = 120;

/// Sites whose mutant changes nothing that a crash can show, each with the proof.
const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{
        {"model.create.remove_remains", "a name; never dropped"},
    };
    return sites;
}

bool explores_clean(const explore_options& effort, std::string* why = nullptr) {
    // Sectors first: they are quicker, and most mutants need no smaller atoms.
    for (const std::uint64_t atom_size : {std::uint64_t{512}, std::uint64_t{8}}) {
        for (const auto& one : commit_scenarios()) {
            const auto report = explore(one, atom_size, effort);
            if (!report.violations.empty()) {
                if (why != nullptr) {
                    *why = one.name + ": " + report.violations.front();
                }
                return false;
            }
        }
    }
    return true;
}

/// "killed" or "survived", and how, as the exit of a process of its own tells.
bool is_killed(const std::string& site) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(seconds_a_mutant);
        const persist::mutant_selection mutant{site};
        ::_exit(explores_clean(mutant_effort()) ? 0 : 1);
    }
    int status = 0;
    const bool waited = ::waitpid(child, &status, 0) == child;
    EXPECT_TRUE(waited && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)) << site << ": undecided in time";
    return waited && (!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

TEST(mutants, EveryOneOfTheCommitProtocolIsKilled) {
    persist::forget_sites();
    std::string why;
    ASSERT_TRUE(explores_clean(mutant_effort(), &why)) << "with nothing left out: " << why;
    int killed = 0;
    int equivalent = 0;
    std::string survivors;
    for (const auto& one : persist::seen_sites()) {
        if (one.kind == persist::site_kind::name) {
            continue;  // a name that is not made is an error at once, not a matter of durability
        }
        if (is_killed(one.name)) {
            ++killed;
            std::printf("killed: %s\n", one.name.c_str());
            EXPECT_FALSE(equivalent_sites().contains(one.name)) << one.name << " is listed as equivalent, and is not";
        } else if (equivalent_sites().contains(one.name)) {
            ++equivalent;
        } else {
            survivors += "\n  " + one.name + " (" + std::string(to_string(one.kind)) + ")";
        }
    }
    std::printf("%d mutants killed, %d equivalent\n", killed, equivalent);
    EXPECT_GT(killed, 20);
    EXPECT_TRUE(survivors.empty()) << "survived:" << survivors;
}

}  // namespace
}  // namespace holdfast::simulator
