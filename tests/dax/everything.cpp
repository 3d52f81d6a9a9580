#include "dax/everything.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "dax/say.hpp"
#include "dax/subjects.hpp"

namespace holdfast::dax {
namespace {

constexpr std::uint64_t operations_a_report = 8;

/// The last operation after which the table is as it is. Values are numbers of operations; behind the greatest, some
/// may have removed what is not there any more.
std::uint64_t number_of(const table& found, std::uint64_t seed) {
    constexpr std::uint64_t further = 200;
    std::uint64_t greatest = 0;
    for (const auto& [key, value] : found) {
        greatest = std::max(greatest, value);
    }
    table planned;
    std::uint64_t last = 0;
    bool any = found.empty();
    for (std::uint64_t number = 1; number <= greatest + further; ++number) {
        add_change(change_of(seed, number), planned);
        if (number >= greatest && planned == found) {
            last = number;
            any = true;
        }
    }
    if (!any) {
        throw std::runtime_error("it is as after no operation");
    }
    return last;
}

std::uint64_t report(const subject_kind& kind, subject& of, std::uint64_t seed) {
    const std::uint64_t number = number_of(of.content(), seed);
    say("there {} {} in {} problems {}", kind.name, number, of.domain(), of.problems());
    return number;
}

/// In a process of its own: an error of one subject ends the others' machine, too, and is told.
template <class Work>
pid_t in_child(const subject_kind& kind, Work work) {
    const pid_t child = ::fork();  // lint-allow(fork): the guest's first process has no threads
    if (child == 0) {
        try {
            work();
            ::_exit(0);
        } catch (const std::exception& thrown) {
            say("error {} {}", kind.name, thrown.what());
            ::_exit(1);
        }
    }
    return child;
}

/// Opens it, reports it, and goes on with it, for ever. `progress`: a byte for each operation, or -1.
void work_on(const subject_kind& kind, const std::string& directory, std::uint64_t seed, int progress) {
    const auto opened = kind.open(directory + "/" + kind.name);
    for (std::uint64_t number = report(kind, *opened, seed) + 1;; ++number) {
        opened->carry_out(change_of(seed, number), number);
        if (number % operations_a_report == 0) {
            say("did {} {}", kind.name, number);
        }
        if (progress >= 0 && ::write(progress, "", 1) != 1) {
            ::_exit(1);
        }
    }
}

/// Kills a process with SIGKILL after so many operations.
void kill_once(const subject_kind& kind, const std::string& directory, std::uint64_t seed, std::uint64_t after) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
        throw std::runtime_error("pipe");
    }
    const pid_t child = in_child(kind, [&] {
        ::close(ends[0]);
        work_on(kind, directory, seed, ends[1]);
    });
    ::close(ends[1]);
    char done = 0;
    while (after > 0 && ::read(ends[0], &done, 1) == 1) {
        --after;
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
    if (after != 0) {
        throw std::runtime_error(std::string(kind.name) + " has ended itself");
    }
}

}  // namespace

int work_on_all(const std::string& directory, std::uint64_t seed) {
    for (std::uint64_t round = 0; round < 2; ++round) {
        for (const subject_kind& kind : subjects()) {
            kill_once(kind, directory, seed, 10 + change_of(seed + round, seed).key % 40);
        }
    }
    say("all");
    for (const subject_kind& kind : subjects()) {
        in_child(kind, [&] { work_on(kind, directory, seed, -1); });
    }
    ::wait(nullptr);  // none ends but with the machine
    return 1;
}

int examine_all(const std::string& directory, std::uint64_t seed) {
    for (const subject_kind& kind : subjects()) {
        const auto opened = kind.open(directory + "/" + kind.name);
        report(kind, *opened, seed);
    }
    say("examined");
    return 0;
}

}  // namespace holdfast::dax
