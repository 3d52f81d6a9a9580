// Runs one backend with one workload in this process: threads, passes, clocks.
//
// Each thread makes three passes over the workload, all threads in step: one that checks the allocator (and warms
// caches and pages), one for throughput without a clock in it, one with a clock around each call. Workloads for latency
// make the first and the last alone, those for space the first two; the space is that of the first. A cold run makes
// the last alone, as long as the second, for the growth of an empty heap.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "allocators/allocation_run.hpp"
#include "allocators/callers.hpp"
#include "allocators/ticks.hpp"
#include "allocators/workloads.hpp"
#include "support/process.hpp"

namespace bench {

/// An open allocator, with room for the destinations.
template <class Backend>
concept allocation_backend = allocation_worker<typename Backend::worker> && requires(Backend backend) {
    requires std::constructible_from<Backend, const allocation_run&>;
    /// Made and destroyed by the thread itself.
    requires std::constructible_from<typename Backend::worker, Backend&, unsigned>;
    /// demand_of(run).destinations, null, on a cache line's boundary.
    { backend.destinations() } -> std::same_as<typename Backend::worker::destination*>;
    /// As found, not as asked for.
    { backend.durability() } -> std::convertible_to<std::string>;
    { backend.domain() } -> std::convertible_to<std::string>;
    { backend.totals() } -> std::same_as<protocol_totals>;
    { backend.charged_bytes() } -> std::same_as<std::uint64_t>;
    /// While all threads rest: makes the state durable, by a commit if needed, and returns what the file system charges
    /// for all but the destinations. Nothing where the backend has no files, or they are allocated as a whole.
    { backend.settled_bytes() } -> std::same_as<std::optional<std::uint64_t>>;
    /// After the last pass: the time of the commit where there is one, and every check that the allocator offers.
    { backend.finish() } -> std::same_as<double>;
};

enum class pass_kind : std::uint8_t { check, throughput, latency };

/// One thread's share of a pass.
struct alignas(64) pass_part {
    std::uint64_t calls = 0;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t cpu_ns = 0;
    std::int64_t preemptions = 0;
    std::uint64_t checksum = 0;
    tick_histogram histogram;
};

/// A pass of all threads.
struct pass_result {
    std::uint64_t calls = 0;
    double wall_ns = 0;  ///< from the first thread's start to the last one's end
    double cpu_ns = 0;
    std::int64_t preemptions = 0;  ///< how often the kernel took a core away
    std::uint64_t checksum = 0;
    protocol_totals before;
    protocol_totals after;
};

/// Of all threads, without what the allocator counted.
[[nodiscard]] pass_result sum_of(std::span<const pass_part> parts);

[[nodiscard]] inline std::int64_t clock_ns(clockid_t clock) noexcept {
    timespec now{};
    ::clock_gettime(clock, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
/// Of this process, files included.
[[nodiscard]] inline double peak_resident_mib() noexcept {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}
[[nodiscard]] inline std::int64_t preemptions_of_this_thread() noexcept {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/// What blocks took, as it was in the first pass.
struct space_found {
    bool made = false;
    std::uint64_t resident_before = 0;  ///< of this process, before the first block
    std::uint64_t resident = 0;         ///< more than that, at the end
    std::uint64_t live = 0;
    std::optional<std::uint64_t> charged;

    /// Of the storage, or where there is none of the memory.
    [[nodiscard]] std::uint64_t taken() const noexcept { return charged.value_or(resident); }
};

/// The fields of the JSON object that all backends share.
[[nodiscard]] nlohmann::ordered_json describe_passes(const allocation_run& run, const pass_result& check,
                                                     const pass_result& throughput, const pass_result& latency,
                                                     const tick_histogram& histogram);
void describe_space(nlohmann::ordered_json& fields, const space_found& found);

template <allocation_backend Backend>
class allocation_runner {
public:
    using worker = typename Backend::worker;

    explicit allocation_runner(const allocation_run& run)
        : run_(run),
          kind_(workload_of(run.workload)),
          backend_(run),
          field_(run, backend_.destinations(), [this](resting when, std::uint64_t live) { look_at_space(when, live); }),
          parts_(run.threads),
          in_step_(static_cast<std::ptrdiff_t>(run.threads) + 1) {
        if (run.cold) {
            passes_ = {pass_kind::latency};
            return;
        }
        passes_ = {pass_kind::check};
        if (!is_for_latency(kind_)) {
            passes_.push_back(pass_kind::throughput);
        }
        if (!measures_space(kind_)) {
            passes_.push_back(pass_kind::latency);
        }
    }

    [[nodiscard]] nlohmann::ordered_json measure() {
        std::array<pass_result, 3> results;
        {
            std::vector<std::jthread> threads;
            for (unsigned i = 0; i < run_.threads; ++i) {
                threads.emplace_back([this, i] { run_thread(i); });
            }
            for (const pass_kind pass : passes_) {
                results[static_cast<std::size_t>(pass)] = oversee();
            }
        }
        if (is_for_latency(kind_) || run_.cold) {
            results[1] = results[2];
        }
        tick_histogram histogram;
        for (const pass_part& part : parts_) {
            histogram.merge(part.histogram);
        }
        nlohmann::ordered_json fields = describe_passes(run_, results[0], results[1], results[2], histogram);
        if (space_.made) {
            describe_space(fields, space_);
        }
        fields["durability"] = std::string(backend_.durability());
        fields["domain"] = std::string(backend_.domain());
        fields["charged_mib"] = static_cast<double>(backend_.charged_bytes()) / (1U << 20U);
        fields["peak_resident_mib"] = peak_resident_mib();
        fields["commit_ms"] = backend_.finish();
        return fields;
    }

private:
    /// Calls of one thread in a pass.
    [[nodiscard]] std::uint64_t calls_of(pass_kind pass) const noexcept {
        const std::uint64_t all = bench::calls_of(run_);
        if (run_.cold) {
            return all;
        }
        const std::uint64_t timed = run_.latency_calls != 0           ? run_.latency_calls
                                    : kind_ == workload_kind::latency ? std::min<std::uint64_t>(all, 1'000'000)
                                    : kind_ == workload_kind::latency_million
                                        ? all
                                        : std::min<std::uint64_t>(all / 4, 200'000);
        switch (pass) {
            // Of large blocks as many as are measured, for the heap must not grow then.
            case pass_kind::check:
                return is_large(kind_) || kind_ == workload_kind::idle_caches
                           ? all
                           : std::min<std::uint64_t>(all / 4, 200'000);
            case pass_kind::throughput: return all;
            case pass_kind::latency: return timed;
        }
        return 0;
    }

    void look_at_space(resting when, std::uint64_t live) {
        if (space_.made) {
            return;
        }
        if (when == resting::at_start) {
            space_.resident_before = resident_bytes();
            return;
        }
        // What a commit finds to be free begins to decay then.
        if (run_.rest_seconds != 0) {
            static_cast<void>(backend_.settled_bytes());
            std::this_thread::sleep_for(std::chrono::seconds(run_.rest_seconds));
        }
        space_.charged = backend_.settled_bytes();
        const std::uint64_t resident = resident_bytes();
        space_.resident = resident > space_.resident_before ? resident - space_.resident_before : 0;
        space_.live = live;
        space_.made = true;
    }

    pass_result oversee() {
        field_.reset();
        const protocol_totals before = backend_.totals();
        in_step_.arrive_and_wait();
        in_step_.arrive_and_wait();
        pass_result result = sum_of(parts_);
        result.before = before;
        result.after = backend_.totals();
        return result;
    }

    void run_thread(unsigned thread) {
        try {
            worker own(backend_, thread);
            for (const pass_kind pass : passes_) {
                in_step_.arrive_and_wait();
                run_pass(pass, own, thread);
                in_step_.arrive_and_wait();
            }
        } catch (const std::exception& failure) {
            // The other threads wait for this one, and the process exists for this run alone.
            fmt::print("{}\n", nlohmann::json{{"error", failure.what()}}.dump());
            std::fflush(stdout);
            std::_Exit(0);
        }
    }

    void run_pass(pass_kind pass, worker& own, unsigned thread) {
        pass_part& part = parts_[thread];
        const std::uint64_t calls = calls_of(pass);
        const std::int64_t preemptions = preemptions_of_this_thread();
        const std::int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        part.start_ns = clock_ns(CLOCK_MONOTONIC);
        if (pass == pass_kind::check && kind_ == workload_kind::application) {
            plain_caller<worker> caller(own);  // it has all of its blocks, and proves its answer
            part.calls = run_application(caller, field_, thread, calls);
            part.checksum = field_.answer_of(thread);
        } else if (pass == pass_kind::check) {
            checking_caller<worker> caller(own, field_.first());
            part.calls = run_workload(kind_, caller, field_, thread, calls);
            part.checksum = caller.checksum();
        } else if (pass == pass_kind::throughput) {
            plain_caller<worker> caller(own);
            part.calls = run_workload(kind_, caller, field_, thread, calls);
        } else {
            timing_caller<worker> caller(own, part.histogram);
            part.calls = run_workload(kind_, caller, field_, thread, calls);
        }
        part.end_ns = clock_ns(CLOCK_MONOTONIC);
        part.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        part.preemptions = preemptions_of_this_thread() - preemptions;
    }

    const allocation_run& run_;
    workload_kind kind_;
    space_found space_;
    Backend backend_;
    allocation_field<typename worker::destination> field_;
    std::vector<pass_part> parts_;
    std::vector<pass_kind> passes_;
    std::barrier<> in_step_;
};

template <allocation_backend Backend>
[[nodiscard]] nlohmann::ordered_json run_allocations(const allocation_run& run) {
    // On the heap: a histogram a thread is too much for a stack.
    return std::make_unique<allocation_runner<Backend>>(run)->measure();
}

}  // namespace bench
