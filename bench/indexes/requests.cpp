#include "indexes/requests.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace indexes {

namespace {

constexpr std::uint8_t scan_length = 100;
constexpr double exponent = 0.99;

constexpr workload workloads[] = {
    {.name = "index-insert", .inserts = 100},
    {.name = "index-update", .updates = 100},
    {.name = "index-find"},
    {.name = "index-scan", .scans = 100},
    {.name = "index-remove", .removals = 100},
    {.name = "index-open", .is_open = true},
    {.name = "ycsb-a", .updates = 50, .is_mix = true},
    {.name = "ycsb-b", .updates = 5, .is_mix = true},
    {.name = "ycsb-c", .is_mix = true},
    {.name = "ycsb-d", .inserts = 5, .is_mix = true, .latest = true},
    {.name = "ycsb-e", .inserts = 5, .scans = 95, .is_mix = true},
    {.name = "ycsb-f", .both = 50, .is_mix = true},
};

}  // namespace

const workload& workload_of(std::string_view name) {
    const auto* const found = std::ranges::find(workloads, name, &workload::name);
    if (found == std::end(workloads)) {
        throw std::invalid_argument("no such workload: " + std::string(name));
    }
    return *found;
}

zipf::zipf(std::uint64_t count) : count_(static_cast<double>(count)) {
    for (std::uint64_t i = 1; i <= count; ++i) {
        sum_ += 1 / std::pow(static_cast<double>(i), exponent);
    }
    eta_ = (1 - std::pow(2 / count_, 1 - exponent)) / (1 - (1 + std::pow(0.5, exponent)) / sum_);
}

std::uint64_t zipf::rank(bench::random_source& random) const {
    const double u = static_cast<double>(random.next() >> 11U) * 0x1p-53;
    const double scaled = u * sum_;
    if (scaled < 1) {
        return 0;
    }
    if (scaled < 1 + std::pow(0.5, exponent)) {
        return 1;
    }
    const double rank = count_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - exponent));
    return static_cast<std::uint64_t>(std::min(rank, count_ - 1));
}

request_source::request_source(const bench::allocation_run& run, const workload& what, unsigned thread,
                               const zipf* ranks)
    : run_(run), what_(what), thread_(thread), ranks_(ranks), random_(bench::mix(run.seed) + thread) {}

std::uint64_t request_source::calls() const noexcept {
    if (!what_.takes_each_key_once()) {
        return std::max<std::uint64_t>(bench::calls_of(run_), 1);
    }
    return run_.keys / run_.threads + (thread_ < run_.keys % run_.threads ? 1 : 0);
}

std::uint64_t request_source::timed_calls() const noexcept {
    constexpr std::uint64_t most = 200'000;
    // Of all threads the same, so that the keys of those that take each once lie side by side.
    const std::uint64_t all = what_.takes_each_key_once() ? run_.keys / run_.threads : bench::calls_of(run_);
    return run_.latency_calls != 0 ? run_.latency_calls : std::min(all / 4, most);
}

std::vector<request> request_source::next(std::uint64_t calls) {
    std::vector<request> made(calls);
    std::ranges::generate(made, [this] { return draw(); });
    return made;
}

std::uint64_t request_source::end_of_keys() const noexcept {
    return own_ == 0 ? run_.keys : std::max(run_.keys, place_of_own(own_ - 1) + 1);
}

/// Threads take turns: behind the keys that are loaded, or from the first on.
std::uint64_t request_source::place_of_own(std::uint64_t number) const noexcept {
    const std::uint64_t first = what_.takes_each_key_once() ? 0 : run_.keys;
    return first + thread_ + run_.threads * number;
}

request request_source::draw() {
    const auto dice = static_cast<unsigned>(random_.below(100));
    const auto key = [this](std::uint64_t place) { return key_of(run_.seed, place); };
    if (dice < what_.inserts) {
        return {key(place_of_own(own_++)), call::insert, 0};
    }
    if (dice < what_.removals) {
        return {key(place_of_own(own_++)), call::remove, 0};
    }
    std::uint64_t place = ranks_ != nullptr ? ranks_->rank(random_) : random_.next() % run_.keys;
    if (what_.latest) {
        place = place < own_ ? place_of_own(own_ - 1 - place) : run_.keys - 1 - std::min(place - own_, run_.keys - 1);
    }
    if (dice < what_.inserts + what_.updates) {
        return {key(place), call::update, 0};
    }
    if (dice < what_.inserts + what_.updates + what_.scans) {
        const std::uint64_t length = what_.is_mix ? random_.between(1, scan_length) : scan_length;
        return {key(place), call::scan, static_cast<std::uint8_t>(length)};
    }
    return {key(place), dice >= 100 - what_.both ? call::read_and_update : call::find, 0};
}

}  // namespace indexes
