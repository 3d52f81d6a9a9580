// Holdfast, through its public headers alone.
//
// HOLDFAST_HAS_ATOMIC says whether the library has the durability `atomic` and its functions (allocate_to, free_from,
// counters). Without, the durability `commit` is measured with allocate() and deallocate(), and a store to the
// destination.
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include <holdfast/manager.hpp>

#include "allocators/runner.hpp"
#include "allocators/volatile_memory.hpp"
#include "support/environment.hpp"
#include "support/samples.hpp"

#ifndef HOLDFAST_HAS_ATOMIC
#define HOLDFAST_HAS_ATOMIC 0
#endif

namespace bench {

namespace {

using word = holdfast::ptr<std::byte>;

#if HOLDFAST_HAS_ATOMIC

class heap_worker {
public:
    using destination = word;

    explicit heap_worker(holdfast::manager& heap) : heap_(heap) {}
    void allocate(word& one, std::size_t size) { heap_.allocate_to(one, size); }
    void release(word& one) { heap_.free_from(one); }
    void allocate_batch(std::span<word* const> many, std::size_t size) { heap_.allocate_batch(many, size); }
    void release_batch(std::span<word* const> many) { heap_.free_batch(many); }

private:
    holdfast::manager& heap_;
};

protocol_totals totals_of(const holdfast::manager& heap) {
    const holdfast::protocol_counters counters = heap.counters();
    return {.known = true,
            .durable_records = counters.durable_records,
            .fences = counters.fences,
            .lines_flushed = counters.lines_flushed,
            .reflushes = counters.reflushes,
            .media_bytes = counters.media_bytes,
            .checkpoints = counters.checkpoints,
            .longest_checkpoint_ns = counters.longest_checkpoint_ns};
}

holdfast::open_options options_of(const allocation_run& run) {
    using domain_choice = holdfast::open_options::domain_choice;
    holdfast::open_options options;
    options.commit_on_close = false;
    if (run.durability != "atomic") {
        return options;
    }
    options.durability = holdfast::durability::atomic;
    options.domain = run.domain == "emulated"     ? domain_choice::emulated
                     : run.domain == "page-cache" ? domain_choice::page_cache
                                                  : domain_choice::detect;
    // `dax` insists: found to be page-cache, the open fails and says so.
    options.accept_process_crash_only = run.domain == "page-cache" || run.domain == "detect";
    return options;
}

#else

class heap_worker : public one_by_one<heap_worker> {
public:
    using destination = word;

    explicit heap_worker(holdfast::manager& heap) : heap_(heap) {}
    void allocate(word& one, std::size_t size) { one = static_cast<std::byte*>(heap_.allocate(size)); }
    void release(word& one) {
        heap_.deallocate(one.get());
        one = nullptr;
    }

private:
    holdfast::manager& heap_;
};

protocol_totals totals_of(const holdfast::manager& /*heap*/) { return {}; }

holdfast::open_options options_of(const allocation_run& run) {
    if (run.durability == "atomic") {
        throw backend_unavailable("this build of Holdfast has no durability atomic: take --durability commit");
    }
    holdfast::open_options options;
    options.commit_on_close = false;
    return options;
}

#endif

/// Eight destinations; an array of these begins on a cache line's boundary.
struct alignas(64) destination_line {
    word words[8];
};

class holdfast_backend {
public:
    class worker : public heap_worker {
    public:
        worker(holdfast_backend& backend, unsigned /*thread*/) : heap_worker(*backend.heap_) {}
        [[nodiscard]] static bool is_null(const word& one) noexcept { return one == nullptr; }
        [[nodiscard]] static void* block(const word& one) noexcept { return one.get(); }
    };

    explicit holdfast_backend(const allocation_run& run) : run_(run) {
        const std::string path = (std::filesystem::path(run.directory) / "bench.hf").string();
        const holdfast::open_options options = options_of(run);
        const allocation_demand demand = demand_of(run);
        const std::uint64_t bytes = (std::uint64_t{32} << 20U) + demand.bytes + demand.destinations * sizeof(word);
        // Made large enough, so that growth is not measured (unless space is), and with durable destinations: by a
        // commit, whatever the durability afterwards.
        if (measures_space(workload_of(run.workload))) {
            heap_.emplace(holdfast::create_only, path);
        } else {
            heap_.emplace(holdfast::create_only, path, static_cast<std::size_t>(bytes));
        }
        destination_bytes_ = demand.destinations * sizeof(word);
        heap_->construct<destination_line>("destinations")[demand.destinations / 8]();
        heap_->close(true);
        heap_.emplace(holdfast::open_only, path, options);
        destinations_ = heap_->find<destination_line>("destinations").first->words;
        if (run.domain == "dax" && heap_->domain() != "dax" && heap_->domain() != "eadr") {
            throw std::runtime_error("the domain of " + path + " is " + heap_->domain() + ", not dax");
        }
    }
    [[nodiscard]] word* destinations() const noexcept { return destinations_; }
    [[nodiscard]] std::string durability() const { return run_.durability; }
    [[nodiscard]] std::string domain() const { return heap_->domain(); }
    [[nodiscard]] protocol_totals totals() const { return totals_of(*heap_); }
    [[nodiscard]] std::uint64_t charged_bytes() const { return bench::charged_bytes(heap_->path()); }
    [[nodiscard]] std::optional<std::uint64_t> settled_bytes() {
        if (run_.durability == "commit") {
            heap_->commit();
        }
        return charged_bytes() - destination_bytes_;
    }
    [[nodiscard]] double finish() {
        if (!heap_->check_sanity()) {
            throw std::logic_error("the heap fails its own check after the benchmark");
        }
        if (run_.durability != "commit") {
            return 0;
        }
        const stopwatch committing;
        heap_->commit();
        return committing.milliseconds();
    }

private:
    const allocation_run& run_;
    std::optional<holdfast::manager> heap_;
    word* destinations_ = nullptr;
    std::uint64_t destination_bytes_ = 0;
};

}  // namespace

nlohmann::ordered_json run_holdfast_allocations(const allocation_run& run) {
    return run_allocations<holdfast_backend>(run);
}

const char* holdfast_durability() noexcept { return HOLDFAST_HAS_ATOMIC != 0 ? "atomic" : "commit"; }

}  // namespace bench
