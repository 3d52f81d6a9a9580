// Holdfast, by its public headers alone: in durability `atomic` its calls change destinations in the heap; in `commit`,
// as with volatile allocators, callers store the address themselves, in ordinary memory.
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <holdfast/manager.hpp>

#include "allocators/holdfast_heap.hpp"
#include "allocators/runner.hpp"
#include "allocators/volatile_memory.hpp"
#include "support/environment.hpp"
#include "support/samples.hpp"

namespace bench {

namespace {

using word = holdfast::ptr<std::byte>;

class atomic_worker {
public:
    using destination = word;

    explicit atomic_worker(holdfast::manager& heap) : heap_(heap) {}
    void allocate(word& one, std::size_t size) { heap_.allocate_to(one, size); }
    void release(word& one) { heap_.free_from(one); }
    void allocate_batch(std::span<word* const> many, std::size_t size) { heap_.allocate_batch(many, size); }
    void release_batch(std::span<word* const> many) { heap_.free_batch(many); }
    [[nodiscard]] static bool is_null(const word& one) noexcept { return one == nullptr; }
    [[nodiscard]] static void* block(const word& one) noexcept { return one.get(); }

private:
    holdfast::manager& heap_;
};

class commit_worker : public one_by_one<commit_worker> {
public:
    using destination = void*;

    explicit commit_worker(holdfast::manager& heap) : heap_(heap) {}
    void allocate(destination& one, std::size_t size) { one = heap_.allocate(size); }
    void release(destination& one) {
        heap_.deallocate(one);
        one = nullptr;
    }
    [[nodiscard]] static bool is_null(const destination& one) noexcept { return one == nullptr; }
    [[nodiscard]] static void* block(const destination& one) noexcept { return one; }

private:
    holdfast::manager& heap_;
};

/// Eight destinations; an array of these begins on a cache line's boundary.
struct alignas(64) destination_line {
    word words[8];
};

/// Worker: what calls of one durability are like.
template <class Worker>
class holdfast_backend {
public:
    using destination = typename Worker::destination;
    class worker : public Worker {
    public:
        worker(holdfast_backend& backend, unsigned /*thread*/) : Worker(*backend.heap_) {}
    };

    explicit holdfast_backend(const allocation_run& run) : run_(run) {
        const std::string path = (std::filesystem::path(run.directory) / "bench.hf").string();
        const holdfast::open_options options = heap_options_of(run);
        const allocation_demand demand = demand_of(run);
        const std::uint64_t bytes = (std::uint64_t{32} << 20U) + demand.bytes + demand.destinations * sizeof(word);
        // Made large enough, so that growth is not measured (unless it or space is), and with durable destinations: by
        // a commit, whatever the durability afterwards.
        if (run.cold || measures_space(workload_of(run.workload))) {
            heap_.emplace(holdfast::create_only, path);
        } else {
            heap_.emplace(holdfast::create_only, path, static_cast<std::size_t>(bytes));
        }
        if constexpr (in_heap) {
            make_destinations(path, options, demand.destinations);
        } else {
            heap_->close(true);
            heap_.emplace(holdfast::open_only, path, options);
            elsewhere_.emplace(demand.destinations);
            destinations_ = elsewhere_->first();
        }
        if (run.domain == "dax" && heap_->domain() != "dax" && heap_->domain() != "eadr") {
            throw std::runtime_error("the domain of " + path + " is " + heap_->domain() + ", not dax");
        }
    }
    [[nodiscard]] destination* destinations() const noexcept { return destinations_; }
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
    static constexpr bool in_heap = std::is_same_v<destination, word>;

    void make_destinations(const std::string& path, const holdfast::open_options& options, std::size_t count) {
        destination_bytes_ = count * sizeof(word);
        heap_->construct<destination_line>("destinations")[count / 8]();
        heap_->close(true);
        heap_.emplace(holdfast::open_only, path, options);
        destinations_ = heap_->find<destination_line>("destinations").first->words;
    }

    const allocation_run& run_;
    std::optional<holdfast::manager> heap_;
    std::optional<volatile_destinations> elsewhere_;
    destination* destinations_ = nullptr;
    std::uint64_t destination_bytes_ = 0;
};

}  // namespace

nlohmann::ordered_json run_holdfast_allocations(const allocation_run& run) {
    return run.durability == "atomic" ? run_allocations<holdfast_backend<atomic_worker>>(run)
                                      : run_allocations<holdfast_backend<commit_worker>>(run);
}

}  // namespace bench
