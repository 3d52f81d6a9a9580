// Boost.Interprocess: the same Boost containers, in a managed_mapped_file that is large enough from the start (sparse).
#include <functional>
#include <optional>
#include <utility>

#include <boost/container/vector.hpp>
#include <boost/interprocess/allocators/allocator.hpp>
#include <boost/interprocess/managed_mapped_file.hpp>
#include <boost/unordered_map.hpp>

#include "adjacency/adjacency.hpp"
#include "support/environment.hpp"

namespace bench {

namespace {

namespace ipc = boost::interprocess;

class interprocess_backend {
public:
    template <class T>
    using allocator = ipc::allocator<T, ipc::managed_mapped_file::segment_manager>;
    using list_type = boost::container::vector<std::uint64_t, allocator<std::uint64_t>>;
    using map_type =
        boost::unordered_map<std::uint64_t, list_type, std::hash<std::uint64_t>, std::equal_to<std::uint64_t>,
                             allocator<std::pair<const std::uint64_t, list_type>>>;
    static constexpr bool is_durable = true;

    explicit interprocess_backend(const adjacency_workload& workload)
        : path_(workload.directory / "interprocess"),
          file_(std::in_place, ipc::create_only, path_.c_str(), workload.file_bytes) {}

    [[nodiscard]] std::span<map_type> create_banks(std::size_t banks) {
        return {file_->construct<map_type>("banks")[banks](allocator<std::byte>(file_->get_segment_manager())), banks};
    }
    [[nodiscard]] allocator<std::uint64_t> list_allocator() const {
        return allocator<std::uint64_t>(file_->get_segment_manager());
    }
    /// flush() of Boost.Interprocess 1.81 is msync(MS_ASYNC), which waits for nothing; a sync waits for the media.
    void make_durable() {
        file_->flush();
        sync_file(path_);
    }
    [[nodiscard]] std::span<map_type> reopen(std::size_t /*banks*/) {
        file_.emplace(ipc::open_only, path_.c_str());
        const auto [first, count] = file_->find<map_type>("banks");
        return {first, count};
    }
    [[nodiscard]] std::uint64_t charged_bytes() const { return bench::charged_bytes(path_); }

private:
    std::filesystem::path path_;
    mutable std::optional<ipc::managed_mapped_file> file_;
};

}  // namespace

adjacency_outcome run_interprocess(const adjacency_workload& workload) {
    return run_adjacency<interprocess_backend>(workload);
}

}  // namespace bench
