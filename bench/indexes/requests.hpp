// What threads ask of a map, made before anything is measured: a function of the workload's name, its parameters and
// the seed alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "allocators/allocation_run.hpp"
#include "support/random.hpp"

namespace indexes {

/// Distinct for each i. Those below the number of keys are loaded, inserted or removed; timed calls and mixes insert
/// those behind.
[[nodiscard]] constexpr std::uint64_t key_of(std::uint64_t seed, std::uint64_t i) noexcept {
    return bench::mix(seed + i * 0x9e37'79b9'7f4a'7c15U);
}

/// The upper half of a value tells its key, the lower one whether an update wrote it: the map's final content does not
/// depend on the order in which threads came. None is 0.
[[nodiscard]] constexpr std::uint64_t mark_of(std::uint64_t key) noexcept { return bench::mix(key) >> 32U | 1U; }
[[nodiscard]] constexpr std::uint64_t loaded_value_of(std::uint64_t key) noexcept { return mark_of(key) << 32U; }
[[nodiscard]] constexpr std::uint64_t updated_value_of(std::uint64_t key, std::uint64_t number) noexcept {
    return loaded_value_of(key) | (number % 0xffff'ffffU + 1);
}
[[nodiscard]] constexpr std::uint64_t mark_in(std::uint64_t value) noexcept { return value >> 32U; }
[[nodiscard]] constexpr bool is_updated(std::uint64_t value) noexcept { return (value & 0xffff'ffffU) != 0; }

enum class call : std::uint8_t { insert, update, find, scan, remove, read_and_update };
struct request {
    std::uint64_t key;
    call what;
    std::uint8_t length;  ///< of a scan, in entries
};

/// Calls in hundredths; the rest are look-ups.
struct workload {
    std::string_view name;
    unsigned inserts = 0;
    unsigned updates = 0;
    unsigned scans = 0;
    unsigned removals = 0;
    unsigned both = 0;     ///< look up, then update
    bool is_mix = false;   ///< of YCSB: keys by Zipf's law whatever the run says
    bool latest = false;   ///< the newest keys are looked up most
    bool is_open = false;  ///< no calls: the map is opened

    /// Each key is inserted or removed once, and shared out among the threads.
    [[nodiscard]] bool takes_each_key_once() const noexcept { return inserts == 100 || removals == 100; }
    /// What scans find depends on the order in which threads come.
    [[nodiscard]] bool scans_what_it_changes() const noexcept { return scans != 0 && inserts != 0; }
};
/// Throws std::invalid_argument.
[[nodiscard]] const workload& workload_of(std::string_view name);

/// Ranks below a limit by Zipf's law with exponent 0.99, as YCSB draws them (J. Gray et al., 1994).
class zipf {
public:
    explicit zipf(std::uint64_t count);
    [[nodiscard]] std::uint64_t rank(bench::random_source& random) const;

private:
    double count_;
    double sum_ = 0;
    double eta_;
};

/// The requests of one thread, pass after pass.
class request_source {
public:
    /// `ranks`: null for uniform keys.
    request_source(const bench::allocation_run& run, const workload& what, unsigned thread, const zipf* ranks);
    /// Calls in the pass for throughput.
    [[nodiscard]] std::uint64_t calls() const noexcept;
    /// Calls in the pass that times each.
    [[nodiscard]] std::uint64_t timed_calls() const noexcept;
    [[nodiscard]] std::vector<request> next(std::uint64_t calls);
    /// All keys so far are below, by key_of().
    [[nodiscard]] std::uint64_t end_of_keys() const noexcept;

private:
    [[nodiscard]] request draw();
    [[nodiscard]] std::uint64_t place_of_own(std::uint64_t number) const noexcept;

    const bench::allocation_run& run_;
    const workload& what_;
    unsigned thread_;
    const zipf* ranks_;
    bench::random_source random_;
    std::uint64_t own_ = 0;  ///< keys that this thread alone has inserted or removed
};

}  // namespace indexes
