// Durability `atomic` on real DAX: a guest with an NVDIMM and ext4 mounted with dax=always is killed while two threads
// work, and started again, to go on with the heap that it left. So a cycle, which is a kill, costs one boot.
//
// Fault model: the whole machine stops between any two instructions. Executed stores are on media; what the kernel had
// not written is lost. Without MAP_SYNC the file system forgets blocks that the heap used, and this test finds holes.
// So the test proves detection, mapping, growth and recovery, but not that flushes happen: the simulator does.
//
// A second test does the same with each durability, with transactions, indexes and stores, whose processes are also
// killed while the machine lives.
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>

#include "base/scratch_test_support.hpp"
#include "dax/plan.hpp"
#include "dax/subjects.hpp"
#include "dax/virtual_machine.hpp"
#include "kill/options.hpp"

namespace holdfast::dax {
namespace {

using testing::Contains;
using testing::Each;
using testing::EndsWith;
using testing::Ge;
using testing::HasSubstr;
using testing::Lt;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

using lines = std::vector<std::string>;

/// The kernel's directory: the package HOLDFAST_DAX_KERNEL, or what scripts/fetch-kernel.sh fetches by default.
std::string kernel_directory() {
    const char* const package = std::getenv("HOLDFAST_DAX_KERNEL");
    return std::string(HOLDFAST_KERNELS "/") + (package == nullptr ? "linux-image-cloud-amd64" : package);
}

/// Makes the guest's initial file system. Returns what is missing, or nothing.
std::string make_initramfs(const std::string& output) {
    const std::string why = output + ".missing";
    const std::string command = "'" HOLDFAST_MAKE_INITRAMFS "' '" + kernel_directory() + "' '" + output +
                                "' '" HOLDFAST_DAX_GUEST "' '" HOLDFAST_PROGRAM "' >'" + why + "'";
    const int status = std::system(command.c_str());
    if (status == 0) {
        return {};
    }
    std::ostringstream text;
    text << std::ifstream(why).rdbuf();
    return WIFEXITED(status) && WEXITSTATUS(status) == 77 ? text.str() : "make_initramfs.sh failed";
}

using number_of_thread = std::map<std::uint64_t, std::uint64_t>;

/// The last number of each thread: {0: n, 1: m} from "hf call 0 n" and "hf call 1 m".
number_of_thread last_numbers(const lines& said, const std::string& word) {
    number_of_thread found;
    for (const std::string& line : said) {
        std::istringstream words(line);
        std::string mark;
        std::string what;
        std::uint64_t thread = 0;
        std::uint64_t number = 0;
        if (words >> mark >> what >> thread >> number && mark == "hf" && what == word) {
            found[thread] = number;
        }
    }
    return found;
}

std::vector<std::uint64_t> numbers_after(const lines& said, const std::string& begin, const std::string& word) {
    std::vector<std::uint64_t> found;
    for (const std::string& line : said) {
        const auto at = line.find(" " + word + " ");
        if (line.starts_with(begin) && at != std::string::npos) {
            found.push_back(std::stoull(line.substr(at + word.size() + 2)));
        }
    }
    return found;
}

class dax_test : public testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        options_.kernel = kernel_directory() + "/vmlinuz";
        options_.initramfs = scratch_.path() + "/initramfs";
        options_.nvdimm = scratch_.path() + "/nvdimm";
        options_.nvdimm_size = std::uint64_t{512} << 20U;
        options_.persistent_caches = GetParam();
        const std::string missing = make_initramfs(options_.initramfs);
        if (missing.empty()) {
            return;
        }
        const char* const required = std::getenv("HOLDFAST_REQUIRE_DAX");
        if (required != nullptr && std::string(required) == "1") {
            FAIL() << "no guest with DAX can be booted here, as HOLDFAST_REQUIRE_DAX=1 asks for: " << missing;
        }
        std::cerr << "\n*** NOT TESTED HERE: no guest with DAX can be booted: " << missing
                  << " (make dax installs what it needs)\n"
                  << std::endl;
        GTEST_SKIP() << missing;
    }
    void TearDown() override {
        if (HasFailure() && std::filesystem::exists(scratch_.path() + "/console-make")) {
            scratch_.keep();
            std::cerr << "kept in " << scratch_.path() << ", seed " << seed_ << std::endl;
        }
    }

    /// New media; machines that work on one heap and are killed, one after the other; a machine that examines.
    void run_cycles(std::uint64_t seed, std::uint64_t cycles) {
        seed_ = seed;
        std::ofstream(options_.nvdimm).close();
        std::filesystem::resize_file(options_.nvdimm, options_.nvdimm_size);
        number_of_thread before{{0, 0}, {1, 0}};  // calls that the dead machine had found in the heap
        lines dead = work("make", seed);
        for (std::uint64_t cycle = 1; cycle < cycles && !HasFailure(); ++cycle) {
            const lines next = work("work", seed + cycle * 1237);
            before = expect_every_call(before, dead, next);
            dead = next;
        }
        if (HasFailure()) {
            return;
        }
        const lines examined = boot("examine", [](const std::string&) { return false; });
        expect_dax(examined, 1);
        EXPECT_THAT(examined, Contains(MatchesRegex("hf info domain +" + domain())).Times(2)) << "crashed, and closed";
        expect_every_call(before, dead, examined);
        expect_emptied(examined);
    }

    /// A machine that is killed after enough calls of one thread to fill the record rings and force a checkpoint.
    lines work(const std::string& step, std::uint64_t random) {
        const std::uint64_t calls_of_one = 10'000 + random % 5000;
        number_of_thread first;
        lines worked = boot(step, [calls_of_one, &first](const std::string& line) {
            const number_of_thread done = last_numbers({line}, "call");
            return !done.empty() && done.begin()->second >= first.insert(*done.begin()).first->second + calls_of_one;
        });
        expect_dax(worked, 2);
        return worked;
    }

    /// Reads the console until the guest powers off or a line is `enough`, then kills the machine.
    template <class Enough>
    lines boot(const std::string& step, Enough enough) {
        options_.kernel_command_line = "dax_step=" + step + " dax_seed=" + std::to_string(seed_);
        const auto start = std::chrono::steady_clock::now();
        lines said;
        virtual_machine machine(options_);
        std::ofstream log(scratch_.path() + "/console-" + step, std::ios::app);
        while (const auto line = machine.next_line()) {
            log << *line << "\n";
            said.push_back(*line);
            if (!line->starts_with("hf call") && !line->starts_with("hf did")) {
                std::cout << "  " << step << ": " << *line << "\n";
            }
            if (enough(*line)) {
                break;
            }
        }
        machine.kill();
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
        std::cout << "  " << step << ": " << time.count() << " s" << std::endl;
        EXPECT_THAT(said, Not(Contains(StartsWith("hf error"))));
        return said;
    }

    static std::string domain() { return GetParam() ? "eadr" : "dax"; }

    /// The heap finds the domain. All mappings of its files are synchronous, in each report: at creation or after
    /// recovery, and, where the machine works, after growth.
    static void expect_dax(const lines& said, std::size_t reports) {
        EXPECT_THAT(said, Contains(HasSubstr("dax=always")));
        EXPECT_THAT(said, Contains("hf domain " + domain()));
        const auto mappings = numbers_after(said, "hf", "mappings");
        EXPECT_THAT(mappings, SizeIs(reports));
        EXPECT_THAT(mappings, Each(Ge(3U))) << "segment, objects, lanes";
        EXPECT_EQ(numbers_after(said, "hf mappings", "synchronous"), mappings);
    }

    /// The next machine finds a crashed heap, every call that the dead one reported, and no block besides. Returns the
    /// last call of each thread that is there. `before`: what the dead machine had found.
    static number_of_thread expect_every_call(const number_of_thread& before, const lines& dead, const lines& next) {
        const number_of_thread reported = last_numbers(dead, "call");
        const number_of_thread stands = last_numbers(next, "stands");
        EXPECT_EQ(reported.size(), threads);
        EXPECT_EQ(stands.size(), threads);
        if (reported.size() != threads || stands.size() != threads) {
            return stands;
        }
        std::uint64_t calls = 0;
        for (const auto& [thread, last] : reported) {
            std::cout << "  thread " << thread << ": " << last << " calls reported, " << stands.at(thread)
                      << " there\n";
            EXPECT_GE(stands.at(thread), last) << "calls that returned are lost, or (0) the heap is in between";
            calls += stands.at(thread) - before.at(thread);
        }
        EXPECT_THAT(next, Contains(MatchesRegex("hf info state +crashed.*")));
        EXPECT_THAT(next, Contains(MatchesRegex("hf info durability +atomic")));
        EXPECT_THAT(next, Contains(StartsWith("hf recovered true")));
        EXPECT_THAT(numbers_after(next, "hf recovered", "pending"), Each(Lt(calls))) << "no checkpoint was made";
        EXPECT_THAT(next, Contains(MatchesRegex("hf blocks [0-9]+ reachable [0-9]+ same")));
        EXPECT_THAT(next, Contains("hf problems 0"));
        return stands;
    }

    static void expect_emptied(const lines& examined) {
        EXPECT_THAT(examined, Contains("hf problems 0").Times(3)) << "recovered; emptied; committed";
        EXPECT_THAT(examined, Contains("hf all_freed true"));
        EXPECT_THAT(examined, Contains("hf committed 2048 of 2048 pages")) << "durability commit";
        EXPECT_THAT(examined, Contains("hf check 0"));
        EXPECT_THAT(examined, Contains("hf end"));
    }

    base::scratch_directory scratch_{"."};
    machine_options options_;
    std::uint64_t seed_ = 0;
};

TEST_P(dax_test, keeps_every_call_that_returned_when_the_machine_dies) {
    constexpr std::uint64_t cycles_a_heap = 10;
    const std::uint64_t cycles = test::options().cycles;
    for (std::uint64_t done = 0; done < cycles && !HasFailure() && !IsSkipped(); done += cycles_a_heap) {
        run_cycles(test::options().seed + done, std::min(cycles - done, cycles_a_heap));
    }
}

/// Each operation that one subject reported is there when it is opened next: after a kill, after the machine's death.
/// Returns how often that was looked at.
std::map<std::string, std::size_t> expect_all_there(const lines& said, const std::string& domain) {
    std::map<std::string, std::uint64_t> did;
    std::map<std::string, std::size_t> looks;
    for (const std::string& line : said) {
        std::istringstream words(line);
        std::string mark;
        std::string what;
        std::string name;
        std::uint64_t number = 0;
        if (!(words >> mark >> what >> name >> number) || mark != "hf") {
            continue;
        }
        if (what == "there") {
            EXPECT_GE(number, did[name]) << line;
            EXPECT_THAT(line, EndsWith(name == "commit" ? " problems 0" : " in " + domain + " problems 0"));
            ++looks[name];
        }
        if (what == "there" || what == "did") {
            did[name] = number;
        }
    }
    for (const auto& [name, number] : did) {
        std::cout << "  " << name << ": " << number << " operations, opened " << looks[name] << " times\n";
    }
    return looks;
}

TEST_P(dax_test, keeps_what_was_done_in_each_durability_by_indexes_and_stores) {
    constexpr std::uint64_t reports_of_each = 3;
    seed_ = test::options().seed;
    std::ofstream(options_.nvdimm).close();
    std::filesystem::resize_file(options_.nvdimm, options_.nvdimm_size);
    lines said;
    const std::uint64_t cycles = test::options().cycles;
    for (std::uint64_t cycle = 0; cycle < cycles && !IsSkipped() && !HasFailure(); ++cycle) {
        bool all = false;
        std::map<std::string, std::uint64_t> reports;
        const lines more = boot(cycle == 0 ? "make_all" : "work_all", [&](const std::string& line) {
            all = all || line == "hf all";
            if (all && line.starts_with("hf did ")) {
                ++reports[line.substr(7, line.rfind(' ') - 7)];
            }
            return reports.size() == subject_count &&
                   std::ranges::all_of(reports, [](const auto& one) { return one.second >= reports_of_each; });
        });
        EXPECT_TRUE(all) << "the machine died before all worked side by side";
        said.insert(said.end(), more.begin(), more.end());
    }
    if (HasFailure() || IsSkipped()) {
        return;
    }
    const lines examined = boot("examine_all", [](const std::string&) { return false; });
    EXPECT_THAT(examined, Contains("hf end"));
    said.insert(said.end(), examined.begin(), examined.end());
    const auto looks = expect_all_there(said, domain());
    EXPECT_THAT(looks, SizeIs(subject_count));
    for (const auto& [name, count] : looks) {
        EXPECT_EQ(count, 3 * cycles + 1) << name << ": two kills and the machine's death in a cycle";
    }
}

INSTANTIATE_TEST_SUITE_P(domains, dax_test, testing::Values(false, true),
                         [](const auto& each) { return each.param ? "eadr" : "dax"; });

}  // namespace
}  // namespace holdfast::dax

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 3); }
