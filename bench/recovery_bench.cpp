// What opening a heap of durability `atomic` costs after SIGKILL: a list of small objects (PMAlloc, table 3), whose
// last records are pending. The same heap opened after a clean close is what mapping its files costs.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

constexpr std::uint64_t million = 1'000'000;
constexpr double limit_ms = 10.0;  // the goal, for 10 million objects, beyond mapping the files

struct options {
    bench::common_options common;
    std::vector<std::uint64_t> objects{10 * million};
};

struct node {
    holdfast::ptr<node> next;
};

holdfast::open_options atomic_options() {
    holdfast::open_options wanted;
    wanted.durability = holdfast::durability::atomic;
    wanted.domain = holdfast::open_options::domain_choice::emulated;
    return wanted;
}

holdfast::ptr<node>& head_of(const holdfast::manager& heap) {
    return reinterpret_cast<holdfast::ptr<node>&>(heap.root(0));
}

/// In a process of its own, which is killed when the list is long enough: each object is allocated into the link of the
/// one before.
void build_and_die(const std::string& path, std::uint64_t objects, std::uint64_t seed) {
    const pid_t child = ::fork();
    if (child == 0) {
        try {
            holdfast::manager heap(holdfast::create_only, path, atomic_options());
            bench::random_source random(seed);
            holdfast::ptr<node>* link = &head_of(heap);
            for (std::uint64_t i = 0; i < objects; ++i) {
                // The next pointer must be null durably before it is a destination.
                auto* const fresh = static_cast<node*>(heap.reserve(random.between(64, 128)));
                ::new (fresh) node;
                heap.persist(fresh, sizeof *fresh);
                heap.publish(*link, fresh);
                link = &fresh->next;
            }
            ::raise(SIGKILL);
        } catch (const std::exception& failure) {
            fmt::print(stderr, "recovery_bench: {}\n", failure.what());
        }
        ::_exit(1);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
        throw std::runtime_error("the process that builds the list failed");
    }
}

struct opening {
    double milliseconds = 0;
    holdfast::recovery_report report;
};

opening open_once(const std::string& path, bool whole) {
    const bench::stopwatch watch;
    holdfast::manager heap(holdfast::open_only, path, atomic_options());
    opening found{watch.milliseconds(), heap.last_recovery()};
    if (whole && heap.statistics().recovered != (found.report.pending != 0)) {
        throw std::logic_error("the heap was not recovered");
    }
    return found;
}

std::uint64_t length_of(const std::string& path) {
    const holdfast::manager heap(holdfast::open_only, path, atomic_options());
    std::uint64_t length = 0;
    for (const node* each = head_of(heap).get(); each != nullptr; each = each->next.get()) {
        ++length;
    }
    return length;
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.objects = {20'000};
        chosen.common.rounds = 1;
    }
    bench::report out("recovery_bench", chosen.common);
    out.begin({{"objects", chosen.objects}, {"object_bytes", "64 to 128"}});
    std::vector<bench::row> rows;
    std::uint64_t checksum = 0;
    for (const std::uint64_t objects : chosen.objects) {
        const bench::workplace place(chosen.common.directory);
        const std::string crashed = (place.path() / "crashed.hf").string();
        const std::string path = (place.path() / "list.hf").string();
        build_and_die(crashed, objects, chosen.common.seed);
        bench::samples recovery;
        bench::samples replay;
        bench::samples clean;
        std::uint64_t pending = 0;
        for (unsigned round = 0; round < chosen.common.rounds; ++round) {
            // A copy of the crashed heap, for each opening mends it; in the page cache, as after a restart of a
            // process.
            std::filesystem::copy(crashed, path, std::filesystem::copy_options::recursive);
            const opening recovered = open_once(path, true);
            recovery.add(recovered.milliseconds);
            replay.add(static_cast<double>(recovered.report.time_ns) / 1e6);
            pending = recovered.report.pending;
            clean.add(open_once(path, false).milliseconds);
            if (const std::uint64_t length = length_of(path); length != objects) {
                throw std::logic_error(fmt::format("{} objects in the list, {} expected", length, objects));
            }
            std::filesystem::remove_all(path);
        }
        checksum = bench::mix(checksum + objects);
        rows.push_back({bench::count("objects", objects), bench::count("pending_records", pending),
                        bench::times("open_after_kill_ms", recovery), bench::times("of_it_replay_ms", replay),
                        bench::times("open_clean_ms", clean)});
        out.goal_at_most(fmt::format("recovery of {} objects beyond mapping the files", objects),
                         recovery.median() - clean.median(),
                         limit_ms * static_cast<double>(std::max(objects, 10 * million)) / (10.0 * million), "ms");
    }
    out.table("open after SIGKILL, domain emulated", rows);
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.directory = "/dev/shm";
    CLI::App app("Time of opening a heap of durability atomic after SIGKILL");
    chosen.common.declare(app);
    app.add_option("--objects", chosen.objects, "Objects in the list; several: one run each")
        ->delimiter(',')
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "recovery_bench: {}\n", failure.what());
        return 1;
    }
}
