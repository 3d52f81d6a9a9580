// The atomic interface of PMDK's libpmemobj: pmemobj_alloc and pmemobj_free write the PMEMoid, which lies in the pool,
// and are all or nothing. A batch is one call after the other.
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "allocators/pmemobj_functions.hpp"
#include "allocators/runner.hpp"
#include "allocators/volatile_memory.hpp"
#include "support/environment.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ

namespace bench {

namespace {

/// On files without DAX (tmpfs), libpmem would call msync for each flush. Forced, it executes flushes and fences as on
/// persistent memory, as the domain `emulated` does; also for page-cache, for which it has no mode.
bool force_flushes(const allocation_run& run) {
    const bool forced = run.domain == "emulated" || run.domain == "page-cache";
    if (forced) {
        ::setenv("PMEM_IS_PMEM_FORCE", "1", 1);
    } else {
        ::unsetenv("PMEM_IS_PMEM_FORCE");
    }
    return forced;
}

class libpmemobj_backend {
public:
    class worker : public one_by_one<worker> {
    public:
        using destination = PMEMoid;

        worker(libpmemobj_backend& backend, unsigned /*thread*/)
            : functions_(backend.functions_), pool_(backend.pool_) {}
        void allocate(destination& one, std::size_t size) {
            if (functions_.allocate(pool_, &one, size, 0, nullptr, nullptr) != 0) [[unlikely]] {
                throw std::bad_alloc();
            }
        }
        void release(destination& one) { functions_.release(&one); }
        [[nodiscard]] static bool is_null(const destination& one) noexcept { return one.off == 0; }
        [[nodiscard]] void* block(const destination& one) const { return functions_.direct(one); }

    private:
        pmemobj_functions functions_;
        PMEMobjpool* pool_;
    };

    explicit libpmemobj_backend(const allocation_run& run)
        : forced_(force_flushes(run)),
          library_("libpmemobj.so.1", "libpmemobj-dev"),
          functions_(library_),
          path_(std::filesystem::path(run.directory) / "pool") {
        const allocation_demand demand = demand_of(run);
        // Headers, chunks of 256 KiB of each class and arena, and what a class wastes.
        const std::uint64_t constant = is_large(workload_of(run.workload)) ? large_constant : small_constant;
        const std::uint64_t bytes = constant + demand.bytes * 2 + demand.destinations * sizeof(PMEMoid);
        pool_ = functions_.create(path_.c_str(), "holdfast-bench", bytes, 0600);
        if (pool_ == nullptr) {
            throw std::runtime_error(fmt::format("pmemobj_create: {}", functions_.error_message()));
        }
        // Zeroed by the library; a line more, for the boundary.
        const PMEMoid root = functions_.root(pool_, demand.destinations * sizeof(PMEMoid) + line_bytes);
        if (root.off == 0) {
            throw std::runtime_error(fmt::format("pmemobj_root: {}", functions_.error_message()));
        }
        void* place = functions_.direct(root);
        std::size_t room = demand.destinations * sizeof(PMEMoid) + line_bytes;
        std::align(line_bytes, demand.destinations * sizeof(PMEMoid), place, room);
        destinations_ = static_cast<PMEMoid*>(place);
    }
    libpmemobj_backend(const libpmemobj_backend&) = delete;
    libpmemobj_backend& operator=(const libpmemobj_backend&) = delete;
    ~libpmemobj_backend() {
        if (pool_ != nullptr) {
            functions_.close(pool_);
        }
    }
    [[nodiscard]] PMEMoid* destinations() const noexcept { return destinations_; }
    [[nodiscard]] static std::string durability() { return "atomic"; }
    [[nodiscard]] std::string domain() const { return forced_ ? "emulated" : "detect"; }
    [[nodiscard]] static protocol_totals totals() noexcept { return {}; }
    [[nodiscard]] std::uint64_t charged_bytes() const { return bench::charged_bytes(path_); }
    /// The whole pool is allocated from the start; it takes what was touched.
    [[nodiscard]] static std::optional<std::uint64_t> settled_bytes() noexcept { return std::nullopt; }
    [[nodiscard]] static double finish() noexcept { return 0; }

private:
    static constexpr std::size_t line_bytes = 64;
    static constexpr std::uint64_t small_constant = std::uint64_t{64} << 20U;
    /// Blocks of up to 256 KiB come from runs of several chunks, of each class and arena.
    static constexpr std::uint64_t large_constant = std::uint64_t{512} << 20U;

    bool forced_;
    shared_library library_;
    pmemobj_functions functions_;
    std::filesystem::path path_;
    PMEMobjpool* pool_ = nullptr;
    PMEMoid* destinations_ = nullptr;
};

}  // namespace

nlohmann::ordered_json run_libpmemobj_allocations(const allocation_run& run) {
    return run_allocations<libpmemobj_backend>(run);
}

}  // namespace bench

#else

namespace bench {

nlohmann::ordered_json run_libpmemobj_allocations(const allocation_run& /*run*/) {
    throw backend_unavailable("this build has no libpmemobj: install libpmemobj-dev and configure again");
}

}  // namespace bench

#endif
