// What opening a heap of durability `atomic` costs after SIGKILL: a list of small objects (PMAlloc, table 3), whose
// last records are pending; with --uniform-bytes a large heap of blocks of 64 B to 128 KiB (PMAlloc's 61 GB). The same
// heap is also opened after a clean close, which walks its tables as recovery does; and this program maps its files, as
// every open must: the goals count what lies beyond that.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "command_line/command_line.hpp"
#include "recovery/mapped_files.hpp"
#include "recovery/uniform_heap.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr std::uint64_t million = 1'000'000;
constexpr double limit_ms = 10.0;  // the goal, for 10 million objects, beyond mapping the files

constexpr double uniform_limit_ms = 45.0;  // for 61 GB, beyond mapping the files
constexpr double uniform_limit_bytes = 61e9;
constexpr double uniform_terabyte_ms = 750.0;

struct options {
    bench::common_options common;
    std::vector<std::uint64_t> objects{10 * million};
    std::vector<std::uint64_t> uniform_bytes;  // none: the lists
    std::vector<std::string> domains{"page-cache", "emulated"};
    std::uint64_t replacements = 2'000;
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

holdfast::ptr<node>& head_of(holdfast::manager& heap) { return reinterpret_cast<holdfast::ptr<node>&>(heap.root(0)); }

/// In a process of its own, which is killed when the list is long enough: each object is allocated into the link of the
/// one before.
void build_and_die(const std::string& path, std::uint64_t objects, std::uint64_t seed) {
    bench::run_child(bench::ending::dies, [&](const bench::child_process& self) {
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
        self.die();
    });
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
    holdfast::manager heap(holdfast::open_only, path, atomic_options());
    std::uint64_t length = 0;
    for (const node* each = head_of(heap).get(); each != nullptr; each = each->next.get()) {
        ++length;
    }
    return length;
}

void run_lists(bench::report& out, const options& chosen) {
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
        bench::samples mapping;
        std::uint64_t pending = 0;
        for (unsigned round = 0; round < chosen.common.rounds; ++round) {
            // A copy of the crashed heap, for each open mends it; in the page cache, as after a restart of a process.
            std::filesystem::copy(crashed, path, std::filesystem::copy_options::recursive);
            const opening recovered = open_once(path, true);
            recovery.add(recovered.milliseconds);
            replay.add(static_cast<double>(recovered.report.time_ns) / 1e6);
            pending = recovered.report.pending;
            clean.add(open_once(path, false).milliseconds);
            mapping.add(bench::map_files(path));
            if (const std::uint64_t length = length_of(path); length != objects) {
                throw std::logic_error(fmt::format("{} objects in the list, {} expected", length, objects));
            }
            std::filesystem::remove_all(path);
        }
        checksum = bench::mix(checksum + objects);
        rows.push_back({bench::count("objects", objects), bench::count("pending_records", pending),
                        bench::times("open_after_kill_ms", recovery), bench::times("of_it_replay_ms", replay),
                        bench::times("open_clean_ms", clean), bench::times("map_files_ms", mapping)});
        out.goal_at_most(fmt::format("recovery of {} objects beyond mapping the files", objects),
                         recovery.median() - mapping.median(),
                         limit_ms * static_cast<double>(std::max(objects, 10 * million)) / (10.0 * million), "ms");
    }
    out.table("open after SIGKILL, domain emulated", rows);
    out.checksum(checksum);
}

/// The straight line through what was measured, at `bytes`; least squares.
class line_of_growth {
public:
    void add(double bytes, double milliseconds) {
        ++count_;
        x_ += bytes;
        y_ += milliseconds;
        xx_ += bytes * bytes;
        xy_ += bytes * milliseconds;
    }
    [[nodiscard]] bool is_line() const noexcept { return count_ > 1; }
    [[nodiscard]] double slope() const noexcept { return (count_ * xy_ - x_ * y_) / (count_ * xx_ - x_ * x_); }
    [[nodiscard]] double at(double bytes) const noexcept { return (y_ - slope() * x_) / count_ + slope() * bytes; }

private:
    double count_ = 0;
    double x_ = 0;
    double y_ = 0;
    double xx_ = 0;
    double xy_ = 0;
};

void judge_growth(bench::report& out, const std::string& domain, const line_of_growth& growth) {
    if (!growth.is_line()) {
        out.note("growth: one size alone was measured");
        return;
    }
    out.note(fmt::format("{}: grows by {:.3f} ms a GB", domain, growth.slope() * 1e9));
    out.goal_at_most(fmt::format("{}: recovery of 1 TB beyond mapping the files, on the line through these", domain),
                     growth.at(1e12), uniform_terabyte_ms, "ms");
}

bool fits(bench::report& out, const std::filesystem::path& directory, std::uint64_t bytes) {
    std::filesystem::create_directories(directory);
    const std::uint64_t there = std::filesystem::space(directory).available;
    const std::uint64_t needed = bench::uniform_heap::demand(bytes);
    if (there < needed) {
        out.note(fmt::format("{:.1f} GB: not measured, it takes {:.1f} GB of disk and {:.1f} are free",
                             static_cast<double>(bytes) / 1e9, static_cast<double>(needed) / 1e9,
                             static_cast<double>(there) / 1e9));
    }
    return there >= needed;
}

void run_uniform(bench::report& out, const options& chosen) {
    std::vector<bench::row> rows;
    std::vector<line_of_growth> growth(chosen.domains.size());
    std::uint64_t checksum = 0;
    for (const std::uint64_t bytes : chosen.uniform_bytes) {
        if (!fits(out, chosen.common.directory, bytes)) {
            continue;
        }
        const bench::workplace place(chosen.common.directory);
        const auto path = place.path() / "uniform.hf";
        const bench::uniform_heap heap(path, bytes, chosen.common.seed);
        for (std::size_t i = 0; i < chosen.domains.size(); ++i) {
            const std::string& domain = chosen.domains[i];
            const auto found = heap.open_repeatedly(domain, chosen.common.rounds, chosen.replacements);
            const double beyond = found.recovered.median() - found.mapping.median();
            growth[i].add(static_cast<double>(bytes), beyond);
            rows.push_back(
                {bench::number("gigabytes", static_cast<double>(bytes) / 1e9), bench::count("blocks", heap.blocks()),
                 bench::label("domain", domain), bench::count("pending_records", found.pending),
                 bench::times("open_after_kill_ms", found.recovered), bench::times("of_it_replay_ms", found.replay),
                 bench::times("open_clean_ms", found.clean), bench::times("map_files_ms", found.mapping),
                 bench::number("charged_gb", static_cast<double>(bench::charged_bytes(path)) / 1e9)});
            out.goal_at_most(fmt::format("{}: recovery of {:.1f} GB beyond mapping the files", domain,
                                         static_cast<double>(bytes) / 1e9),
                             beyond, uniform_limit_ms * std::max(1.0, static_cast<double>(bytes) / uniform_limit_bytes),
                             "ms");
        }
        checksum = bench::mix(checksum + heap.blocks());
    }
    out.table("open after SIGKILL, blocks of 64 B to 128 KiB", rows);
    for (std::size_t i = 0; i < chosen.domains.size(); ++i) {
        judge_growth(out, chosen.domains[i], growth[i]);
    }
    out.checksum(checksum);
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.objects = {20'000};
        chosen.common.rounds = 1;
    }
    bench::report out("recovery_bench", chosen.common);
    const bool lists = chosen.uniform_bytes.empty();
    if (chosen.common.smoke) {
        chosen.uniform_bytes = {50 * million, 100 * million};
        chosen.replacements = 100;
    }
    out.begin({{"objects", chosen.objects},
               {"object_bytes", "64 to 128"},
               {"uniform_bytes", chosen.uniform_bytes},
               {"replacements", chosen.replacements}});
    if (lists) {
        run_lists(out, chosen);
    }
    if (!chosen.uniform_bytes.empty()) {
        run_uniform(out, chosen);
    }
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    chosen.common.directory = "/dev/shm";
    command_line app("Time of opening a heap of durability atomic after SIGKILL");
    chosen.common.declare(app);
    app.add_option("--objects", chosen.objects, "Objects in the list; several: one run each")
        .delimiter(',')
        .show_default();
    app.add_option("--uniform-bytes", chosen.uniform_bytes,
                   "Instead of lists: so many bytes of blocks of 64 B to 128 KiB, not written, in --directory; several "
                   "(8G,61G: powers of 1000)")
        .delimiter(',')
        .size(kilobyte::of_1000);
    app.add_option("--domains", chosen.domains, "Of --uniform-bytes")
        .delimiter(',')
        .show_default()
        .one_of({"page-cache", "emulated"});
    app.add_option("--replacements", chosen.replacements, "Blocks freed and allocated by the process that is killed")
        .show_default();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "recovery_bench: {}\n", failure.what());
        return 1;
    }
}
