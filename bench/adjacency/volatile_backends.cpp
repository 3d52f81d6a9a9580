// Two that keep nothing: the standard containers, and Boost's with the default allocator (to tell the difference
// between the containers from that between the allocators).
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include <boost/container/vector.hpp>
#include <boost/unordered_map.hpp>

#include "adjacency/adjacency.hpp"

namespace bench {

namespace {

template <class Map>
class volatile_backend {
public:
    using map_type = Map;
    static constexpr bool is_durable = false;

    explicit volatile_backend(const adjacency_workload& /*workload*/) {}

    [[nodiscard]] std::span<map_type> create_banks(std::size_t banks) {
        banks_ = std::vector<map_type>(banks);
        return banks_;
    }
    [[nodiscard]] std::allocator<std::uint64_t> list_allocator() const noexcept { return {}; }
    void make_durable() const noexcept {}
    [[nodiscard]] std::span<map_type> reopen(std::size_t /*banks*/) { return banks_; }
    [[nodiscard]] std::uint64_t charged_bytes() const noexcept { return 0; }

private:
    std::vector<map_type> banks_;
};

using std_map = std::unordered_map<std::uint64_t, std::vector<std::uint64_t>>;
using boost_list = boost::container::vector<std::uint64_t, std::allocator<std::uint64_t>>;
using boost_map =
    boost::unordered_map<std::uint64_t, boost_list, std::hash<std::uint64_t>, std::equal_to<std::uint64_t>,
                         std::allocator<std::pair<const std::uint64_t, boost_list>>>;

}  // namespace

adjacency_outcome run_std(const adjacency_workload& workload) {
    return run_adjacency<volatile_backend<std_map>>(workload);
}
adjacency_outcome run_boost_volatile(const adjacency_workload& workload) {
    return run_adjacency<volatile_backend<boost_map>>(workload);
}

}  // namespace bench
