// package_graph_demo: starts a process that ingests, kills it with SIGKILL at a random moment, lets a second process
// verify and finish the work with the heap mapped elsewhere, and a third one answer questions. Exit status: 0; 1 where
// anything differed; 2 where the demo could not run.
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "child_process.hpp"
#include "command_line/command_line.hpp"
#include "control_file.hpp"
#include "sidecar.hpp"

namespace {

using namespace package_graph;
namespace files = std::filesystem;
using clock_type = std::chrono::steady_clock;
using duration = std::chrono::duration<double>;

struct arguments {
    std::string program;
    std::string heap = "packages.hf";
    std::string input;
    std::string sample;
    std::uint64_t commit_every = 2000;
    std::uint64_t seed = 0;
    unsigned kills = 1;
};

/// An index with fewer packages than this is too small for the demo.
constexpr std::uint64_t enough_stanzas = 1000;

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
    fmt::print(format, std::forward<Args>(args)...);
    fmt::print("\n");
    std::fflush(stdout);
}

[[nodiscard]] std::uint64_t count_stanzas(const std::string& path) {
    const std::string text = read_inputs({path});
    return control_reader(text).skip(UINT64_MAX);
}

/// Writes all package indexes that apt has on this machine to one file; false where there are none.
[[nodiscard]] bool write_index_of_apt(const std::string& into) {
    const std::string list = into + ".list";
    std::vector<std::string> command{"/usr/lib/apt/apt-helper", "cat-file"};
    if (run({"apt-get", "indextargets", "--format", "$(FILENAME)", "Created-By: Packages"}, list) == 0) {
        std::ifstream names(list);
        for (std::string name; std::getline(names, name);) {
            if (files::exists(name)) {
                command.push_back(name);
            }
        }
    }
    files::remove(list);
    return command.size() > 2 && run(command, into) == 0 && count_stanzas(into) >= enough_stanzas;
}

[[nodiscard]] std::string find_input(const arguments& given) {
    if (!given.input.empty()) {
        return given.input;
    }
    std::string into = given.heap + ".input";
    if (write_index_of_apt(into)) {
        return into;
    }
    if (given.sample.empty()) {
        throw std::runtime_error("apt has no package index on this machine, and there is no --sample");
    }
    say("  apt has no package index here: taking the sample {}", given.sample);
    if (run({"xz", "--decompress", "--stdout", given.sample}, into) != 0) {
        throw std::runtime_error("cannot decompress " + given.sample);
    }
    return into;
}

class difference : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// When to kill: a random part of two commit intervals after `stanzas` are committed; or (`by_time`) a random time
/// after the start, which may hit the open or the recovery.
struct moment {
    bool by_time = false;
    std::uint64_t stanzas = 0;
    double fraction = 0;  ///< of two commit intervals, or of a quarter of a second
};

class demo {
public:
    explicit demo(arguments given) : given_(std::move(given)), random_(given_.seed), input_(find_input(given_)) {
        total_ = count_stanzas(input_);
        say("  {} stanzas; seed {}", total_, given_.seed);
    }

    [[nodiscard]] int show() {
        interrupt_until_killed();
        for (unsigned i = 1; i < given_.kills; ++i) {
            say("\n== Another process goes on, and is killed, too");
            if (!ingest_and_kill({"--base", "other", "--verify"}, choose_moment(i, random_() % 3 == 0))) {
                say("  it had finished");
                break;
            }
        }
        say("\n== Another process opens the heap at another address, verifies it, and finishes the work");
        require(
            run(command("ingest", {"--base", "other", "--verify", "--progress", "--commit-every", commit_every()})));
        if (given_.kills > 1) {
            say("\n== One more verifies the end");
            require(run(command("verify", {"--base", "other"})));
        }
        say("\n== A third process opens the finished heap and answers");
        require(run(command("query", {"--base", "other"})));
        say("\n== All as it must be. The heap stays for you to look at:");
        const std::string viewer = (files::path(given_.program).parent_path() / "holdfast").lexically_normal().string();
        for (const char* const subject : {"info", "ls", "check"}) {
            say("  {} {} {}", viewer, subject, given_.heap);
        }
        say("  {} map {} -o map.html", viewer, given_.heap);
        return 0;
    }

private:
    [[nodiscard]] std::string commit_every() const { return std::to_string(given_.commit_every); }

    [[nodiscard]] std::vector<std::string> command(const std::string& name, std::vector<std::string> more) const {
        std::vector<std::string> words{given_.program, name, "--heap", given_.heap, "--input", input_};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }

    static void require(int status) {
        if (status != 0) {
            throw difference(fmt::format("the process ended with status {}", status));
        }
    }

    /// Runs and kills the first process. If it ends before the kill, starts again and kills it earlier.
    void interrupt_until_killed() {
        for (unsigned attempt = 0; attempt < 6; ++attempt) {
            remove_old_heap();
            say("\n== A process ingests the index{}",
                attempt > 0 ? ", once more: it had finished before it was killed" : "");
            moment when = choose_moment(0, false);
            when.stanzas >>= attempt;
            if (ingest_and_kill({"--progress"}, when)) {
                return;
            }
        }
        throw std::runtime_error("the ingesting process could not be interrupted");
    }

    void remove_old_heap() {
        if (files::exists(given_.heap)) {
            holdfast::manager::remove(given_.heap);
        }
        files::remove(sidecar_path(given_.heap));
    }

    [[nodiscard]] moment choose_moment(unsigned index, bool by_time) {
        std::uniform_real_distribution<double> spread(-0.2, 0.2);
        std::uniform_real_distribution<double> part(0, 1);
        const double share = (index + 1 + spread(random_)) / (given_.kills + 1);
        return {by_time, static_cast<std::uint64_t>(share * static_cast<double>(total_)), part(random_)};
    }

    /// False where the process ended by itself, without an error.
    [[nodiscard]] bool ingest_and_kill(std::vector<std::string> more, const moment& when) {
        more.insert(more.end(), {"--commit-every", commit_every()});
        const clock_type::time_point start = clock_type::now();
        child_process process(command("ingest", more));
        if (!wait_for(process, when)) {
            require(process.wait());
            return false;
        }
        process.kill();
        const duration lived = clock_type::now() - start;
        const int status = process.wait();
        if (status == 0) {
            return false;
        }
        if (status != 128 + 9) {
            require(status);
        }
        const testimony left = read_sidecar(sidecar_path(given_.heap));
        say("\n  SIGKILL to process {} after {:.3f} s: {} commits had returned ({} stanzas){}", process.id(),
            lived.count(), left.done.size(), left.done.empty() ? 0 : left.done.back().graph.stanzas,
            left.begun > left.done.size() ? fmt::format(", commit {} had begun", left.begun) : "");
        return true;
    }

    /// False where the process ended before the moment.
    [[nodiscard]] bool wait_for(child_process& process, const moment& when) {
        const std::string path = sidecar_path(given_.heap);
        duration interval = std::chrono::milliseconds(250);
        if (!when.by_time) {
            clock_type::time_point last_change = clock_type::now();
            std::size_t last_count = SIZE_MAX;
            for (;;) {
                if (!process.running()) {
                    return false;
                }
                const testimony seen = read_sidecar(path);
                const clock_type::time_point now = clock_type::now();
                if (seen.done.size() != last_count) {
                    interval = 2 * (now - last_change);
                    last_change = now;
                    last_count = seen.done.size();
                }
                if (!seen.done.empty() && seen.done.back().graph.stanzas >= when.stanzas) {
                    break;
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        std::this_thread::sleep_for(when.fraction * interval);
        return process.running();
    }

    arguments given_;
    std::mt19937_64 random_;
    std::string input_;
    std::uint64_t total_ = 0;
};

int run_demo(int argc, char** argv) {
    arguments given;
    given.program = (files::read_symlink("/proc/self/exe").parent_path() / "package_graph").string();
    given.seed = std::random_device{}();
    holdfast_programs::command_line program(
        "Kills a program that fills a persistent heap, and shows that the heap is none the worse");
    program.add_option("--program", given.program, "package_graph").show_default();
    program.add_option("--heap", given.heap, "The heap's directory; a heap that is there is removed").show_default();
    program.add_option("--input", given.input, "A file in the format of Debian's Packages; default: all that apt has");
    program.add_option("--sample", given.sample, "The same, compressed with xz, for where apt has none");
    program.add_option("--commit-every", given.commit_every, "Stanzas from one commit to the next")
        .positive()
        .show_default();
    program.add_option("--kills", given.kills, "How often to kill").range(1U, 1000U).show_default();
    program.add_option("--seed", given.seed, "Of the moments to kill");
    if (const auto status = program.parse(argc, argv)) {
        return *status;
    }
    if (const files::path parent = files::path(given.heap).parent_path(); !parent.empty()) {
        files::create_directories(parent);
    }
    say("== The input");
    return demo(given).show();
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_demo(argc, argv);
    } catch (const difference& failure) {
        fmt::print(stderr, "package_graph_demo: {}\n", failure.what());
        return 1;
    } catch (const std::exception& failure) {
        fmt::print(stderr, "package_graph_demo: {}\n", failure.what());
        return 2;
    }
}
