// Random programs on LMDB's interface: every step of a program is run on Debian's liblmdb and on ours, and both must do
// what the model says. A failure is made small before it is shown, by leaving out steps for as long as the rest fails.
//
// Programs run in child processes, so that a crash is a failure as another. By hand:
//   store_differential_test --operations N --seed N
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "store/library_subject.hpp"
#include "store/store_model.hpp"

namespace holdfast::test {
namespace {

struct options {
    std::uint64_t operations = 1'000'000;
    std::uint64_t seed = std::random_device{}();
};
options chosen;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the command line

constexpr std::size_t steps_of_a_program = 1500;

/// What a child says of its run, in memory that outlives it.
struct run_report {
    std::uint64_t commands;
    char failure[2048];
    char last[6][256];  ///< a ring
};

/// A program and how its environments are opened.
struct program {
    std::uint64_t seed;
    std::vector<step> steps;
    unsigned databases;
    unsigned flags;
    bool strict;  ///< on ours alone, which must also do what Debian's is known to do wrong
};

program draw_program(std::uint64_t seed) {
    random_words random(~seed);
    program made{seed, make_program(seed, steps_of_a_program), 0, 0, false};
    for (int i = 0; i < 3; ++i) {
        made.databases |= 1U << random.below(kinds_of_databases);
    }
    made.flags = random.below(4) == 0 ? MDB_WRITEMAP : 0;
    made.strict = has_lmdb("holdfast") && random.below(3) == 0;
    return made;
}

class program_runner {
public:
    program_runner(const program& run, const std::string& directory, run_report& report)
        : run_(run), report_(report), model_(run.databases, (run.flags & MDB_WRITEMAP) == 0, run.strict) {
        for (const named_library& one : lmdb_libraries()) {
            if (run.strict && one.name == "debian") {
                continue;
            }
            subjects_.push_back(
                {one.name, std::make_unique<library_subject>(lmdb(one.name), directory + "/" + one.name, run.flags)});
        }
    }

    void go() {
        perform(model_.creation());
        for (const step& taken : run_.steps) {
            if (report_.failure[0] != '\0') {
                return;
            }
            perform(model_.resolve(taken));
        }
        for (command last = model_.ending(); last.what != action::nothing && report_.failure[0] == '\0';
             last = model_.ending()) {
            perform(last);
        }
    }

private:
    struct subject {
        std::string name;
        std::unique_ptr<library_subject> library;
    };

    void perform(const command& called) {
        if (called.what == action::nothing) {
            return;
        }
        write(report_.last[report_.commands % std::size(report_.last)], describe(called));
        const outcome expected = model_.perform(called);
        for (const subject& one : subjects_) {
            const std::string wrong = difference(expected, one.library->perform(called));
            if (!wrong.empty()) {
                write(report_.failure,
                      fmt::format("{}, command {}: {}: {}", one.name, report_.commands, describe(called), wrong));
                return;
            }
        }
        ++report_.commands;
    }

    template <std::size_t size>
    static void write(char (&to)[size], const std::string& text) {
        const std::size_t length = std::min(text.size(), size - 1);
        std::memcpy(to, text.data(), length);
        to[length] = '\0';
    }

    const program& run_;
    run_report& report_;
    store_model model_;
    std::vector<subject> subjects_;
};

/// Runs programs in one child. The report is of the first that failed, or of all.
class child_runs {
public:
    child_runs()
        : report_(static_cast<run_report*>(
              ::mmap(nullptr, sizeof(run_report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
    child_runs(const child_runs&) = delete;
    child_runs& operator=(const child_runs&) = delete;
    ~child_runs() { ::munmap(report_, sizeof(run_report)); }

    /// "" or what is wrong. `failed`: the index of the program.
    std::string run(const std::vector<program>& programs, std::size_t& failed) {
        std::memset(static_cast<void*>(report_), 0, sizeof(run_report));
        const base::scratch_directory place;
        auto* const at = static_cast<std::size_t*>(
            ::mmap(nullptr, sizeof(std::size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        const pid_t child = ::fork();  // lint-allow(fork): on the interface of LMDB alone
        if (child == 0) {
            ::alarm(60);
            for (*at = 0; *at < programs.size() && report_->failure[0] == '\0'; ++*at) {
                run_one(programs[*at], place.path(std::to_string(*at)));
            }
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        failed = report_->failure[0] != '\0' ? *at - 1 : *at;
        ::munmap(at, sizeof(std::size_t));
        if (WIFSIGNALED(status)) {
            return fmt::format("killed by signal {} in command {}: {}", WTERMSIG(status), report_->commands,
                               report_->last[report_->commands % std::size(report_->last)]);
        }
        return report_->failure;
    }
    [[nodiscard]] const run_report& report() const { return *report_; }

private:
    void run_one(const program& one, const std::string& directory) {
        try {
            std::filesystem::create_directory(directory);
            program_runner(one, directory, *report_).go();
            std::filesystem::remove_all(directory);
        } catch (const std::exception& what) {
            std::strncpy(report_->failure, what.what(), sizeof(report_->failure) - 1);
        }
    }

    run_report* report_;
};

/// What failed, without the place and the values: "debian put", "killed by".
std::string kind_of_failure(const std::string& text) {
    const auto colon = text.find(": ");
    const auto comma = text.find(", command");
    return comma == std::string::npos || colon == std::string::npos
               ? text.substr(0, 9)
               : text.substr(0, comma + 1) + text.substr(colon + 2, text.find(' ', colon + 2) - colon - 2);
}

/// Leaves out parts of a program for as long as it fails in the same way; at most so many runs.
program make_small(program failing, const std::string& failure, child_runs& runs) {
    std::size_t tries = 600;
    for (std::size_t part = failing.steps.size() / 2; part > 0 && tries > 0; part /= 2) {
        for (std::size_t at = 0; at < failing.steps.size() && tries > 0;) {
            program less = failing;
            const auto from = less.steps.begin() + static_cast<std::ptrdiff_t>(at);
            less.steps.erase(from, from + static_cast<std::ptrdiff_t>(std::min(part, less.steps.size() - at)));
            std::size_t ignored = 0;
            --tries;
            if (kind_of_failure(runs.run({less}, ignored)) == kind_of_failure(failure)) {
                failing = std::move(less);
            } else {
                at += part;
            }
        }
    }
    return failing;
}

/// The commands of a program, as the model resolves them.
std::string listing(const program& shown) {
    store_model model(shown.databases, (shown.flags & MDB_WRITEMAP) == 0, shown.strict);
    std::string text;
    const auto add = [&](const command& called) {
        if (called.what != action::nothing) {
            text += fmt::format("  {}\n", describe(called));
            static_cast<void>(model.perform(called));
        }
    };
    add(model.creation());
    for (const step& taken : shown.steps) {
        add(model.resolve(taken));
    }
    return text;
}

TEST(store_differential, libraries_do_what_the_model_says) {
    ASSERT_FALSE(lmdb_libraries().empty()) << "there is no liblmdb";
    if (lmdb_libraries().size() < 2) {
        std::cout << "only " << lmdb_libraries().front().name << "'s liblmdb is here: compared with the model alone\n";
    }
    child_runs runs;
    std::uint64_t commands = 0;
    for (std::uint64_t seed = chosen.seed; commands < chosen.operations; seed += 20) {
        std::vector<program> programs;
        for (std::uint64_t i = 0; i < 20; ++i) {
            programs.push_back(draw_program(seed + i));
        }
        std::size_t failed = 0;
        std::string wrong = runs.run(programs, failed);
        if (!wrong.empty()) {
            const program small = make_small(programs.at(failed), wrong, runs);
            std::size_t ignored = 0;
            FAIL() << "seed " << programs[failed].seed << ": " << wrong << "\nmade small (environment flags "
                   << fmt::format("{:#x}", small.flags) << "): " << runs.run({small}, ignored) << "\n"
                   << listing(small);
        }
        ASSERT_GT(runs.report().commands, 1000U) << "the programs do nothing";
        commands += runs.report().commands;
    }
    std::cout << commands << " operations, seeds from " << chosen.seed << '\n';
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) {
    testing::InitGoogleTest(&count, arguments);
    const auto number = [&](int at, std::uint64_t& value) {
        const std::string_view text = arguments[at];
        return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{};
    };
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string_view name = arguments[i];
        if (!number(i + 1, name == "--seed" ? holdfast::test::chosen.seed : holdfast::test::chosen.operations)) {
            return 2;
        }
    }
    return RUN_ALL_TESTS();
}
