#include "simulator/mutant_runner.hpp"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/parallel.hpp"

namespace holdfast::simulator {

namespace {

/// In a process of its own; the exit status is the answer.
[[noreturn]] void run_mutant(const std::string& site, unsigned seconds,
                             const std::function<std::string(const std::string&)>& notice) {
    // Of the processor's time, so that it does not matter what else runs; and a limit for what waits for ever.
    constexpr unsigned patience = 10;
    const itimerval limit{{}, {static_cast<time_t>(seconds), 0}};
    ::setitimer(ITIMER_PROF, &limit, nullptr);
    ::alarm(patience * seconds);
    const persist::mutant_selection mutant{site};
    const auto begin = std::chrono::steady_clock::now();
    const std::string noticed = notice(site);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!noticed.empty()) {
        std::printf("killed: %s, after %.1f s, by %s\n", site.c_str(), took.count(), noticed.c_str());
        std::fflush(stdout);
    }
    ::_exit(noticed.empty() ? 0 : 1);
}

mutant_verdict verdict_of(int status) {
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF)) {
        return mutant_verdict::undecided;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? mutant_verdict::survived : mutant_verdict::killed;
}

}  // namespace

std::vector<std::string> mutant_sites(const std::vector<std::string>& others) {
    std::vector<std::string> sites;
    for (const auto& one : persist::seen_sites()) {
        // A missing name fails at once and has nothing to do with durability.
        const bool other = std::any_of(others.begin(), others.end(),
                                       [&one](const std::string& prefix) { return one.name.starts_with(prefix); });
        if (one.kind != persist::site_kind::name && !other) {
            sites.push_back(one.name);
        }
    }
    std::ranges::sort(sites);  // one may omit two sorts of steps
    sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
    return sites;
}

std::map<std::string, mutant_verdict> run_mutants(const std::vector<std::string>& sites, unsigned seconds,
                                                  const std::function<std::string(const std::string&)>& notice) {
    std::map<std::string, mutant_verdict> verdicts;
    std::map<pid_t, std::string> running;
    for (std::size_t next = 0; next < sites.size() || !running.empty();) {
        if (next < sites.size() && running.size() < processors()) {
            std::fflush(nullptr);
            const pid_t child = ::fork();  // lint-allow(fork): waits for any of many
            if (child == 0) {
                run_mutant(sites[next], seconds, notice);
            }
            running[child] = sites[next++];
            continue;
        }
        int status = 0;
        const pid_t ended = ::waitpid(-1, &status, 0);
        const auto found = running.find(ended);
        if (found == running.end()) {
            ADD_FAILURE() << "fork or waitpid failed";
            break;
        }
        verdicts[found->second] = verdict_of(status);
        if (WIFSIGNALED(status)) {
            std::printf("%s: ended by signal %d\n", found->second.c_str(), WTERMSIG(status));
        } else if (verdicts[found->second] == mutant_verdict::survived) {
            std::printf("survived: %s\n", found->second.c_str());
        }
        running.erase(found);
    }
    EXPECT_EQ(verdicts.size(), sites.size());
    return verdicts;
}

void expect_all_killed(const std::map<std::string, mutant_verdict>& verdicts,
                       const std::map<std::string, std::string>& equivalent, std::size_t killed_at_least) {
    std::size_t killed = 0;
    std::size_t survived_as_listed = 0;
    for (const auto& [site, what] : verdicts) {
        const bool listed = equivalent.contains(site);
        EXPECT_NE(what, mutant_verdict::undecided) << site << ": undecided in time";
        EXPECT_FALSE(what == mutant_verdict::survived && !listed) << site << " survived";
        EXPECT_FALSE(what == mutant_verdict::killed && listed) << site << " is listed as equivalent, and is not";
        killed += what == mutant_verdict::killed ? 1 : 0;
        survived_as_listed += what == mutant_verdict::survived && listed ? 1 : 0;
    }
    std::printf("%zu mutants: %zu killed, %zu equivalent\n", verdicts.size(), killed, survived_as_listed);
    EXPECT_GE(killed, killed_at_least);
    EXPECT_EQ(survived_as_listed, equivalent.size()) << "a site that is listed is gone";
}

}  // namespace holdfast::simulator
