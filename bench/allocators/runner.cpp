#include "allocators/runner.hpp"

namespace bench {

namespace {

/// What a clock around nothing measures.
double clock_cost(double nanoseconds) {
    tick_histogram histogram;
    for (unsigned i = 0; i < 10'000; ++i) {
        const std::uint64_t start = read_ticks();
        histogram.add(read_ticks_after_stores() - start);
    }
    return histogram.quantile(0.5) * nanoseconds;
}

void describe_protocol(nlohmann::ordered_json& fields, const pass_result& pass) {
    const protocol_totals& before = pass.before;
    const protocol_totals& after = pass.after;
    if (!after.known) {
        return;
    }
    const auto a_call = [&](std::uint64_t first, std::uint64_t last) {
        return static_cast<double>(last - first) / static_cast<double>(pass.calls);
    };
    const std::uint64_t flushed = after.lines_flushed - before.lines_flushed;
    const auto reflushed = static_cast<double>(after.reflushes - before.reflushes);
    fields["records_per_call"] = a_call(before.durable_records, after.durable_records);
    fields["fences_per_call"] = a_call(before.fences, after.fences);
    fields["reflush_ratio"] = flushed == 0 ? 0 : reflushed / static_cast<double>(flushed);
    fields["lines_flushed_per_call"] = a_call(before.lines_flushed, after.lines_flushed);
    fields["media_bytes_per_call"] = a_call(before.media_bytes, after.media_bytes);
    fields["checkpoints"] = after.checkpoints - before.checkpoints;
    fields["longest_checkpoint_ns"] = after.longest_checkpoint_ns;
}

}  // namespace

pass_result sum_of(std::span<const pass_part> parts) {
    pass_result result;
    std::int64_t start = parts.front().start_ns;
    std::int64_t end = parts.front().end_ns;
    for (const pass_part& part : parts) {
        start = std::min(start, part.start_ns);
        end = std::max(end, part.end_ns);
        result.calls += part.calls;
        result.cpu_ns += static_cast<double>(part.cpu_ns);
        result.preemptions += part.preemptions;
        result.checksum += part.checksum;
    }
    result.wall_ns = static_cast<double>(end - start);
    return result;
}

nlohmann::ordered_json describe_passes(const allocation_run& run, const pass_result& check,
                                       const pass_result& throughput, const pass_result& latency,
                                       const tick_histogram& histogram) {
    const double nanoseconds = nanoseconds_a_tick();
    const auto calls = static_cast<double>(throughput.calls);
    nlohmann::ordered_json fields;
    fields["backend"] = run.backend;
    fields["workload"] = run.workload;
    fields["threads"] = run.threads;
    fields["calls"] = throughput.calls;
    fields["mops"] = calls * 1e3 / throughput.wall_ns;
    fields["call_ns"] = throughput.wall_ns * run.threads / calls;
    fields["cpu_ns"] = throughput.cpu_ns / calls;
    if (histogram.count() != 0) {
        fields["p50_ns"] = histogram.quantile(0.5) * nanoseconds;
        fields["p999_ns"] = histogram.quantile(0.999) * nanoseconds;
        fields["p9999_ns"] = histogram.quantile(0.9999) * nanoseconds;
        fields["max_ns"] = static_cast<double>(histogram.greatest()) * nanoseconds;
        fields["clock_ns"] = clock_cost(nanoseconds);
        fields["preemptions"] = latency.preemptions;
    }
    describe_protocol(fields, throughput);
    fields["checksum"] = fmt::format("{:016x}", check.checksum);
    return fields;
}

void describe_space(nlohmann::ordered_json& fields, const space_found& found) {
    constexpr double mebibyte = 1U << 20U;
    fields["live_mib"] = static_cast<double>(found.live) / mebibyte;
    fields["taken_mib"] = static_cast<double>(found.taken()) / mebibyte;
    fields["resident_mib"] = static_cast<double>(found.resident) / mebibyte;
    if (found.live != 0) {
        fields["taken_ratio"] = static_cast<double>(found.taken()) / static_cast<double>(found.live);
    }
}

}  // namespace bench
