// What metadata takes, in memory and on media, of a heap with 10 GB of live blocks (allocated, not written).
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "command_line/command_line.hpp"
#include "memory/footprint.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/report.hpp"

namespace {

using holdfast_programs::command_line;
using holdfast_programs::kilobyte;

constexpr double memory_goal = 0.005;
constexpr double media_goal = 0.02;
constexpr std::uint64_t segment_size = std::uint64_t{256} << 20U;

struct options {
    bench::common_options common;
    std::uint64_t live_bytes = 10'000'000'000;
    std::uint64_t small_live_bytes = 2'000'000'000;
    double replaced = 1;
};

struct subject {
    const char* name;
    std::uint64_t least;
    std::uint64_t greatest;
    std::uint64_t live_bytes;
    [[nodiscard]] std::size_t blocks() const { return static_cast<std::size_t>(live_bytes / ((least + greatest) / 2)); }
};

/// A state of the heap, as measured.
struct state {
    std::string name;
    std::uint64_t live = 0;    ///< bytes asked for by the program
    std::uint64_t blocks = 0;  ///< allocated
    std::uint64_t user_bytes = 0;
    std::uint64_t anonymous = 0;
    std::uint64_t of_files = 0;
    std::uint64_t charged = 0;
    std::uint64_t metadata = 0;
    bool by_extents = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(state, name, live, blocks, user_bytes, anonymous, of_files, charged, metadata,
                                   by_extents)

holdfast::open_options options_of(bool atomic) {
    holdfast::open_options wanted;
    wanted.segment_size = segment_size;
    wanted.commit_on_close = false;
    if (atomic) {
        wanted.durability = holdfast::durability::atomic;
        wanted.domain = holdfast::open_options::domain_choice::emulated;
    }
    return wanted;
}

/// Allocates, replaces, opens again; in a process of its own. The array of the blocks is there before the first
/// measurement, so that it is not counted.
class builder {
public:
    builder(std::string path, const subject& of, bool atomic, std::uint64_t seed)
        : path_(std::move(path)), of_(of), atomic_(atomic), random_(seed), blocks_(of.blocks()), sizes_(of.blocks()) {
        before_ = bench::resident_memory_now();  // a first time: what reading takes is there
        before_ = bench::resident_memory_now();
    }
    std::vector<state> run(double replaced) {
        heap_.emplace(holdfast::create_only, path_, options_of(atomic_));
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            allocate(i);
        }
        std::vector<state> states{measure("allocated")};
        const auto replacements = static_cast<std::uint64_t>(replaced * static_cast<double>(blocks_.size()));
        for (std::uint64_t i = 0; i < replacements; ++i) {
            const auto which = static_cast<std::size_t>(random_.below(blocks_.size()));
            heap_->deallocate(blocks_[which]);
            live_ -= sizes_[which];
            allocate(which);
        }
        states.push_back(measure("replaced"));
        heap_->close(true);
        heap_.reset();
        heap_.emplace(holdfast::open_only, path_, options_of(atomic_));
        states.push_back(measure("opened"));
        heap_->close(true);
        return states;
    }

private:
    void allocate(std::size_t which) {
        const std::uint64_t size = random_.between(of_.least, of_.greatest);
        blocks_[which] = heap_->allocate(size);
        sizes_[which] = static_cast<std::uint32_t>(size);
        live_ += size;
    }
    state measure(const char* name) {
        heap_->commit();
        const bench::resident_memory now = bench::resident_memory_now();
        state found;
        found.name = name;
        found.live = live_;
        found.anonymous = now.anonymous - std::min(now.anonymous, before_.anonymous);
        found.of_files = now.of_files - std::min(now.of_files, before_.of_files);
        found.user_bytes = heap_->get_size();
        const bench::heap_space space = bench::space_of_heap(path_, segment_size, found.user_bytes);
        found.charged = space.charged;
        found.metadata = space.metadata;
        found.by_extents = space.by_extents;
        found.blocks = blocks_.size();
        return found;
    }

    std::string path_;
    const subject& of_;
    bool atomic_;
    bench::random_source random_;
    std::vector<void*> blocks_;
    std::vector<std::uint32_t> sizes_;
    std::uint64_t live_ = 0;
    bench::resident_memory before_;
    std::optional<holdfast::manager> heap_;
};

double share(std::uint64_t part, std::uint64_t all) { return static_cast<double>(part) / static_cast<double>(all); }

bench::row row_of(const char* durability, const state& found) {
    constexpr double mebibyte = 1U << 20U;
    const auto mib = [](const char* key, std::uint64_t bytes) {
        return bench::number(key, static_cast<double>(bytes) / mebibyte);
    };
    return {bench::label("durability", durability),
            bench::label("state", found.name),
            bench::number("live_gb", static_cast<double>(found.live) / 1e9),
            bench::count("blocks", found.blocks),
            mib("user_space_mib", found.user_bytes),
            mib("memory_mib", found.anonymous),
            bench::number("memory_percent", 100 * share(found.anonymous, found.live)),
            mib("mapped_mib", found.of_files),
            mib("metadata_mib", found.metadata),
            bench::number("media_percent", 100 * share(found.metadata, found.live)),
            mib("charged_mib", found.charged)};
}

bool fits(bench::report& out, const options& chosen, const subject& of) {
    std::filesystem::create_directories(chosen.common.directory);
    const std::uint64_t there = std::filesystem::space(chosen.common.directory).available;
    // What is replaced leaves gaps; the journal of a commit.
    const std::uint64_t needed = of.live_bytes + of.live_bytes / 2 + (std::uint64_t{1} << 30U);
    if (there < needed) {
        out.note(fmt::format("{}: not measured: it takes {:.1f} GB of disk, {:.1f} are free", of.name,
                             static_cast<double>(needed) / 1e9, static_cast<double>(there) / 1e9));
    }
    return there >= needed;
}

/// The worst state of each.
void judge(bench::report& out, const std::string& what, const std::vector<state>& states) {
    double memory = 0;
    double media = 0;
    for (const state& one : states) {
        memory = std::max(memory, share(one.anonymous, one.live));
        media = std::max(media, share(one.metadata, one.live));
        if (!one.by_extents) {
            out.note(what + ", " + one.name + ": the file system lists no extents: all user space counts as charged");
        }
    }
    out.goal_at_most(what + ": memory for metadata, of the live bytes", 100 * memory, 100 * memory_goal, "%");
    out.goal_at_most(what + ": media for metadata, of the live bytes", 100 * media, 100 * media_goal, "%");
}

int run(options chosen) {
    if (chosen.common.smoke) {
        chosen.live_bytes = chosen.small_live_bytes = 20'000'000;
    }
    bench::report out("memory_bench", chosen.common);
    out.begin({{"live_bytes", chosen.live_bytes},
               {"small_live_bytes", chosen.small_live_bytes},
               {"replaced", chosen.replaced}});
    const subject subjects[] = {{"64 B to 128 KiB", 64, 128U << 10U, chosen.live_bytes},
                                {"64 B to 1 KiB", 64, 1U << 10U, chosen.small_live_bytes}};
    std::uint64_t checksum = 0;
    for (const subject& of : subjects) {
        if (!fits(out, chosen, of)) {
            continue;
        }
        std::vector<bench::row> rows;
        for (const bool atomic : {true, false}) {
            const bench::workplace place(chosen.common.directory);
            const char* const durability = atomic ? "atomic" : "commit";
            const auto told = bench::run_child(bench::ending::exits, [&](const bench::child_process& self) {
                builder own((place.path() / "memory.hf").string(), of, atomic, chosen.common.seed);
                self.hand_back(own.run(chosen.replaced));
            });
            const auto states = told.get<std::vector<state>>();
            for (const state& one : states) {
                rows.push_back(row_of(durability, one));
                checksum = bench::mix(checksum + one.live);
            }
            judge(out, fmt::format("{}, {}", of.name, durability), states);
        }
        out.table(of.name, rows);
    }
    out.checksum(checksum);
    return out.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
    options chosen;
    command_line app("What metadata takes in memory and on media");
    chosen.common.declare(app);
    app.add_option("--live-bytes", chosen.live_bytes, "Of blocks of 64 B to 128 KiB (10G: powers of 1000)")
        .show_default()
        .size(kilobyte::of_1000);
    app.add_option("--small-live-bytes", chosen.small_live_bytes, "Of blocks of 64 B to 1 KiB")
        .show_default()
        .size(kilobyte::of_1000);
    app.add_option("--replaced", chosen.replaced, "Blocks freed and allocated again at random, as a multiple of all")
        .show_default()
        .range(0.0, 1e3);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    try {
        return run(chosen);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "memory_bench: {}\n", failure.what());
        return 1;
    }
}
