// Runs configurations in turn (A B A B), each in a process of its own, and takes medians.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "allocators/allocation_run.hpp"
#include "support/report.hpp"

namespace bench {

/// All runs of one configuration.
class run_summary {
public:
    void add(const nlohmann::ordered_json& outcome);
    /// Why there is none, where the machine or the build lacks something; else empty.
    [[nodiscard]] const std::string& unavailable() const noexcept { return unavailable_; }
    void mark_unavailable(const std::string& reason) { unavailable_ = reason; }
    [[nodiscard]] bool has(const std::string& key) const { return values_.contains(key); }
    /// 0 where the backend does not tell.
    [[nodiscard]] double median(const std::string& key) const;
    [[nodiscard]] const samples& values(const std::string& key) const;
    [[nodiscard]] std::string text(const std::string& key) const;
    [[nodiscard]] std::uint64_t checksum() const;
    /// The fields of a run with the medians of the numbers; of throughput and longest call also each run's.
    [[nodiscard]] nlohmann::ordered_json median_fields() const;

private:
    nlohmann::ordered_json last_;
    std::map<std::string, samples> values_;
    std::vector<double> mops_;
    std::vector<double> max_ns_;
    std::string unavailable_;
};

struct configuration {
    allocation_run run;
    run_summary found;
};

[[nodiscard]] std::vector<std::string> backend_names();
/// Why the backend has no such workload on any machine; else empty. Throws std::invalid_argument where there is no such
/// backend or workload.
[[nodiscard]] std::string reason_against(const allocation_run& run);

/// Before processes start. Called once, by the process that compares.
void prepare_environment_of_runs();

/// Measures all in turn, `rounds` times, except those marked as unavailable, and marks those that turn out to be.
/// Throws std::runtime_error where one fails, or computes another checksum than others of the same workload and
/// threads.
void measure_in_turn(std::vector<configuration>& all, const common_options& options);

/// In the process of a run: prints its outcome, returns the exit status.
int run_one(const std::string& words);

/// Medians, one table a workload and number of threads; the ratio is to the throughput of the first backend. With
/// --json: one object a configuration. A note says what was not available.
void print_configurations(report& out, const std::vector<configuration>& all, const common_options& options);

[[nodiscard]] std::uint64_t checksum_of(const std::vector<configuration>& all);

/// Each measures and judges its goals (docs/benchmarks.md) in one run. `pattern`: sizes, scale, seed. Returns what was
/// measured.
std::vector<configuration> report_goals(report& out, const common_options& options, const allocation_run& pattern);
std::vector<configuration> report_large_goals(report& out, const common_options& options,
                                              const allocation_run& pattern);
/// Space is measured once, whatever the rounds.
std::vector<configuration> report_small_goals(report& out, const common_options& options,
                                              const allocation_run& pattern);
std::vector<configuration> report_index_goals(report& out, const common_options& options,
                                              const allocation_run& pattern);
/// One table a workload and durability: what each number of threads (not empty, the greatest last) reaches, by one and
/// by a peer.
std::vector<configuration> report_scaling(report& out, const common_options& options, const allocation_run& pattern,
                                          const std::vector<unsigned>& threads);
/// Powers of two, and as many as there are processors.
[[nodiscard]] std::vector<unsigned> threads_to_scale_to();

}  // namespace bench
