// Every step that makes a commit durable, and every test that recovery makes, is needed: with any of them left out the
// crash simulator finds an image that goes wrong.
//
// Each mutant runs in a process of its own, as many at once as there are processors: a program without its checks may
// crash, which counts as noticed, or never end, which counts as undecided.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "persist/mutant.hpp"
#include "simulator/commit_scenarios.hpp"
#include "simulator/parallel.hpp"

namespace holdfast::simulator {
namespace {

/// A mutant that takes longer is neither killed nor equivalent: the test fails.
constexpr unsigned seconds_a_mutant = 200;
/// What the scenarios leave alive, some of these notice.
constexpr std::uint64_t random_programs = 60;

enum class verdict { survived, killed, undecided };

/// Sites whose mutant changes nothing that a crash can show, each with the proof.
const std::map<std::string, std::string>& equivalent_sites() {
    static const std::map<std::string, std::string> sites{
        {"journal.allocate",
         "It asks for space early, so that a full disk shows before anything is written (full_disk_test). What is "
         "written to the journal afterwards makes the file just as long. Until journal.sync returns, a journal that is "
         "too short for its entries is broken, as one that lacks their content is; and the sync makes size and content "
         "durable together."},
        {"journal.void.resize",
         "It gives space back and no more. At creation the size is right already. Later the void header, made durable "
         "before anything else changes, says that nothing behind it counts; the next journal overwrites all that its "
         "header speaks of, and where a crash leaves older pages there instead, the checksum of the table (with the "
         "sequence as seed) or that of the page tells. What is beyond is never read, and no test asks that a journal "
         "be as short as its entries."},
    };
    return sites;
}

struct exploration {
    std::string name;
    std::function<explore_report()> run;
};

/// The quick ones come first, and most mutants need no others.
std::vector<exploration> explorations() {
    std::vector<exploration> all;
    const auto add = [&all](const commit_scenario& one, std::uint64_t atom_size) {
        all.push_back({one.name + ", atoms of " + std::to_string(atom_size),
                       [one, atom_size] { return explore(one, atom_size, mutant_effort()); }});
    };
    for (const auto& one : commit_scenarios()) {
        add(one, 512);
    }
    for (const auto& one : commit_scenarios()) {
        if (rewrites_under_one_checksum_page(one)) {
            all.push_back({one.name + ", damaged", [one] { return explore_damaged_journals(one, mutant_effort()); }});
        }
    }
    for (const auto& one : commit_scenarios()) {
        add(one, 8);
    }
    for (std::uint64_t seed = 1; seed <= random_programs; ++seed) {
        add(random_scenario(seed), seed % 2 == 0 ? 8 : 512);
    }
    return all;
}

/// In a process of its own, from which the answer is its exit status.
[[noreturn]] void run_mutant(const std::string& site) {
    ::alarm(seconds_a_mutant);
    const persist::mutant_selection mutant{site};
    for (const auto& one : explorations()) {
        if (!one.run().violations.empty()) {
            std::printf("killed: %s, by %s\n", site.c_str(), one.name.c_str());
            std::fflush(stdout);
            ::_exit(1);
        }
    }
    ::_exit(0);
}

verdict verdict_of(int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        return verdict::undecided;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? verdict::survived : verdict::killed;
}

std::map<std::string, verdict> run_mutants(const std::vector<std::string>& sites) {
    std::map<std::string, verdict> verdicts;
    std::map<pid_t, std::string> running;
    for (std::size_t next = 0; next < sites.size() || !running.empty();) {
        if (next < sites.size() && running.size() < processors()) {
            std::fflush(nullptr);
            const pid_t child = ::fork();
            if (child == 0) {
                run_mutant(sites[next]);
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
        running.erase(found);
    }
    return verdicts;
}

/// What goes wrong with nothing left out. Notes the sites, too.
std::string explore_original() {
    const auto all = explorations();
    std::mutex mutex;
    std::string wrong;
    for_each_in_parallel(all.size(), [&](std::size_t i) {
        const auto report = all[i].run();
        const std::lock_guard lock{mutex};
        if (!report.violations.empty()) {
            wrong += all[i].name + ": " + report.violations.front() + "\n";
        }
    });
    return wrong;
}

TEST(mutants, EveryOneOfTheCommitProtocolIsKilled) {
    persist::forget_sites();
    const std::string wrong = explore_original();
    ASSERT_TRUE(wrong.empty()) << "with nothing left out: " << wrong;
    std::vector<std::string> sites;
    for (const auto& one : persist::seen_sites()) {
        // A name that is not made is an error at once, not a matter of durability.
        if (one.kind != persist::site_kind::name && !one.name.starts_with("test.")) {
            sites.push_back(one.name);
        }
    }
    int killed = 0;
    int equivalent = 0;
    const auto verdicts = run_mutants(sites);
    for (const auto& [site, what] : verdicts) {
        const bool listed = equivalent_sites().contains(site);
        EXPECT_NE(what, verdict::undecided) << site << ": undecided in time";
        EXPECT_FALSE(what == verdict::survived && !listed) << site << " survived";
        EXPECT_FALSE(what == verdict::killed && listed) << site << " is listed as equivalent, and is not";
        killed += what == verdict::killed ? 1 : 0;
        equivalent += what == verdict::survived && listed ? 1 : 0;
    }
    std::printf("%zu mutants: %d killed, %d equivalent\n", sites.size(), killed, equivalent);
    EXPECT_EQ(verdicts.size(), sites.size());
    EXPECT_GT(killed, 20);
    EXPECT_EQ(static_cast<std::size_t>(equivalent), equivalent_sites().size()) << "a site that is listed is gone";
}

}  // namespace
}  // namespace holdfast::simulator
