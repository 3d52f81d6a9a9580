// Boost.Interprocess: managed_mapped_file with its default algorithm, rbtree_best_fit, behind one lock. It does not
// grow: the file is large enough from the start, and sparse. Nothing in it survives a crash for certain.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <boost/interprocess/managed_mapped_file.hpp>
#include <boost/interprocess/offset_ptr.hpp>

#include "allocators/runner.hpp"
#include "allocators/volatile_memory.hpp"
#include "support/environment.hpp"

namespace bench {

namespace {

namespace ipc = boost::interprocess;

class interprocess_backend {
public:
    class worker : public one_by_one<worker> {
    public:
        using destination = ipc::offset_ptr<std::byte>;

        worker(interprocess_backend& backend, unsigned /*thread*/) : file_(backend.file_) {}
        void allocate(destination& one, std::size_t size) { one = static_cast<std::byte*>(file_.allocate(size)); }
        void release(destination& one) {
            file_.deallocate(one.get());
            one = nullptr;
        }
        [[nodiscard]] static bool is_null(const destination& one) noexcept { return one == nullptr; }
        [[nodiscard]] static void* block(const destination& one) noexcept { return one.get(); }

    private:
        ipc::managed_mapped_file& file_;
    };

    explicit interprocess_backend(const allocation_run& run)
        : demand_(demand_of(run)),
          path_(std::filesystem::path(run.directory) / "interprocess"),
          file_(ipc::create_only, path_.c_str(), constant_bytes + demand_.bytes * spare + destination_bytes()) {
        void* place = file_.allocate_aligned(destination_bytes(), line_bytes);
        destinations_ = static_cast<worker::destination*>(place);
        std::uninitialized_value_construct_n(destinations_, demand_.destinations);
    }
    [[nodiscard]] worker::destination* destinations() const noexcept { return destinations_; }
    [[nodiscard]] static std::string durability() { return "none"; }
    [[nodiscard]] static std::string domain() { return "page-cache"; }
    [[nodiscard]] static protocol_totals totals() noexcept { return {}; }
    [[nodiscard]] std::uint64_t charged_bytes() const { return bench::charged_bytes(path_); }
    [[nodiscard]] std::optional<std::uint64_t> settled_bytes() const { return charged_bytes() - destination_bytes(); }
    [[nodiscard]] double finish() {
        if (!file_.check_sanity()) {
            throw std::logic_error("the file fails its own check after the benchmark");
        }
        return 0;
    }

private:
    static constexpr std::size_t line_bytes = 64;
    static constexpr std::uint64_t constant_bytes = std::uint64_t{64} << 20U;
    static constexpr std::uint64_t spare = 2;

    [[nodiscard]] std::uint64_t destination_bytes() const noexcept {
        return demand_.destinations * sizeof(worker::destination);
    }

    allocation_demand demand_;
    std::filesystem::path path_;
    ipc::managed_mapped_file file_;
    worker::destination* destinations_ = nullptr;
};

}  // namespace

nlohmann::ordered_json run_interprocess_allocations(const allocation_run& run) {
    return run_allocations<interprocess_backend>(run);
}

}  // namespace bench
