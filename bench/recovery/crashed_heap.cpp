#include "recovery/crashed_heap.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "recovery/mapped_files.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

struct timed_heap {
    timed_heap(const std::filesystem::path& path, const std::string& domain)
        : heap(holdfast::open_only, path.string(), options_in(domain)), milliseconds(watch.milliseconds()) {}
    stopwatch watch;
    holdfast::manager heap;
    double milliseconds;
};

void empty_page_cache() {
    if (!drop_caches()) {
        throw std::runtime_error("the kernel's caches cannot be dropped");
    }
}

}  // namespace

struct crashed_heap::opening {
    double milliseconds;
    double replay;
    std::uint64_t pending;
};

holdfast::open_options options_in(const std::string& domain) {
    using domain_choice = holdfast::open_options::domain_choice;
    holdfast::open_options wanted;
    wanted.durability = holdfast::durability::atomic;
    wanted.domain = domain == "emulated" ? domain_choice::emulated : domain_choice::page_cache;
    wanted.accept_process_crash_only = domain == "page-cache";
    return wanted;
}

double crashed_heap::open_and_die(const std::string& domain, std::uint64_t seed) const {
    const auto told = run_child(ending::dies, [&](const child_process& self) {
        timed_heap own(path_, domain);
        self.hand_back({{"ms", own.milliseconds}});
        change(own.heap, seed);
        self.die();
    });
    return told.at("ms").get<double>();
}

crashed_heap::opening crashed_heap::recover(const std::filesystem::path& path, const std::string& domain) const {
    const auto told = run_child(ending::exits, [&](const child_process& self) {
        timed_heap own(path, domain);
        const holdfast::recovery_report report = own.heap.last_recovery();
        require_whole(own.heap);
        if (!own.heap.statistics().recovered) {
            throw std::logic_error("there was nothing to recover");
        }
        own.heap.close();
        self.hand_back({{"ms", own.milliseconds},
                        {"replay_ms", static_cast<double>(report.time_ns) / 1e6},
                        {"pending", report.pending}});
    });
    return {told.at("ms").get<double>(), told.at("replay_ms").get<double>(), told.at("pending").get<std::uint64_t>()};
}

double crashed_heap::open_copy(const std::string& domain) const {
    const std::filesystem::path copy = path_.string() + ".copy";
    std::filesystem::copy(path_, copy, std::filesystem::copy_options::recursive);
    const double milliseconds = recover(copy, domain).milliseconds;
    std::filesystem::remove_all(copy);
    return milliseconds;
}

openings crashed_heap::open_in_turn(const ways_to_open& ways) const {
    openings found;
    std::uint64_t seed = ways.seed;
    const auto next_seed = [&seed] { return seed = mix(seed + 1); };
    static_cast<void>(open_and_die(ways.domain, next_seed()));  // the heap was built in another domain, or is clean
    for (unsigned round = 0; round < ways.rounds; ++round) {
        if (ways.copies) {
            found.copy.add(open_copy(ways.domain));
        }
        const opening warm = recover(path_, ways.domain);
        found.killed.add(warm.milliseconds);
        found.replay.add(warm.replay);
        found.pending = warm.pending;
        found.mapping.add(map_files(path_));
        found.clean.add(open_and_die(ways.domain, next_seed()));
        if (ways.cold) {
            empty_page_cache();
            found.killed_cold.add(recover(path_, ways.domain).milliseconds);
            empty_page_cache();
            found.clean_cold.add(open_and_die(ways.domain, next_seed()));
        }
    }
    return found;
}

}  // namespace bench
