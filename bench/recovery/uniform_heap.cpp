#include "recovery/uniform_heap.hpp"

#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "recovery/mapped_files.hpp"
#include "support/child.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

using word = holdfast::ptr<std::byte>;
constexpr const char* words_name = "destinations";
constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30U;

std::uint64_t random_size(random_source& random) { return random.between(uniform_least_size, uniform_greatest_size); }

holdfast::open_options options_of(const std::string& domain) {
    using domain_choice = holdfast::open_options::domain_choice;
    holdfast::open_options wanted;
    wanted.durability = holdfast::durability::atomic;
    wanted.domain = domain == "emulated" ? domain_choice::emulated : domain_choice::page_cache;
    wanted.accept_process_crash_only = domain == "page-cache";
    return wanted;
}

/// Each block is replaced by one of another size; how many there are stays.
void replace_some(holdfast::manager& heap, std::uint64_t replacements, std::uint64_t seed) {
    const auto [words, count] = heap.find<word>(words_name);
    random_source random(seed);
    for (std::uint64_t i = 0; i < replacements; ++i) {
        word& one = words[random.below(count)];
        heap.free_from(one);
        heap.allocate_to(one, random_size(random));
    }
}

/// All destinations refer to a block, and there is no other: none was lost, none has leaked.
void require_blocks(const holdfast::manager& heap, std::uint64_t expected) {
    const auto [words, count] = heap.find<word>(words_name);
    std::uint64_t referred = 0;
    for (std::size_t i = 0; i < count; ++i) {
        referred += words[i] != nullptr ? 1U : 0U;
    }
    const std::uint64_t found = heap.statistics().allocated_blocks;
    if (referred != expected || found != expected + 1) {  // and the array of the destinations
        throw std::logic_error(
            fmt::format("{} destinations refer to a block, and {} blocks are there; expected {} and {}", referred,
                        found, expected, expected + 1));
    }
}

struct opened_heap {
    explicit opened_heap(const std::filesystem::path& path, const std::string& domain)
        : heap(holdfast::open_only, path.string(), options_of(domain)), milliseconds(watch.milliseconds()) {}
    stopwatch watch;
    holdfast::manager heap;
    double milliseconds;
};

}  // namespace

std::uint64_t uniform_heap::demand(std::uint64_t bytes) noexcept {
    // Blocks of whole pages, slabs, and 2 % of metadata.
    return bytes + bytes / 12 + gibibyte;
}

uniform_heap::uniform_heap(std::filesystem::path path, std::uint64_t bytes, std::uint64_t seed)
    : path_(std::move(path)), seed_(seed) {
    blocks_ = bytes / ((uniform_least_size + uniform_greatest_size) / 2) + 1;
    run_child(ending::dies, [this](const child_process& self) {
        {
            holdfast::manager heap(holdfast::create_only, path_.string());
            heap.construct<word>(words_name)[blocks_]();  // durable by the commit of the close
        }
        opened_heap own(path_, "page-cache");
        word* const words = own.heap.find<word>(words_name).first;
        random_source random(seed_);
        for (std::uint64_t i = 0; i < blocks_; ++i) {
            own.heap.allocate_to(words[i], random_size(random));
        }
        self.die();
    });
}

uniform_openings uniform_heap::open_repeatedly(const std::string& domain, unsigned rounds,
                                               std::uint64_t replacements) const {
    uniform_openings found;
    const auto open_and_die = [&](unsigned round) {
        const auto told = run_child(ending::dies, [&](const child_process& self) {
            opened_heap own(path_, domain);
            self.hand_back({{"ms", own.milliseconds}});
            replace_some(own.heap, replacements, mix(seed_ + round + 1));
            self.die();
        });
        return told.at("ms").template get<double>();
    };
    open_and_die(rounds);  // whatever state it was in
    for (unsigned round = 0; round < rounds; ++round) {
        const auto told = run_child(ending::exits, [&](const child_process& self) {
            opened_heap own(path_, domain);
            const holdfast::recovery_report report = own.heap.last_recovery();
            require_blocks(own.heap, blocks_);
            if (!own.heap.statistics().recovered) {
                throw std::logic_error("there was nothing to recover");
            }
            own.heap.close();
            self.hand_back({{"ms", own.milliseconds},
                            {"replay_ms", static_cast<double>(report.time_ns) / 1e6},
                            {"pending", report.pending}});
        });
        found.recovered.add(told.at("ms").get<double>());
        found.replay.add(told.at("replay_ms").get<double>());
        found.pending = told.at("pending").get<std::uint64_t>();
        found.mapping.add(map_files(path_));
        found.clean.add(open_and_die(round));
    }
    return found;
}

}  // namespace bench
