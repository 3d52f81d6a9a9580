// Holdfast: its own containers, as a user takes them, in a heap that grows by itself.
#include <functional>
#include <optional>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "adjacency/adjacency.hpp"
#include "support/environment.hpp"

namespace bench {

namespace {

class holdfast_backend {
public:
    using list_type = holdfast::vector<std::uint64_t>;
    using map_type = holdfast::unordered_map<std::uint64_t, list_type>;
    static constexpr bool is_durable = true;

    explicit holdfast_backend(const adjacency_workload& workload)
        : path_((workload.directory / "graph.hf").string()), heap_(std::in_place, holdfast::create_only, path_) {}

    [[nodiscard]] std::span<map_type> create_banks(std::size_t banks) {
        return {heap_->construct<map_type>("banks")[banks](heap_->get_allocator<std::byte>()), banks};
    }
    [[nodiscard]] holdfast::allocator<std::uint64_t> list_allocator() const {
        return heap_->get_allocator<std::uint64_t>();
    }
    void make_durable() { heap_->commit(); }
    [[nodiscard]] std::span<map_type> reopen(std::size_t /*banks*/) {
        heap_->close(false);
        heap_.emplace(holdfast::open_only, path_);
        const auto [first, count] = heap_->find<map_type>("banks");
        return {first, count};
    }
    [[nodiscard]] std::uint64_t charged_bytes() const { return bench::charged_bytes(path_); }

private:
    std::string path_;
    std::optional<holdfast::manager> heap_;
};

}  // namespace

adjacency_outcome run_holdfast(const adjacency_workload& workload) { return run_adjacency<holdfast_backend>(workload); }

}  // namespace bench
